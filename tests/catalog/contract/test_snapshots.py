"""Snapshots, rollback, tags and consumers, over every catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import ConsumerInfo
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, RememberedCommits

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def history(catalog: Catalog, table: Identifier, snapshot: MakeSnapshot) -> list[Snapshot]:
    """Five snapshots, each of 10 records in one more file of one of two partitions."""
    made: list[Snapshot] = []
    for number in range(1, 6):
        base = made[-1].uuid if made else None
        made.append(snapshot(number))
        change = PartitionStatistics({"dt": str(number % 2)}, 10, 1000, 1, number, 2)
        assert catalog.snapshots.commit(table, None, made[-1], base, [change]).decided()
    return made


def _ids(catalog: Catalog, table: Identifier) -> list[int]:
    return [item.id for item in catalog.snapshots.list(table).items]


def _latest_id(catalog: Catalog, table: Identifier) -> int:
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    return latest.snapshot.id


def test_snapshots_are_listed_newest_first(
    catalog: Catalog, table: Identifier, history: list[Snapshot]
) -> None:
    assert list(catalog.snapshots.list(table).items) == history[::-1]
    first = catalog.snapshots.list(table, max_results=2)
    assert [item.id for item in first.items] == [5, 4]
    second = catalog.snapshots.list(table, max_results=3, page_token=first.next_token)
    assert [item.id for item in second.items] == [3, 2, 1]
    assert second.next_token is None


def test_a_users_last_commit_is_known_though_it_expired(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    assert catalog.snapshots.commits_of(table, "job/1") == RememberedCommits()
    base = None
    for number, user, identifier in (
        (1, "job/1", 7), (2, "job/1", 8), (3, "other", 3), (4, "job/1", 2**63 - 1),
    ):  # fmt: skip
        made = snapshot(number, commitUser=user, commitIdentifier=identifier)
        assert catalog.snapshots.commit(table, None, made, base, []).decided()
        base = made.uuid
    for number in (1, 2, 3):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    assert catalog.snapshots.commits_of(table, "job/1") == RememberedCommits(8, False, 2)
    assert catalog.snapshots.commits_of(table, "other") == RememberedCommits(3, False, 3)
    assert catalog.snapshots.commits_of(table, "nobody") == RememberedCommits(None, False, 1)
    missing = Identifier(table.database, "missing")
    with pytest.raises(NotFound):
        catalog.snapshots.commits_of(missing, "job/1")


def test_an_empty_table_has_none(catalog: Catalog, table: Identifier) -> None:
    assert _ids(catalog, table) == []
    for version in ("LATEST", "EARLIEST", "1", "no-tag", "0", "../x"):
        with pytest.raises(NotFound) as error:
            catalog.snapshots.get(table, version)
        assert error.value.resource_type is ResourceType.SNAPSHOT
        assert error.value.resource_name == version


def test_a_version_is_an_id_a_word_or_a_tag(
    catalog: Catalog, table: Identifier, history: list[Snapshot]
) -> None:
    catalog.tags.create(table, "v1", 2)
    assert catalog.snapshots.get(table, "3") == history[2]
    assert catalog.snapshots.get(table, "EARLIEST") == history[0]
    assert catalog.snapshots.get(table, "LATEST") == history[4]
    assert catalog.snapshots.get(table, "v1") == history[1]
    with pytest.raises(NotFound):
        catalog.snapshots.get(table, "6")


def test_what_another_engine_expired_is_gone_here(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path
) -> None:
    catalog.tags.create(table, "kept", 2)
    for number in (1, 2, 3):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    assert _ids(catalog, table) == [5, 4]
    assert catalog.snapshots.get(table, "EARLIEST") == history[3]
    assert catalog.snapshots.get(table, "kept") == history[1]
    with pytest.raises(NotFound) as error:
        catalog.snapshots.get(table, "2")
    assert error.value.resource_type is ResourceType.SNAPSHOT
    with pytest.raises(NotFound):
        catalog.tags.create(table, "late", 3)


@pytest.mark.usefixtures("history")
def test_a_rollback_takes_back_snapshots_tags_and_sizes(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    for name, number in (("early", 2), ("same", 3), ("late", 4)):
        catalog.tags.create(table, name, number)
    catalog.snapshots.rollback_to_snapshot(table, 3)
    assert _ids(catalog, table) == [3, 2, 1]
    assert list(catalog.tags.list(table).items) == ["early", "same"]
    assert (directory / "snapshot" / "LATEST").read_text() == "3"
    assert not (directory / "snapshot" / "snapshot-4").exists()
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert (latest.record_count, latest.file_size_in_bytes, latest.file_count) == (30, 3000, 3)
    # The next commit takes the number of one that is gone, and is another.
    following = snapshot(4)
    assert catalog.snapshots.commit(table, None, following, latest.snapshot.uuid, []).decided()
    assert catalog.snapshots.get(table, "4") == following
    assert json.loads((directory / "snapshot" / "snapshot-4").read_text()) == following.document


def test_what_was_rolled_back_does_not_come_back_as_a_replay(
    catalog: Catalog, table: Identifier, history: list[Snapshot]
) -> None:
    catalog.snapshots.rollback_to_snapshot(table, 3)
    assert not catalog.snapshots.commit(table, None, history[4], history[3].uuid, []).decided()
    assert _latest_id(catalog, table) == 3


@pytest.mark.usefixtures("history")
def test_a_rollback_may_say_what_it_expects_to_undo(catalog: Catalog, table: Identifier) -> None:
    with pytest.raises(Conflict):
        catalog.snapshots.rollback_to_snapshot(table, 2, 4)
    assert _latest_id(catalog, table) == 5
    catalog.snapshots.rollback_to_snapshot(table, 2, 5)
    assert _latest_id(catalog, table) == 2


@pytest.mark.usefixtures("history")
def test_a_rollback_to_what_is_not_there_is_refused(catalog: Catalog, table: Identifier) -> None:
    for number in (0, 6):
        with pytest.raises(NotFound) as error:
            catalog.snapshots.rollback_to_snapshot(table, number)
        assert error.value.resource_type is ResourceType.SNAPSHOT
    with pytest.raises(NotFound) as error:
        catalog.snapshots.rollback_to_tag(table, "none")
    assert error.value.resource_type is ResourceType.TAG
    assert _ids(catalog, table) == [5, 4, 3, 2, 1]


def test_a_rollback_to_an_expired_snapshot_that_a_tag_keeps_brings_it_back(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path
) -> None:
    catalog.tags.create(table, "kept", 2)
    for number in (1, 2, 3):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    with pytest.raises(NotFound):
        catalog.snapshots.rollback_to_snapshot(table, 3)
    catalog.snapshots.rollback_to_snapshot(table, 2)
    assert list(catalog.snapshots.list(table).items) == [history[1]]
    assert list(catalog.tags.list(table).items) == ["kept"]


def test_a_rollback_to_a_tag_brings_an_expired_snapshot_back(
    catalog: Catalog,
    table: Identifier,
    history: list[Snapshot],
    directory: Path,
    snapshot: MakeSnapshot,
) -> None:
    catalog.tags.create(table, "kept", 2)
    catalog.tags.create(table, "late", 4)
    for number in (1, 2, 3):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    catalog.snapshots.rollback_to_tag(table, "kept")
    assert list(catalog.snapshots.list(table).items) == [history[1]]
    assert list(catalog.tags.list(table).items) == ["kept"]
    assert (directory / "snapshot" / "EARLIEST").read_text() == "2"
    assert (directory / "snapshot" / "LATEST").read_text() == "2"
    assert catalog.snapshots.commit(table, None, snapshot(3), history[1].uuid, []).decided()
    assert _ids(catalog, table) == [3, 2]


# Tags


def test_a_tag_names_a_snapshot(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path
) -> None:
    catalog.tags.create(table, "v1", 2)
    catalog.tags.create(table, "newest")
    catalog.tags.create(table, "v2", 3, retained_millis=86_400_000)
    assert list(catalog.tags.list(table).items) == ["newest", "v1", "v2"]
    assert list(catalog.tags.list(table, prefix="v").items) == ["v1", "v2"]
    page = catalog.tags.list(table, max_results=2)
    assert list(page.items) == ["newest", "v1"]
    assert list(catalog.tags.list(table, page_token=page.next_token).items) == ["v2"]
    assert catalog.tags.get(table, "v1").snapshot == history[1]
    assert catalog.tags.get(table, "newest").snapshot == history[4]
    timed = catalog.tags.get(table, "v2")
    assert timed.snapshot == history[2]
    assert timed.retained_millis == 86_400_000
    assert timed.created_at is not None
    on_disk = json.loads((directory / "tag" / "tag-v1").read_text())
    assert on_disk == history[1].document
    catalog.tags.delete(table, "v1")
    assert list(catalog.tags.list(table).items) == ["newest", "v2"]
    assert not (directory / "tag" / "tag-v1").exists()


@pytest.mark.usefixtures("history")
def test_tags_that_cannot_be_are_refused(catalog: Catalog, table: Identifier) -> None:
    catalog.tags.create(table, "v1", 2)
    with pytest.raises(AlreadyExists) as taken:
        catalog.tags.create(table, "v1", 3)
    assert taken.value.resource_type is ResourceType.TAG
    assert catalog.tags.get(table, "v1").snapshot.id == 2
    with pytest.raises(NotFound) as unborn:
        catalog.tags.create(table, "v2", 9)
    assert unborn.value.resource_type is ResourceType.SNAPSHOT
    for name in ("", "a/b", "../v"):
        with pytest.raises(Invalid):
            catalog.tags.create(table, name, 2)
    with pytest.raises(Invalid, match=r"tag name 'éé+…' is longer than 240 bytes"):
        catalog.tags.create(table, "é" * 121, 2)
    for action in (catalog.tags.get, catalog.tags.delete):
        with pytest.raises(NotFound, match="has no tag"):
            action(table, "é" * 300)
        with pytest.raises(NotFound) as missing:
            action(table, "none")
        assert missing.value.resource_type is ResourceType.TAG
        assert missing.value.resource_name == "none"


@pytest.mark.usefixtures("history")
def test_a_tag_is_kept_as_the_table_says(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.tables.alter(table, [SetOption("tag.default-time-retained", "2 h")])
    catalog.tags.create(table, "usual")
    catalog.tags.create(table, "short", retained_millis=1000)
    usual = catalog.tags.get(table, "usual")
    assert usual.retained_millis == 7_200_000
    assert usual.created_at is not None
    assert json.loads((directory / "tag" / "tag-usual").read_text())["tagTimeRetained"] == 7200
    assert catalog.tags.get(table, "short").retained_millis == 1000


def test_what_a_tag_keeps_can_be_tagged_again(
    catalog: Catalog, table: Identifier, history: list[Snapshot], directory: Path
) -> None:
    catalog.tags.create(table, "v1", 2)
    (directory / "snapshot" / "snapshot-2").unlink()
    catalog.tags.create(table, "v2", 2)
    assert catalog.tags.get(table, "v2").snapshot == history[1]


def test_an_empty_table_has_nothing_to_tag(catalog: Catalog, table: Identifier) -> None:
    with pytest.raises(NotFound) as error:
        catalog.tags.create(table, "v1")
    assert error.value.resource_type is ResourceType.SNAPSHOT


@pytest.mark.usefixtures("history")
def test_a_tag_that_another_engine_made_is_seen(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    (directory / "tag").mkdir()
    text = (directory / "snapshot" / "snapshot-4").read_text()
    (directory / "tag" / "tag-theirs").write_text(text)
    assert list(catalog.tags.list(table).items) == ["theirs"]
    assert catalog.tags.get(table, "theirs").snapshot.id == 4


# Consumers


def test_a_consumer_is_moved_and_deleted(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    assert list(catalog.consumers.list(table).items) == []
    catalog.consumers.reset(table, "billing", 3)
    catalog.consumers.reset(table, "audit", 1)
    file = directory / "consumer" / "consumer-billing"
    assert json.loads(file.read_text()) == {"nextSnapshot": 3}
    found = list(catalog.consumers.list(table).items)
    assert [(item.consumer_id, item.next_snapshot) for item in found] == [
        ("audit", 1),
        ("billing", 3),
    ]
    catalog.consumers.reset(table, "billing", 4)
    page = catalog.consumers.list(table, max_results=1)
    assert [item.consumer_id for item in page.items] == ["audit"]
    rest: list[ConsumerInfo] = list(catalog.consumers.list(table, page_token=page.next_token).items)
    assert [(item.consumer_id, item.next_snapshot) for item in rest] == [("billing", 4)]
    catalog.consumers.reset(table, "billing", None)
    catalog.consumers.reset(table, "never-there", None)
    assert [item.consumer_id for item in catalog.consumers.list(table).items] == ["audit"]


def test_a_consumer_that_another_engine_moved_is_seen(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.consumers.reset(table, "billing", 3)
    (directory / "consumer" / "consumer-billing").write_text('{"nextSnapshot" : 7}')
    assert [item.next_snapshot for item in catalog.consumers.list(table).items] == [7]


@pytest.mark.usefixtures("history")
def test_the_longest_names_are_files_names(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    name = "é" * 120
    catalog.tags.create(table, name, 2)
    catalog.consumers.reset(table, name, 1)
    catalog.consumers.reset(table, name, 2)
    assert (directory / "tag" / f"tag-{name}").is_file()
    assert catalog.tags.get(table, name).snapshot.id == 2
    assert [each.next_snapshot for each in catalog.consumers.list(table).items] == [2]
    catalog.tags.delete(table, name)
    catalog.consumers.reset(table, name, None)
    assert list(catalog.consumers.list(table).items) == []
    # Another engine's, whose file has all the letters that a name can have.
    longest = "t" * (255 - len("tag-"))
    catalog.tags.create(table, "v1", 2)
    (directory / "tag" / "tag-v1").rename(directory / "tag" / f"tag-{longest}")
    assert catalog.tags.get(table, longest).snapshot.id == 2
    catalog.tags.delete(table, longest)
    assert list(catalog.tags.list(table).items) == []


@pytest.mark.parametrize(
    ("name", "number"),
    [("a/b", 1), ("", 1), ("n" * 241, 1), ("ok", 0), ("ok", -3), ("ok", 2**63)],
)
def test_consumers_that_cannot_be_are_refused(
    catalog: Catalog, table: Identifier, name: str, number: int
) -> None:
    with pytest.raises(Invalid):
        catalog.consumers.reset(table, name, number)
    assert list(catalog.consumers.list(table).items) == []
