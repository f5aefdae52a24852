"""A table checked to its last file: everything that anything of it names is there, and is whole.

The roots are the schemas, snapshots, tags and changelogs of every branch. Of each the lists and
manifests are read and compared with the sizes and counts that were written down, and each file
they name is looked at: its size, its number of rows, its index. Within a line of snapshots a file
is added once, so that the files of the earliest and those that later ones added are all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from headwater.storage.errors import CorruptData, NotFound, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.formats.blob_file import BLOB_SUFFIX, check_blobs
from headwater.storage.formats.blob_references import REFERENCES_SUFFIX, parsed_references
from headwater.storage.formats.registry import format_of_file
from headwater.storage.formats.system_columns import data_file_fields
from headwater.storage.index.deletion_files import read_deletion_vectors
from headwater.storage.index.file_index.data_file import file_indexes_of
from headwater.storage.index.hash_index import read_hash_index
from headwater.storage.index.index_file import IndexManifestEntry, index_file_path
from headwater.storage.index.manifest import read_index_manifest
from headwater.storage.maintenance.listed_sizes import ListedSizes
from headwater.storage.maintenance.lost_ends import lost_ends
from headwater.storage.maintenance.orphans import find_orphan_files
from headwater.storage.maintenance.reachable import (
    branch_names,
    data_paths,
    delta_entries,
    produces_changelog,
)
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import ManifestFile, read_manifest, read_manifest_list
from headwater.storage.read.managed_blobs import pack_path, valued_rows
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_file
from headwater.storage.snapshot.expiry_notes import (
    first_whole,
    first_whole_changelog,
    is_expiring,
)
from headwater.storage.snapshot.files import read_snapshot_file, snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.table_statistics import read_statistics
from headwater.storage.snapshot.tag import read_tag_file, tag_names
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, Json

__all__ = ["Damage", "TableCheck", "check_table"]

MOST_DAMAGES = 1000
"""The number of damages that are listed; the others are only counted."""

_AT_ONCE = 4
_WAITING = 64
_ATTEMPTS = 3


@dataclass(frozen=True)
class Damage:
    """A file that is not as it has to be.

    Attributes:
        needed_by: The schema, snapshot, tag or changelog that needs it, and its branch.
        problem: A sentence that names the file.
        root: The URI of the file that leads to it; empty where the catalog does.
    """

    needed_by: str
    problem: str
    root: str


@dataclass
class TableCheck:
    """The outcome of a check.

    Attributes:
        damages: The damages, at most `MOST_DAMAGES`.
        damage_count: The number of them.
        warnings: Sentences about files that may have been lost, or deleted on purpose.
        feed_was_read: True if tags and consumers were compared with the change feed.
        schemas, snapshots, tags, changelogs, manifests, data_files, index_files: How many were
            looked at; a manifest is a list of files or a list of manifests.
        rows: The rows in the data files, changelog files and retractions included.
        unread: Files whose content this engine does not read; that they are there was checked.
        orphans: The files that nothing needs and that are older than a day; None when it is not
            known what is needed.
        orphan_bytes: Their bytes.
    """

    damages: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    warnings: list[str] = field(default_factory=list)
    feed_was_read: bool = False
    schemas: int = 0
    snapshots: int = 0
    tags: int = 0
    changelogs: int = 0
    manifests: int = 0
    data_files: int = 0
    index_files: int = 0
    rows: int = 0
    unread: int = 0
    orphans: int | None = None
    orphan_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """True if nothing is damaged."""
        return not self.damage_count


def check_table(
    storage: TableStorage,
    latest: Callable[[], Mapping[str, Snapshot]],
    history: Callable[[str], Mapping[int, Snapshot]],
    *,
    deep: bool = False,
    orphans_older_than_millis: int = 24 * 60 * 60 * 1000,
) -> TableCheck:
    """Check a table, whatever its branch.

    It may be written to meanwhile. What expires during the check is no damage.

    Args:
        storage: The table.
        latest: Gives the latest snapshots as the catalog has them, by their branches; none where
            the files alone decide.
        history: Gives the snapshots of a branch as the catalog has them, by their ids; none where
            the files alone decide.
        deep: Read all data, and not only what each file says of itself.
        orphans_older_than_millis: Younger files are not counted as orphans.

    Raises:
        Unsupported: The table has no snapshots.
        Unavailable: Storage does not answer.
    """
    found = TableCheck()
    for _ in range(_ATTEMPTS):
        with ThreadPoolExecutor(_AT_ONCE, "headwater-check") as pool:
            check = _Check(storage, latest, history, deep, pool)
            check.run()
        found = check.found
        files = storage.files
        gone = [
            each
            for each in found.damages
            if each.root and (not files.exists(each.root) or is_expiring(files, each.root))
        ]
        if not gone:
            break
        # Whatever led there has expired since; others may need the same files.
        found.damages = [each for each in found.damages if each not in gone]
        found.damage_count -= len(gone)
    try:
        orphans = find_orphan_files(storage, latest(), older_than_millis=orphans_older_than_millis)
    except (CorruptData, Unsupported):
        return found
    found.orphans = len(orphans)
    found.orphan_bytes = sum(file.size for file in orphans)
    return found


@dataclass(frozen=True)
class _Root:
    """Something that needs files: its name, and the URI of its own."""

    name: str
    path: str


class _Check:
    def __init__(
        self,
        storage: TableStorage,
        latest: Callable[[], Mapping[str, Snapshot]],
        history: Callable[[str], Mapping[int, Snapshot]],
        deep: bool,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.found = TableCheck()
        self._storage = storage
        self._now = latest
        self._latest = latest()
        self._history = history
        self._known: Mapping[int, Snapshot] = {}
        self._deep = deep
        self._pool = pool
        self._sizes = ListedSizes(storage.files)
        self._seen: set[str] = set()
        self._waiting: list[tuple[_Root, Future[int]]] = []

    def run(self) -> None:
        location = self._storage.layout.location
        branches = {MAIN_BRANCH, *self._latest, *branch_names(self._storage.files, location)}
        for name in sorted(branches):
            layout = TableLayout(location, name)
            self._branch(replace(self._storage, layout=layout, _schemas={}))
        self._take_answers(0)

    def _damage(self, root: _Root, problem: str) -> None:
        self.found.damage_count += 1
        if len(self.found.damages) < MOST_DAMAGES:
            self.found.damages.append(Damage(root.name, problem, root.path))

    def _try(self, root: _Root, work: Callable[[], object]) -> None:
        try:
            work()
        except CorruptData as error:
            self._damage(root, error.message)
        except Unsupported:
            self.found.unread += 1

    # Roots ------------------------------------------------------------------------------------

    def _branch(self, storage: TableStorage) -> None:
        layout, files, suffix = storage.layout, storage.files, ""
        if layout.branch != MAIN_BRANCH:
            suffix = f" of branch {layout.branch}"
        self._schemas(storage, suffix)
        self._known = self._history(layout.branch)
        line: list[int] = []
        ids = snapshot_file_ids(files, layout)
        whole = first_whole(files, layout, ids)
        for number in self._staying(ids, whole, "snapshots", suffix):
            root = _Root(f"snapshot {number}{suffix}", layout.snapshot(number))
            self._try(root, partial(self._snapshot, storage, root, number, line))
        self._pointer(storage, line, suffix)
        for name in tag_names(files, layout):
            root = _Root(f"tag {name}{suffix}", layout.tag(name))
            self._try(root, partial(self._tag, storage, root, name))
        whole = first_whole_changelog(files, layout)
        kept = self._staying(changelog_file_ids(files, layout), whole, "changelogs", suffix)
        for number in kept:
            root = _Root(f"changelog {number}{suffix}", layout.changelog(number))
            self._try(root, partial(self._changelog, storage, root, number))
        # Expiry takes the oldest first.
        self._holes(kept, "changelog", suffix, layout.changelog)
        self.found.warnings += lost_ends(files, layout)

    def _staying(self, ids: Sequence[int], whole: int, kind: str, suffix: str) -> Sequence[int]:
        """Those of some snapshots or changelogs that no expiry has begun to take."""
        going = [number for number in ids if number < whole]
        if going:
            self.found.warnings.append(
                f"{kind} {going[0]} to {going[-1]}{suffix} are expiring and may lack files; if "
                f"an expiry was stopped, expire {kind} once more"
            )
        return ids[len(going) :]

    def _schemas(self, storage: TableStorage, suffix: str) -> None:
        layout = storage.layout
        statuses = storage.files.list(layout.schema_directory)
        names = [status.name.removeprefix("schema-") for status in statuses]
        ids = sorted(int(name) for name in names if name.isdecimal())
        if not ids and (layout.branch == MAIN_BRANCH or layout.branch in self._now()):
            root = _Root(f"the table{suffix}", "")
            self._damage(root, f"{layout.schema_directory} holds no schema")
        for number in ids:
            root = _Root(f"schema {number}{suffix}", layout.schema(number))
            self._try(root, partial(self._schema, storage, root.path, number))

    def _schema(self, storage: TableStorage, path: str, number: int) -> None:
        try:
            schema = TableSchema.from_json(storage.files.read(path), path)
        except NotFound:
            return
        self.found.schemas += 1
        if schema.id != number:
            raise CorruptData(f"{path} holds schema {schema.id}, not {number}")

    def _pointer(self, storage: TableStorage, line: Sequence[int], suffix: str) -> None:
        """Compare the catalog's latest snapshot with what is there."""
        latest, layout = self._latest.get(storage.layout.branch), storage.layout
        self._holes(line, "snapshot", suffix, layout.snapshot)
        if latest is None:
            return
        path = layout.snapshot(latest.id)
        root = _Root(f"the catalog's latest snapshot{suffix}", self._any_schema(storage) or path)
        later = [number for number in line if number > latest.id]
        try:
            there = Snapshot.from_json(storage.files.read(path), path)
        except NotFound:
            if not self._moved(storage, latest):
                self._damage(root, f"{path} does not exist; run 'headwater reconcile'")
            return
        except CorruptData:
            return  # told of already
        if not _is_same(there, latest):
            if self._moved(storage, latest):
                return
            self._damage(root, f"{path} is not the catalog's; run 'headwater reconcile'")
        elif later and not self._knows(storage, later[-1]):
            path = layout.snapshot(later[0])
            self._damage(root, f"{path} is not known to it; run 'headwater reconcile'")

    def _holes(
        self, line: Sequence[int], kind: str, suffix: str, path: Callable[[int], str]
    ) -> None:
        """Tell of numbers that are missing between others."""
        for before, number in pairwise(line):
            if number != before + 1:
                root = _Root(f"{kind} {number}{suffix}", path(number))
                self._damage(root, f"{path(number - 1)} does not exist, though earlier ones do")

    def _knows(self, storage: TableStorage, number: int) -> bool:
        """True if the catalog's latest snapshot has moved on to a number during the check."""
        now = self._now().get(storage.layout.branch)
        return now is not None and now.id >= number

    def _moved(self, storage: TableStorage, latest: Snapshot) -> bool:
        """True if the catalog has another latest snapshot than when the check began."""
        now = self._now().get(storage.layout.branch)
        return now is None or not now.is_same_commit(latest)

    def _any_schema(self, storage: TableStorage) -> str | None:
        statuses = storage.files.list(storage.layout.schema_directory)
        return next((status.path for status in statuses), None)

    def _snapshot(self, storage: TableStorage, root: _Root, number: int, line: list[int]) -> None:
        snapshot = read_snapshot_file(storage.files, storage.layout, number)
        if snapshot is None:
            return  # expired since the listing
        self.found.snapshots += 1
        line.append(number)
        known = self._known.get(number)
        if known is not None and not _is_same(snapshot, known):
            # Another one may have come in its place since.
            known = self._history(storage.layout.branch).get(number)
            again = read_snapshot_file(storage.files, storage.layout, number)
            if again is None:
                return
            if known is not None and not _is_same(again, known):
                raise CorruptData(f"{root.path} is not as the catalog has it")
            snapshot = again
        schema = storage.layout.schema(snapshot.schema_id)
        if self._sizes.size(schema) is None and not storage.files.exists(schema):
            self._damage(root, f"{schema} does not exist")
        is_told = len(line) > 1 or self._is_told(storage, snapshot)
        self._lists(storage, root, snapshot, with_changelog=is_told)
        if len(line) == 1:
            self._entries(storage, root, live_entries(storage, snapshot, anew=True))
        else:
            self._added(storage, root, snapshot.delta_manifest_list)
        if is_told and snapshot.changelog_manifest_list is not None:
            self._added(storage, root, snapshot.changelog_manifest_list)
        self._indexes(storage, root, snapshot)

    def _is_told(self, storage: TableStorage, first: Snapshot) -> bool:
        """False if the first snapshot of a history has no changelog any more.

        A branch may begin with a tag, which keeps none, and a table may be forwarded to it.
        """
        if first.changelog_manifest_list is None:
            return True
        is_main = storage.layout.branch == MAIN_BRANCH
        entries = delta_entries(storage, first.changelog_manifest_list)
        if entries is None:
            return is_main
        paths = [data_paths(storage, entry)[0] for entry in entries]
        if not paths or any(self._sizes.size(path) is not None for path in paths):
            return True
        if is_main:
            self.found.warnings.append(
                f"snapshot {first.id}, the earliest, has no changelog files any more, as where a "
                "history begins with a tag; if this one does not, they were lost"
            )
        return False

    def _tag(self, storage: TableStorage, root: _Root, name: str) -> None:
        tag = read_tag_file(storage.files, storage.layout, name)
        if tag is None:
            return
        self.found.tags += 1
        known, found = self._known.get(tag.snapshot.id), tag.snapshot.document
        if known is not None and known.uuid == tag.snapshot.uuid:
            # Not all engines write the same fields.
            for key, value in known.document.items():
                if found.get(key, value) != value:
                    raise CorruptData(f"{root.path} has another '{key}' than snapshot {known.id}")
        self._lists(storage, root, tag.snapshot, with_changelog=False)
        self._entries(storage, root, live_entries(storage, tag.snapshot, anew=True))
        self._indexes(storage, root, tag.snapshot)

    def _changelog(self, storage: TableStorage, root: _Root, number: int) -> None:
        changelog = read_changelog_file(storage.files, storage.layout, number)
        if changelog is None:
            return
        self.found.changelogs += 1
        if changelog.changelog_manifest_list is not None:
            self._added(storage, root, changelog.changelog_manifest_list)
        elif not produces_changelog(storage) and changelog.commit_kind is CommitKind.APPEND:
            self._added(storage, root, changelog.delta_manifest_list)

    # Metadata ---------------------------------------------------------------------------------

    def _lists(
        self, storage: TableStorage, root: _Root, snapshot: Snapshot, *, with_changelog: bool
    ) -> None:
        """Read a snapshot's manifest lists and manifests; each of them once."""
        names: list[tuple[str | None, Json]] = [
            (snapshot.base_manifest_list, snapshot.document.get("baseManifestListSize")),
            (snapshot.delta_manifest_list, snapshot.document.get("deltaManifestListSize")),
        ]
        if with_changelog:
            size = snapshot.document.get("changelogManifestListSize")
            names.append((snapshot.changelog_manifest_list, size))
        for name, size in names:
            if name is None or not self._is_new(storage.layout.manifest(name)):
                continue
            self.found.manifests += 1
            known = size if isinstance(size, int) else None
            for manifest in read_manifest_list(storage, name, size=known):
                self._manifest(storage, root, manifest)

    def _manifest(self, storage: TableStorage, root: _Root, manifest: ManifestFile) -> None:
        if not self._is_new(storage.layout.manifest(manifest.file_name)):
            return
        self.found.manifests += 1
        self._try(root, partial(read_manifest, storage, manifest.file_name, expected=manifest))

    def _indexes(self, storage: TableStorage, root: _Root, snapshot: Snapshot) -> None:
        if snapshot.statistics is not None and self._is_new(
            storage.layout.statistics(snapshot.statistics)
        ):
            self._try(root, partial(read_statistics, storage, snapshot))
        name = snapshot.index_manifest
        if name is None or not self._is_new(storage.layout.manifest(name)):
            return
        self.found.manifests += 1
        for entry in read_index_manifest(storage, name):
            path = index_file_path(storage, entry.partition, entry.bucket, entry.index_file)
            if self._is_new(path):
                self.found.index_files += 1
                self._try(root, partial(self._index_file, storage, root, entry, path))

    def _index_file(
        self, storage: TableStorage, root: _Root, entry: IndexManifestEntry, path: str
    ) -> None:
        if not self._is_there(root, path, entry.index_file.file_size):
            return
        match entry.index_file.index_type:
            case "DELETION_VECTORS":
                read_deletion_vectors(storage, entry.partition, entry.bucket, entry.index_file)
            case "HASH":
                read_hash_index(storage, entry)
            case _:
                self.found.unread += 1

    # Data -------------------------------------------------------------------------------------

    def _added(self, storage: TableStorage, root: _Root, manifest_list: str) -> None:
        for manifest in read_manifest_list(storage, manifest_list):
            entries = read_manifest(storage, manifest.file_name, expected=manifest)
            self._entries(storage, root, entries)

    def _entries(
        self, storage: TableStorage, root: _Root, entries: Iterable[ManifestEntry]
    ) -> None:
        for entry in entries:
            if entry.kind is FileKind.DELETE:
                continue
            directory = bucket_directory(storage, entry.partition, entry.bucket)
            path, *belonging = entry.file.paths(directory)
            if not self._is_new(path):
                continue
            self.found.data_files += 1
            is_there = self._is_there(root, path, entry.file.file_size)
            for other in belonging:
                is_there = self._is_there(root, other, None) and is_there
                if is_there and other.endswith(REFERENCES_SUFFIX):
                    self._try(root, partial(self._packs, storage, root, other))
            if is_there:
                work = partial(_read_file, storage, entry, path, self._deep)
                self._waiting.append((root, self._pool.submit(work)))
                self._take_answers(_WAITING)

    def _packs(self, storage: TableStorage, root: _Root, path: str) -> None:
        """Look for the packs of BLOBs that a data file's rows refer to."""
        for uri in parsed_references(storage.files.read(path), path):
            pack = pack_path(storage, uri)
            if pack is not None and self._is_new(pack):
                self._is_there(root, pack, None)

    def _take_answers(self, most_waiting: int) -> None:
        while len(self._waiting) > most_waiting:
            root, answer = self._waiting.pop(0)
            self._try(root, partial(self._count, answer))

    def _count(self, answer: Future[int]) -> None:
        self.found.rows += answer.result()

    def _is_new(self, path: str) -> bool:
        if path in self._seen:
            return False
        self._seen.add(path)
        return True

    def _is_there(self, root: _Root, path: str, expected: int | None) -> bool:
        size = self._sizes.size(path)
        if size is None:
            self._damage(root, f"{path} does not exist")
        elif expected is not None and size != expected:
            self._damage(root, f"{path} has {size} bytes where {expected} were written")
        else:
            return True
        return False


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return bool(json.loads(one.to_json()) == json.loads(other.to_json()))


def _read_file(storage: TableStorage, entry: ManifestEntry, path: str, deep: bool) -> int:
    """The rows of a data file, all of whose pages are read if `deep`.

    Raises:
        CorruptData: It cannot be read, or has other rows or indexes than the manifest says.
        Unsupported: Headwater does not read such a file.
    """
    file = entry.file
    if path.endswith(BLOB_SUFFIX):
        return check_blobs(storage.files, path, file.file_size, file.row_count, deep=deep)
    schema = storage.schema_by_id(file.schema_id)
    reader = format_of_file(path).reader(
        storage.files, path, row_count=file.row_count, options=schema.table_options
    )
    fields: tuple[DataField, ...] = ()
    if deep:
        reader.check()
        thin = schema.table_options.thin_mode
        fields = data_file_fields(schema, thin=thin, tracked=file.stores_row_ids)
    if file.write_cols is not None:
        fields = tuple(each for each in fields if each.name in file.write_cols)
    blobs = managed_blob_columns(schema)
    read = reader.batches(fields)
    if deep and blobs:
        read = valued_rows(storage, read, blobs)
    rows = sum(int(batch.num_rows) for batch in read)
    if rows != file.row_count:
        raise CorruptData(f"{path} has {rows} rows where {file.row_count} were written")
    file_indexes_of(storage.files, file, path)
    return rows
