"""Snapshot expiry: forget old snapshots, and delete the files that nothing refers to any more.

Expired are the oldest snapshots, as far as counts, times and consumers allow; tags and other
branches keep the files they need. Files go in an order that makes a second run repeat or finish
what a killed one began: data files, changelog files, manifests, and the snapshots last. What it
costs grows with the snapshots that go, not with the table.

Source: ``ExpireSnapshotsImpl.java``, ``SnapshotDeletion.java``, ``TagDeletion.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.maintenance.reachable import (
    OtherBranches,
    added_paths,
    data_paths,
    delta_entries,
    index_paths,
    live_paths,
    manifest_names,
    needed_index_paths,
    other_branches,
)
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.options import TableOptions
from headwater.storage.snapshot.consumer import delete_consumer_file, list_consumer_files
from headwater.storage.snapshot.files import (
    read_snapshot_file,
    snapshot_file_ids,
    write_earliest_hint,
)
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = [
    "ExpireResult",
    "ExpiryPlan",
    "Retention",
    "Unneeded",
    "finish_expiry",
    "plan_expiry",
    "plan_tag_deletion",
]


@dataclass(frozen=True)
class Retention:
    """The snapshots that expiry keeps.

    Attributes:
        least: The number of latest snapshots that stay in any case, at least 1.
        most: The number beyond which the oldest go even when they are young.
        millis: The age of its successor at which a snapshot goes.
        limit: The number of snapshots that one run expires at most.
    """

    least: int
    most: int
    millis: int
    limit: int

    @staticmethod
    def of(
        options: TableOptions,
        *,
        least: int | None = None,
        most: int | None = None,
        millis: int | None = None,
        limit: int | None = None,
    ) -> Retention:
        """The retention that is asked for, and what a table's options say of the rest."""
        if least is None:
            least = options.snapshot_retained_min
            if most is not None:
                # Asked to keep few, an option that keeps more must not stand in the way.
                least = min(least, most)
        return Retention(
            least,
            options.snapshot_retained_max if most is None else most,
            options.snapshot_time_retained if millis is None else millis,
            options.snapshot_expire_limit if limit is None else limit,
        )


@dataclass(frozen=True)
class ExpireResult:
    """The outcome of an expiry, or of its dry run.

    Attributes:
        dry_run: True if nothing was deleted.
        expired: Ids of the snapshots that went.
        earliest: The earliest snapshot that stays; None for a table without one.
        data_files: Data and changelog files deleted.
        data_bytes: Their size.
        metadata_files: Manifests, manifest lists, index files and statistics deleted.
        held_back_by: The consumer without which more would have gone; None when none held back.
    """

    dry_run: bool
    expired: tuple[int, ...] = ()
    earliest: int | None = None
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    held_back_by: str | None = None


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

    def delete_metadata(self, storage: TableStorage) -> None:
        """Delete the metadata, once the data files are gone."""
        # Oldest first and one after another: a run that is killed leaves the newer ones whole.
        for path in self.metadata:
            storage.files.delete(path)


@dataclass(frozen=True)
class ExpiryPlan:
    """The work of an expiry.

    Attributes:
        result: The outcome once it is done.
        unneeded: The files to be deleted.
        snapshots: Ids of the snapshots that go then, oldest first.
        consumers: Consumers to be forgotten, as they have not moved for too long.
    """

    result: ExpireResult
    unneeded: Unneeded = field(default_factory=Unneeded)
    snapshots: tuple[int, ...] = ()
    consumers: frozenset[str] = frozenset()


def plan_expiry(
    storage: TableStorage,
    latest: Snapshot | None,
    retention: Retention | None = None,
    *,
    dry_run: bool = False,
) -> ExpiryPlan:
    """The work that the expiry of a table's oldest snapshots is; nothing is deleted yet.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        retention: The snapshots to keep; None takes the table's options.
        dry_run: Noted in the result.

    Raises:
        Invalid: The retention contradicts itself.
        CorruptData: A tag, a branch or a manifest cannot be read.
        Unsupported: The table keeps changelogs longer than snapshots, or has options that
            Headwater does not follow.
    """
    options = storage.schema.table_options
    storage.refuse(Operation.EXPIRE)
    rules = Retention.of(options) if retention is None else retention
    _check(rules)
    ids = snapshot_file_ids(storage.files, storage.layout)
    if latest is None or not ids:
        return ExpiryPlan(ExpireResult(dry_run))
    idle = _idle_consumers(storage, options)
    end, consumer = _first_kept(storage, ids[0], latest, rules, idle)
    nothing = ExpiryPlan(
        ExpireResult(dry_run, earliest=ids[0], held_back_by=consumer), consumers=idle
    )
    if end <= ids[0]:
        return nothing
    going = _read(storage, [number for number in ids if number < end])
    kept = read_snapshot_file(storage.files, storage.layout, end)
    if kept is None or not going:
        # Somebody else is expiring the same snapshots.
        return nothing
    unneeded = _collect(storage, going, kept, latest)
    expired = tuple(snapshot.id for snapshot in going)
    result = ExpireResult(
        dry_run,
        expired,
        end,
        len(unneeded.data),
        sum(unneeded.data.values()),
        len(unneeded.metadata),
        consumer,
    )
    return ExpiryPlan(result, unneeded, expired, idle)


def finish_expiry(storage: TableStorage, plan: ExpiryPlan) -> None:
    """Delete metadata, snapshots and consumers of a plan whose data files are gone."""
    for consumer_id in plan.consumers:
        delete_consumer_file(storage.files, storage.layout, consumer_id)
    plan.unneeded.delete_metadata(storage)
    if plan.snapshots and plan.result.earliest is not None:
        write_earliest_hint(storage.files, storage.layout, plan.result.earliest)
    for snapshot_id in plan.snapshots:
        storage.files.delete(storage.layout.snapshot(snapshot_id))


def _check(rules: Retention) -> None:
    if rules.least < 1:
        raise Invalid(f"at least one snapshot must be retained, not {rules.least}")
    if rules.most < rules.least:
        raise Invalid(
            f"at most {rules.most} snapshots cannot be retained when at least {rules.least} must be"
        )
    if rules.millis < 0 or rules.limit < 1:
        raise Invalid("a retention time must not be negative, and a limit must be at least 1")


def _idle_consumers(storage: TableStorage, options: TableOptions) -> frozenset[str]:
    """Consumers that have not moved for ``consumer.expiration-time``."""
    after = options.consumer_expiration
    if after is None:
        return frozenset()
    oldest = storage.runtime.now_millis() - after
    consumers = list_consumer_files(storage.files, storage.layout)
    return frozenset(
        one.consumer_id
        for one in consumers
        if one.updated_at is not None and one.updated_at < oldest
    )


def _first_kept(
    storage: TableStorage,
    earliest: int,
    latest: Snapshot,
    rules: Retention,
    idle: frozenset[str],
) -> tuple[int, str | None]:
    """The first snapshot that stays, and the consumer that made it no later one."""
    end = min(latest.id - rules.least + 1, earliest + rules.limit)
    consumer: str | None = None
    if not storage.schema.table_options.consumer_changelog_only:
        for one in list_consumer_files(storage.files, storage.layout):
            if one.consumer_id not in idle and one.next_snapshot < end:
                end, consumer = one.next_snapshot, one.consumer_id
    oldest = storage.runtime.now_millis() - rules.millis
    for number in range(max(latest.id - rules.most + 1, earliest), end):
        following = read_snapshot_file(storage.files, storage.layout, number + 1)
        # A snapshot goes when its successor has been the present one for long enough.
        if following is not None and following.time_millis >= oldest:
            return number, None
    return end, consumer


def _read(storage: TableStorage, ids: Iterable[int]) -> list[Snapshot]:
    found = (read_snapshot_file(storage.files, storage.layout, number) for number in ids)
    return [snapshot for snapshot in found if snapshot is not None]


def _collect(
    storage: TableStorage, going: Sequence[Snapshot], kept: Snapshot, latest: Snapshot
) -> Unneeded:
    """Everything that only the snapshots that go refer to."""
    tags = sorted(
        (tag.snapshot for tag in list_tag_files(storage.files, storage.layout)),
        key=lambda snapshot: snapshot.id,
    )
    elsewhere = other_branches(storage)
    unneeded = Unneeded()
    _collect_data(storage, [*going[1:], kept], tags, latest, unneeded)
    _collect_changelogs(storage, going, unneeded)
    for path in elsewhere.data & unneeded.data.keys():
        del unneeded.data[path]
    near = bisect_right([tag.id for tag in tags], going[0].id) - 1
    between = [tag for tag in tags[max(near, 0) :] if tag.id < kept.id]
    _collect_metadata(storage, going, [kept, *between], elsewhere, unneeded)
    _collect_indexes(storage, going, [kept, *between], latest, elsewhere, unneeded)
    return unneeded


def _collect_data(
    storage: TableStorage,
    snapshots: Sequence[Snapshot],
    tags: Sequence[Snapshot],
    latest: Snapshot,
    unneeded: Unneeded,
) -> None:
    """Files that the snapshots deleted: those before them alone held such files."""
    whole = True
    tag_ids = [tag.id for tag in tags]
    # A file that a tag holds and this snapshot deleted is held by the last tag before it.
    tagged: dict[int, set[str]] = {}
    for snapshot in snapshots:
        entries = delta_entries(storage, snapshot.delta_manifest_list)
        if entries is None:
            # An expiry that was killed got here: it had deleted the data files before.
            whole = False
            continue
        deleted: dict[str, int] = {}
        for entry in entries:
            for path in data_paths(storage, entry):
                # A compaction may delete a file on one level and add it on another, and a
                # rollback may bring a deleted file back.
                if entry.kind is FileKind.ADD:
                    deleted.pop(path, None)
                    unneeded.data.pop(path, None)
                else:
                    deleted[path] = entry.file.file_size
        at = bisect_left(tag_ids, snapshot.id) - 1
        if deleted and at >= 0 and at not in tagged:
            tagged[at] = live_paths(storage, tags[at])
        needed = tagged.get(at, set())
        unneeded.data |= {path: size for path, size in deleted.items() if path not in needed}
    if not unneeded.data:
        return
    needed = _brought_back(storage, snapshots[-1], latest)
    if not whole:
        needed |= live_paths(storage, snapshots[-1])
    for path in needed & unneeded.data.keys():
        del unneeded.data[path]


def _brought_back(storage: TableStorage, kept: Snapshot, latest: Snapshot) -> set[str]:
    """Files that overwrites after the first kept snapshot added: a rollback adds old ones."""
    found: set[str] = set()
    later = _read(storage, range(kept.id + 1, latest.id + 1))
    for snapshot in later:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            found |= added_paths(
                storage, delta_entries(storage, snapshot.delta_manifest_list) or ()
            )
    return found


def _collect_changelogs(
    storage: TableStorage, going: Sequence[Snapshot], unneeded: Unneeded
) -> None:
    for snapshot in going:
        if snapshot.changelog_manifest_list is None:
            continue
        for entry in delta_entries(storage, snapshot.changelog_manifest_list) or ():
            for path in data_paths(storage, entry):
                unneeded.data[path] = entry.file.file_size


def _collect_metadata(
    storage: TableStorage,
    going: Sequence[Snapshot],
    staying: Sequence[Snapshot],
    elsewhere: OtherBranches,
    unneeded: Unneeded,
) -> None:
    needed = set(elsewhere.manifests)
    statistics = {one.statistics for one in staying} | elsewhere.statistics
    for snapshot in staying:
        needed.update(manifest_names(storage, snapshot))
    for snapshot in going:
        for name in manifest_names(storage, snapshot):
            if name not in needed:
                needed.add(name)
                unneeded.metadata.append(storage.layout.manifest(name))
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
    later = [] if latest is None or not staying else _read(
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


# Tags -----------------------------------------------------------------------------------------


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
    if read_snapshot_file(storage.files, storage.layout, tagged.id) is not None:
        return Unneeded()
    tags = sorted(
        (tag.snapshot for tag in list_tag_files(storage.files, storage.layout)),
        key=lambda snapshot: snapshot.id,
    )
    if any(tag.id == tagged.id for tag in tags):
        return Unneeded()
    at = bisect_left([tag.id for tag in tags], tagged.id)
    ids = [n for n in snapshot_file_ids(storage.files, storage.layout) if n > tagged.id]
    # Between two neighbours that both lack a file, nothing else can hold it.
    neighbours = [*tags[max(at - 1, 0) : at + 1], *_read(storage, ids[:1])]
    elsewhere = other_branches(storage)
    unneeded = Unneeded(dict.fromkeys(live_paths(storage, tagged), 0))
    needed = elsewhere.data
    for snapshot in neighbours:
        needed |= live_paths(storage, snapshot)
    if neighbours and latest is not None:
        needed |= _brought_back(storage, neighbours[-1], latest)
    for path in needed & unneeded.data.keys():
        del unneeded.data[path]
    _collect_metadata(storage, [tagged], neighbours, elsewhere, unneeded)
    _collect_indexes(storage, [tagged], neighbours, latest, elsewhere, unneeded)
    return unneeded
