"""Reading a table as it was: by snapshot, tag, moment, watermark, version, age of files."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)

COLUMNS = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


@pytest.fixture
def table(lake: Lake, clock: Clock) -> Table:
    """Three commits a minute apart, of one key each; watermarks 100, none, 300."""
    made = lake.create_table("sales.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    for k, watermark in ((1, 100), (2, None), (3, 300)):
        write_with_watermark(made, k, watermark)
        clock.turn(minutes=1)
    made.create_tag("second", 2)
    return made


def write_with_watermark(table: Table, k: int, watermark: int | None) -> None:
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    messages = write_rows(plan, {"k": [k], "v": [k]})
    commit = TableCommit(table.storage, table.pointer, f"writer-{k}")
    commit.commit(messages, watermark=watermark)


def keys(table: Table, **options: str) -> list[int]:
    named = option_names(options)
    found = table.with_options(named).scan().to_arrow()
    return sorted(found["k"].to_pylist())


def times(table: Table) -> list[int]:
    return [snapshot.time_millis for snapshot in reversed(table.snapshots())]


def test_options_choose_the_snapshot(table: Table) -> None:
    first, second, third = times(table)
    assert keys(table) == [1, 2, 3]
    assert keys(table, scan__snapshot_id="2") == [1, 2]
    assert keys(table, scan__tag_name="second") == [1, 2]
    assert keys(table, scan__timestamp_millis=str(second)) == [1, 2]
    assert keys(table, scan__timestamp_millis=str(third - 1)) == [1, 2]
    assert keys(table, scan__version="second") == [1, 2]
    assert keys(table, scan__version="1") == [1]
    assert keys(table, scan__version="watermark-100") == [1]
    assert keys(table, scan__mode="latest") == [1, 2, 3]
    assert keys(table, scan__mode="from-snapshot-full", scan__snapshot_id="1") == [1]
    # As engines with older options call it.
    assert keys(table, **{"log.scan.timestamp-millis": str(first)}) == [1]


def test_a_time_without_a_zone_is_local(table: Table) -> None:
    zone = table.storage.runtime.time_zone()
    second = dt.datetime.fromtimestamp(times(table)[1] / 1000, zone).replace(tzinfo=None)
    assert keys(table, scan__timestamp=second.isoformat(" ")) == [1, 2]
    in_utc = dt.datetime.fromtimestamp(times(table)[1] / 1000, dt.UTC).replace(tzinfo=None)
    assert keys(table, scan__timestamp=f"{in_utc.isoformat(' ')}Z") == [1, 2]


@pytest.mark.parametrize(
    ("watermark", "expected"), [(1, [1]), (100, [1]), (101, [1, 2, 3]), (300, [1, 2, 3])]
)
def test_a_watermark_names_the_first_that_reached_it(
    table: Table, watermark: int, expected: list[int]
) -> None:
    assert keys(table, scan__watermark=str(watermark)) == expected
    assert table.scan(watermark=watermark).count() == len(expected)


def test_nothing_is_read_where_nothing_was(table: Table) -> None:
    for options, message in (
        ({"scan__timestamp_millis": str(times(table)[0] - 1)}, "no snapshot from before"),
        ({"scan__watermark": "301"}, "watermark of 301 or later"),
        ({"scan__snapshot_id": "9"}, "snapshot 9"),
        ({"scan__tag_name": "none"}, "none"),
        ({"scan__version": "none"}, "neither a tag nor"),
        ({"scan__version": "watermark-x"}, "neither a tag nor"),
    ):
        with pytest.raises(NotFound, match=message):
            keys(table, **options)


def test_contradictions_are_refused(table: Table) -> None:
    for options, message in (
        ({"scan__snapshot_id": "1", "scan__tag_name": "second"}, "contradict each other"),
        ({"scan__mode": "latest", "scan__snapshot_id": "1"}, "takes no other option"),
        ({"scan__mode": "from-timestamp"}, "needs the option scan.timestamp-millis or"),
        ({"scan__mode": "from-snapshot-full", "scan__tag_name": "second"}, "scan.snapshot-id, not"),
        ({"scan__mode": "never"}, "must be one of"),
        ({"scan__snapshot_id": "one"}, "must be an integer"),
        ({"scan__creation_time_millis": "1" + "0" * 30}, "more than can be counted"),
        ({"scan__file_creation_time_millis": "9" * 5000}, "more than can be counted"),
        ({"scan__creation_time_millis": "1e9"}, "must be an integer"),
        ({"scan__timestamp": "yesterday"}, "not a time"),
    ):
        with pytest.raises(Invalid, match=message):
            keys(table, **options)
    with pytest.raises(Invalid, match="at most one"):
        table.scan(snapshot_id=1, version="2")
    with pytest.raises(Invalid, match="or the argument"):
        table.with_options({"scan.snapshot-id": "1"}).scan(tag="second")


def test_a_tag_goes_before_a_snapshot_of_its_name(table: Table) -> None:
    table.create_tag("1", 3)
    assert table.scan(version="1").count() == 3


def test_the_past_has_the_columns_of_its_time(table: Table) -> None:
    table.alter(AddColumn(("w",), parse_type("INT")))
    table.write({"k": [4], "v": [4], "w": [4]})
    assert table.scan(version="second").schema.names == ["k", "v"]
    assert table.scan(version="4").schema.names == ["k", "v", "w"]


def test_only_new_files_are_read(table: Table) -> None:
    third = times(table)[2]
    assert keys(table, scan__file_creation_time_millis=str(third)) == [3]
    assert keys(table, scan__file_creation_time_millis=str(third + 1)) == []
    lazy = table.with_options({"scan.file-creation-time-millis": str(third)}).scan().lazy()
    assert lazy.collect()["k"].to_list() == [3]
    # The first snapshot at or after the moment; before all of them, the files since then.
    assert keys(table, scan__creation_time_millis=str(times(table)[1])) == [1, 2]
    assert keys(table, scan__creation_time_millis="0") == [1, 2, 3]
    assert keys(table, scan__creation_time_millis=str(third + 1)) == []


def test_the_last_compaction_is_read(table: Table) -> None:
    assert keys(table, scan__mode="compacted-full") == [1, 2, 3]
    table.compact()
    table.write({"k": [4], "v": [4]})
    assert keys(table, scan__mode="compacted-full") == [1, 2, 3]
    assert keys(table) == [1, 2, 3, 4]


def test_system_tables_follow_the_options(table: Table) -> None:
    past = table.with_options({"scan.snapshot-id": "1"})
    assert past.inspect.files().num_rows == 1
    assert past.inspect.audit_log().count() == 1
    assert table.inspect.files().num_rows == 3


@pytest.mark.parametrize(
    "option",
    [
        "scan.snapshot-id",
        "scan.timestamp-millis",
        "scan.watermark",
        "scan.creation-time-millis",
        "scan.file-creation-time-millis",
    ],
)
def test_numbers_below_zero_are_refused_by_name(table: Table, option: str) -> None:
    with pytest.raises(Invalid, match=rf"option '{option}' must be 0 or more, not -1"):
        table.with_options({option: "-1"}).scan()
