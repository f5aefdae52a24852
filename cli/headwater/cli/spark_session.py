"""The Spark session that a command's tasks run in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headwater.cli.extras import require
from headwater.storage.errors import Unavailable

if TYPE_CHECKING:
    from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["spark_executor"]


@contextmanager
def spark_executor(master: str | None, command: str) -> Iterator[ParallelExecutor | None]:
    """The executor of a Spark session, which ends with the block if it began here.

    What Spark logs is left out, as its errors are raised.

    Args:
        master: Where Spark is, as `session_at` takes it; None makes no executor.
        command: The command, for messages and as the application's name.

    Raises:
        Invalid: There is no Java, or the master is not one that Spark knows.
        Unavailable: Spark does not start there, or has ended.
        Unsupported: The extra ``spark`` is not installed.
    """
    if master is None:
        yield None
        return
    require("spark-connect" if master.startswith("sc://") else "spark", f"{command} --spark")
    # Here, as Spark takes seconds to load.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from headwater.spark.errors import unlogged_errors
    from headwater.spark.jobs.executor import SparkExecutor
    from headwater.spark.session import ensure_interpreter, session_at

    started = SparkSession.getActiveSession() is None
    session = session_at(master, command, settings={"spark.log.level": "FATAL"})
    try:
        ensure_interpreter(session)
        with unlogged_errors():
            yield SparkExecutor(session)
    except (PySparkException, Py4JError, ConnectionError) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise Unavailable(f"Spark at {master} failed: {reason}; run the command again") from error
    finally:
        if started:
            with suppress(PySparkException, Py4JError, ConnectionError):
                session.stop()
