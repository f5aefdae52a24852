"""The files that snapshots refer to, which must stay when others go.

A table's history is a line of snapshots for each branch, and tags that keep single snapshots of
it. Within a line a file is added once and deleted once, so that a file which both an early and a
late snapshot hold is held by all between them: to know what a line needs of older files, its
earliest snapshot is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.index.index_file import index_file_path
from headwater.storage.index.manifest import read_index_manifest
from headwater.storage.maintenance.held_snapshots import while_nothing_expires
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.options import ChangelogProducer
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.changelog import read_changelog_files
from headwater.storage.snapshot.expiry_notes import first_whole
from headwater.storage.snapshot.files import read_snapshot_file, snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = [
    "OtherBranches",
    "branch_names",
    "changelog_paths",
    "data_paths",
    "delta_entries",
    "index_paths",
    "live_paths",
    "manifest_names",
    "needed_index_paths",
    "other_branches",
    "produces_changelog",
]


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
    storage: TableStorage, snapshot: Snapshot, *, rows: bool = True, changelog: bool = True
) -> Iterator[str]:
    """Names of a snapshot's manifests and manifest lists, those of lists that are gone left out.

    Args:
        storage: The table.
        snapshot: The snapshot.
        rows: With those that say what its rows are, and which files it changed.
        changelog: With those of its changelog files.
    """
    lists: list[str | None] = []
    if rows:
        lists += [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    if changelog:
        lists.append(snapshot.changelog_manifest_list)
    for name in lists:
        if name is None:
            continue
        try:
            yield from [manifest.file_name for manifest in read_manifest_list(storage, name)]
        except CorruptData as error:
            if not isinstance(error.__cause__, NotFound):
                raise
        yield name


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


def changelog_paths(storage: TableStorage, changelog: Snapshot) -> dict[str, int]:
    """The sizes of the files that hold a changelog, by URI.

    These are the changelog files, or in a table that has none, the files that the commit added;
    none when a manifest is gone.

    Raises:
        CorruptData: A manifest is malformed.
    """
    manifest_list = changelog.changelog_manifest_list
    if manifest_list is None:
        if produces_changelog(storage) or not _adds_changes(storage, changelog):
            return {}
        manifest_list = changelog.delta_manifest_list
    return {
        path: entry.file.file_size
        for entry in delta_entries(storage, manifest_list) or ()
        if entry.kind is FileKind.ADD
        for path in data_paths(storage, entry)
    }


def _adds_changes(storage: TableStorage, snapshot: Snapshot) -> bool:
    """True if a stream may read the files that a commit added."""
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        return not storage.schema.primary_keys
    return snapshot.commit_kind is CommitKind.APPEND


def produces_changelog(storage: TableStorage) -> bool:
    """True if changelog files tell what a table's commits changed, and not the rows they added."""
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
    found = OtherBranches()
    beside = {MAIN_BRANCH, *branch_names(storage.files, storage.layout.location)}
    for name in sorted(beside - {storage.layout.branch}):
        layout = replace(storage.layout, branch=name)
        branch = replace(storage, layout=layout, _schemas={})
        needs = partial(_needs_of_branch, branch, found.manifests)
        found.add(while_nothing_expires(storage.files, layout, needs))
    return found


def _needs_of_branch(branch: TableStorage, known: Collection[str]) -> OtherBranches:
    """The files that one branch and its tags refer to; indexes of known manifests are left out."""
    found, layout = OtherBranches(), branch.layout
    ids = snapshot_file_ids(branch.files, layout)
    whole = first_whole(branch.files, layout, ids)
    # Those before lack files, or do not, when an expiry was stopped.
    history = [
        one
        for number in ids
        if (one := read_snapshot_file(branch.files, layout, number)) is not None
        and (number >= whole or _is_whole(branch, one))
    ]
    tagged = [tag.snapshot for tag in list_tag_files(branch.files, layout)]
    for position, snapshot in enumerate([*history, *tagged]):
        if position == 0 or position >= len(history):
            found.data |= live_paths(branch, snapshot)
        else:
            found.data |= _added(branch, snapshot)
        if position < len(history):
            # Tags keep no changelogs.
            found.data |= changelog_paths(branch, snapshot).keys()
        found.manifests.update(manifest_names(branch, snapshot))
        index = snapshot.index_manifest
        if index is not None and index not in found.manifests and index not in known:
            found.manifests.add(index)
            found.indexes.update(needed_index_paths(branch, snapshot))
        if snapshot.statistics is not None:
            found.statistics.add(snapshot.statistics)
    for changelog in read_changelog_files(branch.files, layout):
        found.data |= changelog_paths(branch, changelog).keys()
        found.manifests.update(manifest_names(branch, changelog))
    return found


def needed_index_paths(storage: TableStorage, snapshot: Snapshot) -> list[str]:
    """The URIs of the index files of a snapshot that stays.

    Raises:
        CorruptData: Its index manifest is missing or malformed, so that nothing may be deleted.
    """
    paths = index_paths(storage, snapshot)
    if paths is None:
        raise CorruptData(
            f"table {storage.name}: snapshot {snapshot.id} of branch {storage.layout.branch} lacks "
            "its index manifest, so it is not known which index files it needs"
        )
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


def _is_whole(storage: TableStorage, snapshot: Snapshot) -> bool:
    """True if all that says which files a snapshot needs is there."""
    try:
        live_paths(storage, snapshot)
    except CorruptData as error:
        if isinstance(error.__cause__, NotFound):
            return False
        raise
    lists_changes = delta_entries(storage, snapshot.delta_manifest_list) is not None
    return lists_changes and index_paths(storage, snapshot) is not None


def _added(storage: TableStorage, snapshot: Snapshot) -> set[str]:
    entries = delta_entries(storage, snapshot.delta_manifest_list)
    if entries is None:
        raise CorruptData(
            f"table {storage.name}: snapshot {snapshot.id} of branch {storage.layout.branch} "
            "lacks a manifest, so it is not known which files it needs"
        )
    return added_paths(storage, entries)


def added_paths(storage: TableStorage, entries: Iterable[ManifestEntry]) -> set[str]:
    """The URIs of the files that entries add."""
    added = (entry for entry in entries if entry.kind is FileKind.ADD)
    return {path for entry in added for path in data_paths(storage, entry)}
