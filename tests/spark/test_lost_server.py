"""Streaming queries whose server is out of reach for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.client.conftest import Proxy, open_proxy
from tests.conftest import NewSqlite
from tests.spark.conftest import Numbered, arrow, numbers, stored
from tests.spark_sessions import calls_functions_here

from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake
from headwater.spark import SparkLake, connect

pytestmark = pytest.mark.spark

SOURCE, TARGET = "db.source", "db.target"
# A request that does not wait for the server is given up after so many attempts.
ATTEMPTS = 5


@pytest.fixture
def behind(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """The catalog behind the server."""
    url = new_sqlite(tmp_path / "headwater.db")
    with closing(
        SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "warehouse"))
    ) as catalog:
        yield catalog


@pytest.fixture
def proxy(behind: SqlCatalog, serve: Callable[..., str]) -> Iterator[Proxy]:
    with open_proxy(serve(behind)) as proxy:
        yield proxy


@pytest.fixture
def lake(spark: SparkSession, proxy: Proxy, numbered: Numbered) -> SparkLake:
    """A lake with two append tables, reached through the proxy."""
    lake = connect(spark, proxy.url)
    lake.catalog.create_database("db")
    for name in (SOURCE, TARGET):
        lake.create_table(name, numbered(0, 1).schema)
    return lake


def lose(proxy: Proxy, *requests: str) -> None:
    """Have the server not respond to the next requests of some kinds."""
    for request in requests:
        for _ in range(ATTEMPTS):
            proxy.lose_request(request)


def test_a_query_outlasts_a_restart_of_the_server(
    spark: SparkSession, lake: SparkLake, behind: SqlCatalog, proxy: Proxy, tmp_path: Path
) -> None:
    source = Lake(behind).table(SOURCE)
    source.write(arrow(0, 10))
    query = (
        spark.readStream.format("headwater")
        .options(**{"consumer-id": "billing", "scan.mode": "from-snapshot"})
        .option("scan.snapshot-id", "1")
        .load(SOURCE)
        .writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(TARGET)
    )
    try:
        query.processAllAvailable()
        # The latest snapshot, which the source polls; then its consumer, and steps of the sink.
        lose(proxy, "GET source/snapshot")
        source.write(arrow(10, 20))
        query.processAllAvailable()
        lose(proxy, "POST source/consumers/reset", "GET /v1/config", "GET target/snapshot")
        source.write(arrow(20, 30))
        query.processAllAvailable()
    finally:
        query.stop()
    assert [fault for fault in proxy.faults if "snapshot" in fault[0]] == []
    assert stored(lake, TARGET) == numbers((0, 30))
    # Until Spark asks for what follows, the last batch may be repeated.
    assert source.consumer("billing").next_snapshot in (3, 4)


@calls_functions_here
def test_a_function_of_foreach_batch_outlasts_a_restart_of_the_server(
    spark: SparkSession, lake: SparkLake, behind: SqlCatalog, proxy: Proxy, tmp_path: Path
) -> None:
    Lake(behind).table(SOURCE).write(arrow(0, 10))

    def write(batch: DataFrame, number: int) -> None:
        lose(proxy, "GET tables/target")
        lake.for_batch(number).write(batch, TARGET)

    query = (
        spark.readStream.format("headwater")
        .load(SOURCE)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert proxy.faults == []
    assert stored(lake, TARGET) == numbers((0, 10))
