"""Snapshot expiry: forget old snapshots, and delete the files that nothing refers to any more.

Expired are the oldest snapshots, as far as counts, times and consumers allow; tags and other
branches keep the files they need. Where a table keeps changelogs for longer, a snapshot leaves
its changelog, which expires by rules of its own. First the earliest snapshot and the earliest
changelog that stay are noted, so that nothing is made to hold the others any more (`is_held`), and
the next expiry takes what one that was killed had begun to take, whatever it is to keep. Files go
in an order that makes it repeat or finish that: data files, changelog files, manifests, and
snapshots and changelogs last. What it costs grows with the snapshots that go, not with the table.

Source: ``ExpireSnapshotsImpl.java``, ``SnapshotDeletion.java``, ``ExpireChangelogImpl.java``,
``ChangelogDeletion.java``, ``TagDeletion.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Conflict, CorruptData
from headwater.storage.maintenance.held_snapshots import while_nothing_expires
from headwater.storage.maintenance.retention import (
    Consumers,
    Retention,
    first_kept_changelog,
    first_kept_snapshot,
)
from headwater.storage.maintenance.unneeded import (
    Going,
    Unneeded,
    collect_unneeded,
    read_snapshots,
)
from headwater.storage.options import TableOptions
from headwater.storage.snapshot.changelog import (
    changelog_file_ids,
    delete_changelog_file,
    delete_changelog_hints,
    read_changelog_file,
    write_changelog_file,
    write_latest_changelog_hint,
)
from headwater.storage.snapshot.consumer import delete_consumer_file
from headwater.storage.snapshot.expiry_notes import (
    first_whole,
    first_whole_changelog,
    is_expiring,
    raise_changelog_note,
    raise_snapshot_note,
)
from headwater.storage.snapshot.files import (
    hinted_earliest,
    read_hint,
    read_snapshot_file,
    snapshot_file_ids,
    write_earliest_hint,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "ExpireResult",
    "ExpiryPlan",
    "Retention",
    "abandon_expiry",
    "begin_expiry",
    "finish_expiry",
    "plan_expiry",
]


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
        expired_changelogs: Ids of the snapshots whose changelogs went: with them, or later.
    """

    dry_run: bool
    expired: tuple[int, ...] = ()
    earliest: int | None = None
    data_files: int = 0
    data_bytes: int = 0
    metadata_files: int = 0
    held_back_by: str | None = None
    expired_changelogs: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExpiryPlan:
    """The work of an expiry.

    Attributes:
        result: The outcome once it is done.
        unneeded: The files to be deleted.
        snapshots: The snapshots that go then, oldest first.
        changelogs: The first changelog that stays, those of the snapshots that go included.
        consumers: Consumers to be forgotten, as they have not moved for too long.
        is_hinted: True if the hint tells the earliest snapshot as long as none goes.
        noted_before: The earliest snapshot as it was noted before.
    """

    result: ExpireResult
    unneeded: Unneeded = field(default_factory=Unneeded)
    snapshots: tuple[Snapshot, ...] = ()
    changelogs: int = 0
    consumers: frozenset[str] = frozenset()
    is_hinted: bool = True
    noted_before: int | None = None

    @property
    def has_work(self) -> bool:
        """True if files, snapshots or changelogs go."""
        return bool(self.unneeded.data or self.snapshots or self.result.expired_changelogs)


ChangelogRetention: TypeAlias = Callable[[TableOptions], Retention | None]
"""The changelogs to keep by a table's options; None for those of the snapshots that stay."""


def plan_expiry(
    storage: TableStorage,
    latest: Snapshot | None,
    retention: Retention | None = None,
    *,
    changelogs: ChangelogRetention = Retention.of_changelogs,
    dry_run: bool = False,
) -> ExpiryPlan:
    """The work that the expiry of a table's oldest snapshots is; nothing is deleted yet.

    Unless it is a dry run, the earliest snapshot that stays is noted.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        retention: The snapshots to keep; None takes the table's options.
        changelogs: The changelogs to keep; the table's ``changelog.…`` options say it unless given.
        dry_run: True if nothing will be deleted.

    Raises:
        Invalid: The retention contradicts itself.
        Conflict: Another expiry takes what this one is to keep.
        CorruptData: A tag, a branch or a manifest cannot be read.
        Unsupported: The table has options that Headwater does not follow.
    """
    options = storage.schema.table_options
    storage.refuse(Operation.EXPIRE)
    rules = Retention.of(options) if retention is None else retention
    rules.check()
    changelog_rules = changelogs(options)
    if changelog_rules is not None:
        changelog_rules.check("changelog")
    if latest is None:
        return ExpiryPlan(ExpireResult(dry_run))
    # Writers ask after each commit, and nothing may be due for thousands of snapshots.
    hinted = hinted_earliest(storage.files, storage.layout)
    earliest = whole = hinted
    if earliest is None or whole is None:
        ids = snapshot_file_ids(storage.files, storage.layout)
        if not ids:
            return ExpiryPlan(ExpireResult(dry_run))
        earliest, whole = ids[0], first_whole(storage.files, storage.layout, ids)
    consumers = Consumers.of(storage)
    end, holder = first_kept_snapshot(storage, earliest, latest, rules, consumers)
    end = max(end, whole)
    snapshots = read_snapshots(storage, range(earliest, end))
    kept = read_snapshot_file(storage.files, storage.layout, end)
    nothing = ExpiryPlan(
        ExpireResult(dry_run, earliest=earliest, held_back_by=holder),
        consumers=consumers.idle,
        is_hinted=hinted is not None,
    )
    if kept is None:
        # Somebody else is expiring the same snapshots.
        return nothing
    noted_before = read_hint(storage.files, storage.layout.earliest_hint)
    if snapshots and not dry_run:
        # Before tags and branches are looked for: those that come later are told.
        raise_snapshot_note(storage.files, storage.layout, end)
    going, changelog_holder = _with_changelogs(
        storage, snapshots, kept, latest, changelog_rules, consumers
    )
    if not snapshots and not going.changelogs:
        return nothing
    try:
        unneeded = while_nothing_expires(
            storage.files, storage.layout, partial(collect_unneeded, storage, going, latest)
        )
    except CorruptData as error:
        if is_expiring(storage.files, storage.layout.snapshot(kept.id)):
            raise Conflict(
                f"table {storage.name}: snapshot {kept.id}, which this expiry keeps, is expired by "
                "another at the same time; let them expire again"
            ) from error
        raise
    result = ExpireResult(
        dry_run,
        tuple(snapshot.id for snapshot in snapshots),
        end,
        len(unneeded.data),
        sum(unneeded.data.values()),
        len(unneeded.metadata),
        holder or changelog_holder,
        tuple(one.id for one in going.without_changelog),
    )
    return ExpiryPlan(
        result,
        unneeded,
        tuple(snapshots),
        going.first_changelog,
        consumers.idle,
        noted_before=noted_before,
    )


def _with_changelogs(
    storage: TableStorage,
    snapshots: Sequence[Snapshot],
    kept: Snapshot,
    latest: Snapshot,
    rules: Retention | None,
    consumers: Consumers,
) -> tuple[Going, str | None]:
    """Everything that goes, with changelogs, and the consumer for which more changelogs stay."""
    leaving = {snapshot.id: snapshot for snapshot in snapshots}
    there = [n for n in changelog_file_ids(storage.files, storage.layout) if n < kept.id]
    ids = sorted({*there, *leaving})

    def read(number: int) -> Snapshot | None:
        return leaving.get(number) or read_changelog_file(storage.files, storage.layout, number)

    if not ids:
        return Going(snapshots, kept, first_changelog=kept.id), None
    if rules is not None:
        first, holder = first_kept_changelog(storage, ids, read, latest, rules, consumers)
    else:
        # What an option that is no longer set has left goes with the snapshots.
        first, holder = consumers.hold_back(kept.id)
    # What an expiry that was stopped has begun to take may lack files already.
    first = min(max(first, first_whole_changelog(storage.files, storage.layout)), kept.id)
    changelogs = [read(number) for number in ids if number < first and number not in leaving]
    staying = next((number for number in ids if number >= first), None)
    return Going(
        snapshots,
        kept,
        [one for one in changelogs if one is not None],
        kept.id if staying is None else first,
        None if staying is None else read(staying),
    ), holder


def begin_expiry(storage: TableStorage, plan: ExpiryPlan) -> None:
    """Note the first changelog that stays, before any file of another goes."""
    if plan.result.expired_changelogs:
        raise_changelog_note(storage.files, storage.layout, plan.changelogs)


def abandon_expiry(storage: TableStorage, plan: ExpiryPlan) -> None:
    """Take the note back of a plan of which nothing was done: another history may grow up to it."""
    files, layout = storage.files, storage.layout
    if plan.snapshots and read_hint(files, layout.earliest_hint) == plan.result.earliest:
        if plan.noted_before is None:
            files.delete(layout.earliest_hint)
        else:
            write_earliest_hint(files, layout, plan.noted_before)


def finish_expiry(storage: TableStorage, plan: ExpiryPlan) -> None:
    """Delete snapshots, changelogs and consumers of a plan whose other files are gone."""
    files, layout = storage.files, storage.layout
    for consumer_id in plan.consumers:
        delete_consumer_file(files, layout, consumer_id)
    if not plan.is_hinted and plan.result.earliest is not None:
        raise_snapshot_note(files, layout, plan.result.earliest)
    left: int | None = None
    for snapshot in plan.snapshots:
        if snapshot.id >= plan.changelogs:
            # Before its snapshot goes: a stream always finds one of the two.
            write_changelog_file(files, layout, snapshot)
            left = snapshot.id
        files.delete(layout.snapshot(snapshot.id))
    for number in plan.result.expired_changelogs:
        delete_changelog_file(files, layout, number)
    if left is not None or plan.result.expired_changelogs:
        there = changelog_file_ids(files, layout)
        if there:
            raise_changelog_note(files, layout, there[0])
            if left is not None:
                write_latest_changelog_hint(files, layout, left)
        else:
            delete_changelog_hints(files, layout)
