"""What a batch commits to a table of the lake whose source's table has no primary key."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.pipeline.batch_part import BatchPart
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.sink.appended_rows import added_rows, appended_rows, appended_schema
from headwater.cdc.sink.row_mapping import RowMapping
from headwater.cdc.source.key_ranges import KeyRange
from headwater.cdc.source.reads import ConsistentRead

__all__ = ["AppendPart"]


class AppendPart(BatchPart):
    """The rows of a table in a batch: those of the log, or all rows of the source.

    Rows of the log are appended. All rows of the source replace what the lake's table has, so that
    an attempt that was given up leaves nothing, even if it is committed late.

    Args:
        table: The lake's table.
        mapping: How rows of the source's table become the lake's.
        settings: The pipeline's.
        snapshot: Sees the source's table as it is where the batch ends; None appends the log's
            rows.
    """

    def __init__(
        self,
        table: Table,
        mapping: RowMapping,
        settings: PipelineSettings,
        snapshot: ConsistentRead | None = None,
    ) -> None:
        super().__init__(table)
        self.snapshot = snapshot
        self._mapping, self._settings = mapping, settings
        self._rows = 0

    def commit(self, user: str, number: int, properties: Callable[[], Mapping[str, str]]) -> int:
        """Write the rows and commit them, once; see `BatchPart.commit`."""
        self._wait_until_closed()
        schema = appended_schema(self._mapping.target)
        write = self._table.write
        if self.snapshot is not None:
            # Also of partitions that have no rows any more.
            write = partial(self._table.overwrite, dynamic=False)
        with closing(self._batches(schema)) as batches:
            reader = pa.RecordBatchReader.from_batches(schema, batches)
            write(reader, commit_user=user, commit_identifier=number, properties=properties)
        return self._rows

    def _batches(self, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        bad_dates = self._settings.bad_dates
        if self.snapshot is not None:
            for batch in self.snapshot.rows(self._mapping.source, KeyRange(), bad_dates):
                self._wait_until_closed()
                self._rows += batch.num_rows
                yield added_rows(self._mapping.rows(batch), schema)
            return
        log_rows = LogRows(self._mapping.source, self._runs, bad_dates, keeps_before=True)
        log_rows.check()
        for batch in log_rows.batches():
            self._rows += batch.num_rows
            yield appended_rows(self._mapping.rows(batch), schema)
