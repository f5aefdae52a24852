"""The commit, over every catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import Conflict, Invalid, NotFound, ResourceType
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

MakeSnapshot = Callable[..., Snapshot]


def _change(dt: str, records: int, files: int) -> PartitionStatistics:
    return PartitionStatistics({"dt": dt}, records, records * 100, files, 1_000 + files, 2)


def test_commits_follow_each_other(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    table_id = catalog.tables.get(table).id
    one, two = snapshot(1), snapshot(2)
    assert catalog.snapshots.commit(table, table_id, one, None, []).decided()
    assert catalog.snapshots.commit(table, table_id, two, one.uuid, []).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == two
    files = directory / "snapshot"
    assert json.loads((files / "snapshot-1").read_text()) == one.document
    assert json.loads((files / "snapshot-2").read_text()) == two.document
    assert (files / "LATEST").read_text() == "2"
    assert (files / "EARLIEST").read_text() == "1"
    assert sorted(path.name for path in files.iterdir()) == [
        "EARLIEST",
        "LATEST",
        "snapshot-1",
        "snapshot-2",
    ]


def test_what_is_not_known_of_a_snapshot_is_kept(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    odd = snapshot(1, fieldOfTomorrow={"a": [1, 2.5, None, "ü"]}, watermark=2**62)
    assert catalog.snapshots.commit(table, None, odd, None, []).decided()
    assert catalog.snapshots.get(table, "1").document == odd.document
    assert json.loads((directory / "snapshot" / "snapshot-1").read_text()) == odd.document


@pytest.mark.parametrize("base", ["another", None])
def test_a_commit_on_a_base_that_is_not_the_latest_is_a_conflict(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot, base: str | None
) -> None:
    one = snapshot(1)
    assert catalog.snapshots.commit(table, None, one, None, []).decided()
    assert not catalog.snapshots.commit(table, None, snapshot(2), base, []).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == one
    assert not (directory / "snapshot" / "snapshot-2").exists()


def test_the_first_commit_has_no_base(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    assert not catalog.snapshots.commit(table, None, snapshot(1), "a-base", []).decided()
    assert catalog.snapshots.latest(table) is None


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_commit_with_another_number_than_the_next_is_a_conflict(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot, number: int
) -> None:
    one = snapshot(1)
    assert catalog.snapshots.commit(table, None, one, None, []).decided()
    assert not catalog.snapshots.commit(table, None, snapshot(number), one.uuid, []).decided()


def test_a_replay_succeeds_and_changes_nothing(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    one, two = snapshot(1), snapshot(2)
    assert catalog.snapshots.commit(table, None, one, None, [_change("a", 5, 1)]).decided()
    assert catalog.snapshots.commit(table, None, one, None, [_change("a", 5, 1)]).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.record_count == 5
    assert catalog.snapshots.commit(table, None, two, one.uuid, []).decided()
    # Late, when another commit is the latest already: it still happened.
    assert catalog.snapshots.commit(table, None, one, None, [_change("a", 5, 1)]).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == two
    assert latest.record_count == 5


def test_a_uuid_belongs_to_one_snapshot_of_a_branch(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    one, two = snapshot(1), snapshot(2)
    catalog.snapshots.commit(table, None, one, None, [])
    catalog.snapshots.commit(table, None, two, one.uuid, [])
    changed = snapshot(2, uuid=two.uuid, commitUser="another")
    with pytest.raises(Conflict, match=f"uuid {two.uuid} .* as snapshot 2"):
        catalog.snapshots.commit(table, None, changed, one.uuid, []).decided()
    with pytest.raises(Conflict, match=f"uuid {one.uuid} .* as snapshot 1"):
        catalog.snapshots.commit(table, None, snapshot(3, uuid=one.uuid), two.uuid, []).decided()
    assert catalog.snapshots.commit(table, None, snapshot(3), two.uuid, []).decided()


def test_clients_without_uuids_go_by_the_number(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    new_one = snapshot(1)
    assert catalog.snapshots.commit(table, None, new_one, None, []).decided()
    old_two = snapshot(2, uuid=None)
    assert catalog.snapshots.commit(table, None, old_two, None, []).decided()
    assert catalog.snapshots.commit(table, None, old_two, None, []).decided()
    assert not catalog.snapshots.commit(table, None, snapshot(2, uuid=None), None, []).decided()
    # A newer client reads a latest snapshot without uuid, so its base is null again.
    assert not catalog.snapshots.commit(table, None, snapshot(3), new_one.uuid, []).decided()
    assert catalog.snapshots.commit(table, None, snapshot(3), None, []).decided()


def test_sizes_add_up(catalog: Catalog, table: Identifier, snapshot: MakeSnapshot) -> None:
    one, two = snapshot(1), snapshot(2)
    assert catalog.snapshots.commit(
        table, None, one, None, [_change("a", 5, 1), _change("b", 7, 2)]
    ).decided()
    assert catalog.snapshots.commit(table, None, two, one.uuid, [_change("a", -5, -1)]).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert (latest.record_count, latest.file_size_in_bytes, latest.file_count) == (7, 700, 2)
    assert latest.last_file_creation_time == 1_002


def test_a_commit_to_another_table_of_the_name_is_refused(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    with pytest.raises(NotFound) as error:
        catalog.snapshots.commit(table, "another-id", snapshot(1), None, []).decided()
    assert error.value.resource_type is ResourceType.TABLE
    with pytest.raises(NotFound) as error:
        catalog.snapshots.commit(Identifier("sales", "none"), None, snapshot(1), None, []).decided()
    assert error.value.resource_type is ResourceType.TABLE


def test_a_commit_with_a_schema_that_never_was_is_refused(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    with pytest.raises(Invalid, match="schema 9"):
        catalog.snapshots.commit(table, None, snapshot(1, schemaId=9), None, []).decided()
    assert catalog.snapshots.latest(table) is None


@pytest.mark.parametrize(
    "nonsense", [{"timeMillis": 2**70}, {"id": -1}, {"watermark": 2**63}, {"nextRowId": -1}]
)
def test_a_snapshot_that_no_engine_could_read_is_refused(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot, nonsense: dict[str, object]
) -> None:
    unreadable = snapshot(1, **nonsense)
    with pytest.raises(Invalid, match=f"'{next(iter(nonsense))}' must be from"):
        catalog.snapshots.commit(table, None, unreadable, None, []).decided()
    assert catalog.snapshots.latest(table) is None


def test_a_file_of_somebody_else_is_never_overwritten(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    stranger = directory / "snapshot" / "snapshot-1"
    stranger.parent.mkdir()
    stranger.write_text(snapshot(1).to_json())
    before = stranger.read_text()
    first = snapshot(1)
    with pytest.raises(Conflict, match="snapshot-1"):
        catalog.snapshots.commit(table, None, first, None, []).decided()
    # Nothing was decided, and the last good snapshot is none.
    assert catalog.snapshots.latest(table) is None
    assert stranger.read_text() == before
    assert catalog.tables.get(table).identifier == table
    stranger.unlink()
    assert catalog.snapshots.commit(table, None, first, None, []).decided()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == first
    assert json.loads(stranger.read_text()) == first.document
