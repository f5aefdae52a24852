"""Follow what policies show of a table in a streaming query: the server reads each batch.

Positions are those of `StreamReader`, and an offset says by which policies the rows before it were
shown. The server plans, because the files are withheld; so no batch ends within a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql.datasource import InputPartition

from headwater.catalog.table.audit_log import AuditLog
from headwater.catalog.table.scan import Rows
from headwater.catalog.table.served_stream import ServedBatch, ServedStream
from headwater.spark.connection import Connection
from headwater.spark.options import ReadOptions
from headwater.spark.source.batch_read import SplitsPartition
from headwater.spark.stream.read import POLICIES, StreamReader
from headwater.spark.stream_options import SchemaChange
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.scan.split import Split
from headwater.storage.scan.stream import StreamPosition, after
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import Json

if TYPE_CHECKING:
    from headwater.catalog.table.table import Table

__all__ = ["ServedStreamReader"]


class ServedStreamReader(StreamReader):
    """Reads the changes of what the caller is shown, batch by batch.

    Args:
        connection, options, table, schema, view: As for `StreamReader`.

    Raises:
        Unsupported: An option needs what is not told of files that are withheld.
    """

    def __init__(
        self,
        connection: Connection,
        options: ReadOptions,
        table: Table,
        schema: st.StructType,
        view: type[AuditLog] | None = None,
    ) -> None:
        super().__init__(connection, options, table, schema, view)
        limits = options.stream.limits
        by_size = limits is not None and (limits.files or limits.size or limits.rows)
        if by_size or options.stream.least is not None:
            raise Unsupported(
                f"table {table.name}: policies restrict what you see of it, and the numbers of its "
                "rows, files and bytes are not told: limit the batches of the stream by "
                "read.stream.maxSnapshotsPerTrigger"
            )
        if self._bound is not None:
            raise Unsupported(
                f"table {table.name}: policies restrict what you see of it, and its stream does "
                "not end at a watermark: leave scan.bounded.watermark out"
            )
        self._logs = view is not None
        self._stream: ServedStream | None = table.served_stream(
            self._rows.columns, self._rows.predicate, row_kinds=self._rows.row_kinds
        )
        self._policies: str | None = None
        # True once the server has taken this query's policies for the present ones.
        self._is_welcome = False

    def __getstate__(self) -> dict[str, object]:
        # What tasks read comes with their partitions.
        return {**super().__getstate__(), "_stream": None}

    # On the driver ----------------------------------------------------------------------------

    def _position(self, offset: Mapping[str, object]) -> StreamPosition:
        policies = offset.get(POLICIES)
        if not isinstance(policies, str):
            raise Invalid(
                f"table {self._rows.storage.name}: policies restrict what you see of it, and "
                "restricted nothing when this query's checkpoint was written: start it with a new "
                "checkpoint, from a full read"
            )
        self._policies = policies
        return StreamPosition.from_json(offset)

    def _offset(self, position: StreamPosition) -> dict[str, Json]:
        return {**position.to_json(), POLICIES: self._policies}

    def _limited(
        self, position: StreamPosition, end: StreamPosition, newest: Snapshot | None
    ) -> StreamPosition:
        limits = self._options.stream.limits
        if limits is None or limits.snapshots is None or not position.changes:
            return end
        return min(end, StreamPosition(position.snapshot_id + limits.snapshots))

    def _end(self, position: StreamPosition) -> tuple[StreamPosition, Snapshot | None]:
        newest = self._last if self._target is not None else self._newest()
        reached = after(newest)
        is_all = reached == position and position.known == reached.known
        end = position if is_all and self._is_welcome else self._following(position)
        self._done(position)
        if self._target is not None:
            # What is committed from now on is for a query that begins later.
            end = max(position, min(end, self._target))
        return end, newest

    def _before_schema_change(
        self, position: StreamPosition, end: StreamPosition, newest: Snapshot | None
    ) -> StreamPosition:
        return self._following(position)

    def _following(self, position: StreamPosition) -> StreamPosition:
        stops = self._options.stream.schema_change is SchemaChange.STOP
        told = self._source().following(position, self._policies, to_schema_change=stops)
        self._is_welcome = True
        return told.end

    def _planned(self, first: StreamPosition, last: StreamPosition) -> list[InputPartition]:
        assert self._policies is not None, "an offset tells them"
        rows = self._source().changes(ServedBatch(first, last, self._policies))
        parts = 1 if first.changes else max(self._parallelism, 1)
        shown: Rows = rows.audit_log() if self._logs else rows
        return [_ServedPartition(shown, part) for part in rows.parts(parts)]

    def _resumed(self, newest: Snapshot | None, saved: StreamPosition) -> StreamPosition:
        return self._starting(self._source().following(saved, None))

    def _earliest(self, newest: Snapshot | None) -> StreamPosition:
        return self._starting(self._source().first(earliest=True))

    def _asked(self, newest: Snapshot | None) -> StreamPosition:
        return self._starting(self._source().first(self._options.start))

    def _starting(self, told: ServedBatch) -> StreamPosition:
        self._policies, self._is_welcome = told.policies, True
        return told.start

    def _source(self) -> ServedStream:
        assert self._stream is not None, "only the driver plans"
        return self._stream

    # In tasks ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's part, which the server reads."""
        if not isinstance(partition, _ServedPartition):
            return
        arrow = spark_arrow_schema(self._schema)
        for batch in partition.rows.read_split(partition.part):
            yield conform(batch, arrow)


class _ServedPartition(SplitsPartition):
    """A part of a batch, with the way to its rows.

    Args:
        rows: The rows of the batch.
        part: The part.
    """

    def __init__(self, rows: Rows, part: Split) -> None:
        super().__init__([part])
        self.rows = rows
        self.part = part
