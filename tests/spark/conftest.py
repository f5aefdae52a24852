"""What Spark's suites share: a lake of one's own, and ways to look at a frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import CaseInsensitiveDict
from tests.conftest import NewSqlite

from headwater.client.connect import DATABASE_FILE
from headwater.spark import SparkLake, connect
from headwater.spark.connection import Connection
from headwater.spark.data_source import HeadwaterSource, source_class

Rows = list[tuple[object, ...]]


def rows(df: DataFrame) -> Rows:
    """A frame's rows, in an order of their own."""
    return sorted((tuple(row) for row in df.collect()), key=repr)


def numbers(*ranges: tuple[int, int] | tuple[int, int, str]) -> Rows:
    """The rows that `numbered` makes of each start, stop and name, as `rows` gives them.

    The name is "first" where there is none.
    """
    found: Rows = []
    for each in ranges:
        name = each[2] if len(each) == 3 else "first"
        found += [(id, f"{name}-{id}", str(id % 3)) for id in range(each[0], each[1])]
    return sorted(found, key=repr)


def stored(lake: SparkLake, name: str) -> Rows:
    """A table's rows, read without Spark, as `rows` gives them."""
    columns = lake.catalog.table(name).scan().to_arrow().columns
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


def arrow(start: int, stop: int, name: str = "first") -> pa.Table:
    """The rows that `numbered` makes, in Arrow."""
    ids = range(start, stop)
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"{name}-{id}" for id in ids], pa.string()),
        pa.array([str(id % 3) for id in ids], pa.string()),
    ]
    return pa.table(columns, names=["id", "name", "part"])


def store(
    lake: SparkLake, table: str, start: int, stop: int, name: str = "first", kind: str = "+I"
) -> None:
    """Commit rows as `numbered` makes them, without Spark."""
    rows = arrow(start, stop, name)
    lake.catalog.table(table).write(rows, pa.array([kind] * len(rows), pa.string()))


def plan(df: DataFrame) -> str:
    """A frame's physical plan as text."""
    printed = StringIO()
    with redirect_stdout(printed):
        df.explain()
    return printed.getvalue()


def data_files(folder: Path) -> list[str]:
    """The names of all data files below a folder, whether a snapshot names them or not."""
    return sorted(path.name for path in folder.rglob("data-*"))


def named_files(lake: SparkLake, name: str) -> list[str]:
    """The names of the data files in a table's latest snapshot."""
    return sorted(file.name for file in lake.catalog.table(name).files())


def data_source(folder: Path, name: str, **options: str) -> HeadwaterSource:
    """A table's data source: what Spark makes in a process of its own, here in the test's."""
    made = source_class(Connection(str(folder)))
    return made(CaseInsensitiveDict({"path": name, **options}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the lake is."""
    return tmp_path / "lake"


@pytest.fixture
def lake(spark: SparkSession, folder: Path, new_sqlite: NewSqlite) -> SparkLake:
    """A lake with the database ``db``."""
    new_sqlite(folder / DATABASE_FILE)
    lake = connect(spark, folder)
    lake.catalog.create_database("db")
    return lake


Numbered = Callable[..., DataFrame]


@pytest.fixture
def numbered(spark: SparkSession) -> Numbered:
    """Makes rows ``(id BIGINT, name STRING, part STRING)`` with ids from `start` to `stop`."""

    def make(start: int, stop: int, name: str = "first", kind: str | None = None) -> DataFrame:
        df = spark.range(start, stop, 1, 2).select(
            "id",
            sf.concat(sf.lit(f"{name}-"), sf.col("id").cast("string")).alias("name"),
            (sf.col("id") % 3).cast("string").alias("part"),
        )
        return df if kind is None else df.withColumn("_ROW_KIND", sf.lit(kind))

    return make


def tasks(df: DataFrame) -> int:
    """The tasks of the frame's only stage that have rows."""
    return df.select(sf.spark_partition_id()).distinct().count()


def scanned_columns(df: DataFrame) -> set[str]:
    """The columns that Spark's own Parquet scans read, ``_VALUE_KIND`` apart."""
    schemas = re.findall(r"ReadSchema: struct<([^>]*)>", plan(df))
    names = {part.partition(":")[0] for text in schemas for part in text.split(",") if part}
    return names - {"_VALUE_KIND"}
