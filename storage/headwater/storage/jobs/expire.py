"""Deletion of the files that an expiry or a deleted tag leaves without use."""

from __future__ import annotations

from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION, delete_files
from headwater.storage.maintenance.expire import (
    ChangelogRetention,
    ExpireResult,
    Retention,
    finish_expiry,
    plan_expiry,
)
from headwater.storage.maintenance.unneeded import Unneeded, plan_tag_deletion
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["delete_tag_data", "expire_snapshots"]


def expire_snapshots(
    storage: TableStorage,
    latest: Snapshot | None,
    retention: Retention | None = None,
    *,
    changelogs: ChangelogRetention = Retention.of_changelogs,
    dry_run: bool = False,
    executor: Executor = FILE_DELETION,
) -> ExpireResult:
    """Expire a table's oldest snapshots, and the oldest of the changelogs that outlive them.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        retention: The snapshots to keep; None takes the table's options.
        changelogs: The changelogs to keep; the table's options say it unless given.
        dry_run: Delete nothing, and only tell the outcome.
        executor: Deletes the data files; unless given this process, with some threads.

    Raises:
        Invalid: The retention contradicts itself.
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
        Unsupported: The table has options that Headwater does not follow.
    """
    plan = plan_expiry(storage, latest, retention, changelogs=changelogs, dry_run=dry_run)
    if not dry_run:
        _delete_data(storage, plan.unneeded, executor)
        finish_expiry(storage, plan)
    return plan.result


def delete_tag_data(
    storage: TableStorage,
    tagged: Snapshot,
    latest: Snapshot | None,
    *,
    executor: Executor = FILE_DELETION,
) -> int:
    """Delete the files that only a tag kept, once the tag itself is deleted.

    Args:
        storage: The table.
        tagged: The snapshot that the tag named.
        latest: The table's latest snapshot.
        executor: Deletes the data files; unless given this process, with some threads.

    Returns:
        The number of files deleted; 0 while the snapshot itself or another tag of it exists.

    Raises:
        CorruptData: A tag, a branch or a manifest cannot be read; nothing was deleted.
    """
    unneeded = plan_tag_deletion(storage, tagged, latest)
    _delete_data(storage, unneeded, executor)
    unneeded.delete_metadata(storage)
    return len(unneeded.data) + len(unneeded.metadata)


def _delete_data(storage: TableStorage, unneeded: Unneeded, executor: Executor) -> None:
    delete_files(storage.files, list(unneeded.data), executor)
