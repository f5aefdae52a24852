"""The partitions that a snapshot has rows in.

Source: ``FallbackReadFileStoreTable.java``, ``AbstractFileStoreScan.readPartitionEntries``.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.predicate.tree import And
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["apart_from_partitions", "least_level", "partitions_with_rows"]


def partitions_with_rows(
    storage: TableStorage,
    snapshot: Snapshot | None,
    predicate: Predicate | None,
    *,
    min_level: int = 0,
) -> frozenset[bytes]:
    """The partitions of a snapshot that a read of it looks into, serialised.

    A partition whose files all wait for a compaction that makes them part of the table is none.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
        predicate: Only partitions for which its conditions on partition columns alone are true;
            what it says of other columns leaves no partition out.
        min_level: Only files of this LSM level and above are looked at.

    Raises:
        NotFound: The snapshot expired meanwhile.
        CorruptData: A manifest list or manifest is missing or malformed; the message names it.
    """
    if snapshot is None:
        return frozenset()
    schema = storage.schema
    least = max(min_level, least_level(schema))
    within = _on_partitions(predicate, schema.partition_keys)
    with naming_expired(storage, snapshot):
        entries = live_entries(storage, snapshot, predicate=within)
    return frozenset(
        entry.partition
        for entry in entries
        if entry.bucket != POSTPONE_BUCKET and entry.file.level >= least
    )


def least_level(schema: TableSchema) -> int:
    """The lowest LSM level whose rows a read takes for rows of the table."""
    return int(bool(schema.primary_keys) and schema.table_options.hides_level_zero)


def _on_partitions(
    predicate: Predicate | None, partition_keys: tuple[str, ...]
) -> Predicate | None:
    """The parts of a conjunction that speak of partition columns alone."""
    keys = set(partition_keys)
    return _parts(predicate, lambda part: columns_of(part) <= keys)


def apart_from_partitions(
    predicate: Predicate | None, partition_keys: tuple[str, ...]
) -> Predicate | None:
    """The parts of a conjunction that do not speak of partition columns."""
    keys = set(partition_keys)
    return _parts(predicate, lambda part: columns_of(part).isdisjoint(keys))


def _parts(predicate: Predicate | None, is_wanted: Callable[[Predicate], bool]) -> Predicate | None:
    if predicate is None:
        return None
    parts = predicate.operands if isinstance(predicate, And) else (predicate,)
    found = tuple(filter(is_wanted, parts))
    return And(found) if found else None
