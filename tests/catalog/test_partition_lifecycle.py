"""Partitions that expire, and partitions that are complete, through a table's handle."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.snapshot.snapshot import CommitKind
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("hour", pa.int32())])
IN_CATALOG = {"metastore.partitioned-table": "true"}
DAY = timedelta(days=1)


def daily(lake: Lake, **options: str) -> Table:
    plain = option_names(options)
    return lake.create_table("sales.daily", COLUMNS, partition_keys=["dt"], options=plain)


def fill(table: Table, *days: str) -> None:
    table.write(pa.table({"id": list(range(len(days))), "dt": list(days), "hour": [1] * len(days)}))


def days(table: Table) -> list[str]:
    return sorted(table.scan(columns=["dt"]).to_arrow()["dt"].to_pylist())


def set_clock(clock: Clock, text: str) -> None:
    clock.millis = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def test_partitions_go_when_their_time_is_over(lake: Lake, clock: Clock) -> None:
    table = daily(lake, partition__expiration_time="3 d")
    fill(table, "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04", "soon", "2027-01-01")
    set_clock(clock, "2026-01-05T00:00:01")
    planned = table.expire_partitions(dry_run=True)
    assert [spec["dt"] for spec in planned.dropped] == ["2026-01-01", "2026-01-02"]
    assert [spec["dt"] for spec in planned.without_time] == ["soon"]
    assert len(days(table)) == 6
    before = table.latest_snapshot()
    assert before is not None
    assert table.expire_partitions().dropped == planned.dropped
    assert days(table) == ["2026-01-03", "2026-01-04", "2027-01-01", "soon"]
    after = table.latest_snapshot()
    assert after is not None
    assert (after.id, after.commit_kind) == (before.id + 1, CommitKind.OVERWRITE)
    assert table.expire_partitions().dropped == ()
    assert table.scan(snapshot_id=before.id).count() == 6
    assert table.expire_partitions(older_than=timedelta.max).dropped == ()
    assert table.expire_partitions(older_than=2 * DAY, max_partitions=0).dropped == ()
    with pytest.raises(Invalid, match=r"'partition\.expiration-max-num' .* at least 0, not -1"):
        table.expire_partitions(older_than=2 * DAY, max_partitions=-1)
    assert table.expire_partitions(older_than=2 * DAY, max_partitions=1).dropped != ()
    assert days(table) == ["2026-01-04", "2027-01-01", "soon"]


@pytest.mark.parametrize("bucket", ["-1", "2", "-2"])
def test_rows_of_partitions_that_are_no_time_can_be_refused(lake: Lake, bucket: str) -> None:
    table = lake.create_table(
        "sales.hourly",
        COLUMNS,
        primary_keys=["dt", "hour", "id"],
        partition_keys=["dt", "hour"],
        options={
            "bucket": bucket,
            "partition.timestamp-format.strict": "true",
            "partition.timestamp-formatter": "yyyyMMdd HH",
            "partition.timestamp-pattern": "$dt $hour",
        },
    )
    table.write(pa.table({"id": [1, 2], "dt": ["20260101"] * 2, "hour": [10, 11]}))
    wrong = pa.table({"id": [1, 2], "dt": ["20260102", "20260102"], "hour": [12, 24]})
    for write in (table.write, table.overwrite):
        with pytest.raises(Invalid, match="partition dt=20260102,hour=24 is no time in the form"):
            write(wrong)
    assert len(table.snapshots()) == 1
    # What got in before can be compacted and deleted.
    table.with_options({"partition.timestamp-format.strict": "false"}).write(wrong)
    table.compact()
    table.delete("hour = 24")
    assert sorted(table.scan(columns=["hour"]).to_arrow()["hour"].to_pylist()) == [10, 11, 12]
    loose = lake.create_table(
        "sales.loose",
        COLUMNS,
        partition_keys=["dt"],
        options={"partition.timestamp-format.strict": "true"},
    )
    loose.write(pa.table({"id": [1], "dt": ["any"], "hour": [1]}))
    assert days(loose) == ["any"]


def test_the_oldest_go_first_and_some_a_commit(lake: Lake, clock: Clock) -> None:
    table = daily(
        lake,
        partition__expiration_time="1 d",
        partition__expiration_max_num="5",
        partition__expiration_batch_size="2",
        partition__timestamp_formatter="yyyyMMdd",
    )
    fill(table, *(f"202601{day:02}" for day in range(4, 10)))
    fill(table, *(f"202601{day:02}" for day in range(1, 4)))
    set_clock(clock, "2026-02-01T00:00:00")
    assert len(table.expire_partitions().dropped) == 5
    assert days(table) == [f"202601{day:02}" for day in range(6, 10)]
    assert len(table.snapshots()) == 2 + 3


def test_a_time_is_made_of_several_values(lake: Lake, clock: Clock) -> None:
    table = lake.create_table(
        "sales.hourly",
        COLUMNS,
        partition_keys=["dt", "hour"],
        options={"partition.expiration-time": "2 h"},
    )
    table.write(pa.table({"id": [1, 2, 3], "dt": ["2026-01-01"] * 3, "hour": [7, 8, 9]}))
    set_clock(clock, "2026-01-01T10:30:00")
    found = table.expire_partitions(timestamp_pattern="$dt $hour:00:00")
    assert found.dropped == ({"dt": "2026-01-01", "hour": "7"}, {"dt": "2026-01-01", "hour": "8"})
    assert table.scan(columns=["hour"]).to_arrow()["hour"].to_pylist() == [9]


def test_partitions_go_when_nothing_was_written_for_long(lake: Lake, clock: Clock) -> None:
    table = daily(
        lake, partition__expiration_time="7 d", partition__expiration_strategy="update-time"
    )
    fill(table, "a", "b")
    clock.turn(days=6)
    fill(table, "b")
    assert table.expire_partitions().dropped == ()
    clock.turn(days=2)
    assert table.expire_partitions().dropped == ({"dt": "a"},)
    assert days(table) == ["b", "b"]


def test_a_partition_is_as_new_as_its_newest_file_whenever_that_was_committed(
    lake: Lake, clock: Clock
) -> None:
    table = daily(
        lake, partition__expiration_time="7 d", partition__expiration_strategy="update-time"
    )
    slow = TableWriter(table.storage, max_sequence_numbers={})
    slow.write(pa.table({"id": [1, 2], "dt": ["a", "b"], "hour": [1, 1]}))
    old_files = slow.finish()
    clock.turn(days=6)
    fill(table, "a")
    table._new_commit().commit(old_files)
    clock.turn(days=2)
    assert table.expire_partitions(dry_run=True).dropped == ({"dt": "b"},)
    fill(table, "b")
    assert table.expire_partitions().dropped == ()


def test_a_partition_that_is_written_to_meanwhile_is_looked_at_again(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = daily(
        lake,
        partition__expiration_time="7 d",
        write_only="true",
        partition__expiration_strategy="update-time",
    )
    fill(table, "a", "b")
    clock.turn(days=8)
    pointer = type(table.pointer)
    commit = pointer.commit
    written: list[str] = []

    def racing(self, snapshot, base, statistics):  # type: ignore[no-untyped-def]
        if not written:
            written.append("a")
            fill(lake.table("sales.daily"), "a")
        return commit(self, snapshot, base, statistics)

    monkeypatch.setattr(pointer, "commit", racing)
    assert table.expire_partitions().dropped == ({"dt": "b"},)
    assert days(table) == ["a", "a"]


def test_the_catalog_forgets_expired_partitions(lake: Lake, clock: Clock) -> None:
    options = {
        **IN_CATALOG,
        "partition.expiration-time": "1 d",
        "partition.mark-done-action": "done-partition",
    }
    table = lake.create_table("sales.daily", COLUMNS, partition_keys=["dt"], options=options)
    fill(table, "2026-01-01", "2026-01-09")
    table.mark_partitions_done({"dt": "2026-01-01"})
    assert [one.name for one in table.partitions()] == [
        "dt=2026-01-01", "dt=2026-01-01.done", "dt=2026-01-09",
    ]  # fmt: skip
    set_clock(clock, "2026-01-09T00:00:00")
    table.expire_partitions()
    assert [one.name for one in table.partitions()] == ["dt=2026-01-09"]


def test_what_does_not_expire_is_refused(lake: Lake) -> None:
    table = daily(lake)
    with pytest.raises(Invalid, match=r"partition\.expiration-time"):
        table.expire_partitions()
    with pytest.raises(Invalid, match="update-time"):
        table.expire_partitions(older_than=DAY, strategy="size")
    with pytest.raises(Invalid, match="negative"):
        table.expire_partitions(older_than=-DAY)
    for pattern in ("$day", "$dt $hour", "2026-01-01"):
        with pytest.raises(Invalid, match=r"does not make a time of .* which are dt"):
            table.expire_partitions(older_than=DAY, timestamp_pattern=pattern)
    whole = lake.create_table("sales.whole", COLUMNS)
    with pytest.raises(Invalid, match="has no partitions"):
        whole.expire_partitions(older_than=DAY)
    assert whole.mark_partitions_done() == []
    assert table.expire_partitions(older_than=DAY).dropped == ()


# Complete partitions --------------------------------------------------------------------------


def success(table: Table, day: str) -> dict[str, int] | None:
    path = Path(local_path(f"{table.info.path}/dt={day}/_SUCCESS"))
    return json.loads(path.read_text()) if path.exists() else None


def test_a_success_file_tells_when_it_was_first_written(lake: Lake, clock: Clock) -> None:
    table = daily(lake)
    fill(table, "a=b")
    assert table.mark_partitions_done({"dt": "a=b"}) == [{"dt": "a=b"}]
    first = clock.millis
    path = Path(local_path(f"{table.info.path}/dt=a%3Db/_SUCCESS"))
    assert path.read_bytes() == (
        f'{{\n  "creationTime" : {first},\n  "modificationTime" : {first}\n}}'.encode()
    )
    clock.turn(hours=1)
    table.mark_partitions_done({"dt": "a=b"})
    assert json.loads(path.read_bytes()) == {
        "creationTime": first, "modificationTime": clock.millis,
    }  # fmt: skip
    assert table.remove_orphan_files(older_than=timedelta(0)).files == ()
    assert path.exists()


def test_idle_partitions_are_complete(lake: Lake, clock: Clock) -> None:
    table = daily(lake, partition__idle_time_to_done="1 h", partition__time_interval="1 d")
    set_clock(clock, "2026-01-02T00:30:00")
    fill(table, "2026-01-01", "2026-01-02", "soon")
    assert table.mark_partitions_done() == []
    clock.turn(hours=2)
    # The second of January is not over, and nothing says when "soon" is.
    assert table.mark_partitions_done() == [{"dt": "2026-01-01"}]
    assert table.mark_partitions_done() == []
    clock.turn(hours=1)
    fill(table, "2026-01-01")
    clock.turn(hours=2)
    assert table.mark_partitions_done(idle=timedelta(hours=3)) == []
    assert table.mark_partitions_done() == [{"dt": "2026-01-01"}]
    clock.turn(days=1)
    assert table.mark_partitions_done() == [{"dt": "2026-01-02"}]
    assert success(table, "soon") is None
    assert success(table, "2026-01-02") is not None


def test_the_catalog_marks_partitions(lake: Lake) -> None:
    options = {**IN_CATALOG, "partition.mark-done-action": "mark-event,success-file"}
    table = lake.create_table("sales.daily", COLUMNS, partition_keys=["dt"], options=options)
    fill(table, "a", "b")
    table.mark_partitions_done({"dt": "b"})
    assert [(one.name, one.is_done) for one in table.partitions()] == [
        ("dt=a", False),
        ("dt=b", True),
    ]
    assert success(table, "b") is not None


def test_what_cannot_be_marked_is_refused(lake: Lake) -> None:
    table = daily(lake)
    fill(table, "a")
    with pytest.raises(Invalid, match=r"partition\.idle-time-to-done"):
        table.mark_partitions_done()
    with pytest.raises(Invalid, match=r"metastore\.partitioned-table"):
        table.with_options({"partition.mark-done-action": "mark-event"}).mark_partitions_done(
            {"dt": "a"}
        )
    with pytest.raises(Invalid, match="not a partition column"):
        table.mark_partitions_done({"id": 1})
    for action in ("http-report", "custom", "success-file,http-report"):
        other = table.with_options({"partition.mark-done-action": action})
        with pytest.raises(Unsupported, match=r"partition\.mark-done-action"):
            other.mark_partitions_done({"dt": "a"})
    assert success(table, "a") is None
