"""The files that nothing refers to any more once snapshots, changelogs or a tag are gone.

Only the snapshots before a commit hold what it deleted, so that looking at the commits of those
that go is enough, and at the neighbours that stay. What goes may lack files, as an expiry of
another engine that was killed leaves it; what stays must not.

Source: ``SnapshotDeletion.java``, ``ChangelogDeletion.java``, ``TagDeletion.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.maintenance.reachable import (
    Missing,
    OtherBranches,
    added_paths,
    changelog_paths,
    data_paths,
    delta_entries,
    index_paths,
    live_paths,
    manifest_names,
    manifest_names_of_changelog,
    needed_index_paths,
    other_branches,
    produces_changelog,
)
from headwater.storage.manifest.data_file import FileKind, FileSource
from headwater.storage.snapshot.changelog import (
    read_changelog_files,
)
from headwater.storage.snapshot.files import (
    expired_meanwhile,
    read_history,
    read_snapshot_file,
    snapshot_file_ids,
)
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import Tag, read_every_tag
from headwater.storage.table_storage import TableStorage

__all__ = ["Going", "Unneeded", "collect_unneeded", "unneeded_without_tag"]


@dataclass
class Unneeded:
    """Files that nothing refers to any more.

    Attributes:
        data: Sizes of the data files, by URI.
        metadata: URIs of manifests, manifest lists, index files and statistics.
    """

    data: dict[str, int] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """The URIs of all of them."""
        return [*self.data, *self.metadata]

    def add_manifests(self, storage: TableStorage, names: Iterable[str], needed: set[str]) -> None:
        """Add manifests and manifest lists that are not needed; they are in `needed` then."""
        for name in names:
            if name not in needed:
                needed.add(name)
                self.metadata.append(storage.layout.manifest(name))


@dataclass(frozen=True)
class Going:
    """The snapshots and changelogs that an expiry removes.

    Attributes:
        snapshots: The snapshots that go, oldest first.
        kept: The first snapshot that stays.
        changelogs: The changelogs that go and whose snapshots had gone before, oldest first.
        first_changelog: The first changelog that stays; `kept`'s id, if none does.
        neighbour: That changelog; None if none stays.
    """

    snapshots: Sequence[Snapshot]
    kept: Snapshot
    changelogs: Sequence[Snapshot] = ()
    first_changelog: int = 0
    neighbour: Snapshot | None = None

    @property
    def changelogs_stay(self) -> bool:
        """Whether any snapshot that goes leaves a changelog."""
        return self.first_changelog < self.kept.id

    @property
    def without_changelog(self) -> Iterator[Snapshot]:
        """Everything of which nothing is left, oldest first."""
        yield from self.changelogs
        yield from (one for one in self.snapshots if one.id < self.first_changelog)


def collect_unneeded(storage: TableStorage, going: Going, latest: Snapshot) -> Unneeded:
    """Everything that only what goes refers to."""
    tags = _by_id(read_every_tag(storage.files, storage.layout))
    elsewhere = other_branches(storage)
    unneeded = Unneeded()
    _collect_data(storage, going, tags, latest, unneeded)
    for snapshot in going.without_changelog:
        if snapshot.changelog_manifest_list is not None:
            unneeded.data |= changelog_paths(storage, snapshot, missing=Missing.SKIP)
    for path in elsewhere.data & unneeded.data.keys():
        del unneeded.data[path]
    first = min(one.id for one in [*going.changelogs, *going.snapshots])
    near = bisect_right([tag.id for tag in tags], first) - 1
    between = [tag for tag in tags[max(near, 0) :] if tag.id < going.kept.id]
    staying = [going.kept, *between]
    _collect_metadata(storage, going, staying, elsewhere, unneeded)
    _collect_indexes(storage, going.snapshots, staying, latest, elsewhere, unneeded)
    return unneeded


def _deletions(
    storage: TableStorage, going: Going
) -> Iterator[tuple[Snapshot, tuple[FileSource, ...]]]:
    """The commits whose deleted files go, oldest first, and the files' sources that are meant.

    What a snapshot deleted was held by those before it alone. But without changelog files a
    changelog is the files that were added, until the changelog of the commit goes that deleted
    them.
    """
    every = (FileSource.APPEND, FileSource.COMPACT)
    snapshots = [*going.snapshots, going.kept]
    if produces_changelog(storage):
        yield from ((snapshot, every) for snapshot in snapshots[1:])
        return
    yield from ((changelog, (FileSource.APPEND,)) for changelog in going.changelogs)
    for at, snapshot in enumerate(snapshots):
        are_gone = not going.changelogs_stay or snapshot.id < going.first_changelog
        if at > 0:
            yield snapshot, every if are_gone else (FileSource.COMPACT,)
        elif are_gone and going.changelogs:
            # The expiry before took the others.
            yield snapshot, (FileSource.APPEND,)


def _collect_data(
    storage: TableStorage,
    going: Going,
    tags: Sequence[Snapshot],
    latest: Snapshot,
    unneeded: Unneeded,
) -> None:
    """Files that the commits deleted: those before them alone held such files."""
    whole = True
    tag_ids = [tag.id for tag in tags]
    # A file that a tag holds and this snapshot deleted is held by the last tag before it.
    tagged: dict[int, set[str]] = {}
    for snapshot, sources in _deletions(storage, going):
        entries = delta_entries(storage, snapshot.delta_manifest_list)
        if entries is None:
            # Another engine's expiry that was killed: it had deleted the data files before.
            whole = False
            continue
        deleted: dict[str, int] = {}
        for entry in entries:
            # A file without a source was written before there were any.
            is_meant = (entry.file.file_source or FileSource.APPEND) in sources
            for path in data_paths(storage, entry):
                # A compaction may delete a file on one level and add it on another, and a
                # rollback may bring a deleted file back.
                if entry.kind is FileKind.ADD:
                    deleted.pop(path, None)
                    unneeded.data.pop(path, None)
                elif is_meant:
                    deleted[path] = entry.file.file_size
        at = bisect_left(tag_ids, snapshot.id) - 1
        if deleted and at >= 0 and at not in tagged:
            tagged[at] = live_paths(storage, tags[at])
        needed = tagged.get(at, set())
        unneeded.data |= {path: size for path, size in deleted.items() if path not in needed}
    if not unneeded.data:
        return
    needed = _brought_back(storage, going, latest)
    if not whole:
        needed |= live_paths(storage, going.kept)
    for path in needed & unneeded.data.keys():
        del unneeded.data[path]


def _brought_back(storage: TableStorage, going: Going, latest: Snapshot) -> set[str]:
    """Files that overwrites after those that go added: a rollback adds old ones."""
    history = read_history(storage.files, storage.layout, going.kept.id, latest.id)
    paths = _added_by_overwrites(storage, history)
    if going.changelogs_stay and not produces_changelog(storage):
        staying = read_changelog_files(storage.files, storage.layout)
        for changelog in [*staying, *going.snapshots]:
            is_overwrite = changelog.commit_kind is CommitKind.OVERWRITE
            if going.first_changelog <= changelog.id and is_overwrite:
                paths |= changelog_paths(storage, changelog).keys()
    return paths


def _added_by_overwrites(storage: TableStorage, snapshots: Iterable[Snapshot]) -> set[str]:
    paths: set[str] = set()
    for snapshot in snapshots:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            entries = delta_entries(storage, snapshot.delta_manifest_list)
            if entries is None:
                raise expired_meanwhile(storage.layout.manifest(snapshot.delta_manifest_list))
            paths |= added_paths(storage, entries)
    return paths


def _collect_metadata(
    storage: TableStorage,
    going: Going,
    staying: Sequence[Snapshot],
    elsewhere: OtherBranches,
    unneeded: Unneeded,
) -> None:
    has_changelog_files = produces_changelog(storage)
    needed = set(elsewhere.manifests)
    statistics = {snapshot.statistics for snapshot in staying} | elsewhere.statistics
    for snapshot in staying:
        # Tags keep no changelogs, and a history may begin with a tag.
        needed.update(manifest_names(storage, snapshot, missing=Missing.SKIP_CHANGELOG))
    rows = not has_changelog_files
    if going.neighbour is not None:
        # The first changelog that stays has all that later ones share with those that go.
        needed.update(manifest_names_of_changelog(storage, going.neighbour, rows=rows))
    for changelog in going.changelogs:
        names = manifest_names(storage, changelog, rows=rows, missing=Missing.SKIP)
        unneeded.add_manifests(storage, names, needed)
    for snapshot in going.snapshots:
        is_gone = snapshot.id < going.first_changelog
        names = manifest_names(
            storage,
            snapshot,
            rows=is_gone or has_changelog_files,
            changelog=is_gone,
            missing=Missing.SKIP,
        )
        unneeded.add_manifests(storage, names, needed)
        if snapshot.statistics is not None and snapshot.statistics not in statistics:
            statistics.add(snapshot.statistics)
            unneeded.metadata.append(storage.layout.statistics(snapshot.statistics))


def _collect_indexes(
    storage: TableStorage,
    going: Sequence[Snapshot],
    staying: Sequence[Snapshot],
    latest: Snapshot | None,
    elsewhere: OtherBranches,
    unneeded: Unneeded,
) -> None:
    """Index files and index manifests that only the snapshots that go name.

    Source: ``SnapshotDeletion.cleanUnusedIndexManifests``.
    """
    manifests = {snapshot.index_manifest for snapshot in staying}
    old = {
        snapshot.index_manifest: snapshot
        for snapshot in going
        if snapshot.index_manifest is not None
    }
    kept = manifests | elsewhere.manifests
    unused = {name: snapshot for name, snapshot in old.items() if name not in kept}
    if not unused:
        return
    needed = set(elsewhere.indexes)
    later: list[Snapshot] = []
    if latest is not None and staying:
        first = max(snapshot.id for snapshot in staying) + 1
        later = read_history(storage.files, storage.layout, first, latest.id)
    # A rollback brings old index files back, with an overwrite.
    brought_back = [snapshot for snapshot in later if snapshot.commit_kind is CommitKind.OVERWRITE]
    named = {snapshot.index_manifest: snapshot for snapshot in [*staying, *brought_back]}
    for snapshot in named.values():
        manifests.add(snapshot.index_manifest)
        needed.update(needed_index_paths(storage, snapshot))
    for name, snapshot in unused.items():
        if name in manifests:
            continue
        for path in index_paths(storage, snapshot) or ():
            if path not in needed:
                needed.add(path)
                unneeded.metadata.append(path)
        unneeded.metadata.append(storage.layout.manifest(name))


def _by_id(tags: Iterable[Tag]) -> list[Snapshot]:
    return sorted((tag.snapshot for tag in tags), key=lambda snapshot: snapshot.id)


def _following(storage: TableStorage, tagged: Snapshot) -> list[Snapshot]:
    """The first snapshot after a tag's, as a list of one; of none without any."""
    for number in snapshot_file_ids(storage.files, storage.layout):
        if number > tagged.id:
            return read_history(storage.files, storage.layout, number, number)
    return []


def unneeded_without_tag(
    storage: TableStorage, tagged: Snapshot, latest: Snapshot | None, *, tag: str | None
) -> Unneeded:
    """The files that only a tag keeps.

    Args:
        storage: The table.
        tagged: The snapshot that the tag names, or named.
        latest: The table's latest snapshot.
        tag: The tag, if it is still there.

    Returns:
        No files while the snapshot itself or another tag of it exists.

    Raises:
        CorruptData: A tag, a branch or a manifest cannot be read.
    """
    if latest is not None and latest.is_same_commit(tagged):
        # A rollback made it the latest, and its file may be yet to come.
        return Unneeded()
    if read_snapshot_file(storage.files, storage.layout, tagged.id) is not None:
        return Unneeded()
    every = read_every_tag(storage.files, storage.layout)
    tags = _by_id(other for other in every if other.name != tag)
    if any(other.id == tagged.id for other in tags):
        return Unneeded()
    try:
        live = live_paths(storage, tagged)
    except CorruptData as error:
        if not isinstance(error.__cause__, NotFound):
            raise
        # Its snapshot had expired before the tag held it: what is left of it is orphans.
        return Unneeded()
    at = bisect_left([other.id for other in tags], tagged.id)
    # Between two neighbours that both lack a file, nothing else can hold it.
    neighbours = [*tags[max(at - 1, 0) : at + 1], *_following(storage, tagged)]
    changelogs = read_changelog_files(storage.files, storage.layout)
    elsewhere = other_branches(storage)
    unneeded = Unneeded(dict.fromkeys(live, 0))
    needed = elsewhere.data
    for snapshot in neighbours:
        needed |= live_paths(storage, snapshot)
    if neighbours and latest is not None:
        history = read_history(storage.files, storage.layout, neighbours[-1].id + 1, latest.id)
        needed |= _added_by_overwrites(storage, history)
    manifests = set(elsewhere.manifests)
    for changelog in changelogs:
        # Without changelog files, a changelog is the files that its commit added.
        needed |= changelog_paths(storage, changelog).keys()
        rows = not produces_changelog(storage)
        manifests.update(manifest_names_of_changelog(storage, changelog, rows=rows))
    for path in needed & unneeded.data.keys():
        del unneeded.data[path]
    _collect_metadata(
        storage,
        Going([tagged], tagged, first_changelog=tagged.id + 1),
        neighbours,
        OtherBranches(manifests=manifests, statistics=elsewhere.statistics),
        unneeded,
    )
    _collect_indexes(storage, [tagged], neighbours, latest, elsewhere, unneeded)
    return unneeded
