"""Where rows lie: Paimon's metadata columns of frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Numbered, data_source, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.read.positioned_rows import positioned_rows

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
    # As system tables and Paimon's own reader show them.
    listed = lake.catalog.table("db.t").inspect.files()["file_path"].to_pylist()
    assert {row["__paimon_file_path"] for row in found} < set(listed)
    assert all(path.startswith("file:/") and "//" not in path for path in listed)
    for row in found:
        assert row["__paimon_partition"]["part"] == str(row["id"] % 3)
        assert row["__paimon_bucket"] == 0
        stored = pq.read_table(Path(row["__paimon_file_path"].removeprefix("file:")))
        assert stored["id"][row["__paimon_row_index"]].as_py() == row["id"]
    assert lake.table("db.t", ["__paimon_bucket"]).count() == 7
    assert lake.table("db.t", ["__paimon_bucket"], where="id < 0").count() == 0


def test_rows_of_a_table_with_a_key_are_found_where_none_is_merged(lake: SparkLake) -> None:
    """In files that a compaction wrote, and in those whose old rows deletion vectors mark."""
    made = lake.spark.range(0, 6).selectExpr("id", "id * 10 AS v")
    for name, options in (
        ("db.compacted", {"bucket": "2", "write-only": "true"}),
        ("db.marked", {"bucket": "2", "deletion-vectors.enabled": "true"}),
    ):
        lake.create_table(name, made.schema, primary_keys=["id"], options=options)
        lake.write(made, name)
        lake.write(made.where("id < 3").selectExpr("id", "7 AS v"), name)
        lake.delete(name, where="id = 5")
        columns = ["id", "v", "__paimon_file_path", "__paimon_row_index"]
        if name == "db.compacted":
            with pytest.raises(Unsupported, match="are merged as they are read: compact the"):
                lake.table(name, columns)
            lake.compact(name, full=True)
        found = lake.table(name, columns, where="id > 0").collect()
        assert sorted(row["id"] for row in found) == [1, 2, 3, 4]
        for row in found:
            assert row["v"] == (7 if row["id"] < 3 else row["id"] * 10)
            path = Path(row["__paimon_file_path"].removeprefix("file:"))
            stored = pq.read_table(path).slice(row["__paimon_row_index"], 1).to_pylist()[0]
            assert (stored["id"], stored["v"]) == (row["id"], row["v"])


def test_rows_that_retract_have_no_place(lake: SparkLake) -> None:
    schema = "id bigint not null, v int, _ROW_KIND string"
    rows_of_one_file = lake.spark.createDataFrame([(1, 1, "+I"), (2, 2, "-D")], schema)
    declared = rows_of_one_file.drop("_ROW_KIND").schema
    lake.create_table("db.k", declared, primary_keys=["id"], options={"bucket": "1"})
    lake.write(rows_of_one_file.coalesce(1), "db.k")
    with pytest.raises(Unsupported, match="are merged as they are read"):
        lake.table("db.k", ["id", "__paimon_row_index"])
    # A file may hold deletes, whatever its writer said of it.
    scan = lake.catalog.table("db.k").scan()
    (split,) = scan.splits
    found = positioned_rows(scan.storage, replace(split, needs_merge=False), ["id"], None)
    assert [batch.to_pydict()["id"] for batch in found] == [[1]]


def test_a_merged_row_has_a_bucket_but_no_file(lake: SparkLake, folder: Path) -> None:
    keyed = lake.spark.createDataFrame([(1, 10), (2, 20)], "id bigint not null, v int")
    lake.create_table("db.k", keyed.schema, primary_keys=["id"], options={"bucket": "2"})
    for _ in range(2):
        lake.write(keyed, "db.k")
    frame = lake.table("db.k", ["v", "__paimon_bucket"])
    assert sorted(row["v"] for row in frame.collect()) == [10, 20]
    assert {row["__paimon_bucket"] for row in frame.collect()} <= {0, 1}
    with pytest.raises(Unsupported, match=r"db\.k: __paimon_file_path is of rows that stand in"):
        lake.table("db.k", ["__paimon_file_path"])
    with pytest.raises(Invalid, match=r"db\.k has no partitions: leave __paimon_partition out"):
        data_source(folder, "db.k", columns="__paimon_partition").schema()
    with pytest.raises(NotFound, match="__paimon_colour"):
        lake.table("db.k", ["__paimon_colour"])
