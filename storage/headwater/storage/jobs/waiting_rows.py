"""Rows that wait for a compaction to make them part of a table, before rows of it are changed."""

from __future__ import annotations

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.jobs.compact import compact_buckets, compact_written, spread_postponed
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import reading
from headwater.storage.maintenance.key_rewrite import waiting_buckets
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["admit_waiting_rows", "make_up_for_compaction", "refuse_waiting_rows"]


def admit_waiting_rows(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    predicate: Predicate | None,
    *,
    rewrites: bool,
) -> None:
    """Make rows part of the table that a change must not pass over, by compactions of their own.

    Those are postponed rows, and, if files are to be written anew, rows on level 0 where it is
    hidden and rows that the table's changelog does not tell of yet.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the compactions.
        predicate: The filter of the rows that change; None means all rows.
        rewrites: True if files are written anew, and false if rows are written.

    Raises:
        Conflict, OutcomeUnknown: As `run_job`.
    """
    base = pointer.latest()
    if base is None or not storage.schema.primary_keys:
        return
    with reading(storage, pointer, base):
        postponed = _postponed(storage, base, predicate)
    if postponed:
        spread_postponed(storage, pointer, executor, PartitionFilter(storage, postponed))
        base = pointer.latest()
        assert base is not None
    if not rewrites:
        return
    with reading(storage, pointer, base):
        waiting = waiting_buckets(storage, base, predicate)
    if waiting:
        compact_buckets(storage, pointer, executor, waiting)


def make_up_for_compaction(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    predicate: Predicate | None,
) -> None:
    """Do the compaction that is due where a change found nothing that it had to change.

    A process that died after such a change was committed may have left it undone, and then readers
    may see the rows still as they were.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the compaction.
        predicate: The filter of the rows that change; None means all rows.
    """
    base = pointer.latest()
    if base is None or not storage.schema.primary_keys:
        return
    with reading(storage, pointer, base):
        waiting = waiting_buckets(storage, base, predicate)
    commit = TableCommit(storage, pointer, storage.runtime.new_uuid())
    compact_written(commit, waiting, executor)


def refuse_waiting_rows(
    storage: TableStorage, base: Snapshot, predicate: Predicate | None, *, rewrites: bool
) -> None:
    """Check that no rows wait; for the arguments see `admit_waiting_rows`.

    Raises:
        Conflict: Some were added meanwhile.
    """
    if not storage.schema.primary_keys:
        return
    if _postponed(storage, base, predicate) or (
        rewrites and waiting_buckets(storage, base, predicate)
    ):
        raise Conflict(
            f"table {storage.name}: snapshot {base.id} added rows that wait for a compaction while "
            "others were compacted; repeat the operation"
        )


def _postponed(
    storage: TableStorage, base: Snapshot, predicate: Predicate | None
) -> frozenset[bytes]:
    """The partitions in which rows wait to be spread over buckets."""
    if storage.schema.table_options.bucket != POSTPONE_BUCKET:
        return frozenset()
    entries = live_entries(storage, base, predicate=predicate, bucket=POSTPONE_BUCKET)
    return frozenset(entry.partition for entry in entries)
