"""A frame reads the snapshot and the columns that were chosen when it was made."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.spark import SparkLake
from headwater.storage.errors import Unsupported
from headwater.storage.schema.change import AddColumn, DropColumn, SetOption
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = pytest.mark.spark
DAYS = pa.schema([("day", pa.string()), ("n", pa.int64())])


@pytest.fixture
def lake(lake: SparkLake) -> SparkLake:
    table = lake.catalog.create_table(
        "db.t",
        pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())]),
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    table.write({"id": [1, 2], "v": [10, 20]})
    table.write({"id": [2], "v": [21]})
    return lake


def rows(lake: SparkLake, **chosen: object) -> list[tuple[object, ...]]:
    frame = lake.table("db.t", **chosen)  # type: ignore[arg-type]
    return sorted(tuple(row) for row in frame.collect())


def test_a_column_added_after_the_last_commit_reads_null(lake: SparkLake) -> None:
    lake.catalog.alter_table("db.t", AddColumn(("w",), AtomicType(Root.INT)))
    assert rows(lake) == [(1, 10, None), (2, 21, None)]
    assert rows(lake, where="w IS NULL AND id > 1") == [(2, 21, None)]
    assert rows(lake, snapshot_id=1) == [(1, 10), (2, 20)]


def test_a_column_dropped_and_added_again_has_none_of_the_old_values(lake: SparkLake) -> None:
    lake.catalog.alter_table("db.t", DropColumn(("v",)))
    lake.catalog.alter_table("db.t", AddColumn(("v",), AtomicType(Root.INT)))
    assert rows(lake) == [(1, None), (2, None)]
    assert rows(lake, snapshot_id=2) == [(1, 10), (2, 21)]


def test_a_tag_reads_after_its_snapshot_has_expired(lake: SparkLake) -> None:
    table = lake.catalog.table("db.t")
    table.create_tag("first", 1)
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [2]
    assert rows(lake, tag="first") == [(1, 10), (2, 20)]


def test_a_frame_of_two_branches_reads_what_both_held_when_it_was_made(lake: SparkLake) -> None:
    table = lake.catalog.create_table("db.days", DAYS, partition_keys=["day"])
    live = table.create_branch("live")
    table.alter(SetOption("scan.fallback-branch", "live"))
    live.write({"day": ["1", "2"], "n": [9, 20]})
    table.write({"day": ["1"], "n": [10]})
    frame = lake.table("db.days", ["n"])
    past = lake.table("db.days", where="n > 10", snapshot_id=1)
    live.write({"day": ["3"], "n": [30]})
    assert sorted(row.n for row in frame.collect()) == [10, 20]
    assert [tuple(row) for row in past.collect()] == [("2", 20)]
    assert lake.table("db.days").count() == 3
    with pytest.raises(Unsupported, match="would stay"):
        lake.delete("db.days", "n = 20")
