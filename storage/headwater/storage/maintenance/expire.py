"""Snapshot expiry: which old snapshots and changelogs go, and which files go with them.

Expired are the oldest snapshots, as far as counts, times and consumers allow; tags and other
branches keep the files they need. Where a table keeps changelogs for longer, a snapshot leaves
its changelog, which expires by rules of its own. What planning costs grows with the snapshots that
go, not with the table. How the plan is carried out is in `…storage.maintenance.deletion`.

Source: ``ExpireSnapshotsImpl.java``, ``SnapshotDeletion.java``, ``ExpireChangelogImpl.java``,
``ChangelogDeletion.java``, ``TagDeletion.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.storage.capabilities import Operation
from headwater.storage.maintenance.deletion import Removal
from headwater.storage.maintenance.reachable import data_paths, delta_entries
from headwater.storage.maintenance.retention import (
    Consumers,
    Retention,
    first_kept_changelog,
    first_kept_snapshot,
)
from headwater.storage.maintenance.unneeded import Going, Unneeded, collect_unneeded
from headwater.storage.options import TableOptions
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_file
from headwater.storage.snapshot.files import (
    expired_meanwhile,
    hinted_earliest,
    read_snapshot_file,
    snapshot_file_ids,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "ChangelogRetention",
    "DueExpiry",
    "ExpireResult",
    "Retention",
    "collect_expired",
    "due_expiry",
]


@dataclass(frozen=True)
class ExpireResult:
    """The outcome of an expiry, or of its dry run.

    Attributes:
        dry_run: Whether nothing was deleted.
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
class DueExpiry:
    """The snapshots, changelogs and consumers that are due.

    Attributes:
        earliest: The earliest snapshot that stays; None for a table without one.
        going: The snapshots and changelogs that go; None if none does.
        held_back_by: The consumer without which more would go; None when none holds back.
        idle_consumers: When each consumer that has not moved for too long was last moved, by id.
    """

    earliest: int | None = None
    going: Going | None = None
    held_back_by: str | None = None
    idle_consumers: dict[str, int] = field(default_factory=dict)

    @property
    def removal(self) -> Removal:
        """The roots and consumers that go."""
        if self.going is None:
            return Removal(consumers=self.idle_consumers)
        return Removal(
            self.going.kept.id if self.going.snapshots else 0,
            self.going.first_changelog,
            consumers=self.idle_consumers,
        )

    def result(self, unneeded: Unneeded, *, dry_run: bool) -> ExpireResult:
        """The outcome of the expiry, once its files are gone."""
        going = self.going
        return ExpireResult(
            dry_run,
            () if going is None else tuple(snapshot.id for snapshot in going.snapshots),
            self.earliest,
            len(unneeded.data),
            sum(unneeded.data.values()),
            len(unneeded.metadata),
            self.held_back_by,
            () if going is None else tuple(one.id for one in going.without_changelog),
        )


ChangelogRetention: TypeAlias = Callable[[TableOptions], Retention | None]
"""The changelogs to keep by a table's options; None for those of the snapshots that stay."""


def due_expiry(
    storage: TableStorage,
    latest: Snapshot | None,
    retention: Retention | None = None,
    *,
    changelogs: ChangelogRetention = Retention.of_changelogs,
) -> DueExpiry:
    """Find the snapshots, changelogs and consumers that are due; cheap where none is.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        retention: The snapshots to keep; None takes the table's options.
        changelogs: The changelogs to keep; by default as the table's ``changelog.…`` options are.

    Raises:
        Invalid: The retention contradicts itself.
        CorruptData: A snapshot, changelog or consumer cannot be read, or expired meanwhile.
        Unsupported: The table has options that Headwater does not follow.
    """
    options = storage.schema.table_options
    storage.refuse(Operation.EXPIRE)
    rules = Retention.from_options(options) if retention is None else retention
    rules.check()
    changelog_rules = changelogs(options)
    if changelog_rules is not None:
        changelog_rules.check("changelog")
    if latest is None:
        return DueExpiry()
    # Writers ask after each commit, and nothing may be due for thousands of snapshots.
    earliest = hinted_earliest(storage.files, storage.layout)
    if earliest is None:
        ids = snapshot_file_ids(storage.files, storage.layout)
        if not ids:
            return DueExpiry()
        earliest = ids[0]
    consumers = Consumers.from_storage(storage)
    end, holder = first_kept_snapshot(storage, earliest, latest, rules, consumers)
    end = max(end, earliest)
    kept = read_snapshot_file(storage.files, storage.layout, end)
    if kept is None:
        raise expired_meanwhile(storage.layout.snapshot(end))
    # What goes may lack files already, as another engine's expiry that was killed leaves it.
    files = (
        read_snapshot_file(storage.files, storage.layout, number) for number in range(earliest, end)
    )
    snapshots = [snapshot for snapshot in files if snapshot is not None]
    going, changelog_holder = _with_changelogs(
        storage, snapshots, kept, latest, changelog_rules, consumers
    )
    if not going.snapshots and not going.changelogs:
        return DueExpiry(earliest, None, holder, consumers.idle)
    return DueExpiry(end, going, holder or changelog_holder, consumers.idle)


def collect_expired(storage: TableStorage, due: DueExpiry, latest: Snapshot | None) -> Unneeded:
    """The files that go with what is due.

    Raises:
        CorruptData: A tag, a branch or a manifest cannot be read, so that nothing may be deleted.
    """
    if due.going is None or latest is None:
        return Unneeded()
    return collect_unneeded(storage, due.going, latest)


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
    present = [n for n in changelog_file_ids(storage.files, storage.layout) if n < kept.id]
    ids = sorted({*present, *leaving})

    def read(number: int) -> Snapshot | None:
        return leaving.get(number) or read_changelog_file(storage.files, storage.layout, number)

    if not ids:
        return Going(snapshots, kept, first_changelog=kept.id), None
    if rules is not None:
        first, holder = first_kept_changelog(storage, ids, read, latest, rules, consumers)
    else:
        # What an option that is no longer set has left goes with the snapshots.
        first, holder = consumers.hold_back(kept.id)
    first = min(first, kept.id)
    if ids[0] in leaving and first <= ids[0] and not _has_changelog(storage, leaving[ids[0]]):
        # The tag that the history began with kept none.
        first = min(ids[0] + 1, kept.id)
    changelogs = [read(number) for number in ids if number < first and number not in leaving]
    staying = next((number for number in ids if number >= first), None)
    neighbour = None if staying is None else read(staying)
    if staying is not None and neighbour is None:
        raise expired_meanwhile(storage.layout.changelog(staying))
    return Going(
        snapshots,
        kept,
        [changelog for changelog in changelogs if changelog is not None],
        kept.id if staying is None else first,
        neighbour,
    ), holder


def _has_changelog(storage: TableStorage, snapshot: Snapshot) -> bool:
    """Whether the changelog files of a snapshot are there, if it has any."""
    if snapshot.changelog_manifest_list is None:
        return True
    entries = delta_entries(storage, snapshot.changelog_manifest_list)
    if entries is None:
        return False
    paths = (path for entry in entries for path in data_paths(storage, entry))
    return all(storage.files.exists(path) for path in paths)
