"""The interpreter of a session's Python workers, and what they import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from tests.spark.conftest import data_source
from tests.spark_sessions import kind_of_session

import headwater.client
from headwater.spark import SparkLake, connect
from headwater.storage.errors import Invalid

pytestmark = pytest.mark.spark


def test_workers_run_this_programs_interpreter(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a session that somebody else made, with the ``python3`` of the search path."""
    if kind_of_session() != "local":
        pytest.skip("a cluster's interpreter is another machine's matter")
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "/usr/bin/python3")
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    with pytest.raises(Invalid, match="Spark's workers run /usr/bin/python3, not this program's"):
        connect(spark, tmp_path)
    monkeypatch.delenv("PYSPARK_PYTHON")
    connect(spark, tmp_path)

    def interpreter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"path": [sys.executable]})

    found = spark.range(0, 1, 1, 1).mapInArrow(interpreter, "path STRING").collect()
    assert [row["path"] for row in found] == [sys.executable]


# A task of Spark's, begun with what Spark sends it.
_TASK = """
import sys
import pyspark.worker
import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer

context = TaskContext._getOrCreate()
context._partitionId, context._localProperties = 0, {}
reader, partition, source, writer = CPickleSerializer().loads(sys.stdin.buffer.read())
batches = list(reader.read(partition))
assert sum(batch.num_rows for batch in batches) == 2
written = writer.write(iter(batches))
assert len(written.messages) == 1
there = ["alembic", "httpx", "headwater.catalog.table.table", "headwater.client", "pydantic"]
there += ["sqlalchemy", "sqlglot"]
print(*[name for name in there if name in sys.modules])
"""


def test_tasks_import_nothing_that_only_the_driver_needs(tmp_path: Path) -> None:
    with headwater.client.connect(tmp_path) as lake:
        lake.create_database("db")
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
        table = lake.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1"})
        table.write({"id": [1, 2], "v": [10, 20]})
    source = data_source(tmp_path, "db.t", where="id > 0")
    frame = source.schema()
    reader = source.reader(frame)
    writer = data_source(tmp_path, "db.t").writer(frame, overwrite=False)
    (partition,) = reader.partitions()
    sent = CPickleSerializer().dumps(  # type: ignore[no-untyped-call]
        (reader, partition, source, writer)
    )
    task = subprocess.run(
        [sys.executable, "-c", _TASK], input=sent, capture_output=True, check=False
    )
    assert task.returncode == 0, task.stderr.decode()
    assert task.stdout.decode().split() == []


def test_other_threads_write_and_read(spark: SparkSession, lake: SparkLake) -> None:
    """A new thread has no active session, by which Spark looks for sources."""
    created = spark.range(0, 10)
    lake.create_table("db.t", created.schema, options={"bucket": "-1"})
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lake.write, created, "db.t").result()
        assert thread.submit(lambda: lake.table("db.t", where="id < 3").count()).result() == 3
        assert thread.submit(lambda: lake.sql("SELECT id FROM db.t").count()).result() == 10
