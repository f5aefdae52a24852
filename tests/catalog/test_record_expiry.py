"""Rows that a compaction drops by their age."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

EXPIRING = {"record-level.expire-time": "10 s", "record-level.time-field": "t"}
NOW = 1_700_000_000


@dataclass
class Clock:
    """The time, seconds since the epoch."""

    seconds: int = NOW

    def now_millis(self) -> int:
        """The time, milliseconds."""
        return self.seconds * 1000

    @property
    def runtime(self) -> Runtime:
        return replace(
            SYSTEM_RUNTIME, now_millis=self.now_millis, monotonic=lambda: float(self.seconds)
        )


def _table(
    folder: Path, clock: Clock, kind: pa.DataType, options: Mapping[str, str] = EXPIRING
) -> Table:
    lake = connect(folder, runtime=clock.runtime)
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    schema = pa.schema([pa.field("k", pa.int64(), False), ("t", kind), ("v", pa.int64())])
    return lake.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1", **options})


def _keys(table: Table) -> list[object]:
    keys = table.scan(columns=["k"]).to_arrow()["k"].to_pylist()
    return sorted(keys)


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("kind", "time"),
    [
        (pa.int32(), int),
        (pa.int64(), int),
        (pa.int64(), lambda seconds: int(seconds * 1000)),
        (pa.timestamp("ms"), _moment),
        (pa.timestamp("us"), _moment),
        (pa.timestamp("us", "UTC"), lambda seconds: dt.datetime.fromtimestamp(seconds, dt.UTC)),
    ],
    ids=["INT", "seconds", "milliseconds", "TIMESTAMP(3)", "TIMESTAMP", "with zone"],
)
def test_rows_that_are_too_old_go_when_they_are_compacted(
    tmp_path: Path, kind: pa.DataType, time: Any
) -> None:
    clock = Clock()
    table = _table(tmp_path, clock, kind)
    times = [time(NOW - 11), time(NOW - 10), time(NOW), None]
    table.write(pa.table({"k": [1, 2, 3, 4], "t": pa.array(times, kind), "v": [0] * 4}))
    table.write(pa.table({"k": [3, 5], "t": pa.array([time(NOW - 11.5)] * 2, kind), "v": [1, 1]}))
    assert _keys(table) == [1, 2, 3, 4, 5]
    table.compact()
    # An expired row uncovers the older one that it replaced.
    assert table.scan().to_arrow().select(["k", "v"]).sort_by("k").to_pylist() == [
        {"k": 2, "v": 0}, {"k": 3, "v": 0}, {"k": 4, "v": 0}
    ]  # fmt: skip
    # The one file that there is now is rewritten once its oldest row expires.
    assert table.compact() is None
    clock.seconds += 1
    table.compact()
    assert _keys(table) == [3, 4]
    clock.seconds += 1000
    table.compact()
    assert _keys(table) == [4]


def test_a_file_without_statistics_waits_until_it_is_rewritten(tmp_path: Path) -> None:
    clock = Clock()
    table = _table(tmp_path, clock, pa.int32(), {**EXPIRING, "metadata.stats-mode": "none"})
    table.write({"k": [1, 2], "t": [NOW, NOW + 50]})
    table.compact()
    clock.seconds += 20
    assert table.compact() is None
    assert _keys(table) == [1, 2]
    table.write({"k": [3]})
    table.compact()
    assert _keys(table) == [2, 3]


def test_rows_expire_before_they_are_merged_in_every_engine(tmp_path: Path) -> None:
    for engine in ("deduplicate", "first-row", "aggregation", "partial-update"):
        options = {**EXPIRING, "merge-engine": engine, "fields.v.aggregate-function": "sum"}
        if engine == "partial-update":
            del options["fields.v.aggregate-function"]
        table = _table(tmp_path, Clock(), pa.int64(), options)
        table.write({"k": [1], "t": [NOW - 50], "v": [1]})
        table.write({"k": [1], "t": [NOW], "v": [2]})
        table.compact()
        assert table.scan().to_arrow().to_pylist() == [{"k": 1, "t": NOW, "v": 2}], engine


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"record-level.time-field": "x"}, "'x' does not exist"),
        ({"record-level.time-field": "v"}, "'v' must be of type INT, BIGINT or TIMESTAMP"),
        ({**EXPIRING, "record-level.expire-time": "soon"}, "'soon' is not a quantity"),
        ({"record-level.expire-time": "1 h"}, r"needs 'record-level\.time-field'"),
        ({"num-levels": "1"}, "at least 2"),
        ({"num-sorted-run.compaction-trigger": "0"}, "at least 2"),
    ],
)
def test_options_are_checked_at_creation(
    tmp_path: Path, options: Mapping[str, str], words: str
) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), ("t", pa.int64()), ("v", pa.string())])
    with connect(tmp_path) as lake:
        lake.create_database("d")
        with pytest.raises(Invalid, match=words):
            lake.create_table("d.t", schema, primary_keys=["k"], options={"bucket": "1", **options})
