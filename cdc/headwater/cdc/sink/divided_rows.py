"""Rows that are divided by a hash of their key, in memory or in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

__all__ = ["DividedRows", "read_batches"]

_KEY_SEED = 0
_FILES_BITS = 6
_LAST_FILE = (1 << _FILES_BITS) - 1
_HASH_BITS = 64


class DividedRows:
    """Rows in memory, or in files by their key's hash once they are too many.

    Args:
        folder: Where its files are.
        key: The key's columns.
        limit: How many bytes of rows are in memory at most.
        level: How often the rows were divided before.
    """

    def __init__(self, folder: Path, key: Sequence[str], limit: int, level: int = 0) -> None:
        self._folder = folder
        self._key = key
        self._limit = limit
        self._level = level
        self._buffer: list[pa.Table] = []
        self._buffered = 0
        self._writers: dict[int, pa.RecordBatchWriter] = {}
        self._bytes: dict[int, int] = {}

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        self._buffer.append(rows)
        self._buffered += rows.nbytes
        # Rows that no bit of the hash is left for have the same key.
        if self._buffered > self._limit and self._level < _HASH_BITS // _FILES_BITS:
            self._write()

    def parts(self) -> Iterator[pa.Table]:
        """Take out all rows; those of a key are in the same part."""
        if self._buffer and self._bytes:
            self._write()
        elif self._buffer:
            rows, self._buffer = pa.concat_tables(self._buffer), []
            yield rows
        self.close()
        for number, size in self._bytes.items():
            file = self._file(number)
            if size <= self._limit:
                yield pa.Table.from_batches(read_batches(file))
            else:
                yield from self._divided(number)
            file.unlink()

    def close(self) -> None:
        """Close its files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _divided(self, number: int) -> Iterator[pa.Table]:
        """The parts of a file with too many rows."""
        folder = self._folder / f"{number} parts"
        rows = DividedRows(folder, self._key, self._limit, self._level + 1)
        try:
            for batch in read_batches(self._file(number)):
                rows.add(pa.Table.from_batches([batch]))
            yield from rows.parts()
        finally:
            rows.close()

    def _write(self) -> None:
        rows, self._buffer, self._buffered = pa.concat_tables(self._buffer), [], 0
        hashes = pl.DataFrame(rows.select(self._key)).hash_rows(seed=_KEY_SEED).to_numpy()
        shift = np.uint64(self._level * _FILES_BITS)
        numbers = (hashes >> shift).astype(np.uint8) & _LAST_FILE
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=_LAST_FILE + 1))
        ordered = rows.take(order).combine_chunks()
        begin = 0
        for number, end in enumerate(ends.tolist()):
            if end > begin:
                self._append(number, ordered.slice(begin, end - begin))
            begin = end

    def _append(self, number: int, rows: pa.Table) -> None:
        if number not in self._writers:
            self._folder.mkdir(exist_ok=True)
            self._writers[number] = pa.ipc.new_stream(str(self._file(number)), rows.schema)
        self._writers[number].write_table(rows)
        self._bytes[number] = self._bytes.get(number, 0) + rows.nbytes

    def _file(self, number: int) -> Path:
        return self._folder / str(number)


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """Read what an Arrow stream in a file has."""
    with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as batches:
        yield from batches
