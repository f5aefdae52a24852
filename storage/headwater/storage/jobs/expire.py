"""Deletion of the files that an expiry or a deleted tag leaves without use."""

from __future__ import annotations

from functools import partial

from headwater.storage.errors import Conflict, NotFound
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION, delete_files
from headwater.storage.maintenance.expire import (
    ChangelogRetention,
    ExpireResult,
    ExpiryPlan,
    Retention,
    abandon_expiry,
    begin_expiry,
    finish_expiry,
    plan_expiry,
)
from headwater.storage.maintenance.held_snapshots import while_nothing_expires
from headwater.storage.maintenance.unneeded import plan_tag_deletion
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["delete_tag_data", "expire_snapshots"]


def expire_snapshots(
    storage: TableStorage,
    pointer: SnapshotPointer,
    retention: Retention | None = None,
    *,
    changelogs: ChangelogRetention = Retention.of_changelogs,
    dry_run: bool = False,
    executor: Executor = FILE_DELETION,
) -> ExpireResult:
    """Expire a table's oldest snapshots, and the oldest of the changelogs that outlive them.

    Args:
        storage: The table.
        pointer: The authority on its latest snapshot.
        retention: The snapshots to keep; None takes the table's options.
        changelogs: The changelogs to keep; the table's options say it unless given.
        dry_run: Delete nothing, and only tell the outcome.
        executor: Deletes the data files; unless given this process, with some threads.

    Raises:
        Conflict: The table was rolled back or replaced by a branch meanwhile.
        Invalid: The retention contradicts itself.
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
        Unsupported: The table has options that Headwater does not follow.
    """
    latest = pointer.latest()
    plan = plan_expiry(storage, latest, retention, changelogs=changelogs, dry_run=dry_run)
    if not dry_run:
        if latest is not None and plan.has_work:
            # Another history may hold what this one does not, and has other snapshots' numbers.
            try:
                _require_history(storage, pointer, latest)
            except Conflict:
                abandon_expiry(storage, plan)
                raise
            begin_expiry(storage, plan)
            delete_files(storage.files, list(plan.unneeded.data), executor)
            plan.unneeded.delete_metadata(storage)
            _require_history(storage, pointer, latest)
        finish_expiry(storage, plan)
        _put_back(storage, pointer, plan)
    return plan.result


def _put_back(storage: TableStorage, pointer: SnapshotPointer, plan: ExpiryPlan) -> None:
    """Give the latest snapshot its file again, if a rollback to it came while files went.

    What it needs is there: the rollback held it, or was refused.
    """
    if plan.snapshots:
        now = pointer.latest()
        if now is not None and now.id <= plan.snapshots[-1].id:
            path = storage.layout.snapshot(now.id)
            storage.files.write_if_absent(path, now.to_json().encode())


def _require_history(storage: TableStorage, pointer: SnapshotPointer, latest: Snapshot) -> None:
    """Raise Conflict unless a snapshot that was the latest is still part of the history."""
    now = pointer.latest()
    is_there = now is not None and now.is_same_commit(latest)
    if now is not None and now.id > latest.id:
        try:
            is_there = pointer.was_taken(latest) is True
        except NotFound:
            is_there = False
    if not is_there:
        raise Conflict(
            f"table {storage.name} was rolled back, replaced by a branch or expired further while "
            "its snapshots expired; let them expire again"
        )


def delete_tag_data(storage: TableStorage, tagged: Snapshot, latest: Snapshot | None) -> int:
    """Delete the files that only a tag kept, once the tag itself is deleted.

    Args:
        storage: The table.
        tagged: The snapshot that the tag named.
        latest: The table's latest snapshot.

    Returns:
        The number of files deleted; 0 while the snapshot itself or another tag of it exists.

    Raises:
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
    """
    unneeded = while_nothing_expires(
        storage.files, storage.layout, partial(plan_tag_deletion, storage, tagged, latest)
    )
    delete_files(storage.files, list(unneeded.data), FILE_DELETION)
    unneeded.delete_metadata(storage)
    return len(unneeded.data) + len(unneeded.metadata)
