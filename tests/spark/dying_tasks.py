"""Changes of tables of which a process dies: ``dying_tasks.py KIND CATALOG ROOM``.

In an empty folder ROOM it starts a session of a KIND, and for each of `CASES` begins the statement
on a table of its own; one process dies in it, once. A statement that failed is run again. What came
of it goes to stdout, a line of JSON for each case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pyarrow as pa
import pyspark.sql.types as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark_sessions import session_of_kind

from headwater.catalog.table.table import Table
from headwater.spark import SparkLake, connect
from headwater.spark.jobs.executor import SparkExecutor
from headwater.spark.options import WriteOptions
from headwater.spark.write import save
from headwater.spark.write.change_tasks import ChangedFiles, ChangeWriter
from headwater.storage.errors import HeadwaterError
from headwater.storage.jobs.executor import Executor

__all__ = ["CASES", "MARK", "Case", "Outcome"]

MARK = "outcome "
"""The beginning of an outcome's line; Spark prints lines of its own."""

ROWS = 60
"""The rows of a table before its statement: ``id`` from 0 on, and ``n`` = 0."""

VICTIMS = {
    "worker": "the Python process of a task that has written its files",
    "executor": "the executor of such a task",
}
"""Who dies."""

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Case:
    """A statement and who dies in it.

    Attributes:
        statement: ``merge``, ``update`` or ``compact``.
        table: ``keyed``, ``summed`` (keyed, whose files are written anew) or ``append``.
        victim: One of `VICTIMS`.
    """

    statement: str
    table: str
    victim: str

    @property
    def name(self) -> str:
        """The table's name."""
        return f"db.{self.statement}_{self.table}_{self.victim}"


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        case: The case.
        error: The statement's error; None if Spark made up for the death.
        died: True if somebody died.
    """

    case: Case
    error: str | None
    died: bool


CASES = {
    "local": [
        Case("merge", "keyed", "worker"),
        Case("update", "append", "worker"),
        Case("merge", "summed", "worker"),
        Case("compact", "keyed", "worker"),
        Case("compact", "append", "worker"),
    ],
    "cluster": [
        Case(statement, table, victim)
        for statement, table in (
            ("merge", "keyed"),
            ("update", "keyed"),
            ("merge", "summed"),
            ("update", "summed"),
            ("merge", "append"),
            ("update", "append"),
            ("compact", "keyed"),
            ("compact", "append"),
        )
        for victim in ("worker", "executor")
    ],
}
"""By kind of session. Without a cluster no task is tried again, and an executor is all of Spark."""

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "OFF",
}


def _die_once(marker: Path, victim: str) -> None:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    process = os.getpid()
    if victim == "executor":
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
    os.kill(process, signal.SIGKILL)


class _DyingWriter(ChangeWriter):
    def __init__(
        self, options: WriteOptions, open_table: Callable[[], Table], *, marker: Path, victim: str
    ) -> None:
        super().__init__(options, open_table)
        self._marker = marker
        self._victim = victim

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChangedFiles:
        written = super().write(iterator)
        if written.messages(self._options.unchanged_since):
            _die_once(self._marker, self._victim)
        return written


class _DyingExecutor:
    """Runs a job's tasks as Spark's; one dies when its work is done."""

    def __init__(self, executor: Executor, marker: Path, victim: str) -> None:
        self._executor = executor
        self._marker = marker
        self._victim = victim

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        marker, victim = self._marker, self._victim

        def dying(task: Task) -> Result:
            result = work(task)
            _die_once(marker, victim)
            return result

        return self._executor.run(dying, tasks)


def _create(spark: SparkSession, lake: SparkLake, case: Case) -> None:
    columns = [st.StructField("id", st.LongType(), False), st.StructField("n", st.LongType())]
    options = {"write-only": "true"}
    if keyed := case.table != "append":
        options["bucket"] = "2"
    if case.table == "summed":
        options |= {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    lake.create_table(
        case.name,
        st.StructType(columns),
        primary_keys=["id"] if keyed else [],
        options=options,
    )
    for first in range(0, ROWS, ROWS // 3):
        part = spark.range(first, first + ROWS // 3, 1, 1).selectExpr("id", "0L AS n")
        lake.write(part, case.name)


def _run(spark: SparkSession, lake: SparkLake, case: Case, executor: Executor) -> None:
    match case.statement:
        case "merge":
            source = spark.range(ROWS // 2, ROWS + 10, 1, 2).selectExpr("id", "1L AS n")
            merge = lake.merge(case.name, source, on=["id"])
            merge = merge.when_matched_delete("source.id % 5 = 0")
            merge = merge.when_matched_update_all()
            merge.when_not_matched_insert_all("source.id % 5 > 0").execute()
        case "update":
            lake.update(case.name, {"n": "id"}, where="id % 2 = 0")
        case "compact":
            options = {"write-only": "false", "compaction.min.file-num": "2"}
            table = lake.catalog.table(case.name).with_options(options)
            table.compact(full=True, executor=executor)


def main(kind: str, catalog: str, room: str) -> None:
    with session_of_kind(kind, Path(room), SETTINGS) as spark:
        lake = connect(spark, catalog)
        for case in CASES[kind]:
            _create(spark, lake, case)
            marker = Path(room, case.name)
            writer = partial(_DyingWriter, marker=marker, victim=case.victim)
            executor = _DyingExecutor(SparkExecutor(spark), marker, case.victim)
            error: str | None = None
            try:
                with patch.object(save, "ChangeWriter", writer):
                    _run(spark, lake, case, executor)
            except (HeadwaterError, PySparkException, Py4JJavaError) as raised:
                error = str(raised)
            if error is not None:
                _run(spark, lake, case, SparkExecutor(spark))
            outcome = Outcome(case, error, marker.exists())
            print(f"\n{MARK}{json.dumps(asdict(outcome))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
