"""Compaction and streams of tables whose rows have their columns in several files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.catalog.evolved_tables import (
    OPTIONS,
    SCHEMA,
    Rows,
    commit,
    files_of,
    found,
    make,
    racing_update,
    rows,
)
from tests.interrupted import Racing

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Unsupported
from headwater.storage.index.index_file import GlobalIndex, IndexFileMeta
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import StreamPosition, next_plan


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


# Compaction -------------------------------------------------------------------------------------


def test_neighbouring_ranges_become_one_file_of_all_columns(lake: Lake) -> None:
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    for start in (0, 3, 5):
        table.write(rows(*range(start, start + 3 - (start == 3))))
    table.update({"a": pc.field("a") + 1}, where="id in (0, 4)")
    table.delete("id in (1, 4, 7)")
    table.update({"b": "new"}, where="id = 5")
    expected = found(table, [*SCHEMA.names, "_ROW_ID"])
    sequence = max(file.max_sequence_number for file in files_of(table))
    made = table.compact()
    assert made is not None
    assert made.next_row_id == 8
    (file,) = files_of(table)
    assert (file.first_row_id, file.row_count, file.write_cols) == (0, 8, None)
    assert (file.min_sequence_number, file.max_sequence_number) == (1, sequence)
    assert found(table, [*SCHEMA.names, "_ROW_ID"]) == expected
    assert table.scan().count() == 5
    assert table.compact() is None
    assert table.compact_manifests() is not None
    # A range of which rows are gone already gets new values, and more of them go.
    table.update({"a": -1}, where="_ROW_ID = 3")
    table.delete("id = 0")
    table.write(rows(9))
    assert table.compact() is not None
    assert found(table, ["id", "a", "_ROW_ID"])[:2] == [
        {"id": 2, "a": 20, "_ROW_ID": 2},
        {"id": 3, "a": -1, "_ROW_ID": 3},
    ]
    assert table.scan(snapshot_id=6).to_arrow().num_rows == 5
    assert table.check_files(deep=True).is_whole


def test_what_is_large_or_far_is_joined_with_its_own_columns_alone(lake: Lake) -> None:
    options = {"target-file-size": "2 kb", "source.split.open-file-cost": "1 b"}
    table = lake.create_table("db.t", SCHEMA, partition_keys=["b"], options={**OPTIONS, **options})
    same = {"id": list(range(400)), "a": [i * 7919 for i in range(400)], "b": ["x"] * 400}
    table.write(same)
    for _ in range(3):
        table.write({"id": [1], "a": [1], "b": ["x"]})
    table.write({"id": [1], "a": [1], "b": ["y"]})
    table.write({"id": [2], "a": [2], "b": ["x"]})
    table.update({"a": 5}, where="id = 7")
    assert table.compact() is not None
    kept = sorted((file.first_row_id, file.row_count) for file in files_of(table))
    assert kept == [(0, 400), (400, 3), (403, 1), (404, 1)]
    wide = table.with_options({"target-file-size": "100 kb"})
    assert wide.compact() is not None
    # The row of another partition stands between them.
    kept = sorted((file.first_row_id, file.row_count) for file in files_of(table))
    assert kept == [(0, 403), (403, 1), (404, 1)]
    assert len(found(table, ["id"], "a = 5")) == 1
    assert table.compact(where="b = 'y'") is None


def test_a_compaction_and_changes_at_once_of_its_rows_lose_nothing(lake: Lake) -> None:
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    other = lake.table("db.t")
    table.write(rows(0, 1))
    table.write(rows(2, 3))

    def compact_after(before: Callable[[], object]) -> Rows:
        racing = Racing(table.pointer, before)
        compact_table(table.storage, racing, LocalExecutor())
        assert racing.before is None
        return found(table, ["id", "a"])

    # Planned anew each time, with what the others did.
    assert compact_after(lambda: other.update({"a": 77}, where="id = 0"))[:2] == [
        {"id": 0, "a": 77},
        {"id": 1, "a": 10},
    ]
    assert len(files_of(table)) == 1
    table.write(rows(4))
    assert [row["id"] for row in compact_after(lambda: other.delete("id = 1"))] == [0, 2, 3, 4]
    assert len(files_of(table)) == 1
    table.write(rows(5))
    assert [row["id"] for row in compact_after(lambda: other.overwrite(rows(5, 6)))] == [5, 6]
    table.write(rows(8))
    # Appends are not in its way.
    assert [row["id"] for row in compact_after(lambda: other.write(rows(9)))] == [5, 6, 8, 9]
    assert len(files_of(table)) == 2
    # An update that has read what is joined meanwhile looks its rows up again.
    racing_update(table, lambda: other.compact(), a=pc.field("a") + 1)
    assert [row["a"] for row in found(table)] == [51, 61, 81, 91]
    assert table.check_files(deep=True).is_whole


# Streams ----------------------------------------------------------------------------------------


def streamed(table: Table, position: StreamPosition | None = None) -> list[list[dict[str, object]]]:
    """The rows of each plan of a stream from a position on, by default from the first snapshot."""
    told: list[list[dict[str, object]]] = []
    position = position or StreamPosition(1)
    while True:
        plan, position = next_plan(table.storage, position, table.latest_snapshot())
        if plan is None:
            return told
        reads = (read_split(table.storage, split, row_kinds=True) for split in plan.splits)
        told.append([row for batches in reads for batch in batches for row in batch.to_pylist()])


def test_a_stream_tells_of_rows_that_are_added_and_of_no_new_values(lake: Lake) -> None:
    table = make(lake, **{"deletion-vectors.enabled": "true"})
    table.write(rows(0, 1))
    table.update({"a": 5}, where="id = 1")
    table.merge(pa.table({"id": [1, 2], "a": [6, 20]}), on=["id"])
    table.delete("id = 0")
    table.compact()
    # All columns of the last rows: no other column tells them from new rows.
    table.update({"id": 7, "a": 70, "b": "seven"}, where="id = 2")
    table.write(rows(3))

    def added(row_id: int, a: int, b: str | None) -> dict[str, object]:
        return {"id": row_id, "a": a, "b": b, "_ROW_KIND": "+I"}

    new = [[added(0, 0, "b0"), added(1, 10, "b1")], [added(2, 20, None)], [added(3, 30, "b3")]]
    assert streamed(table) == new
    full = StreamPosition(7, changes=False)
    assert [[row["id"] for row in part] for part in streamed(table, full)] == [[1, 7, 3]]
    told = table.changes(0, skip_overwrites=True).to_arrow().to_pylist()
    assert told == [row for part in new for row in part]
    with pytest.raises(Unsupported, match="snapshot 2 gave columns of older rows new values"):
        table.changes(0)
    assert table.changes(6).to_arrow()["id"].to_pylist() == [3]
    assert table.changes(2, 3, where="a > 10", skip_overwrites=True).to_arrow().num_rows == 1
    # Where the snapshot before has expired, too.
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert streamed(table, StreamPosition(7)) == [new[2]]


# Indexes of row ids -----------------------------------------------------------------------------


def test_a_column_that_another_engine_has_an_index_of_gets_no_new_values(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    index = IndexFileMeta("btree", "index-1", 1, 2, global_index=GlobalIndex(0, 1, 1, (2,)))
    commit(table, new_index_files=(index,))
    for changed in ("a", "b"):
        with pytest.raises(Unsupported, match=f"column '{changed}' has an index of type btree"):
            table.update({changed: None}, where="id = 0")
    table.update({"id": 5}, where="id = 0")
    table.write(rows(2))
    table.compact()
    ignoring = table.with_options({"global-index.column-update-action": "IGNORE"})
    ignoring.update({"a": 7}, where="id = 5")
    assert [row["a"] for row in found(table)] == [7, 10, 20]
