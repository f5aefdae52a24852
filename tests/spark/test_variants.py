"""Columns of type VARIANT in Spark: written, read and streamed."""

from __future__ import annotations

from pathlib import Path

import pyspark.sql.types as st
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import Rows, rows

from headwater.spark import SparkLake
from headwater.storage.types.data_type import VariantType

pytestmark = pytest.mark.spark

VALUES = """
    SELECT 1L id, parse_json('{"a": [1, null, "x"], "b": 2.5}') v,
        array(parse_json('1'), NULL) items, map('k', parse_json('[]')) named,
        named_struct('v', parse_json('true'), 'n', 1) inner
    UNION ALL SELECT
        2L, parse_json('null'), array(), map('k', NULL), named_struct('v', NULL, 'n', 2)
    UNION ALL SELECT 3L, NULL, NULL, NULL, NULL
"""
TEXTS = ("id", "to_json(v)", "to_json(items)", "to_json(named)", "to_json(inner)")


def texts(df: DataFrame) -> Rows:
    return rows(df.selectExpr(*TEXTS))


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.modes), True])
def test_variants_come_back_as_they_were(
    spark: SparkSession, lake: SparkLake, folder: Path, keyed: bool
) -> None:
    df = spark.sql(VALUES)
    keys = {"primary_keys": ["id"], "options": {"bucket": "2"}} if keyed else {}
    lake.create_table("db.t", df.schema, **keys)  # type: ignore[arg-type]
    assert isinstance(lake.catalog.table("db.t").schema.column("v").type, VariantType)
    lake.write(df, "db.t")
    found = lake.table("db.t")
    assert [f.dataType.simpleString() for f in found.schema] == [
        f.dataType.simpleString() for f in df.schema
    ]
    expected = texts(df)
    assert texts(found) == expected
    assert texts(spark.read.format("headwater").load("db.t")) == expected
    taken = found.selectExpr("id", "variant_get(v, '$.a[0]', 'int')")
    assert rows(taken) == [(1, 1), (2, None), (3, None)]
    assert rows(found.where("v IS NULL").select("id")) == [(3,)]

    lake.write(
        spark.sql("SELECT 3L id, parse_json('9') v, NULL items, NULL named, NULL inner"), "db.t"
    )
    last = lake.catalog.table("db.t").scan(where="v IS NOT NULL AND id = 3").to_arrow()
    assert last.column("v").to_pylist() == [{"value": b"\x0c\x09", "metadata": b"\x01\x00\x00"}]
    lake.compact("db.t")
    assert lake.table("db.t").count() == (3 if keyed else 4)


@pytest.mark.modes
def test_variants_are_streamed(spark: SparkSession, lake: SparkLake, tmp_path: Path) -> None:
    df = spark.sql(VALUES)
    for name in ("db.source", "db.target"):
        lake.create_table(name, df.schema)
    lake.write(df, "db.source")
    query = (
        spark.readStream.format("headwater")
        .load("db.source")
        .drop("_ROW_KIND")
        .writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start("db.target")
    )
    assert query.awaitTermination(120)
    assert texts(lake.table("db.target")) == texts(df)


def test_no_key_is_a_variant(lake: SparkLake) -> None:
    schema = st.StructType([st.StructField("v", st.VariantType(), nullable=False)])
    with pytest.raises(Exception, match="VARIANT"):
        lake.create_table("db.t", schema, primary_keys=["v"])
