"""A frame reads the snapshot and the columns that were chosen when it was made."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.spark import SparkLake
from headwater.storage.schema.change import AddColumn, DropColumn
from headwater.storage.types.atomic_type import AtomicType, Root

pytestmark = pytest.mark.spark


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
