"""Branches, over every catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

MakeSnapshot = Callable[..., Snapshot]
Commit = Callable[..., Snapshot]


@pytest.fixture
def commit(catalog: Catalog, snapshot: MakeSnapshot) -> Commit:
    """Commits one more snapshot to a table or branch: 10 records in one more file."""

    def once(name: Identifier, **fields: object) -> Snapshot:
        latest = catalog.snapshots.latest(name)
        number = 1 if latest is None else latest.snapshot.id + 1
        made = snapshot(number, **fields)
        base = None if latest is None else latest.snapshot.uuid
        change = PartitionStatistics({"dt": str(number % 2)}, 10, 1000, 1, number, 2)
        assert catalog.snapshots.commit(name, None, made, base, [change]).decided()
        return made

    return once


@pytest.fixture
def history(table: Identifier, commit: Commit) -> list[Snapshot]:
    """Five snapshots of the main branch."""
    return [commit(table) for _ in range(5)]


def _ids(catalog: Catalog, name: Identifier) -> list[int]:
    return [item.id for item in catalog.snapshots.list(name).items]


def _latest(catalog: Catalog, name: Identifier) -> SnapshotInfo:
    latest = catalog.snapshots.latest(name)
    assert latest is not None
    return latest


def _files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.usefixtures("history")
def test_a_branch_begins_empty_with_the_schemas(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    assert list(catalog.branches.list(table)) == []
    catalog.branches.create(table, "b")
    b = branch_of(table, "b")
    assert list(catalog.branches.list(table)) == ["b"]
    assert list(catalog.branches.list(b)) == ["b"]
    info = catalog.tables.get(b)
    assert info.identifier == b == Identifier(table.database, f"{table.name}$branch_b")
    main = catalog.tables.get(table)
    assert (info.id, info.path, info.schema) == (main.id, main.path, main.schema)
    assert catalog.snapshots.latest(b) is None
    assert _ids(catalog, b) == []
    assert _files(directory / "branch" / "branch-b") == {
        f"schema/schema-{number}": (directory / "schema" / f"schema-{number}").read_text()
        for number in (0, 1)
    }
    assert list(catalog.tables.list(table.database).items) == [table.name]


def test_a_branch_goes_its_own_way(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path, commit: Commit
) -> None:
    catalog.branches.create(table, "b")
    b = branch_of(table, "b")
    first = commit(b)
    assert (first.id, _ids(catalog, b)) == (1, [1])
    assert catalog.snapshots.get(b, "LATEST") == first
    catalog.tables.alter(b, [SetOption("write-only", "true")])
    catalog.tags.create(b, "theirs")
    catalog.consumers.reset(b, "billing", 1)
    assert list(catalog.snapshots.list(table).items) == history[::-1]
    assert catalog.tables.get(table).schema.id == 0
    assert list(catalog.tags.list(table).items) == []
    assert list(catalog.consumers.list(table).items) == []
    assert list(catalog.tags.list(b).items) == ["theirs"]
    assert [item.consumer_id for item in catalog.consumers.list(b).items] == ["billing"]
    assert set(_files(directory / "branch" / "branch-b")) == {
        "schema/schema-0",
        "schema/schema-1",
        "snapshot/snapshot-1",
        "snapshot/LATEST",
        "snapshot/EARLIEST",
        "tag/tag-theirs",
        "consumer/consumer-billing",
    }
    commit(b)
    catalog.snapshots.rollback_to_tag(b, "theirs")
    assert _ids(catalog, b) == [1]


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_branch_begins_with_a_tag(
    catalog: Catalog,
    table: Identifier,
    history: list[Snapshot],
    directory: Path,
    commit: Commit,
    is_expired: bool,
) -> None:
    catalog.tags.create(table, "v1", 3, retained_millis=60_000)
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    commit(table, schemaId=1)
    if is_expired:
        for number in (1, 2, 3):
            (directory / "snapshot" / f"snapshot-{number}").unlink()
    catalog.branches.create(table, "b", from_tag="v1")
    b = branch_of(table, "b")
    # As it was then: sizes, schema, and the tag.
    latest = _latest(catalog, b)
    assert latest.snapshot == history[2]
    assert (latest.record_count, latest.file_size_in_bytes, latest.file_count) == (30, 3000, 3)
    assert catalog.tables.get(b).schema.id == 0
    assert catalog.tags.get(b, "v1") == catalog.tags.get(table, "v1")
    files = _files(directory / "branch" / "branch-b")
    assert set(files) == {
        "schema/schema-0",
        "snapshot/snapshot-3",
        "snapshot/LATEST",
        "snapshot/EARLIEST",
        "tag/tag-v1",
    }
    assert json.loads(files["snapshot/snapshot-3"]) == history[2].document
    assert (files["snapshot/EARLIEST"], files["snapshot/LATEST"]) == ("3", "3")
    assert commit(b).id == 4
    assert _latest(catalog, b).record_count == 40
    assert _ids(catalog, b) == [4, 3]
    assert _latest(catalog, table).snapshot.id == 6


def test_a_branch_begins_with_a_snapshot_or_with_another_branch(
    catalog: Catalog, table: Identifier, history: list[Snapshot], commit: Commit
) -> None:
    catalog.branches.create(table, "b", from_snapshot=5)
    b = branch_of(table, "b")
    assert _latest(catalog, b).snapshot == history[4]
    sixth = commit(b)
    catalog.branches.create(b, "c", from_snapshot=6)
    assert list(catalog.branches.list(table)) == ["b", "c"]
    assert _latest(catalog, branch_of(table, "c")) == _latest(catalog, b)
    assert catalog.snapshots.get(branch_of(table, "c"), "6") == sixth
    assert _latest(catalog, table).snapshot == history[4]


@pytest.mark.usefixtures("history")
def test_names_that_no_branch_can_have(
    catalog: Catalog, table: Identifier, subtests: pytest.Subtests
) -> None:
    catalog.branches.create(table, "b")
    for name in ("", " ", "main", "12", "a/b", "a$b", "a\\b", " b", "b\n", "x" * 201):
        with subtests.test(name=name):
            with pytest.raises(Invalid):
                catalog.branches.create(table, name)
            with pytest.raises(Invalid):
                catalog.branches.rename(table, "b", name)
            assert list(catalog.branches.list(table)) == ["b"]


@pytest.mark.usefixtures("history")
def test_a_name_is_taken_once(catalog: Catalog, table: Identifier, commit: Commit) -> None:
    catalog.branches.create(table, "b", from_snapshot=2)
    for tag in (None, "no-tag"):
        with pytest.raises(AlreadyExists) as taken:
            catalog.branches.create(table, "b", from_tag=tag)
        assert taken.value.resource_type is ResourceType.BRANCH
        assert taken.value.resource_name == "b"
    with pytest.raises(Invalid):
        catalog.branches.create(table, "c", from_tag="v1", from_snapshot=1)
    assert commit(branch_of(table, "b")).id == 3


def test_what_a_branch_cannot_begin_with(catalog: Catalog, table: Identifier) -> None:
    nowhere = Identifier(table.database, "nowhere")
    for action in (catalog.branches.list, lambda name: catalog.branches.create(name, "b")):
        with pytest.raises(NotFound) as missing:
            action(nowhere)
        assert missing.value.resource_type is ResourceType.TABLE
    with pytest.raises(NotFound) as tag:
        catalog.branches.create(table, "b", from_tag="v1")
    assert (tag.value.resource_type, tag.value.resource_name) == (ResourceType.TAG, "v1")
    with pytest.raises(NotFound) as snapshot:
        catalog.branches.create(table, "b", from_snapshot=1)
    assert snapshot.value.resource_type is ResourceType.SNAPSHOT
    assert list(catalog.branches.list(table)) == []
    with pytest.raises(NotFound) as branch:
        catalog.tables.get(branch_of(table, "b"))
    assert branch.value.resource_type is ResourceType.TABLE


def test_branches_that_are_not_there(catalog: Catalog, table: Identifier) -> None:
    actions: list[Callable[[], None]] = [
        lambda: catalog.branches.drop(table, "none"),
        lambda: catalog.branches.rename(table, "none", "b"),
        lambda: catalog.branches.fast_forward(table, "none"),
    ]
    for action in actions:
        with pytest.raises(NotFound) as missing:
            action()
        assert missing.value.resource_type is ResourceType.BRANCH
        assert missing.value.resource_name == "none"
    main: list[Callable[[], None]] = [
        lambda: catalog.branches.drop(table, "main"),
        lambda: catalog.branches.rename(table, "main", "b"),
        lambda: catalog.branches.fast_forward(table, "main"),
    ]
    for action in main:
        with pytest.raises(Invalid):
            action()


@pytest.mark.usefixtures("history")
def test_a_dropped_branch_leaves_nothing_and_its_name_is_free(
    catalog: Catalog, table: Identifier, directory: Path, commit: Commit
) -> None:
    b = branch_of(table, "b")
    catalog.branches.create(table, "b", from_snapshot=4)
    old = commit(b)
    before = _files(directory / "snapshot")
    catalog.branches.drop(table, "b")
    assert list(catalog.branches.list(table)) == []
    assert not (directory / "branch" / "branch-b").exists()
    assert _files(directory / "snapshot") == before
    with pytest.raises(NotFound):
        catalog.tables.get(b)
    catalog.branches.create(table, "b", from_snapshot=4)
    assert _ids(catalog, b) == [4]
    # What was committed to the branch that had the name is no replay here.
    following = commit(b)
    assert following.uuid != old.uuid
    assert catalog.snapshots.get(b, "5") == following


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_a_branch_in_use_is_not_dropped(catalog: Catalog, table: Identifier, option: str) -> None:
    catalog.branches.create(table, "b")
    catalog.tables.alter(table, [SetOption(option, "b")])
    with pytest.raises(Invalid, match=option):
        catalog.branches.drop(table, "b")
    assert list(catalog.branches.list(table)) == ["b"]


def test_a_renamed_branch_takes_everything_along(
    catalog: Catalog, table: Identifier, directory: Path, commit: Commit
) -> None:
    commit(table)
    b, c = branch_of(table, "b"), branch_of(table, "c")
    catalog.branches.create(table, "b", from_snapshot=1)
    catalog.branches.create(table, "taken")
    second = commit(b)
    catalog.tables.alter(b, [SetOption("write-only", "true")])
    catalog.tags.create(b, "v1")
    catalog.consumers.reset(b, "billing", 2)
    before, latest = _files(directory / "branch" / "branch-b"), _latest(catalog, b)
    for name in ("taken", "b"):
        with pytest.raises(AlreadyExists) as taken:
            catalog.branches.rename(table, "b", name)
        assert taken.value.resource_name == name
    catalog.branches.rename(table, "b", "c")
    assert list(catalog.branches.list(table)) == ["c", "taken"]
    assert _files(directory / "branch" / "branch-c") == before
    assert not (directory / "branch" / "branch-b").exists()
    assert _latest(catalog, c) == latest
    assert catalog.tables.get(c).schema.id == 1
    assert catalog.tags.get(c, "v1").snapshot == second
    assert commit(c).id == 3
    catalog.snapshots.rollback_to_tag(c, "v1")
    assert _latest(catalog, c) == latest
    # The old name is as good as new.
    catalog.branches.create(table, "b")
    assert catalog.snapshots.latest(b) is None


def test_a_forwarded_table_holds_what_the_branch_holds(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path, commit: Commit
) -> None:
    catalog.tags.create(table, "before", 2)
    catalog.tags.create(table, "fork", 3)
    catalog.tags.create(table, "after", 5)
    catalog.branches.create(table, "b", from_tag="fork")
    b = branch_of(table, "b")
    fourth = commit(b)
    catalog.tables.alter(b, [SetOption("write-only", "true")])
    fifth = commit(b, schemaId=1)
    commit(b, schemaId=1)
    catalog.tags.create(b, "new", 5)
    catalog.tables.alter(table, [SetOption("manifest.format", "avro")])
    commit(table, schemaId=1)
    commit(table, schemaId=1)
    catalog.branches.fast_forward(table, "b")
    assert _ids(catalog, table) == [6, 5, 4, 3, 2, 1]
    assert catalog.snapshots.get(table, "3") == history[2]
    assert catalog.snapshots.get(table, "4") == fourth
    assert catalog.snapshots.get(table, "5") == fifth
    assert _latest(catalog, table) == _latest(catalog, b)
    assert _latest(catalog, table).record_count == 60
    assert catalog.tables.get(table).schema == catalog.tables.get(b).schema
    assert list(catalog.tags.list(table).items) == ["before", "fork", "new"]
    there = _files(directory / "branch" / "branch-b")
    for name, text in there.items():
        if not name.endswith("EARLIEST"):
            assert (directory / name).read_text() == text, name
    assert (directory / "snapshot" / "EARLIEST").read_text() == "1"
    assert not (directory / "snapshot" / "snapshot-7").exists()
    # Both go on, each for itself; and a rollback knows what the branch's snapshots changed.
    commit(table, schemaId=1)
    assert _latest(catalog, b).snapshot.id == 6
    catalog.snapshots.rollback_to_snapshot(table, 4)
    assert _latest(catalog, table).record_count == 40
    assert catalog.tables.get(table).schema.id == 1


def test_forwarding_replaces_a_history_that_has_nothing_in_common(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path, commit: Commit
) -> None:
    catalog.tags.create(table, "old", 1)
    catalog.branches.create(table, "b")
    b = branch_of(table, "b")
    catalog.branches.fast_forward(table, "b")
    assert list(catalog.snapshots.list(table).items) == history[::-1]
    made = [commit(b), commit(b)]
    catalog.branches.fast_forward(table, "b")
    assert list(catalog.snapshots.list(table).items) == made[::-1]
    assert list(catalog.tags.list(table).items) == []
    assert _latest(catalog, table).record_count == 20
    assert (directory / "snapshot" / "LATEST").read_text() == "2"
    catalog.branches.fast_forward(table, "b")
    assert list(catalog.snapshots.list(table).items) == made[::-1]


@pytest.mark.usefixtures("history")
def test_forwarding_leaves_no_gap_where_the_branch_expired(
    catalog: Catalog, table: Identifier, directory: Path, commit: Commit
) -> None:
    catalog.tags.create(table, "kept", 2)
    catalog.branches.create(table, "b", from_snapshot=3)
    b = branch_of(table, "b")
    for _ in range(4):
        commit(b)
    for number in (3, 4, 5):
        (directory / "branch" / "branch-b" / "snapshot" / f"snapshot-{number}").unlink()
    catalog.branches.fast_forward(table, "b")
    assert _ids(catalog, table) == [7, 6]
    assert list(catalog.tags.list(table).items) == ["kept"]
    assert (directory / "snapshot" / "EARLIEST").read_text() == "6"
    assert catalog.snapshots.get(table, "EARLIEST") == catalog.snapshots.get(b, "6")


def test_forwarding_to_a_branch_that_stands_still_goes_back(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path
) -> None:
    catalog.branches.create(table, "b", from_snapshot=3)
    for number in (1, 2, 3):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    catalog.branches.fast_forward(table, "b")
    assert list(catalog.snapshots.list(table).items) == [history[2]]
    assert _latest(catalog, table).record_count == 30


def test_a_branch_is_forwarded_to_another(
    catalog: Catalog, table: Identifier, history: list[Snapshot], commit: Commit
) -> None:
    catalog.branches.create(table, "b", from_snapshot=5)
    catalog.branches.create(table, "c", from_snapshot=5)
    b, c = branch_of(table, "b"), branch_of(table, "c")
    sixth = commit(c)
    catalog.branches.fast_forward(b, "c")
    assert list(catalog.snapshots.list(b).items) == [sixth, history[4]]
    assert _latest(catalog, table).snapshot == history[4]
    with pytest.raises(Invalid):
        catalog.branches.fast_forward(b, "b")


@pytest.mark.usefixtures("history")
def test_a_table_takes_its_branches_along_and_down(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.branches.create(table, "b", from_snapshot=5)
    renamed = Identifier(table.database, "renamed")
    catalog.tables.rename(table, renamed)
    assert list(catalog.branches.list(renamed)) == ["b"]
    assert _ids(catalog, branch_of(renamed, "b")) == [5]
    for name in (branch_of(renamed, "b"), branch_of(renamed, "c")):
        with pytest.raises((Invalid, NotFound)):
            catalog.tables.drop(name)
    catalog.tables.drop(renamed)
    assert not directory.exists()
    with pytest.raises(NotFound):
        catalog.tables.get(branch_of(renamed, "b"))


def test_files_of_somebody_are_not_taken_for_a_branch(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    theirs = directory / "branch" / "branch-b" / "schema" / "schema-0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    with pytest.raises(AlreadyExists, match="schema-0"):
        catalog.branches.create(table, "b")
    assert theirs.read_text() == "{}"
    assert list(catalog.branches.list(table)) == []
