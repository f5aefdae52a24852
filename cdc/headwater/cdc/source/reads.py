"""Reads of a source's tables as they are at one position."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import Position

__all__ = ["ConsistentRead", "RemoteReads", "RowReader", "Tables"]


@dataclass(frozen=True)
class Tables:
    """The tables of a source that its user sees, without views and the source's own.

    Attributes:
        followed: Those that can be followed.
        findings: The others, each with the reason.
        notes: What the lake does not have of tables that are followed.
        awaited: Those that can be followed later, each with what it waits for; see
            `Source.publish`.
    """

    followed: Sequence[SourceTable]
    findings: Sequence[Finding]
    notes: Sequence[Finding] = ()
    awaited: Mapping[TableName, str] = field(default_factory=dict)


class ConsistentRead(Protocol):
    """A transaction that sees the source at one position."""

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined; see `Source.tables`."""

    def check(self, table: SourceTable) -> None:
        """Check that a table has the known columns, and keep them while it is read.

        Raises:
            Conflict: It has others.
        """

    def key_ranges(
        self,
        table: SourceTable,
        rows: int,
        after: Bound | None = None,
        until: Bound | None = None,
    ) -> Iterator[KeyRange]:
        """Divide a table, whose rows others may change meanwhile.

        Args:
            table: The table.
            rows: How many rows a range has when its bound is asked for.
            after: The upper bound of the last range that was read.
            until: Where the last range ends; None is the table's end.

        Yields:
            The ranges, in their order.
        """

    def rows(
        self, table: SourceTable, part: KeyRange, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range.

        Args:
            table: The table, with the types that its columns have in the lake; its columns are
                selected by name.
            part: The range.
            bad_dates: What to do with dates that the lake does not have.

        Yields:
            Rows with the table's columns, in the lake's types.

        Raises:
            Invalid: A value cannot be in the lake, or the table's columns have changed.
            Unavailable: The connection is lost.
        """

    def rows_of_keys(
        self, table: SourceTable, keys: pa.Table, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that the source has of some keys.

        Args:
            table, bad_dates: As for `rows`.
            keys: The keys, in the lake's types. Keys that differ in their bytes are different ones,
                also where a collation has them equal.

        Yields:
            Rows with the table's columns, in the lake's types.

        Raises:
            Invalid: A key or a value cannot be in the table of its side, a key is longer than the
                source takes, or the table's columns have changed.
            Unavailable: The connection is lost.
            Unsupported: A column of the key cannot be compared exactly.
        """

    def settled(self) -> Position:
        """A position that has all that the transaction sees, and statements about its tables."""


class RowReader(Protocol):
    """A connection that reads rows, in one transaction after the other."""

    def consistent_read(self, after: Position) -> AbstractContextManager[ConsistentRead]:
        """See the source at one position, which has all transactions of another one.

        Args:
            after: The position that is to be seen at least.

        Raises:
            Unavailable: The source does not reach it, or cannot be reached.
        """


class RemoteReads(Protocol):
    """Reads of a source's rows in another process, to which it is sent; it pickles.

    It has the password, which no representation of it shows.
    """

    def row_reader(self) -> AbstractContextManager[RowReader]:
        """A connection for consistent reads.

        Raises:
            Forbidden: The source rejects the user or the password.
            Unavailable: It cannot be reached from here.
        """
