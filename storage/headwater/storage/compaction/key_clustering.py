"""Compaction of primary-key tables whose files are sorted by columns other than the key.

Files on level 0 are sorted by key, as in other tables. A compaction moves their rows to level 1, in
the order of ``clustering.columns``, and marks the rows there that they replace. No two rows of
level 1 have the same key, so any files may be sorted together; which ones is decided by cost alone,
by the rules for sorted runs of keys.

Source: ``ClusteringCompactManager.java``, ``ClusteringFileRewriter.java``, which join all files
that overlap, however large they are, each time that rows arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.storage.compaction.levels import LevelRun, Levels
from headwater.storage.compaction.sort_key import sort_key
from headwater.storage.compaction.universal import (
    CompactionUnit,
    full_compaction,
    pick_compaction,
)
from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.manifest.key_range import ComparableKey, clustered_range
from headwater.storage.options.choices import SortStrategy
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.rows.external_sort import Spool, sort_memory, sorted_batches
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter

__all__ = ["CLUSTERED_LEVEL", "ClusteredWriter", "clustered_work"]

CLUSTERED_LEVEL = 1
"""The level of all files that are sorted by other columns than the key."""


def clustered_work(
    storage: TableStorage,
    files: Sequence[DataFile],
    deleted: Mapping[str, DeletionFile],
    *,
    full: bool,
) -> CompactionUnit | None:
    """The files of a bucket that are to be sorted together again; None when there are none.

    Args:
        storage: The table.
        files: All files of the bucket.
        deleted: The places of the files' deletion vectors, by the names of the files.
        full: Sort all files together; else only what is due.
    """
    options = CompactionOptions(storage.schema.options)
    levels = _levels(storage, files, options)
    if full:
        small = [file for file in files if file.file_size < options.small_file_size(True)]
        due = (
            any(file.level != CLUSTERED_LEVEL or file.file_name in deleted for file in files)
            or len(small) > 1
            or len(_runs(storage, files)) > 1
            or (options.rewrites_all_files and files)
        )
        unit = full_compaction(levels) if due else None
    else:
        runtime = storage.runtime
        unit = pick_compaction(levels, options, runtime.now_millis(), runtime.time_zone())
    if unit is None:
        return None
    return replace(unit, output_level=CLUSTERED_LEVEL, highest_level=CLUSTERED_LEVEL)


def _levels(storage: TableStorage, files: Sequence[DataFile], options: CompactionOptions) -> Levels:
    """The runs of a bucket, those of level 1 by size: as if each had been merged with those before.

    Small files are runs of their own, because they are to be joined even if they do not overlap.
    """
    fresh = Levels.of([file for file in files if file.level == 0], CLUSTERED_LEVEL).runs
    least = options.small_file_size(True)
    sorted_files = [file for file in files if file.level > 0]
    groups: list[tuple[DataFile, ...]] = [
        (file,) for file in sorted_files if file.file_size < least
    ]
    groups += _runs(storage, [file for file in sorted_files if file.file_size >= least])
    groups.sort(key=lambda group: (sum(file.file_size for file in group), group[0].file_name))
    # None of these is on a level that those of level 0 would have to be merged into.
    runs = [LevelRun(number + 2, group) for number, group in enumerate(groups)]
    return Levels((*fresh, *runs), len(groups) + 1)


def _runs(storage: TableStorage, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Lists of files whose ranges do not overlap in the columns that the files are sorted by."""
    ranged: list[tuple[ComparableKey, ComparableKey, DataFile]] = []
    runs: list[list[tuple[ComparableKey, ComparableKey, DataFile]]] = []
    for file in files:
        ends = clustered_range(storage, file)
        if ends is None:
            # Its rows are in the order of the columns' former types.
            runs.append([((), (), file)])
        else:
            ranged.append((*ends, file))
    closed = len(runs)
    for item in sorted(ranged, key=lambda item: (item[0], item[1], item[2].file_name)):
        fitting = next((run for run in runs[closed:] if run[-1][1] <= item[0]), None)
        if fitting is None:
            runs.append([item])
        else:
            fitting.append(item)
    return [tuple(file for _, _, file in run) for run in runs]


class ClusteredWriter:
    """Writes rows of a bucket to files in the order of the clustering columns.

    Memory is bounded by ``write-buffer-size``; what does not fit is sorted on the local disk.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.

    Raises:
        Unsupported: A clustering column's type has no order, or files cannot be written.
    """

    def __init__(self, storage: TableStorage, partition: bytes, bucket: int) -> None:
        options = storage.schema.table_options
        self._key = sort_key(storage.schema, SortStrategy.ORDER, options.clustering_columns)
        self._memory = sort_memory(options.write_buffer_size)
        self._files = DataFileWriter(
            storage, partition, bucket, level=CLUSTERED_LEVEL, source=FileSource.COMPACT
        )
        self._rows = Spool(self._memory)

    def write(self, rows: pa.Table) -> None:
        """Take rows, in any order, as `DataFileWriter.write` takes them.

        Raises:
            Unavailable: The local disk is full.
        """
        for batch in rows.to_batches():
            if batch.num_rows:
                self._rows.add(batch)

    def finish(self) -> list[DataFile]:
        """Write the files; all of them, in order.

        Raises:
            Unavailable: The local disk is full.
        """
        with self._rows:
            for batch in sorted_batches(self._rows, self._key, self._memory):
                self._files.write(pa.Table.from_batches([batch]))
        return self._files.finish()

    def abort(self) -> None:
        """Forget the rows, and delete every file written."""
        self._rows.close()
        self._files.abort()
