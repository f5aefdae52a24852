"""The files that snapshots refer to, which must stay when others go.

A table has a history of snapshots for each branch, and tags that keep single snapshots of it.
Within a history a file is added once and deleted once, so that a file which both an early and a
late snapshot hold is held by all between them: the earliest snapshot of a history says what the
history needs of older files.

What is needed is read in full, or not at all: a list that is gone is an error, never a list of
nothing. Only the changelog of the snapshot with which a history begins may be gone, as the tag that
it began with kept none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.index.index_file import index_file_path
from headwater.storage.index.manifest import read_index_manifest
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.options import ChangelogProducer
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.changelog import read_changelog_files
from headwater.storage.snapshot.files import read_history, snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import read_every_tag
from headwater.storage.table_storage import TableStorage

__all__ = [
    "Missing",
    "OtherBranches",
    "branch_names",
    "changelog_paths",
    "data_paths",
    "delta_entries",
    "index_paths",
    "live_paths",
    "manifest_names",
    "manifest_names_of_changelog",
    "needed_index_paths",
    "other_branches",
    "produces_changelog",
]


class Missing(Enum):
    """What to do about lists of files that are gone.

    Attributes:
        FAIL: They are needed: raise CorruptData.
        SKIP_CHANGELOG: Those of the changelog may be gone, the others are needed.
        SKIP: They are about to be deleted anyway: pass over them.
    """

    FAIL = auto()
    SKIP_CHANGELOG = auto()
    SKIP = auto()


def data_paths(storage: TableStorage, entry: ManifestEntry) -> list[str]:
    """The URIs of an entry's file and of the files that belong to it."""
    directory = bucket_directory(storage, entry.partition, entry.bucket)
    return list(entry.file.paths(directory))


def live_paths(storage: TableStorage, snapshot: Snapshot) -> set[str]:
    """The URIs of all data files that a snapshot holds.

    Raises:
        CorruptData: A manifest is missing or malformed.
    """
    entries = live_entries(storage, snapshot, anew=True)
    return {path for entry in entries for path in data_paths(storage, entry)}


def delta_entries(storage: TableStorage, manifest_list: str) -> list[ManifestEntry] | None:
    """The entries of a manifest list's manifests, in order; None when one of the files is gone.

    Raises:
        CorruptData: A file is there but malformed.
    """
    entries: list[ManifestEntry] = []
    try:
        for manifest in read_manifest_list(storage, manifest_list):
            entries += read_manifest(storage, manifest.file_name, expected=manifest)
    except CorruptData as error:
        if isinstance(error.__cause__, NotFound):
            return None
        raise
    return entries


def manifest_names(
    storage: TableStorage,
    snapshot: Snapshot,
    *,
    rows: bool = True,
    changelog: bool = True,
    missing: Missing = Missing.FAIL,
) -> list[str]:
    """Names of a snapshot's manifests and manifest lists.

    Args:
        storage: The table.
        snapshot: The snapshot.
        rows: Whether to name those that say what its rows are, and which files it changed.
        changelog: Whether to name those of its changelog files.
        missing: What to do about manifest lists that are gone.

    Raises:
        CorruptData: A manifest list is malformed, or gone and must not be.
    """
    names: list[str] = []
    for name, may_be_gone in _manifest_lists(snapshot, rows, changelog, missing):
        try:
            names += [manifest.file_name for manifest in read_manifest_list(storage, name)]
        except CorruptData as error:
            if not (may_be_gone and isinstance(error.__cause__, NotFound)):
                raise
        names.append(name)
    return names


def _manifest_lists(
    snapshot: Snapshot, rows: bool, changelog: bool, missing: Missing
) -> list[tuple[str, bool]]:
    """The manifest lists of a snapshot, and whether each may be gone."""
    lists: list[tuple[str, bool]] = []
    if rows:
        may_be_gone = missing is Missing.SKIP
        lists.append((snapshot.base_manifest_list, may_be_gone))
        lists.append((snapshot.delta_manifest_list, may_be_gone))
    if changelog and snapshot.changelog_manifest_list is not None:
        lists.append((snapshot.changelog_manifest_list, missing is not Missing.FAIL))
    return lists


def index_paths(storage: TableStorage, snapshot: Snapshot) -> list[str] | None:
    """The URIs of a snapshot's index files; None when its index manifest is gone.

    Raises:
        CorruptData: The index manifest is there but malformed.
    """
    if snapshot.index_manifest is None:
        return []
    try:
        entries = read_index_manifest(storage, snapshot.index_manifest)
    except CorruptData as error:
        if isinstance(error.__cause__, NotFound):
            return None
        raise
    return [
        index_file_path(storage, entry.partition, entry.bucket, entry.index_file)
        for entry in entries
    ]


def changelog_paths(
    storage: TableStorage, changelog: Snapshot, *, missing: Missing = Missing.FAIL
) -> dict[str, int]:
    """The sizes of the files that hold a changelog, by URI.

    These are the changelog files, or in a table that has none, the files that the commit added.

    Args:
        storage: The table.
        changelog: The snapshot whose changes they are.
        missing: What to do about manifests that are gone.

    Raises:
        CorruptData: A manifest is malformed, or gone and must not be.
    """
    manifest_list = changelog.changelog_manifest_list
    may_be_gone = missing is not Missing.FAIL
    if manifest_list is None:
        if produces_changelog(storage) or not _adds_changes(storage, changelog):
            return {}
        manifest_list, may_be_gone = changelog.delta_manifest_list, missing is Missing.SKIP
    entries = delta_entries(storage, manifest_list)
    if entries is None and not may_be_gone:
        raise _lacks(storage, changelog, "a manifest of its changes")
    return {
        path: entry.file.file_size
        for entry in entries or ()
        if entry.kind is FileKind.ADD
        for path in data_paths(storage, entry)
    }


def _adds_changes(storage: TableStorage, snapshot: Snapshot) -> bool:
    """Whether a stream may read the files that a commit added."""
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return not storage.schema.primary_keys
    return snapshot.commit_kind is CommitKind.APPEND


def produces_changelog(storage: TableStorage) -> bool:
    """Whether changelog files hold what a table's commits changed, and not the rows they added."""
    return storage.schema.table_options.changelog_producer is not ChangelogProducer.NONE


@dataclass
class OtherBranches:
    """The files that the other branches of a table, and their tags, refer to.

    Attributes:
        data: URIs of data files; perhaps some more than needed, never less.
        manifests: Names of manifests, manifest lists and index manifests.
        indexes: URIs of index files.
        statistics: Names of statistics files.
    """

    data: set[str] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)
    statistics: set[str] = field(default_factory=set)

    def add(self, others: OtherBranches) -> None:
        """Add the files of others to these."""
        self.data |= others.data
        self.manifests |= others.manifests
        self.indexes |= others.indexes
        self.statistics |= others.statistics


def other_branches(storage: TableStorage) -> OtherBranches:
    """The files that the branches beside the storage's own need.

    Raises:
        CorruptData: A branch cannot be read, so that nothing may be deleted.
    """
    needed = OtherBranches()
    beside = {MAIN_BRANCH, *branch_names(storage.files, storage.layout.location)}
    for name in sorted(beside - {storage.layout.branch}):
        layout = replace(storage.layout, branch=name)
        branch = replace(storage, layout=layout, _schemas={})
        needed.add(_needs_of_branch(branch, needed.manifests))
    return needed


def _needs_of_branch(branch: TableStorage, known: Collection[str]) -> OtherBranches:
    """The files that one branch and its tags refer to; indexes of known manifests are left out."""
    needed, layout = OtherBranches(), branch.layout
    ids = snapshot_file_ids(branch.files, layout)
    history = read_history(branch.files, layout, ids[0], ids[-1]) if ids else []
    tagged = [tag.snapshot for tag in read_every_tag(branch.files, layout)]
    for position, snapshot in enumerate([*history, *tagged]):
        missing = Missing.FAIL
        if position == 0 or position >= len(history):
            needed.data |= live_paths(branch, snapshot)
            missing = Missing.SKIP_CHANGELOG
        else:
            needed.data |= _added(branch, snapshot)
        if position < len(history):
            # Tags keep no changelogs.
            needed.data |= changelog_paths(branch, snapshot, missing=missing).keys()
        needed.manifests.update(manifest_names(branch, snapshot, missing=missing))
        index = snapshot.index_manifest
        if index is not None and index not in needed.manifests and index not in known:
            needed.manifests.add(index)
            needed.indexes.update(needed_index_paths(branch, snapshot))
        if snapshot.statistics is not None:
            needed.statistics.add(snapshot.statistics)
    rows = not produces_changelog(branch)
    for changelog in read_changelog_files(branch.files, layout):
        needed.data |= changelog_paths(branch, changelog).keys()
        needed.manifests.update(manifest_names_of_changelog(branch, changelog, rows=rows))
    return needed


def manifest_names_of_changelog(
    storage: TableStorage, changelog: Snapshot, *, rows: bool
) -> list[str]:
    """Names of the manifests and manifest lists of a changelog that outlived its snapshot.

    The list of what its snapshot held goes with the snapshot.

    Args:
        storage: The table.
        changelog: The changelog.
        rows: Whether the changes are the files that the commit added.
    """
    names = manifest_names(storage, changelog, rows=False)
    if rows:
        names += manifest_names(storage, changelog, changelog=False, missing=Missing.SKIP)
    return names


def needed_index_paths(storage: TableStorage, snapshot: Snapshot) -> list[str]:
    """The URIs of the index files of a snapshot that stays.

    Raises:
        CorruptData: Its index manifest is missing or malformed, so that nothing may be deleted.
    """
    paths = index_paths(storage, snapshot)
    if paths is None:
        raise _lacks(storage, snapshot, "its index manifest")
    return paths


def branch_names(files: FileAccess, location: str) -> set[str]:
    """The names of a table's branches that have files, without the main one."""
    prefix = f"{location}/branch/branch-"
    inner = (
        status.path.removeprefix(prefix)
        for status in files.walk(f"{location}/branch")
        if status.path.startswith(prefix)
    )
    return {path.partition("/")[0] for path in inner if "/" in path}


def _added(storage: TableStorage, snapshot: Snapshot) -> set[str]:
    entries = delta_entries(storage, snapshot.delta_manifest_list)
    if entries is None:
        raise _lacks(storage, snapshot, "a manifest")
    return added_paths(storage, entries)


def _lacks(storage: TableStorage, snapshot: Snapshot, what: str) -> CorruptData:
    error = CorruptData(
        f"table {storage.name}: snapshot {snapshot.id} of branch {storage.layout.branch} lacks "
        f"{what}, so it is not known which files it needs"
    )
    error.__cause__ = NotFound(f"{what} of snapshot {snapshot.id} does not exist")
    return error


def added_paths(storage: TableStorage, entries: Iterable[ManifestEntry]) -> set[str]:
    """The URIs of the files that entries add."""
    added = (entry for entry in entries if entry.kind is FileKind.ADD)
    return {path for entry in added for path in data_paths(storage, entry)}
