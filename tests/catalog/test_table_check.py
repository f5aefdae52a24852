"""A check of a table to its last file finds each kind of damage, and nothing else."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.files.local import local_path
from headwater.storage.maintenance.table_check import check_table
from headwater.storage.snapshot.snapshot import Snapshot

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string()), ("day", pa.string())])

pytestmark = pytest.mark.modes


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with connect(tmp_path_factory.mktemp("checked") / "lake") as opened:
        opened.create_database("db")
        yield opened


@pytest.fixture(scope="module")
def table(lake: Lake) -> Table:
    """A table with all kinds of files: indexes, changelogs, statistics, a tag, a branch."""
    made = lake.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["day", "k"],
        partition_keys=["day"],
        options={
            "bucket": "1",
            "changelog-producer": "input",
            "file-index.bloom-filter.columns": "v",
            "file-index.in-manifest-threshold": "1 b",
        },
    )
    for version in range(3):
        days = [f"d{key % 2}" for key in range(20)]
        made.write({"k": list(range(20)), "v": [f"v{version}"] * 20, "day": days})
    made.delete("k = 3")
    made.create_tag("kept")
    made.create_branch("b", tag="kept")
    made.branch("b").write({"k": [100], "v": ["b"], "day": ["d0"]})
    made.write({"k": [200], "v": ["x"], "day": ["d1"]})
    made.analyze()
    return lake.table("db.t")


@pytest.fixture(scope="module")
def marked(lake: Lake) -> Table:
    """An append table, one row of which a deletion vector deletes."""
    options = {"deletion-vectors.enabled": "true"}
    made = lake.create_table("db.marked", SCHEMA.remove(2), options=options)
    made.write({"k": list(range(20)), "v": ["x"] * 20})
    made.delete("k = 3")
    return lake.table("db.marked")


def home(table: Table) -> Path:
    return Path(local_path(table.storage.layout.location))


@contextmanager
def changed(path: Path, change: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """A file that is changed, or away, for a while."""
    text = path.read_bytes()
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(text))
    try:
        yield
    finally:
        path.write_bytes(text)


def flipped(text: bytes) -> bytes:
    """The same size, another content in the middle."""
    middle = len(text) // 2
    return (
        text[:middle]
        + bytes(byte ^ 0xFF for byte in text[middle : middle + 8])
        + text[middle + 8 :]
    )


def with_bit_changed(text: bytes, bit: int) -> bytes:
    at = bit // 8
    return text[:at] + bytes([text[at] ^ 1 << bit % 8]) + text[at + 1 :]


def test_a_table_that_is_whole_has_no_damage(table: Table, marked: Table) -> None:
    for deep in (False, True):
        check = table.check_files(deep=deep)
        assert check.damages == []
        assert (check.is_whole, check.tags, check.unread, check.orphans) == (True, 2, 0, 0)
        assert check.snapshots > 5
        assert check.rows > 60
        check = marked.check_files(deep=deep)
        assert (check.damages, check.index_files, check.rows) == ([], 1, 20)


def names(table: Table, pattern: str) -> list[Path]:
    paths = sorted(path for path in home(table).glob(pattern) if path.is_file())
    assert paths
    return paths


@pytest.mark.parametrize(
    "pattern",
    [
        "snapshot/snapshot-*",
        "schema/schema-0",
        "manifest/manifest-*",
        "day=*/bucket-0/data-*.parquet",
        "day=*/bucket-0/changelog-*.parquet",
        "day=*/bucket-0/*.index",
        "branch/branch-b/snapshot/snapshot-*",
        "statistics/*",
    ],
)
def test_each_file_that_is_missing_or_changed_is_found(table: Table, pattern: str) -> None:
    # One of each kind; the last one of them is needed by the latest snapshot.
    path = names(table, pattern)[-1]
    with changed(path, None):
        check = table.check_files()
        assert not check.is_whole
        assert any(path.name in damage.problem for damage in check.damages), check.damages
    with changed(path, lambda text: text[: len(text) // 2]):
        assert not table.check_files().is_whole
    assert table.check_files().is_whole


def test_a_changelog_that_is_missing_between_others_is_found(lake: Lake) -> None:
    made = lake.create_table(
        "db.logged",
        SCHEMA,
        primary_keys=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "input",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
            "changelog.num-retained.max": "10",
        },
    )
    for version in range(4):
        made.write({"k": [1], "v": [f"v{version}"], "day": ["d"]})
    table = lake.table("db.logged")
    assert (table.check_files().is_whole, table.check_files().changelogs) == (True, 3)
    (missing,) = names(table, "changelog/changelog-2")
    with changed(missing, None):
        (damage,) = table.check_files().damages
    assert "changelog-2 does not exist, though earlier ones do" in damage.problem
    assert damage.needed_by == "changelog 3"


def test_a_branch_of_a_tag_that_outlived_its_changelog_is_whole(lake: Lake) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    made = lake.create_table("db.old", SCHEMA, primary_keys=["k"], options=options)
    for number in range(2):
        made.write({"k": [number], "v": ["v"], "day": ["d"]})
    made.create_tag("first", 1)
    made.expire_snapshots(retain_min=1, retain_max=1)
    branch = made.create_branch("b", tag="first")
    branch.write({"k": [9], "v": ["v"], "day": ["d"]})
    assert made.check_files(deep=True).damages == []
    made.write({"k": [2], "v": ["v"], "day": ["d"]})
    made.expire_snapshots(retain_min=1, retain_max=1)
    assert [row["k"] for row in branch.changes(1).to_arrow().to_pylist()] == [9]


def test_a_table_that_was_forwarded_to_a_tag_that_outlived_its_changelog_is_whole(
    lake: Lake,
) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    made = lake.create_table("db.forwarded", SCHEMA, primary_keys=["k"], options=options)
    for number in range(2):
        made.write({"k": [number], "v": ["v"], "day": ["d"]})
    made.create_tag("first", 1)
    made.expire_snapshots(retain_min=1, retain_max=1)
    made.create_branch("b", tag="first")
    check = made.fast_forward("b").check_files(deep=True)
    assert check.is_whole
    assert any("snapshot 1, the earliest, has no changelog files" in w for w in check.warnings)
    # Of a snapshot that has one a file that is missing is told.
    before = names(made, "bucket-0/changelog-*")
    made.write({"k": [7], "v": ["v"], "day": ["d"]})
    (missing,) = set(names(made, "bucket-0/changelog-*")).difference(before)
    with changed(missing, None):
        assert not made.check_files().is_whole


def test_orphans_go_where_a_branch_begins_with_a_tag_without_a_changelog(lake: Lake) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    made = lake.create_table("db.told", SCHEMA, primary_keys=["k"], options=options)
    for number in range(2):
        made.write({"k": [number], "v": ["v"], "day": ["d"]})
    made.create_tag("first", 1)
    told = made.snapshots()[-1].changelog_manifest_list
    assert told is not None
    made.expire_snapshots(retain_min=1, retain_max=1)
    made.create_branch("b", tag="first")
    # Paimon's expiry deletes it, whatever tag there is.
    made.storage.files.delete(made.storage.layout.manifest(told))
    made.remove_orphan_files(older_than=timedelta(0))
    assert made.branch("b").scan().to_arrow().column("k").to_pylist() == [0]
    assert made.check_files(deep=True).is_whole


def test_a_rollback_during_a_check_is_no_damage(lake: Lake) -> None:
    made = lake.create_table("db.rolled", SCHEMA)
    for number in range(2):
        made.write({"k": [number], "v": ["v"], "day": ["d"]})
    known: list[dict[str, Snapshot]] = []

    def latest() -> dict[str, Snapshot]:
        snapshot = made.latest_snapshot()
        assert snapshot is not None
        known.append({"main": snapshot})
        if len(known) == 1:
            made.rollback(snapshot_id=1)
        return known[-1]

    assert check_table(made.storage, latest, lambda _: {}).is_whole
    assert [each["main"].id for each in known][:2] == [2, 1]


def test_pages_are_read_by_a_deep_check_alone(table: Table) -> None:
    path = names(table, "day=*/bucket-0/data-*.parquet")[0]
    text = path.read_bytes()
    # The first page's bytes, after the magic number; sizes and footers stay.
    broken = text[:4] + bytes(byte ^ 0xFF for byte in text[4:40]) + text[40:]
    with changed(path, lambda _: broken):
        assert table.check_files().is_whole
        check = table.check_files(deep=True)
        assert [path.name in damage.problem for damage in check.damages] == [True]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_changed_bit_is_found_in_every_format(lake: Lake, file_format: str) -> None:
    options = {"file.format": file_format}
    made = lake.create_table(f"db.bits_{file_format}", SCHEMA, options=options)
    numbers = random.Random(7)
    texts = [f"v{numbers.random()}" for _ in range(500)]
    made.write({"k": list(range(500)), "v": texts, "day": ["d"] * 500})
    table = lake.table(made.name)
    data, manifest = names(table, "bucket-0/data-*")[0], names(table, "manifest/manifest-*-0")[0]
    for path in (data, manifest):
        text = path.read_bytes()
        for _ in range(25):
            bit = numbers.randrange(len(text) * 8)
            if re.search(rb"headwater.crc32|HWCRC32", text[max(0, bit // 8 - 15) : bit // 8 + 16]):
                continue  # a checksum under another name is not read, and the rest is whole
            with changed(path, lambda text, bit=bit: with_bit_changed(text, bit)):  # type: ignore[misc]
                assert not table.check_files(deep=True).is_whole, (path.name, bit)
    assert table.check_files(deep=True).is_whole


def test_deletion_vectors_are_compared_with_their_checksums(marked: Table) -> None:
    path = names(marked, "index/index-*")[0]
    for damaged in (path, names(marked, "manifest/index-manifest-*")[0]):
        for change in (None, flipped):
            with changed(damaged, change):
                (damage, *_) = marked.check_files().damages
                assert damaged.name in damage.problem
    assert marked.check_files().is_whole


def test_a_latest_snapshot_that_is_not_the_catalog_s_is_found(table: Table) -> None:
    latest = table.latest_snapshot()
    assert latest is not None
    path = home(table) / "snapshot" / f"snapshot-{latest.id}"
    other = {**json.loads(latest.to_json()), "commitUser": "else"}
    with changed(path, lambda _: json.dumps(other).encode()):
        problems = [damage.problem for damage in table.check_files().damages]
        assert any("is not the catalog's" in problem for problem in problems)
    later = path.with_name(f"snapshot-{latest.id + 1}")
    later.write_text(json.dumps({**json.loads(latest.to_json()), "id": latest.id + 1}))
    problems = [damage.problem for damage in table.check_files().damages]
    later.unlink()
    assert any("is not known to it" in problem for problem in problems)


@pytest.mark.parametrize(
    ("pattern", "text", "problem"),
    [
        ("snapshot/LATEST", b"1\xb2", "expected a number"),
        ("snapshot/LATEST", b"", "expected a number"),
        ("snapshot/LATEST", b"90", "names number 90, which does not exist"),
        ("snapshot/EARLIEST", b"90", "names number 90, which does not exist"),
        ("snapshot/EARLIEST", b"!", "expected a number"),
        ("snapshot/EARLIEST", b"2", "hides snapshot 1 from some readers"),
        ("branch/branch-b/snapshot/EARLIEST", b"q", "expected a number"),
        ("branch/branch-b/snapshot/LATEST", b"90", "names number 90, which does not exist"),
    ],
)
def test_hints_that_lead_nowhere_are_found(
    table: Table, pattern: str, text: bytes, problem: str
) -> None:
    (path,) = names(table, pattern)
    with changed(path, lambda _: text):
        (damage,) = table.check_files().damages
        assert (path.name in damage.needed_by, problem in damage.problem) == (True, True)
        assert "delete the file" in damage.problem
    with changed(path, None):
        assert table.check_files().is_whole
    assert table.check_files().is_whole


def test_a_hint_that_is_behind_is_only_noted(table: Table) -> None:
    (path,) = names(table, "snapshot/LATEST")
    assert table.check_files().notes == []
    with changed(path, lambda _: b"1"):
        check = table.check_files()
        assert (check.damages, check.warnings) == ([], [])
        (note,) = check.notes
        assert "LATEST names snapshot 1" in note


def test_hints_of_changelogs_are_checked(lake: Lake) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "changelog.num-retained.min": "9",
               "changelog.num-retained.max": "9", "snapshot.num-retained.min": "1",
               "snapshot.num-retained.max": "1"}  # fmt: skip
    made = lake.create_table("db.hinted", SCHEMA, primary_keys=["k"], options=options)
    for key in range(4):
        made.write({"k": [key], "v": ["x"], "day": ["d"]})
    for name, text in (
        ("EARLIEST", b"x"),
        ("LATEST", b"x"),
        ("EARLIEST", b"77"),
        ("EARLIEST", b"2"),
        ("LATEST", b"77"),
    ):
        (path,) = names(made, f"changelog/{name}")
        with changed(path, lambda _, text=text: text):  # type: ignore[misc]
            (damage,) = made.check_files().damages
            assert f"changelog/{name}" in damage.problem
    assert made.check_files().is_whole


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b'{"nextSnapshot": 0}',
        b'{"nextSnapshot": "2"}',
        b'{"nextSnapshot": 9223372036854775808}',
        b'{"nextSnapshot": 2',
    ],
)
@pytest.mark.parametrize("remedy", ["reset", "delete"])
def test_a_damaged_consumer_is_found_and_repaired(lake: Lake, text: bytes, remedy: str) -> None:
    name = f"db.read_{remedy}_{len(text)}"
    made = lake.create_table(name, SCHEMA, options={"write-only": "true"})
    for key in range(3):
        made.write({"k": [key], "v": ["x"], "day": ["d"]})
    made.create_tag("t", 2)
    made.create_branch("side", tag="t")
    for table in (made, made.branch("side")):
        table.consumer("reader").reset(3)
        assert (made.check_files().damages, made.check_files().warnings) == ([], [])
        (path,) = home(table).rglob("consumer-reader")
        path.write_bytes(text)
        (damage,) = made.check_files().damages
        assert "consumer reader" in damage.needed_by
        assert f"headwater consumer {remedy}" in damage.problem
        consumer = table.consumer("reader")
        if remedy == "delete":
            consumer.delete()
        else:
            consumer.reset(2)
        assert made.check_files().is_whole
        table.consumer("reader").delete()


def test_a_consumer_beyond_the_latest_snapshot_is_warned_of(lake: Lake) -> None:
    made = lake.create_table("db.ahead", SCHEMA)
    made.write({"k": [1], "v": ["x"], "day": ["d"]})
    made.consumer("reader").reset(2)
    assert made.check_files().warnings == []
    made.consumer("reader").reset(6)
    check = made.check_files()
    assert check.is_whole
    assert ["consumer-reader is at snapshot 6" in warning for warning in check.warnings] == [True]
