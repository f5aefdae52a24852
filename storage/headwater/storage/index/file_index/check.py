"""Check the indexes of a data file: their bytes by themselves, and their content with its rows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.index.file_index.bit_slices import BitSliceReader
from headwater.storage.index.file_index.bitmap import BitmapReader
from headwater.storage.index.file_index.bloom_filter import BloomFilterReader
from headwater.storage.index.file_index.build import indexed_values
from headwater.storage.index.file_index.container import IndexContainer
from headwater.storage.index.file_index.evaluate import POSITION_READERS
from headwater.storage.index.file_index.keys import distinct_keys, ordered
from headwater.storage.index.file_index.range_bitmap import RangeBitmapReader
from headwater.storage.schema.file_indexes import (
    BLOOM_FILTER,
    FileIndex,
    index_of_name,
    indexed_type,
    takes_type,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType

__all__ = ["check_bodies", "check_values"]

Reader = BloomFilterReader | BitmapReader | RangeBitmapReader | BitSliceReader
Rows = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]


def check_bodies(container: IndexContainer, schema: TableSchema, row_count: int) -> None:
    """Read all indexes of a data file, whatever wrote them.

    Args:
        container: The indexes.
        schema: The schema of the file.
        row_count: The file's rows.

    Raises:
        CorruptData: One does not match its checksum, or is malformed.
    """
    container.bodies()
    for _ in _readers(container, schema, row_count):
        pass


def check_values(
    container: IndexContainer, schema: TableSchema, row_count: int, rows: Rows
) -> None:
    """Compare all indexes of a data file with its rows.

    Args:
        container: The indexes.
        schema: The schema of the file.
        row_count: The file's rows.
        rows: Reads columns of all rows of the file, deleted ones included.

    Raises:
        CorruptData: As `check_bodies`; an index also when it does not lead to a row that is there.
    """
    readers = list(_readers(container, schema, row_count))
    columns = list(dict.fromkeys(index.column for index, _, _ in readers))
    if not columns or not row_count:
        return
    data = pa.Table.from_batches(rows(columns))
    for index, data_type, reader in readers:
        column = indexed_values(index, data.column(index.column).combine_chunks())
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        try:
            _compare(reader, column, data_type)
        except (ValueError, IndexError, struct.error) as error:
            raise container.malformed(index.name, index.kind, error) from error


def _readers(
    container: IndexContainer, schema: TableSchema, row_count: int
) -> Iterator[tuple[FileIndex, AtomicType, Reader | None]]:
    """The readers of all indexes of known types; None for an index that was given no row."""
    for name, kinds in container.places.items():
        for kind in kinds:
            index = index_of_name(kind, name, schema.field_by_name)
            column = None if index is None else schema.field_by_name.get(index.column)
            if index is None or column is None or not takes_type(index, column):
                continue
            data_type = indexed_type(index, column)
            assert isinstance(data_type, AtomicType)
            body = container.body(name, kind)
            try:
                yield index, data_type, _reader(kind, body, data_type, row_count)
            except (ValueError, IndexError, struct.error) as error:
                raise container.malformed(name, kind, error) from error


def _reader(kind: str, body: bytes | None, data_type: AtomicType, row_count: int) -> Reader | None:
    if body is None:
        return None
    if kind == BLOOM_FILTER:
        return BloomFilterReader(body, data_type)
    reader = POSITION_READERS[kind](body, data_type)
    if reader.row_count != row_count:
        raise ValueError(f"it is of {reader.row_count} rows, the file of {row_count}")
    return reader


def _compare(reader: Reader | None, column: pa.Array, data_type: AtomicType) -> None:
    """Look up every value of a column; raises ValueError when one is not found."""
    values = len(column) - column.null_count
    if reader is None:
        if values:
            raise ValueError(f"it holds no row, the file {values} values")
        return
    if isinstance(reader, BloomFilterReader):
        lacking = int(values - np.count_nonzero(reader.holds(column.drop_null())))
        if lacking:
            raise ValueError(f"it lacks {lacking} of {values} values")
        return
    expected = distinct_keys(column, data_type)
    keys, codes = reader.content()
    rank = sorted(range(len(keys)), key=keys.__getitem__)
    if isinstance(expected.keys, np.ndarray):
        expected_keys = ordered(expected.keys).tolist()
    else:
        expected_keys = expected.keys.to_pylist()
    if [keys[at] for at in rank] != expected_keys:
        raise ValueError(f"it holds {len(keys)} other values than the {len(expected_keys)} there")
    ranks = np.full(len(keys) + 1, -1, np.int64)  # the last is that of null rows, whose code is -1
    ranks[rank] = np.arange(len(keys))
    expected_codes = np.full(expected.row_count, -1, np.int64)
    expected_codes[expected.rows] = expected.codes
    wrong = np.count_nonzero(ranks[codes] != expected_codes)
    if wrong or not np.array_equal(reader.nulls().to_array(), expected.nulls):
        raise ValueError(f"it leads to {wrong} wrong rows, or to other rows that are null")
