"""Tag and consumer files, as Paimon's Java writes and reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.snapshot.consumer import (
    Consumer,
    delete_consumer_file,
    list_consumer_files,
    read_consumer_file,
    write_consumer_file,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import (
    Tag,
    delete_tag_file,
    list_tag_files,
    read_tag_file,
    write_tag_file,
)

SNAPSHOT = Snapshot.from_document(
    {
        "version": 3,
        "uuid": "snapshot-uuid",
        "id": 4,
        "schemaId": 0,
        "baseManifestList": "manifest-list-a-0",
        "deltaManifestList": "manifest-list-a-1",
        "commitUser": "somebody",
        "commitIdentifier": 9,
        "commitKind": "APPEND",
        "timeMillis": 1000,
        "totalRecordCount": 0,
        "deltaRecordCount": 0,
        "addedByALaterRelease": {"kept": [1, 2]},
    }
)

FILES = LocalFileAccess()


@pytest.fixture
def layout(tmp_path: Path) -> TableLayout:
    return TableLayout(local_uri(tmp_path / "t"))


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_tag_without_a_limit_is_the_snapshot_itself(layout: TableLayout) -> None:
    assert write_tag_file(FILES, layout, Tag("v1", SNAPSHOT, created_at=5))
    assert json.loads(FILES.read(layout.tag("v1"))) == dict(SNAPSHOT.document)
    assert read_tag_file(FILES, layout, "v1") == Tag("v1", SNAPSHOT)


def test_a_tag_with_a_limit_carries_local_time_and_seconds(
    layout: TableLayout, tokyo: None
) -> None:
    tag = Tag("v1", SNAPSHOT, created_at=1_700_000_000_123, retained_millis=3_600_500)
    assert write_tag_file(FILES, layout, tag)
    document = json.loads(FILES.read(layout.tag("v1")))
    assert document["tagCreateTime"] == [2023, 11, 15, 7, 13, 20, 123_000_000]
    assert document["tagTimeRetained"] == 3600.5
    assert read_tag_file(FILES, layout, "v1") == tag
    assert not tag.is_expired(1_700_003_600_623)
    assert tag.is_expired(1_700_003_600_624)


@pytest.mark.parametrize(
    ("array", "millis"),
    [
        ([1969, 1, 1, 0, 0, 0, 123_456_789], -31_568_399_877),
        ([2024, 2, 29, 9, 30], 1_709_166_600_000),
        ([2024, 2, 29, 9, 30, 5], 1_709_166_605_000),
    ],
)
def test_times_that_java_wrote_are_read(tokyo: None, array: list[int], millis: int) -> None:
    text = json.dumps({**SNAPSHOT.document, "tagCreateTime": array, "tagTimeRetained": 5})
    tag = Tag.from_json("t", text)
    assert (tag.created_at, tag.retained_millis) == (millis, 5000)
    assert tag.snapshot == SNAPSHOT


def test_a_taken_name_is_not_overwritten(layout: TableLayout) -> None:
    other = Snapshot.from_document({**SNAPSHOT.document, "id": 5})
    assert write_tag_file(FILES, layout, Tag("v1", SNAPSHOT))
    assert not write_tag_file(FILES, layout, Tag("v1", other))
    assert write_tag_file(FILES, layout, Tag("v0", other))
    assert [(t.name, t.snapshot.id) for t in list_tag_files(FILES, layout)] == [
        ("v0", 5),
        ("v1", 4),
    ]
    delete_tag_file(FILES, layout, "v1")
    delete_tag_file(FILES, layout, "v1")
    assert read_tag_file(FILES, layout, "v1") is None


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "a\\b", "a\0b"])
def test_a_name_cannot_leave_its_directory(layout: TableLayout, name: str) -> None:
    with pytest.raises(Invalid):
        write_tag_file(FILES, layout, Tag(name, SNAPSHOT))
    with pytest.raises(Invalid):
        delete_tag_file(FILES, layout, name)
    with pytest.raises(Invalid):
        write_consumer_file(FILES, layout, Consumer(name, 1))
    with pytest.raises(Invalid):
        delete_consumer_file(FILES, layout, name)


@pytest.mark.parametrize(
    "change",
    [
        {"tagCreateTime": "2024"},
        {"tagCreateTime": [2024, 13, 1, 0, 0]},
        {"tagCreateTime": [2024, 1]},
        {"tagTimeRetained": "PT1H"},
        {"id": None},
    ],
)
def test_a_malformed_tag_names_its_file(layout: TableLayout, change: dict[str, object]) -> None:
    FILES.write(layout.tag("bad"), json.dumps({**SNAPSHOT.document, **change}).encode())
    with pytest.raises(CorruptData, match="tag-bad"):
        list_tag_files(FILES, layout)


def test_consumers_are_created_moved_listed_and_deleted(layout: TableLayout) -> None:
    assert list_consumer_files(FILES, layout) == []
    write_consumer_file(FILES, layout, Consumer("billing", 3))
    write_consumer_file(FILES, layout, Consumer("billing", 5))
    write_consumer_file(FILES, layout, Consumer("audit", 1))
    assert json.loads(FILES.read(layout.consumer("billing"))) == {"nextSnapshot": 5}
    assert read_consumer_file(FILES, layout, "billing") == Consumer("billing", 5)
    assert read_consumer_file(FILES, layout, "nobody") is None
    listed = list_consumer_files(FILES, layout)
    assert [(c.consumer_id, c.next_snapshot) for c in listed] == [("audit", 1), ("billing", 5)]
    assert all(c.updated_at is not None and c.updated_at > 0 for c in listed)
    delete_consumer_file(FILES, layout, "audit")
    assert [c.consumer_id for c in list_consumer_files(FILES, layout)] == ["billing"]


def test_a_position_before_the_first_snapshot_is_refused(layout: TableLayout) -> None:
    with pytest.raises(Invalid, match="start at 1"):
        write_consumer_file(FILES, layout, Consumer("billing", 0))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nextSnapshot": "3"}', '{"nextSnapshot": 1'])
def test_a_malformed_consumer_names_its_file(layout: TableLayout, text: str) -> None:
    FILES.write(layout.consumer("bad"), text.encode())
    with pytest.raises(CorruptData, match="consumer-bad"):
        list_consumer_files(FILES, layout)
