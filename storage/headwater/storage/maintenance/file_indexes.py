"""Give existing data files the indexes that the table's options ask for.

A file whose indexes are damaged, or not those of the options, is committed again under its name,
with other indexes: its rows are read, and no data file is written. Source:
``FileIndexProcessor.java``, ``RewriteFileIndexSink.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.storage.capabilities import Operation
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.errors import CorruptData, HeadwaterError
from headwater.storage.index.file_index.build import Bodies, FileIndexBuilder, container_bytes
from headwater.storage.index.file_index.check import check_bodies
from headwater.storage.index.file_index.data_file import (
    INDEX_SUFFIX,
    file_indexes_of,
    index_files,
)
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.file_indexes import FileIndex, takes_type, written_file_indexes
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["IndexTask", "plan_file_indexes", "run_file_indexes"]

_BATCH_ROWS = 65536


@dataclass(frozen=True)
class IndexTask:
    """A data file whose indexes may not be those of the options; it pickles.

    Attributes:
        base: The snapshot it was planned in.
        partition: Serialised partition values.
        bucket: The bucket id.
        total_buckets: Buckets of the partition.
        file: The file.
    """

    base: SnapshotIdentity
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.file_size


def plan_file_indexes(
    storage: TableStorage, snapshot: Snapshot, wanted: PartitionFilter, *, rebuild: bool = False
) -> list[IndexTask]:
    """The files to look at.

    Args:
        storage: The table.
        snapshot: The snapshot.
        wanted: The partitions whose files are meant.
        rebuild: Whether all files with an index are.

    Raises:
        Unsupported: The table cannot be written, or Headwater does not write such an index.
    """
    storage.refuse(Operation.READ | Operation.WRITE)
    indexes = written_file_indexes(storage.schema.options, storage.schema.fields)
    tasks: list[IndexTask] = []
    for entry in live_entries(storage, snapshot):
        if not wanted.includes(entry.partition):
            continue
        directory = bucket_directory(storage, entry.partition, entry.bucket)
        stored = storage.schema_by_id(entry.file.schema_id)
        expected = _of_file(indexes, storage.schema, stored)
        path = entry.file.external_path or f"{directory}/{entry.file.file_name}"
        # An index file beside the data file is looked at when the task runs.
        is_due = bool(index_files(entry.file)) or (rebuild and bool(expected))
        if is_due or not _has_right_ones(storage, entry.file, path, expected):
            tasks.append(
                IndexTask(
                    snapshot.identity,
                    entry.partition,
                    entry.bucket,
                    entry.total_buckets,
                    entry.file,
                )
            )
    return tasks


def run_file_indexes(
    storage: TableStorage, task: IndexTask, *, rebuild: bool = False
) -> CommitMessage | None:
    """Build what a file lacks and drop what nothing asks for; None if it is as it should be.

    Args:
        storage: The table.
        task: The file.
        rebuild: Whether to build all indexes, whatever there is.

    Raises:
        CorruptData: The data file is missing or damaged; the message names it.
    """
    file = task.file
    directory = bucket_directory(storage, task.partition, task.bucket)
    path = file.external_path or f"{directory}/{file.file_name}"
    indexes = written_file_indexes(storage.schema.options, storage.schema.fields)
    stored = storage.at_schema(file.schema_id)
    expected = _of_file(indexes, storage.schema, stored.schema)
    present: Bodies = {}
    is_whole = not rebuild
    if is_whole:
        try:
            present = _bodies(storage, file, path)
        except CorruptData:
            is_whole = False
    if is_whole and _has_only(present, expected):
        return None
    bodies: dict[str, dict[str, bytes | None]] = {}
    for index in expected:
        if index.kind in present.get(index.name, {}):
            bodies.setdefault(index.name, {})[index.kind] = present[index.name][index.kind]
    missing = [index for index in expected if index.kind not in bodies.get(index.name, {})]
    if missing:
        builder = FileIndexBuilder(missing, stored.schema.field_by_name)
        files = BucketFiles(stored, directory, partition_values(storage, task.partition))
        columns = list(dict.fromkeys(index.column for index in missing))
        # Deleted rows, too: an index counts all that are in the file.
        for batch in files.open(file).rows(columns, None, _BATCH_ROWS):
            builder.add(pa.Table.from_batches([batch]))
        for name, kinds in builder.bodies().items():
            bodies.setdefault(name, {}).update(kinds)
    if is_whole and _names(bodies) == _names(present):
        # An index that cannot hold the file's values stays away.
        return None
    indexed = _with_indexes(storage, file, path, expected, bodies)
    return CommitMessage(
        task.partition,
        task.bucket,
        task.total_buckets,
        compact_before=(file,),
        compact_after=(indexed,),
        checked_snapshot=task.base,
    )


def _bodies(storage: TableStorage, file: DataFile, path: str) -> Bodies:
    """All indexes of a file, checked; raises CorruptData."""
    container = file_indexes_of(storage.files, file, path)
    if container is None:
        return {}
    check_bodies(container, storage.schema_by_id(file.schema_id), file.row_count)
    return container.bodies()


def _has_right_ones(
    storage: TableStorage, file: DataFile, path: str, expected: Sequence[FileIndex]
) -> bool:
    """Whether the indexes of a file are whole and those of the options."""
    try:
        return _has_only(_bodies(storage, file, path), expected)
    except CorruptData:
        return False


def _of_file(
    indexes: Sequence[FileIndex], present: TableSchema, stored: TableSchema
) -> list[FileIndex]:
    """The indexes that a file can have, under the names that its columns have in it."""
    possible: list[FileIndex] = []
    for index in indexes:
        column = stored.field_by_id.get(present.field_by_name[index.column].id)
        if column is not None and takes_type(index, column):
            possible.append(replace(index, column=column.name))
    return possible


def _has_only(present: Bodies, expected: Sequence[FileIndex]) -> bool:
    """Whether the indexes are those expected."""
    return _names(present) == {(index.name, index.kind) for index in expected}


def _names(indexes: Mapping[str, Mapping[str, object]]) -> set[tuple[str, str]]:
    return {(name, kind) for name, kinds in indexes.items() for kind in kinds}


def _with_indexes(
    storage: TableStorage,
    file: DataFile,
    path: str,
    indexes: Sequence[FileIndex],
    bodies: Mapping[str, Mapping[str, bytes | None]],
) -> DataFile:
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    if not bodies:
        return replace(file, extra_files=others, embedded_file_index=None)
    data = container_bytes(indexes, bodies)
    if len(data) <= storage.schema.table_options.file_index_threshold:
        return replace(file, extra_files=others, embedded_file_index=data)
    # A name of its own: earlier snapshots may need the index file that there was.
    name = f"{file.file_name}-{storage.runtime.new_uuid()}{INDEX_SUFFIX}"
    location = f"{path.rsplit('/', 1)[0]}/{name}"
    try:
        storage.files.write(location, data)
    except HeadwaterError:
        with suppress(HeadwaterError):
            storage.files.delete(location)
        raise
    return replace(file, extra_files=(*others, name), embedded_file_index=None)
