"""TPC-H: each query over tables of a lake gives what it gives over Parquet files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.tpch.tables import KEYS, QUERIES, TpchTables
from pyspark.sql import SparkSession

from headwater.spark import SparkLake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

SCALE = float(os.environ.get("HEADWATER_TPCH_SCALE", "1"))


def compare(tables: TpchTables) -> None:
    assert len(QUERIES) == 22
    for number, query in enumerate(QUERIES, 1):
        expected = tables.by_parquet(query).collect()
        assert tables.by_lake(query).collect() == expected, f"query {number}"


def test_queries_before_and_after_changes_and_compaction(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    tables = TpchTables(spark, lake, tmp_path / "parquet", SCALE)
    tables.generate()
    tables.load(compact=False)
    compare(tables)
    tables.change()
    compare(tables)
    tables.compact()
    compare(tables)
    for name in KEYS:
        assert lake.table(f"tpch.{name}").count() == tables.parquet(name).count()
