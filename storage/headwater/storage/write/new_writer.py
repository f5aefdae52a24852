"""The writer that a table's options ask for."""

from __future__ import annotations

from headwater.storage.capabilities import unsupported_mode
from headwater.storage.options import MergeEngine
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import Assigner
from headwater.storage.write.assign.choice import new_assigner
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.cross_partition_writer import CrossPartitionWriter, Overwritten
from headwater.storage.write.table_writer import TableWriter

__all__ = ["new_writer", "refuse_fixed_keys"]


def refuse_fixed_keys(table: str, schema: TableSchema) -> None:
    """Refuse a table whose keys may be in any partition, but could not leave the one they are in.

    Args:
        table: The table's name in error messages.
        schema: Its schema.

    Raises:
        Unsupported: It is one.
    """
    options = schema.table_options
    moves = options.merge_engine is MergeEngine.DEDUPLICATE
    if schema.crosses_partitions and moves and options.ignore_delete:
        raise unsupported_mode(
            "ignored deletes across partitions",
            f"table {table} has keys that are unique across partitions",
        )


def new_writer(
    storage: TableStorage,
    states: BucketStates | None,
    *,
    first: int = 0,
    is_alone: bool = True,
    is_stream: bool = False,
    overwritten: Overwritten | None = None,
    assigner: Assigner | None = None,
) -> TableWriter:
    """A writer of some of a commit's rows.

    Args:
        storage: The table.
        states: The buckets that rows are added to; None when all that there is is replaced, or
            nothing is looked up in it.
        first: Added to the sequence numbers, so that writers that share a bucket share none.
        is_alone: Whether no other writer of the same commit has rows.
        is_stream: Whether the write is one of a stream's many.
        overwritten: The partitions that are replaced where keys are looked up in the others.
        assigner: Finds the rows' buckets; None is the one that the table's options ask for.

    Raises:
        Unsupported: This engine does not write such a table.
    """
    if storage.schema.crosses_partitions:
        refuse_fixed_keys(storage.name, storage.schema)
        return CrossPartitionWriter(storage, states, first=first, overwritten=overwritten)
    if assigner is None:
        assigner = new_assigner(storage, states, is_alone=is_alone, is_stream=is_stream)
    if states is None:
        return TableWriter(
            storage,
            max_sequence_numbers=lambda partition, bucket: first - 1,
            assigner=assigner,
        )
    return TableWriter(
        storage,
        max_sequence_numbers=lambda partition, bucket: first + states(partition, bucket),
        checked_snapshot=SnapshotIdentity.of(states.snapshot),
        assigner=assigner,
    )
