"""Delete the rows that match a filter.

A primary-key table gets ``-D`` rows for the keys that match, where these end the rows of their
keys; elsewhere `key_rewrite` takes the rows out of their files. An append table with
``deletion-vectors.enabled`` gets vectors that mark the rows, another one new files in place of
those that hold matching rows, without them. Either way the commit must know from which snapshot
the rows were read, see `TableCommit.commit`. The pieces of work are independent and pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.capabilities import Operation
from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.index.deletion_files import replaced_vectors, write_deletion_vectors
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.index_file import (
    DELETION_VECTORS,
    IndexFileMeta,
    IndexManifestEntry,
)
from headwater.storage.index.manifest import has_one_file_a_bucket, index_entries
from headwater.storage.maintenance.taken_rows import rewritten
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.filter import Predicate, columns_of, filter_rows, to_expression
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.read.split import read_split
from headwater.storage.rows.by_bucket import by_bucket
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import OneBucket
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["DeletionTask", "plan_deletion", "run_deletion"]

_BATCH_ROWS = 65536
# No column of a table has a name with this character.
_POSITION = "\0position"


@dataclass(frozen=True)
class DeletionTask:
    """Splits of one bucket whose rows may match; it pickles.

    Attributes:
        base: The snapshot that the rows are read from.
        splits: The splits: all of a bucket in a primary-key table, one in an append table.
        last_sequence: The bucket's greatest sequence number in a primary-key table.
        indexes: The bucket's files of deletion vectors, where a new one replaces them all.
    """

    base: SnapshotIdentity
    splits: tuple[Split, ...]
    last_sequence: int = -1
    indexes: tuple[IndexManifestEntry, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(split.size for split in self.splits)


def plan_deletion(
    storage: TableStorage, snapshot: Snapshot, predicate: Predicate
) -> list[DeletionTask]:
    """The work that makes no row match any more.

    Args:
        storage: The table.
        snapshot: The snapshot that the rows are read from.
        predicate: The filter; rows for which it is null stay.

    Raises:
        Unsupported: The table cannot be written.
    """
    storage.refuse(Operation.READ | Operation.WRITE | Operation.CHANGE)
    refuse_formats(storage.schema)
    keyed = bool(storage.schema.primary_keys)
    splits = plan_snapshot(storage, snapshot, predicate=predicate, with_level_zero=True).splits
    marks = storage.schema.table_options.deletion_vectors_enabled
    if not keyed and not (marks and has_one_file_a_bucket(storage, DELETION_VECTORS)):
        return [DeletionTask(snapshot.identity, (split,)) for split in splits]
    buckets = by_bucket(splits)
    if not keyed:
        indexes = by_bucket(index_entries(storage, snapshot))
        return [
            DeletionTask(snapshot.identity, tuple(group), indexes=tuple(indexes.get(bucket, ())))
            for bucket, group in buckets.items()
        ]
    states = BucketStates(storage, snapshot)
    states.load({partition for partition, _ in buckets})
    # The deletions of a bucket take sequence numbers one after another.
    return [
        DeletionTask(snapshot.identity, tuple(group), states(*bucket))
        for bucket, group in buckets.items()
    ]


def run_deletion(
    storage: TableStorage, task: DeletionTask, predicate: Predicate
) -> list[CommitMessage]:
    """Write what deletes the matching rows of a task's splits.

    Returns:
        Messages with new files for a primary-key table; for an append table with new deletion
        vectors, or with replaced files where it has none. None when no row matches.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    if storage.schema.primary_keys:
        return _retract(storage, task, predicate)
    if storage.schema.table_options.deletion_vectors_enabled:
        return _mark(storage, task, predicate)
    messages: list[CommitMessage] = []
    try:
        for split in task.splits:
            replaced = _rewrite(storage, task.base, split, predicate)
            if replaced is not None:
                messages.append(replaced)
    except BaseException:
        for message in messages:
            delete_message_files(storage, message)
        raise
    return messages


def _retract(
    storage: TableStorage, task: DeletionTask, predicate: Predicate
) -> list[CommitMessage]:
    with TableWriter(
        storage,
        max_sequence_numbers=lambda partition, bucket: task.last_sequence,
        checked_snapshot=task.base,
        assigner=OneBucket(task.splits[0].bucket, task.splits[0].total_buckets),
    ) as writer:
        blobs = managed_blob_columns(storage.schema)
        for split in task.splits:
            for batch in read_split(storage, split, predicate=predicate, blob_places=True):
                kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), batch.num_rows)
                writer.write(batch, kinds, keeps_nulls=True, stored_blobs=blobs)
        return writer.finish()


def _mark(storage: TableStorage, task: DeletionTask, predicate: Predicate) -> list[CommitMessage]:
    """Mark the matching rows as deleted; files of which no row is left go."""
    vectors: dict[str, DeletionVector] = {}
    gone: list[DataFile] = []
    for split in task.splits:
        files = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
        for file in split.files:
            opened = files.open(file)
            matching = matching_rows(opened, storage.schema, predicate)
            vector = opened.deletion_vector.merged(matching)
            if len(vector) == file.row_count:
                gone.append(file)
            elif len(vector) > len(opened.deletion_vector):
                vectors[file.file_name] = vector
    if not vectors and not gone:
        return []
    first = task.splits[0]
    bucket = (first.partition, first.bucket)
    old: Sequence[IndexFileMeta] = ()
    if has_one_file_a_bucket(storage, DELETION_VECTORS):
        names = {file.file_name for file in gone}
        new, old = replaced_vectors(storage, task.indexes, *bucket, merge=vectors, remove=names)
    else:
        # The job takes the files' former vectors away, see `released_vectors`.
        new = write_deletion_vectors(storage, *bucket, vectors)
    return [
        CommitMessage(
            *bucket,
            first.total_buckets,
            compact_before=tuple(gone),
            new_index_files=tuple(new),
            deleted_index_files=tuple(old),
            checked_snapshot=task.base,
        )
    ]


def matching_rows(
    opened: DataFileReader, schema: TableSchema, predicate: Predicate
) -> DeletionVector:
    """The positions of a file's rows that a filter is true for, deleted ones among them."""
    matches = to_expression(predicate, schema)
    columns = sorted(columns_of(predicate)) or [schema.fields[0].name]
    positions: list[npt.NDArray[np.int64]] = []
    for start, batch in opened.positions(columns, predicate, _BATCH_ROWS):
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        numbered = pa.RecordBatch.from_arrays(
            [*batch.columns, numbers], names=[*columns, _POSITION]
        )
        positions.append(filter_rows(numbered, matches).column(_POSITION).to_numpy())
    return DeletionVector.from_positions(np.concatenate(positions) if positions else [])


def _rewrite(
    storage: TableStorage, base: SnapshotIdentity, split: Split, predicate: Predicate
) -> CommitMessage | None:
    files = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
    before: list[DataFile] = []
    after: list[DataFile] = []
    try:
        for file in split.files:
            matching = _count(storage, files, file, predicate)
            if not matching:
                continue
            before.append(file)
            if matching < file.row_count - len(files.open(file).deletion_vector):
                after += _without(storage, split, files, file, predicate)
    except BaseException:
        delete_message_files(storage, _message(base, split, before, after))
        raise
    return _message(base, split, before, after) if before else None


def _message(
    base: SnapshotIdentity, split: Split, before: list[DataFile], after: list[DataFile]
) -> CommitMessage:
    return CommitMessage(
        split.partition,
        split.bucket,
        split.total_buckets,
        compact_before=tuple(before),
        compact_after=tuple(after),
        checked_snapshot=base,
    )


def _count(storage: TableStorage, files: BucketFiles, file: DataFile, predicate: Predicate) -> int:
    """The number of a file's rows that match."""
    columns = sorted(columns_of(predicate)) or [storage.schema.fields[0].name]
    matches = to_expression(predicate, storage.schema)
    rows = files.plain([file], columns, predicate, _BATCH_ROWS)
    return sum(filter_rows(batch, matches).num_rows for batch in rows)


def _without(
    storage: TableStorage,
    split: Split,
    files: BucketFiles,
    file: DataFile,
    predicate: Predicate,
) -> list[DataFile]:
    """A file's rows that do not match, as new files in the old one's place in the order."""
    columns = storage.schema.moved_columns
    # Null is not true: such rows stay.
    matches = pc.coalesce(to_expression(predicate, storage.schema), pc.scalar(False))
    batches = files.plain([file], columns, None, _BATCH_ROWS)
    rows = (filter_rows(batch, ~matches) for batch in batches)
    return rewritten(storage, split.partition, split.bucket, file, rows)
