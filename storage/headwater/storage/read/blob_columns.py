"""A BLOB column of a range of rows, whose values lie in files of their own.

A file holds the values of some of the rows, of one column. Of files of the same rows the newest
counts, by the greatest sequence number, but for rows of which it says that an older one does. Only
values that are asked for are read, each by its range.

Source: ``DataEvolutionSplitRead.java``, ``BlobFallbackRecordReader.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.formats.blob_descriptor import descriptor
from headwater.storage.formats.blob_file import (
    ENTRY_START,
    FRAME_BYTES,
    NULL_LENGTH,
    PLACEHOLDER_LENGTH,
    BlobEntries,
    blob_entries,
    read_blobs,
)
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.table_storage import TableStorage

__all__ = ["BlobColumn", "value_array"]

_Longs = npt.NDArray[np.int64]


class BlobColumn:
    """The values of a column in a range of rows.

    Args:
        storage: The table.
        directory: The URI of the files' directory.
        first_row_id: The id of the first row of the range.
        row_count: The number of its rows.
        files: The column's files, in any order.
        column: The column's name, for errors.
        as_descriptors: True to give the places of values, and read none.

    Raises:
        CorruptData: A file is missing or damaged, or no file tells of a row.
        Unsupported: A file is of a later version of the format.
    """

    def __init__(
        self,
        storage: TableStorage,
        directory: str,
        first_row_id: int,
        row_count: int,
        files: Sequence[DataFile],
        column: str,
        *,
        as_descriptors: bool,
    ) -> None:
        self._files = storage.files
        self._as_descriptors = as_descriptors
        self._sources: list[BlobEntries] = []
        self._source: _Longs = np.full(row_count, -1, np.int64)
        self._offset: _Longs = np.zeros(row_count, np.int64)
        self._length: _Longs = np.full(row_count, PLACEHOLDER_LENGTH, np.int64)
        told = np.zeros(row_count, np.bool_)
        for file in sorted(files, key=lambda file: (file.max_sequence_number, file.file_name)):
            path = file.external_path or f"{directory}/{file.file_name}"
            entries = blob_entries(storage.files, path, file.file_size, file.row_count)
            assert file.first_row_id is not None
            start = file.first_row_id - first_row_id
            own = slice(start, start + file.row_count)
            counts = entries.lengths != PLACEHOLDER_LENGTH
            self._source[own] = np.where(counts, len(self._sources), self._source[own])
            self._offset[own] = np.where(counts, entries.offsets, self._offset[own])
            self._length[own] = np.where(counts, entries.lengths, self._length[own])
            told[own] = True
            self._sources.append(entries)
        if files and not told.all():
            row = first_row_id + int(np.flatnonzero(~told)[0])
            raise CorruptData(f"{directory}: no file holds column '{column}' of row {row}")
        # Nothing but placeholders is null, as in Paimon.
        self._length[self._length == PLACEHOLDER_LENGTH] = NULL_LENGTH

    def value_bytes(self, positions: _Longs) -> _Longs:
        """Bytes that the values of some rows take in memory."""
        if self._as_descriptors:
            return np.zeros(len(positions), np.int64)
        return np.maximum(self._length[positions], 0)

    def take(self, positions: _Longs) -> pa.Array:
        """The values of some rows, by their positions in the range.

        Raises:
            CorruptData: A file is missing or cut short, or an entry is damaged.
        """
        values: list[bytes | memoryview | None] = [None] * len(positions)
        lengths = self._length[positions]
        for number, entries in enumerate(self._sources):
            found = np.flatnonzero((self._source[positions] == number) & (lengths >= 0))
            if not len(found):
                continue
            offsets = self._offset[positions[found]]
            order = np.argsort(offsets, kind="stable")
            found, offsets = found[order], offsets[order]
            if self._as_descriptors:
                places = zip(found.tolist(), offsets.tolist(), lengths[found].tolist(), strict=True)
                for at, offset, length in places:
                    start = offset + ENTRY_START
                    values[at] = descriptor(entries.path, start, length - FRAME_BYTES)
                continue
            read = read_blobs(self._files, entries.path, offsets, lengths[found])
            for at, value in zip(found.tolist(), read, strict=True):
                values[at] = value
        return value_array(values)


def value_array(values: Sequence[bytes | memoryview | None]) -> pa.Array:
    """Values as an array; `pa.array` would keep each memoryview, and what it is of, for good."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for at, value in enumerate(values):
        if value is not None:
            data[offsets[at] : offsets[at + 1]] = np.frombuffer(value, np.uint8)
    is_valid = np.packbits([value is not None for value in values], bitorder="little")
    buffers = [pa.py_buffer(each) for each in (is_valid, offsets, data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
