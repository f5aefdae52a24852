"""Undecoded rows of many events, packed: a few objects, however many events there are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.cdc.columns.gather import PADDING
from headwater.cdc.mysql.events import Event, EventType, read_packed_integer
from headwater.cdc.source.log_batches import slab_parts
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.rows.kinds import RowKind

# Bytes that are decoded together: more are slower, as they do not stay in the processor's caches.
SLAB_BYTES = 8 << 20
# Rows that are not copied are at least so many bytes, and as much of the memory that has them.
_SMALL_BYTES = 1 << 20
_MIN_SHARE = 0.5
# From so many events on, their heads are compared by one NumPy operation.
_MANY_EVENTS = 16

# The kind of the first image of each operation's rows; an update has a second image.
_KINDS: Mapping[int, RowKind] = {
    EventType.WRITE_ROWS_V1: RowKind.INSERT,
    EventType.UPDATE_ROWS_V1: RowKind.UPDATE_BEFORE,
    EventType.DELETE_ROWS_V1: RowKind.DELETE,
    EventType.WRITE_ROWS: RowKind.INSERT,
    EventType.UPDATE_ROWS: RowKind.UPDATE_BEFORE,
    EventType.DELETE_ROWS: RowKind.DELETE,
}
_UPDATE = RowKind.UPDATE_BEFORE
# The table id and the flags of a rows event.
_HEAD_BYTES = 8
_VERSION_2 = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS})


class RowsHead(NamedTuple):
    """What events say before their rows.

    Args:
        kind: The row kind of each row's first image: +I, -U or -D.
        column_count: How many columns the table has.
        images: Bitmaps of the columns that each image of a row has: one image, but for an update
            the row before it and after it.
    """

    kind: RowKind
    column_count: int
    images: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RowsSlab:
    """The rows of some events, in their order; other bytes may be between them.

    Args:
        data: The rows' bytes, with those that `LogBytes` needs after them.
        starts: Where each event's rows begin.
        ends: Where each event's rows end.
        heads: The index in `known` of each event's head.
        known: The heads.
    """

    data: memoryview
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    heads: npt.NDArray[np.int32]
    known: tuple[RowsHead, ...]

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Its bytes may be in a file of this process.
        return _slab, (bytes(self.data), self.starts, self.ends, self.heads, self.known)


class PackedRows:
    """The undecoded rows of events of one shape, in the order of the log.

    Args:
        slab_bytes: The bytes of rows that are decoded together.
        store: Keeps the bytes of a slab, in memory or elsewhere.

    Attributes:
        lacks_columns: Whether an event has no column of its rows: neither what they are nor how
            many they are is in the log.
    """

    def __init__(
        self,
        slab_bytes: int = SLAB_BYTES,
        store: Callable[[memoryview], memoryview] | None = None,
    ) -> None:
        self._slab_bytes, self._store = slab_bytes, store
        self._slabs: list[RowsSlab] = []
        self.lacks_columns = False
        self._known: list[RowsHead] = []
        self._indexes: dict[tuple[int, bytes], int] = {}
        # The last event's type, what it has before its rows, and the index of its head.
        self._last_type, self._last_head, self._rows_at, self._last_index = -1, b"", 0, 0
        # Rows that are copied.
        self._data, self._size = memoryview(b""), 0
        self._starts, self._ends, self._heads = array("q"), array("q"), array("i")
        # Rows that came after them, where they are.
        self._source = memoryview(b"")
        self._source_starts, self._source_ends = array("q"), array("q")
        self._source_heads = array("i")

    def __reduce__(self) -> tuple[object, tuple[Sequence[RowsSlab]]]:
        return _packed, (list(self.slabs()),)

    def add(self, event: Event) -> None:
        """Add the rows of an event that is not compressed.

        Raises:
            CorruptData: It ends too early.
            Invalid: It is not a rows event.
            Unsupported: It has partial updates of JSON.
        """
        self.leave_source()
        body, rows_at = event.body, self._rows_at
        if event.type is not self._last_type or body[_HEAD_BYTES:rows_at] != self._last_head:
            rows_at = self._read_head(event.type, body)
        start = self._size
        end = start + len(body) - rows_at
        self._reserve(end)
        self._data[start:end] = body[rows_at:]
        self._size = end
        self._starts.append(start)
        self._ends.append(end)
        self._heads.append(self._last_index)
        if end >= self._slab_bytes:
            self._seal()

    def add_bodies(
        self, type_: int, data: memoryview, starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """Add the rows of events of one type; they are copied later, or not at all.

        Args:
            type_: The type.
            data: Has the events' bodies. It is the same object for those that are in the same
                memory, and does not change.
            starts: Where each body begins.
            ends: Where each body ends.

        Raises:
            CorruptData, Invalid, Unsupported: As `add`.
        """
        if data is not self._source:
            self.leave_source()
            self._source = data
        if len(starts) >= _MANY_EVENTS and self._add_like_last(type_, data, starts, ends):
            return
        head, rows_at = self._last_head, self._rows_at
        if type_ is not self._last_type:
            # No body has as many bytes: the head of the first one is read.
            rows_at = len(data) + 1
        for number, start in enumerate(starts):
            begin, end = start + rows_at, ends[number]
            if begin > end or data[start + _HEAD_BYTES : begin] != head:
                begin = start + self._read_head(type_, data[start:end])
                head, rows_at = self._last_head, self._rows_at
            self._source_starts.append(begin)
            self._source_ends.append(end)
            self._source_heads.append(self._last_index)

    def _add_like_last(
        self, type_: int, data: memoryview, starts: Sequence[int], ends: Sequence[int]
    ) -> bool:
        """Add the rows of many events, if all of them begin as the last one that was added."""
        head, rows_at = np.frombuffer(self._last_head, np.uint8), self._rows_at
        if type_ is not self._last_type or starts[-1] + rows_at > len(data):
            return False
        begins = np.array(starts, np.int64)
        places = begins[:, np.newaxis] + np.arange(_HEAD_BYTES, rows_at)
        heads = np.frombuffer(data, np.uint8).take(places)
        begins += rows_at
        if (heads != head).any() or (begins > np.array(ends, np.int64)).any():
            return False
        self._source_starts.frombytes(begins.tobytes())
        self._source_ends.extend(ends)
        self._source_heads.frombytes(np.full(len(begins), self._last_index, np.int32).tobytes())
        return True

    def leave_source(self) -> None:
        """Copy the rows that are not copied yet, or keep their memory if they are most of it."""
        source, self._source = self._source, memoryview(b"")
        if not self._source_ends:
            return
        starts = np.frombuffer(self._source_starts, np.int64)
        ends = np.frombuffer(self._source_ends, np.int64)
        heads = self._source_heads
        self._source_starts, self._source_ends = array("q"), array("q")
        self._source_heads = array("i")
        first, last, total = int(starts[0]), int(ends[-1]), int((ends - starts).sum())
        least = max(_SMALL_BYTES, _MIN_SHARE * len(source))
        if total >= least and last + PADDING <= len(source):
            if self._ends:
                self._seal()
            data = source[first : last + PADDING]
            self._keep(data, starts - first, ends - first, np.frombuffer(heads, np.int32))
            return
        start = self._size
        if 2 * total >= last - first:
            # With what is between them.
            copied: memoryview | bytes = source[first:last]
            starts, ends = starts - first + start, ends - first + start
        else:
            places = zip(starts.tolist(), ends.tolist(), strict=True)
            copied = b"".join([source[place:end] for place, end in places])
            sizes = ends - starts
            ends = np.cumsum(sizes) + start
            starts = ends - sizes
        self._reserve(start + len(copied))
        self._size = start + len(copied)
        self._data[start : self._size] = copied
        self._starts.frombytes(starts.tobytes())
        self._ends.frombytes(ends.tobytes())
        self._heads.extend(heads)
        if self._size >= self._slab_bytes:
            self._seal()

    def _reserve(self, size: int) -> None:
        """Have memory for so many bytes of copied rows, and those that follow them."""
        needed = size + PADDING
        if needed <= len(self._data):
            return
        needed *= 2
        if needed > _SMALL_BYTES:
            # A whole slab at once, for which the system has large pages.
            needed = max(needed, min(self._slab_bytes, SLAB_BYTES) + _SMALL_BYTES)
        larger = np.empty(needed, np.uint8).data
        larger[: self._size] = self._data[: self._size]
        self._data = larger

    def _read_head(self, type_: int, body: memoryview) -> int:
        """Read what an event has before its rows; returns where they begin."""
        kind = _KINDS.get(type_)
        if kind is None:
            raise _not_rows(type_)
        count_at = _HEAD_BYTES
        if type_ in _VERSION_2:
            count_at += body[_HEAD_BYTES] | body[_HEAD_BYTES + 1] << 8
        column_count, start = read_packed_integer(body, count_at)
        bitmap_bytes = column_count + 7 >> 3
        rows_at = start + (2 * bitmap_bytes if kind is _UPDATE else bitmap_bytes)
        images = body[start:rows_at].tobytes()
        index = self._indexes.get((type_, images))
        if index is None:
            index = self._indexes[type_, images] = len(self._known)
            head = _head(kind, column_count, images)
            self._known.append(head)
            self.lacks_columns |= not all(map(any, head.images))
        self._last_type, self._last_head = type_, body[_HEAD_BYTES:rows_at].tobytes()
        self._rows_at, self._last_index = rows_at, index
        return rows_at

    @property
    def size(self) -> int:
        """The bytes of all rows, and of what is between them."""
        size = self._size + sum(int(slab.ends[-1]) for slab in self._slabs)
        if self._source_ends:
            size += self._source_ends[-1] - self._source_starts[0]
        return size

    def parts(self, size: int) -> Iterator[PackedRows]:
        """The rows in parts of at least some bytes, which are whole slabs."""
        return map(_packed, slab_parts(self.slabs(), size))

    def slabs(self) -> Iterator[RowsSlab]:
        """The rows, in parts that are decoded together."""
        self.leave_source()
        if self._ends:
            self._seal()
        yield from self._slabs

    def _seal(self) -> None:
        """Make a slab of the copied rows."""
        self._keep(
            self._data[: self._size + PADDING],
            np.frombuffer(self._starts, np.int64),
            np.frombuffer(self._ends, np.int64),
            np.frombuffer(self._heads, np.int32),
        )
        self._data, self._size = memoryview(b""), 0
        self._starts, self._ends, self._heads = array("q"), array("q"), array("i")

    def _keep(
        self,
        data: memoryview,
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        heads: npt.NDArray[np.int32],
    ) -> None:
        data = data if self._store is None else self._store(data)
        self._slabs.append(RowsSlab(data, starts, ends, heads, tuple(self._known)))


def _slab(
    data: bytes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    heads: npt.NDArray[np.int32],
    known: tuple[RowsHead, ...],
) -> RowsSlab:
    return RowsSlab(memoryview(data), starts, ends, heads, known)


def _packed(slabs: Sequence[RowsSlab]) -> PackedRows:
    rows = PackedRows()
    rows._slabs = list(slabs)
    return rows


def is_rows_event(event: Event) -> bool:
    """Whether an event that is not compressed has rows."""
    return event.type in _KINDS or event.type is EventType.PARTIAL_UPDATE_ROWS


def table_number(event: Event) -> int:
    """The number that a TABLE_MAP event gives to a table, and a rows event refers to."""
    return int.from_bytes(event.body[:6], "little")


@lru_cache(maxsize=4096)
def _head(kind: RowKind, column_count: int, bitmaps: bytes) -> RowsHead:
    size = (column_count + 7) // 8
    count = 2 if kind is _UPDATE else 1
    if len(bitmaps) != count * size:
        raise CorruptData(
            f"cannot decode rows: expected {count * size} bytes of bitmaps before the rows of an "
            f"event, got {len(bitmaps)}; read the log again from its source"
        )
    images = tuple(bitmaps[size * i : size * (i + 1)] for i in range(count))
    return RowsHead(kind, column_count, images)


def _not_rows(type_: int) -> Invalid | Unsupported:
    if type_ is EventType.PARTIAL_UPDATE_ROWS:
        return Unsupported(
            "cannot decode rows: a session of the source wrote partial updates of JSON; set "
            "binlog_row_value_options='' for all sessions and read the table again"
        )
    return Invalid(
        f"cannot decode rows: expected a rows event, got the event type {type_!s}; expand "
        "compressed events first"
    )
