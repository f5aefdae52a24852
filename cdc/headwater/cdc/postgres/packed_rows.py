"""Undecoded rows of many messages, packed: a few objects, however many messages there are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.cdc.columns.gather import MAX_LOG_BYTES, PADDING
from headwater.cdc.postgres.messages import RowRun
from headwater.cdc.source.log_batches import slab_parts

__all__ = ["SLAB_BYTES", "PackedRows", "RowsSlab", "SlabBytes"]

SlabBytes: TypeAlias = bytearray | memoryview
# Bytes that are decoded together: more are slower, as they do not stay in the processor's caches.
SLAB_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class RowsSlab:
    """Messages with rows of one table, one after the other.

    Args:
        data: The messages' bytes, with those that `LogBytes` needs after them.
        ends: Where each message ends.
    """

    data: SlabBytes
    ends: npt.NDArray[np.int64]

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Its bytes may be in a file of this process.
        return RowsSlab, (bytearray(self.data), self.ends)


class PackedRows:
    """The undecoded rows of a table in one shape, in the order of the log.

    Args:
        slab_bytes: The bytes of rows that are decoded together.
        store: Keeps the bytes of a slab, in memory or elsewhere.
    """

    def __init__(
        self,
        slab_bytes: int = SLAB_BYTES,
        store: Callable[[SlabBytes], SlabBytes] | None = None,
    ) -> None:
        self._slab_bytes, self._store = slab_bytes, store
        self._slabs: list[RowsSlab] = []
        self._sealed_bytes = 0
        self._data, self._ends = bytearray(), array("q")

    def __reduce__(self) -> tuple[object, tuple[Sequence[RowsSlab]]]:
        return _packed, (list(self.slabs()),)

    @property
    def size(self) -> int:
        """The bytes of all messages."""
        return self._sealed_bytes + len(self._data)

    def parts(self, size: int) -> Iterator[PackedRows]:
        """The rows in parts of at least some bytes, which are whole slabs."""
        return map(_packed, slab_parts(self.slabs(), size))

    def add(self, run: RowRun) -> None:
        """Add the rows of messages."""
        if run.ends is None or 2 * run.size < memoryview(run.data.obj).nbytes:
            # It would keep much more memory than it has rows.
            self._add(run.data[: run.size], run.ends)
            return
        if self._ends:
            self._seal()
        self._append(run.data, run.ends)

    def extend(self, others: PackedRows) -> None:
        """Add rows of the same shape, which are not used otherwise any more."""
        if others._slabs:
            if self._ends:
                self._seal()
            self._slabs += others._slabs
            self._sealed_bytes += others._sealed_bytes
        if others._ends:
            several = len(others._ends) > 1
            self._add(others._data, np.frombuffer(others._ends, np.int64) if several else None)

    def _add(self, data: bytearray | memoryview, ends: npt.NDArray[np.int64] | None) -> None:
        if self._ends and len(self._data) + len(data) > MAX_LOG_BYTES:
            self._seal()
        before = len(self._data)
        self._data += data
        if ends is None:
            self._ends.append(len(self._data))
        else:
            self._ends.frombytes((ends + before).tobytes())
        if len(self._data) >= self._slab_bytes:
            self._seal()

    def slabs(self) -> Iterator[RowsSlab]:
        """The rows, in parts that are decoded together."""
        if self._ends:
            self._seal()
        yield from self._slabs

    def _seal(self) -> None:
        data, ends = self._data, self._ends
        self._data, self._ends = bytearray(), array("q")
        data += bytes(PADDING)
        self._append(data, np.frombuffer(ends, np.int64))

    def _append(self, data: SlabBytes, ends: npt.NDArray[np.int64]) -> None:
        self._sealed_bytes += len(data) - PADDING
        self._slabs.append(RowsSlab(data if self._store is None else self._store(data), ends))


def _packed(slabs: Sequence[RowsSlab]) -> PackedRows:
    rows = PackedRows()
    rows._slabs = list(slabs)
    rows._sealed_bytes = sum(int(slab.ends[-1]) for slab in slabs)
    return rows
