"""Upserts by name, and the table's upkeep in one place."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.table.upkeep import TableUpkeep
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound

COLUMNS = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32()), ("note", pa.string())])
FIRST = {"id": [1, 2], "v": [1, 2], "note": ["a", "b"]}


def test_rows_are_upserted_by_the_primary_key(lake: Lake) -> None:
    table = lake.create_table("sales.k", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    table.upsert(FIRST)
    table.upsert({"id": [2, 3], "v": [20, 30]}, on=["id"])
    rows = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert rows == [(1, 1, "a"), (2, 20, None), (3, 30, None)]
    with pytest.raises(Invalid, match="primary key"):
        table.upsert(FIRST, on=["v"])


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_are_upserted_by_columns_that_are_named(lake: Lake, vectors: str) -> None:
    table = lake.create_table(
        "sales.a", COLUMNS, options={"deletion-vectors.enabled": vectors, "bucket": "-1"}
    )
    table.upsert(FIRST, on=["id"])
    before = table.latest_snapshot()
    table.upsert({"id": [2, 3], "v": [20, 30]}, on=["id"])
    after = table.latest_snapshot()
    assert before is not None
    assert after is not None
    assert after.id == before.id + 1
    rows = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert rows == [(1, 1, "a"), (2, 20, "b"), (3, 30, None)]


def test_what_is_no_key_is_refused_and_nothing_is_written(lake: Lake) -> None:
    table = lake.create_table("sales.a", COLUMNS)
    with pytest.raises(Invalid, match="no primary key"):
        table.upsert(FIRST)
    with pytest.raises(Invalid, match="equal values in id"):
        table.upsert({"id": [7, 7], "v": [1, 2], "note": ["a", "b"]}, on=["id"])
    with pytest.raises(Invalid, match="null in note"):
        table.upsert({"id": [7], "note": pa.array([None], pa.string())}, on=["note"])
    with pytest.raises(NotFound, match="missing"):
        table.upsert(FIRST, on=["missing"])
    assert table.latest_snapshot() is None


def test_upkeep_is_found_in_one_place(lake: Lake) -> None:
    table = lake.create_table("sales.k", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    table.write(FIRST)
    table.write(FIRST)
    compacted = table.maintenance.compact()
    assert compacted is not None
    assert compacted.commit_kind == "COMPACT"
    assert table.maintenance.expire(retain_max=1, retain_min=1).expired == (1, 2)
    assert table.maintenance.remove_orphan_files(dry_run=True).files == ()
    assert repr(table.maintenance).startswith("Maintenance(sales.k: compact, compact_manifests, ")
    upkeep = {name for name in vars(TableUpkeep) if not name.startswith("_")} - {"maintenance"}
    assert {name.removesuffix("_snapshots") for name in upkeep} <= vars(table.maintenance).keys()
