"""Orphan files: what goes, what stays, and what stops the cleaning."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.access import FileStatus
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.index.index_file import IndexFileMeta, IndexManifestEntry
from headwater.storage.index.manifest import write_index_manifest
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.expire import expire_snapshots
from headwater.storage.jobs.orphans import remove_orphan_files
from headwater.storage.maintenance.expire import Retention
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.read.split import read_split
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag, delete_tag_file, write_tag_file
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

Task = TypeVar("Task")
Result = TypeVar("Result")

COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "STRING NOT NULL")]
DAY = 86_400_000
# What is on the disk was written by the disk's clock.
FUTURE = 4_000_000_000_000
STRAYS = [
    "p=a/bucket-0/data-stray.parquet",
    "p=gone/bucket-7/data-stray.parquet",
    "manifest/manifest-stray-0",
    "manifest/index-manifest-stray-0",
    "index/index-stray",
    "statistics/stat-stray",
    "snapshot/tmp-snapshot-3",
    "changelog/tmp-changelog-3",
    "branch/branch-side/snapshot/tmp",
]
# A killed writer's files, which other listings leave out.
UNFINISHED = [
    "p=a/bucket-0/.data-9.parquet.7-7-7.headwater-tmp",
    "snapshot/.snapshot-9.7-7-7.headwater-tmp",
]
OTHERS = [
    "README",
    "p=a/README",
    "p=a/bucket-0/deeper/data-0.parquet",
    "bucket-0/data-0.parquet",
    "x/bucket-0/data-0.parquet",
    "p=a/bucket-0/pack.managed.blob",
    "snapshot/snapshot-99.bak",
    "snapshot/EARLIEST",
    "changelog/LATEST",
    "consumer/consumer-a",
    "service/primary-key-lookup",
    "schema/schema-0.bak",
    "branch/branch-side/schema/schema-0",
    "branch/README",
]


@pytest.fixture
def table(new_table: NewTable) -> StoredTable:
    options = {"bucket": "1", "changelog-producer": "input"}
    made = new_table(COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    made.clock.millis = FUTURE
    return made


def upsert(table: StoredTable, *ids: int) -> Snapshot:
    base = table.pointer.latest()
    writer = TableWriter(table.storage, max_sequence_numbers=BucketStates(table.storage, base))
    writer.write(pa.table({"id": list(ids), "p": ["a"] * len(ids)}))
    snapshot = TableCommit(table.storage, table.pointer, "me").commit(writer.finish())
    assert snapshot is not None
    return snapshot


def ids_at(table: StoredTable, snapshot: Snapshot) -> list[int]:
    ids: list[int] = []
    for split in plan_snapshot(table.storage, snapshot).splits:
        for batch in read_split(table.storage, split, columns=["id"]):
            ids += batch.column(0).to_pylist()
    return sorted(ids)


def put(table: StoredTable, *inner: str) -> None:
    for path in inner:
        file = f"{table.storage.layout.location}/{path}"
        if not table.storage.files.exists(file):
            table.storage.files.write(file, b"12345")


def clean(
    table: StoredTable, *, older_than: int = DAY, dry_run: bool = False, **latest: Snapshot
) -> list[str]:
    result = remove_orphan_files(
        table.storage,
        table.references,
        lambda: latest,
        older_than_millis=older_than,
        dry_run=dry_run,
    )
    prefix = table.storage.layout.location + "/"
    return [file.path.removeprefix(prefix) for file in result.files]


def side_of(table: StoredTable) -> StoredTable:
    """A branch that has a schema and nothing else."""
    files, main = table.storage.files, table.storage.layout
    layout = replace(main, branch="side")
    files.write(layout.schema(0), files.read(main.schema(0)))
    storage = replace(table.storage, layout=layout)
    return replace(table, storage=storage, pointer=replace(table.pointer, layout=layout))


def test_what_nothing_refers_to_goes_and_all_else_stays(table: StoredTable) -> None:
    snapshots = [upsert(table, number) for number in (1, 2, 3)]
    put(table, *OTHERS)
    before = table.files_below()
    assert clean(table) == []
    put(table, *STRAYS)
    assert clean(table, dry_run=True) == sorted(STRAYS)
    assert table.files_below() == sorted([*before, *STRAYS])
    done = remove_orphan_files(
        table.storage,
        table.references,
        lambda: {"main": snapshots[-1]},
        older_than_millis=DAY,
    )
    assert (len(done.files), done.size, done.dry_run) == (len(STRAYS), 5 * len(STRAYS), False)
    assert table.files_below() == before
    assert [ids_at(table, one) for one in snapshots] == [[1], [1, 2], [1, 2, 3]]


def test_what_a_killed_writer_left_goes(table: StoredTable) -> None:
    upsert(table, 1)
    before = table.files_below()
    put(table, *UNFINISHED)
    assert table.files_below() == before
    assert clean(table) == UNFINISHED
    assert clean(table) == []
    assert table.files_below() == before


def test_branches_are_found_wherever_the_table_lies(new_table: NewTable) -> None:
    options = {"bucket": "1"}
    table = new_table(COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    files = table.storage.files
    layout = replace(
        table.storage.layout, location=f"{table.storage.layout.location}/branch/branch-main/t"
    )
    files.write(layout.schema(0), files.read(table.storage.layout.schema(0)))
    pointer = replace(table.pointer, layout=layout)
    inner = replace(table, storage=replace(table.storage, layout=layout), pointer=pointer)
    inner.clock.millis = FUTURE
    side = side_of(inner)
    snapshot = upsert(side, 1)
    assert clean(inner) == []
    assert ids_at(side, snapshot) == [1]


def test_young_files_stay(table: StoredTable) -> None:
    upsert(table, 1)
    side_of(table)
    put(table, *STRAYS)
    for path in STRAYS:
        seconds = FUTURE / 1000 - 3600
        os.utime(local_path(f"{table.storage.layout.location}/{path}"), (seconds, seconds))
    assert clean(table) == []
    assert clean(table, older_than=3_600_000) == []
    assert clean(table, older_than=3_599_999) == sorted(STRAYS)


def test_files_of_a_table_without_snapshots_are_orphans_when_old(table: StoredTable) -> None:
    put(table, *STRAYS)
    # The branch lacks nothing but a schema: so the cleaning stops, whatever else is there.
    with pytest.raises(CorruptData, match="branch 'side' has no schema"):
        clean(table)
    side_of(table)
    assert clean(table) == sorted(STRAYS)
    assert table.files_below() == ["branch/branch-side/schema/schema-0", "schema/schema-0"]


def test_a_tag_keeps_what_it_names_until_it_is_gone(table: StoredTable) -> None:
    first = upsert(table, 1)
    write_tag_file(table.storage.files, table.storage.layout, Tag("first", first))
    upsert(table, 2)
    side = side_of(table)
    write_tag_file(
        side.storage.files, side.storage.layout, Tag("second", table.storage.snapshot(2))
    )
    for number in (3, 4):
        upsert(table, number)
    expire_snapshots(
        table.storage,
        table.pointer,
        table.references,
        Retention(least=1, most=1, millis=0, limit=9),
    )
    assert clean(table) == []
    assert ids_at(table, first) == [1]
    delete_tag_file(side.storage.files, side.storage.layout, "second")
    gone = clean(table)
    assert gone
    assert all(path.startswith("manifest/") for path in gone)
    assert ids_at(table, first) == [1]
    delete_tag_file(table.storage.files, table.storage.layout, "first")
    assert clean(table)
    latest = table.pointer.latest()
    assert latest is not None
    assert ids_at(table, latest) == [1, 2, 3, 4]


def test_a_changelog_that_outlives_its_snapshot_keeps_its_files(table: StoredTable) -> None:
    first = upsert(table, 1)
    upsert(table, 2)
    files, layout = table.storage.files, table.storage.layout
    files.write(f"{layout.location}/changelog/changelog-1", first.to_json().encode())
    files.delete(layout.snapshot(1))
    # What the snapshot held may be gone by then.
    files.delete(layout.manifest(first.delta_manifest_list))
    assert first.changelog_manifest_list is not None
    before = table.files_below()
    assert clean(table) == []
    files.delete(f"{layout.location}/changelog/changelog-1")
    gone = clean(table)
    assert f"manifest/{first.changelog_manifest_list}" in gone
    assert any("/changelog-" in path for path in gone)
    assert set(table.files_below()) == set(before) - {*gone, "changelog/changelog-1"}


def with_index(table: StoredTable, snapshot: Snapshot) -> None:
    """Give a snapshot an index manifest, which names two files."""
    files, layout = table.storage.files, table.storage.layout
    named = [IndexFileMeta("HASH", name, 8, 2) for name in ("index-1", "index-2")]
    entries = [IndexManifestEntry(FileKind.ADD, EMPTY_ROW, at, one) for at, one in enumerate(named)]
    written = layout.manifest(write_index_manifest(table.storage, entries))
    files.write(layout.manifest("index-manifest-1"), files.read(written))
    files.delete(written)
    document = Snapshot({**snapshot.document, "indexManifest": "index-manifest-1"})
    files.write(layout.snapshot(snapshot.id), document.to_json().encode())


def test_an_index_stays_with_its_snapshot(table: StoredTable) -> None:
    with_index(table, upsert(table, 1))
    put(table, "index/index-1", "p=a/bucket-0/index-2", "index/index-3")
    assert clean(table) == ["index/index-3"]
    table.storage.files.delete(table.storage.layout.manifest("index-manifest-1"))
    with pytest.raises(CorruptData, match=r"index-manifest-1 does not exist"):
        clean(table)


def lose_base(table: StoredTable, snapshot: Snapshot) -> None:
    table.storage.files.delete(table.storage.layout.manifest(snapshot.base_manifest_list))


def lose_manifest(table: StoredTable, snapshot: Snapshot) -> None:
    for path in table.files_below("manifest"):
        if "list" not in path:
            table.storage.files.delete(f"{table.storage.layout.location}/{path}")


def spoil_list(table: StoredTable, snapshot: Snapshot) -> None:
    path = table.storage.layout.manifest(snapshot.delta_manifest_list)
    table.storage.files.write(path, b"Obj\x01 no more")


def spoil_snapshot(table: StoredTable, snapshot: Snapshot) -> None:
    table.storage.files.write(table.storage.layout.snapshot(snapshot.id), b"\xff")


def lose_latest(table: StoredTable, snapshot: Snapshot) -> None:
    table.storage.files.delete(table.storage.layout.snapshot(2))


@pytest.mark.parametrize(
    "spoil", [lose_base, lose_manifest, spoil_list, spoil_snapshot, lose_latest]
)
def test_what_cannot_be_read_stops_it(
    table: StoredTable, spoil: Callable[[StoredTable, Snapshot], None]
) -> None:
    first = upsert(table, 1)
    latest = upsert(table, 2)
    put(table, STRAYS[0])
    spoil(table, first)
    before = table.files_below()
    with pytest.raises(CorruptData):
        clean(table, main=latest)
    assert table.files_below() == before


class MovingFiles(LocalFileAccess):
    """The local disk, on which something happens as a directory is listed for the first time."""

    def __init__(self, directory: str, event: Callable[[], None]) -> None:
        self._directory, self._event = directory, event
        self._happened = False

    def list(self, directory: str) -> list[FileStatus]:
        if directory == self._directory and not self._happened:
            self._happened = True
            self._event()
        return super().list(directory)


def test_what_moves_to_where_it_was_looked_for_is_found(table: StoredTable) -> None:
    """A tag of a branch becomes one of the main branch, whose tags have been listed already."""
    snapshot = upsert(table, 1)
    side = side_of(table)
    files, main, other = table.storage.files, table.storage.layout, side.storage.layout
    write_tag_file(files, other, Tag("kept", snapshot))
    files.delete(main.snapshot(1))

    def move() -> None:
        write_tag_file(files, main, Tag("kept", snapshot))
        delete_tag_file(files, other, "kept")

    moving = MovingFiles(other.tag_directory, move)
    moved = replace(table, storage=replace(table.storage, files=moving))
    assert clean(moved) == []
    assert ids_at(table, snapshot) == [1]


def test_what_expires_meanwhile_is_no_mistake(table: StoredTable) -> None:
    first = upsert(table, 1)
    upsert(table, 2)
    files, layout = table.storage.files, table.storage.layout

    def expire() -> None:
        files.delete(layout.manifest(first.delta_manifest_list))
        files.delete(layout.snapshot(1))

    # The snapshots were listed and read before.
    moving = MovingFiles(layout.tag_directory, expire)
    clean(replace(table, storage=replace(table.storage, files=moving)))
    latest = table.pointer.latest()
    assert latest is not None
    assert ids_at(table, latest) == [1, 2]


def test_what_is_not_paimon_s_is_refused(new_table: NewTable) -> None:
    table = new_table(COLUMNS, partition_keys=["p"], options={"type": "format-table"})
    with pytest.raises(Unsupported, match="every file there is its data"):
        clean(table)
    with pytest.raises(Invalid, match="0 or more"):
        clean(new_table(COLUMNS), older_than=-1)


class CountingFiles(LocalFileAccess):
    """The local disk, which counts how often each file is read."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()

    def read(self, path: str) -> bytes:
        self.reads[path] += 1
        return super().read(path)


def test_each_file_is_read_once_however_many_snapshots_name_it(new_table: NewTable) -> None:
    """Merged manifests, an index and tags among them, so that the cost follows the files."""
    options = {"bucket": "1", "changelog-producer": "input", "manifest.merge-min-count": "4"}
    table = new_table(COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    table.clock.millis = FUTURE
    files, layout = table.storage.files, table.storage.layout
    side = side_of(table)
    for until in (6, 12, 24):
        for number in range(len(table.files_below("snapshot")), until):
            snapshot = upsert(table, number)
            for copy in range(8):
                write_tag_file(files, layout, Tag(f"{number}-{copy}", snapshot))
            write_tag_file(files, side.storage.layout, Tag(f"{number}", snapshot))
            with_index(table, snapshot)
        put(table, STRAYS[0])
        counting = CountingFiles()
        counted = replace(table, storage=replace(table.storage, files=counting))
        assert clean(counted, dry_run=True) == [STRAYS[0]]
        of_manifests = {
            path: number for path, number in counting.reads.items() if "/manifest/" in path
        }
        assert set(of_manifests.values()) == {1}
        assert len(of_manifests) == len(table.files_below("manifest"))
        # Snapshots and tags are looked at again, for what may have moved meanwhile.
        assert max(counting.reads.values()) == 2


@pytest.mark.parametrize("lose", [lose_base, lose_manifest])
def test_what_a_changelog_may_lack_is_missed_by_a_tag_all_the_same(
    table: StoredTable, lose: Callable[[StoredTable, Snapshot], None]
) -> None:
    first = upsert(table, 1)
    files, layout = table.storage.files, table.storage.layout
    files.write(f"{layout.location}/changelog/changelog-1", first.to_json().encode())
    files.delete(layout.snapshot(1))
    lose(table, first)
    put(table, STRAYS[0])
    assert STRAYS[0] in clean(table, dry_run=True)
    side = side_of(table)
    write_tag_file(files, side.storage.layout, Tag("kept", first))
    with pytest.raises(CorruptData, match=r"tag-kept is there and needs it"):
        clean(table)
    assert files.exists(f"{layout.location}/{STRAYS[0]}")


def test_files_go_in_the_tasks_of_an_executor(table: StoredTable) -> None:
    upsert(table, 1)
    put(table, *STRAYS)
    side_of(table)
    given: list[list[str]] = []

    class Elsewhere(LocalExecutor):
        def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
            given.extend(cast("Sequence[list[str]]", tasks))
            return super().run(pickle.loads(pickle.dumps(work)), tasks)

    done = remove_orphan_files(
        table.storage,
        table.references,
        lambda: {},
        older_than_millis=DAY,
        executor=Elsewhere(threads=2),
    )
    assert [path for task in given for path in task] == [file.path for file in done.files]
    assert not set(STRAYS) & set(table.files_below())
