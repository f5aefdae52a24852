"""Sort more rows than fit into memory.

Rows that fit are sorted there. Of more, the keys are sampled first: quantiles of the sample split
them into ranges, each a file on the local disk. Ranges are sorted one after another, and split
again if they are too large. A range of one key alone needs no sorting, however large it is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Unavailable
from headwater.storage.rows.gather import gather
from headwater.storage.rows.ordering import Comparable, RowOrder, argsort, concatenate

__all__ = ["BATCH_ROWS", "RowKey", "RowSource", "Spool", "sort_memory", "sorted_batches"]

BATCH_ROWS = 8192
"""Rows of which too much is not known yet to say how many may be held at a time."""
_MOST_ROWS = 65536
_BATCH_BYTES = 1 << 22
# Each is an open file while rows are split.
_MOST_RANGES = 64
_SAMPLES_OF_RANGE = 100
_SPILLED = pa.ipc.IpcWriteOptions(compression="lz4")
_LEAST_MEMORY = 1 << 20
# Sorting takes about three times as much as the rows, and they are read and written beside it.
_SORTS_IN_BUFFER = 4


def sort_memory(buffer_bytes: int) -> int:
    """Bytes of rows that are sorted at a time where a buffer of so many is meant for rows."""
    return max(_LEAST_MEMORY, buffer_bytes // _SORTS_IN_BUFFER)


class RowKey(Protocol):
    """The order that rows are put in."""

    @property
    def order(self) -> RowOrder:
        """Compares what `arrays` gives."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns that decide."""
        ...

    def arrays(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The values that rows are sorted by.

        Args:
            rows: Rows with the columns, and maybe more.
        """
        ...


class RowSource(Protocol):
    """Rows that can be read more than once."""

    @property
    def row_count(self) -> int:
        """The number of rows, or more."""
        ...

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows; all columns unless some are named, and about so many rows at a time."""
        ...


class Spool:
    """Rows that come once and can be read more than once; a `RowSource`, and a context manager.

    Args:
        memory_bytes: Bytes of rows that are held. More go to the local disk, all of them.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._schema: pa.Schema | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._folder, self._output = ExitStack(), ExitStack()
        self._path: str | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._rows = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget the rows."""
        self.close()

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._rows

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, of the columns of those before; not after they were read.

        Raises:
            Unavailable: The local disk is full.
        """
        if self._schema is None:
            self._schema = rows.schema
        elif rows.schema != self._schema:
            # Text may come with wider offsets from one reader than from another.
            columns = [rows.column(field.name).cast(field.type) for field in self._schema]
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._rows += rows.num_rows
        if self._writer is not None:
            with _local_disk():
                self._writer.write_batch(rows)
            return
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._memory_bytes and self._rows > 1:
            self._spill()

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, in the order in which they were added."""
        if self._path is not None:
            with _local_disk():
                self._output.close()
            yield from _Spilled(self._path, self._rows).read(columns, batch_rows)
            return
        for rows in self._held:
            yield rows if columns is None else rows.select(columns)

    def close(self) -> None:
        """Forget the rows."""
        self._held = []
        self._output.close()
        self._folder.close()

    def _spill(self) -> None:
        with _local_disk():
            folder = tempfile.TemporaryDirectory(prefix="headwater-sort-")
            self._path = os.path.join(self._folder.enter_context(folder), "rows.arrow")
            file = self._output.enter_context(pa.OSFile(self._path, "wb"))
            writer = pa.ipc.new_stream(file, self._schema, options=_SPILLED)
            self._writer = self._output.enter_context(writer)
            for rows in self._held:
                self._writer.write_batch(rows)
        self._held = []


def sorted_batches(source: RowSource, key: RowKey, memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows in the order of a key, batch by batch; equal ones in any order.

    Args:
        source: The rows.
        key: The order.
        memory_bytes: Bytes of rows held at a time. Sorting takes about three times as much. What
            does not fit goes to the local disk, once or twice.

    Raises:
        Unavailable: The local disk is full, or cannot be written.
    """
    with ExitStack() as folders:
        yield from _sorted(source, key, memory_bytes, folders)


def _sorted(
    source: RowSource, key: RowKey, memory_bytes: int, folders: ExitStack
) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in source.read(None, BATCH_ROWS):
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size > memory_bytes and rows > 1:
            break
    else:
        yield from _sorted_in_memory(held, key)
        return
    held.clear()
    row_bytes = max(1.0, size / rows)
    batch_rows = max(256, min(_MOST_ROWS, int(memory_bytes / 16 / row_bytes)))
    expected = row_bytes * max(source.row_count, rows)
    ranges = min(_MOST_RANGES, 2 + int(2 * expected / memory_bytes))
    bounds = _quantiles(source, key, ranges)
    with _local_disk():
        folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="headwater-sort-"))
    spilled = _split(source, key, bounds, folder, batch_rows)
    for number, part in enumerate(spilled):
        if part is None:
            continue
        if number % 2:
            yield from part.read(None, batch_rows)
        else:
            yield from _sorted(part, key, memory_bytes, folders)
        os.unlink(part.path)


def _sorted_in_memory(batches: Sequence[pa.RecordBatch], key: RowKey) -> Iterator[pa.RecordBatch]:
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    order = key.order
    arrays = [key.arrays(batch) for batch in batches]
    encoding = order.fixed or order.encoding(arrays)
    places = argsort(concatenate([order.encode(each, encoding) for each in arrays]))
    del arrays
    step = _rows_of_batch(batches)
    for start in range(0, len(places), step):
        yield from gather(batches, places[start : start + step])


def _rows_of_batch(batches: Sequence[pa.RecordBatch]) -> int:
    """Rows given at a time: few enough that wide ones take no great part of the memory."""
    rows = sum(batch.num_rows for batch in batches)
    row_bytes = sum(batch.nbytes for batch in batches) / rows
    return max(1, min(_MOST_ROWS, int(_BATCH_BYTES / max(row_bytes, 1))))


def _quantiles(source: RowSource, key: RowKey, ranges: int) -> list[pa.Array]:
    """Distinct keys that split the rows into ranges of about the same size, in their order."""
    stride = max(1, source.row_count // (_SAMPLES_OF_RANGE * ranges))
    samples: list[Sequence[pa.Array]] = []
    first = 0
    for batch in source.read(key.columns):
        picked = np.arange(first, batch.num_rows, stride)
        if len(picked):
            samples.append(key.arrays(batch.take(pa.array(picked))))
        first = (first - batch.num_rows) % stride
    columns = [pa.concat_arrays(parts) for parts in zip(*samples, strict=True)]
    comparable = key.order.encode(columns)
    order = argsort(comparable)
    picked = order[np.linspace(0, len(order), ranges + 1).astype(np.int64)[1:-1]]
    distinct = np.append(True, comparable[picked][1:] != comparable[picked][:-1])
    chosen = pa.array(picked[distinct])
    return [column.take(chosen) for column in columns]


@dataclass(frozen=True)
class _Spilled:
    """Rows in a file of the local disk.

    Attributes:
        path: The file.
        row_count: The number of rows.
    """

    path: str
    row_count: int

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows, all columns unless some are named; small batches are put together."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        with _local_disk(), pa.OSFile(self.path) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                waiting.append(batch if columns is None else batch.select(columns))
                rows += batch.num_rows
                size += batch.nbytes
                if rows >= batch_rows or size >= _BATCH_BYTES:
                    yield pa.concat_batches(waiting)
                    waiting, rows, size = [], 0, 0
        if waiting:
            yield pa.concat_batches(waiting)


def _split(
    source: RowSource, key: RowKey, bounds: Sequence[pa.Array], folder: str, batch_rows: int
) -> list[_Spilled | None]:
    """Rows split by bounds: at even places those between two, at odd ones those equal to one."""
    count = 2 * len(bounds[0]) + 1
    counts = [0] * count
    paths = [os.path.join(folder, f"{number}.arrow") for number in range(count)]
    with _local_disk(), ExitStack() as stack:
        writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        for batch in source.read(None, batch_rows):
            places = _places(key, batch, bounds)
            order = np.argsort(places, kind="stable")
            ends = np.cumsum(np.bincount(places, minlength=count))
            rows = batch.take(pa.array(order))
            start = 0
            for number, end in enumerate(ends.tolist()):
                if end == start:
                    continue
                if number not in writers:
                    file = stack.enter_context(pa.OSFile(paths[number], "wb"))
                    writers[number] = stack.enter_context(
                        pa.ipc.new_stream(file, batch.schema, options=_SPILLED)
                    )
                writers[number].write_batch(rows.slice(start, end - start))
                counts[number] += end - start
                start = end
    return [
        _Spilled(path, rows) if rows else None for path, rows in zip(paths, counts, strict=True)
    ]


@contextmanager
def _local_disk() -> Iterator[None]:
    """Errors of the local disk as errors of this engine."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"rows that are sorted do not fit onto the disk of {tempfile.gettempdir()}: {error}; "
            "give it more room, set TMPDIR, or raise 'write-buffer-size'"
        ) from error


def _places(key: RowKey, batch: pa.RecordBatch, bounds: Sequence[pa.Array]) -> Comparable:
    order, arrays = key.order, key.arrays(batch)
    encoding = order.fixed or order.encoding([arrays, bounds])
    rows, limits = order.encode(arrays, encoding), order.encode(bounds, encoding)
    below = np.searchsorted(limits, rows, side="left")
    places = below + np.searchsorted(limits, rows, side="right")
    return places.astype(np.uint16)
