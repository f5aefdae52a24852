"""Rows that a change computes once and keeps in Spark's executors.

They are kept where they were computed: no place that all executors reach is asked of users. An
executor that dies takes its part with it, and Spark, which has forgotten how to compute it, fails
the change before anything is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.session import ended_by_interrupt
from headwater.storage.errors import Unavailable

__all__ = ["kept_rows", "with_kept_rows"]

Result = TypeVar("Result")

# Spark's name of the error about a part of such rows that is gone.
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
# As often as Spark tries a task unless told otherwise (`spark.task.maxFailures`).
_ATTEMPTS = 4


def kept_rows(session: CatalogSession, frame: DataFrame) -> DataFrame:
    """A frame's rows, computed now and once, also when a task that needs them is run again.

    The frame itself where statements are explained and not run.
    """
    if session.explains is not None:
        return frame
    with own_errors(), ended_by_interrupt(frame.sparkSession):
        return frame.localCheckpoint()


def with_kept_rows(table: str, change: Callable[[], Result]) -> Result:
    """Run a change from its beginning, and again when executors took rows with them that it kept.

    Args:
        table: The table's name in error messages.
        change: Computes what is to be kept, and commits at its end if at all.

    Raises:
        Unavailable: Executors were lost each time; nothing is committed.
    """
    for _ in range(_ATTEMPTS):
        try:
            return change()
        except (PySparkException, Py4JJavaError) as error:
            if _LOST not in str(error):
                raise
            lost = error
    raise Unavailable(
        f"table {table}: nothing was committed: executors that kept rows of the change were lost "
        f"{_ATTEMPTS} times in a row; run it again, with executors that stay (Spark's "
        "spark.executor.memory, spark.executor.memoryOverhead) or over fewer rows"
    ) from lost
