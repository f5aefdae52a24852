"""The page's section on Spark, run as it is written, on MariaDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cdc.tutorials import Headwater, run_tutorial
from tests.spark_sessions import starts_local_sessions

from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.client import connect


@pytest.mark.spark
@pytest.mark.mariadb
@starts_local_sessions
def test_the_section_on_spark_runs_as_it_is_written(
    spark: SparkSession,
    headwater: Headwater,
    shop_source: Address,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = Address(shop_source.host, shop_source.port, "root", "")
    with connect(tmp_path / "lake") as lake, MySQLServer(address) as server:
        lake.create_database("shop_lake")
        for statement in (
            "CREATE OR REPLACE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, item VARCHAR(40))",
            "CREATE TABLE shop.customers (id INT PRIMARY KEY, name VARCHAR(40))",
            "INSERT INTO shop.orders VALUES (1, 'pen'), (2, 'cup')",
            "INSERT INTO shop.customers VALUES (1, 'Ada')",
            "CREATE OR REPLACE USER reader IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader",
            "GRANT SELECT ON shop.* TO reader",
        ):
            server.rows(statement)
        languages = {"sh", "console", "python", "text"}
        at = ("127.0.0.1:3306", str(address))
        run_tutorial("On Spark", at, server.rows, headwater, monkeypatch, languages)
        server.rows("DROP DATABASE shop")
        server.rows("DROP USER reader")
