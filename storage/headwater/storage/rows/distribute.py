"""Spread rows over partitions and buckets, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.rows.binary_row import EMPTY_ROW, serialize_row
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import storage_value

__all__ = [
    "BucketRows",
    "Codes",
    "Numbers",
    "Placement",
    "distribute",
    "gathered",
    "partition_codes",
]

Codes: TypeAlias = npt.NDArray[np.int64]
"""For each row its place in a list."""
Numbers: TypeAlias = npt.NDArray[np.int32]
"""For each row the number of its bucket."""
Placement: TypeAlias = Callable[[Sequence[bytes], Codes, pa.Table], Numbers]
"""Finds the buckets of rows, given the serialised partitions and which of them each row is in."""
# Up to this range, codes are counted rather than sorted.
_COUNTABLE = 1 << 22


class BucketRows:
    """Rows by bucket; within a bucket they keep their order."""

    def __init__(
        self, table: pa.Table, buckets: list[Bucket], order: Codes | None, ends: Codes
    ) -> None:
        self._table = table
        self._buckets = buckets
        self._order = order
        self._starts = np.concatenate([[0], ends[:-1]])
        self._ends = ends

    @property
    def numbers(self) -> list[int]:
        """The numbers that `bucket`, `size` and `rows` take."""
        return list(range(len(self._buckets)))

    @property
    def total(self) -> int:
        """Rows of all buckets."""
        return int(self._table.num_rows)

    def bucket(self, number: int) -> Bucket:
        """The bucket that a number stands for."""
        return self._buckets[number]

    def size(self, number: int) -> int:
        """Its rows."""
        return int(self._ends[number] - self._starts[number])

    def gather(self) -> None:
        """Bring the rows into one chunk: their parts are given up as they are copied."""
        held = [self._table]
        del self._table
        self._table = pa.Table.from_batches(gathered(held))

    def rows(self, number: int) -> pa.Table:
        """Its rows, copied unless there is but one bucket."""
        if self._order is None:
            return self._table
        chosen = self._order[self._starts[number] : self._ends[number]]
        return self._table.take(pa.array(chosen))


def distribute(storage: TableStorage, rows: pa.Table, place: Placement) -> BucketRows:
    """Spread rows over their partitions and buckets.

    Args:
        storage: The table.
        rows: At least one row, with the table's columns in their Arrow forms. In several chunks
            they are to be gathered before those of one of several buckets are taken.
        place: Finds their buckets.
    """
    partitions, codes = partition_codes(rows, storage.schema.partition_fields)
    numbers = place(partitions, codes, rows)
    least = int(numbers.min())
    span = int(numbers.max()) - least + 1
    if len(partitions) == 1 and span == 1:
        bucket = (partitions[0], least)
        return BucketRows(rows, [bucket], None, np.array([rows.num_rows], np.int64))
    codes = codes * span + (numbers - least)
    present, codes = _dense(codes, len(partitions) * span)
    names = [(partitions[int(code) // span], int(code) % span + least) for code in present]
    if len(names) == 1:
        return BucketRows(rows, names, None, np.array([rows.num_rows], np.int64))
    small = codes.astype(np.uint16 if len(names) <= 1 << 16 else np.int64)
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return BucketRows(rows, names, order, ends)


def gathered(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    """The rows of some tables, which are taken from the list, in as few batches as can be.

    Each column is copied when those before it have given up their parts: all columns at once would
    take twice the memory.
    """
    whole = pa.concat_tables(tables)
    tables.clear()
    schema, columns = whole.schema, whole.columns
    del whole
    for at, column in enumerate(columns):
        columns[at] = None
        columns[at] = column.combine_chunks()
        del column
    batches: list[pa.RecordBatch] = pa.table(columns, schema=schema).to_batches()
    return batches


def partition_codes(rows: pa.Table, fields: tuple[DataField, ...]) -> tuple[list[bytes], Codes]:
    """The distinct partitions, and for each row which of them it lies in."""
    codes = np.zeros(rows.num_rows, np.int64)
    if not fields:
        return [EMPTY_ROW], codes
    count = 1
    for field in fields:
        encoded = pc.dictionary_encode(rows.column(field.name), null_encoding="encode")
        whole = encoded.combine_chunks()
        own = whole.indices.to_numpy().astype(np.int64)
        size = len(whole.dictionary)
        present, codes = _dense(codes * size + own, count * size)
        count = len(present)
    first = np.full(count, rows.num_rows, np.int64)
    np.minimum.at(first, codes, np.arange(rows.num_rows))
    samples = rows.select([field.name for field in fields]).take(pa.array(first))
    types = [field.type for field in fields]
    columns = [
        [storage_value(scalar, field.type) for scalar in samples.column(field.name)]
        for field in fields
    ]
    return [serialize_row(values, types) for values in zip(*columns, strict=True)], codes


def _dense(codes: Codes, span: int) -> tuple[Codes, Codes]:
    """The codes that occur, ascending, and the rows' codes renumbered to their places."""
    if span > _COUNTABLE:
        present, dense = np.unique(codes, return_inverse=True)
        return present, dense
    occurs = np.zeros(span, np.bool_)
    occurs[codes] = True
    present = np.flatnonzero(occurs)
    places = np.cumsum(occurs) - 1
    return present, places[codes]
