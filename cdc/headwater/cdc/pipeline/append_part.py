"""What a batch commits to a table of the lake whose source's table has no primary key."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from threading import Event

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.key_ranges import KeyRange, read_range
from headwater.cdc.mysql.positions import Position
from headwater.cdc.mysql.server import Address
from headwater.cdc.mysql.source import ConsistentRead
from headwater.cdc.mysql.transactions import TableRows
from headwater.cdc.pipeline.log_rows import LogRows, ReadAgainError
from headwater.cdc.pipeline.range_feed import RangeFeed
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.table_part import AbortedError
from headwater.cdc.sink.appended_rows import added_rows, appended_rows, appended_schema

__all__ = ["AppendPart"]

_OPEN_SECONDS = 0.2


class AppendPart:
    """The rows of a table in a batch: those of the log, or all rows of the source.

    Rows of the log are appended. All rows of the source replace what the lake's table has, so that
    an attempt that was given up leaves nothing, even if it is committed late.

    Args:
        table: The lake's table.
        address: The source.
        lake_table: The source's table, with the types that its columns have in the lake.
        settings: The pipeline's.
        snapshot: Sees the source's table as it is where the batch ends; None appends the log's
            rows.
    """

    feed: RangeFeed | None = None
    deletes = False
    ahead: Position | None = None

    def __init__(
        self,
        table: Table,
        address: Address,
        lake_table: SourceTable,
        settings: PipelineSettings,
        snapshot: ConsistentRead | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._table, self._address, self._lake_table = table, address, lake_table
        self._settings = settings
        self._closed, self._aborted = Event(), Event()
        self._runs: Sequence[TableRows] = ()
        self._reread: str | None = None
        self._rows = 0

    def close(self, runs: Sequence[TableRows], end: Position, keys: pa.Table | None = None) -> None:
        """Give it the log's rows; the batch is planned."""
        del end, keys
        self._runs = runs
        self._closed.set()

    def read_again(self, reason: str) -> None:
        """End it without a commit, as all of the table is read again."""
        self._reread = reason
        self._closed.set()

    def abort(self) -> None:
        """End it without a commit."""
        self._aborted.set()
        self._closed.set()

    def commit(self, user: str, number: int, properties: Callable[[], Mapping[str, str]]) -> int:
        """Write the rows and commit them, once.

        Returns:
            How many rows.

        Raises:
            ReadAgainError: The table must be read again.
            HeadwaterError: A value cannot be in the lake, or the lake or the source is not there.
        """
        while not self._closed.wait(_OPEN_SECONDS):
            pass
        self._check()
        schema = appended_schema(self._lake_table)
        write = self._table.write if self.snapshot is None else self._table.overwrite
        with closing(self._batches(schema)) as batches:
            reader = pa.RecordBatchReader.from_batches(schema, batches)
            write(reader, commit_user=user, commit_identifier=number, properties=properties)
        return self._rows

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        bad_dates = self._settings.bad_dates
        if self.snapshot is not None:
            connection = self.snapshot.server.connection
            for batch in read_range(
                connection, self._address, self._lake_table, KeyRange(), bad_dates
            ):
                self._check()
                self._rows += batch.num_rows
                yield added_rows(batch, schema)
            return
        log_rows = LogRows(self._lake_table, self._runs, bad_dates, keeps_before=True)
        log_rows.check()
        for batch in log_rows.batches():
            self._rows += batch.num_rows
            yield appended_rows(batch, schema)

    def _check(self) -> None:
        if self._aborted.is_set():
            raise AbortedError(f"table {self._table.name}: the batch was given up")
        if self._reread is not None:
            raise ReadAgainError(self._reread)
