"""Table maintenance through its handle: compaction, statistics, indexes, expiry, orphans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.lifecycle import TableLifecycle
from headwater.catalog.table.lost_references import lost_references
from headwater.catalog.table.progress import WatchedExecutor
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.sort_key import SortKey, sort_key
from headwater.storage.errors import CorruptData, Forbidden, Invalid, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.analyze import analyze_table
from headwater.storage.jobs.bucket_indexes import rebuild_bucket_indexes
from headwater.storage.jobs.compact import CompactionDue, compact_table, compaction_due
from headwater.storage.jobs.executor import Executor, LocalExecutor
from headwater.storage.jobs.expire import expire_snapshots
from headwater.storage.jobs.file_deletion import FILE_DELETION
from headwater.storage.jobs.file_indexes import rewrite_file_indexes
from headwater.storage.jobs.missing_files import remove_missing_files
from headwater.storage.jobs.orphans import remove_orphan_files
from headwater.storage.maintenance.damage import TableCheck
from headwater.storage.maintenance.expire import ExpireResult, Retention
from headwater.storage.maintenance.orphans import OrphanFiles
from headwater.storage.maintenance.table_check import check_table
from headwater.storage.predicate.filter import Predicate
from headwater.storage.schema.given import given_names
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import CommitOperation, Snapshot
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["THIS_PROCESS", "Maintenance", "TableUpkeep"]

# Tasks work in Arrow and NumPy, which let other threads go on. Each holds memory of its own.
THIS_PROCESS = LocalExecutor(min(pa.cpu_count(), 4))


@checks_arguments
class TableUpkeep(TableLifecycle):
    """A table that is kept in order; `headwater.catalog.table.table.Table` adds writing."""

    @property
    def maintenance(self) -> Maintenance:
        """All maintenance methods of the table: ``table.maintenance.compact()`` and so on."""
        return Maintenance(self)

    def compact(
        self,
        partition: Mapping[str, object] | None = None,
        *,
        where: str | Predicate | None = None,
        full: bool | None = None,
        order_strategy: str | None = None,
        order_by: str | Sequence[str] = (),
        buckets: Collection[int] | None = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Rewrite files into fewer: same rows, quicker to read.

        Files that are added meanwhile stay as they are. When another commit took the same files,
        what is left to do is planned again.

        Args:
            partition: Only partitions with these values.
            where: Only partitions that fulfil this SQL condition on the partition columns.
            full: Rewrite all there is, so that reading needs no merge. Else only what is due by the
                options ``num-sorted-run.compaction-trigger``, ``compaction.size-ratio`` and the
                like: the newest runs of a bucket, when there are too many. Tables with
                ``clustering.incremental`` do what is due unless it is True, others all unless it
                is False.
            order_strategy: Sort the rows of an append table without buckets, partition by
                partition: ``order``, or along a curve through the columns, ``zorder`` or
                ``hilbert``. ``none`` is the same as None.
            order_by: The columns to sort by; text separates them by commas.
            buckets: Only the buckets with these numbers, where ``bucket`` fixes how many there are.
            executor: Runs the compaction's tasks; this process unless given.

        Returns:
            The snapshot made; None when there was nothing to do.

        Raises:
            Conflict: Other commits replaced the same files each time.
            Invalid: The arguments contradict each other, or the table.
            Unsupported: The table cannot be compacted, or rows have no order by a column.
            OutcomeUnknown: The commit may have happened.
        """
        order: SortKey | None = None
        if order_strategy is not None and order_strategy.strip().lower() != "none":
            columns = order_by.split(",") if isinstance(order_by, str) else order_by
            order = sort_key(self._storage.schema, order_strategy, columns)
        elif order_by:
            raise Invalid("order_by needs order_strategy: order, zorder or hilbert")
        watched = self._watched("compacting", executor)
        return self._kept_up(
            compact_table(
                self._storage,
                self.pointer,
                watched,
                partition=partition,
                where=self._predicate(where, self._storage),
                full=full,
                order=order,
                numbers=buckets,
            )
        )

    def compaction_due(self, *, full: bool | None = None) -> CompactionDue:
        """The work that `compact` with the same argument would do now.

        Raises:
            Unsupported: The table cannot be compacted.
        """
        latest = self.pointer.latest()
        if latest is None:
            return CompactionDue(0, 0)
        return compaction_due(self._storage, latest, full=full)

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        reads: bool = True,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Compute statistics of the table's rows for planners, as one commit (ANALYZE).

        All rows are read once. Of each column the file says how many values are null, how many
        differ (counted up to 262,144, estimated within about one percent beyond), and how long they
        are; of numbers, booleans and times also the smallest and the greatest. Spark with Paimon's
        jar plans by it, and `Table.inspect.statistics` shows it. Snapshots that follow carry it on
        until the schema changes.

        Args:
            columns: The columns; None takes all but nested ones and the like, an empty list only
                counts the rows.
            reads: Whether to read rows. Otherwise no column has statistics, and what manifests tell
                of the files is kept: their size, and the number of rows where no row is merged,
                deleted or spread over files.
            executor: Runs a task for each split of the table; this process unless given.

        Returns:
            The snapshot made, of kind ANALYZE; None when the table has none yet.

        Raises:
            NotFound: A column does not exist.
            Invalid: A column's type has no statistics.
            Conflict: Other commits came first each time.
            OutcomeUnknown: The commit may have happened.
        """
        watched = self._watched("analysing", executor)
        columns = None if columns is None else given_names(columns, "columns")
        made = analyze_table(self._storage, self.pointer, watched, columns, reads=reads)
        return self._kept_up(made)

    def rewrite_file_indexes(
        self,
        partition: Mapping[str, object] | None = None,
        *,
        where: str | Predicate | None = None,
        rebuild: bool = False,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Make the indexes of the data files those that ``file-index.<kind>.columns`` ask for.

        Files that lack one get it, indexes that are damaged or missing are built from the rows, and
        what the options no longer ask for is dropped. The data files stay as they are; the columns
        with a new index are read.

        Args:
            partition: Only partitions with these values.
            where: Only partitions that fulfil this SQL condition on the partition columns.
            rebuild: Whether to build every index from the rows, whatever there is.
            executor: Runs a task for each file; this process by default.

        Returns:
            The snapshot made, of kind COMPACT; None when there was nothing to do.

        Raises:
            Conflict: Other commits replaced the same files each time.
            OutcomeUnknown: The commit may have happened.
        """
        watched = self._watched("indexing", executor)
        return rewrite_file_indexes(
            self._storage,
            self.pointer,
            watched,
            partition=partition,
            where=self._predicate(where, self._storage),
            rebuild=rebuild,
        )

    def rebuild_bucket_indexes(
        self,
        partition: Mapping[str, object] | None = None,
        *,
        where: str | Predicate | None = None,
        executor: Executor = THIS_PROCESS,
    ) -> Snapshot | None:
        """Rebuild the hash indexes of dynamic buckets (``bucket`` = -1) from their data files.

        The keys of all data files are read. An index stays if it is whole, holds the keys of its
        bucket, and shares none with another; others are written from the keys.

        Args:
            partition: Only partitions with these values.
            where: Only partitions that fulfil this SQL condition on the partition columns.
            executor: Runs a task for each partition; this process by default.

        Returns:
            The snapshot made, of kind COMPACT; None when every index is right.

        Raises:
            CorruptData: A key has rows in several buckets, of which nothing tells the right one, or
                a data file is damaged; the message says what to do, and nothing has changed.
            Invalid: The table has no such indexes.
            Conflict: Other commits changed rows of the same buckets each time.
            OutcomeUnknown: The commit may have happened.
        """
        self.require_present()
        return rebuild_bucket_indexes(
            self._storage,
            self.pointer,
            self._watched("indexing", executor),
            partition=partition,
            where=self._predicate(where, self._storage),
        )

    def expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain: timedelta | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        executor: Executor = FILE_DELETION,
    ) -> ExpireResult:
        """Forget old snapshots and delete the files that only they needed.

        Consumers hold back what they have not consumed; tags keep their files. What is not given
        is taken from the table's ``snapshot.…`` options. Where ``changelog.…`` options keep
        changelogs for longer, snapshots leave theirs to streams; those expire by these options.

        Args:
            retain_min: The number of latest snapshots that stay in any case.
            retain_max: How many snapshots stay at most; beyond it the oldest go even when they are
                young.
            retain: The age of its successor at which a snapshot goes.
            limit: The number of snapshots that go at most.
            dry_run: Only say what would go.
            executor: Deletes the data files; this process unless given.

        Raises:
            Invalid: The arguments, or the options, contradict each other.
        """
        rules = Retention.from_options(
            self._storage.schema.table_options,
            least=retain_min,
            most=retain_max,
            millis=None if retain is None else retain // timedelta(milliseconds=1),
            limit=limit,
        )
        watched = self._watched("deleting files", executor)
        return expire_snapshots(
            self._storage, self.pointer, self.references, rules, dry_run=dry_run, executor=watched
        )

    def expire_changelogs(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain: timedelta | None = None,
        limit: int | None = None,
        delete_all: bool = False,
        dry_run: bool = False,
        executor: Executor = FILE_DELETION,
    ) -> ExpireResult:
        """Forget old changelogs that outlived their snapshots, with the files of theirs alone.

        Snapshots stay, and consumers hold back what they have not consumed. What is not given is
        taken from the table's ``changelog.…`` options. The latest of these changelogs stays, as in
        Paimon, unless all are to go.

        Args:
            retain_min: The number of latest changelogs that stay in any case, those of snapshots
                included.
            retain_max: How many changelogs stay at most; beyond it the oldest go even when they are
                young.
            retain: The age at which a changelog goes.
            limit: The number of changelogs that go at most.
            delete_all: All go that no consumer needs.
            dry_run: Only say what would go.
            executor: Deletes the data files; this process unless given.

        Raises:
            Invalid: The arguments, or the options, contradict each other.
        """
        given = (retain_min, retain_max, retain, limit)
        if delete_all and any(each is not None for each in given):
            raise Invalid("delete_all retains no changelogs: leave out the other arguments")
        options = self._storage.schema.table_options
        least = options.changelog_retained_min if retain_min is None else retain_min
        if retain_min is None and retain_max is not None:
            least = min(least, retain_max)
        millis = None if retain is None else retain // timedelta(milliseconds=1)
        rules = Retention(
            least,
            options.changelog_retained_max if retain_max is None else retain_max,
            options.changelog_time_retained if millis is None else millis,
            options.snapshot_expire_limit if limit is None else limit,
        )
        return expire_snapshots(
            self._storage,
            self.pointer,
            self.references,
            Retention.everything(),
            changelogs=lambda _: None if delete_all else rules,
            dry_run=dry_run,
            executor=self._watched("deleting files", executor),
        )

    def remove_orphan_files(
        self,
        *,
        older_than: timedelta = timedelta(days=1),
        dry_run: bool = False,
        executor: Executor = FILE_DELETION,
    ) -> OrphanFiles:
        """Delete the files in the table's directory that nothing refers to.

        What a snapshot, tag or changelog of any branch needs stays. Writers that were killed
        leave such files, and so does a tag that is deleted over the API.

        Args:
            older_than: Files that were changed within this time stay. It must be longer than any
                write takes: what is written and not yet committed looks like an orphan.
            dry_run: Only say what would go.
            executor: Deletes the files; this process unless given.

        Raises:
            CorruptData: It cannot be known what is needed; nothing was deleted.
            Invalid: The time is negative.
            Unsupported: The table's files are not Paimon's.
        """
        return remove_orphan_files(
            self._storage,
            self.references,
            self._latest_of_branches,
            older_than_millis=older_than // timedelta(milliseconds=1),
            dry_run=dry_run,
            executor=self._watched("deleting files", executor),
        )

    def remove_unexisting_files(
        self, *, dry_run: bool = False, executor: Executor = FILE_DELETION
    ) -> list[str]:
        """Take the data files that do not exist out of the table, as one commit.

        A table that lost files cannot be read where it needs them. Afterwards it can, without their
        rows: those are lost, and in a table with a primary key older versions of them may come
        back. Earlier snapshots stay as they are, damaged. Where one, or a tag, has all its files,
        `rollback` is the better way.

        Args:
            dry_run: Only say which files those are.
            executor: Looks for the files; this process unless given.

        Returns:
            The files' URIs, sorted.

        Raises:
            Unsupported: The table cannot be written, or rows whose columns are in several files
                (`data-evolution.enabled`) lost some of these.
            CorruptData: A manifest or an index file is missing or damaged; the message names it.
            Conflict: Other commits changed the same files each time.
            OutcomeUnknown: The commit may have happened.
        """
        watched = self._watched("looking for files", executor)
        return remove_missing_files(self._storage, self.pointer, watched, dry_run=dry_run)

    def check_files(self, *, deep: bool = False) -> TableCheck:
        """Check the table to its last file, in all of its branches: nothing is changed.

        Every schema, snapshot, tag and changelog is read, and all that they name: manifests with
        their sizes and counts, data files with their sizes, numbers of rows and indexes, deletion
        vectors with their checksums, and the catalog's snapshots. Tags and consumers that the
        change feed tells of, and earlier snapshots and changelogs that were noted, are warned of if
        they are gone. Others may write meanwhile.

        Args:
            deep: Read every value of every data file, too.

        Raises:
            Unsupported: The table has no snapshots.
        """
        kind = table_type(self._storage.schema.options)
        if not kind.has_snapshots:
            raise Unsupported(f"table {self.name} is of type {kind}: every file there is its data")
        self.require_present()
        check = check_table(self._storage, self._latest_of_branches, self._history, deep=deep)
        if not self._info.is_external:
            with suppress(Forbidden):
                lost = lost_references(self._catalog.events, self._info.id, self._storage)
                check.warnings += lost
                check.feed_was_read = True
        return check

    def _history(self, branch: str) -> dict[int, Snapshot]:
        """The snapshots of a branch as the catalog has them; none of an external table's."""
        if self._info.is_external:
            return {}
        identifier = branch_of(self.identifier, branch)
        try:
            known = all_pages(
                lambda token: self._catalog.snapshots.list(identifier, page_token=token)
            )
        except CorruptData:
            return {}  # the latest one is gone, which is told of by itself
        return {snapshot.id: snapshot for snapshot in known}

    def _latest_of_branches(self) -> dict[str, Snapshot]:
        """The latest snapshots as the catalog has them; none of an external table's."""
        latest: dict[str, Snapshot] = {}
        if self._info.is_external:
            self.require_present()
        else:
            for branch in (MAIN_BRANCH, *self.branches()):
                # Storage has followed every decision about a branch that was asked for.
                loaded = self._catalog.snapshots.latest(branch_of(self.identifier, branch))
                if loaded is not None:
                    latest[branch] = loaded.snapshot
        return latest

    # Shared with writing ----------------------------------------------------------------------

    def _watched(self, action: str, executor: Executor) -> Executor:
        return WatchedExecutor(f"{self.name}: {action}", executor)

    def _kept_up(
        self, snapshot: Snapshot | None, messages: Sequence[CommitMessage] = ()
    ) -> Snapshot | None:
        """The snapshot of a commit, once what is due after it is done."""
        if snapshot is not None:
            with after_commit(self.name, snapshot, "Maintenance"):
                self.keep_up(written={message.partition for message in messages})
        return snapshot

    def _new_commit(
        self, operation: CommitOperation | None = None, *, user: str | None = None
    ) -> TableCommit:
        user = self._runtime.new_uuid() if user is None else user
        return TableCommit(self._storage, self.pointer, user, operation=operation)


class Maintenance:
    """The maintenance methods of one table; made by `Table.maintenance`.

    Each is a method of the table, where its arguments are described.

    Args:
        table: The table's handle.
    """

    def __init__(self, table: TableUpkeep) -> None:
        self.compact = table.compact
        self.compact_manifests = table.compact_manifests
        self.compaction_due = table.compaction_due
        self.expire = table.expire_snapshots
        self.expire_changelogs = table.expire_changelogs
        self.expire_tags = table.expire_tags
        self.expire_partitions = table.expire_partitions
        self.mark_partitions_done = table.mark_partitions_done
        self.create_due_tags = table.create_due_tags
        self.remove_orphan_files = table.remove_orphan_files
        self.remove_unexisting_files = table.remove_unexisting_files
        self.rewrite_file_indexes = table.rewrite_file_indexes
        self.rebuild_bucket_indexes = table.rebuild_bucket_indexes
        self.analyze = table.analyze
        self.check_files = table.check_files
        self._name = table.name

    def __repr__(self) -> str:
        names = [name for name in vars(self) if not name.startswith("_")]
        return f"Maintenance({self._name}: {', '.join(names)})"
