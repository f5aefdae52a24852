"""What a batch commits to one table of the lake."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from headwater.catalog.table.table import Table
from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.batch_part import BatchPart
from headwater.cdc.pipeline.key_reads import missing_in_source, read_again
from headwater.cdc.pipeline.log_rows import LogRows, row_schema, with_kind
from headwater.cdc.pipeline.range_feed import RangeFeed
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
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
        lake_table: The same, with the types that its columns have in the lake.
        seen: The position that reads of the source must have seen: where the batch begins.
        feed: Ranges that are read for it.
        deletes: Whether keys of the lake that the source lacks are deleted.
        settings: The pipeline's.

    Attributes:
        ahead: A position that has all that was seen of single keys; None if none was read.
    """

    def __init__(
        self,
        table: Table,
        source: Source,
        source_table: SourceTable,
        lake_table: SourceTable,
        settings: PipelineSettings,
        *,
        seen: Position,
        feed: RangeFeed | None = None,
        deletes: bool = False,
    ) -> None:
        super().__init__(table)
        self.feed, self.deletes = feed, deletes
        self._source, self._lake_table = source, lake_table
        self._source_table, self._settings = source_table, settings
        self._seen = seen
        self.log_rows: LogRows | None = None
        self.range_rows = 0

    def abort(self) -> None:
        """End it without a commit, and the reading of its ranges."""
        super().abort()
        if self.feed is not None:
            self.feed.abort()

    def commit(self, user: str, number: int, properties: Callable[[], Mapping[str, str]]) -> int:
        """Write the rows and commit them, once; see `BatchPart.commit`."""
        schema = row_schema(self._lake_table)
        try:
            with closing(self._batches(schema)) as batches:
                checked = map(self._check_nulls, batches)
                reader = pa.RecordBatchReader.from_batches(schema, checked)
                self._table.write(
                    reader, commit_user=user, commit_identifier=number, properties=properties
                )
        finally:
            if self.feed is not None:
                self.feed.abort()
        return self.range_rows + (self.log_rows.rows if self.log_rows is not None else 0)

    def _check_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Check that NOT NULL columns have no dates that became null."""
        if self._settings.bad_dates is BadDates.FAIL:
            return batch
        for column in self._lake_table.columns:
            values = batch.column(column.name)
            if column.type.nullable or not values.null_count:
                continue
            # Deleted rows have their key alone.
            is_deleted = pc.equal(batch.column(ROW_KIND_COLUMN), RowKind.DELETE)
            if values.filter(pc.invert(is_deleted)).null_count:
                raise Invalid(
                    f"column '{column.name}' of type {column.source_type} is NOT NULL and has "
                    "dates that the lake does not have, which cannot become null; choose "
                    "to-nullable among the type mappings and read the table again (headwater cdc "
                    f"resnapshot {self._lake_table.name} --replace), or write real dates at the "
                    "source"
                )
        return batch

    def _check_rows_before(self) -> None:
        """Check that the log has what a changelog is made of."""
        if not all(run.has_rows_before for run in self._runs):
            raise Unsupported(
                f"table {self._table.name} has changelog-producer=input, and the log of "
                f"{self._lake_table.name} lacks rows as they were before updates; choose lookup or "
                "full-compaction and read the table again: headwater cdc resnapshot "
                f"{self._lake_table.name}"
            )

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        if self.feed is not None:
            for batch in self.feed.batches():
                self.range_rows += batch.num_rows
                yield with_kind(batch, RowKind.INSERT, schema)
        self._wait_until_closed()
        if self.deletes:
            yield from missing_in_source(
                self._source, self._table, self._source_table, self._lake_table, self._seen
            )
        options = self._table.schema.options
        if options.get("changelog-producer") == "input":
            self._check_rows_before()
        log_rows = self.log_rows = LogRows(
            self._lake_table,
            self._runs,
            self._settings.bad_dates,
            keeps_before=options.get("changelog-producer") == "input",
        )
        log_rows.check()
        yield from log_rows.batches()
        unclear = log_rows.unclear_keys
        if self._keys is not None:
            unclear.append(self._keys.cast(_key_schema(self._lake_table)))
        if unclear:
            assert self._end is not None
            keys = pa.concat_tables(unclear)
            self.ahead = yield from read_again(
                self._source,
                self._source_table,
                self._lake_table,
                keys,
                self._end,
                self._settings.bad_dates,
            )


def _key_schema(table: SourceTable) -> pa.Schema:
    schema = row_schema(table)
    return pa.schema([schema.field(name) for name in table.primary_key])
