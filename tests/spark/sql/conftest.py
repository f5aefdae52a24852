"""Statements over a catalog without a Spark session, and a lake that suites of queries read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.conftest import NewSqlite

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake
from headwater.client.connect import DATABASE_FILE
from headwater.spark import SparkLake, connect
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.connection import SETTINGS, Connection
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.session import run_statement
from headwater.spark.sql.statement import split_statements
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.runtime import SYSTEM_RUNTIME

Run = Callable[[str], list[tuple[object, ...]]]

WITHOUT_SPARK = cast(
    "SparkSession",
    SimpleNamespace(
        conf=SimpleNamespace(getAll={}, get=lambda key: "false"),
        catalog=SimpleNamespace(listTables=list),
    ),
)
"""In the place of a session that has neither settings nor temporary views."""


def _moments() -> Callable[[], int]:
    """A clock that never shows a time twice."""
    last = 0

    def now() -> int:
        nonlocal last
        last = max(SYSTEM_RUNTIME.now_millis(), last + 1)
        return last

    return now


@pytest.fixture
def context(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlContext]:
    """A session in which the database ``db`` is in use, and Spark is not."""
    url = new_sqlite(tmp_path / DATABASE_FILE)
    runtime = replace(SYSTEM_RUNTIME, now_millis=_moments())
    catalog = SqlCatalog.open(
        url,
        warehouse="main",
        location=str(tmp_path / "lake"),
        undrop_millis=60_000,
        runtime=runtime,
    )
    with Lake(catalog, runtime) as lake:
        lake.create_database("db")
        connection = Connection(str(tmp_path))
        session = CatalogSession(WITHOUT_SPARK, connection, lake, LocalExecutor(2))
        yield SqlContext(session, "db")


@pytest.fixture
def answered(context: SqlContext) -> Callable[[str], pa.Table]:
    """Runs a statement that answers with rows known already; the rows."""

    def run(text: str) -> pa.Table:
        (statement,) = split_statements(text)
        result = run_statement(statement, context)
        assert result is None or isinstance(result, pa.Table)
        return pa.table({}) if result is None else result

    return run


@pytest.fixture
def run(answered: Callable[[str], pa.Table]) -> Run:
    """Runs a statement; its rows as tuples."""

    def rows(text: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in answered(text).to_pylist()]

    return rows


@pytest.fixture(scope="package")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    """Orders (a primary key, three snapshots, files to merge), items (append), and views."""
    # Who reads must not depend on the queries before.
    setting = f"{SETTINGS}bitmap-cache-size"
    spark.conf.set(setting, "0")
    lake = connect(spark, tmp_path_factory.mktemp("shop"))
    spark.conf.unset(setting)
    for database in ("db", "other"):
        lake.catalog.create_database(database)
    named = spark.range(0).selectExpr(
        "id", "concat('n', id) AS name", "CAST(id % 3 AS STRING) AS part"
    )
    orders = lake.create_table(
        "db.orders",
        named.schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "1"},
    )
    orders.write([{"id": id, "name": f"n{id}", "part": str(id % 3)} for id in range(30)])
    orders.create_tag("first", snapshot_id=1)
    orders.write([{"id": id, "name": "new", "part": "0"} for id in range(0, 30, 3)])
    bought = spark.range(0).selectExpr(
        "id",
        "id % 10 AS order_id",
        "id * 1.5D AS price",
        "date_add(DATE'2026-01-01', CAST(id AS INT)) AS day",
    )
    items = [
        {"id": id, "order_id": id % 10, "price": id * 1.5, "day": date(2026, 1, 1 + id)}
        for id in range(20)
    ]
    for name, parts in (("db.items", (items[:10], items[10:])), ("other.orders", (items[:2],))):
        table = lake.create_table(name, bought.schema)
        for part in parts:
            table.write(part)
    views = lake.catalog.catalog.views

    def view(name: str, query: str, *columns: tuple[str, str]) -> None:
        listed = tuple(Column(at, label, kind) for at, (label, kind) in enumerate(columns))
        views.create(Identifier("db", name), ViewSchema(listed, query))

    names = ("number", "BIGINT"), ("label", "STRING")
    view("named", "WITH o AS (SELECT id, name FROM orders) SELECT * FROM o", *names)
    view("nested", "SELECT number FROM named WHERE number < 5", ("number", "BIGINT"))
    view("circle", "SELECT * FROM back")
    view("back", "SELECT * FROM circle")
    lake.sql("USE db")
    return lake
