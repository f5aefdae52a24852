"""Tables whose definition was found to be another one, where no statement in the log says so."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.cdc.ddl.changes import Change
from headwater.cdc.model.tables import Finding, SourceTable, TableName

__all__ = ["Described", "Redefinition", "Unlogged"]


@dataclass(frozen=True, slots=True)
class Redefinition(Change):
    """A table that was asked for, and has another definition than it is known with.

    Attributes:
        definition: The table now.
    """

    definition: SourceTable

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The table."""
        return (self.definition.name,)


@dataclass(frozen=True, slots=True)
class Unlogged(Change):
    """A table whose changes are not all in the log any more.

    Attributes:
        table: The table.
        finding: What keeps them out of it.
    """

    table: TableName
    finding: Finding

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The table."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class Described(Change):
    """A table as the log describes it, where the source cannot be asked for its tables.

    Attributes:
        table: The table.
        definition: The table with its columns; or why it cannot be followed.
    """

    table: TableName
    definition: SourceTable | Finding

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The table."""
        return (self.table,)
