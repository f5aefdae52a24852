"""Removal of the files that nothing refers to."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION, delete_files
from headwater.storage.maintenance.orphans import OrphanFiles, find_orphan_files
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["remove_orphan_files"]


def remove_orphan_files(
    storage: TableStorage,
    latest: Mapping[str, Snapshot],
    *,
    older_than_millis: int,
    dry_run: bool = False,
    executor: Executor = FILE_DELETION,
) -> OrphanFiles:
    """Delete the files of a table, whatever its branch, that nothing refers to.

    Args:
        storage: The table.
        latest: The latest snapshots as the catalog has them, by their branches.
        older_than_millis: Files changed within this time stay: somebody may be about to commit
            them.
        dry_run: Only say what would go.
        executor: Deletes the files; unless given this process, with some threads.

    Raises:
        Invalid: The time is negative.
        CorruptData: A snapshot, tag, changelog or manifest is missing or cannot be read, so that it
            is not known what is needed; nothing was deleted.
        Unsupported: The table's files are not Paimon's, or where its data lies is not known here.
    """
    found = find_orphan_files(storage, latest, older_than_millis=older_than_millis)
    if not dry_run:
        delete_files(storage.files, [file.path for file in found], executor)
    return OrphanFiles(dry_run, tuple(found))
