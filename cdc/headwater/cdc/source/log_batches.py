"""Changes of followed tables between two positions of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.ddl import Change, Syntax
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.source.positions import Position

__all__ = [
    "BatchDeadline",
    "BatchLimits",
    "LogBatch",
    "LogReader",
    "LoggedRows",
    "TableRows",
    "XaEnd",
    "slab_parts",
]


@dataclass(frozen=True)
class BatchLimits:
    """When a batch ends; always after a whole transaction.

    Attributes:
        seconds: The time to collect transactions.
        bytes: The bytes of followed tables' rows in the log.
        quiet_seconds: How long to wait for the first change of a followed table, if that is longer.
        min_seconds: How long to go on after a first change that was waited for so; None is
            `seconds`.
        idle_seconds: How long nothing comes until a batch with such a change ends before that; None
            for no such end.
        end: A position that the log has, which the batch does not pass; where sources keep their
            log (`Source.keeps_log`).
    """

    seconds: float = 5.0
    bytes: int = 128 << 20
    quiet_seconds: float = 0.0
    min_seconds: float | None = None
    idle_seconds: float | None = None
    end: Position | None = None


class BatchDeadline:
    """When a batch ends that is collected now, by its limits of time.

    Args:
        limits: The limits.
        now: The time in seconds.

    Attributes:
        seconds: Until when to wait for the next transaction.
    """

    def __init__(self, limits: BatchLimits, now: Callable[[], float] = monotonic) -> None:
        self._limits, self._now, self._begun = limits, now, now()
        self._waits = limits.quiet_seconds > limits.seconds
        self._last: float | None = None
        self.seconds = self._begun + max(limits.seconds, limits.quiet_seconds)

    def add_change(self) -> None:
        """Take note of a transaction with a change, or of one after it."""
        limits = self._limits
        if not self._waits:
            return
        now, least = self._now(), self._begun + limits.seconds
        if self._last is None:
            seconds = limits.seconds if limits.min_seconds is None else limits.min_seconds
            self._last = max(least, now + seconds)
        self.seconds = self._last
        if limits.idle_seconds is not None:
            self.seconds = min(self._last, max(least, now + limits.idle_seconds))


@dataclass(frozen=True)
class LoggedRows:
    """Decoded rows of one table, in the order of the log.

    Attributes:
        rows: The table's columns in their order, in the lake's types. A column that a partial image
            does not have is null.
        kinds: The row kind of each row, as ``int8`` (`RowKind`). The row after an update follows
            the one before it.
        column_sets: The columns that rows have, by name, one set for each kind of partial image.
        column_set: The index in `column_sets` of each row, as ``int32``; None where every row has
            every column.
        left_out: How many rows before updates were left out.
    """

    rows: pa.Table
    kinds: pa.Array
    column_sets: Sequence[Collection[str]] = ()
    column_set: pa.Array | None = None
    left_out: int = 0


class TableRows(Protocol):
    """Rows of a table in one shape, in the order of the log, as the log has them.

    They pickle, wherever their bytes are.
    """

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns that the log has."""

    @property
    def has_rows_before(self) -> bool:
        """Whether the log has rows as they were before updates, and all columns of deleted ones."""

    @property
    def size(self) -> int:
        """Their bytes in the log."""

    def parts(self, size: int) -> Iterator[TableRows]:
        """The rows in parts of at least some bytes, in their order; no update is divided."""

    def decoded(
        self, table: SourceTable, bad_dates: BadDates, changed: Sequence[str] = ()
    ) -> Iterator[LoggedRows]:
        """Decode the rows.

        Args:
            table: The table, with the types that its columns have in the lake; its columns are
                those of the log.
            bad_dates: What to do with dates that the lake does not have.
            changed: Rows before updates that change none of these columns may be left out; without
                columns all rows are there.

        Raises:
            CorruptData, Invalid, Unsupported: A value cannot be in the lake.
        """


class _Slab(Protocol):
    """Rows of a log whose bytes are kept together."""

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where the rows of each event end, bytes."""


_AnySlab = TypeVar("_AnySlab", bound=_Slab)


def slab_parts(slabs: Iterable[_AnySlab], size: int) -> Iterator[list[_AnySlab]]:
    """Divide rows into parts of at least some bytes, which are whole slabs."""
    part: list[_AnySlab] = []
    part_size = 0
    for slab in slabs:
        part.append(slab)
        part_size += int(slab.ends[-1])
        if part_size >= size:
            yield part
            part, part_size = [], 0
    if part:
        yield part


@dataclass(frozen=True)
class XaEnd:
    """The end of an XA transaction, or of its first phase.

    Attributes:
        xid: Its identifier, as the log writes it.
        tables: The followed tables that it changed, where it was prepared; None is any table.
        committed: Whether it was committed or rolled back; None where it was prepared.
    """

    xid: str
    tables: frozenset[TableName | None] = frozenset()
    committed: bool | None = None


@dataclass
class LogBatch:
    """Changes of followed tables between two positions.

    Attributes:
        start: The position that it begins after.
        end: The position of its last transaction.
        rows: The rows of each table, by shape where that changed.
        changes: What a statement changed: it is a batch of its own.
        statement: The statement's text.
        syntax: How its session writes statements.
        strict: Whether its session rejects nulls in a column that becomes NOT NULL.
        explicit_timestamps: Whether a TIMESTAMP without NULL or NOT NULL takes nulls in its
            session; None if not known.
        faults: Tables whose rows cannot be read, with the reason.
        rereads: Tables whose rows changed in a way that the log does not say, with the reason; None
            is all tables.
        xa: Phases of XA transactions, in order.
        source_time: When the last transaction was written, ms since 1970; 0 without one.
        transactions: How many transactions, also of other tables.
        size: Bytes of followed tables' rows.
        ended: Whether the log ended, where its reader does not wait.
    """

    start: Position
    end: Position
    rows: dict[TableName, list[TableRows]] = field(default_factory=dict)
    changes: Sequence[Change] = ()
    statement: str = ""
    syntax: Syntax = field(default_factory=Syntax)
    strict: bool = False
    explicit_timestamps: bool | None = None
    faults: dict[TableName, str] = field(default_factory=dict)
    rereads: dict[TableName | None, str] = field(default_factory=dict)
    xa: list[XaEnd] = field(default_factory=list)
    source_time: int = 0
    transactions: int = 0
    size: int = 0
    ended: bool = False

    @property
    def has_content(self) -> bool:
        """Whether it changes anything of followed tables."""
        return bool(self.rows or self.changes or self.faults or self.rereads or self.xa)


class LogReader(Protocol):
    """Reads a log, batch by batch."""

    @property
    def position(self) -> Position:
        """The end of the last batch."""

    def follow(
        self,
        tables: Mapping[TableName, int | None],
        known: Callable[[TableName], SourceTable | None] = lambda _: None,
    ) -> None:
        """Choose the tables whose rows the next batch has, among those that are selected.

        Args:
            tables: The tables with the numbers that they keep, where the source has such.
            known: Tables as they are known; None where that is not so.
        """

    def read_batch(
        self, limits: BatchLimits, should_end: Callable[[], bool] = lambda: False
    ) -> LogBatch:
        """Read transactions until a limit is reached.

        Args:
            limits: The limits.
            should_end: Whether to end the batch now; asked when nothing comes for a while.

        Returns:
            A batch, perhaps an empty one.

        Raises:
            CorruptData, Unsupported: The log cannot be read.
            NotFound: It was purged.
            Unavailable: The connection is lost.
        """

    def read_until(self, end: Position) -> LogBatch:
        """Read exactly the transactions up to a position, however long that takes.

        Raises:
            Conflict: The log has no such position, so that it is another one.
            Unavailable: The log ended before.
            As `read_batch`.
        """

    def read_on(
        self, batch: LogBatch, end: Position, seconds: float
    ) -> frozenset[TableName | None] | None:
        """Read on to exactly a position that the log has, within the batch that was read last.

        Args:
            batch: The batch; it has no statement.
            end: The position.
            seconds: How long to wait for it.

        Returns:
            The tables that the transactions read now have changed, with None for any table; or None
            if the position was not reached, as a statement is before it or it did not come in time.

        Raises:
            As `read_batch`.
        """

    @property
    def log_file(self) -> str | None:
        """The part of the log that is read, by which the source knows its log again.

        None where positions say that, or before anything was read.
        """

    def lag_bytes(self) -> int | None:
        """How many bytes of the log are to be read; None if not known.

        Raises:
            Conflict: The source has begun another log.
            Unavailable: The connection is lost.
        """

    def confirm(self, position: Position) -> None:
        """Let the source forget its log until a position: nothing before it is read again."""

    def released(self) -> None:
        """Note that the rows of the batches before are not needed any more."""

    def close(self) -> None:
        """End the stream."""
