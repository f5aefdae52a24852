"""Change rows of a primary-key table where they stand: files are written anew.

Where a new row is merged with the stored one of its key and does not take its place, a change can
not be told by writing rows: a sum would add to it, a first row would stay. So the rows of a range
of keys are merged, as a compaction does, and those that match are written changed, or not at all.
Only ranges that hold such rows are written; what comes later is merged with the changed rows.

Files whose rows streams have not been told of must be compacted before, see `waiting_buckets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.compaction.key_clustering import ClusteredWriter
from headwater.storage.compaction.levels import Levels
from headwater.storage.errors import Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.manifest import index_entries
from headwater.storage.maintenance.carried_blobs import carried, carried_columns, shown_columns
from headwater.storage.maintenance.matched_rows import Matched, RowMatcher
from headwater.storage.maintenance.sorted_changes import SortedChanges
from headwater.storage.manifest.data_file import DataFile, FileSource, ManifestEntry
from headwater.storage.merge.changes import equal_rows
from headwater.storage.options import ChangelogProducer, MergeEngine
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.predicate.filter import (
    Predicate,
    columns_of,
    filter_rows,
    to_expression,
)
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.by_bucket import Bucket, by_bucket
from headwater.storage.rows.gather import take_rows
from headwater.storage.rows.ingest import coerce
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.sections import Section, key_sections
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.cross_partition_writer import CrossPartitionWriter
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.managed_blobs import BlobPacks, refuse_descriptors
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["RewriteTask", "plan_key_rewrite", "rewrite_keys", "rewrites_files", "waiting_buckets"]

_BATCH_ROWS = 65536


@dataclass(frozen=True)
class RewriteTask:
    """A bucket that may hold rows that change; it pickles.

    Attributes:
        base: The snapshot that the rows are read from.
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition.
        files: All files of the bucket.
        candidates: The names of those whose keys may be wanted ones.
        deletion_files: The places of the files' deletion vectors, by the names of the files.
    """

    base: SnapshotIdentity
    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    candidates: frozenset[str]
    deletion_files: Mapping[str, DeletionFile]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def rewrites_files(storage: TableStorage, *, deletes: bool) -> bool:
    """True if rows of a table are changed by writing files anew, and not by writing rows.

    Args:
        storage: The table.
        deletes: True if rows are deleted.
    """
    options = storage.schema.table_options
    if not storage.schema.primary_keys:
        return False
    return options.merge_engine is not MergeEngine.DEDUPLICATE or (
        deletes and options.ignore_delete
    )


def waiting_buckets(
    storage: TableStorage, snapshot: Snapshot, predicate: Predicate | None
) -> set[Bucket]:
    """The buckets to be compacted before files with rows that match a filter are written anew.

    Some of their rows are not part of the table before, or no changelog tells of them yet.

    Args:
        storage: The table, with a primary key.
        snapshot: The snapshot.
        predicate: The filter; None means all rows.
    """
    options = CompactionOptions(storage.schema.options)
    producer = options.changelog_producer
    tells_all = producer is ChangelogProducer.FULL_COMPACTION
    if not (tells_all or producer is ChangelogProducer.LOOKUP or options.hides_level_zero):
        return set()
    waiting: set[Bucket] = set()
    for bucket, entries in _buckets(storage, snapshot, predicate).items():
        files = [entry.file for entry in entries]
        least = Levels.of(files, options.highest_level).highest if tells_all else 1
        if any(file.level < least for file in files):
            waiting.add(bucket)
    return waiting


def plan_key_rewrite(
    storage: TableStorage, snapshot: Snapshot, predicate: Predicate | None
) -> list[RewriteTask]:
    """The buckets whose rows may match a filter.

    Args:
        storage: The table, with a primary key.
        snapshot: The snapshot that the rows are read from.
        predicate: The filter; None means all rows.

    Raises:
        CorruptData: A manifest is missing or malformed; the message names it.
    """
    wanted = live_entries(storage, snapshot, predicate=predicate)
    names = frozenset(entry.file.file_name for entry in wanted)
    buckets = _buckets(storage, snapshot, predicate)
    vectors = deletion_files_by_bucket(storage, index_entries(storage, snapshot), buckets)
    return [
        RewriteTask(
            snapshot.identity,
            partition,
            bucket,
            entries[0].total_buckets,
            tuple(entry.file for entry in entries),
            names.intersection(entry.file.file_name for entry in entries),
            vectors.get((partition, bucket), {}),
        )
        for (partition, bucket), entries in buckets.items()
    ]


def _buckets(
    storage: TableStorage, snapshot: Snapshot, predicate: Predicate | None
) -> dict[Bucket, list[ManifestEntry]]:
    """All files of the buckets in which keys may be wanted ones."""
    wanted = {
        (entry.partition, entry.bucket)
        for entry in live_entries(storage, snapshot, predicate=predicate)
        if entry.bucket != POSTPONE_BUCKET
    }
    found = by_bucket(live_entries(storage, snapshot, partitions={one for one, _ in wanted}))
    return {bucket: entries for bucket, entries in found.items() if bucket in wanted}


def rewrite_keys(
    storage: TableStorage,
    task: RewriteTask,
    matcher: RowMatcher | SortedChanges,
    elsewhere: CrossPartitionWriter | None = None,
) -> CommitMessage | None:
    """Write the files of a bucket that hold rows that change anew.

    Args:
        storage: The table.
        task: The bucket.
        matcher: Says which rows change.
        elsewhere: Writes the rows that come to lie in another partition, of a table whose keys
            are unique across partitions.

    Returns:
        A message whose files take the place of others; None when no row matches.

    Raises:
        Invalid: New rows do not fit the table.
        Unsupported: Rows come to lie in another partition, and nothing is to write them there.
        CorruptData: A file is missing or damaged; the message names it.
    """
    rewrite = _Rewrite(storage, task, matcher, elsewhere)
    try:
        rewrite.run()
    except BaseException:
        rewrite.abort()
        raise
    return rewrite.message()


class _Rewrite:
    """Does one task."""

    def __init__(
        self,
        storage: TableStorage,
        task: RewriteTask,
        matcher: RowMatcher | SortedChanges,
        elsewhere: CrossPartitionWriter | None,
    ) -> None:
        self._storage = storage
        self._task = task
        self._matcher = matcher
        self._elsewhere = elsewhere
        self._options = CompactionOptions(storage.schema.options)
        directory = bucket_directory(storage, task.partition, task.bucket)
        values = partition_values(storage, task.partition)
        self._files = BucketFiles(storage, directory, values, task.deletion_files)
        self._columns = [item.name for item in storage.schema.fields]
        self._shown = shown_columns(storage.schema, matcher.predicate)
        self._carried = carried_columns(storage.schema, matcher.changed)
        self._packs = BlobPacks(storage, task.partition, task.bucket)
        self._compared = self._options.compared_columns(self._columns)
        self._level = Levels.of(task.files, self._options.highest_level).highest
        self._writers: list[DataFileWriter | ClusteredWriter] = []
        self._changes: DataFileWriter | None = None
        self._before: list[DataFile] = []
        self._after: list[DataFile] = []

    def run(self) -> None:
        for section in key_sections(self._storage, self._task.files):
            names = {file.file_name for file in section.files}
            if names & self._task.candidates and self._may_match(section):
                self._rewrite(section)

    def abort(self) -> None:
        for writer in self._writers:
            writer.abort()
        self._packs.abort()

    def message(self) -> CommitMessage | None:
        if not self._before:
            return None
        task = self._task
        try:
            changelog = () if self._changes is None else tuple(self._changes.finish())
        except BaseException:
            self.abort()
            raise
        return CommitMessage(
            task.partition,
            task.bucket,
            task.total_buckets,
            compact_before=tuple(self._before),
            compact_after=tuple(self._after),
            changelog_files=changelog,
            checked_snapshot=task.base,
            blob_packs=tuple(self._packs.paths),
        )

    def _may_match(self, section: Section) -> bool:
        if isinstance(self._matcher, SortedChanges):
            return self._matcher.may_change(section)
        predicate = self._matcher.predicate
        if predicate is None:
            return True
        columns = sorted(columns_of(predicate))
        matches = to_expression(predicate, self._storage.schema)
        rows = self._files.merged(section.files, columns, predicate, _BATCH_ROWS)
        return any(filter_rows(batch, matches).num_rows for batch in rows)

    def _rewrite(self, section: Section) -> None:
        """Write a section's merged rows anew; leave its files when none of them changes."""
        writer = self._row_writer()
        changed = False
        for rows in self._merged(section):
            matched = self._matcher.match(rows.select(self._shown))
            if len(matched.taken) or (matched.gone is not None and len(matched.gone)):
                changed = True
                rows = self._changed(rows, matched)
            writer.write(pa.Table.from_batches([rows]))
        if not changed:
            writer.abort()
            return
        self._before += section.files
        self._after += writer.finish()

    def _merged(self, section: Section) -> Iterator[pa.RecordBatch]:
        wanted = [*self._columns, SEQUENCE_FIELD.name, KIND_FIELD.name]
        for rows in self._files.merge(section, wanted, ordered=True, batch_rows=_BATCH_ROWS):
            yield rows.select(wanted)

    def _changed(self, rows: pa.RecordBatch, matched: Matched) -> pa.RecordBatch:
        """Merged rows with the new versions of those that match; the changelog tells of them."""
        old = rows.take(pa.array(matched.taken))
        places = np.arange(rows.num_rows)
        if matched.added is None:
            self._take_away(old)
            return rows.take(pa.array(np.delete(places, matched.taken)))
        gone = np.empty(0, np.int64) if matched.gone is None else matched.gone
        if len(gone):
            self._take_away(rows.take(pa.array(gone)))
        if not old.num_rows:
            return rows.take(pa.array(np.delete(places, gone)))
        new = self._new_rows(carried(matched.added, rows, matched.taken, self._carried), old)
        count = old.num_rows
        told = np.arange(count)
        stays = equal_rows(old, told, new, told, self._storage.schema.partition_keys)
        if not stays.all():
            self._move(old.filter(pa.array(~stays)), new.filter(pa.array(~stays)))
        told = told[stays]
        if self._compared is not None:
            told = told[~equal_rows(old, told, new, told, self._compared)]
        self._tell(
            [_of_kind(old, RowKind.UPDATE_BEFORE), _of_kind(new, RowKind.UPDATE_AFTER)],
            np.stack([told, told + count], axis=1).reshape(-1),
        )
        places[matched.taken] = rows.num_rows + np.arange(count)
        left = np.concatenate([matched.taken[~stays], gone])
        return take_rows([rows, new], np.delete(places, left))

    def _take_away(self, old: pa.RecordBatch) -> None:
        self._tell([_of_kind(old, RowKind.DELETE)], np.arange(old.num_rows))
        if self._elsewhere is not None:
            self._elsewhere.forget(old)

    def _move(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Take rows out of their partition, and have them written to another one."""
        if self._elsewhere is None:
            raise Unsupported(
                f"table {self._storage.name}: rows of a table whose keys have buckets of their own "
                "in each partition cannot be updated to lie in another one; delete them and write "
                "them anew"
            )
        self._take_away(old)
        moved = pa.Table.from_batches([new.select(self._columns)])
        self._elsewhere.write(moved, stored_blobs=managed_blob_columns(self._storage.schema))

    def _new_rows(self, added: pa.Table, old: pa.RecordBatch) -> pa.RecordBatch:
        """New versions in the columns of the files, as old as the rows whose place they take."""
        storage = self._storage
        fitting = coerce(added, storage.schema, storage.name, storage.runtime.time_zone)
        refuse_descriptors(storage, fitting, self._carried)
        columns = [fitting.column(name).combine_chunks() for name in self._columns]
        new = pa.RecordBatch.from_arrays(
            [*columns, old.column(SEQUENCE_FIELD.name), old.column(KIND_FIELD.name)],
            schema=old.schema,
        )
        return self._packs.stored(_of_kind(new, RowKind.INSERT))

    def _tell(self, rows: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64]) -> None:
        if self._options.changelog_producer is ChangelogProducer.NONE or not len(order):
            return
        if self._changes is None:
            self._changes = self._writer(changelog=True)
        self._changes.write(pa.Table.from_batches([take_rows(rows, order)]))

    def _row_writer(self) -> DataFileWriter | ClusteredWriter:
        if not self._options.overrides_key_order:
            return self._writer()
        writer = ClusteredWriter(self._storage, self._task.partition, self._task.bucket)
        self._writers.append(writer)
        return writer

    def _writer(self, *, changelog: bool = False) -> DataFileWriter:
        writer = DataFileWriter(
            self._storage,
            self._task.partition,
            self._task.bucket,
            level=self._level,
            source=FileSource.COMPACT,
            changelog=changelog,
        )
        self._writers.append(writer)
        return writer


def _of_kind(rows: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    at = rows.schema.get_field_index(KIND_FIELD.name)
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows)
    return rows.set_column(at, rows.schema.field(at), kinds)
