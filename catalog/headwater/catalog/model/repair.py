"""Taking over what storage has and the catalog does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier

__all__ = ["Adoption", "RepairFinding", "StorageRepair"]


@dataclass(frozen=True)
class RepairFinding:
    """Something that storage has and the catalog does not know.

    Attributes:
        table: The table or branch.
        what: The thing: ``table``, ``branch b``, ``schema 3``, ``snapshot 7``.
        refused: The reason that it cannot be taken over, and what to do; None when it can be.
    """

    table: Identifier
    what: str
    refused: str | None = None

    def __str__(self) -> str:
        found = f"{self.table}: {self.what}"
        return found if self.refused is None else f"{found}: {self.refused}"


@dataclass(frozen=True)
class Adoption:
    """The outcome of a repair, or with a dry run of what one would do.

    Attributes:
        adopted: The findings that were taken over, in this order.
        refused: The findings that could not be.
    """

    adopted: tuple[RepairFinding, ...]
    refused: tuple[RepairFinding, ...]


class StorageRepair(Protocol):
    """Takes over what other writers left on storage without asking the catalog."""

    def adopt(
        self, database: str | None = None, table: str | None = None, *, dry_run: bool = False
    ) -> Adoption:
        """Take over tables, branches, schemas and snapshots that the catalog does not know.

        Other writers must have stopped. What it has taken over it does not find again.

        Args:
            database: Only this database; None is all of them.
            table: Only this table of it.
            dry_run: Only say what would be taken over.

        Raises:
            NotFound: There is no such database (DATABASE); or no such table, be it in the catalog
                or on storage (TABLE).
            Unsupported: The catalog is reached through a server.
        """
        ...
