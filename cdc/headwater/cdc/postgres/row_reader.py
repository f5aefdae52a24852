"""Connections that read a PostgreSQL database's rows at positions of its log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.consistent_reads import (
    ConsistentRead,
    LoggedTransactions,
    consistent_read,
)
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.server import PostgresServer
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import Tables

__all__ = ["PostgresRead", "PostgresRowReader"]


class PostgresRead:
    """A transaction that sees a table at one position; see `source.reads.ConsistentRead`."""

    def __init__(self, read: ConsistentRead, after: LogPosition) -> None:
        self._read, self._after = read, after

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined."""
        choices = [TypeMapping(name) for name in mapping]
        return read_tables(self._read.server, wanted, mapping=choices, without_key=without_key)

    def check(self, table: SourceTable) -> None:
        """See a table, check that it has the known columns, and keep them while it is read."""
        self._read.check(table)

    def key_ranges(
        self, table: SourceTable, rows: int, after: Bound | None = None
    ) -> Iterator[KeyRange]:
        """Divide a table."""
        return self._read.ranges(table, rows, after)

    def rows(
        self, table: SourceTable, part: KeyRange, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range."""
        return self._read.range(table, part, bad_dates)

    def rows_of_keys(
        self, table: SourceTable, keys: pa.Table, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of some keys."""
        return self._read.keys(table, keys, bad_dates)

    def settled(self) -> LogPosition:
        """A position that has all that the transaction sees."""
        return self._after.at(self._read.settled())


class PostgresRowReader:
    """A connection that reads rows, in one transaction after the other; see `RowReader`.

    Args:
        server: The connection.
        transactions: Which transactions may be in the log; None waits for all writers of a table.
    """

    def __init__(self, server: PostgresServer, transactions: LoggedTransactions | None) -> None:
        self._server, self._transactions = server, transactions

    @contextmanager
    def consistent_read(self, after: Position) -> Iterator[PostgresRead]:
        """See tables with all changes that were received up to a position."""
        assert isinstance(after, LogPosition)
        may_have = (lambda _: True) if self._transactions is None else self._transactions.may_have
        with consistent_read(self._server, after.lsn, may_have) as read:
            yield PostgresRead(read, after)
