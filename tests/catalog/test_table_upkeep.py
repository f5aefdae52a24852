"""The maintenance that a commit does beside its rows: tags of themselves, and what expires."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid
from headwater.storage.files.local import local_path
from headwater.storage.jobs.tags import AutomaticTags
from headwater.storage.snapshot.tag import list_tag_files

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

COLUMNS = pa.schema([("id", pa.int64()), ("dt", pa.string())])
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def new_table(lake: Lake, partition_keys: Sequence[str] = (), **options: str) -> Table:
    plain = option_names(options)
    return lake.create_table("sales.log", COLUMNS, partition_keys=partition_keys, options=plain)


def at(clock: Clock, text: str) -> None:
    clock.millis = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def write(table: Table, number: int = 1) -> None:
    table.write(pa.table({"id": [number], "dt": ["2026-01-01"]}))


def tags(table: Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in table.tags()}


def test_each_day_that_has_ended_gets_a_tag(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, tag__automatic_creation="process-time")
    at(clock, "2026-01-02T10:00:00")
    write(table)
    # The first snapshot says how the day before ended.
    assert tags(table) == {"2026-01-01": 1}
    at(clock, "2026-01-02T23:59:59")
    write(table)
    assert tags(table) == {"2026-01-01": 1}
    at(clock, "2026-01-03T00:00:00")
    write(table)
    write(table)
    assert tags(table) == {"2026-01-01": 1, "2026-01-02": 3}
    at(clock, "2026-01-07T12:00:00")
    write(table)
    assert tags(table) == {"2026-01-01": 1, "2026-01-02": 3, "2026-01-06": 5}
    assert table.scan(tag="2026-01-02").count() == 3


def test_an_automatic_tag_that_was_deleted_is_not_made_again(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, tag__automatic_creation="process-time")
    for day in ("02", "03", "04"):
        at(clock, f"2026-01-{day}T10:00:00")
        write(table)
    table.delete_tag("2026-01-02")
    at(clock, "2026-01-05T10:00:00")
    write(table)
    assert set(tags(table)) == {"2026-01-01", "2026-01-03", "2026-01-04"}


def test_a_compaction_of_manifests_tells_no_change_again(lake: Lake) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.int32(), False)])
    table = lake.create_table(
        "sales.told",
        columns,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    table.write({"id": [1], "p": [2]})
    table.write({"id": [1], "p": [1]})
    made = table.compact_manifests()
    assert made is not None
    assert table.changes(made.id - 1, made.id).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tag.creation-period": "hourly"}, "2026-01-02 09"),
        ({"tag.creation-period": "two-hours"}, "2026-01-02 08"),
        ({"tag.period-formatter": "without_dashes"}, "20260101"),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
            "20260102 09",
        ),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
            "2026010209",
        ),
        ({"tag.creation-period-duration": "30 min"}, "202601021000"),
        ({"sink.process-time-zone": "GMT-11:00"}, "2025-12-31"),
        ({"sink.process-time-zone": "Pacific/Auckland"}, "2026-01-01"),
    ],
)
def test_periods_have_names(
    lake: Lake, clock: Clock, options: dict[str, str], expected: str
) -> None:
    table = lake.create_table(
        "sales.log", COLUMNS, options={"tag.automatic-creation": "process-time", **options}
    )
    at(clock, "2026-01-02T10:40:00")
    write(table)
    assert tags(table) == {expected: 1}
    write(table)
    assert tags(table) == {expected: 1}


def test_tags_wait_for_late_rows(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, tag__automatic_creation="process-time", tag__creation_delay="2 h")
    at(clock, "2026-01-02T10:00:00")
    write(table)
    at(clock, "2026-01-03T01:59:59")
    write(table)
    assert tags(table) == {"2026-01-01": 1}
    at(clock, "2026-01-03T02:00:00")
    write(table)
    assert tags(table) == {"2026-01-01": 1, "2026-01-02": 3}
    with pytest.raises(Invalid, match="shorter than the period"):
        table.with_options({"tag.creation-delay": "1 d"}).create_due_tags()


def test_days_without_commits_get_their_tags_one_by_one(lake: Lake, clock: Clock) -> None:
    table = new_table(
        lake, tag__automatic_creation="process-time", tag__automatic_completion="true"
    )
    at(clock, "2026-01-02T10:00:00")
    write(table)
    at(clock, "2026-01-05T10:00:00")
    for _ in range(4):
        write(table)
    assert tags(table) == {"2026-01-01": 1, "2026-01-02": 2, "2026-01-03": 3, "2026-01-04": 4}


def test_only_so_many_tags_are_kept(lake: Lake, clock: Clock) -> None:
    table = new_table(
        lake,
        tag__automatic_creation="process-time",
        tag__num_retained_max="2",
        tag__create_success_file="true",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="1",
    )
    table.write(pa.table({"id": [0], "dt": ["x"]}))
    table.create_tag("by hand")
    for day in range(2, 7):
        at(clock, f"2026-01-0{day}T00:00:00")
        table.overwrite(pa.table({"id": [day], "dt": ["x"]}))
    assert list(tags(table)) == ["2026-01-04", "2026-01-05", "by hand"]
    directory = Path(local_path(f"{table.info.path}/tag/tag-success-file"))
    assert sorted(path.name for path in directory.iterdir()) == [
        "2026-01-04_SUCCESS", "2026-01-05_SUCCESS", "by hand_SUCCESS",
    ]  # fmt: skip
    written = json.loads((directory / "2026-01-05_SUCCESS").read_text())
    assert written == {"creationTime": clock.millis, "modificationTime": clock.millis}
    for name in tags(table):
        assert table.scan(tag=name).count() == 1
    table.delete_tag("by hand")
    assert len(list(directory.iterdir())) == 2
    # What only deleted tags kept is gone.
    assert len(list(Path(local_path(table.info.path)).rglob("data-*"))) == 2


def test_tags_go_when_their_time_is_over(lake: Lake, clock: Clock) -> None:
    table = new_table(
        lake, tag__automatic_creation="process-time", tag__default_time_retained="3 d"
    )
    at(clock, "2026-01-02T00:00:00")
    write(table)
    assert list(tags(table)) == ["2026-01-01"]
    at(clock, "2026-01-05T00:00:00")
    write(table)
    assert list(tags(table)) == ["2026-01-01", "2026-01-04"]
    at(clock, "2026-01-05T00:00:01")
    keeping = table.with_options({"tag.time-expire-enabled": "false"})
    write(keeping)
    assert len(tags(table)) == 2
    write(table)
    assert list(tags(table)) == ["2026-01-04"]


def test_a_batch_has_a_tag_by_its_day(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, tag__automatic_creation="batch", tag__num_retained_max="2")
    for number, day in enumerate(["01", "02", "02", "03"], 1):
        at(clock, f"2026-01-{day}T10:00:00")
        write(table, number)
    assert tags(table) == {"batch-write-2026-01-02": 3, "batch-write-2026-01-03": 4}
    named = table.with_options({"tag.batch.customized-name": "today", "write-only": "true"})
    write(named)
    assert tags(table) == {"batch-write-2026-01-03": 4, "today": 5}


def test_watermarks_tell_the_time_of_tags(
    lake: Lake, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(
        lake,
        tag__automatic_creation="watermark",
        tag__creation_period="hourly",
        sink__watermark_time_zone="Europe/Berlin",
    )
    write(table)
    assert tags(table) == {}
    newest = table.latest_snapshot()
    assert newest is not None
    marked = type(newest)({**newest.document, "watermark": 1_767_351_600_000})  # 12:00 in Berlin
    pointer = table.pointer
    monkeypatch.setattr(type(pointer), "latest", lambda _: marked)
    tags_of = AutomaticTags(table.storage, pointer, table.references)
    assert tags_of.create_due() == ["2026-01-02 11"]
    assert tags_of.create_due() == []


def test_two_that_commit_at_once_make_one_tag(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, tag__automatic_creation="process-time", write_only="true")
    at(clock, "2026-01-02T10:00:00")
    for number in range(3):
        write(table, number)
    assert tags(table) == {}
    due = table.with_options({"write-only": "false"})
    assert due.create_due_tags() == ["2026-01-01"]
    assert due.create_due_tags() == []
    assert [
        tag.snapshot.id for tag in list_tag_files(table.storage.files, table.storage.layout)
    ] == [1]


# What expires ---------------------------------------------------------------------------------


def test_writers_expire_snapshots(lake: Lake, clock: Clock) -> None:
    table = new_table(lake)
    for number in range(15):
        clock.turn(minutes=20)
        write(table, number)
    # At least 10, and those of the last hour.
    assert [snapshot.id for snapshot in table.snapshots()] == list(range(15, 5, -1))
    assert table.scan().count() == 15
    alone = table.with_options({"write-only": "true"})
    write(alone)
    assert len(table.snapshots()) == 11
    table.consumer("slow").reset(8)
    for number in range(5):
        clock.turn(minutes=20)
        write(table, number)
    assert table.snapshots()[-1].id == 8


def test_writers_expire_partitions_at_the_end_of_a_batch(lake: Lake, clock: Clock) -> None:
    table = new_table(
        lake, ["dt"], partition__expiration_time="7 d", end_input__check_partition_expire="true",
        partition__end_input_to_done="true",
    )  # fmt: skip
    at(clock, "2026-01-02T00:00:00")
    write(table)
    assert Path(local_path(f"{table.info.path}/dt=2026-01-01/_SUCCESS")).exists()
    at(clock, "2026-02-01T00:00:00")
    table.write(pa.table({"id": [1], "dt": ["2026-01-31"]}))
    assert [partition.name for partition in table.partitions()] == ["dt=2026-01-31"]


def test_writers_expire_partitions_once_in_a_while(lake: Lake, clock: Clock) -> None:
    table = new_table(lake, ["dt"], partition__expiration_time="7 d")

    def fill(day: str) -> list[str]:
        table.write(pa.table({"id": [1], "dt": [day]}))
        return [partition.name.removeprefix("dt=") for partition in table.partitions()]

    at(clock, "2026-01-08T10:10:00")
    assert fill("2026-01-01") == []
    assert fill("2026-01-02") == ["2026-01-02"]
    at(clock, "2026-01-09T10:10:00")
    assert fill("2026-01-08") == ["2026-01-08"]
    at(clock, "2026-01-09T10:50:00")
    assert fill("2026-01-01") == ["2026-01-01", "2026-01-08"]
    at(clock, "2026-01-09T11:00:00")
    assert fill("2026-01-09") == ["2026-01-08", "2026-01-09"]


def test_rows_stay_when_the_upkeep_fails(
    lake: Lake, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    # Of a table at large such an option is refused.
    table = new_table(lake, tag__automatic_creation="process-time")
    table = table.with_options({"tag.creation-delay": "2 d"})
    with caplog.at_level(logging.WARNING, logger="headwater"):
        write(table)
    assert table.scan().count() == 1
    assert "making tags after the commit failed" in caplog.text
