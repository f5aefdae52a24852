"""Rows of an append table with the places where they stand, for who is to change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.read.batches import coalesced, filtered
from headwater.storage.read.split import BucketFiles
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage

__all__ = ["FILE_COLUMN", "POSITION_COLUMN", "positioned_rows"]

FILE_COLUMN = "_headwater_file"
"""The name of the data file that holds a row."""
POSITION_COLUMN = "_headwater_position"
"""The row's position in the file, from 0."""


def positioned_rows(
    storage: TableStorage,
    split: Split,
    columns: Sequence[str],
    predicate: Predicate | None,
    batch_rows: int = 65536,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split that are not deleted, with `FILE_COLUMN` and `POSITION_COLUMN`.

    Args:
        storage: The table, without a primary key.
        split: From `plan_snapshot`.
        columns: The table's columns to read.
        predicate: Only rows for which it is true.
        batch_rows: Rows of a batch, about.

    Raises:
        CorruptData: A file is missing or damaged; the message names it.
    """
    files = BucketFiles(storage, split.directory, split.partition_values, split.deletion_files)
    needed = list(dict.fromkeys([*columns, *sorted(columns_of(predicate) if predicate else ())]))
    names = [*columns, FILE_COLUMN, POSITION_COLUMN]

    def rows() -> Iterator[pa.RecordBatch]:
        for file in split.files:
            opened = files.open(file)
            name = pa.scalar(file.file_name)
            for start, batch in opened.positions(needed, predicate, batch_rows):
                count = batch.num_rows
                places = pa.array(np.arange(start, start + count))
                placed = pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.repeat(name, count), places],
                    names=[*needed, FILE_COLUMN, POSITION_COLUMN],
                )
                yield opened.deletion_vector.without(placed, start)

    found = rows() if predicate is None else filtered(rows(), storage.schema, predicate)
    yield from coalesced((batch.select(names) for batch in found), batch_rows)
