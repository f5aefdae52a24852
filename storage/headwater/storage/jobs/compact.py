"""Compaction of a table, of some of its partitions, or of the buckets that a commit wrote to."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.storage.capabilities import Operation
from headwater.storage.commit.checks import changes_between
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.compaction.plan import CompactionTask, plan_compaction
from headwater.storage.compaction.postponed import (
    PostponedTask,
    plan_postponed,
    run_postponed,
)
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.compaction.sort_key import SortKey
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import Job, run_job
from headwater.storage.jobs.sort import SortJob
from headwater.storage.maintenance.partition_expiry import past_partitions
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage

__all__ = [
    "CompactionDue",
    "check_options",
    "compact_buckets",
    "compact_since",
    "compact_table",
    "compact_written",
    "compaction_due",
    "may_be_due",
    "spread_postponed",
]

_RETRIES = 2
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompactionDue:
    """The work that a compaction would do.

    Attributes:
        tasks: Buckets, or groups of files, that would be rewritten.
        size: Bytes of their files.
    """

    tasks: int
    size: int


def compact_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    *,
    partition: Mapping[str, object] | None = None,
    where: Predicate | None = None,
    full: bool | None = None,
    order: SortKey | None = None,
    numbers: Collection[int] | None = None,
) -> Snapshot | None:
    """Rewrite files into fewer; a bucket, or a group of an append table's files, is a task.

    Postponed rows are first brought into buckets, as a commit of its own. A table that is clustered
    incrementally is sorted.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        partition: Only partitions with these values.
        where: Only partitions that fulfil this condition.
        full: Compact all there is; else only what is due. None is what is due in a table that is
            clustered incrementally, and all in others.
        order: Sort all rows of an append table so.
        numbers: Only the buckets with these numbers.

    Raises:
        Invalid: The arguments contradict each other, or the table.
        Unsupported: The table cannot be compacted.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    jobs = _compaction_jobs(storage, partition, where, full, order, numbers)
    done: Snapshot | None = None
    for job in jobs:
        done = run_job(job, pointer, executor) or done
    return done


def compaction_due(
    storage: TableStorage, base: Snapshot, *, full: bool | None = None
) -> CompactionDue:
    """The work that `compact_table` finds in a snapshot, of all partitions.

    Postponed rows count once, though their buckets may have more to do when they have come.

    Raises:
        Invalid, Unsupported: As `compact_table`.
    """
    sizes = [
        task.size
        for job in _compaction_jobs(storage, None, None, full, None, None)
        for task in job.plan(base)
    ]
    return CompactionDue(len(sizes), sum(sizes))


def _compaction_jobs(
    storage: TableStorage,
    partition: Mapping[str, object] | None,
    where: Predicate | None,
    full: bool | None,
    order: SortKey | None,
    numbers: Collection[int] | None,
) -> Sequence[Job[Any]]:
    """The jobs that compact a table, one after the other."""
    wanted: PartitionFilter | None = None
    if partition or where is not None:
        wanted = PartitionFilter.asked_for(storage, partition, where)
    if order is not None and full is False:
        raise Invalid("sorting rewrites all files: leave out full=False")
    options = CompactionOptions(storage.schema.options)
    leaves_past = options.skips_expired_partitions
    sorts = order is not None or options.clusters_incrementally
    if numbers is not None:
        _check_numbers(storage, numbers, sorts=sorts)
    if sorts:
        return [
            SortJob(
                storage,
                order,
                full=full is True,
                wanted=wanted,
                leaves_past=leaves_past,
                retries=_RETRIES,
            )
        ]
    wanted = wanted or PartitionFilter.whole_table(storage)
    job = _Compaction(
        storage,
        full is not False,
        wanted=wanted,
        numbers=numbers,
        leaves_past=leaves_past,
        retries=_RETRIES,
    )
    if storage.schema.table_options.bucket == POSTPONE_BUCKET:
        return [_Spreading(storage, wanted), job]
    return [job]


def _check_numbers(storage: TableStorage, numbers: Collection[int], *, sorts: bool) -> None:
    """Refuse numbers of buckets where a table has no such buckets, or files of several of them."""
    count = storage.schema.table_options.bucket
    if count < 1:
        raise Invalid(
            f"table {storage.name} has no fixed number of buckets ('bucket' is {count}): "
            "leave buckets out"
        )
    if sorts:
        raise Invalid(f"table {storage.name}: sorting is of whole partitions: leave buckets out")
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong or not numbers:
        raise Invalid(
            f"table {storage.name} has the buckets 0 to {count - 1}, and "
            + (f"none is {wrong[0]}" if wrong else "buckets names none")
        )


def spread_postponed(
    storage: TableStorage, pointer: SnapshotPointer, executor: Executor, wanted: PartitionFilter
) -> Snapshot | None:
    """Bring rows in the postpone bucket into buckets; a partition is a task.

    Raises:
        Unsupported: The table cannot be compacted.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    return run_job(_Spreading(storage, wanted), pointer, executor)


def compact_buckets(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    buckets: Collection[tuple[bytes, int]],
) -> Snapshot | None:
    """Rewrite all files of some buckets, given as (partition, number).

    Raises:
        Unsupported: The table cannot be compacted.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    return run_job(_Compaction(storage, True, frozenset(buckets)), pointer, executor)


def compact_written(
    commit: TableCommit,
    buckets: Collection[tuple[bytes, int]] | None,
    executor: Executor,
    identifier: int = BATCH_IDENTIFIER,
    *,
    tells_lookups: bool = True,
) -> Snapshot | None:
    """Do the compaction that a commit has made due, as a commit of the same user and number.

    Nothing is done for tables with ``write-only``. The rows are part of the table already, so that
    no failure is one of the write: what is left undone is due again at the next commit.

    Args:
        commit: Made the commit.
        buckets: The buckets, as (partition, number), that it added files to; None for a commit of
            an earlier process, which did not say: all with files that no compaction has seen.
        executor: Runs the tasks.
        identifier: Its number.
        tells_lookups: False if a lookup writes no changelog: that of an overwrite, whose changes
            no stream is told.

    Returns:
        The snapshot made; None when nothing was due, or another compaction came first.
    """
    storage = commit.storage
    options = CompactionOptions(storage.schema.options)
    if not _compacts(storage, options) or (buckets is not None and not buckets):
        return None
    written = None if buckets is None else frozenset(buckets)
    try:
        if options.clusters_incrementally:
            full = _is_full_due(options, identifier)
            of = None if full else written
            clustering = SortJob(storage, full=full, buckets=of, identifier=identifier)
            return run_job(clustering, commit.pointer, executor, commit)
        job = _Compaction(
            storage,
            False,
            written,
            identifier,
            only_fresh=written is None,
            tells_lookups=tells_lookups,
        )
        if _is_full_due(options, identifier):
            job = replace(job, full=True, buckets=None, only_fresh=True)
        if options.needs_lookup:
            # The changelog of the commit is not written before.
            job = replace(job, retries=_RETRIES)
        try:
            return run_job(job, commit.pointer, executor, commit)
        except Conflict:
            # Somebody else compacted; but no bucket may grow without end.
            least = options.sorted_run_stop_trigger + 1
            crowded = replace(job, retries=_RETRIES, least_runs=least)
            return run_job(crowded, commit.pointer, executor, commit)
    except Conflict:
        return None
    except HeadwaterError as error:
        _LOGGER.warning(
            "table %s: rows were committed, but the compaction after it failed: %s",
            storage.name,
            error,
        )
        return None


def compact_since(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    since: SnapshotIdentity,
    *,
    inclusive: bool = False,
    tells_overwrites: bool = False,
    numbered: tuple[str, int] | None = None,
) -> Snapshot | None:
    """Do the compaction that the commits after a snapshot have made due, see `compact_written`.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        since: The snapshot. Nothing is done if the table was rolled back to one before it.
        inclusive: Whether it made some of them due itself.
        tells_overwrites: Whether a lookup writes a changelog though the last of these commits
            replaced files, as a change of rows does.
        numbered: The commit user and its number of the commit that this belongs to; None is a
            user of its own. Another job's user it must never be: that job would take the number
            for its own, and what it has yet to commit for committed.
    """
    latest = pointer.latest()
    changes = (
        None if latest is None else changes_between(storage, since, latest, inclusive=inclusive)
    )
    if latest is None or not changes:
        return None
    buckets = {
        (entry.partition, entry.bucket)
        for _, entries in changes
        for entry in entries
        if entry.kind is FileKind.ADD
    }
    user, identifier = numbered or (storage.runtime.new_uuid(), BATCH_IDENTIFIER)
    commit = TableCommit(storage, pointer, user)
    # Of the rows that an overwrite replaces others by no stream is told.
    tells = tells_overwrites or latest.commit_kind is not CommitKind.OVERWRITE
    return compact_written(commit, buckets, executor, identifier, tells_lookups=tells)


def check_options(storage: TableStorage) -> None:
    """Refuse a change whose compaction could not be done, before it is committed.

    Where a compaction shows rows, nobody would see them.

    Raises:
        Invalid: An option that the compaction reads is malformed.
    """
    options = CompactionOptions(storage.schema.options)
    if _compacts(storage, options):
        options.check()


def may_be_due(
    storage: TableStorage,
    states: BucketStates | None,
    messages: Sequence[CommitMessage],
    identifier: int,
) -> bool:
    """False if what a writer knew of its buckets tells that no compaction is due after it.

    Args:
        storage: The table.
        states: The buckets before; None when they are not known.
        messages: The results of writers.
        identifier: The number of the commit.

    Raises:
        Invalid: An option that the compaction would read is malformed.
    """
    options = CompactionOptions(storage.schema.options)
    if not _compacts(storage, options):
        return False
    options.check()
    if states is None or options.is_due_by_more_than_runs or _is_full_due(options, identifier):
        return True
    by_runs = bool(storage.schema.primary_keys) or options.clusters_incrementally
    trigger = options.sorted_run_trigger if by_runs else options.append_file_trigger
    for message in messages:
        state = states.partitions.get(message.partition)
        if state is None:
            return True
        if state.sorted_runs.get(message.bucket, 0) + len(message.new_files) >= trigger:
            return True
    return False


def _compacts(storage: TableStorage, options: CompactionOptions) -> bool:
    # Postponed rows have no bucket yet, and those of a batch wait for the compaction that spreads
    # them (``PostponeUtils.java``).
    if options.write_only or options.bucket == POSTPONE_BUCKET:
        return False
    if not (storage.schema.primary_keys or options.bucket > 0):
        return False
    try:
        storage.refuse(Operation.WRITE | Operation.COMPACT)
    except Unsupported:
        return False
    return True


def _is_full_due(options: CompactionOptions, identifier: int) -> bool:
    """Whether a commit of a number is one after which all there is is compacted.

    A commit without a number always is (``DataWrite.scala``).
    """
    every = options.full_compaction_delta_commits
    if every is None:
        return False
    return identifier == BATCH_IDENTIFIER or (identifier + 1) % every == 0


@dataclass(frozen=True)
class _Spreading:
    """Brings rows in the postpone bucket into buckets; a partition is a task."""

    storage: TableStorage
    wanted: PartitionFilter

    @property
    def retries(self) -> int:
        return self.storage.schema.table_options.commit_max_retries

    def plan(self, base: Snapshot) -> list[PostponedTask]:
        tasks = plan_postponed(self.storage, base)
        included = self.wanted.chosen(task.partition for task in tasks)
        chosen = [task for task in tasks if task.partition in included]
        return sorted(chosen, key=lambda task: -task.size)

    def run(self, task: PostponedTask) -> Sequence[CommitMessage]:
        return run_postponed(self.storage, task)

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        # Rows that others add to the buckets meanwhile would have the same sequence numbers.
        return commit.commit(messages, unchanged_since=base.identity)


@dataclass(frozen=True)
class _Compaction:
    storage: TableStorage
    full: bool
    buckets: Collection[tuple[bytes, int]] | None = None
    identifier: int = BATCH_IDENTIFIER
    wanted: PartitionFilter | None = None
    numbers: Collection[int] | None = None
    leaves_past: bool = False
    least_runs: int = 0
    retries: int = 0
    only_fresh: bool = False
    tells_lookups: bool = True

    def plan(self, base: Snapshot) -> list[CompactionTask]:
        buckets = self.buckets
        if self.only_fresh:
            fresh = live_entries(self.storage, base, level=0)
            buckets = {(entry.partition, entry.bucket) for entry in fresh}
        tasks = plan_compaction(
            self.storage,
            base,
            full=self.full,
            buckets=buckets,
            least_runs=self.least_runs,
            tells_lookups=self.tells_lookups,
        )
        wanted = self.wanted
        if wanted is not None:
            included = wanted.chosen(task.partition for task in tasks)
            tasks = [task for task in tasks if task.partition in included]
        if self.numbers is not None:
            tasks = [task for task in tasks if task.bucket in self.numbers]
        if self.leaves_past:
            past = past_partitions(self.storage, (task.partition for task in tasks))
            tasks = [task for task in tasks if task.partition not in past]
        _check_schema(self.storage, tasks)
        return sorted(tasks, key=lambda task: -task.size)

    def run(self, task: CompactionTask) -> list[CommitMessage]:
        message = run_compaction(self.storage, task)
        return [] if message is None else [message]

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        return commit.commit(messages, identifier=self.identifier)


def _check_schema(storage: TableStorage, tasks: Sequence[CompactionTask]) -> None:
    """Reject files of a later schema than the table was opened with: it lacks their columns."""
    latest = max((file.schema_id for task in tasks for file in task.files), default=0)
    if latest > storage.schema.id:
        raise Conflict(
            f"cannot compact {storage.name}: its schema changed from {storage.schema.id} to "
            f"{latest}; reopen the table and retry"
        )
