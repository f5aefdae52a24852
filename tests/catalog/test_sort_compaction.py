"""Sorting an append table: what a user asks for, and what a filter then need not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid
from headwater.storage.snapshot.snapshot import CommitKind

SCHEMA = pa.schema([("x", pa.int32()), ("y", pa.int32()), ("day", pa.string())])


def new_table(folder: Path, **options: str) -> Table:
    """A table with options; ``_`` stands for ``-`` and ``__`` for ``.``."""
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    given = option_names(options)
    return lake.create_table("d.t", SCHEMA, partition_keys=["day"], options=given)


def points(seed: int, days: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 1000, (2, 8000), np.int32)
    names = [f"d{number}" for number in rng.integers(0, days, 8000)]
    return pa.table([*map(pa.array, numbers), names], schema=SCHEMA)


def rows(table: Table) -> list[tuple[object, ...]]:
    found = table.scan().to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def files(table: Table, where: str) -> int:
    return sum(len(split.files) for split in table.scan(where=where).splits)


@pytest.mark.modes
@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_a_curve_lets_filters_on_each_column_leave_files_out(tmp_path: Path, strategy: str) -> None:
    table = new_table(tmp_path, target_file_size="1 kb")
    table.write(points(0))
    before = rows(table)
    table.compact(order_strategy="order", order_by=["x"])
    first = "x BETWEEN 100 AND 110"
    second = "y BETWEEN 100 AND 110"
    total = len(table.files())
    assert total > 8
    # Sorted by one column, a file has all values of the other.
    assert (files(table, first) < total / 4, files(table, second)) == (True, total)
    snapshot = table.compact(order_strategy=strategy, order_by=["x", "y"])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert rows(table) == before
    total = len(table.files())
    assert files(table, first) < total * 0.6
    assert files(table, second) < total * 0.6


def test_streams_and_changes_tell_nothing_of_a_sort(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.write(points(0))
    table.compact(order_strategy="Order", order_by="y, x")
    table.write(points(1).slice(0, 3))
    assert table.changes(since=1, until=3).to_arrow().num_rows == 3


@pytest.mark.modes
def test_partitions_are_chosen_by_values_or_by_a_condition(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.write(points(0, days=4))

    def names() -> dict[str, set[str]]:
        days = [f"d{number}" for number in range(4)]
        splits = {day: table.scan(where=f"day = '{day}'").splits for day in days}
        return {
            day: {file.file_name for split in found for file in split.files}
            for day, found in splits.items()
        }

    before, files_before = rows(table), names()
    table.compact({"day": "d1"}, order_strategy="order", order_by=["x"])
    table.compact(where="day IN ('d2', 'd3')", order_strategy="zorder", order_by=["x", "y"])
    assert rows(table) == before
    assert [day for day, own in names().items() if own == files_before[day]] == ["d0"]
    with pytest.raises(Invalid, match="not by both"):
        table.compact({"day": "d1"}, where="day = 'd1'")
    with pytest.raises(Invalid, match="'x' is not a partition column"):
        table.compact(where="x = 1")
    with pytest.raises(Invalid, match="order_by needs order_strategy"):
        table.compact(order_by=["x"])
    with pytest.raises(Invalid, match="order_by needs order_strategy"):
        table.compact(order_strategy="none", order_by=["x"])
    with pytest.raises(Invalid, match="leave out full=False"):
        table.compact(full=False, order_strategy="order", order_by=["x"])
    with pytest.raises(Invalid, match="needs the columns"):
        table.compact(order_strategy="zorder")


@pytest.mark.modes
def test_a_condition_chooses_partitions_of_a_plain_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(2):
        table.write(points(number, days=3))
    before = rows(table)
    assert table.compact(where="day > 'd0' AND day <> 'd2'") is not None
    assert [files(table, f"day = 'd{number}'") for number in range(3)] == [2, 1, 2]
    assert rows(table) == before


@pytest.mark.modes
@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_writers_cluster_buckets_and_leave_tables_without_them(tmp_path: Path, bucket: str) -> None:
    fixed = {"bucket_key": "y", "bucket_append_ordered": "false"} if bucket == "1" else {}
    table = new_table(
        tmp_path,
        bucket=bucket,
        clustering__incremental="true",
        clustering__columns="x",
        num_sorted_run__compaction_trigger="3",
        **fixed,
    )
    for number in range(7):
        table.write(points(number).slice(0, 20))
    before = rows(table)
    assert len(before) == 140
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert (CommitKind.COMPACT in kinds) == (bucket == "1")
    assert (len(table.files()) < 5) == (bucket == "1")
    # Without more words, what is due is done, not everything.
    table.compact()
    table.compact(full=True)
    assert rows(table) == before
    assert {file.level for file in table.files()} == {3}
    assert table.compact() is None
    assert table.compact(full=True) is None
    with pytest.raises(Invalid, match=r"clustering\.incremental|can be sorted"):
        table.compact(order_strategy="order", order_by=["y"])
    table.delete("x < 500")
    assert rows(table) == [row for row in before if isinstance(row[0], int) and row[0] >= 500]
