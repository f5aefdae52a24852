"""Compaction of files of BLOB columns: those of the same rows, and neighbouring small ones.

Values are copied, those of deleted rows, too; of a row that several files tell of, the newest.

Source: ``DataEvolutionCompactCoordinator.blobFileGroupsToCompact``,
``DataEvolutionBlobCompactTask.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.read.blob_columns import BlobColumn
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.row_ranges import RowRange
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField
from headwater.storage.write.blob_column_writer import BlobColumnWriter

__all__ = ["blob_work", "rewrite_blobs"]

# Bytes of values that are held at once, unless one has more.
_HELD_BYTES = 32 * 1024**2


def blob_work(
    storage: TableStorage, options: CompactionOptions, ranges: Sequence[RowRange]
) -> Iterator[Sequence[DataFile]]:
    """The files of BLOB columns that are to become one, for each new file.

    Args:
        storage: The table.
        options: The table's options.
        ranges: Neighbouring ranges that are, or become, one.
    """
    for name in columns_in_blob_files(storage.schema):
        column = storage.schema.column(name)
        files = [file for rows in ranges for file in rows.blob_files_of(storage, column)]
        small: list[DataFile] = []
        for group in _overlapping(files):
            if len(group) > 1:
                yield group
            alone = len(group) == 1 and group[0].file_size < options.blob_target_file_size
            if small and not (alone and _end(small[-1]) == group[0].first_row_id):
                yield from _packed(small, options.blob_target_file_size)
                small = []
            small += group if alone else []
        yield from _packed(small, options.blob_target_file_size)


def _overlapping(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files that tell of some of the same rows, ordered by row id."""
    group: list[DataFile] = []
    end = -1
    for file in sorted(files, key=lambda file: file.first_row_id or 0):
        if group and (file.first_row_id or 0) >= end:
            yield group
            group = []
        group.append(file)
        end = max(end, _end(file))
    if group:
        yield group


def _packed(files: Sequence[DataFile], target: int) -> Iterator[list[DataFile]]:
    """Neighbouring files, as many as have the size that a file is to have."""
    group: list[DataFile] = []
    for file in files:
        group.append(file)
        if len(group) > 1 and sum(each.file_size for each in group) >= target:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _end(file: DataFile) -> int:
    return (file.first_row_id or 0) + file.row_count


def rewrite_blobs(
    storage: TableStorage, partition: bytes, bucket: int, files: Sequence[DataFile]
) -> DataFile:
    """Write the values of files of one BLOB column to one file.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    column = _column(storage, files[0])
    first = min(file.first_row_id or 0 for file in files)
    count = max(map(_end, files)) - first
    directory = bucket_directory(storage, partition, bucket)
    stored = BlobColumn(storage, directory, first, count, files, column.name, as_descriptors=False)
    writer = BlobColumnWriter(
        storage, partition, bucket, column.name, FileSource.COMPACT, is_one_file=True
    )
    try:
        ends = np.cumsum(stored.value_bytes(np.arange(count)))
        start = 0
        while start < count:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _HELD_BYTES, "right")))
            writer.write(pa.chunked_array([stored.take(np.arange(start, stop))]))
            start = stop
        writer.roll()
    except BaseException:
        writer.abort()
        raise
    (file,) = writer.take_finished()
    return replace(
        file,
        first_row_id=first,
        min_sequence_number=min(each.min_sequence_number for each in files),
        max_sequence_number=max(each.max_sequence_number for each in files),
    )


def _column(storage: TableStorage, file: DataFile) -> DataField:
    """The column that a file has values of, as it is called now."""
    stored = storage.schema_by_id(file.schema_id)
    (name,) = file.write_cols or ("",)
    wanted = stored.field_by_name[name].id
    return storage.schema.field_by_id[wanted]
