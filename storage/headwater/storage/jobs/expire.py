"""Expiry of snapshots, changelogs and tags, with the files that nothing needs afterwards."""

from __future__ import annotations

from headwater.storage.errors import CorruptData
from headwater.storage.jobs.deletion import PlannedDeletion, carry_out, plan_unchanged
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION
from headwater.storage.maintenance.deletion import ReferenceAuthority
from headwater.storage.maintenance.expire import (
    ChangelogRetention,
    ExpireResult,
    Retention,
    collect_expired,
    due_expiry,
)
from headwater.storage.maintenance.unneeded import Unneeded, unneeded_without_tag
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["delete_unreferenced_snapshot", "expire_snapshots"]


def expire_snapshots(
    storage: TableStorage,
    pointer: SnapshotPointer,
    authority: ReferenceAuthority,
    retention: Retention | None = None,
    *,
    changelogs: ChangelogRetention = Retention.of_changelogs,
    dry_run: bool = False,
    yields: bool = False,
    executor: Executor = FILE_DELETION,
) -> ExpireResult:
    """Expire a table's oldest snapshots, and the oldest of the changelogs that outlive them.

    Args:
        storage: The table.
        pointer: The authority on its latest snapshot.
        authority: Serialises the expiry with changes of the table's references.
        retention: The snapshots to keep; None takes the table's options.
        changelogs: The changelogs to keep; by default as the table's options are.
        dry_run: Whether to delete nothing, and only report the outcome.
        yields: Whether to leave the expiry to another deletion that is under way.
        executor: Deletes the files; by default this process, with some threads.

    Raises:
        Conflict: References or the history kept changing.
        Invalid: The retention contradicts itself.
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
        Unsupported: The table has options that Headwater does not follow.
    """

    def plan() -> PlannedDeletion[ExpireResult]:
        latest = pointer.latest()
        due = due_expiry(storage, latest, retention, changelogs=changelogs)
        unneeded = collect_expired(storage, due, latest)
        result = due.result(unneeded, dry_run=dry_run)
        return PlannedDeletion(result, due.removal, unneeded.paths)

    if dry_run:
        return plan_unchanged(storage, authority, plan)
    if yields:
        idle = _nothing_due(storage, pointer, retention, changelogs)
        if idle is not None:
            return idle
    result = carry_out(storage, authority, plan, executor, yields=yields)
    return ExpireResult(dry_run) if result is None else result


def _nothing_due(
    storage: TableStorage,
    pointer: SnapshotPointer,
    retention: Retention | None,
    changelogs: ChangelogRetention,
) -> ExpireResult | None:
    """The result where nothing is due, as after most commits; the catalog is not called for it."""
    try:
        due = due_expiry(storage, pointer.latest(), retention, changelogs=changelogs)
    except CorruptData:
        return None  # planning starts over, or says what is damaged
    return due.result(Unneeded(), dry_run=False) if due.removal.is_empty else None


def delete_unreferenced_snapshot(
    storage: TableStorage,
    pointer: SnapshotPointer,
    authority: ReferenceAuthority,
    snapshot: Snapshot,
) -> None:
    """Delete the files of an expired snapshot that no tag names any more.

    Nothing happens while something refers to it.

    Raises:
        Conflict, CorruptData: As `delete_tag`.
    """

    def plan() -> PlannedDeletion[None]:
        unneeded = unneeded_without_tag(storage, snapshot, pointer.latest(), tag=None)
        return PlannedDeletion(None, files=unneeded.paths)

    carry_out(storage, authority, plan)
