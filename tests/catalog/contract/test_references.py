"""References and deletions: a deletion that was planned before a change is not committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.maintenance.deletion import Deletion, OpenDeletion, Removal
from headwater.storage.snapshot.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]
EXPIRY = Removal(snapshots_before=3, changelogs_before=3)


@pytest.fixture
def history(catalog: Catalog, table: Identifier, snapshot: MakeSnapshot) -> Identifier:
    """A table with snapshots 1 to 4."""
    for number in range(1, 5):
        commit(catalog, table, snapshot(number))
    return table


def commit(catalog: Catalog, table: Identifier, snapshot: Snapshot) -> None:
    latest = catalog.snapshots.latest(table)
    base = None if latest is None else latest.snapshot.uuid
    assert catalog.snapshots.commit(table, None, snapshot, base, []).decided()


def version(catalog: Catalog, table: Identifier) -> int:
    return catalog.references.state(table).version


def files(directory: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (directory / kind).glob(f"{kind}-*"))


CHANGES: dict[str, Callable[[Catalog, Identifier], None]] = {
    "create a tag": lambda catalog, table: catalog.tags.create(table, "new", 2),
    "rename a tag": lambda catalog, table: catalog.tags.rename(table, "old", "new"),
    "replace a tag": lambda catalog, table: catalog.tags.replace(table, "old", 2),
    "delete a tag": lambda catalog, table: catalog.tags.delete(table, "old"),
    "create a branch": lambda catalog, table: catalog.branches.create(
        table, "new", from_snapshot=2
    ),
    "rename a branch": lambda catalog, table: catalog.branches.rename(table, "b", "new"),
    "forward a branch": lambda catalog, table: catalog.branches.fast_forward(table, "b"),
    "drop a branch": lambda catalog, table: catalog.branches.drop(table, "b"),
    "tag a branch": lambda catalog, table: catalog.tags.create(branch_of(table, "b"), "new"),
    "set a consumer": lambda catalog, table: catalog.consumers.reset(table, "new", 2),
    "set a consumer back": lambda catalog, table: catalog.consumers.reset(table, "c", 2),
    "roll back": lambda catalog, table: catalog.snapshots.rollback_to_snapshot(table, 2),
    "roll back to a tag": lambda catalog, table: catalog.snapshots.rollback_to_tag(table, "old"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_deletion_planned_before_a_change_of_references_does_nothing(
    catalog: Catalog, history: Identifier, directory: Path, change: str
) -> None:
    catalog.tags.create(history, "old", 1)
    catalog.branches.create(history, "b", from_snapshot=1)
    catalog.consumers.reset(history, "c", 3)
    before = version(catalog, history)
    CHANGES[change](catalog, history)
    assert version(catalog, history) == before + 1
    left = files(directory, "snapshot")
    removal = replace(EXPIRY, snapshots_before=2)
    assert not catalog.references.commit_deletion(history, Deletion("d", before, removal, True))
    assert files(directory, "snapshot") == left
    assert catalog.references.state(history).open_deletion is None


def test_commits_and_readers_that_go_on_change_no_references(
    catalog: Catalog, history: Identifier, snapshot: MakeSnapshot
) -> None:
    catalog.consumers.reset(history, "c", 2)
    before = version(catalog, history)
    commit(catalog, history, snapshot(5))
    catalog.consumers.reset(history, "c", 4)
    catalog.consumers.reset(history, "c", None)
    assert version(catalog, history) == before


def test_a_deletion_takes_its_roots_at_once(
    catalog: Catalog, history: Identifier, directory: Path
) -> None:
    catalog.tags.create(history, "old", 1)
    removal = replace(EXPIRY, tags={"old": 1})
    deletion = Deletion("d", version(catalog, history), removal, True)
    assert catalog.references.commit_deletion(history, deletion)
    assert files(directory, "snapshot") == ["snapshot-3", "snapshot-4"]
    assert (directory / "snapshot" / "EARLIEST").read_text() == "3"
    assert catalog.tags.list(history).items == ()
    assert [item.id for item in catalog.snapshots.list(history).items] == [4, 3]
    for refer in (
        partial(catalog.tags.create, history, "new", 2),
        partial(catalog.branches.create, history, "new", from_snapshot=2),
        partial(catalog.consumers.reset, history, "new", 2),
        partial(catalog.snapshots.rollback_to_snapshot, history, 2),
    ):
        with pytest.raises(NotFound) as rejected:
            refer()
        assert rejected.value.resource_type is ResourceType.SNAPSHOT


def test_one_deletion_is_open_at_a_time(catalog: Catalog, history: Identifier) -> None:
    first = Deletion("first", version(catalog, history), EXPIRY, True)
    assert catalog.references.commit_deletion(history, first)
    state = catalog.references.state(history)
    assert isinstance(state.open_deletion, OpenDeletion)
    assert state.open_deletion.id == "first"
    second = Deletion("second", state.version, Removal(), True)
    assert not catalog.references.commit_deletion(history, second)
    # Of a branch, too: its files are the table's.
    catalog.branches.create(history, "b", from_snapshot=4)
    second = replace(second, version=version(catalog, history))
    assert not catalog.references.commit_deletion(branch_of(history, "b"), second)
    catalog.references.finish_deletion(history, "second")
    assert catalog.references.state(history).open_deletion is not None
    catalog.references.finish_deletion(history, "first")
    assert catalog.references.state(history).open_deletion is None
    assert catalog.references.commit_deletion(branch_of(history, "b"), second)


def test_a_deletion_may_be_sent_again(catalog: Catalog, history: Identifier) -> None:
    deletion = Deletion("d", version(catalog, history), EXPIRY, True)
    assert catalog.references.commit_deletion(history, deletion)
    assert catalog.references.commit_deletion(history, deletion)
    assert version(catalog, history) == deletion.version + 1
    catalog.references.finish_deletion(history, "d")
    assert not catalog.references.commit_deletion(history, deletion)


def test_snapshots_leave_their_changelogs(
    catalog: Catalog, history: Identifier, directory: Path
) -> None:
    removal = Removal(snapshots_before=4, changelogs_before=2)
    deletion = Deletion("d", version(catalog, history), removal, False)
    assert catalog.references.commit_deletion(history, deletion)
    assert files(directory, "snapshot") == ["snapshot-4"]
    assert files(directory, "changelog") == ["changelog-2", "changelog-3"]
    assert (directory / "changelog" / "EARLIEST").read_text() == "2"
    assert (directory / "changelog" / "LATEST").read_text() == "3"
    assert json.loads((directory / "changelog" / "changelog-2").read_text())["id"] == 2
    catalog.consumers.reset(history, "c", 2)
    removal = Removal(changelogs_before=4)
    deletion = Deletion("e", version(catalog, history), removal, False)
    assert catalog.references.commit_deletion(history, deletion)
    assert list((directory / "changelog").iterdir()) == []


def test_many_roots_go_in_several_transactions(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    for number in range(1, 251):
        commit(catalog, table, snapshot(number))
    removal = Removal(snapshots_before=250, changelogs_before=125)
    deletion = Deletion("d", version(catalog, table), removal, False)
    assert catalog.references.commit_deletion(table, deletion)
    assert files(directory, "snapshot") == ["snapshot-250"]
    assert len(files(directory, "changelog")) == 125


def test_a_consumer_that_moved_since_is_not_deleted(
    catalog: Catalog, history: Identifier, directory: Path
) -> None:
    catalog.consumers.reset(history, "c", 2)
    catalog.consumers.reset(history, "d", 2)
    moved_at = {item.consumer_id: item.updated_at for item in catalog.consumers.list(history).items}
    assert moved_at["d"] is not None
    removal = Removal(consumers={"c": 17, "d": moved_at["d"]})
    deletion = Deletion("d", version(catalog, history), removal, False)
    assert catalog.references.commit_deletion(history, deletion)
    assert files(directory, "consumer") == ["consumer-c"]


def test_a_deletion_that_cannot_be_one_is_rejected(catalog: Catalog, history: Identifier) -> None:
    now = version(catalog, history)
    with pytest.raises(Invalid, match="its latest is 4, and that stays"):
        catalog.references.commit_deletion(
            history, Deletion("d", now, Removal(snapshots_before=5), False)
        )
    with pytest.raises(Invalid, match="1 to 36 characters"):
        catalog.references.commit_deletion(history, Deletion("d" * 37, now, EXPIRY, False))
    with pytest.raises(NotFound) as missing:
        catalog.references.state(replace(history, name="nothing"))
    assert missing.value.resource_type is ResourceType.TABLE


def test_a_dropped_table_takes_its_open_deletion_with_it(
    catalog: Catalog, history: Identifier
) -> None:
    deletion = Deletion("d", version(catalog, history), EXPIRY, True)
    assert catalog.references.commit_deletion(history, deletion)
    catalog.tables.drop(history)


def test_a_tag_is_renamed_and_replaced(
    catalog: Catalog, history: Identifier, directory: Path
) -> None:
    catalog.tags.create(history, "old", 1, retained_millis=60_000)
    catalog.tags.create(history, "other", 2)
    with pytest.raises(AlreadyExists):
        catalog.tags.rename(history, "old", "other")
    with pytest.raises(Invalid):
        catalog.tags.rename(history, "old", "a/b")
    catalog.tags.rename(history, "old", "new")
    renamed = catalog.tags.get(history, "new")
    assert (renamed.snapshot.id, renamed.retained_millis) == (1, 60_000)
    catalog.tags.replace(history, "new", 3)
    assert catalog.tags.get(history, "new").snapshot.id == 3
    catalog.tags.replace(history, "new", retained_millis=1000)
    latest = catalog.tags.get(history, "new")
    assert (latest.snapshot.id, latest.retained_millis) == (4, 1000)
    assert files(directory, "tag") == ["tag-new", "tag-other"]
    for change in (
        partial(catalog.tags.rename, history, "old", "newer"),
        partial(catalog.tags.replace, history, "old", 1),
    ):
        with pytest.raises(NotFound) as missing:
            change()
        assert missing.value.resource_type is ResourceType.TAG
    with pytest.raises(NotFound) as missing:
        catalog.tags.replace(history, "new", 9)
    assert missing.value.resource_type is ResourceType.SNAPSHOT


def test_a_tag_of_a_snapshot_by_its_uuid_is_of_no_other(
    catalog: Catalog, history: Identifier, snapshot: MakeSnapshot
) -> None:
    """After a rollback, another commit has the number."""
    before = catalog.snapshots.get(history, "4")
    catalog.tags.create(history, "kept", 3, snapshot_uuid=catalog.snapshots.get(history, "3").uuid)
    catalog.snapshots.rollback_to_snapshot(history, 3)
    commit(catalog, history, snapshot(4))
    with pytest.raises(NotFound, match="was rolled back") as gone:
        catalog.tags.create(history, "new", 4, snapshot_uuid=before.uuid)
    assert gone.value.resource_type is ResourceType.SNAPSHOT
    catalog.tags.create(history, "new", 4)
    assert catalog.tags.get(history, "new").snapshot.uuid != before.uuid
    assert catalog.tags.get(history, "kept").snapshot.id == 3
