"""Incremental clustering: an append table sorted by its clustering columns, a few files at a time.

New files are on level 0 and unsorted; the files of a level above were sorted together. Which runs
are sorted again, and to which level, is decided as in an LSM tree. Source:
``IncrementalClusterManager.java``, ``IncrementalClusterStrategy.java``,
``HistoryPartitionCluster.java``, ``BucketedAppendClusterManager.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.compaction.levels import Levels
from headwater.storage.compaction.sort import SortTask, files_by_bucket, sort_tasks
from headwater.storage.compaction.sort_key import SortKey, sort_key
from headwater.storage.compaction.universal import CompactionUnit, full_compaction, pick_runs
from headwater.storage.errors import Invalid
from headwater.storage.manifest.data_file import ManifestEntry, epoch_millis
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["clustering_key", "plan_clustering"]

_Buckets = Mapping[tuple[bytes, int], Sequence[ManifestEntry]]


def clustering_key(storage: TableStorage) -> SortKey:
    """The order of a table's clustering columns.

    Raises:
        Invalid: The options of clustering contradict each other.
        NotFound, Unsupported: As `sort_key`.
    """
    schema, options = storage.schema, CompactionOptions(storage.schema.options)
    if schema.primary_keys or (options.bucket > 0 and options.keeps_append_order):
        # Other engines' tables, or a handle's options: no schema of ours says so.
        raise Invalid(
            f"table {storage.name}: 'clustering.incremental' is for tables without a primary key, "
            "whose rows need not stay in the order of writing ('bucket' = '-1', or "
            "'bucket-append-ordered' = 'false')"
        )
    if not options.clustering_columns:
        raise Invalid(
            f"table {storage.name}: 'clustering.incremental' needs 'clustering.columns', the "
            "columns to sort by"
        )
    return sort_key(schema, options.clustering_strategy, options.clustering_columns)


def plan_clustering(
    storage: TableStorage,
    snapshot: Snapshot,
    *,
    full: bool = False,
    wanted: PartitionFilter | None = None,
    buckets: Collection[tuple[bytes, int]] | None = None,
) -> list[SortTask]:
    """Plan the clustering of a table; a bucket, or a partition without buckets, is a task.

    Args:
        storage: The table.
        snapshot: The snapshot to be clustered.
        full: Sort all rows of a partition together; else only what is due.
        wanted: The partitions; all without it. Where it is given, others in which nothing was
            written for ``clustering.history-partition.idle-to-full-sort`` are clustered fully.
        buckets: Only these buckets.

    Raises:
        Invalid, NotFound: The options of clustering are not right.
        Unsupported: The table cannot be written or compacted.
    """
    key, options = clustering_key(storage), CompactionOptions(storage.schema.options)
    if options.highest_level < 1:
        raise Invalid(f"option 'num-levels' must be at least 2, not {options.highest_level + 1}")
    found: _Buckets = files_by_bucket(storage, snapshot)
    if buckets is not None:
        found = {bucket: entries for bucket, entries in found.items() if bucket in buckets}
    chosen = frozenset(partition for partition, _ in found)
    history: Sequence[tuple[bytes, int]] = ()
    if wanted is not None:
        chosen = wanted.chosen(chosen)
        history = _history(storage, options, found, chosen)
    picked: list[tuple[Sequence[ManifestEntry], CompactionUnit]] = []
    for bucket, entries in found.items():
        if bucket[0] not in chosen and bucket not in history:
            continue
        levels = Levels.of_append_table((entry.file for entry in entries), options.highest_level)
        if full or bucket in history:
            unit = _full(storage, levels, options)
        else:
            unit = pick_runs(levels, options, options.size_ratio)
        if unit is not None:
            picked.append((entries, unit))
    group_bytes = None if options.clusters_globally else options.split_target_size
    return sort_tasks(storage, snapshot, key, picked, group_bytes)


def _full(
    storage: TableStorage, levels: Levels, options: CompactionOptions
) -> CompactionUnit | None:
    """All files; None when they are one run that was sorted by the same columns."""
    if len(levels.runs) == 1 and levels.runs[0].level == levels.highest:
        written = storage.schema_by_id(levels.runs[0].files[0].schema_id)
        if CompactionOptions(written.options).clustering_columns == options.clustering_columns:
            return None
    return full_compaction(levels)


def _history(
    storage: TableStorage,
    options: CompactionOptions,
    found: _Buckets,
    chosen: Collection[bytes],
) -> list[tuple[bytes, int]]:
    """Partitions besides the chosen ones in which nothing was written for long, oldest first."""
    idle = options.history_partition_idle
    if idle is None or options.bucket > 0 or not storage.schema.partition_keys:
        return []
    before = storage.runtime.now_millis() - idle
    written: dict[tuple[bytes, int], int] = {}
    for bucket, entries in found.items():
        times = [
            epoch_millis(entry.file.creation_time or 0)
            for entry in entries
            if entry.file.level < options.highest_level
        ]
        if bucket[0] not in chosen and times and max(times) < before:
            written[bucket] = max(times)
    return sorted(written, key=written.__getitem__)[: max(0, options.history_partition_limit)]
