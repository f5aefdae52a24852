"""The files that nothing refers to any more once snapshots, changelogs or a tag are gone.

What a commit deleted is held by the snapshots before it alone, so that looking at the commits of
those that go is enough, and at the neighbours that stay.

Source: ``SnapshotDeletion.java``, ``ChangelogDeletion.java``, ``TagDeletion.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.maintenance.reachable import (
    OtherBranches,
    added_paths,
    changelog_paths,
    data_paths,
    delta_entries,
    index_paths,
    live_paths,
    manifest_names,
    needed_index_paths,
    other_branches,
    produces_changelog,
)
from headwater.storage.manifest.data_file import FileKind, FileSource
from headwater.storage.snapshot.changelog import (
    read_changelog_files,
)
from headwater.storage.snapshot.expiry_notes import first_whole
from headwater.storage.snapshot.files import (
    read_snapshot_file,
    snapshot_file_ids,
)
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = ["Going", "Unneeded", "collect_unneeded", "plan_tag_deletion", "read_snapshots"]


@dataclass
class Unneeded:
    """Files that nothing refers to any more.

    Attributes:
        data: Sizes of the data files, by URI; they go first, in any order.
        metadata: URIs of manifests, manifest lists, index files and statistics, in the order they
            go.
    """

    data: dict[str, int] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)

    def add_manifests(self, storage: TableStorage, names: Iterable[str], needed: set[str]) -> None:
        """Add manifests and manifest lists that are not needed; they are in `needed` then."""
        for name in names:
            if name not in needed:
                needed.add(name)
                self.metadata.append(storage.layout.manifest(name))

    def delete_metadata(self, storage: TableStorage) -> None:
        """Delete the metadata, once the data files are gone."""
        # Oldest first and one after another: a run that is killed leaves the newer ones whole.
        for path in self.metadata:
            storage.files.delete(path)


@dataclass(frozen=True)
class Going:
    """The snapshots and changelogs that an expiry takes away.

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
        """True if any snapshot that goes leaves a changelog."""
        return self.first_changelog < self.kept.id

    @property
    def without_changelog(self) -> Iterator[Snapshot]:
        """Everything of which nothing is left, oldest first."""
        yield from self.changelogs
        yield from (one for one in self.snapshots if one.id < self.first_changelog)


def collect_unneeded(storage: TableStorage, going: Going, latest: Snapshot) -> Unneeded:
    """Everything that only what goes refers to."""
    tags = sorted(
        (tag.snapshot for tag in list_tag_files(storage.files, storage.layout)),
        key=lambda snapshot: snapshot.id,
    )
    elsewhere = other_branches(storage)
    unneeded = Unneeded()
    _collect_data(storage, going, tags, latest, unneeded)
    for snapshot in going.without_changelog:
        if snapshot.changelog_manifest_list is not None:
            unneeded.data |= changelog_paths(storage, snapshot)
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
            # An expiry that was killed got here: it had deleted the data files before.
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
    found = _added_by_overwrites(
        storage, read_snapshots(storage, range(going.kept.id, latest.id + 1))
    )
    if going.changelogs_stay and not produces_changelog(storage):
        staying = read_changelog_files(storage.files, storage.layout)
        for one in [*staying, *going.snapshots]:
            if going.first_changelog <= one.id and one.commit_kind is CommitKind.OVERWRITE:
                found |= changelog_paths(storage, one).keys()
    return found


def _added_by_overwrites(storage: TableStorage, snapshots: Iterable[Snapshot]) -> set[str]:
    found: set[str] = set()
    for snapshot in snapshots:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            found |= added_paths(
                storage, delta_entries(storage, snapshot.delta_manifest_list) or ()
            )
    return found


def _collect_metadata(
    storage: TableStorage,
    going: Going,
    staying: Sequence[Snapshot],
    elsewhere: OtherBranches,
    unneeded: Unneeded,
) -> None:
    has_changelog_files = produces_changelog(storage)
    needed = set(elsewhere.manifests)
    statistics = {one.statistics for one in staying} | elsewhere.statistics
    for snapshot in staying:
        needed.update(manifest_names(storage, snapshot))
    if going.neighbour is not None:
        # What a later changelog shares with those that go, the first of them has, too.
        rows = not has_changelog_files
        needed.update(manifest_names(storage, going.neighbour, rows=rows))
    for changelog in going.changelogs:
        names = manifest_names(storage, changelog, rows=not has_changelog_files)
        unneeded.add_manifests(storage, names, needed)
    for snapshot in going.snapshots:
        is_gone = snapshot.id < going.first_changelog
        names = manifest_names(
            storage, snapshot, rows=is_gone or has_changelog_files, changelog=is_gone
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

    An index file goes before the index manifest that names it, so that a run that is killed leaves
    what tells the next one. Source: ``SnapshotDeletion.cleanUnusedIndexManifests``.
    """
    manifests = {one.index_manifest for one in staying}
    old = {one.index_manifest: one for one in going if one.index_manifest is not None}
    unused = [one for name, one in old.items() if name not in manifests | elsewhere.manifests]
    if not unused:
        return
    needed = set(elsewhere.indexes)
    later = [] if latest is None or not staying else read_snapshots(
        storage, range(max(one.id for one in staying) + 1, latest.id + 1)
    )  # fmt: skip
    # A rollback brings old index files back, with an overwrite.
    brought_back = [one for one in later if one.commit_kind is CommitKind.OVERWRITE]
    for one in {one.index_manifest: one for one in [*staying, *brought_back]}.values():
        manifests.add(one.index_manifest)
        needed.update(needed_index_paths(storage, one))
    for one in unused:
        if one.index_manifest is None or one.index_manifest in manifests:
            continue
        for path in index_paths(storage, one) or ():
            if path not in needed:
                needed.add(path)
                unneeded.metadata.append(path)
        unneeded.metadata.append(storage.layout.manifest(one.index_manifest))


def read_snapshots(storage: TableStorage, ids: Iterable[int]) -> list[Snapshot]:
    """Snapshots from their files; those that are gone are left out."""
    found = (read_snapshot_file(storage.files, storage.layout, number) for number in ids)
    return [snapshot for snapshot in found if snapshot is not None]


def _following(storage: TableStorage, tagged: Snapshot, latest: Snapshot | None) -> list[Snapshot]:
    """The first snapshot after a tag's that stays, as a list of one; of none without any."""
    ids = snapshot_file_ids(storage.files, storage.layout)
    whole = first_whole(storage.files, storage.layout, ids)
    for number in ids:
        if number > tagged.id and number >= whole:
            found = read_snapshot_file(storage.files, storage.layout, number)
            if found is not None:
                return [found]
    # The others expired since the listing.
    return [] if latest is None or latest.id < tagged.id else [latest]


def plan_tag_deletion(storage: TableStorage, tagged: Snapshot, latest: Snapshot | None) -> Unneeded:
    """The files that only a tag kept, once the tag itself is deleted.

    Args:
        storage: The table.
        tagged: The snapshot that the tag named.
        latest: The table's latest snapshot.

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
    tags = sorted(
        (tag.snapshot for tag in list_tag_files(storage.files, storage.layout)),
        key=lambda snapshot: snapshot.id,
    )
    if any(tag.id == tagged.id for tag in tags):
        return Unneeded()
    try:
        live = live_paths(storage, tagged)
    except CorruptData as error:
        if not isinstance(error.__cause__, NotFound):
            raise
        # Its snapshot had expired before the tag held it: what is left of it is orphans.
        return Unneeded()
    at = bisect_left([tag.id for tag in tags], tagged.id)
    # Between two neighbours that both lack a file, nothing else can hold it.
    neighbours = [*tags[max(at - 1, 0) : at + 1], *_following(storage, tagged, latest)]
    changelogs = read_changelog_files(storage.files, storage.layout)
    elsewhere = other_branches(storage)
    unneeded = Unneeded(dict.fromkeys(live, 0))
    needed = elsewhere.data
    for snapshot in neighbours:
        needed |= live_paths(storage, snapshot)
    if neighbours and latest is not None:
        needed |= _added_by_overwrites(
            storage, read_snapshots(storage, range(neighbours[-1].id + 1, latest.id + 1))
        )
    manifests = set(elsewhere.manifests)
    for changelog in changelogs:
        # Without changelog files, a changelog is the files that its commit added.
        needed |= changelog_paths(storage, changelog).keys()
        rows = not produces_changelog(storage)
        manifests.update(manifest_names(storage, changelog, rows=rows))
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
