"""Repair of a catalog behind a server, which is not offered."""

from __future__ import annotations

from headwater.catalog.model.repair import Adoption
from headwater.storage.errors import Unsupported

__all__ = ["RestStorageRepair"]


class RestStorageRepair:
    """Implements `headwater.catalog.model.repair.StorageRepair` by saying where it can be done."""

    def adopt(
        self, database: str | None = None, table: str | None = None, *, dry_run: bool = False
    ) -> Adoption:
        """Refuse; raises Unsupported."""
        raise Unsupported(
            "a repair looks at the warehouse's files and changes the catalog's database, which a "
            "server does not do for its clients: run 'headwater repair' with --catalog "
            "DATABASE-URL and --location where both can be reached"
        )
