"""The handle by which a program works on one table.

SDK, Spark and command line use tables through this class alone; what it needs of the catalog is
the `Catalog` protocol, so that it is the same for an embedded catalog and for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import Catalog, ConsumerInfo, Page, TableInfo, TagInfo
from headwater.catalog.scan import Scan
from headwater.storage.bucket_state import BucketStates
from headwater.storage.commit import OutcomeUnknown, TableCommit
from headwater.storage.commit_entries import PartitionFilter, epoch_millis
from headwater.storage.compact import plan_compaction, run_compaction
from headwater.storage.delete import delete_rows
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
)
from headwater.storage.expire import (
    ExpireResult,
    Retention,
    delete_tag_data,
    expire_snapshots,
)
from headwater.storage.file_access import FileAccess, open_file_access
from headwater.storage.ingest import TabularData, arrow_table
from headwater.storage.layout import TableLayout
from headwater.storage.options import TableOptions
from headwater.storage.partition import partition_spec, static_partition
from headwater.storage.predicate import Predicate, parse_predicate
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.scan import live_entries
from headwater.storage.schema import TableSchema
from headwater.storage.schema_change import SchemaChange
from headwater.storage.snapshot import CommitKind, Snapshot
from headwater.storage.snapshot_files import FileSnapshotPointer
from headwater.storage.table_storage import PartitionStatistics, SnapshotPointer, TableStorage
from headwater.storage.types import to_arrow
from headwater.storage.values import arrow_scalar
from headwater.storage.write import CommitMessage, TableWriter

__all__ = ["CatalogPointer", "Consumer", "FileInfo", "Table"]

T = TypeVar("T")

_COMPACTION_TRIES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CatalogPointer:
    """Lets the catalog decide which snapshot of a table is the latest.

    Attributes:
        catalog: Who decides.
        identifier: The table.
        table_id: Its id, so that a table of the same name made later is not mistaken for it.
    """

    catalog: Catalog
    identifier: Identifier
    table_id: str

    def latest(self) -> Snapshot | None:
        """The latest snapshot; None for a table that nobody wrote yet."""
        found = self.catalog.latest_snapshot(self.identifier)
        return None if found is None else found.snapshot

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> bool:
        """Make `snapshot` the latest if `base` still is; False when another commit came first."""
        base_uuid = None if base is None else base.uuid
        return self.catalog.commit_snapshot(
            self.identifier, self.table_id, snapshot, base_uuid, statistics
        )


@dataclass(frozen=True)
class FileInfo:
    """A data file of a table's snapshot.

    Attributes:
        partition: As in its directory's name, ``dt=2026-01-01/hour=7``; empty without partitions.
        bucket: Its bucket.
        level: Its level in the LSM tree.
        row_count: Rows, deletes included.
        delete_row_count: Rows that retract; None when the writer did not count them.
        file_size: Bytes.
        schema_id: The schema it was written with.
        min_sequence_number: Smallest sequence number.
        max_sequence_number: Greatest.
        created_at: Milliseconds since the epoch; None when not known.
        name: The file's name.
    """

    partition: str
    bucket: int
    level: int
    row_count: int
    delete_row_count: int | None
    file_size: int
    schema_id: int
    min_sequence_number: int
    max_sequence_number: int
    created_at: int | None
    name: str


class Table:
    """A table, to be read and written.

    Made by `headwater.client.Lake.table`. It holds the schema that it was made with: `refresh`
    after somebody else altered the table.

    Args:
        catalog: Who keeps the table.
        info: The table as the catalog has it.
        runtime: Clock and names.
        options: Table options laid over the table's own, for this handle alone.
    """

    def __init__(
        self,
        catalog: Catalog,
        info: TableInfo,
        runtime: Runtime = SYSTEM_RUNTIME,
        *,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._catalog = catalog
        self._info = info
        self._runtime = runtime
        self._overlay = dict(options or {})
        self._files: FileAccess = open_file_access(info.path, catalog.storage_options)
        self._storage = self._make_storage()

    def _make_storage(self) -> TableStorage:
        return TableStorage(
            str(self._info.identifier),
            TableLayout(self._info.path.rstrip("/"), self._info.identifier.branch),
            self._files,
            self._info.schema.with_options(self._overlay),
            self._runtime,
        )

    def __repr__(self) -> str:
        return f"Table({self.name})"

    # What it is -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """``database.table``."""
        return str(self._info.identifier)

    @property
    def identifier(self) -> Identifier:
        """The name's parts."""
        return self._info.identifier

    @property
    def info(self) -> TableInfo:
        """The table as the catalog has it."""
        return self._info

    @property
    def catalog(self) -> Catalog:
        """Who keeps the table."""
        return self._catalog

    @property
    def schema(self) -> TableSchema:
        """Its columns, keys and options."""
        return self._storage.schema

    @property
    def storage(self) -> TableStorage:
        """What storage functions take; it pickles without a connection to the catalog."""
        return self._storage

    @property
    def pointer(self) -> SnapshotPointer:
        """Who decides which snapshot is the latest: for an external table its own files."""
        if self._info.is_external:
            return FileSnapshotPointer(self._files, self._storage.layout)
        return CatalogPointer(self._catalog, self._info.identifier, self._info.id)

    def refresh(self) -> Table:
        """Take over what the catalog now says of the table; the handle itself.

        Raises:
            NotFound: The table was dropped.
        """
        self._info = self._catalog.get_table(self._info.identifier)
        self._storage = self._make_storage()
        return self

    def with_options(self, options: Mapping[str, str]) -> Table:
        """Another handle with table options laid over; the table itself keeps its own."""
        return Table(self._catalog, self._info, self._runtime, options={**self._overlay, **options})

    def alter(self, *changes: SchemaChange) -> Table:
        """Apply changes to the schema, all or none; the handle itself, refreshed.

        Raises:
            AlreadyExists, Invalid, NotFound: As `Catalog.alter_table`.
        """
        self._catalog.alter_table(self._info.identifier, changes)
        return self.refresh()

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
            dynamic = TableOptions(storage.schema.options).dynamic_partition_overwrite
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
        retries = TableOptions(self._storage.schema.options).commit_max_retries
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
            then = storage.schema_by_id(snapshot.schema_id)
            storage = storage.with_schema(replace(then, options=storage.schema.options))
        return Scan(storage, snapshot, columns, self._predicate(where, storage))

    def _predicate(self, where: str | Predicate | None, storage: TableStorage) -> Predicate | None:
        return parse_predicate(where, storage.schema) if isinstance(where, str) else where

    def files(self, *, snapshot_id: int | None = None) -> list[FileInfo]:
        """The data files of the latest snapshot, or of another."""
        snapshot = self.pointer.latest() if snapshot_id is None else self.snapshot(snapshot_id)
        if snapshot is None:
            return []
        found: list[FileInfo] = []
        for entry in live_entries(self._storage, snapshot):
            file = entry.file
            spec = partition_spec(self._storage, entry.partition)
            found.append(
                FileInfo(
                    "/".join(f"{name}={value}" for name, value in spec),
                    entry.bucket,
                    file.level,
                    file.row_count,
                    file.delete_row_count,
                    file.file_size,
                    file.schema_id,
                    file.min_sequence_number,
                    file.max_sequence_number,
                    None if file.creation_time is None else epoch_millis(file.creation_time),
                    file.file_name,
                )
            )
        return sorted(found, key=lambda file: (file.partition, file.bucket, file.level, file.name))

    # Snapshots and tags -----------------------------------------------------------------------

    def latest_snapshot(self) -> Snapshot | None:
        """The latest snapshot; None for a table that nobody wrote yet."""
        return self.pointer.latest()

    def snapshots(self) -> list[Snapshot]:
        """The snapshots that still exist, newest first."""
        return _all_pages(
            lambda token: self._catalog.list_snapshots(self.identifier, page_token=token)
        )

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot; NotFound (SNAPSHOT)."""
        return self._catalog.get_snapshot(self.identifier, str(snapshot_id))

    def snapshot_at(self, timestamp: int | datetime | str) -> Snapshot:
        """The latest snapshot that was committed at or before a moment.

        Args:
            timestamp: Milliseconds since the epoch, a ``datetime`` with a time zone, or ISO 8601
                text with one.

        Raises:
            NotFound: The table had no snapshot then, or it has expired.
            Invalid: The time zone is missing, or the text is not a time.
        """
        moment = _millis(timestamp)
        latest = self.pointer.latest()
        missing = NotFound(
            f"table {self.name} has no snapshot from before {timestamp}: there was none, or it "
            "has expired",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=str(timestamp),
        )
        if latest is None:
            raise missing
        if latest.time_millis <= moment:
            return latest
        found = self._catalog.get_snapshot(self.identifier, "EARLIEST")
        if found.time_millis > moment:
            raise missing
        # Times follow ids, and ids have no gaps.
        low, high = found.id, latest.id
        while high - low > 1:
            middle = self.snapshot((low + high) // 2)
            if middle.time_millis <= moment:
                low, found = middle.id, middle
            else:
                high = middle.id
        return found

    def rollback(self, *, snapshot_id: int | None = None, tag: str | None = None) -> None:
        """Make an earlier snapshot the latest; later snapshots and their tags go away.

        Raises:
            NotFound: There is no such snapshot or tag.
            Invalid: Neither or both are given.
        """
        if (snapshot_id is None) == (tag is None):
            raise Invalid("give one of snapshot_id and tag")
        if snapshot_id is not None:
            self._catalog.rollback_to_snapshot(self.identifier, snapshot_id)
        elif tag is not None:
            self._catalog.rollback_to_tag(self.identifier, tag)

    def tags(self) -> list[TagInfo]:
        """The tags, by name."""
        names = _all_pages(lambda token: self._catalog.list_tags(self.identifier, page_token=token))
        return [self.tag(name) for name in names]

    def tag(self, name: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        return self._catalog.get_tag(self.identifier, name)

    def create_tag(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        retained: timedelta | None = None,
    ) -> None:
        """Name a snapshot, so that expiry keeps what it needs to be read.

        Args:
            name: The tag.
            snapshot_id: The snapshot; None names the latest.
            retained: How long the tag is to be kept; None is for ever.

        Raises:
            AlreadyExists: There is a tag of that name.
            NotFound: There is no such snapshot.
        """
        millis = None if retained is None else retained // timedelta(milliseconds=1)
        self._catalog.create_tag(self.identifier, name, snapshot_id, retained_millis=millis)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that it alone kept.

        Raises:
            NotFound: There is no such tag.
        """
        tagged = self.tag(name).snapshot
        self._catalog.delete_tag(self.identifier, name)
        delete_tag_data(self._storage, tagged, self.pointer.latest())

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
        given = Retention.of(TableOptions(self._storage.schema.options))
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

    # Consumers --------------------------------------------------------------------------------

    def consumer(self, consumer_id: str) -> Consumer:
        """A consumer, whether it has a saved position or not."""
        return Consumer(self, consumer_id)

    def consumers(self) -> list[ConsumerInfo]:
        """The saved positions, by consumer id."""
        return _all_pages(
            lambda token: self._catalog.list_consumers(self.identifier, page_token=token)
        )


class Consumer:
    """A saved position in a table's history; made by `Table.consumer`.

    Args:
        table: The table.
        consumer_id: The name readers use.
    """

    def __init__(self, table: Table, consumer_id: str) -> None:
        self._table = table
        self.consumer_id = consumer_id

    def __repr__(self) -> str:
        return f"Consumer({self.consumer_id} of {self._table.name})"

    @property
    def next_snapshot(self) -> int | None:
        """The first snapshot not yet consumed; None when there is no saved position."""
        for info in self._table.consumers():
            if info.consumer_id == self.consumer_id:
                return info.next_snapshot
        return None

    @property
    def lag(self) -> int | None:
        """Snapshots not yet consumed; None when there is no saved position."""
        position = self.next_snapshot
        if position is None:
            return None
        latest = self._table.latest_snapshot()
        return 0 if latest is None else max(0, latest.id + 1 - position)

    def advance(self, next_snapshot: int) -> None:
        """Move forward, once everything before a snapshot has been consumed for good.

        Raises:
            Conflict: The saved position is further on: another reader uses the same id.
        """
        position = self.next_snapshot
        if position is not None and position > next_snapshot:
            raise Conflict(
                f"table {self._table.name}: consumer '{self.consumer_id}' is at snapshot "
                f"{position} already, which is after {next_snapshot}; is another reader using "
                "the same id?"
            )
        self.reset(next_snapshot)

    def reset(self, next_snapshot: int) -> None:
        """Move to any snapshot, making the consumer if need be.

        Raises:
            Invalid: The id cannot name a consumer, or the snapshot's id is not positive.
        """
        self._table.catalog.reset_consumer(self._table.identifier, self.consumer_id, next_snapshot)

    def delete(self) -> None:
        """Forget the position; nothing happens when there is none."""
        self._table.catalog.reset_consumer(self._table.identifier, self.consumer_id, None)


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


def _millis(timestamp: int | datetime | str) -> int:
    if isinstance(timestamp, int):
        return timestamp
    moment = timestamp
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise Invalid(f"'{timestamp}' is not a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise Invalid(f"{timestamp} has no time zone; write 2026-01-31T12:00:00Z for UTC")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _all_pages(page: Callable[[str | None], Page[T]]) -> list[T]:
    found: list[T] = []
    token: str | None = None
    while True:
        result = page(token)
        found += result.items
        token = result.next_token
        if token is None:
            return found
