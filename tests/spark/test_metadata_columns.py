"""Where rows lie: Paimon's metadata columns of frames."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Numbered, data_source, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]

PLACES = ["__paimon_partition", "__paimon_bucket", "__paimon_file_path", "__paimon_row_index"]


def test_rows_are_found_where_their_columns_say(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    """With rows that deletion vectors mark, which keep their places."""
    df = numbered(0, 9)
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    lake.create_table("db.t", df.schema, partition_keys=["part"], options=options)
    lake.write(df, "db.t")
    lake.delete("db.t", where="id IN (3, 4)")
    by_method = lake.table("db.t", ["id", *PLACES], where="part <> '2'")
    reader = spark.read.format("headwater").option("columns", ",".join(["id", *PLACES]))
    by_format = reader.option("where", "part <> '2'").load("db.t")
    assert by_method.schema == by_format.schema
    assert rows(by_method) == rows(by_format)
    found = sorted(by_method.collect(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == [0, 1, 6, 7]
    for row in found:
        assert row["__paimon_partition"]["part"] == str(row["id"] % 3)
        assert row["__paimon_bucket"] == 0
        stored = pq.read_table(Path(row["__paimon_file_path"].removeprefix("file://")))
        assert stored["id"][row["__paimon_row_index"]].as_py() == row["id"]
    assert lake.table("db.t", ["__paimon_bucket"]).count() == 7
    assert lake.table("db.t", ["__paimon_bucket"], where="id < 0").count() == 0


def test_a_merged_row_has_a_bucket_but_no_file(lake: SparkLake, folder: Path) -> None:
    keyed = lake.spark.createDataFrame([(1, 10), (2, 20)], "id bigint not null, v int")
    lake.create_table("db.k", keyed.schema, primary_keys=["id"], options={"bucket": "2"})
    lake.write(keyed, "db.k")
    lake.write(keyed, "db.k")
    frame = lake.table("db.k", ["v", "__paimon_bucket"])
    assert sorted(row["v"] for row in frame.collect()) == [10, 20]
    assert {row["__paimon_bucket"] for row in frame.collect()} <= {0, 1}
    with pytest.raises(Unsupported, match="__paimon_file_path is of tables without a primary key"):
        lake.table("db.k", ["__paimon_file_path"])
    with pytest.raises(Invalid, match=r"db\.k has no partitions: leave __paimon_partition out"):
        data_source(folder, "db.k", columns="__paimon_partition").schema()
    with pytest.raises(NotFound, match="__paimon_colour"):
        lake.table("db.k", ["__paimon_colour"])
