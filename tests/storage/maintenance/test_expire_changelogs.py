"""Changelogs that outlive their snapshots: read by streams, and expired by rules of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.dying_files import Killed, MortalFiles
from tests.storage.maintenance.test_expire import (
    COLUMNS,
    HOUR,
    branch,
    bring_back,
    compact,
    consumer,
    ids_at,
    kept_ids,
    latest,
    overwrite,
    tag,
    upsert,
)

from headwater.storage.errors import Invalid, NotFound
from headwater.storage.jobs.expire import delete_unreferenced_snapshot, expire_snapshots
from headwater.storage.jobs.orphans import remove_orphan_files
from headwater.storage.maintenance.expire import ExpireResult, Retention
from headwater.storage.maintenance.reachable import (
    changelog_paths,
    delta_entries,
    live_paths,
    manifest_names,
    produces_changelog,
)
from headwater.storage.maintenance.table_check import check_table
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import (
    StreamPosition,
    earliest_changes,
    from_consumer,
    from_snapshot,
    from_timestamp,
    next_plan,
)
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_files
from headwater.storage.snapshot.tag import delete_tag_file, list_tag_files

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

INPUT = {"bucket": "1", "changelog-producer": "input"}
PLAIN = {"bucket": "1"}
KINDS = {
    "changelog files": (["id"], INPUT),
    "files of commits": (["id"], PLAIN),
    "append table": ((), {"streaming-read-append-overwrite": "true"}),
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, new_table: NewTable) -> StoredTable:
    primary_keys, options = KINDS[request.param]
    return new_table(COLUMNS, primary_keys=primary_keys, options=options)


def history(table: StoredTable) -> None:
    """11 snapshots, one an hour, in which files are added, rewritten, replaced and brought back."""
    for number in range(1, 12):
        table.clock.millis += HOUR
        if number in (4, 8, 10) and table.storage.schema.primary_keys:
            compact(table)
        elif number == 6:
            overwrite(table, 6, 7)
        elif number == 7:
            bring_back(table, table.storage.snapshot(5))
        else:
            upsert(table, number, number + 100)
    assert latest(table).id == 11


def kept(
    table: StoredTable, snapshots: int, changelogs: int | None = None, **more: str
) -> StoredTable:
    """The table with so many snapshots and changelogs to be kept."""
    options = {
        "snapshot__num_retained__min": str(snapshots),
        "snapshot__num_retained__max": str(snapshots),
        "snapshot__time_retained": "1000 d",
    }
    if changelogs is not None:
        options["changelog__num_retained__min"] = str(changelogs)
        options["changelog__num_retained__max"] = str(changelogs)
    return table.with_options(**options, **more)


def expire(table: StoredTable, *, dry_run: bool = False) -> ExpireResult:
    return expire_snapshots(table.storage, table.pointer, table.references, dry_run=dry_run)


def changes(table: StoredTable, snapshot_id: int) -> list[tuple[int, str]]:
    """The changes of one snapshot as a stream gives them, and none if it gives none."""
    start = StreamPosition(snapshot_id)
    plan, following = next_plan(table.storage, start, latest(table))
    rows: list[tuple[int, str]] = []
    if plan is None or plan.snapshot.id != snapshot_id:
        return rows
    assert following == StreamPosition(snapshot_id + 1)
    for split in plan.splits:
        for batch in read_split(table.storage, split, columns=["id"], row_kinds=True):
            rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def changelog_ids(table: StoredTable) -> list[int]:
    return changelog_file_ids(table.storage.files, table.storage.layout)


def check_that_nothing_else_is_there(table: StoredTable) -> None:
    """All that is needed is there, and no more but what the first changelogs' commits deleted."""
    storage = table.storage
    needed: set[str] = set()
    names: set[str] = set()
    later: set[str] = set()
    tags = [one.snapshot for one in list_tag_files(storage.files, storage.layout)]
    snapshots = [storage.snapshot(number) for number in kept_ids(table)]
    changelogs = read_changelog_files(storage.files, storage.layout)
    for snapshot in [*snapshots, *tags]:
        needed |= live_paths(storage, snapshot)
        names |= set(manifest_names(storage, snapshot))
    for changelog in [*changelogs, *snapshots]:
        needed |= changelog_paths(storage, changelog).keys()
        names |= set(manifest_names(storage, changelog, rows=not produces_changelog(storage)))
    # A file is deleted when the changelog of the commit goes that took it away.
    for changelog in [*changelogs, *snapshots[:1]]:
        if not produces_changelog(storage):
            entries = delta_entries(storage, changelog.delta_manifest_list) or ()
            gone = (entry for entry in entries if entry.kind is FileKind.DELETE)
            later |= {f"bucket-0/{entry.file.file_name}" for entry in gone}
    prefix = storage.layout.location + "/"
    there = table.files_below()
    data = {path for path in there if path.startswith("bucket-")}
    needed = {path.removeprefix(prefix) for path in needed}
    assert needed <= data
    assert data - needed <= later
    assert {path for path in there if path.startswith("manifest/")} == {
        f"manifest/{name}" for name in names
    }


@pytest.mark.modes
@pytest.mark.parametrize(("snapshots", "changelogs"), [(1, 11), (1, 4), (5, 8), (3, 10), (10, 11)])
def test_changes_are_read_for_longer_than_rows(
    table: StoredTable, snapshots: int, changelogs: int
) -> None:
    history(table)
    before = {number: changes(table, number) for number in range(1, 12)}
    rows = {number: ids_at(table, table.storage.snapshot(number)) for number in range(1, 12)}
    keeping = kept(table, snapshots, changelogs)
    planned = expire(keeping, dry_run=True)
    done = expire(keeping)
    assert done == replace(planned, dry_run=False)
    first, oldest = 12 - snapshots, 12 - changelogs
    assert done.expired == tuple(range(1, first))
    assert done.expired_changelogs == tuple(range(1, oldest))
    assert kept_ids(table) == list(range(first, 12))
    assert changelog_ids(table) == list(range(oldest, first))
    for number in range(oldest, 12):
        assert changes(table, number) == before[number]
    for number in range(first, 12):
        assert ids_at(table, table.storage.snapshot(number)) == rows[number]
    for number in range(1, oldest):
        with pytest.raises(NotFound, match="has expired"):
            changes(table, number)
    check_that_nothing_else_is_there(keeping)
    clean = remove_orphan_files(
        keeping.storage, keeping.references, lambda: {}, older_than_millis=0, dry_run=True
    )
    assert clean.files == ()
    assert expire(keeping).expired == ()
    assert expire(keeping).expired_changelogs == ()


def test_expiries_one_after_another_leave_nothing_behind(table: StoredTable) -> None:
    history(table)
    before = {number: changes(table, number) for number in range(1, 12)}
    tag(table, "t5", table.storage.snapshot(5))
    rows = ids_at(table, table.storage.snapshot(5))
    for snapshots in (9, 7, 6, 4, 2, 1):
        keeping = kept(table, snapshots, snapshots + 3)
        expire(keeping)
        oldest = 12 - snapshots - 3
        for number in range(max(oldest, 1), 12):
            assert changes(table, number) == before[number]
        check_that_nothing_else_is_there(keeping)
        assert (
            ids_at(table, list_tag_files(table.storage.files, table.storage.layout)[0].snapshot)
            == rows
        )
    # The last one stays, as in Paimon, until changelogs are to go with their snapshots.
    expire(kept(table, 1, 2))
    assert changelog_ids(table) == [10]
    assert expire(kept(table, 1)).expired_changelogs == (10,)
    assert changelog_ids(table) == []
    check_that_nothing_else_is_there(table)


def test_hints_name_the_first_and_the_last(table: StoredTable) -> None:
    history(table)
    expire(kept(table, 3, 7))
    layout = table.storage.layout
    assert table.storage.files.read(layout.earliest_changelog_hint) == b"5"
    assert table.storage.files.read(layout.latest_changelog_hint) == b"8"


def test_changelogs_have_an_age_of_their_own(table: StoredTable) -> None:
    history(table)
    table.clock.millis += HOUR // 2
    aged = table.with_options(
        snapshot__num_retained__min="1",
        snapshot__time_retained="2 h",
        changelog__num_retained__min="1",
        changelog__time_retained="5 h",
    )
    # Snapshot 10 became the present one 1.5 hours ago; commit 7 was 4.5 hours ago.
    assert expire(aged).expired == tuple(range(1, 9))
    assert changelog_ids(table) == [7, 8]


def test_a_consumer_holds_changelogs_back(table: StoredTable) -> None:
    history(table)
    before = {number: changes(table, number) for number in range(4, 12)}
    consumer(table, "slow", 4)
    only = kept(table, 2, 3, consumer__changelog_only="true")
    result = expire(only)
    assert (result.earliest, result.held_back_by) == (10, "slow")
    assert changelog_ids(table) == list(range(4, 10))
    assert from_consumer(table.storage, latest(table), StreamPosition(4)) == StreamPosition(4)
    assert {number: changes(table, number) for number in range(4, 12)} == before
    consumer(table, "slow", 12)
    assert expire(only).expired_changelogs == (4, 5, 6, 7, 8)


def test_a_stream_starts_at_what_has_left_a_changelog(table: StoredTable) -> None:
    history(table)
    times = {number: table.storage.snapshot(number).time_millis for number in range(1, 12)}
    expire(kept(table, 2, 8))
    newest = latest(table)
    assert from_snapshot(table.storage, newest, 5) == StreamPosition(5)
    assert from_timestamp(table.storage, newest, times[6]) == StreamPosition(6)
    assert from_timestamp(table.storage, newest, 0) == StreamPosition(4)
    with pytest.raises(NotFound):
        from_snapshot(table.storage, newest, 5, full=True)
    with pytest.raises(NotFound):
        from_snapshot(table.storage, newest, 3)


def test_a_deleted_tag_spares_what_changelogs_need(table: StoredTable) -> None:
    history(table)
    before = {number: changes(table, number) for number in range(4, 12)}
    tagged = table.storage.snapshot(5)
    tag(table, "t5", tagged)
    keeping = kept(table, 1, 8)
    expire(keeping)
    delete_tag_file(table.storage.files, table.storage.layout, "t5")
    delete_unreferenced_snapshot(keeping.storage, keeping.pointer, keeping.references, tagged)
    assert {number: changes(table, number) for number in range(4, 12)} == before
    check_that_nothing_else_is_there(keeping)


def test_branches_keep_the_changelogs_they_share(table: StoredTable) -> None:
    history(table)
    side = branch(table, "side", 5)
    before = changes(side, 5)
    upsert(side, 200)
    upsert(side, 201)
    expire(kept(side, 1, 3))
    assert changelog_ids(side) == [5, 6]
    expire(kept(table, 1))
    assert changes(side, 5) == before
    assert 201 in ids_at(side, latest(side))


def test_branches_keep_the_changelogs_of_their_snapshots(table: StoredTable) -> None:
    history(table)
    side = branch(table, "side", 9)
    upsert(side, 200)
    before = {number: changes(side, number) for number in (9, 10)}
    expire(kept(table, 1))
    assert {number: changes(side, number) for number in (9, 10)} == before


def test_limits_of_changelogs_that_contradict_each_other_are_refused(table: StoredTable) -> None:
    upsert(table, 1)
    with pytest.raises(Invalid, match="at most 2 changelogs"):
        expire(
            table.with_options(changelog__num_retained__min="30", changelog__num_retained__max="2")
        )


@pytest.mark.modes
@pytest.mark.parametrize("kind", [INPUT, PLAIN], ids=["changelog files", "files of commits"])
def test_an_expiry_killed_at_any_change_is_finished_by_the_next(
    new_table: NewTable, kind: dict[str, str]
) -> None:
    def begun() -> StoredTable:
        table = new_table(COLUMNS, primary_keys=["id"], options=kind)
        history(table)
        expire(kept(table, 10, 11))
        return table

    whole = begun()
    alive = MortalFiles()
    expire(kept(replace(whole, storage=replace(whole.storage, files=alive)), 3, 7))
    total = len(alive.done)
    # One by one at the end, where snapshots go and leave their changelogs.
    for step in [*range(0, total - 12, 5), *range(total - 12, total)]:
        table = begun()
        before = {number: changes(table, number) for number in range(5, 12)}
        mortal = replace(table, storage=replace(table.storage, files=MortalFiles(step)))
        with pytest.raises(Killed):
            expire(kept(mortal, 3, 7))
        for number in range(5, 12):
            assert changes(table, number) == before[number]
        again = kept(table, 2, 6)
        expire(again)
        assert kept_ids(table) == [10, 11]
        assert changelog_ids(table) == [6, 7, 8, 9]
        for number in range(6, 12):
            assert changes(table, number) == before[number]
        check_that_nothing_else_is_there(again)


def expire_early(table: StoredTable) -> None:
    """Expire changelogs up to the sixth, by limits that are not the table's."""
    rules = Retention(5, 5, 0, 1000)
    everything = Retention.everything()
    expire_snapshots(
        table.storage, table.pointer, table.references, everything, changelogs=lambda _: rules
    )


def expire_all(table: StoredTable) -> None:
    """Expire all changelogs of snapshots that are gone."""
    everything = Retention.everything()
    expire_snapshots(
        table.storage, table.pointer, table.references, everything, changelogs=lambda _: None
    )


@pytest.mark.modes
@pytest.mark.parametrize("kind", [INPUT, PLAIN], ids=["changelog files", "files of commits"])
@pytest.mark.parametrize(("early", "first"), [(expire_early, 7), (expire_all, 9)])
def test_an_expiry_that_keeps_more_finishes_one_that_was_killed(
    new_table: NewTable, kind: dict[str, str], early: Callable[[StoredTable], None], first: int
) -> None:
    def begun() -> StoredTable:
        table = new_table(COLUMNS, primary_keys=["id"], options=kind)
        history(table)
        expire(kept(table, 3, 11))
        return table

    whole = begun()
    alive = MortalFiles()
    early(replace(whole, storage=replace(whole.storage, files=alive)))
    for step in range(1, len(alive.done)):
        table = begun()
        newest = latest(table)
        before = {number: changes(table, number) for number in range(first, 12)}
        with pytest.raises(Killed):
            early(replace(table, storage=replace(table.storage, files=MortalFiles(step))))
        check_that_nothing_is_lost(table)
        assert earliest_changes(table.storage, newest) == StreamPosition(first)
        keeping = kept(table, 3, 11)
        expire(keeping)
        assert (kept_ids(table), changelog_ids(table)) == ([9, 10, 11], [*range(first, 9)])
        assert {number: changes(table, number) for number in range(first, 12)} == before
        check_that_nothing_else_is_there(keeping)
        check_that_nothing_is_lost(table)


def check_that_nothing_is_lost(table: StoredTable) -> None:
    """Neither a check nor the removal of orphans calls anything damaged."""
    check = check_table(table.storage, lambda: {}, lambda _: {})
    assert check.damages == []
    remove_orphan_files(
        table.storage, table.references, lambda: {}, older_than_millis=0, dry_run=True
    )


def test_changes_that_an_expiry_has_begun_to_take_are_left_by_no_snapshot(
    new_table: NewTable,
) -> None:
    """Changelogs are to outlive their snapshots once an expiry without any has been killed."""
    table = new_table(COLUMNS, primary_keys=["id"], options=INPUT)
    history(table)
    # All data is gone, and a manifest.
    mortal = replace(table, storage=replace(table.storage, files=MortalFiles(16)))
    with pytest.raises(Killed):
        expire(kept(mortal, 3))
    keeping = kept(table, 2, 11)
    expire(keeping)
    assert (kept_ids(table), changelog_ids(table)) == ([10, 11], [9])
    check_that_nothing_else_is_there(keeping)
    check_that_nothing_is_lost(table)


def test_so_many_changelogs_go_at_once_and_the_least_of_them_stay(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options=INPUT)
    for number in range(1, 12):
        table.clock.millis += HOUR
        upsert(table, number, number + 100)
    expire(kept(table, 1, 100))
    table.clock.millis += HOUR
    short = kept(
        table,
        1,
        changelog__num_retained__min="4",
        changelog__num_retained__max="100",
        changelog__time_retained="1 min",
        snapshot__expire__limit="2",
    )
    left = []
    for _ in range(5):
        expire(short)
        left.append(changelog_file_ids(table.storage.files, table.storage.layout))
    # Eleven is a snapshot still.
    assert left == [list(range(first, 11)) for first in (3, 5, 7, 8, 8)]
