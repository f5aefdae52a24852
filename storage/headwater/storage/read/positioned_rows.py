"""Rows with the places where they stand, for who is to change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.read.batches import coalesced, filtered
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.managed_blobs import with_values
from headwater.storage.read.raw_rows import without_deletes
from headwater.storage.read.split import read_split
from headwater.storage.scan.row_ranges import row_ranges
from headwater.storage.scan.split import Split
from headwater.storage.schema.system_fields import ROW_ID_FIELD
from headwater.storage.table_storage import TableStorage

__all__ = [
    "BUCKET_COLUMN",
    "FILE_COLUMN",
    "PARTITION_COLUMN",
    "POSITION_COLUMN",
    "RowIds",
    "bucketed_rows",
    "positioned_rows",
]

FILE_COLUMN = "_headwater_file"
"""The name of the data file that holds a row; of several with other columns of it the oldest."""
POSITION_COLUMN = "_headwater_position"
"""The row's position in the file, from 0."""

PARTITION_COLUMN = "_headwater_partition_of_row"
"""The serialised partition that holds a row."""
BUCKET_COLUMN = "_headwater_bucket_of_row"
"""The number of its bucket there."""


def bucketed_rows(rows: Iterable[pa.RecordBatch], split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a split with `PARTITION_COLUMN` and `BUCKET_COLUMN`.

    Args:
        rows: The rows, as `headwater.storage.read.split.read_split` gives them.
        split: The split.
    """
    partition, bucket = pa.scalar(split.partition, pa.binary()), pa.scalar(split.bucket, pa.int32())
    for batch in rows:
        places = [pa.repeat(one, batch.num_rows) for one in (partition, bucket)]
        names = [*batch.schema.names, PARTITION_COLUMN, BUCKET_COLUMN]
        yield pa.RecordBatch.from_arrays([*batch.columns, *places], names=names)


def positioned_rows(
    storage: TableStorage,
    split: Split,
    columns: Sequence[str],
    predicate: Predicate | None,
    batch_rows: int = 65536,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split that are not deleted, with `FILE_COLUMN` and `POSITION_COLUMN`.

    Args:
        storage: The table.
        split: From `plan_snapshot`; with a primary key one whose rows stand as they are in its
            files (`Split.is_raw`).
        columns: The table's columns to read.
        predicate: Only rows for which it is true.
        batch_rows: Rows of a batch, about.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    if storage.schema.table_options.evolves_columns:
        yield from _joined_rows(storage, split, columns, predicate, batch_rows)
        return
    files = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
    needed = list(dict.fromkeys([*columns, *sorted(columns_of(predicate) if predicate else ())]))
    names = [*columns, FILE_COLUMN, POSITION_COLUMN]
    keyed = bool(storage.schema.primary_keys)

    def rows() -> Iterator[pa.RecordBatch]:
        for file in split.files:
            opened = files.open(file)
            name = pa.scalar(file.file_name)
            retracts = keyed and opened.may_delete
            read = [*needed, KIND_FIELD.name] if retracts else needed
            for start, batch in opened.positions(read, predicate, batch_rows):
                count = batch.num_rows
                places = pa.array(np.arange(start, start + count))
                placed = pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.repeat(name, count), places],
                    names=[*read, FILE_COLUMN, POSITION_COLUMN],
                )
                placed = opened.deletion_vector.without(placed, start)
                yield without_deletes(placed) if retracts else placed

    found = rows() if predicate is None else filtered(rows(), storage.schema, predicate)
    whole = coalesced((batch.select(names) for batch in found), batch_rows)
    yield from with_values(storage, whole, names)


def _joined_rows(
    storage: TableStorage,
    split: Split,
    columns: Sequence[str],
    predicate: Predicate | None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split whose columns may lie in several files."""
    read = list(dict.fromkeys([*columns, ROW_ID_FIELD.name]))
    for rows in row_ranges(split.directory, split.files):
        own = replace(split, files=rows.all_files)
        name = pa.scalar(rows.anchor.file_name)
        first = rows.files[0].first_row_id or 0
        for batch in read_split(
            storage, own, columns=read, predicate=predicate, batch_rows=batch_rows
        ):
            places = batch.column(ROW_ID_FIELD.name).to_numpy() - first
            yield pa.RecordBatch.from_arrays(
                [
                    *(batch.column(each) for each in columns),
                    pa.repeat(name, batch.num_rows),
                    pa.array(places),
                ],
                names=[*columns, FILE_COLUMN, POSITION_COLUMN],
            )


@dataclass
class RowIds:
    """The ids of rows of a row-tracking table, by the places where they stand.

    Of a file that stores them all are held, 8 bytes each, one file at a time.

    Attributes:
        storage: The table.
        splits: A split for each file, by its name.
    """

    storage: TableStorage
    splits: Mapping[str, Split]
    _last: tuple[str, npt.NDArray[np.int64]] | None = field(default=None, init=False)

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """The ids of some rows.

        Args:
            rows: With `FILE_COLUMN` and `POSITION_COLUMN`.

        Raises:
            CorruptData: A file is missing or damaged, or has rows without ids.
        """
        files = rows.column(FILE_COLUMN).dictionary_encode()
        numbers = files.indices.to_numpy()
        positions = rows.column(POSITION_COLUMN).to_numpy()
        ids = np.empty(rows.num_rows, np.int64)
        for number, name in enumerate(files.dictionary.to_pylist()):
            own = numbers == number
            ids[own] = self._of_file(name, positions[own])
        return pa.array(ids)

    def _of_file(self, name: str, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        split = self.splits[name]
        (file,) = split.files
        if file.first_row_id is not None and not file.stores_row_ids:
            first: npt.NDArray[np.int64] = positions + file.first_row_id
            return first
        if self._last is None or self._last[0] != name:
            opened = BucketFiles(self.storage, split.directory, split.partition_values).open(file)
            parts = [
                batch.column(0).to_numpy()
                for batch in opened.rows([ROW_ID_FIELD.name], None, 1 << 16)
            ]
            self._last = name, np.concatenate(parts)
        return self._last[1][positions]
