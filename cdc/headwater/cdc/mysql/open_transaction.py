"""A transaction of MySQL's or MariaDB's log while it is read, with the rows that it has so far."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cdc.ddl import Change, DropDatabase, NotUnderstood, Syntax
from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.events import Event
from headwater.cdc.mysql.gtid_events import Beginning, TransactionId
from headwater.cdc.source.log_batches import XaEnd

__all__ = ["MappedTable", "OpenTransaction"]


class MappedTable:
    """What a TABLE_MAP event says, which the same bytes say again in later transactions.

    Attributes:
        number: The table's number, as rows events have it.
        name: The table; None if it is not selected.
        event: The event.
    """

    __slots__ = ("event", "name", "number")

    def __init__(self, number: bytes, name: TableName | None, event: Event) -> None:
        self.number, self.name, self.event = number, name, event


class OpenTransaction:
    """A transaction that is being read. Most have rows only: the rest is set if there is more."""

    statement = ""
    syntax, strict = Syntax(), False
    explicit_timestamps: bool | None = None
    xa: XaEnd | None = None
    changes: Sequence[Change] = ()
    size = timestamp = 0

    def __init__(self, beginning: Beginning) -> None:
        self.gtid: TransactionId
        self.gtid, self.has_end, self.phase = beginning
        # Rows events that follow each other: their table, their type, what they are in, and how
        # many there are.
        self.runs: list[tuple[MappedTable, int, memoryview, int]] = []
        # Where the body of each event begins and ends.
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.rereads: dict[TableName | None, str] = {}

    def row_tables(self) -> frozenset[TableName]:
        """The tables that it has rows of."""
        return frozenset(table.name for table, *_ in self.runs if table.name is not None)

    def drop_rows(self) -> None:
        """Have no rows any more."""
        self.runs.clear()
        self.starts.clear()
        self.ends.clear()

    def changed_tables(self) -> set[TableName | None]:
        """The tables that it changes, or may change; None is any table."""
        tables: set[TableName | None] = set(self.row_tables())
        tables |= self.rereads.keys()
        for change in self.changes:
            is_any = isinstance(change, DropDatabase)
            is_any |= isinstance(change, NotUnderstood) and change.any_table
            tables |= {None} if is_any else set(change.tables)
        return tables if self.xa is None else tables | self.xa.tables
