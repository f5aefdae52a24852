"""What is not asked for is not read: columns, partitions, buckets, files, row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pyspark.sql.types as st
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import (
    Numbered,
    named_files,
    numbers,
    plan,
    rows,
    scanned_columns,
    store,
    tasks,
)

from headwater.spark import SparkLake
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SetOption,
    UpdateColumnType,
)
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: SparkLake, numbered: Numbered) -> str:
    """Partitions 0, 1 and 2, two buckets each."""
    lake.create_table(
        "db.t",
        numbered(0, 1).schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "2"},
    )
    store(lake, "db.t", 0, 90)
    return "db.t"


def damage(lake: SparkLake, name: str, partition: str) -> None:
    """Make every file of a partition unreadable, so that whoever opens one fails."""
    location = lake.catalog.table(name).storage.layout.location.removeprefix("file://")
    for path in Path(location, partition).rglob("data-*"):
        path.write_bytes(b"not Parquet")


def test_sparks_own_scan_reads_the_columns_a_query_needs(lake: SparkLake, table: str) -> None:
    lake.compact(table)
    frame = lake.table(table).where("id > 80").select("name")
    assert scanned_columns(frame) == {"id", "name"}
    assert "PushedFilters: [IsNotNull(id)" in plan(frame)
    assert "GreaterThan(id,80)" in plan(frame)
    assert frame.count() == 9


def test_a_single_run_needs_no_merge_even_before_compaction(lake: SparkLake, table: str) -> None:
    assert scanned_columns(lake.table(table).select("name")) == {"name"}
    store(lake, table, 0, 5, kind="-D")
    assert lake.table(table).count() == 85


def test_deletes_in_a_single_run_are_left_out(
    lake: SparkLake, table: str, numbered: Numbered
) -> None:
    more = numbered(200, 230, "more", "+I").unionByName(numbered(300, 330, "never", "-D"))
    lake.catalog.create_table(
        "db.u",
        lake.catalog.table(table).schema.to_schema(),
    )
    lake.write(more, "db.u")
    frame = lake.table("db.u")
    assert "FileScan parquet" in plan(frame)
    assert rows(frame) == numbers((200, 230, "more"))


def test_a_range_that_leaves_nan_out_skips_no_row_group(lake: SparkLake) -> None:
    """As pypaimon and Rust write it; to Spark, NaN is greater than every other number."""
    values = "VALUES (1, double('NaN'), float('NaN')), (2, -1.5, -1.5) AS t(k, d, f)"
    source = lake.spark.sql(
        f"SELECT k, CAST(d AS DOUBLE) AS d, CAST(f AS FLOAT) AS f FROM {values}"
    )
    lake.create_table("db.numbers", source.schema)
    lake.write(source.coalesce(1), "db.numbers")
    location = lake.catalog.table("db.numbers").storage.layout.location.removeprefix("file://")
    (path,) = Path(location).rglob("data-*")
    pq.write_table(pq.read_table(path), path, store_schema=False, write_statistics=True)
    assert pq.read_metadata(path).row_group(0).column(1).statistics.max == -1.5
    for column in ("d", "f"):
        for condition in (f"{column} > 0", f"NOT ({column} < 0)", f"{column} = double('NaN')"):
            frame = lake.table("db.numbers").where(condition)
            assert "FileScan parquet" in plan(frame)
            assert [row.k for row in frame.select("k").collect()] == [1], condition
    assert [row.d for row in lake.table("db.numbers").where("d < 0").collect()] == [-1.5]


def test_only_parquet_files_go_through_sparks_own_scan(lake: SparkLake, table: str) -> None:
    lake.catalog.table(table).alter(SetOption("file.format", "avro"))
    new = [row for row in numbers((90, 120)) if row[2] == "0"]
    lake.catalog.table(table).write(
        [dict(zip(("id", "name", "part"), row, strict=True)) for row in new]
    )
    files = named_files(lake, table)
    assert {name.rpartition(".")[2] for name in files} == {"avro", "parquet"}
    frame = lake.table(table)
    assert rows(frame) == sorted([*numbers((0, 90)), *new], key=repr)
    assert "FileScan parquet" in plan(frame)
    assert "MapInArrow" in plan(frame)
    lake.compact(table)
    found = lake.table(table).where("part = '0'").select("id").collect()
    assert sorted(row.id for row in found) == list(range(0, 120, 3))


def test_only_buckets_that_overlap_go_through_python(lake: SparkLake, table: str) -> None:
    new = [row for row in numbers((0, 30, "second")) if row[2] == "0"]
    lake.catalog.table(table).write(
        [dict(zip(("id", "name", "part"), row, strict=True)) for row in new]
    )
    frame = lake.table(table)
    text = plan(frame)
    assert "FileScan parquet" in text
    assert "MapInArrow" in text
    replaced = {row[0] for row in new}
    kept = [row for row in numbers((0, 90)) if row[0] not in replaced]
    assert rows(frame) == sorted([*kept, *new], key=repr)
    # Of Spark's own scans only that of the partition asked for is left.
    assert text.count("FileScan parquet") == 2
    assert plan(frame.where("part = '1'")).count("FileScan parquet") == 1


def test_partitions_that_a_query_excludes_are_not_opened(lake: SparkLake, table: str) -> None:
    damage(lake, table, "part=2")
    assert lake.table(table).where("part = '1'").count() == 30
    assert lake.table(table, where="part <> '2'").count() == 60
    with pytest.raises(Exception, match=r"(?i)parquet"):
        lake.table(table).count()


def test_where_leaves_out_partitions_and_files_in_python_workers(
    spark: SparkSession, lake: SparkLake, table: str
) -> None:
    for version in ("second", "third"):
        store(lake, table, 0, 90, version)
    damage(lake, table, "part=2")
    for condition, count in (("part = '1'", 30), ("part <> '2' AND id < 30", 20)):
        direct = spark.read.format("headwater").option("where", condition).load(table)
        assert direct.count() == lake.table(table, where=condition).count() == count
    with pytest.raises(Exception, match="part=2"):
        spark.read.format("headwater").load(table).count()


def test_files_whose_statistics_exclude_a_condition_are_not_opened(
    lake: SparkLake, numbered: Numbered
) -> None:
    lake.create_table("db.a", numbered(0, 1).schema)
    store(lake, "db.a", 0, 10)
    doomed = {file.name for file in lake.catalog.table("db.a").files()}
    store(lake, "db.a", 10, 20)
    location = lake.catalog.table("db.a").storage.layout.location.removeprefix("file://")
    for path in Path(location).rglob("data-*"):
        if path.name in doomed:
            path.write_bytes(b"not Parquet")
    assert rows(lake.table("db.a", where="id >= 10")) == numbers((10, 20))


@pytest.mark.modes
def test_small_splits_share_tasks(
    spark: SparkSession, lake: SparkLake, table: str, numbered: Numbered
) -> None:
    lake.write(numbered(0, 90, "second"), table)
    frame = spark.read.format("headwater").load(table)
    assert len(lake.catalog.table(table).files()) == 12
    assert tasks(frame) == 2


@pytest.mark.modes
def test_no_core_works_on_while_the_others_have_done(lake: SparkLake, numbered: Numbered) -> None:
    # Three tasks would hold what there is: one core would do two, of which one does half.
    lake.create_table(
        "db.p",
        numbered(0, 1).schema,
        primary_keys=["id"],
        options={"bucket": "4", "write-only": "true", "source.split.target-size": "6 mb"},
    )
    for name in ("first", "second"):
        lake.write(numbered(0, 40, name), "db.p")
    assert tasks(lake.table("db.p")) == 4


@pytest.mark.modes
def test_evolved_columns_read_alike_natively_and_in_python(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    lake.create_table("db.e", numbered(0, 1).schema, options={"bucket": "-1"})
    old = spark.range(0, 10).selectExpr("id", "concat('n', id) AS name", "'p' AS part")
    lake.write(old, "db.e")
    lake.catalog.alter_table(
        "db.e",
        RenameColumn(("name",), "title"),
        AddColumn(("score",), AtomicType(Root.INT)),
        DropColumn(("part",)),
    )
    lake.catalog.alter_table("db.e", AddColumn(("name",), AtomicType(Root.INT)))
    new = spark.range(10, 20).selectExpr(
        "id", "concat('t', id) AS title", "7 AS score", "CAST(id AS INT) AS name"
    )
    lake.write(new, "db.e")
    expected = rows(
        old.selectExpr("id", "name AS title", "CAST(NULL AS INT) AS score", "CAST(NULL AS INT) n")
        .union(new)
    )  # fmt: skip
    native = lake.table("db.e")
    assert "MapInArrow" not in plan(native)
    assert rows(native) == expected
    assert rows(spark.read.format("headwater").load("db.e")) == expected
    assert rows(lake.table("db.e", snapshot_id=1)) == rows(old)


def test_a_widened_column_is_read_by_python_until_it_is_rewritten(lake: SparkLake) -> None:
    lake.create_table(
        "db.w",
        st.StructType(
            [st.StructField("id", st.LongType(), False), st.StructField("n", st.IntegerType())]
        ),
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    old = [(id, id) for id in range(10)]
    lake.catalog.table("db.w").write([{"id": id, "n": n} for id, n in old])
    lake.catalog.alter_table("db.w", UpdateColumnType(("n",), AtomicType(Root.BIGINT)))
    new = [(id, id + 5_000_000_000) for id in range(10, 20)]
    lake.catalog.table("db.w").write([{"id": id, "n": n} for id, n in new])
    expected = sorted([*old, *new], key=repr)
    assert "MapInArrow" in plan(lake.table("db.w"))
    assert "MapInArrow" not in plan(lake.table("db.w", ["id"]))
    assert rows(lake.table("db.w")) == expected
    lake.compact("db.w")
    assert "MapInArrow" not in plan(lake.table("db.w"))
    assert rows(lake.table("db.w")) == expected
