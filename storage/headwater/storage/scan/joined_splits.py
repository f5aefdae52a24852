"""Splits of a table with data evolution: files of the same rows are read together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.scan.sections import pack_in_order
from headwater.storage.scan.split import Split, bucket_split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["joined_splits"]


def joined_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    buckets: Iterable[Sequence[ManifestEntry]],
    pruner: Pruner,
) -> list[Split]:
    """The splits of the rows that may match, ordered by row id in each bucket.

    A column's statistics are those of the newest file that holds it. Source:
    ``DataEvolutionFileStoreScan.evolutionStats``, ``DataEvolutionSplitGenerator.java``.

    Args:
        storage: The table.
        snapshot: The snapshot.
        buckets: The files of each bucket.
        pruner: Tells which statistics may match.

    Raises:
        CorruptData: As `row_ranges`.
    """
    options = storage.schema.table_options
    cost, target = options.split_open_file_cost, options.split_target_size

    def weight(rows: RowRange) -> int:
        return max(rows.size, cost)

    splits: list[Split] = []
    for bucket in buckets:
        partition = bucket[0].partition
        directory = bucket_directory(storage, partition, bucket[0].bucket)
        wanted = [
            rows
            for rows in row_ranges(directory, (entry.file for entry in bucket))
            if pruner.by_ranges(partition, partial(rows.value_ranges, storage))
        ]
        for group in pack_in_order(wanted, weight, target):
            files = (file for rows in group for file in rows.all_files)
            split = bucket_split(storage, snapshot, bucket, files, False, False)
            splits.append(replace(split, row_count=sum(rows.row_count for rows in group)))
    return splits
