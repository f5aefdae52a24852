"""The executor that runs a job's tasks as Spark's."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from headwater.spark.errors import own_errors
from headwater.storage.errors import HeadwaterError, Unavailable

__all__ = ["SparkExecutor"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class SparkExecutor:
    """Implements `headwater.storage.jobs.executor.Executor`: each task is one of a Spark job.

    An error that a repetition would not mend ends its task only, so that the results of the others
    arrive. Anything else is Spark's to try again; when it gives up, the results of the job are
    lost, and what its other tasks wrote stays behind without a snapshot that names it.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task; the results come when all are done, and then the first error."""
        if not tasks:
            return

        def perform(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for text in batch.column(0).to_pylist():
                    done = pickle.dumps(_outcome(work, pickle.loads(text)))
                    yield pa.record_batch([pa.array([done], pa.binary())], names=["outcome"])

        rows = [(number, pickle.dumps(task)) for number, task in enumerate(tasks)]
        with own_errors():
            listed = self._spark.createDataFrame(rows, "number INT, task BINARY")
            spread = listed.repartitionById(len(rows), sf.col("number")).select("task")
            answers = spread.mapInArrow(perform, "outcome BINARY").collect()
        failure: HeadwaterError | None = None
        for answer in answers:
            result, error = pickle.loads(bytes(answer["outcome"]))
            if error is None:
                yield result
            else:
                failure = failure or error
        if failure is not None:
            raise failure


def _outcome(
    work: Callable[[Task], Result], task: Task
) -> tuple[Result | None, HeadwaterError | None]:
    """The result of a task or its error."""
    try:
        return work(task), None
    except Unavailable:
        raise
    except HeadwaterError as error:
        return None, error
