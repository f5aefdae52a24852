"""Compaction of a table whose columns lie in several files: one file for neighbouring ranges.

Ranges of rows whose ids follow each other are put together until they have the size that a file is
to have, and the files of the columns of each with them. Rows keep their places: deleted ones are
written, too, and stay deleted, by a vector that `released_vectors` moves. Files of BLOB columns
stay, unless `blobs` joins them, too, and so do files of vectors alone.

Source: ``DataEvolutionCompactCoordinator.java``, ``DataEvolutionNormalCompactTask.java``,
``DataEvolutionCompactDeletionVectorRewriter.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.storage.compaction.blobs import blob_work
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.options.compaction_options import CompactionOptions
from headwater.storage.read.all_rows import all_rows
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.row_ranges import RowRange, row_ranges
from headwater.storage.schema.blob_columns import columns_in_blob_files
from headwater.storage.schema.vector_columns import vector_columns
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.data_file_writer import DataFileWriter

__all__ = ["joined_work", "rewrite_joined"]

_BATCH_ROWS = 65536


def joined_work(
    storage: TableStorage, options: CompactionOptions, where: str, files: Iterable[DataFile]
) -> Iterator[Sequence[DataFile]]:
    """The files that are to become one, for each new file.

    Args:
        storage: The table.
        options: The table's options.
        where: The URI of the files' directory, for errors.
        files: All files of one bucket.

    Raises:
        CorruptData: As `row_ranges`.
    """
    least = 1 if options.rewrites_all_files else 2
    for group in _neighbours(storage, options, row_ranges(where, files)):
        joined = [file for rows in group for file in rows.files]
        if len(joined) >= least:
            yield joined
        if options.compacts_blobs:
            # Files of BLOBs that are joined lie in one range, too.
            for ranges in [group] if len(joined) >= least else [[rows] for rows in group]:
                yield from blob_work(storage, options, ranges)


def _neighbours(
    storage: TableStorage, options: CompactionOptions, ranges: Iterable[RowRange]
) -> Iterator[Sequence[RowRange]]:
    """Ranges whose rows follow each other, until they have the size that a file is to have.

    All of them have the same vectors among their other columns, and the others in files alike: else
    other engines would not read these as those of one range.
    """
    target, cost = options.target_file_size(False), options.split_open_file_cost
    group: list[RowRange] = []
    weight, end = 0, -1
    held: object = None
    for rows in ranges:
        own = sum(max(file.file_size, cost) for file in rows.files)
        first = rows.files[0].first_row_id or 0
        # What is large is only joined with its own columns.
        forms = {
            (file.schema_id, file.file_name.rpartition(".")[2], file.write_cols)
            for file in rows.vector_files
        }
        vectors = _held_vectors(storage, rows), forms
        if group and (first != end or weight > target or own > target or vectors != held):
            yield group
            group, weight = [], 0
        group.append(rows)
        weight += own
        end, held = first + rows.row_count, vectors
    if group:
        yield group


def _held_vectors(storage: TableStorage, rows: RowRange) -> Sequence[str]:
    """The columns of vectors that lie in the files of other columns."""
    schema = storage.schema
    names = vector_columns(schema)
    return [name for name in names if rows.holder(storage, schema.column(name)) is not None]


def rewrite_joined(
    storage: TableStorage, partition: bytes, bucket: int, files: Sequence[DataFile]
) -> DataFile:
    """Write the rows of neighbouring ranges to one file, which has all their columns but BLOBs.

    Vectors that lie in files of their own stay there.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    directory = bucket_directory(storage, partition, bucket)
    values = partition_values(storage, partition)
    ranges = list(row_ranges(directory, files))
    apart = {*columns_in_blob_files(storage.schema), *vector_columns(storage.schema)}
    apart.difference_update(_held_vectors(storage, ranges[0]))
    names = [name for name in storage.schema.field_by_name if name not in apart]
    writer = DataFileWriter(
        storage,
        partition,
        bucket,
        source=FileSource.COMPACT,
        columns=names if apart else None,
        is_one_file=True,
    )
    try:
        for rows in ranges:
            for batch in all_rows(storage, directory, values, rows).rows(names, None, _BATCH_ROWS):
                writer.write(pa.Table.from_batches([batch]))
        (file,) = writer.finish()
    except BaseException:
        writer.abort()
        raise
    return replace(
        file,
        first_row_id=_first_row_id(ranges[0]),
        # The oldest is that of the vector of deleted rows; the newest counts.
        min_sequence_number=min(file.min_sequence_number for file in files),
        max_sequence_number=max(file.max_sequence_number for file in files),
    )


def _first_row_id(rows: RowRange) -> int | None:
    return rows.files[0].first_row_id
