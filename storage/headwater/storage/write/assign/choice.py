"""The assigner that a table's options ask for."""

from __future__ import annotations

from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import Assigner, FixedBuckets
from headwater.storage.write.assign.dynamic import DynamicBuckets
from headwater.storage.write.assign.postponed import POSTPONED, BucketsOfPartitions
from headwater.storage.write.bucket_state import BucketStates

__all__ = ["new_assigner"]


def new_assigner(
    storage: TableStorage,
    states: BucketStates | None,
    *,
    is_alone: bool = True,
    is_stream: bool = False,
) -> Assigner:
    """The assigner of one writer, unless it writes keys across partitions.

    Args:
        storage: The table.
        states: The buckets that rows are added to; None when their rows are replaced.
        is_alone: False if other writers of the same commit know nothing of this one's rows.
        is_stream: True if the write is one of a stream's many.
    """
    bucket = storage.schema.table_options.bucket
    if bucket == -1 and storage.schema.primary_keys:
        return DynamicBuckets(storage, states)
    if bucket != POSTPONE_BUCKET:
        return FixedBuckets(storage)
    if is_stream or AssignmentOptions(storage.schema.options).postpones_batches:
        return POSTPONED
    return BucketsOfPartitions(storage, states, infers=is_alone)
