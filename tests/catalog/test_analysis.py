"""Statistics of a table's rows, as `Table.analyze` commits them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, Invalid, NotFound
from headwater.storage.jobs.analyze import analyze_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.maintenance.analysis import DistinctCount
from headwater.storage.schema.change import AddColumn
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics
from headwater.storage.types.data_type import parse_type

MOMENT = dt.datetime(2026, 1, 31, 12, 30, 15, 250000)
COLUMNS: Mapping[str, tuple[pa.DataType, list[Any], tuple[Any, ...]]] = {
    "flag": (pa.bool_(), [True, False, None, True], (2, "false", "true", 1, 1, 1)),
    "tiny": (pa.int8(), [-3, 5, None, 5], (2, "-3", "5", 1, 1, 1)),
    "count": (pa.int64(), [7, -7, 9, 7], (3, "-7", "9", 0, 8, 8)),
    "share": (pa.float64(), [0.0, -0.0, float("nan"), 1.5], (3, "0.0", "NaN", 0, 8, 8)),
    "price": (
        pa.decimal128(10, 2),
        [Decimal("1.50"), Decimal("-2.25"), None, Decimal("1.50")],
        (2, "-2.25", "1.50", 1, 8, 8),
    ),
    "wide": (pa.decimal128(20, 0), [Decimal(5), None, None, None], (1, "5", "5", 3, 16, 16)),
    "day": (
        pa.date32(),
        [dt.date(1970, 1, 2), dt.date(1969, 12, 31), None, None],
        (2, "-1", "1", 2, 4, 4),
    ),
    "clock": (pa.time32("ms"), [dt.time(0, 0, 1), None, None, None], (1, "1000", "1000", 3, 4, 4)),
    "at": (
        pa.timestamp("us"),
        [MOMENT, MOMENT, None, None],
        (1, "2026-01-31 12:30:15.250000", "2026-01-31 12:30:15.250000", 2, 8, 8),
    ),
    "moment": (
        pa.timestamp("ms", "UTC"),
        [MOMENT, None, None, None],
        (1, "2026-01-31 12:30:15.250", "2026-01-31 12:30:15.250", 3, 8, 8),
    ),
    "name": (pa.string(), ["a", "ünf", "ünf", None], (2, None, None, 1, 3, 3)),
    "bytes": (pa.binary(), [b"", b"\xff\xfe", None, None], (2, None, None, 2, 1, 2)),
    "none": (pa.int32(), [None, None, None, None], (0, None, None, 4, None, None)),
}
KEYS = ("distinctCount", "min", "max", "nullCount", "avgLen", "maxLen")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def typed(lake: Lake, name: str = "db.t") -> Table:
    schema = pa.schema([("items", pa.list_(pa.int32())), *((k, v[0]) for k, v in COLUMNS.items())])
    table = lake.create_table(name, schema)
    data = {"items": [[1], None, [], [2]], **{k: v[1] for k, v in COLUMNS.items()}}
    table.write(pa.table(data, schema=schema))
    return table


def statistics_of(table: Table) -> dict[str, Any]:
    (row,) = table.inspect.statistics().to_pylist()
    return {**row, "colstat": json.loads(row["colstat"])}


def files_of(table: Table) -> set[str]:
    return {
        each.name
        for each in table.storage.files.list(table.storage.layout.location + "/statistics")
    }


def test_each_type_has_its_statistics(lake: Lake) -> None:
    table = typed(lake)
    snapshot = table.analyze()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.id, snapshot.delta_record_count) == (
        CommitKind.ANALYZE,
        2,
        0,
    )
    found = statistics_of(table)
    assert (found["snapshot_id"], found["schema_id"], found["mergedRecordCount"]) == (1, 0, 4)
    assert found["mergedRecordSize"] == sum(file.file_size for file in table.files())
    ids = {field.name: field.id for field in table.schema.fields}
    assert found["colstat"] == {
        name: {"colId": ids[name]}
        | {key: each for key, each in zip(KEYS, value[2], strict=True) if each is not None}
        for name, value in COLUMNS.items()
    }
    assert table.scan().count() == 4


def test_merged_rows_count_and_columns_may_be_chosen(lake: Lake) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), ("p", pa.string()), ("v", pa.int32())])
    table = lake.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": "2", "write-only": "true"}
    )
    assert table.analyze() is None
    table.write({"k": list(range(10)), "p": ["x"] * 10, "v": list(range(10))})
    table.write({"k": [1, 2], "p": ["y", "z"], "v": [100, None], "_ROW_KIND": ["+U", "+U"]})
    table.delete("k = 9")
    table.analyze(["v"])
    found = statistics_of(table)
    assert found["mergedRecordCount"] == 9
    assert 0 < found["mergedRecordSize"] < sum(file.file_size for file in table.files())
    assert found["colstat"] == {
        "v": {"colId": 2, "distinctCount": 8, "min": "0", "max": "100", "nullCount": 1, "avgLen": 4,
              "maxLen": 4}
    }  # fmt: skip
    table.analyze([])
    assert statistics_of(table)["colstat"] == {}
    with pytest.raises(NotFound, match="nope"):
        table.analyze(["nope"])
    with pytest.raises(Invalid, match="twice"):
        table.analyze(["k", "k"])
    with pytest.raises(Invalid, match="'items' of type"):
        typed(lake, "db.typed").analyze(["items"])


def test_statistics_live_as_long_as_a_snapshot_carries_them(lake: Lake) -> None:
    table = lake.create_table("db.t", pa.schema([("v", pa.int64())]))
    table.write({"v": [1]})
    table.analyze()
    (first,) = files_of(table)
    table.write({"v": [2]})
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert files_of(table) == {first}
    assert statistics_of(table)["mergedRecordCount"] == 1
    table.create_tag("kept")
    table.analyze()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(files_of(table)) == 2
    assert table.scan(tag="kept").count() == 2
    table.delete_tag("kept")
    table.remove_orphan_files(older_than=dt.timedelta(0))
    assert len(files_of(table) - {first}) == len(files_of(table)) == 1
    table.alter(AddColumn(("added",), parse_type("INT")))
    table = lake.table("db.t")
    table.write({"v": [3], "added": [1]})
    assert table.inspect.statistics().num_rows == 0
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert files_of(table) == set()


class Racing:
    """A pointer before whose commits others come."""

    def __init__(self, table: Table, times: int) -> None:
        self._table = table
        self._times = times

    def latest(self) -> Snapshot | None:
        return self._table.pointer.latest()

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        if self._times:
            self._times -= 1
            self._table.write({"v": [9]})
        return self._table.pointer.commit(snapshot, base, statistics)

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self._table.pointer.was_taken(snapshot)


def test_an_analysis_meets_other_commits(lake: Lake) -> None:
    table = lake.create_table("db.t", pa.schema([("v", pa.int64())]))
    table.write({"v": [1, 2]})
    made = analyze_table(table.storage, Racing(table, 2), LocalExecutor(), None)
    assert made is not None
    assert made.id == 4
    assert statistics_of(table)["snapshot_id"] == 1
    assert table.scan().count() == 4
    before = files_of(table)
    with pytest.raises(Conflict):
        analyze_table(
            table.with_options({"commit.max-retries": "1"}).storage,
            Racing(table, 5),
            LocalExecutor(),
            None,
        )
    assert files_of(table) == before


@pytest.mark.modes
@pytest.mark.parametrize("many", [1000, 262_144, 300_000, 3_000_000])
def test_distinct_values_are_counted_and_then_estimated(many: int) -> None:
    hashes = np.random.default_rng(7).integers(0, 2**64, many, np.uint64, endpoint=False)
    parts = [DistinctCount(), DistinctCount(), DistinctCount()]
    for at, chunk in enumerate(np.array_split(np.concatenate([hashes, hashes[:500]]), 12)):
        parts[at % 3].add(chunk)
    whole = parts[0]
    whole.merge(parts[1])
    whole.merge(parts[2])
    exact = many <= 262_144
    assert whole.count() == many if exact else abs(whole.count() - many) < many * 0.03
