"""Pipelines whose ranges and large batches are Spark's tasks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cdc.source_logs import SourceServer

from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.verify import verify
from headwater.client import connect
from headwater.spark.jobs.executor import SparkExecutor
from headwater.spark.session import is_connect

pytestmark = [pytest.mark.mariadb, pytest.mark.spark]

PASSWORD = "sekret-of-the-source"


@pytest.fixture
def address(mariadb: SourceServer) -> Address:
    """The source, with a user who has a password."""
    user = f"u{mariadb.database[-12:]}"
    server = mariadb.address
    with MySQLServer(Address(server.host, server.port, "root", "")) as administrator:
        administrator.rows(f"CREATE USER {user} IDENTIFIED BY '{PASSWORD}'")
        administrator.rows(f"GRANT ALL ON *.* TO {user}")
    return Address.from_url(f"mysql://{user}@{server.host}:{server.port}", PASSWORD)


def test_ranges_and_large_batches(
    spark: SparkSession, mariadb: SourceServer, address: Address, tmp_path: Path
) -> None:
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s LONGTEXT)",
        "INSERT INTO t SELECT seq, seq, CONCAT('row ', seq) FROM seq_1_to_1000",
    )
    settings = PipelineSettings(
        "shop",
        "mysql://test",
        "lake",
        (f"{mariadb.database}.t",),
        table_options={"dynamic-bucket.target-row-num": "400"},
        task_rows=300,
        task_bytes=1,
        memory_bytes=1 << 20,
        batch_bytes=1 << 30,
    )
    executor = SparkExecutor(spark)
    with connect(tmp_path / "lake") as lake:
        lake.create_database("lake")
        for number in range(3):
            # In between, one process alone.
            chosen = None if number == 1 else executor
            assert Pipeline(lake, partial(MySQLSource, address), settings, chosen).run(once=True)
            (verdict,) = verify(lake, address, settings)
            assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist()[:10])
            assert verdict.lake_rows == lake.table("lake.t").scan().count() == 1000
            # More than a task gets.
            mariadb.run(
                "UPDATE t SET v = -v WHERE v % 3 = 0",
                f"UPDATE t SET s = REPEAT('x', {1 << 20}) WHERE id BETWEEN 1 AND 12",
                f"UPDATE t SET id = id + 1000 WHERE id = {100 + number}",
            )
    if not is_connect(spark):
        assert PASSWORD not in shown_by_spark(spark)
    mariadb.run(f"DROP DATABASE {mariadb.database}")


def shown_by_spark(spark: SparkSession) -> str:
    """What Spark's pages show of its jobs and queries."""
    java = spark._jvm
    assert java is not None
    state = spark._jsparkSession.sharedState().statusStore()
    executions = state.executionsList()
    texts = [
        text
        for number in range(executions.size())
        for execution in [executions.apply(number)]
        for text in (
            execution.description(),
            execution.details(),
            execution.physicalPlanDescription(),
        )
    ]
    assert any("mapInArrow" in text or "MapInArrow" in text for text in texts), texts[-1:]
    return "\n".join(texts)
