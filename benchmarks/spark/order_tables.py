"""The tables that are measured: orders of 7 columns, in a lake and as plain Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.orders import KEY, orders, upserts
from headwater.spark import SparkLake, connect

__all__ = ["BUCKETS", "UPSERTS", "OrderTables"]

BUCKETS = 4
UPSERTS = 3


class OrderTables:
    """Orders as Parquet files in a folder, and as tables of a lake, made when they are needed.

    Args:
        spark: The session.
        folder: For all data.
        rows: Rows of a table.
        commits: Commits of the table that streams follow.
    """

    def __init__(self, spark: SparkSession, folder: Path, rows: int, commits: int) -> None:
        self.spark = spark
        self.rows = rows
        self.commits = commits
        self._folder = folder
        self._made: set[str] = set()

    def path(self, name: str) -> Path:
        """A place for files."""
        return self._folder / name

    @cached_property
    def lake(self) -> SparkLake:
        """The lake."""
        lake = connect(self.spark, self.path("lake"))
        lake.catalog.create_database("bench")
        return lake

    @cached_property
    def source(self) -> DataFrame:
        """The orders, in no order."""
        return self.stored(orders(self.spark, self.rows), "source")

    @cached_property
    def newer(self) -> list[DataFrame]:
        """Three upserts, each of a tenth of the orders."""
        versions = range(1, UPSERTS + 1)
        return [
            self.stored(upserts(self.spark, self.rows, one), f"upsert-{one}") for one in versions
        ]

    @cached_property
    def plain(self) -> DataFrame:
        """The orders as Spark writes them: by key in as many files as there are buckets."""
        return self.stored(spread(self.source), "plain")

    @cached_property
    def plain_upserted(self) -> DataFrame:
        """The rows that remain after the upserts, likewise."""
        rows = self.source
        for newer in self.newer:
            rows = rows.join(newer.select(KEY), KEY, "left_anti").unionByName(newer)
        return self.stored(spread(rows), "plain-upserted")

    def stored(self, df: DataFrame, name: str) -> DataFrame:
        """A frame as Parquet files."""
        df.write.mode("overwrite").parquet(str(self.path(name)))
        return self.spark.read.parquet(str(self.path(name)))

    def new(self, name: str, options: Mapping[str, str], *, keyed: bool = True) -> str:
        """Make an empty table, in the place of one of that name."""
        whole = f"bench.{name}"
        if name in self._made:
            self.lake.catalog.drop_table(whole)
        self._made.add(name)
        self.lake.create_table(
            whole, self.source.schema, primary_keys=[KEY] if keyed else [], options=options
        )
        return whole

    def loaded(self, name: str, options: Mapping[str, str], *, keyed: bool = True) -> str:
        """Make a table that holds the orders."""
        whole = self.new(name, options, keyed=keyed)
        self.lake.write(self.source, whole)
        return whole

    @cached_property
    def upserted(self) -> str:
        """A table with the orders and the upserts, none of them merged."""
        whole = self.loaded("upserted", {"bucket": str(BUCKETS), "write-only": "true"})
        for newer in self.newer:
            self.lake.write(newer, whole)
        return whole

    def remove(self, name: str) -> None:
        """Remove files."""
        shutil.rmtree(self.path(name), ignore_errors=True)


def spread(df: DataFrame) -> DataFrame:
    """Rows by key, sorted, as a table's buckets are."""
    return df.repartition(BUCKETS, KEY).sortWithinPartitions(KEY)
