"""Merged rows by Spark's own scan: it gives what Headwater's reader gives, from the same files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import Numbered, Rows, numbers, plan, rows, store

from headwater.spark import SparkLake, connect
from headwater.spark.connection import SETTINGS
from headwater.spark.session import is_connect
from headwater.storage.errors import Invalid
from headwater.storage.index import live_rows
from headwater.storage.merge.engine import Mask
from headwater.storage.schema.change import AddColumn, RenameColumn, SetOption
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = pytest.mark.spark

_NOT_LOCAL = "Spark Connect reads merged rows in Python workers"
_COLUMNS = "id BIGINT, part STRING, name STRING, at INT, _ROW_KIND STRING"


def is_native(frame: DataFrame) -> bool:
    text = plan(frame)
    return "FileScan parquet" in text and "MapInArrow" not in text


def by_python(lake: SparkLake, name: str) -> Rows:
    return rows(lake.spark.read.format("headwater").load(name))


@pytest.fixture
def upserted(lake: SparkLake, numbered: Numbered) -> str:
    """Rows 0 to 89 in two buckets of each of three partitions, some of them replaced."""
    if is_connect(lake.spark):
        pytest.skip(_NOT_LOCAL)
    lake.create_table(
        "db.t",
        numbered(0, 1).schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "2", "write-only": "true"},
    )
    store(lake, "db.t", 0, 90)
    store(lake, "db.t", 30, 40, "second")
    store(lake, "db.t", 35, 38, "second", "-D")
    return "db.t"


EXPECTED = numbers((0, 30), (30, 35, "second"), (38, 40, "second"), (40, 90))


def test_the_second_query_of_the_same_files_needs_no_merge(lake: SparkLake, upserted: str) -> None:
    first = lake.table(upserted)
    assert "MapInArrow" in plan(first)
    second = lake.table(upserted)
    assert is_native(second)
    assert rows(first) == rows(second) == EXPECTED
    frame = lake.sql("SELECT name FROM db.t WHERE part = '0'")
    assert is_native(frame)
    assert [row for row in rows(frame) if str(row[0]).startswith("second")] == [
        ("second-30",), ("second-33",), ("second-39",)
    ]  # fmt: skip
    (read,) = lake.last_query
    assert (read.files, read.native_files) == (4, 4)
    measured = read.measured()
    assert measured is not None
    assert (measured.files, measured.bytes) == (read.files, read.bytes)
    assert measured.rows == 30 - 1 < read.row_count


@pytest.mark.modes
def test_only_buckets_that_a_commit_touched_are_merged_again(
    lake: SparkLake, upserted: str, numbered: Numbered
) -> None:
    for _ in range(2):
        lake.table(upserted)
    lake.write(numbered(30, 31, "third"), upserted)
    found: list[tuple[int, int]] = []
    for _ in range(2):
        frame = lake.sql("SELECT * FROM db.t")
        (read,) = lake.last_query
        found.append((read.files, read.native_files))
        assert ("third-30",) in rows(frame.select("name"))
    files, native = found[0]
    assert 0 < native < files
    assert found[1] == (files, files)


@pytest.mark.modes
def test_a_query_that_names_a_table_twice_is_one(lake: SparkLake, upserted: str) -> None:
    text = "SELECT a.id FROM db.t a JOIN db.t b USING (part, id)"
    found: list[int] = []
    for _ in range(2):
        assert lake.sql(text).count() == 87
        one, other = lake.last_query
        assert one.native_files == other.native_files
        found.append(one.native_files)
    assert found[0] < found[1] == one.files


@pytest.mark.modes
def test_other_rules_are_not_those_that_a_merge_was_made_by(lake: SparkLake, upserted: str) -> None:
    for _ in range(2):
        lake.table(upserted)
    lake.catalog.alter_table(upserted, SetOption("ignore-delete", "true"))
    for _ in range(2):
        assert rows(lake.table(upserted)) == by_python(lake, upserted)
    assert lake.table(upserted).count() == 90


@pytest.mark.modes
def test_one_bit_that_is_wrong_is_one_row_that_is_wrong(
    lake: SparkLake, upserted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the array holds is what decides."""
    whole = live_rows.LiveRows.of

    def flipped(mask: Mask) -> live_rows.LiveRows:
        if len(mask) and not mask[0]:
            return whole(np.append(True, mask[1:]))
        return whole(mask)

    monkeypatch.setattr(live_rows.LiveRows, "of", flipped)
    for _ in range(2):
        frame = lake.table(upserted)
    assert is_native(frame)
    assert rows(frame) != EXPECTED


@pytest.mark.modes
def test_a_file_of_another_size_is_looked_into(lake: SparkLake, upserted: str) -> None:
    for _ in range(2):
        lake.table(upserted)
    location = lake.catalog.table(upserted).storage.layout.location.removeprefix("file://")
    damaged = sorted(Path(location, "part=2").rglob("data-*"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[:-10])
    frame = lake.table(upserted)
    with pytest.raises(Exception, match=r"part=2.*data-"):
        frame.collect()


@pytest.mark.modes
def test_files_of_one_size_are_told_apart(lake: SparkLake, spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip(_NOT_LOCAL)
    frame = spark.range(20).selectExpr("id", "id AS v")
    lake.create_table("db.s", frame.schema, primary_keys=["id"], options={"bucket": "1"})
    lake.catalog.alter_table("db.s", SetOption("write-only", "true"))
    for version in range(3):
        lake.write(frame.where(f"id % 3 >= {version}").coalesce(1), "db.s")
        lake.write(frame.where(f"id % 3 >= {version}").coalesce(1), "db.s")
    sizes = [file.file_size for file in lake.catalog.table("db.s").files()]
    assert len(set(sizes)) < len(sizes)
    for _ in range(2):
        found = lake.table("db.s")
    assert is_native(found)
    assert rows(found) == rows(frame)


@pytest.mark.modes
@pytest.mark.parametrize("name", ["_metadata", "headwater live rows"])
def test_columns_may_have_the_names_that_the_condition_uses(
    lake: SparkLake, spark: SparkSession, name: str
) -> None:
    frame = spark.range(20).select("id", sf.col("id").alias(name))
    options = {"bucket": "1", "write-only": "true"}
    lake.create_table("db.n", frame.schema, primary_keys=["id"], options=options)
    for _ in range(2):
        lake.write(frame.coalesce(1), "db.n")
    for _ in range(2):
        assert rows(lake.table("db.n")) == rows(frame)


@pytest.mark.parametrize(
    "keyed", [True, pytest.param(False, marks=pytest.mark.modes)], ids=["keyed", "append"]
)
def test_deletion_vectors_go_to_sparks_own_scan(
    lake: SparkLake, numbered: Numbered, keyed: bool
) -> None:
    if is_connect(lake.spark):
        pytest.skip(_NOT_LOCAL)
    options = {"deletion-vectors.enabled": "true", **({"bucket": "2"} if keyed else {})}
    keys = ["id"] if keyed else []
    lake.create_table("db.v", numbered(0, 1).schema, primary_keys=keys, options=options)
    store(lake, "db.v", 0, 90)
    lake.delete("db.v", where="id % 7 = 3")
    frame = lake.table("db.v")
    assert is_native(frame)
    left = {row[0]: row for row in numbers((0, 90)) if int(str(row[0])) % 7 != 3}
    assert rows(frame) == sorted(left.values(), key=repr)
    assert lake.sql("SELECT count(*) FROM db.v WHERE id < 4").first() == (3,)
    lake.sql("UPDATE db.v SET name = 'new' WHERE id % 10 = 1")
    lake.delete("db.v", where="id = 11")
    left |= {id: (id, "new", str(id % 3)) for id in range(1, 90, 10) if id in left}
    del left[11]
    assert rows(lake.table("db.v")) == sorted(left.values(), key=repr) == by_python(lake, "db.v")


@pytest.mark.modes
def test_the_memory_for_bitmaps_is_a_setting(lake: SparkLake, upserted: str) -> None:
    spark, target = lake.spark, lake._session.connection.target
    setting = f"{SETTINGS}bitmap-cache-size"
    try:
        for value in ("0", "40 b"):
            spark.conf.set(setting, value)
            other = connect(spark, target)
            for _ in range(3):
                frame = other.table(upserted)
                assert "MapInArrow" in plan(frame)
            assert rows(frame) == EXPECTED
        spark.conf.set(setting, "much")
        with pytest.raises(Invalid, match="bitmap-cache-size"):
            connect(spark, target)
    finally:
        spark.conf.unset(setting)


@pytest.mark.modes
def test_a_compacted_table_is_read_without_the_kinds_of_rows(
    lake: SparkLake, upserted: str
) -> None:
    lake.compact(upserted, full=True)
    frame = lake.table(upserted)
    merged = [file for file in lake.catalog.table(upserted).files() if file.level]
    assert merged
    assert rows(frame) == EXPECTED


# Generated ------------------------------------------------------------------------------------

_ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "ignore-delete": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "at"},
    "descending": {"sequence.field": "at", "sequence.field.sort-order": "descending"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
}


def generated(spark: SparkSession, dice: random.Random, kinds: str) -> DataFrame:
    keys = dice.sample(range(60), dice.randint(1, 40))
    data = [
        (
            key,
            f"p{key % 2}",
            f"n{dice.random()}",
            dice.choice([None, *range(5)]),
            dice.choice(kinds),
        )
        for key in keys
    ]
    named = [(*row[:4], {"I": "+I", "D": "-D"}[row[4]]) for row in data]
    return spark.createDataFrame(named, _COLUMNS).coalesce(1)


@pytest.mark.modes
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("engine", _ENGINES)
def test_both_ways_give_the_same_rows(
    spark: SparkSession, lake: SparkLake, engine: str, seed: int
) -> None:
    dice = random.Random(seed)
    first = generated(spark, dice, "I")
    lake.create_table(
        "db.g",
        first.drop("_ROW_KIND").schema,
        primary_keys=["id", "part"],
        partition_keys=["part"],
        options={"bucket": "2", "write-only": "true", **_ENGINES[engine]},
    )
    lake.write(first, "db.g")
    for step in range(3):
        if step == 1:
            lake.catalog.alter_table(
                "db.g", RenameColumn(("name",), "title"), AddColumn(("more",), AtomicType(Root.INT))
            )
        if step == 2 and engine not in ("first-row", "partial-update"):
            lake.compact("db.g")
        more = generated(spark, dice, "IIID")
        if step:
            more = more.withColumnRenamed("name", "title").withColumn("more", sf.col("at") + 1)
        lake.write(more, "db.g")
        expected = by_python(lake, "db.g")
        for _ in range(2):
            assert rows(lake.table("db.g")) == expected
        assert rows(lake.table("db.g", where="at > 2")) == rows(
            spark.read.format("headwater").load("db.g").where("at > 2")
        )
