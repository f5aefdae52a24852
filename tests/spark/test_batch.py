"""Frames in, the same frames out: types, upserts, deletes, overwrites, time travel."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyspark.sql.types as st
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import (
    Numbered,
    data_files,
    data_source,
    named_files,
    numbers,
    plan,
    rows,
    store,
    stored,
)
from tests.spark_sessions import kind_of_session

from headwater.client.maintenance import State
from headwater.spark import SparkLake, connect
from headwater.storage.errors import HeadwaterError, Invalid, NotFound
from headwater.storage.schema.change import SetOption

pytestmark = pytest.mark.spark

KEYED: dict[str, object] = {"primary_keys": ["id"], "options": {"bucket": "2"}}
PARTITIONED: dict[str, object] = {
    "primary_keys": ["part", "id"],
    "partition_keys": ["part"],
    "options": {"bucket": "2"},
}


def create(lake: SparkLake, df: DataFrame, **how: object) -> str:
    lake.create_table("db.t", df.schema, **how)  # type: ignore[arg-type]
    return "db.t"


EVERY_TYPE = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("flag", st.BooleanType()),
        st.StructField("tiny", st.ByteType()),
        st.StructField("small", st.ShortType()),
        st.StructField("whole", st.IntegerType()),
        st.StructField("single", st.FloatType()),
        st.StructField("double", st.DoubleType()),
        st.StructField("short_decimal", st.DecimalType(9, 2)),
        st.StructField("long_decimal", st.DecimalType(30, 4)),
        st.StructField("text", st.StringType()),
        st.StructField("raw", st.BinaryType()),
        st.StructField("day", st.DateType()),
        st.StructField("moment", st.TimestampType()),
        st.StructField("local", st.TimestampNTZType()),
        st.StructField("items", st.ArrayType(st.IntegerType())),
        st.StructField("counts", st.MapType(st.StringType(), st.LongType())),
        st.StructField(
            "inner",
            st.StructType(
                [st.StructField("a", st.StringType()), st.StructField("b", st.DateType())]
            ),
        ),
    ]
)
MOMENT = dt.datetime(1955, 7, 20, 1, 2, 3, 456789)
FULL_ROW = (
    1, True, -8, -300, 70_000, 1.5, -2.25, Decimal("-1234567.89"),
    Decimal("12345678901234567890123456.7891"), "grüße 🚀", b"\x00\xff", dt.date(1600, 2, 29),
    MOMENT, MOMENT, [1, None, 3], {"a": 1, "b": None}, ("x", dt.date(2026, 1, 1)),
)  # fmt: skip


@pytest.mark.parametrize("how", [{}, KEYED], ids=["append", "keyed"])
def test_every_type_comes_back_as_it_was(
    spark: SparkSession, lake: SparkLake, how: dict[str, object]
) -> None:
    df = spark.createDataFrame([FULL_ROW, (2, *[None] * 16)], EVERY_TYPE)
    name = create(lake, df, **how)
    lake.write(df, name)
    expected = rows(df)
    assert rows(lake.table(name)) == expected
    assert rows(spark.read.format("headwater").load(name)) == expected
    assert [f.dataType for f in lake.table(name).schema] == [f.dataType for f in df.schema]


def test_a_time_zone_changes_how_moments_are_shown_not_what_they_are(
    spark: SparkSession, lake: SparkLake
) -> None:
    df = spark.createDataFrame([FULL_ROW], EVERY_TYPE).select("id", "moment", "local")
    name = create(lake, df, **KEYED)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lake.write(df, name)
        again = lake.table(name).selectExpr("unix_micros(moment) AS m", "local")
        expected = df.selectExpr("unix_micros(moment) AS m", "local")
        assert rows(again) == rows(expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("how", [KEYED, PARTITIONED], ids=["plain", "partitioned"])
def test_upserts_and_deletes_are_one_commit_each(
    lake: SparkLake, numbered: Numbered, how: dict[str, object]
) -> None:
    name = create(lake, numbered(0, 1), **how)
    lake.write(numbered(0, 100), name)
    lake.write(numbered(50, 120, "second"), name)
    lake.write(numbered(0, 10, "gone", "-D").unionByName(numbered(200, 201, "new", "+I")), name)
    assert rows(lake.table(name)) == numbers((10, 50), (50, 120, "second"), (200, 201, "new"))
    snapshots = lake.catalog.table(name).snapshots()
    assert [(each.id, str(each.commit_kind)) for each in snapshots] == [
        (3, "APPEND"), (2, "APPEND"), (1, "APPEND"),
    ]  # fmt: skip


def test_a_write_leaves_one_sorted_run_in_each_bucket(lake: SparkLake, numbered: Numbered) -> None:
    name = create(lake, numbered(0, 1), **PARTITIONED)
    lake.write(numbered(0, 500).repartition(7), name)
    files = lake.catalog.table(name).files()
    assert len(files) == len({(file.partition, file.bucket) for file in files}) == 6


def test_files_of_a_bucket_that_outgrows_the_write_buffer_do_not_overlap(
    lake: SparkLake, numbered: Numbered
) -> None:
    options = {"bucket": "2", "write-buffer-size": "16 kb", "write-only": "true"}
    name = create(lake, numbered(0, 1), primary_keys=["id"], options=options)
    # 7,919 is a prime, so this is each of the ids once, in another order.
    mixed = numbered(0, 4000).repartition(7).withColumn("id", sf.col("id") * 7919 % 4000)
    lake.write(mixed, name)
    files = lake.catalog.table(name).files()
    assert len(files) > len({file.bucket for file in files}) == 2
    # Spark's own scan takes no bucket in which a file's keys lie among those of another.
    assert "MapInArrow" not in plan(lake.table(name))
    assert sorted(row.id for row in lake.table(name).select("id").collect()) == list(range(4000))


def test_unbucketed_tables_take_rows_as_they_come(lake: SparkLake, numbered: Numbered) -> None:
    name = create(lake, numbered(0, 1), partition_keys=["part"])
    lake.write(numbered(0, 50), name)
    lake.write(numbered(0, 50), name)
    assert rows(lake.table(name)) == numbers((0, 50), (0, 50))


def test_format_writes_what_write_writes(lake: SparkLake, numbered: Numbered) -> None:
    name = create(lake, numbered(0, 1), **PARTITIONED)
    numbered(0, 60).write.format("headwater").mode("append").save(name)
    spread = numbered(30, 90, "second").repartition(4)
    spread.write.format("headwater").mode("append").save(name)
    assert stored(lake, name) == numbers((0, 30), (30, 90, "second"))


def test_tasks_of_one_unclustered_write_do_not_share_sequence_numbers(
    lake: SparkLake, numbered: Numbered
) -> None:
    options = {"bucket": "1", "write-only": "true"}
    name = create(lake, numbered(0, 1), primary_keys=["id"], options=options)
    for _ in range(2):
        numbered(0, 60).repartition(3).write.format("headwater").mode("append").save(name)
    files = sorted(lake.catalog.table(name).files(), key=lambda file: file.min_sequence_number)
    assert len(files) == 6
    for older, newer in pairwise(files):
        assert older.max_sequence_number < newer.min_sequence_number


def test_overwrites_replace_the_table_its_partitions_or_one(
    lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **PARTITIONED)
    store(lake, name, 0, 30)
    zero = numbered(0, 30, "zero").where("part = '0'")
    lake.write(zero, name, mode="overwrite")
    zeros = [row for row in numbers((0, 30, "zero")) if row[2] == "0"]
    kept = [row for row in numbers((0, 30)) if row[2] != "0"]
    assert stored(lake, name) == sorted([*kept, *zeros], key=repr)
    one = numbered(300, 303, "one").drop("part")
    lake.write(one, name, mode="overwrite", partition={"part": "1"})
    ones = [(*row[:2], "1") for row in numbers((300, 303, "one"))]
    kept = [row for row in kept if row[2] == "2"]
    assert stored(lake, name) == sorted([*kept, *zeros, *ones], key=repr)
    lake.write(zero, name, mode="overwrite", dynamic=False)
    assert stored(lake, name) == zeros
    lake.write(zero.limit(0), name, mode="overwrite", dynamic=False)
    assert stored(lake, name) == []


def test_format_overwrites_with_mode_overwrite(lake: SparkLake, numbered: Numbered) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    for start in (0, 100):
        numbered(start, start + 5).write.format("headwater").mode("overwrite").save(name)
    assert stored(lake, name) == numbers((100, 105))


@pytest.mark.parametrize("how", [KEYED, PARTITIONED, {}], ids=["plain", "partitioned", "append"])
def test_delete_takes_the_rows_a_condition_is_true_for(
    lake: SparkLake, numbered: Numbered, how: dict[str, object]
) -> None:
    name = create(lake, numbered(0, 1), **how)
    store(lake, name, 0, 60)
    lake.delete(name, "id >= 20 AND part = '1'")
    left = [row for row in numbers((0, 60)) if int(str(row[0])) < 20 or row[2] != "1"]
    assert stored(lake, name) == left
    lake.delete(name, "id > 1000")
    assert lake.catalog.table(name).pointer.latest().id == 2  # type: ignore[union-attr]


def test_delete_by_keys_finds_the_rows_whose_columns_it_needs(
    lake: SparkLake, numbered: Numbered
) -> None:
    required = numbered(0, 1).schema
    required["name"].nullable = False
    lake.create_table("db.t", required, primary_keys=["id"], options={"bucket": "2"})
    store(lake, "db.t", 0, 60)
    lake.delete("db.t", keys=numbered(50, 90).select("id"))
    assert stored(lake, "db.t") == numbers((0, 50))
    lake.delete("db.t", keys=numbered(0, 10))
    assert stored(lake, "db.t") == numbers((10, 50))


@pytest.mark.parametrize("bucket", ["2", pytest.param("-1", marks=pytest.mark.modes)])
def test_keys_that_hold_nulls(spark: SparkSession, lake: SparkLake, bucket: str) -> None:
    fields = [st.StructField(name, st.LongType()) for name in ("a", "b")]
    schema = st.StructType([*fields, st.StructField("v", st.LongType(), False)])
    options = {"bucket": bucket, "primary-key.nullable": "true"}
    lake.create_table("db.t", schema, primary_keys=["a", "b"], options=options)
    keys = [(a, b) for a in (None, 0, 1, 2, 3) for b in (None, 0, 1)]
    lake.catalog.table("db.t").write([{"a": a, "b": b, "v": 1} for a, b in keys])
    lake.catalog.table("db.t").write([{"a": a, "b": b, "v": 2} for a, b in keys if a != 1])
    lake.write(spark.createDataFrame([(3, None, 3), (None, None, 3)], schema), "db.t")
    doomed = spark.createDataFrame([(None, 0), (2, None), (9, None)], st.StructType(fields))
    lake.delete("db.t", keys=doomed)
    expected = {(a, b): 1 if a == 1 else 2 for a, b in keys}
    expected |= {(3, None): 3, (None, None): 3}
    found = lake.table("db.t").collect()
    assert {(row.a, row.b): row.v for row in found} == {
        key: v for key, v in expected.items() if key not in ((None, 0), (2, None))
    }
    assert len(found) == len(keys) - 2
    assert lake.table("db.t").where("b IS NULL").count() == 4


def test_time_travel_by_snapshot_tag_and_timestamp(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    store(lake, name, 0, 20)
    table = lake.catalog.table(name)
    table.create_tag("v1")
    then = table.snapshot(1).time_millis
    store(lake, name, 10, 30, "second")
    table.compact()
    chosen: dict[str, tuple[str, dict[str, object]]] = {
        "scan.snapshot-id": ("1", {"snapshot_id": 1}),
        "scan.tag-name": ("v1", {"tag": "v1"}),
        "scan.timestamp-millis": (str(then), {"timestamp": then}),
    }
    for option, (text, arguments) in chosen.items():
        read = spark.read.format("headwater").option(option, text).load(name)
        assert rows(read) == numbers((0, 20))
        assert rows(lake.table(name, **arguments)) == numbers((0, 20))  # type: ignore[arg-type]
    assert rows(lake.table(name)) == numbers((0, 10), (10, 30, "second"))


def test_a_frame_shows_the_table_as_it_was_when_it_was_made(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    store(lake, name, 0, 20)
    frames = [lake.table(name)]
    if kind_of_session() != "connect":
        # Spark Connect looks a frame's source up each time that the frame is asked for its rows.
        frames.append(spark.read.format("headwater").load(name))
    store(lake, name, 10, 30, "second")
    for frame in frames:
        assert rows(frame) == numbers((0, 20))


@pytest.mark.parametrize("pushdown", [pytest.param("false", marks=pytest.mark.modes), "true"])
def test_one_frame_in_several_scans_keeps_all_its_rows(
    spark: SparkSession, lake: SparkLake, numbered: Numbered, pushdown: str
) -> None:
    """With filters pushed, Spark 4.3 would give all scans of a frame the last one's rows."""
    name = create(lake, numbered(0, 1), **KEYED)
    store(lake, name, 0, 20)
    key = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, pushdown)
    try:
        frame = spark.read.format("headwater").load(name)
        assert frame.where("id < 5").count() == 5
        assert frame.count() == 20
        assert frame.where("id < 3").union(frame.where("id >= 15")).count() == 8
    finally:
        spark.conf.set(key, str(before))


@pytest.mark.modes
def test_two_lakes_of_one_session_keep_apart(
    spark: SparkSession, lake: SparkLake, numbered: Numbered, tmp_path: Path
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    other = connect(spark, tmp_path / "other")
    other.catalog.create_database("db")
    create(other, numbered(0, 1), **KEYED)
    lake.write(numbered(0, 5), name)
    other.write(numbered(5, 9), name)
    assert rows(lake.table(name)) == numbers((0, 5))
    assert rows(other.table(name)) == numbers((5, 9))
    # The format is the last one's, unless its options say otherwise.
    assert rows(spark.read.format("headwater").load(name)) == numbers((5, 9))
    first = spark.read.format("headwater").option("uri", str(tmp_path / "lake")).load(name)
    assert rows(first) == numbers((0, 5))


def test_a_lake_behind_a_server_works_alike(
    spark: SparkSession,
    lake: SparkLake,
    numbered: Numbered,
    serve: Callable[..., str],
) -> None:
    url = serve(lake.catalog.catalog, tokens=("secret",))
    served = connect(spark, url, warehouse="main", token="secret")
    name = create(served, numbered(0, 1), **KEYED)
    served.write(numbered(0, 40), name)
    served.write(numbered(0, 5, "x", "-D"), name)
    served.compact(name)
    assert rows(served.table(name)) == numbers((5, 40))
    assert rows(spark.read.format("headwater").load(name)) == numbers((5, 40))


def test_compaction_in_tasks_keeps_rows_and_drops_files(
    lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **PARTITIONED)
    for version in range(3):
        store(lake, name, 0, 60, f"v{version}")
    done = lake.compact(name, {"part": "1"})
    assert done is not None
    assert str(done.commit_kind) == "COMPACT"
    files = lake.catalog.table(name).files()
    assert {file.partition for file in files if file.level > 0} == {"part=1"}
    assert lake.compact(name) is not None
    assert len(named_files(lake, name)) == 6
    assert lake.compact(name) is None
    assert stored(lake, name) == numbers((0, 60, "v2"))


def test_rows_are_sorted_in_tasks(lake: SparkLake, numbered: Numbered) -> None:
    name = create(lake, numbered(0, 1), partition_keys=["part"])
    store(lake, name, 0, 40, "b")
    store(lake, name, 40, 60, "a")
    done = lake.compact(name, where="part = '1'", order_strategy="order", order_by=["id"])
    assert done is not None
    assert str(done.commit_kind) == "COMPACT"
    splits = lake.catalog.table(name).scan(["id"], where="part = '1'").to_arrow()
    assert splits["id"].to_pylist() == sorted(splits["id"].to_pylist())
    assert stored(lake, name) == numbers((0, 40, "b"), (40, 60, "a"))


@pytest.mark.modes
def test_expired_files_are_gone(lake: SparkLake, numbered: Numbered, folder: Path) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    for version in range(3):
        lake.write(numbered(0, 60, f"v{version}"), name)
    lake.compact(name)
    lake.expire_snapshots(name, retain_max=1)
    assert data_files(folder) == named_files(lake, name)
    assert rows(lake.table(name)) == numbers((0, 60, "v2"))


def test_columns_and_schema_choose_what_is_read(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    store(lake, name, 0, 9)
    store(lake, name, 5, 12, "second")
    expected = rows(lake.table(name).select("part", "id"))
    reader = spark.read.format("headwater")
    assert lake.table(name, ["part", "id"]).columns == ["part", "id"]
    assert rows(lake.table(name, ["part", "id"])) == expected
    assert rows(reader.option("columns", "part, id").load(name)) == expected
    assert rows(spark.read.format("headwater").schema("part STRING, id BIGINT").load(name)) == (
        expected
    )


def test_a_schema_of_other_types_is_refused(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    store(lake, name, 0, 9)
    with pytest.raises(Exception, match="column 'id' is bigint, and the schema given says string"):
        spark.read.format("headwater").schema("id STRING").load(name).collect()


def test_an_empty_table_has_its_columns(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    for frame in (lake.table(name), spark.read.format("headwater").load(name)):
        assert frame.columns == ["id", "name", "part"]
        assert rows(frame) == []


def test_wrong_arguments_are_refused_before_any_task(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    df = numbered(0, 3)
    name = create(lake, df, **KEYED)
    wrong: list[tuple[type[HeadwaterError], str, Callable[[], object]]] = [
        (Invalid, "lacks the NOT NULL column 'id'", lambda: lake.write(df.drop("id"), name)),
        (Invalid, "no column 'x'", lambda: lake.write(df.withColumn("x", sf.lit(1)), name)),
        (Invalid, "cast the column", lambda: lake.write(df.withColumn("id", sf.lit("a")), name)),
        (Invalid, "mode", lambda: lake.write(df, name, mode="ignore")),
        (Invalid, "the mode is append", lambda: lake.write(df, name, dynamic=True)),
        (Invalid, "one of where and keys", lambda: lake.delete(name)),
        (NotFound, "db.absent", lambda: lake.write(df, "db.absent")),
        (NotFound, "db.absent", lambda: lake.table("db.absent")),
        (NotFound, "column 'x'", lambda: lake.table(name, ["x"])),
        (Invalid, "cannot be compared", lambda: lake.table(name, where="id > 'x'")),
    ]
    for error, text, attempt in wrong:
        with pytest.raises(error, match=text):
            attempt()
    assert data_files(folder) == []


def test_options_ask_for_changes_and_for_new_files(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    table = lake.catalog.table(name)
    table.write({"id": [1, 2], "name": ["one", "two"], "part": ["1", "1"]})
    table.write({"id": [1], "name": ["more"], "part": ["1"]})
    table.write({"id": [2], "name": ["two"], "part": ["1"]}, pa.array(["-D"]))
    for options, expected in (
        ({"incremental-between": "1,3"}, [("more",)]),
        ({"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}, [("more",)]),
        (
            {"incremental-between": "1,3", "include-row-kind": "true"},
            [("more", "+I"), ("two", "-D")],
        ),
    ):
        read = spark.read.format("headwater").options(**options).option("columns", "name")
        assert sorted(tuple(row) for row in read.load(name).collect()) == expected, options
    # What a table's own option leaves out, Spark's reading leaves out too.
    since = table.snapshot(1).time_millis + 1
    table.alter(SetOption("scan.file-creation-time-millis", str(since)))
    assert [row["name"] for row in lake.table(name).collect()] == ["more"]


def test_wrong_options_are_named(
    spark: SparkSession, lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    name = create(lake, numbered(0, 1), **KEYED)
    lake.catalog.table(name).write({"id": [1], "name": ["one"], "part": ["1"]})
    wrong = [
        ({"columns": "id, id"}, "option 'columns' names 'id' twice"),
        ({"scan.snapshot-id": "x"}, "option 'scan.snapshot-id' must be an integer, not 'x'"),
        ({"scan.snapshot-id": "9"}, "snapshot 9"),
        ({"consumer-id": "c"}, "no option 'consumer-id' for spark.read: it is for"),
        ({"scan.mode": "latest"}, "no option 'scan.mode' for spark.read: it is for"),
        (
            {"scan.bucket": "1"},
            "no option 'scan.bucket' .*: it is one of Paimon's",
        ),
        ({"snapshot_id": "1"}, "no option 'snapshot_id' .* mean 'scan.snapshot-id'"),
        ({"columns": '["id'}, "option 'columns' is not a JSON list"),
    ]
    for options, message in wrong:
        # As Spark calls it, in this process: in Spark's each refusal is the end of a worker.
        source = data_source(folder, name, **options)
        with pytest.raises(HeadwaterError, match=message):
            source.reader(source.schema())
    for options, message in (
        ({"consumer-id": "c"}, r"no option 'consumer-id' for spark\.read: it is for"),
        ({"Scan.Snapshot-ID": "9"}, "snapshot 9"),
    ):
        with pytest.raises(Exception, match=message):
            spark.read.format("headwater").options(**options).load(name).collect()


def test_options_that_a_write_does_not_have_are_refused(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    df = numbered(3, 6)
    name = create(lake, df, **PARTITIONED)
    for overwrite, option, message in (
        (False, "write-buffer-size", "no option 'write-buffer-size' for df.write"),
        (False, "scan.snapshot-id", "for df.write: it is for spark.read and spark.readStream"),
        (False, "partition", "option 'partition' says what an overwrite replaces"),
        (True, "partitions", "did you mean 'partition'"),
    ):
        source = data_source(folder, name, **{option: "x"})
        with pytest.raises(Invalid, match=message):
            source.writer(df.schema, overwrite)
    for mode, option, message in (
        ("append", "partition", "option 'partition' says what an overwrite replaces"),
        ("overwrite", "partitions", "did you mean 'partition'"),
    ):
        writer = df.write.format("headwater").mode(mode).option(option, "x")
        with pytest.raises(Exception, match=message):
            writer.save(name)
    assert data_files(folder) == []


@pytest.mark.modes
def test_the_upkeep_of_many_tables_is_done_at_once(lake: SparkLake) -> None:
    for name in ("db.a", "db.b"):
        table = lake.create_table(
            name,
            st.StructType([st.StructField("id", st.LongType(), nullable=False)]),
            primary_keys=["id"],
            options={"bucket": "2", "write-only": "true", "num-sorted-run.compaction-trigger": "2"},
        )
        table.write({"id": [1, 2, 3]})
        table.write({"id": [3, 4, 5]})
    plan = lake.maintain(include=["db.*"])
    assert [(step.table, step.state) for step in plan.steps] == [
        ("db.a", State.DONE),
        ("db.b", State.DONE),
    ]
    for name in ("db.a", "db.b"):
        assert sorted(row.id for row in lake.table(name).collect()) == [1, 2, 3, 4, 5]
        assert len(lake.catalog.table(name).files()) == 2
