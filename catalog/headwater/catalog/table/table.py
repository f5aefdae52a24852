"""The handle by which a program works on one table.

SDK, Spark and command line use tables through this class alone; what it needs of the catalog is
the `Catalog` protocol, so that it is the same for an embedded catalog and for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.table.files import FileInfo, list_files, partitions_of
from headwater.catalog.table.history import TableHistory
from headwater.catalog.table.scan import Changes, Scan
from headwater.storage.capabilities import unsupported_mode
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.compaction.rewrite import plan_compaction, run_compaction
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
)
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.maintenance.delete import delete_rows
from headwater.storage.maintenance.expire import (
    ExpireResult,
    Retention,
    expire_snapshots,
)
from headwater.storage.maintenance.orphans import OrphanFiles, remove_orphan_files
from headwater.storage.predicate.filter import Predicate, parse_predicate
from headwater.storage.rows.ingest import TabularData, arrow_table
from headwater.storage.rows.partition import static_partition
from headwater.storage.scan.stream import after, plans_before
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.values import arrow_scalar
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["Table"]

T = TypeVar("T")

_COMPACTION_TRIES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Table(TableHistory):
    """A table, to be read and written.

    Made by `headwater.client.Lake.table`. It holds the schema that it was made with: `refresh`
    after somebody else altered the table.

    Args:
        catalog: Who keeps the table.
        info: The table as the catalog has it.
        runtime: Clock and names.
        options: Table options laid over the table's own, for this handle alone.
    """

    # Writing ----------------------------------------------------------------------------------

    def write(
        self,
        data: TabularData,
        row_kinds: pa.Array | pa.ChunkedArray | None = None,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Write rows as one commit: upserts for a primary-key table, appended rows otherwise.

        Args:
            data: Rows with the table's columns, in any order; nullable ones may be missing. An
                Arrow ``RecordBatchReader`` is read batch by batch, within ``write-buffer-size``.
            row_kinds: Each row's kind: ``+I``, ``-U``, ``+U``, ``-D``. A column ``_ROW_KIND`` of
                the data does the same; without either every row is added.
            properties: Free properties of the snapshot.

        Returns:
            The snapshot made; None when there were no rows.

        Raises:
            Invalid: The data does not fit the table; nothing is written.
            Conflict: Other commits were faster each time, or changed the table's buckets.
            OutcomeUnknown: The commit may have happened.
        """
        base = self.pointer.latest()
        states = BucketStates(self._storage, base)
        checked = 0 if base is None else base.id
        messages = self._written(data, row_kinds, states, checked)
        commit = self._new_commit()
        return _settled(commit, messages, lambda: commit.commit(messages, properties=properties))

    def overwrite(
        self,
        data: TabularData,
        partition: Mapping[str, object] | None = None,
        *,
        dynamic: bool | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Replace rows by others as one commit.

        Args:
            data: As for `write`; columns that `partition` names may be missing.
            partition: Replace the partitions with these values (of some or all partition columns),
                whether there are rows for them or not.
            dynamic: Without `partition`: replace only the partitions that there are rows for.
                None takes the option ``dynamic-partition-overwrite``; a table without partitions
                is replaced whole.
            properties: Free properties of the snapshot.

        Returns:
            The snapshot made; None when there was nothing to replace.

        Raises:
            Invalid: The data does not fit the table, or lies outside the partition.
            Conflict, OutcomeUnknown: As `write`.
        """
        storage = self._storage
        if partition is not None:
            data = _with_partition(storage, arrow_table(data), partition)
        messages = self._written(data, None, None, None)
        if dynamic is None:
            dynamic = storage.schema.table_options.dynamic_partition_overwrite
        if partition is not None:
            replaced = PartitionFilter.static(storage, partition)
        elif dynamic and storage.schema.partition_keys:
            if not messages:
                return None
            replaced = PartitionFilter.of(storage, messages)
        else:
            replaced = PartitionFilter.whole_table(storage)
        commit = self._new_commit()
        return _settled(
            commit, messages, lambda: commit.overwrite(messages, replaced, properties=properties)
        )

    def truncate(self) -> Snapshot:
        """Delete all rows as one commit."""
        return self._new_commit().overwrite([], PartitionFilter.whole_table(self._storage))

    def drop_partitions(self, *partitions: Mapping[str, object]) -> Snapshot:
        """Delete all rows of some partitions as one commit.

        Args:
            partitions: Each names some or all partition columns; at least one.

        Raises:
            Invalid: A column is no partition column, or a value is not of its type.
        """
        if not partitions or not all(partitions):
            raise Invalid(f"table {self.name}: name the partitions to drop by their values")
        replaced = PartitionFilter.static(self._storage, *partitions)
        return self._new_commit().overwrite([], replaced)

    def delete(self, where: str | Predicate) -> Snapshot | None:
        """Delete the rows for which a filter is true, as one commit.

        When another commit changes the same rows meanwhile, they are read again and the deletion
        is repeated, up to ``commit.max-retries`` times.

        Returns:
            The snapshot made; None when no row matched.

        Raises:
            Invalid: The filter is not one, or the table ignores deletes.
            NotFound: A column of the filter does not exist.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: The commit may have happened.
        """
        predicate = self._predicate(where, self._storage)
        assert predicate is not None
        retries = self._storage.schema.table_options.commit_max_retries
        while True:
            base = self.pointer.latest()
            if base is None:
                return None
            messages = delete_rows(self._storage, base, predicate)
            if not messages:
                return None
            try:
                return self._commit_deletion(messages, base)
            except Conflict:
                if retries <= 0:
                    raise
                retries -= 1

    def _commit_deletion(
        self, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        commit = self._new_commit()
        if self._storage.schema.primary_keys:
            return _settled(
                commit, messages, lambda: commit.commit(messages, unchanged_since=base.id)
            )
        return _settled(
            commit, messages, lambda: commit.commit(messages, kind=CommitKind.OVERWRITE)
        )

    def _written(
        self,
        data: TabularData,
        row_kinds: pa.Array | pa.ChunkedArray | None,
        states: BucketStates | None,
        checked: int | None,
    ) -> list[CommitMessage]:
        with TableWriter(
            self._storage,
            max_sequence_numbers={} if states is None else states,
            checked_snapshot=checked,
        ) as writer:
            if isinstance(data, pa.RecordBatchReader):
                if row_kinds is not None:
                    raise Invalid("give the row kinds of a stream as its column _ROW_KIND")
                for batch in data:
                    writer.write(batch)
            else:
                writer.write(data, row_kinds)
            return writer.finish()

    def _new_commit(self) -> TableCommit:
        return TableCommit(self._storage, self.pointer, self._runtime.new_uuid())

    # Reading ----------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | str | None = None,
    ) -> Scan:
        """Choose rows to read; ``to_arrow`` and the like read them.

        With a snapshot id, a tag or a timestamp, the rows are those of that time, with the columns
        that the table had then; else those of the latest snapshot.

        Args:
            columns: Which columns, in this order; None means all.
            where: A SQL condition, such as ``dt = '2026-01-01' AND amount > 10``.
            snapshot_id: As of this snapshot.
            tag: As of this tag.
            timestamp: As of this moment: milliseconds since the epoch, a ``datetime`` with a time
                zone, or ISO 8601 text with one.

        Raises:
            NotFound: There is no such column, snapshot or tag, or none at that moment any more.
            Invalid: `where` is not a condition, or more than one moment is given.
        """
        given = [item for item in (snapshot_id, tag, timestamp) if item is not None]
        if len(given) > 1:
            raise Invalid("give at most one of snapshot_id, tag and timestamp")
        storage = self._storage
        if snapshot_id is not None:
            snapshot: Snapshot | None = self.snapshot(snapshot_id)
        elif tag is not None:
            snapshot = self.tag(tag).snapshot
        elif timestamp is not None:
            snapshot = self.snapshot_at(timestamp)
        else:
            snapshot = self.pointer.latest()
        if given and snapshot is not None and snapshot.schema_id != storage.schema.id:
            storage = storage.at_schema(snapshot.schema_id)
        return Scan(storage, snapshot, columns, self._predicate(where, storage))

    def changes(
        self,
        since: int,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        skip_overwrites: bool = False,
    ) -> Changes:
        """Choose what the snapshots after `since`, up to and with `until`, changed.

        The rows bear a column ``_ROW_KIND``. Those of a primary-key table are what was written,
        ``+I`` for inserts and updates alike, unless its ``changelog-producer`` tells more.

        Args:
            since: A snapshot's id; 0 for the beginning.
            until: A snapshot's id; None for the latest.
            columns: Which columns, in this order; None means all.
            where: A SQL condition; each change is judged for itself.
            skip_overwrites: Leave out what overwrites changed, as Paimon does: they say which
                files went, and not which rows. Deleting from an append table is an overwrite.

        Raises:
            NotFound: A snapshot does not exist, or has expired.
            Unsupported: There is an overwrite among the snapshots, and it is not to be skipped.
        """
        storage = self._storage
        predicate = self._predicate(where, storage)
        latest = self.pointer.latest()
        last = (0 if latest is None else latest.id) if until is None else until
        if last > (0 if latest is None else latest.id):
            self.snapshot(last)
        position, end = after(since), after(last)
        plans = list(plans_before(storage, position, end, latest, predicate=predicate))
        if not skip_overwrites:
            self._refuse_overwrites(since, last)
        return Changes(storage, plans, columns, predicate)

    def _refuse_overwrites(self, since: int, until: int) -> None:
        options = self.schema.table_options
        if not self.schema.primary_keys and options.streaming_read_append_overwrite:
            return
        for snapshot_id in range(since + 1, until + 1):
            if self._storage.snapshot(snapshot_id).commit_kind is CommitKind.OVERWRITE:
                raise unsupported_mode(
                    "overwrite among changes",
                    f"table {self.name}: snapshot {snapshot_id} is an overwrite",
                )

    def _predicate(self, where: str | Predicate | None, storage: TableStorage) -> Predicate | None:
        return parse_predicate(where, storage.schema) if isinstance(where, str) else where

    def files(self, *, snapshot_id: int | None = None) -> list[FileInfo]:
        """The data files of the latest snapshot, or of another."""
        snapshot = self.pointer.latest() if snapshot_id is None else self.snapshot(snapshot_id)
        return [] if snapshot is None else list_files(self._storage, snapshot)

    def partitions(self) -> list[PartitionInfo]:
        """What each partition holds.

        A table with ``metastore.partitioned-table`` keeps its partitions in the catalog; those of
        others are read from the latest snapshot's manifests, and have no times and no mark.
        """
        if self.schema.table_options.partitions_in_catalog and not self.info.is_external:
            kept = self.catalog.partitions
            return all_pages(lambda token: kept.list(self.identifier, page_token=token))
        snapshot = self.pointer.latest()
        return [] if snapshot is None else partitions_of(self._storage, snapshot)

    # Maintenance ------------------------------------------------------------------------------

    def compact(self, partition: Mapping[str, object] | None = None) -> Snapshot | None:
        """Rewrite files into fewer: same rows, quicker to read.

        Files that are added meanwhile stay as they are. When another compaction took the same
        files, what is left to do is planned anew.

        Args:
            partition: Only partitions with these values.

        Returns:
            The snapshot made; None when there was nothing to do.

        Raises:
            Conflict: Other commits replaced the same files each time.
            Unsupported: The table's compaction must write a changelog.
            OutcomeUnknown: The commit may have happened.
        """
        wanted = PartitionFilter.static(self._storage, partition or {})
        retries = _COMPACTION_TRIES
        while True:
            base = self.pointer.latest()
            tasks = [] if base is None else plan_compaction(self._storage, base)
            messages: list[CommitMessage] = []
            commit = self._new_commit()
            try:
                for task in tasks:
                    if wanted.includes(task.partition):
                        message = run_compaction(self._storage, task)
                        messages += [] if message is None else [message]
                return commit.commit(messages)
            except OutcomeUnknown:
                raise
            except HeadwaterError as error:
                commit.abort(messages)
                retries -= 1
                if not isinstance(error, Conflict) or not retries:
                    raise

    def expire_snapshots(
        self,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain: timedelta | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Forget old snapshots and delete the files that only they needed.

        Consumers hold back what they have not consumed; tags keep their files. What is not given
        is taken from the table's ``snapshot.…`` options.

        Args:
            retain_min: So many of the latest snapshots stay in any case.
            retain_max: Older ones than so many go even when they are young.
            retain: A snapshot stays until its successor is so old.
            limit: At most so many go.
            dry_run: Only say what would go.

        Raises:
            Invalid: The arguments contradict each other.
            Unsupported: The table keeps changelogs longer than snapshots.
        """
        given = Retention.of(self._storage.schema.table_options)
        if retain_max is not None and retain_min is None:
            # Asked to keep few, an option that keeps more must not stand in the way.
            retain_min = min(given.least, retain_max)
        rules = Retention(
            given.least if retain_min is None else retain_min,
            given.most if retain_max is None else retain_max,
            given.millis if retain is None else retain // timedelta(milliseconds=1),
            given.limit if limit is None else limit,
        )
        return expire_snapshots(self._storage, self.pointer.latest(), rules, dry_run=dry_run)

    def remove_orphan_files(
        self,
        *,
        older_than: timedelta = timedelta(days=1),
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> OrphanFiles:
        """Delete the files in the table's directory that nothing refers to.

        What a snapshot, tag or changelog of any branch needs stays. Writers that were killed
        leave such files, and so does a tag that is deleted over the API.

        Args:
            older_than: Files that were changed within this time stay. It must be longer than any
                write takes: what is written and not yet committed looks like an orphan.
            dry_run: Only say what would go.
            progress: Told how many files are deleted, of how many.

        Raises:
            CorruptData: It cannot be known what is needed; nothing was deleted.
            Invalid: The time is negative.
            Unsupported: The table's files are not Paimon's.
        """
        latest: dict[str, Snapshot] = {}
        if not self._info.is_external:
            for branch in (MAIN_BRANCH, *self.branches()):
                # Storage has followed every decision about a branch that was asked for.
                found = self._catalog.snapshots.latest(branch_of(self.identifier, branch))
                if found is not None:
                    latest[branch] = found.snapshot
        return remove_orphan_files(
            self._storage,
            latest,
            older_than_millis=older_than // timedelta(milliseconds=1),
            dry_run=dry_run,
            progress=progress,
        )


def _settled(commit: TableCommit, messages: Sequence[CommitMessage], work: Callable[[], T]) -> T:
    """Commit; delete the written files if that failed for certain."""
    try:
        return work()
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        commit.abort(messages)
        raise


def _with_partition(
    storage: TableStorage, table: pa.Table, partition: Mapping[str, object]
) -> pa.Table:
    """The rows with the partition columns that they lack."""
    for name, value in static_partition(storage, partition).items():
        if name not in table.column_names:
            data_type = storage.schema.column(name).type
            scalar = arrow_scalar(value, data_type)
            constant = pa.repeat(scalar, table.num_rows).cast(to_arrow(data_type))
            table = table.append_column(name, constant)
    return table
