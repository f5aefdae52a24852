"""Sort compaction: the rows of a partition in an order, in files that do not overlap.

Deleted rows are left out; their deletion vectors go with the files that are replaced. Source:
``SortCompactAction.java``, ``CompactProcedure.java``. These overwrite partitions and lose what is
added to them meanwhile; here the files that were read are replaced, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.storage.capabilities import Operation, unsupported_mode
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.compaction.sort_key import SortKey
from headwater.storage.compaction.universal import CompactionUnit
from headwater.storage.errors import Invalid
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileSource, ManifestEntry
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.by_bucket import Bucket, by_bucket
from headwater.storage.rows.external_sort import BATCH_ROWS, sorted_batches
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.sections import pack_in_order
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["SortTask", "files_by_bucket", "plan_sort", "run_sort", "sort_tasks"]

_LEAST_MEMORY = 1 << 20


@dataclass(frozen=True)
class SortTask:
    """Files of one bucket whose rows are to be sorted; it pickles.

    Attributes:
        base: The snapshot it was planned in.
        partition: Serialised partition values.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition.
        key: The order.
        groups: The files; the rows of each group are sorted by themselves.
        output_level: The level of the new files.
        deletion_files: The places of the files' deletion vectors, by the names of the files.
    """

    base: SnapshotIdentity
    partition: bytes
    bucket: int
    total_buckets: int
    key: SortKey
    groups: tuple[tuple[DataFile, ...], ...]
    output_level: int = 0
    deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict, hash=False)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files to be rewritten."""
        return tuple(file for group in self.groups for file in group)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def plan_sort(
    storage: TableStorage, snapshot: Snapshot, key: SortKey, wanted: PartitionFilter
) -> list[SortTask]:
    """Plan to sort all rows of each partition; a partition is a task.

    Args:
        storage: The table.
        snapshot: The snapshot whose files are sorted.
        key: The order.
        wanted: The partitions to sort.

    Raises:
        Invalid: Rows of the table have an order already: that of its key, of writing in a bucket,
            or of its incremental clustering.
        Unsupported: The table cannot be written or compacted.
    """
    options = CompactionOptions(storage.schema.options)
    if storage.schema.primary_keys or options.bucket != -1:
        raise Invalid(
            f"table {storage.name}: only a table without a primary key and with 'bucket' = '-1' "
            "can be sorted; in others the key, or the order of writing, says where a row is"
        )
    if options.clusters_incrementally:
        raise Invalid(
            f"table {storage.name}: 'clustering.incremental' sorts the table by "
            "'clustering.columns'; compact it without an order"
        )
    useless = [name for name in key.columns if name in storage.schema.partition_keys]
    if useless:
        raise Invalid(
            f"table {storage.name}: '{useless[0]}' is a partition column, of which a file has one "
            "value; leave it out of the columns to sort by"
        )
    buckets = files_by_bucket(storage, snapshot)
    chosen = wanted.chosen(partition for partition, _ in buckets)
    return sort_tasks(
        storage,
        snapshot,
        key,
        [
            (entries, CompactionUnit(0, tuple(entry.file for entry in entries)))
            for (partition, _), entries in buckets.items()
            if partition in chosen
        ],
    )


def files_by_bucket(storage: TableStorage, snapshot: Snapshot) -> dict[Bucket, list[ManifestEntry]]:
    """The files of each bucket of a table that is to be compacted.

    Raises:
        Unsupported: The table cannot be written or compacted.
    """
    storage.refuse(Operation.WRITE | Operation.COMPACT)
    refuse_formats(storage.schema)
    if storage.schema.table_options.evolves_columns:
        raise unsupported_mode(
            "sorting of column files", f"table {storage.name} has 'data-evolution.enabled' = 'true'"
        )
    return by_bucket(live_entries(storage, snapshot))


def sort_tasks(
    storage: TableStorage,
    snapshot: Snapshot,
    key: SortKey,
    picked: Sequence[tuple[Sequence[ManifestEntry], CompactionUnit]],
    group_bytes: int | None = None,
) -> list[SortTask]:
    """Tasks that sort files.

    Args:
        storage: The table.
        snapshot: The snapshot that has them.
        key: The order.
        picked: The files of a bucket, and those of them to be sorted.
        group_bytes: Bytes of files whose rows are sorted by themselves; None sorts all together.
    """
    buckets = [(entries[0].partition, entries[0].bucket) for entries, _ in picked]
    vectors = deletion_files_by_bucket(storage, index_entries(storage, snapshot), buckets)
    tasks: list[SortTask] = []
    for bucket, (entries, unit) in zip(buckets, picked, strict=True):
        groups: list[Sequence[DataFile]] = [unit.files]
        if group_bytes is not None:
            groups = list(pack_in_order(unit.files, lambda file: file.file_size, group_bytes))
        tasks.append(
            SortTask(
                snapshot.identity,
                *bucket,
                entries[0].total_buckets,
                key,
                tuple(tuple(group) for group in groups),
                unit.output_level,
                vectors.get(bucket, {}),
            )
        )
    return tasks


def run_sort(storage: TableStorage, task: SortTask) -> CommitMessage:
    """Write the rows of a task's files in order, as files of ``target-file-size``.

    Memory is bounded by ``write-buffer-size``; what does not fit is sorted on the local disk.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
        Unavailable: The local disk is full.
    """
    writer = DataFileWriter(
        storage,
        task.partition,
        task.bucket,
        level=task.output_level,
        source=FileSource.COMPACT,
        first_sequence=min(file.min_sequence_number for file in task.files),
        keeps_row_ids=storage.schema.table_options.tracks_rows,
    )
    memory = max(_LEAST_MEMORY, storage.schema.table_options.write_buffer_size // 2)
    try:
        for group in task.groups:
            for batch in sorted_batches(_Files(storage, task, group), task.key, memory):
                writer.write(pa.Table.from_batches([batch]))
            if len(task.groups) > 1:
                writer.roll()
        written = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=task.files,
        compact_after=tuple(written),
        checked_snapshot=task.base,
    )


class _Files:
    """The rows of data files; a `RowSource`."""

    def __init__(self, storage: TableStorage, task: SortTask, files: Sequence[DataFile]) -> None:
        self._columns = storage.schema.moved_columns
        self._files = files
        self._bucket = BucketFiles(
            storage,
            bucket_directory(storage, task.partition, task.bucket),
            partition_values(storage, task.partition),
            task.deletion_files,
        )

    @property
    def row_count(self) -> int:
        """The number of rows, deleted ones included."""
        return sum(file.row_count for file in self._files)

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, file by file."""
        return self._bucket.plain(self._files, columns or self._columns, None, batch_rows)
