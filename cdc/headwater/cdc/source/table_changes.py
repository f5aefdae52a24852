"""A table after a statement of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.cdc.model.tables import SourceTable

__all__ = ["TableChanges"]


@dataclass(frozen=True)
class TableChanges:
    """A table after a statement.

    Attributes:
        table: The table.
        renames: The old and the new name of each renamed column; all happen at once.
        rereads: Why rows may have changed without events, so that the table must be read again;
            None if they cannot have.
        key_changed: Whether the primary key has other columns, or has them in another order.
        unknown: Why the place of this change does not tell what the table is; None if it does.
    """

    table: SourceTable
    renames: Sequence[tuple[str, str]] = ()
    rereads: str | None = None
    key_changed: bool = False
    unknown: str | None = None
