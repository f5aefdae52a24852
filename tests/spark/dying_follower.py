"""A program that follows a table, and dies in its second batch: ``… LAKE CHECKPOINT POINT``.

The points are those of `POINTS`. All processes of Spark die at once, with no chance to tidy up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyspark.sql.types as st
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from headwater.catalog.table.pointer import CatalogPointer
from headwater.catalog.table.table import Table
from headwater.spark import connect, local_session
from headwater.spark.connection import Connection
from headwater.spark.data_source import HeadwaterSource, source_class
from headwater.spark.options import ReadOptions, WriteOptions
from headwater.spark.stream.read import StreamReader
from headwater.spark.write.tasks import StreamWriter, WrittenFiles
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics

POINTS = {
    "task-wrote": "a task has written its files",
    "before-commit": "all files are written, and nothing is decided",
    "decided": "the catalog has made the snapshot the latest",
    "committed": "the commit is done, and Spark has not noted the batch",
    "noted": "Spark has noted the batch, and the consumer has not moved",
    "between-writes": "a function of foreachBatch has done the first of its writes",
    "function-done": "a function of foreachBatch is done, and Spark has not noted the batch",
}
"""The points, and what has happened by then."""

_DEADLY_BATCH = 1


def _die(group: int) -> None:
    os.killpg(group, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class _DyingWriter(StreamWriter):
    def __init__(self, options: WriteOptions, point: str, group: int) -> None:
        super().__init__(options)
        self._point = point
        self._group = group

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        written = super().write(iterator)
        task = TaskContext.get()
        assert task is not None
        if task.getLocalProperty("streaming.sql.batchId") == str(_DEADLY_BATCH):
            self._die_at("task-wrote")
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId != _DEADLY_BATCH:
            super().commit(messages, batchId)
            return
        self._die_at("before-commit")
        decide = CatalogPointer.commit

        def decide_and_die(
            pointer: CatalogPointer,
            snapshot: Snapshot,
            base: Snapshot | None,
            statistics: Sequence[PartitionStatistics],
        ) -> CommitAnswer:
            answer = decide(pointer, snapshot, base, statistics)
            self._die_at("decided")
            return answer

        setattr(CatalogPointer, "commit", decide_and_die)  # noqa: B010
        super().commit(messages, batchId)
        self._die_at("committed")

    def _die_at(self, point: str) -> None:
        if self._point == point:
            _die(self._group)


class _DyingReader(StreamReader):
    def __init__(
        self,
        connection: Connection,
        options: ReadOptions,
        table: Table,
        schema: st.StructType,
        group: int,
    ) -> None:
        super().__init__(connection, options, table, schema)
        self._group = group

    def commit(self, end: Mapping[str, object]) -> None:
        if end["snapshotId"] == _DEADLY_BATCH + 2:
            _die(self._group)
        super().commit(end)


def _dying_source(connection: Connection, point: str, group: int) -> type[HeadwaterSource]:
    class Dying(source_class(connection)):  # type: ignore[misc]
        def streamWriter(self, schema: st.StructType, overwrite: bool) -> DataSourceStreamWriter:
            options = WriteOptions.parse(self._connection, self.options, overwrite)
            return _DyingWriter(options, point, group)

        def streamReader(self, schema: st.StructType) -> DataSourceStreamReader:
            options = ReadOptions.parse(self.options)
            table = self._table(options.table)
            if point != "noted":
                return StreamReader(self._connection, options, table, schema)
            return _DyingReader(self._connection, options, table, schema, group)

    return Dying


def main(folder: str, checkpoint: str, point: str) -> None:
    assert point in POINTS
    group = os.getpgid(0)
    spark = local_session(
        "dying",
        cores=1,
        memory="512m",
        settings={
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
        },
    )
    lake = connect(spark, folder)
    spark.dataSource.register(_dying_source(Connection(folder), point, group))
    stream = spark.readStream.format("headwater").options(
        **{
            "scan.mode": "from-snapshot",
            "scan.snapshot-id": "1",
            "read.stream.maxSnapshotsPerTrigger": "1",
            "consumer-id": "copy",
            "headwater.consumer.lease-time": "3 s",
        }
    )
    writer = stream.load("db.source").writeStream.trigger(availableNow=True)

    def function(df: DataFrame, batch_id: int) -> None:
        batch = lake.for_batch(batch_id)
        for number, part in enumerate((df.where("id % 2 = 0"), df.where("id % 2 = 1"))):
            batch.write(part, "db.target")
            if number == 0 and batch_id == _DEADLY_BATCH and point == "between-writes":
                _die(group)
        if batch_id == _DEADLY_BATCH and point == "function-done":
            _die(group)

    writer = writer.option("checkpointLocation", checkpoint)
    if point in ("between-writes", "function-done"):
        writer.foreachBatch(function).start().awaitTermination()
    else:
        writer.format("headwater").start("db.target").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
