"""Build the indexes of a data file while its rows are written.

Source: ``DataFileIndexWriter.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.index.file_index.bit_slices import bit_slice_body
from headwater.storage.index.file_index.bitmap import bitmap_body
from headwater.storage.index.file_index.bloom_filter import BloomFilterBuilder
from headwater.storage.index.file_index.container import write_container
from headwater.storage.index.file_index.map_order import in_map_order
from headwater.storage.index.file_index.range_bitmap import range_bitmap_body
from headwater.storage.schema.file_indexes import (
    BITMAP,
    BLOOM_FILTER,
    RANGE_BITMAP,
    FileIndex,
    indexed_type,
)
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField

__all__ = ["Bodies", "FileIndexBuilder", "container_bytes", "indexed_values"]

Bodies = Mapping[str, Mapping[str, bytes | None]]


class _Builder(Protocol):
    def add(self, column: pa.Array) -> None: ...

    def finish(self) -> bytes | None: ...


class _Gathering:
    """Keeps a file's values, of which the index is made at the end."""

    def __init__(self, index: FileIndex, data_type: AtomicType) -> None:
        self._index, self._type = index, data_type
        self._parts: list[pa.Array] = []

    def add(self, column: pa.Array) -> None:
        self._parts.append(column)

    def finish(self) -> bytes | None:
        column = pa.concat_arrays(self._parts)
        if self._index.kind == BITMAP:
            return bitmap_body(self._index, self._type, column)
        if self._index.kind == RANGE_BITMAP:
            return range_bitmap_body(self._index, self._type, column)
        return bit_slice_body(self._type, column)


class FileIndexBuilder:
    """Builds the indexes of one file.

    Args:
        indexes: The indexes, from `written_file_indexes`.
        columns: The table's columns by name.

    Raises:
        Invalid: A setting is malformed.
    """

    def __init__(self, indexes: Sequence[FileIndex], columns: Mapping[str, DataField]) -> None:
        self._builders: list[tuple[FileIndex, _Builder]] = []
        for index in indexes:
            data_type = indexed_type(index, columns[index.column])
            assert isinstance(data_type, AtomicType)
            if index.kind == BLOOM_FILTER:
                self._builders.append((index, BloomFilterBuilder(index, data_type)))
            else:
                self._builders.append((index, _Gathering(index, data_type)))

    def add(self, rows: pa.Table) -> None:
        """Take in the next rows; the columns are found by name."""
        for index, builder in self._builders:
            for chunk in rows.column(index.column).chunks:
                builder.add(indexed_values(index, chunk))

    def bodies(self) -> dict[str, dict[str, bytes | None]]:
        """The indexes of all rows by name and kind; one that cannot hold them is left out."""
        built: dict[str, dict[str, bytes | None]] = {}
        for index, builder in self._builders:
            body = builder.finish()
            if body is not None:
                built.setdefault(index.name, {})[index.kind] = body
        return built


def container_bytes(indexes: Sequence[FileIndex], bodies: Bodies) -> bytes:
    """The container of bodies by name and kind, the given indexes' and perhaps others."""
    return write_container(in_map_order(indexes, bodies))


def indexed_values(index: FileIndex, column: pa.Array) -> pa.Array:
    """The values of a column that an index holds: of a MAP those of one key, null without it."""
    if index.map_key is None:
        return column
    return pc.map_lookup(column, pa.scalar(index.map_key, column.type.key_type), "last")
