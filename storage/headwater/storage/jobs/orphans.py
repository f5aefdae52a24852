"""Removal of the files that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.storage.jobs.deletion import PlannedDeletion, carry_out
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.file_deletion import FILE_DELETION
from headwater.storage.maintenance.deletion import ReferenceAuthority
from headwater.storage.maintenance.orphans import OrphanFiles, find_orphan_files
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["remove_orphan_files"]


def remove_orphan_files(
    storage: TableStorage,
    authority: ReferenceAuthority,
    latest: Callable[[], Mapping[str, Snapshot]],
    *,
    older_than_millis: int,
    dry_run: bool = False,
    executor: Executor = FILE_DELETION,
) -> OrphanFiles:
    """Delete the files of a table, whatever its branch, that nothing refers to.

    Args:
        storage: The table.
        authority: Serialises the removal with changes of the table's references.
        latest: Gives the latest snapshots as the catalog has them, by their branches.
        older_than_millis: How old files must be, in ms: a younger one may be about to be committed.
        dry_run: Whether to delete nothing, and only report what would go.
        executor: Deletes the files; by default this process, with some threads.

    Raises:
        Conflict: References kept changing.
        Invalid: The time is negative.
        CorruptData: A snapshot, tag, changelog or manifest is missing or cannot be read, so that it
            is not known what is needed; nothing was deleted.
        Unsupported: The table's files are not Paimon's, or where its data lies is not known here.
    """

    def plan() -> PlannedDeletion[OrphanFiles]:
        orphans, known_for = find_orphan_files(
            storage, latest, version, older_than_millis=older_than_millis
        )
        paths = [] if dry_run else [file.path for file in orphans]
        return PlannedDeletion(OrphanFiles(dry_run, tuple(orphans)), files=paths, version=known_for)

    def version() -> int:
        return authority.state().version

    removed = carry_out(storage, authority, plan, executor)
    assert removed is not None
    return removed
