"""Dropped tables that can be restored, until their time is up or somebody purges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page

__all__ = ["DroppedTableInfo", "DroppedTables"]


@dataclass(frozen=True)
class DroppedTableInfo:
    """A table that was dropped and is still whole.

    Attributes:
        id: Its UUID. Several dropped tables may have been called the same.
        identifier: The table's name when it was dropped.
        path: The URI of its files.
        dropped_at: The time it was dropped, milliseconds since the epoch.
        dropped_by: The principal who dropped it; None if unknown.
        kept_until: The end of its retention; None when the catalog keeps dropped tables no
            longer, and the next sweep purges it.
    """

    id: str
    identifier: Identifier
    path: str
    dropped_at: int
    dropped_by: str | None = None
    kept_until: int | None = None


class DroppedTables(Protocol):
    """The dropped tables of one warehouse.

    A restored table is the one it was: its id, snapshots, branches, tags and consumers with it.
    """

    def list(
        self,
        *,
        database: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[DroppedTableInfo]:
        """The tables that can be restored, by database, name and id, of one database if given."""
        ...

    def restore(self, table_id: str, destination: Identifier | None = None) -> Identifier:
        """Undo a drop.

        Args:
            table_id: The table's id.
            destination: The table's new name; by default its old one.

        Returns:
            What it is called now.

        Raises:
            NotFound: There is no such dropped table (TABLE), or the database it should be in does
                not exist (DATABASE).
            AlreadyExists: The name is taken; restore it under another.
        """
        ...

    def purge(self, table_id: str) -> None:
        """Delete a dropped table and, unless it is external, its files; NotFound (TABLE)."""
        ...
