"""Full compaction by Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.errors import own_errors
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.compaction.rewrite import CompactionTask, plan_compaction, run_compaction
from headwater.storage.errors import Conflict, HeadwaterError
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["compact"]

_TRIES = 3


def compact(
    spark: SparkSession, table: Table, partition: Mapping[str, object] | None
) -> Snapshot | None:
    """As `Table.compact`, with each piece of work in a task of its own."""
    wanted = PartitionFilter.static(table.storage, partition or {})
    tries = _TRIES
    while True:
        base = table.pointer.latest()
        planned = [] if base is None else plan_compaction(table.storage, base)
        tasks = [task for task in planned if wanted.includes(task.partition)]
        if not tasks:
            return None
        with own_errors():
            messages = _run(spark, table.storage, tasks)
        commit = TableCommit(table.storage, table.pointer, table.storage.runtime.new_uuid())
        try:
            return commit.commit(messages)
        except OutcomeUnknown:
            raise
        except HeadwaterError as error:
            commit.abort(messages)
            tries -= 1
            if not isinstance(error, Conflict) or not tries:
                raise


def _run(
    spark: SparkSession, storage: TableStorage, tasks: Sequence[CompactionTask]
) -> list[CommitMessage]:
    """What the tasks did.

    When one fails for good, what others wrote stays behind, and no snapshot names it.
    """

    def rewrite(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                message = run_compaction(storage, pickle.loads(text))
                done = [] if message is None else [pickle.dumps(message)]
                yield pa.record_batch([pa.array(done, pa.binary())], names=["message"])

    # The largest first, so that they do not end last.
    ordered = sorted(tasks, key=lambda task: -task.size)
    rows = [(number, pickle.dumps(task)) for number, task in enumerate(ordered)]
    work = spark.createDataFrame(rows, "number INT, task BINARY")
    spread = work.repartitionById(len(rows), sf.col("number")).select("task")
    answers = spread.mapInArrow(rewrite, "message BINARY").collect()
    return [pickle.loads(bytes(answer["message"])) for answer in answers]
