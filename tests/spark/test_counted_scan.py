"""Rows that Spark's own scan counts: the live rows that fulfil a condition, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyspark.sql.types as st
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import Numbered, Rows, plan, rows

from headwater.spark import SparkLake
from headwater.spark.session import is_connect
from headwater.spark.source import counted_scan
from headwater.spark.source.table_read import TableRead
from headwater.storage.schema.change import AddColumn, RenameColumn
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = pytest.mark.spark

CONDITION = "name >= 'n2' AND v % 3 <> 1"
QUERY = f"SELECT id, name, v FROM db.t WHERE {CONDITION}"
ALL = range(900)


def version(number: int) -> range:
    """The keys of an upsert."""
    return range(number * 37, 900, 3 + number)


def values(spark: SparkSession, keys: range, number: int) -> DataFrame:
    frame = spark.range(keys.start, keys.stop, keys.step, 1)
    return frame.selectExpr("id", "concat('n', id % 10) AS name", f"id * 10 + {number} AS v")


def expected(condition: str) -> set[tuple[object, ...]]:
    found: dict[int, int] = dict.fromkeys(ALL, 0)
    for number in (1, 2, 3):
        found |= dict.fromkeys(version(number), number)
    data = [(key, f"n{key % 10}", key * 10 + number) for key, number in found.items()]
    return {row for row in data if condition == "" or (row[1] >= "n2" and row[2] % 3 != 1)}


@pytest.fixture
def table(lake: SparkLake, spark: SparkSession) -> str:
    """900 rows in two buckets and three upserts of many of them, which two queries have read."""
    if is_connect(spark):
        pytest.skip("Spark Connect reads merged rows in Python workers")
    schema = values(spark, ALL, 0).schema
    options = {"bucket": "2", "write-only": "true"}
    lake.create_table("db.t", schema, primary_keys=["id"], options=options)
    for number in range(4):
        lake.catalog.table("db.t").write(
            [
                {"id": key, "name": f"n{key % 10}", "v": key * 10 + number}
                for key in (version(number) if number else ALL)
            ]
        )
    for _ in range(2):
        lake.sql(QUERY)
    return "db.t"


def read_of(lake: SparkLake) -> TableRead:
    (read,) = lake.last_query
    return read


def is_counted(lake: SparkLake) -> bool:
    division = read_of(lake).division
    return bool(division.counted) and not division.python


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            spark.conf.unset(key)


def test_rows_are_counted_from_the_second_query_on(lake: SparkLake, table: str) -> None:
    frame = lake.sql(QUERY)
    assert is_counted(lake)
    assert "MapInArrow" not in plan(frame)
    assert read_of(lake).measured() is None
    assert {tuple(row) for row in frame.collect()} == expected(CONDITION)
    read = read_of(lake)
    measured = read.measured()
    assert measured is not None
    assert (measured.files, measured.bytes) == (read.files, read.bytes)
    assert read.native_files == read.files
    assert measured.rows == len(ALL)


def test_nothing_leaves_rows_out_before_they_are_counted(lake: SparkLake, table: str) -> None:
    lake.sql(QUERY).where("id > 5").limit(3).collect()
    runs = read_of(lake).runs
    assert runs is not None
    (scan,) = runs.scans
    lines = plan(scan).splitlines()
    (read,) = [line for line in lines if "FileScan parquet" in line]
    assert "DataFilters: []" in read
    assert "PushedFilters: []" in read
    assert "PartitionFilters: []" in read
    counting = next(at for at, line in enumerate(lines) if "monotonically_increasing_id" in line)
    below = [line.lstrip(" +-:*(1)").partition(" ")[0] for line in lines[counting + 1 :] if line]
    assert below == ["ColumnarToRow", "FileScan"]
    # The user's condition is asked first, the bit last.
    (condition,) = [line for line in lines if "Filter (" in line]
    assert condition.index(">= n2") < condition.index("getbit")


@pytest.mark.modes
@pytest.mark.parametrize(
    "chosen",
    [
        {"spark.sql.files.maxPartitionBytes": "100", "spark.sql.files.openCostInBytes": "100"},
        {"spark.sql.files.maxPartitionNum": "1", "spark.sql.files.minPartitionNum": "7"},
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.adaptive.enabled": "false", "spark.sql.ansi.enabled": "false"},
    ],
    ids=["sizes", "numbers", "no stages", "no code", "rows", "not adaptive"],
)
def test_settings_of_the_session_do_not_change_the_rows(
    lake: SparkLake, table: str, chosen: Mapping[str, str]
) -> None:
    with settings(lake.spark, chosen):
        found = lake.sql(QUERY)
        assert is_counted(lake)
        assert {tuple(row) for row in found.collect()} == expected(CONDITION)


@pytest.mark.modes
def test_the_frame_is_as_any_other(lake: SparkLake, table: str, spark: SparkSession) -> None:
    """A plan with a counter would be refused in subqueries, and counted on in a joined part."""
    frame = lake.sql(QUERY)
    assert is_counted(lake)
    right = expected(CONDITION)
    ids = sorted(int(str(row[0])) for row in right)
    assert {tuple(row) for row in frame.coalesce(1).collect()} == right
    assert {tuple(row) for row in frame.repartition(5).collect()} == right
    assert frame.union(frame).groupBy("id").count().where("count <> 2").count() == 0
    assert {tuple(row) for row in frame.limit(10).collect()} <= right
    assert frame.orderBy("id").limit(5).collect() == frame.orderBy("id").collect()[:5]
    assert {tuple(row) for row in frame.sample(fraction=0.5, seed=1).collect()} <= right
    cached = frame.cache()
    assert cached.count() == cached.count() == len(right)
    cached.unpersist()
    assert frame.join(frame.select("id"), "id").count() == len(right)
    frame.createOrReplaceTempView("counted")
    numbers = "(SELECT explode(array(2, 3, 901)) AS n)"
    try:
        for query in (
            f"SELECT n FROM {numbers} WHERE n IN (SELECT id FROM counted)",
            f"SELECT n FROM {numbers} WHERE EXISTS (SELECT 1 FROM counted WHERE id = n)",
            f"SELECT n FROM {numbers} a, LATERAL (SELECT id FROM counted WHERE id = a.n)",
            f"SELECT n FROM {numbers} JOIN counted "
            "ON n = id AND id <= (SELECT max(id) FROM counted)",
        ):
            assert {row.n for row in spark.sql(query).collect()} == {2, 3, 901} & set(ids), query
    finally:
        spark.catalog.dropTempView("counted")


@pytest.mark.modes
def test_a_table_may_stand_anywhere_in_a_query(lake: SparkLake, table: str) -> None:
    part = f"(SELECT * FROM db.t WHERE {CONDITION})"
    right = len(expected(CONDITION))
    for query in (
        f"WITH c AS {part} SELECT count(*) FROM c a JOIN c b ON a.id = b.id",
        f"SELECT count(*) FROM db.t WHERE id IN (SELECT id FROM {part})",
        f"SELECT count(*) FROM {part} a JOIN LATERAL (SELECT v FROM {part} b WHERE a.id = b.id)",
    ):
        for _ in range(2):
            assert lake.sql(query).first() == (right,), query


@pytest.mark.modes
def test_files_that_are_packed_in_another_way_go_to_workers(
    lake: SparkLake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = counted_scan._packed
    monkeypatch.setattr(
        counted_scan, "_packed", lambda files, size: [part[::-1] for part in packed(files, size)]
    )
    monkeypatch.setattr(counted_scan, "_part_bytes", lambda sizes, parallelism: sum(sizes))
    frame = lake.sql(QUERY)
    assert "MapInArrow" in plan(frame)
    assert {tuple(row) for row in frame.collect()} == expected(CONDITION)


@pytest.mark.modes
def test_files_whose_rows_are_not_as_many_as_said_go_to_workers(
    lake: SparkLake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_scan, "_row_count", lambda path, size: 1)
    frame = lake.sql(QUERY)
    assert "MapInArrow" in plan(frame)
    assert {tuple(row) for row in frame.collect()} == expected(CONDITION)


@pytest.mark.modes
def test_files_may_share_parts(
    lake: SparkLake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []
    for share in (1, 3, 100):
        monkeypatch.setattr(
            counted_scan, "_part_bytes", lambda sizes, _, n=share: max(*sizes, sum(sizes) // n)
        )
        frame = lake.sql(QUERY)
        assert is_counted(lake)
        assert {tuple(row) for row in frame.collect()} == expected(CONDITION)
        numbers.append(frame.rdd.getNumPartitions())
    files = read_of(lake).files
    assert numbers[0] == 1 < numbers[1] < numbers[2] <= files


@pytest.mark.modes
def test_conditions_that_few_row_groups_meet_go_to_workers(
    lake: SparkLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("Spark Connect reads merged rows in Python workers")
    frame = values(spark, range(60_000), 0).coalesce(1)
    options = {"bucket": "1", "write-only": "true", "file.block-size": "10 kb"}
    lake.create_table("db.t", frame.schema, primary_keys=["id"], options=options)
    for number in (0, 1):
        lake.write(values(spark, range(60_000), number).coalesce(1), "db.t")
    for condition, counts in (("id < 9", False), ("v = 31", False), ("name = 'n3'", True)):
        for _ in range(3):
            frame = lake.sql(f"SELECT id FROM db.t WHERE {condition}")
        division = read_of(lake).division
        assert bool(division.counted) is counts, condition
        assert all(split.live_rows is not None for split in division.python)
        assert frame.count() == {"id < 9": 9, "v = 31": 1, "name = 'n3'": 6000}[condition]


@pytest.mark.modes
def test_partitions_schemas_and_deletion_vectors(
    lake: SparkLake, numbered: Numbered, spark: SparkSession
) -> None:
    """Each partition and each schema is a scan of its own."""
    if is_connect(spark):
        pytest.skip("Spark Connect reads merged rows in Python workers")
    lake.create_table(
        "db.t",
        numbered(0, 1).schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "2", "deletion-vectors.enabled": "true", "write-only": "true"},
    )
    lake.write(numbered(0, 90), "db.t")
    lake.delete("db.t", where="id % 7 = 3")
    lake.compact("db.t")
    lake.catalog.alter_table(
        "db.t", RenameColumn(("name",), "headwater row"), AddColumn(("more",), AtomicType(Root.INT))
    )
    newer = numbered(30, 60, "second").withColumnRenamed("name", "headwater row")
    lake.write(newer.withColumn("more", sf.lit(5)), "db.t")
    lake.delete("db.t", where="id = 41")
    text = "SELECT id, `headwater row`, part, more FROM db.t WHERE `headwater row` > 'first-4'"
    direct: Rows = rows(
        spark.read.format("headwater").load("db.t").where("`headwater row` > 'first-4'")
        .select("id", "headwater row", "part", "more")
    )  # fmt: skip
    assert direct
    for _ in range(3):
        assert rows(lake.sql(text)) == direct
        assert rows(lake.table("db.t", where="`headwater row` > 'first-4'")) == direct


@pytest.mark.modes
def test_the_types_of_columns_stay(lake: SparkLake, table: str) -> None:
    frame = lake.sql(QUERY)
    assert [(field.name, field.dataType) for field in frame.schema] == [
        ("id", st.LongType()), ("name", st.StringType()), ("v", st.LongType())
    ]  # fmt: skip
