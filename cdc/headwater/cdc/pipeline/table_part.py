"""What a batch commits to one table of the lake."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.catalog.table.upkeep import THIS_PROCESS
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.batch_part import BatchPart
from headwater.cdc.pipeline.key_reads import missing_in_source, read_again
from headwater.cdc.pipeline.log_rows import LogRows, ReadAgainError
from headwater.cdc.pipeline.log_tasks import is_large, write_log_rows
from headwater.cdc.pipeline.null_dates import check_null_dates
from headwater.cdc.pipeline.range_feed import RangeFeed
from headwater.cdc.pipeline.range_tasks import TaskFeed
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.sink.row_mapping import RowMapping, row_schema, with_kind
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.storage.errors import Unsupported
from headwater.storage.jobs.executor import ParallelExecutor
from headwater.storage.jobs.stepped_write import SteppedWrite, can_be_shared
from headwater.storage.rows.kinds import RowKind

__all__ = ["TablePart"]


class TablePart(BatchPart):
    """The rows of a table in a batch: of ranges, then of the log, then of single keys.

    It is written by a thread while ranges are read; `close` gives it the log's rows, and only then
    is it committed.

    Args:
        table: The lake's table.
        source: The source.
        source_table: The source's table.
        mapping: How its rows become the lake's.
        seen: The position that reads of the source must have seen: where the batch begins.
        feed: Ranges that are read for it.
        deletes: Whether keys of the lake that the source lacks are deleted.
        executor: Runs tasks elsewhere; None does all the work in this process.
        settings: The pipeline's.

    Attributes:
        ahead: A position that has all that was seen of single keys; None if none was read.
        range_rows, log_rows: How many rows of ranges, and of the log, were written.
    """

    def __init__(
        self,
        table: Table,
        source: Source,
        source_table: SourceTable,
        mapping: RowMapping,
        settings: PipelineSettings,
        *,
        seen: Position,
        feed: RangeFeed | TaskFeed | None = None,
        deletes: bool = False,
        executor: ParallelExecutor | None = None,
    ) -> None:
        super().__init__(table)
        self.feed, self.deletes = feed, deletes
        self._source, self._mapping = source, mapping
        self._source_table, self._settings = source_table, settings
        self._seen, self._executor = seen, executor
        self._schema = row_schema(mapping.source)
        self.log_rows = self.range_rows = 0

    def abort(self) -> None:
        """End it without a commit, and the reading of its ranges."""
        super().abort()
        if self.feed is not None:
            self.feed.abort()

    def commit(self, user: str, number: int, properties: Callable[[], Mapping[str, str]]) -> int:
        """Write the rows and commit them, once; see `BatchPart.commit`."""
        if self.feed is None:
            self._wait_until_closed()
        # What tasks wrote is compacted by tasks; the rest takes less time than their start.
        uses_tasks = isinstance(self.feed, TaskFeed) or self._has_large_log
        executor = self._executor if uses_tasks else None
        try:
            self._table.write_steps(
                self._write,
                commit_user=user,
                commit_identifier=number,
                properties=properties,
                executor=executor or THIS_PROCESS,
            )
        finally:
            if self.feed is not None:
                self.feed.abort()
        return self.range_rows + self.log_rows

    def _check_rows_before(self) -> None:
        """Check that the log has what a changelog is made of."""
        if not all(run.has_rows_before for run in self._runs):
            raise Unsupported(
                f"table {self._table.name} has changelog-producer=input, and the log of "
                f"{self._mapping.source.name} lacks rows as they were before updates (on "
                "PostgreSQL it and each of its partitions need REPLICA IDENTITY FULL); choose "
                "lookup or full-compaction and read the table again: headwater cdc resnapshot "
                f"{self._mapping.source.name}"
            )

    def _check_identity(self) -> None:
        """Check that the log has the keys that rows had in the lake."""
        if self._mapping.has_source_key:
            return
        name = self._mapping.source.name
        if self._keys is not None:
            raise ReadAgainError(f"table {name}: foreign keys changed rows; it is read again")
        if not all(run.has_rows_before for run in self._runs):
            raise Unsupported(
                f"table {name}: its key in the lake ({', '.join(self._mapping.target.primary_key)})"
                " has more columns than at the source, and the log lacks rows as they were before: "
                f"ALTER TABLE {name} REPLICA IDENTITY FULL, and each of its partitions, and read "
                f"the table again: headwater cdc resnapshot {name}"
            )

    def _write(self, steps: SteppedWrite) -> None:
        """Write the rows of ranges, then those of the log, then those of single keys."""
        if isinstance(self.feed, TaskFeed):
            self.feed.write(steps)
            self.range_rows = self.feed.result().rows
        elif self.feed is not None:
            for batch in self.feed.batches():
                self.range_rows += batch.num_rows
                rows = with_kind(batch, RowKind.INSERT, self._schema)
                self._write_batch(steps, self._mapping.rows(rows))
        self._wait_until_closed()
        if self.deletes:
            for batch in missing_in_source(
                self._source, self._table, self._source_table, self._mapping, self._seen
            ):
                self._write_batch(steps, batch)
        unclear = self._write_log_rows(steps)
        if self._keys is not None:
            unclear.append(self._keys.cast(_key_schema(self._mapping.source)))
        if unclear:
            for batch in self._rows_of_keys(pa.concat_tables(unclear)):
                self._write_batch(steps, batch)

    def _rows_of_keys(self, keys: pa.Table) -> Generator[pa.RecordBatch]:
        assert self._end is not None
        self.ahead = yield from read_again(
            self._source,
            self._source_table,
            self._mapping,
            keys,
            self._end,
            self._settings.bad_dates,
        )

    @property
    def _has_large_log(self) -> bool:
        """Whether the log's rows are worth tasks, and tasks can write them."""
        has_tasks = self._executor is not None and can_be_shared(self._table.storage)
        return has_tasks and is_large(self._runs, self._settings)

    def _write_log_rows(self, steps: SteppedWrite) -> list[pa.Table]:
        """Write the log's rows; the keys of those that it has in part only."""
        is_input = self._table.schema.options.get("changelog-producer") == "input"
        if is_input:
            self._check_rows_before()
        self._check_identity()
        log_rows = LogRows(
            self._mapping.source,
            self._runs,
            self._settings.bad_dates,
            keeps_before=is_input,
            identity=self._mapping.identity,
            deletes_by_key=not self._mapping.layout.own_columns,
            completes=self._source.logs_cascades,
        )
        log_rows.check()
        if self._executor is not None and self._has_large_log:
            outcome = write_log_rows(
                steps, self._mapping, self._runs, self._settings, self._executor
            )
            self.log_rows = outcome.rows
            return list(outcome.unclear_keys)
        for batch in log_rows.batches():
            self._write_batch(steps, self._mapping.rows(batch))
        self.log_rows = log_rows.rows
        return log_rows.unclear_keys

    def _write_batch(self, steps: SteppedWrite, batch: pa.RecordBatch) -> None:
        steps.write(check_null_dates(batch, self._mapping.source, self._settings.bad_dates))


def _key_schema(table: SourceTable) -> pa.Schema:
    schema = row_schema(table)
    return pa.schema([schema.field(name) for name in table.primary_key])
