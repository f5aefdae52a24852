"""A lake on an S3-compatible store that Spark's workers reach as the server opens it to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Numbered, rows

from headwater.catalog.sql import SqlCatalog
from headwater.migrations import upgrade
from headwater.spark import SparkLake, connect

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture(params=["data tokens", "signed requests"])
def stored(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    s3_endpoint: str,
    tmp_path: Path,
    serve: Callable[..., str],
) -> Iterator[SparkLake]:
    """A lake behind a server that alone knows the store's place and keys."""
    url = f"sqlite:///{tmp_path}/headwater.db"
    upgrade(url)
    options = {"s3.endpoint": s3_endpoint, "s3.access-key": "test", "s3.secret-key": "test"}
    settings = {"signed_request_seconds": 900}
    if request.param == "data tokens":
        options["s3.sts.role-arn"] = "arn:aws:iam::123456789012:role/lake"
        settings = {"data_token_seconds": 7200}
    behind = SqlCatalog.open(
        url, warehouse="main", location="s3://lake/warehouse", storage_options=options
    )
    lake = connect(spark, serve(behind, **settings))
    lake.catalog.create_database("db")
    yield lake
    behind.close()


def test_tasks_read_write_and_delete_without_credentials(
    stored: SparkLake, numbered: Numbered
) -> None:
    stored.create_table("db.t", numbered(0, 1).schema, primary_keys=["id"], options={"bucket": "1"})
    stored.write(numbered(0, 40), "db.t")
    stored.delete("db.t", "id < 10")
    assert rows(stored.table("db.t")) == rows(numbered(10, 40))
