"""Spread rows that were postponed (``bucket`` = -2) over the buckets of their partitions.

The rows of a partition are written anew, in the order in which they were written before, into as
many buckets as the partition has; the first compaction of a partition decides how many. Like
Paimon's, it orders the files of a partition by the time at which they were made.

Source: ``PostponeBucketCompactSplitSource.java``, ``PostponeBucketCompactOperator.java``,
``PostponeUtils.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.storage.capabilities import Operation
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.postponed import BucketsOfPartitions, buckets_of_row_count
from headwater.storage.write.bucket_state import BucketStates, PartitionState
from headwater.storage.write.file_encoding import refuse_formats
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["PostponedTask", "plan_postponed", "run_postponed"]

_BATCH_ROWS = 65536


@dataclass(frozen=True)
class PostponedTask:
    """The postponed files of one partition; it pickles.

    Attributes:
        states: The buckets of the partition in the planned snapshot.
        partition: Serialised partition values.
        total_buckets: The buckets that the rows are spread over.
        files: The files, in the order in which their rows were written.
    """

    states: BucketStates
    partition: bytes
    total_buckets: int
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size for file in self.files)


def plan_postponed(storage: TableStorage, snapshot: Snapshot) -> list[PostponedTask]:
    """The partitions of a snapshot that have postponed rows.

    Raises:
        Unsupported: The table cannot be written or compacted.
        Invalid: An option that says how many buckets a new partition has is malformed.
    """
    storage.refuse(Operation.WRITE | Operation.COMPACT)
    refuse_formats(storage.schema)
    waiting: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries(storage, snapshot, bucket=POSTPONE_BUCKET):
        waiting.setdefault(entry.partition, []).append(entry)
    if not waiting:
        return []
    states = BucketStates(storage, snapshot)
    states.load(waiting)
    tasks: list[PostponedTask] = []
    for partition, entries in waiting.items():
        state = states.partitions[partition]
        files = sorted((entry.file for entry in entries), key=lambda file: file.creation_time or 0)
        own = replace(states, partitions={partition: state})
        total = _total_buckets(storage, state)
        tasks.append(PostponedTask(own, partition, total, tuple(files)))
    return tasks


def _total_buckets(storage: TableStorage, state: PartitionState) -> int:
    """The number that the partition has, or gets (``PostponeUtils.determineBucketNum``)."""
    options = AssignmentOptions(storage.schema.options)
    if state.total_buckets is not None:
        return state.total_buckets
    if options.postpone_target_rows is not None:
        return buckets_of_row_count(state.postponed_rows, options.postpone_target_rows)
    return options.postpone_default_buckets or 1


def run_postponed(storage: TableStorage, task: PostponedTask) -> Sequence[CommitMessage]:
    """Write the rows of a task to their buckets.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    assert task.states.snapshot is not None
    checked = task.states.snapshot.identity
    directory = bucket_directory(storage, task.partition, POSTPONE_BUCKET)
    files = BucketFiles(storage, directory, partition_values(storage, task.partition))
    columns = [field.name for field in storage.schema.fields]
    blobs = managed_blob_columns(storage.schema)
    totals = {task.partition: task.total_buckets}
    with TableWriter(
        storage,
        max_sequence_numbers=task.states,
        checked_snapshot=checked,
        assigner=BucketsOfPartitions(storage, task.states, totals),
    ) as writer:
        for batch in files.changes(task.files, columns, None, True, _BATCH_ROWS):
            kinds = batch.column(KIND_FIELD.name)
            rows = batch.select(columns)
            writer.write(rows, kinds, keeps_nulls=True, stored_blobs=blobs)
        written = writer.finish()
    gone = CommitMessage(
        task.partition,
        POSTPONE_BUCKET,
        POSTPONE_BUCKET,
        compact_before=task.files,
        checked_snapshot=checked,
    )
    # No rows are added to the table as streams see it: they have had them.
    return [
        gone,
        *(replace(each, new_files=(), compact_after=each.new_files) for each in written),
    ]
