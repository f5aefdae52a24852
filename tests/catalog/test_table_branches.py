"""Branches and tags that end, through the table handle: with rows, files and expiry."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.sql.database.drivers import database_url as with_driver
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.options import TableOptions
from headwater.storage.scan.stream import StreamPosition, next_plan
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

DAYS = pa.schema([pa.field("day", pa.string(), nullable=False), ("n", pa.int64())])


@pytest.fixture
def log(lake: Lake) -> Table:
    """Rows 1 to 3, each a snapshot of its own."""
    table = lake.create_table("sales.log", pa.schema([("n", pa.int64())]))
    for number in range(1, 4):
        table.write({"n": [number]})
    return table


def numbers(table: Table, **moment: object) -> list[int]:
    found: list[int] = table.scan(**moment).to_arrow().column("n").to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def test_a_branch_is_written_and_read_as_a_table_of_its_own(lake: Lake, log: Table) -> None:
    log.create_tag("second", 2)
    trial = log.create_branch("trial", tag="second")
    assert trial.name == "sales.log$branch_trial"
    assert numbers(trial) == [1, 2]
    trial.write({"n": [30]})
    log.write({"n": [4]})
    assert (numbers(trial), numbers(log)) == ([1, 2, 30], [1, 2, 3, 4])
    assert numbers(lake.table("sales.log$branch_trial")) == [1, 2, 30]
    assert numbers(trial, tag="second") == [1, 2]
    assert log.branches() == ["trial"]
    log.rename_branch("trial", "proven")
    proven = log.branch("proven")
    assert numbers(proven) == [1, 2, 30]
    log.fast_forward("proven")
    assert numbers(log) == [1, 2, 30]
    log.write({"n": [5]})
    assert (numbers(log), numbers(proven)) == ([1, 2, 5, 30], [1, 2, 30])
    log.drop_branch("proven")
    assert log.branches() == []
    with pytest.raises(NotFound):
        log.branch("proven")
    assert numbers(log) == [1, 2, 5, 30]


def test_an_empty_branch_changes_its_schema_and_is_forwarded(log: Table) -> None:
    trial = log.create_branch("trial")
    assert numbers(trial) == []
    trial.alter(AddColumn(("note",), parse_type("STRING")))
    trial.write({"n": [1], "note": ["new"]})
    assert log.refresh().schema.id == 0
    log.fast_forward("trial")
    assert log.scan().to_arrow().to_pylist() == [{"n": 1, "note": "new"}]


def test_expiry_leaves_what_a_branch_needs(log: Table) -> None:
    trial = log.create_branch("trial", snapshot_id=2)
    log.overwrite({"n": [7]})
    for _ in range(2):
        log.write({"n": [8]})
    log.expire_snapshots(retain_min=1, retain_max=1)
    assert numbers(trial) == [1, 2]
    trial.write({"n": [30]})
    trial.expire_snapshots(retain_min=1, retain_max=1)
    assert (numbers(trial), numbers(log)) == ([1, 2, 30], [7, 8, 8])


def test_a_branch_s_first_snapshot_has_no_changes_when_only_a_tag_kept_it(lake: Lake) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = lake.create_table(
        "sales.keyed", DAYS, primary_keys=["day"], options={**options, "write-only": "true"}
    )
    for number in range(3):
        table.write({"day": ["a"], "n": [number]})
    table.create_tag("second", 2)
    table.expire_snapshots(retain_min=1, retain_max=1)
    trial = table.create_branch("trial", tag="second")
    trial.write({"day": ["b"], "n": [9]})
    newest = trial.latest_snapshot()
    with pytest.raises(NotFound, match="snapshot 2 has expired, so its changes"):
        next_plan(trial.storage, StreamPosition(2), newest)
    with pytest.raises(NotFound, match="snapshot 2 has expired, so its changes"):
        trial.changes(1, 2).to_arrow()
    plan, _ = next_plan(trial.storage, StreamPosition(2, changes=False), newest)
    assert plan is not None
    plan, _ = next_plan(trial.storage, StreamPosition(3), newest)
    assert plan is not None
    # One that was made since has lost it.
    assert newest is not None
    assert newest.changelog_manifest_list is not None
    trial.storage.files.delete(trial.storage.layout.manifest(newest.changelog_manifest_list))
    with pytest.raises(CorruptData, match=newest.changelog_manifest_list):
        next_plan(trial.storage, StreamPosition(3), newest)


def test_tags_end_when_their_time_is_over(log: Table, clock: Clock) -> None:
    log.create_tag("ever", 1)
    log.create_tag("day", 2, retained=dt.timedelta(days=1))
    log.create_tag("week", 3, retained=dt.timedelta(days=7))
    log.overwrite({"n": [9]})
    log.expire_snapshots(retain_min=1, retain_max=1)
    assert log.expire_tags() == []
    clock.turn(days=2)
    assert log.expire_tags(dry_run=True) == ["day"]
    assert numbers(log, tag="day") == [1, 2]
    assert log.expire_tags() == ["day"]
    assert [tag.name for tag in log.tags()] == ["ever", "week"]
    # What the others name can still be read.
    assert numbers(log, tag="ever") == [1]
    assert numbers(log, tag="week") == [1, 2, 3]
    moment = dt.datetime.fromtimestamp(clock.millis / 1000, dt.UTC)
    assert log.expire_tags(older_than=moment) == ["week"]
    with pytest.raises(Invalid, match="time zone"):
        log.expire_tags(older_than=dt.datetime(2026, 1, 1))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert log.expire_tags(older_than=later) == ["ever"]
    assert log.tags() == []


def test_an_option_says_how_long_a_tag_is_kept(lake: Lake) -> None:
    options = {"tag.default-time-retained": "90 min"}
    table = lake.create_table("sales.kept", pa.schema([("n", pa.int64())]), options=options)
    table.write({"n": [1]})
    table.create_tag("usual")
    assert table.tag("usual").retained_millis == 5_400_000
    assert TableOptions({}).tag_time_retained is None


@pytest.fixture
def days(migrated_url: str, tmp_path: Path) -> Table:
    """A partitioned table on a database of the test's own: 2 rows, then 3 more in two days."""
    lake = connect(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    lake.create_database("sales")
    table = lake.create_table("sales.days", DAYS, partition_keys=["day"])
    table.write({"day": ["mon", "mon"], "n": [1, 2]})
    table.create_tag("monday")
    table.write({"day": ["mon", "tue", "tue"], "n": [3, 4, 5]})
    return table


def _sizes(table: Table) -> tuple[int, int, int]:
    info = table.catalog.snapshots.latest(table.identifier)
    assert info is not None
    return info.record_count, info.file_count, info.file_size_in_bytes


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
@pytest.mark.parametrize("forgotten", [False, True])
def test_sizes_are_right_even_when_the_database_forgot_a_snapshot(
    days: Table, migrated_url: str, forgotten: bool
) -> None:
    now = _sizes(days)
    first = days.snapshot(1)
    live = sum(split.size for split in days.scan(tag="monday").splits)
    before = (2, 1, live)
    if forgotten:
        engine = create_engine(with_driver(migrated_url))
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM hw_snapshots WHERE snapshot_id = 1"))
        engine.dispose()
    days.expire_snapshots(retain_min=1, retain_max=1)
    branch = days.create_branch("b", tag="monday")
    assert _sizes(branch) == before
    assert _partitions(migrated_url, branch) == {'{"day": "mon"}': before}
    assert _sizes(days) == now
    days.rollback(tag="monday")
    assert days.latest_snapshot() == first
    assert _sizes(days) == before
    assert _partitions(migrated_url, days) == {'{"day": "mon"}': before}
    days.write({"day": ["tue"], "n": [4]})
    assert _sizes(days)[:2] == (3, 2)
    assert numbers(days) == [1, 2, 4]


def _partitions(url: str, table: Table) -> dict[str, tuple[int, ...]]:
    engine = create_engine(with_driver(url))
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT spec, record_count, file_count, file_size_in_bytes FROM hw_partitions "
                "WHERE branch = :branch"
            ),
            {"branch": table.identifier.branch},
        ).all()
    engine.dispose()
    return {row[0]: tuple(row[1:]) for row in rows}
