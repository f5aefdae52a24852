"""The executor that runs a job's tasks as Spark's."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from headwater.spark.errors import first_line, own_errors
from headwater.spark.session import ended_by_interrupt, is_connect
from headwater.storage.errors import HeadwaterError, Unavailable, Unsupported

__all__ = ["SparkExecutor"]

_OUTCOME = "outcome BINARY"
# Bytes of tasks times tasks up to which each task gets all: Spark then spreads numbers, for which
# it exchanges no rows.
_SENT_BYTES = 1 << 22
_MAX_AT_ONCE = 1 << 16

_MISSING = re.compile(r"^ModuleNotFoundError: No module named '(?P<name>[^']+)'", re.MULTILINE)

Task = TypeVar("Task")
Result = TypeVar("Result")


class SparkExecutor:
    """Implements `headwater.storage.jobs.executor.ParallelExecutor`: each task is one of a job.

    An error that a repetition would not mend ends its task only, so that the results of the others
    arrive. Anything else is Spark's to try again; when it gives up, the results of the job are
    lost, and what its other tasks wrote stays behind without a snapshot that names it.

    Args:
        spark: The session.
        at_once: Tasks that run at the same time, at most; as many as Spark has cores unless given.
    """

    def __init__(self, spark: SparkSession, at_once: int | None = None) -> None:
        self._spark = spark
        self._at_once = at_once

    @cached_property
    def at_once(self) -> int:
        """How many tasks run at once, at most."""
        if self._at_once is not None:
            return self._at_once
        if not is_connect(self._spark):
            return int(self._spark.sparkContext.defaultParallelism)
        # A server of Spark Connect does not say it otherwise.
        numbers = self._spark.range(0, _MAX_AT_ONCE).select(sf.spark_partition_id())
        return int(numbers.distinct().count())

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task; the results come when all are done, and then the first error.

        Raises:
            Unavailable: Spark lost tasks, and gave up trying them again.
            Unsupported: The executors' Python lacks a module.
        """
        if not tasks:
            return

        pickled = [pickle.dumps(task) for task in tasks]
        parts = min(len(pickled), self._at_once or len(pickled))
        with _lost_tasks(), own_errors(), ended_by_interrupt(self._spark):
            if sum(map(len, pickled)) * len(pickled) <= _SENT_BYTES:
                numbers = self._spark.range(0, len(pickled), 1, parts)
                frame = numbers.mapInArrow(partial(_performed, work, pickled), _OUTCOME)
            else:
                numbers_of_tasks = pa.array(range(len(pickled)), pa.int32())
                # Each in a column's chunk of its own: together they may be too large for one.
                column = pa.chunked_array([pa.array([task], pa.binary()) for task in pickled])
                listed = self._spark.createDataFrame(
                    pa.table([numbers_of_tasks, column], ["number", "task"])
                )
                spread = listed.repartitionById(
                    parts, sf.pmod(sf.col("number"), sf.lit(parts))
                ).select("task")
                frame = spread.mapInArrow(partial(_performed, work, None), _OUTCOME)
            answers = frame.collect()
        failure: HeadwaterError | None = None
        for answer in answers:
            result, error = pickle.loads(bytes(answer["outcome"]))
            if error is None:
                yield result
            else:
                failure = failure or error
        if failure is not None:
            raise failure


@contextmanager
def _lost_tasks() -> Iterator[None]:
    """Raise as Headwater's own what executors do to tasks: they lack a module, or end with them."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        missing = _MISSING.search(text)
        if missing is not None:
            raise Unsupported(
                f"the Python of Spark's executors lacks the module '{missing['name']}'; install "
                "Headwater there with the extras that this program uses"
            ) from error
        if "Job aborted" not in text or "Traceback" in text:
            raise
        raise Unavailable(
            f"Spark lost tasks and gave up: {first_line(error)}; check its executors and their "
            "memory"
        ) from error


def _performed(
    work: Callable[[Task], Result],
    pickled: Sequence[bytes] | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The outcomes of tasks, which are given, or whose numbers are, in the only column."""
    for batch in batches:
        for given in batch.column(0).to_pylist():
            text = given if pickled is None else pickled[given]
            done = pickle.dumps(_outcome(work, pickle.loads(text)))
            yield pa.record_batch([pa.array([done], pa.binary())], names=["outcome"])


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
