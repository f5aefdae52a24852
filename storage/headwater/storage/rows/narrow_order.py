"""Keys of a key range as integers: what all of them have in common is left out.

Comparing integers takes a fraction of comparing byte strings. Several integer columns fit into one
when few values lie between their least and greatest; text of one length does when all begins alike,
as consecutive keys do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.rows.ordering import Comparable, RowOrder, integers, is_integer, is_variable

__all__ = ["KeySpan", "NarrowEncoding", "NarrowOrder"]

_BITS = 64
_BYTES = 8


@dataclass(frozen=True)
class KeySpan:
    """The extent of some rows' keys.

    Attributes:
        bounds: The least and the greatest value of each integer column.
        prefix: The beginning of all values of the text column; empty when there is none.
        length: The bytes of each of these values; 0 when there is no such column.
    """

    bounds: tuple[tuple[int, int], ...]
    prefix: bytes = b""
    length: int = 0


@dataclass(frozen=True)
class NarrowEncoding:
    """The encoding of keys as integers of 64 bits.

    Keys compare with those of the same encoding only.

    Attributes:
        lows: The number subtracted from the values of each integer column.
        bits: The bits that each of these columns takes.
        prefix: The beginning left out of each value of the text column.
        length: The bytes of each of these values; 0 when there is no such column.
    """

    lows: tuple[int, ...]
    bits: tuple[int, ...]
    prefix: bytes = b""
    length: int = 0

    def holds(self, span: KeySpan) -> bool:
        """True if keys of such an extent can be encoded."""
        return (
            span.length == self.length
            and span.prefix.startswith(self.prefix)
            and all(
                low >= base and (high - base).bit_length() <= bits
                for (low, high), base, bits in zip(span.bounds, self.lows, self.bits, strict=True)
            )
        )

    def encode(self, arrays: Sequence[pa.Array]) -> Comparable:
        """The rows' keys, which lie in a `KeySpan` that the encoding holds."""
        numbers = arrays[1:] if self.length else arrays
        keys: npt.NDArray[np.uint64] | None = None
        if self.length:
            keys = _endings(arrays[0], self.length, self.length - len(self.prefix))
        for array, low, bits in zip(numbers, self.lows, self.bits, strict=True):
            # Differences beyond a signed number are right all the same, modulo 2 ** 64.
            differences = integers(array).view(np.uint64) - np.uint64(low % (1 << _BITS))
            if keys is None:
                keys = differences
                continue
            # In place: clearing fresh memory takes longer than the numbers do.
            if bits < _BITS:
                keys <<= np.uint64(bits)
            keys |= differences
        assert keys is not None
        return keys


@dataclass(frozen=True)
class NarrowOrder:
    """The order of rows by columns whose values may be encoded as one integer.

    Attributes:
        has_text: True if the first column is text or binary; all others are integers or times.
    """

    has_text: bool

    @staticmethod
    def of(order: RowOrder) -> NarrowOrder | None:
        """The order by some columns; None when they are of other types, or are one integer."""
        columns = order.columns
        has_text = is_variable(columns[0].arrow)
        plain = not any(column.nullable or column.descending for column in columns)
        numbers = columns[1:] if has_text else columns
        if not plain or not all(is_integer(column.arrow) for column in numbers):
            return None
        return NarrowOrder(has_text) if has_text or len(columns) > 1 else None

    def span(self, arrays: Sequence[pa.Array]) -> KeySpan | None:
        """The extent of sorted rows; None when they cannot be encoded, or are not sorted."""
        if not len(arrays[0]) or any(array.null_count for array in arrays):
            return None
        prefix, length = b"", 0
        if self.has_text:
            found = _beginning(arrays[0])
            if found is None:
                return None
            prefix, length = found
        numbers = [integers(array) for array in arrays[self.has_text :]]
        bounds = tuple((int(values.min()), int(values.max())) for values in numbers)
        return KeySpan(bounds, prefix, length)

    def encoding(self, spans: Sequence[KeySpan | None]) -> NarrowEncoding | None:
        """An encoding that holds rows of several extents; None when it takes more than 64 bits."""
        known = [span for span in spans if span is not None]
        if len(known) < len(spans) or len({span.length for span in known}) > 1:
            return None
        prefix = _shared_beginning([span.prefix for span in known])
        length = known[0].length
        bounds = list(zip(*(span.bounds for span in known), strict=True))
        lows = [min(low for low, _ in column) for column in bounds]
        highs = [max(high for _, high in column) for column in bounds]
        for at in range(1, len(bounds)):
            # With room on both sides, keys of the next ranges fit, too.
            extent = highs[at] - lows[at]
            lows[at], highs[at] = lows[at] - extent, highs[at] + extent
        bits = [(high - low).bit_length() for low, high in zip(lows, highs, strict=True)]
        spare = _BITS - sum(bits)
        if spare < 8 * (length - len(prefix)):
            return None
        if self.has_text:
            # What is left over is taken all the same, so that later keys fit, too.
            prefix = prefix[: max(0, length - spare // 8)]
        else:
            # The first column's values grow from one range to the next.
            bits[0] += spare
        return NarrowEncoding(tuple(lows), tuple(bits), prefix, length)


def _beginning(text: pa.Array) -> tuple[bytes, int] | None:
    """The shared beginning of all values, and their length; None when they differ in length."""
    rows = len(text)
    offsets = np.frombuffer(text.buffers()[1], np.int32, rows + 1, text.offset * 4)
    length = int(offsets[1] - offsets[0])
    if length < _BYTES or not bool(np.all(offsets[1:] - offsets[:-1] == length)):
        return None
    values = text.view(pa.binary())
    prefix = _shared_beginning([values[0].as_py(), values[-1].as_py()])
    # Of sorted values those between begin like the first and the last.
    if length - len(prefix) > _BYTES or not _begin_alike(text, length, len(prefix)):
        return None
    return prefix, length


def _begin_alike(text: pa.Array, length: int, width: int) -> bool:
    """True if values of one length have their first bytes in common, eight compared at a time."""
    start, data = _first_byte(text), text.buffers()[2]
    if width < _BYTES:
        words = np.ndarray((len(text),), ">u8", data, start, (length,))
        first = words >> np.uint64(8 * (_BYTES - width))
        return width == 0 or bool(np.all(first == first[0]))
    # The last eight may overlap the eight before.
    for at in (*range(0, width - _BYTES, _BYTES), width - _BYTES):
        found = np.ndarray((len(text),), "<u8", data, start + at, (length,))
        if not np.all(found == found[0]):
            return False
    return True


def _first_byte(text: pa.Array) -> int:
    """The position of the first value in the bytes of all."""
    return int(np.frombuffer(text.buffers()[1], np.int32, 1, text.offset * 4)[0])


def _shared_beginning(values: Sequence[bytes]) -> bytes:
    """The longest beginning that all of some values have."""
    least, greatest = min(values), max(values)
    pairs = enumerate(zip(least, greatest, strict=False))
    return least[: next((at for at, (one, other) in pairs if one != other), len(least))]


def _endings(text: pa.Array, length: int, width: int) -> npt.NDArray[np.uint64]:
    """The last bytes of values of one length, as big-endian numbers."""
    start = _first_byte(text) + length - _BYTES
    ends: npt.NDArray[np.uint64] = np.ndarray(
        (len(text),), ">u8", text.buffers()[2], start, (length,)
    ).astype(np.uint64)
    ends &= np.uint64((1 << 8 * width) - 1)
    return ends
