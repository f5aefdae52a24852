"""Changes of followed tables between two positions of a log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.ddl import Change
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.positions import LogPosition

__all__ = ["BatchLimits", "LogBatch", "LoggedRows", "TableRows"]


@dataclass(frozen=True)
class BatchLimits:
    """When a batch ends; always after a whole transaction.

    Attributes:
        seconds: The time to collect transactions.
        bytes: The bytes of followed tables' rows in the log.
        quiet_seconds: How long to wait for the first change of a followed table, if that is longer;
            `seconds` begin with it.
    """

    seconds: float = 5.0
    bytes: int = 128 << 20
    quiet_seconds: float = 0.0


@dataclass(frozen=True)
class LoggedRows:
    """Decoded rows of one table, in the order of the log.

    Attributes:
        rows: The table's columns in their order, in the lake's types. A column that a row does not
            have is null.
        kinds: The row kind of each row, as ``int8`` (`RowKind`). The row after an update follows
            the one before it, where the log has that.
        column_sets: The columns that rows have, by name.
        column_set: The index in `column_sets` of each row, as ``int32``; None where every row has
            every column.
    """

    rows: pa.Table
    kinds: pa.Array
    column_sets: Sequence[Collection[str]] = ()
    column_set: pa.Array | None = None


class TableRows(Protocol):
    """Rows of a table in one shape, in the order of the log, as the log has them."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns that the log has."""

    def decoded(self, table: SourceTable, bad_dates: BadDates) -> Iterator[LoggedRows]:
        """Decode the rows.

        Args:
            table: The table, with the types that its columns have in the lake.
            bad_dates: What to do with dates that the lake does not have.

        Raises:
            CorruptData, Invalid, Unsupported: A value cannot be in the lake.
        """


@dataclass
class LogBatch:
    """Changes of followed tables between two positions.

    Attributes:
        start: The position that it begins after.
        end: The position that it ends with.
        rows: The rows of each table, by shape where that changed.
        changes: What happens to tables before the transaction after `end`: a batch of its own, with
            nothing else in it.
        faults: Tables whose rows cannot be read, with the reason.
        rereads: Tables whose rows changed in a way that the log does not say, with the reason.
        source_time: When the last transaction was committed, ms since 1970; 0 without one.
        transactions: How many transactions, also of other tables.
        size: Bytes of followed tables' rows.
        ended: Whether the server has ended the log, as it does when it is shut down.
    """

    start: LogPosition
    end: LogPosition
    rows: dict[TableName, list[TableRows]] = field(default_factory=dict)
    changes: Sequence[Change] = ()
    faults: dict[TableName, str] = field(default_factory=dict)
    rereads: dict[TableName | None, str] = field(default_factory=dict)
    source_time: int = 0
    transactions: int = 0
    size: int = 0
    ended: bool = False

    @property
    def has_content(self) -> bool:
        """Whether it changes anything of followed tables."""
        return bool(self.rows or self.changes or self.faults or self.rereads)
