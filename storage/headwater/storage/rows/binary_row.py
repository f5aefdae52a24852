"""BinaryRow: rows as Paimon keeps them in manifests, and the bytes that bucket numbers hash.

A row is a region of null bits (the first byte is the row kind, always +I here), 8 bytes for each
field, and a variable part. Strings of up to 7 bytes stand in their field; longer ones, DECIMAL
above 18 digits and TIMESTAMP above 3 digits stand in the variable part. A null of the last two
still takes its room there, with its offset kept in the field: that is what Java writes, and bucket
numbers and partition identity depend on it.

Source: ``BinaryRow.java``, ``AbstractBinaryWriter.java``, ``RowHelper.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.types.arrow_numbers import Words, decimal_words, shortest_decimals
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType, to_arrow
from headwater.storage.types.values import (
    StorageValue,
    is_kindred,
    storage_value,
    units_per_second,
)

__all__ = ["EMPTY_ROW", "deserialize_row", "encode_columns", "plain_array", "serialize_row"]

Offsets: TypeAlias = npt.NDArray[np.int64]

EMPTY_ROW = bytes(12)
"""The serialised row without fields."""

_INLINE = 7
# Rows encoded at once: their words stay in the processor's cache.
_CHUNK = 32_768
_TEXT = frozenset({Root.CHAR, Root.VARCHAR})
_BYTES = frozenset({Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY})
_TIMESTAMPS = frozenset({Root.TIMESTAMP, Root.TIMESTAMP_LTZ})
_PLAIN: Mapping[Root, str] = {
    Root.BOOLEAN: "<?",
    Root.TINYINT: "<b",
    Root.SMALLINT: "<h",
    Root.INT: "<i",
    Root.BIGINT: "<q",
    Root.FLOAT: "<f",
    Root.DOUBLE: "<d",
    Root.DATE: "<i",
    Root.TIME: "<i",
    Root.TIMESTAMP: "<q",
    Root.TIMESTAMP_LTZ: "<q",
}


def _null_words(arity: int) -> int:
    return (arity + 63 + 8) // 64


def _is_wide(data_type: DataType) -> bool:
    """True if every value, null included, takes a fixed room in the variable part."""
    if not isinstance(data_type, AtomicType):
        return False
    if data_type.root is Root.DECIMAL:
        return data_type.precision > 18
    return data_type.root in _TIMESTAMPS and data_type.precision > 3


# One row --------------------------------------------------------------------------------------


def serialize_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """A row as manifests keep it: 4 bytes of arity, big-endian, then the row.

    Args:
        values: Storage values (or what `headwater.storage.types.values.storage_value` accepts). A
            field of a nested type can only be None.
        types: Their types; all are taken as nullable.

    Raises:
        Invalid: A value is not of its type.
    """
    if len(values) != len(types):
        raise Invalid(f"a row of {len(types)} fields cannot hold {len(values)} values")
    arity = len(types)
    head = bytearray(_null_words(arity) * 8 + arity * 8)
    tail = bytearray()
    for position, (value, data_type) in enumerate(zip(values, types, strict=True)):
        at = _null_words(arity) * 8 + position * 8
        checked = storage_value(value, data_type)
        if checked is None:
            head[(position + 8) // 8] |= 1 << (position % 8)
        slot, extra = _field(checked, data_type, len(head) + len(tail))
        head[at : at + 8] = slot
        tail += extra
    return struct.pack(">i", arity) + bytes(head) + bytes(tail)


def _field(value: StorageValue, data_type: DataType, cursor: int) -> tuple[bytes, bytes]:
    """The 8 bytes of a field and its variable part, which will stand at `cursor`."""
    if not isinstance(data_type, AtomicType):
        return bytes(8), b""
    root = data_type.root
    if value is None:
        if not _is_wide(data_type):
            return bytes(8), b""
        room = 16 if root is Root.DECIMAL else 8
        return struct.pack("<II", 0, cursor), bytes(room)
    if root is Root.DECIMAL:
        assert isinstance(value, Decimal)
        # Not `scaleb`, which rounds to the context's 28 digits.
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        if data_type.precision <= 18:
            return struct.pack("<q", unscaled), b""
        size = _signed_size(unscaled)
        big = unscaled.to_bytes(size, "big", signed=True)
        return struct.pack("<II", size, cursor), big.ljust(16, b"\0")
    if root in _BYTES:
        data = value.encode() if isinstance(value, str) else value
        assert isinstance(data, bytes)
        if len(data) <= _INLINE:
            return data.ljust(_INLINE, b"\0") + bytes([0x80 | len(data)]), b""
        return struct.pack("<II", len(data), cursor), data + bytes(-len(data) % 8)
    if _is_wide(data_type):
        assert isinstance(value, int)
        millis, nanos = _millis_and_nanos(value, data_type)
        return struct.pack("<II", nanos, cursor), struct.pack("<q", millis)
    return struct.pack(_PLAIN[root], value).ljust(8, b"\0"), b""


def _signed_size(number: int) -> int:
    """Bytes of the shortest two's complement form (`BigInteger.toByteArray`)."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _millis_and_nanos(value: int, data_type: AtomicType) -> tuple[int, int]:
    per_milli = units_per_second(data_type) // 1000
    millis, rest = divmod(value, per_milli)
    return millis, rest * (10**6 // per_milli)


def deserialize_row(data: bytes, types: Sequence[DataType]) -> tuple[StorageValue, ...]:
    """The storage values of a serialised row.

    A field of a nested type reads as None: statistics never hold one.

    Raises:
        CorruptData: The bytes are not a row of these types.
    """
    try:
        (arity,) = struct.unpack_from(">i", data)
        if arity != len(types):
            raise CorruptData(f"a stored row has {arity} fields where {len(types)} were expected")
        row = memoryview(data)[4:]
        return tuple(_read_field(row, i, arity, types[i]) for i in range(arity))
    except (struct.error, IndexError, ValueError, ArithmeticError) as error:
        raise CorruptData(f"a stored row is malformed: {error}") from error


def _read_field(row: memoryview, position: int, arity: int, data_type: DataType) -> StorageValue:
    if row[(position + 8) // 8] & (1 << (position % 8)):
        return None
    if not isinstance(data_type, AtomicType):
        return None
    root = data_type.root
    at = _null_words(arity) * 8 + position * 8
    if root in _BYTES:
        mark = row[at + 7]
        data = bytes(row[at : at + (mark & 0x7F)] if mark & 0x80 else _variable(row, at))
        return data.decode() if root in _TEXT else data
    if root is Root.DECIMAL:
        if data_type.precision <= 18:
            (unscaled,) = struct.unpack_from("<q", row, at)
        else:
            unscaled = int.from_bytes(_variable(row, at), "big", signed=True)
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((int(unscaled < 0), digits, -data_type.scale))
    if _is_wide(data_type):
        nanos, start = struct.unpack_from("<II", row, at)
        (millis,) = struct.unpack_from("<q", row, start)
        per_milli = units_per_second(data_type) // 1000
        return int(millis) * per_milli + int(nanos) // (10**6 // per_milli)
    (value,) = struct.unpack_from(_PLAIN[root], row, at)
    assert isinstance(value, bool | int | float)
    return value


def _variable(row: memoryview, at: int) -> memoryview:
    size, start = struct.unpack_from("<II", row, at)
    if start + size > len(row):
        raise ValueError(f"a field of {size} bytes at {start} exceeds the row's {len(row)} bytes")
    return row[start : start + size]


# Columns --------------------------------------------------------------------------------------


def encode_columns(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """Many rows at once, each as its BinaryRow (without the arity prefix).

    Args:
        columns: One column for each field, all of one length, of the types' Arrow forms (or of
            Arrow types that cast to them without loss).
        types: The fields' types; at least one, none nested.

    Returns:
        The rows' bytes one after another, and n + 1 offsets: row i is ``bytes[o[i]:o[i + 1]]``.

    Raises:
        Invalid: A column is not of its type, or is of a nested type.
    """
    if not types or len(columns) != len(types):
        raise Invalid(f"cannot encode {len(columns)} columns as rows of {len(types)} fields")
    whole = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    rows = len(whole[0])
    if any(len(column) != rows for column in whole):
        raise Invalid("columns of different lengths cannot make rows")
    parts: list[Words] = []
    offsets = np.zeros(rows + 1, np.int64)
    for start in range(0, max(rows, 1), _CHUNK):
        words, ends = _encode([column.slice(start, _CHUNK) for column in whole], types)
        parts.append(words)
        offsets[start + 1 : start + 1 + len(ends)] = ends + offsets[start]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts)).view(np.uint8), offsets * 8


def _encode(columns: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[Words, Offsets]:
    """The rows' words one after another, and the word at which each row ends."""
    fields = [_Field(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    rows = len(fields[0].valid)
    arity = len(types)
    null_words = _null_words(arity)
    sizes = np.full(rows, null_words + arity, np.int64)
    for field in fields:
        sizes += field.room
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    words = np.zeros(int(starts[-1]), np.uint64)
    first = starts[:-1]
    cursor = np.full(rows, null_words + arity, np.int64)
    for position, field in enumerate(fields):
        words[first + null_words + position] = field.slots(cursor)
        field.fill(words, first + cursor)
        cursor += field.room
        if not field.valid.all():
            word, bit = divmod(position + 8, 64)
            words[first[~field.valid] + word] |= np.uint64(1 << bit)
    return words, starts[1:]


class _Field:
    """One column, turned into fields of rows.

    Attributes:
        valid: A mask of the rows in which the column is not null.
        room: Words that each row's value takes in the variable part: an array or one number.
    """

    def __init__(self, column: pa.Array, data_type: DataType) -> None:
        if not isinstance(data_type, AtomicType):
            raise Invalid(f"a column of type {data_type} cannot be part of a key")
        self._type = data_type
        array = plain_array(column, data_type)
        self.valid = _validity(array)
        self.room: Offsets | int = 0
        self._slots: Words = np.zeros(0, np.uint64)
        self._tail: Callable[[Words, Offsets], None] | None = None
        if data_type.root in _BYTES:
            self._take_bytes(array)
        elif data_type.root is Root.DECIMAL:
            self._take_decimals(array)
        elif data_type.root in _TIMESTAMPS:
            self._take_timestamps(array)
        else:
            self._slots = self._masked(_slots_of_plain(array, data_type.root))

    def slots(self, cursor: Offsets) -> Words:
        """The 8 bytes of each row's field, when its variable part begins `cursor` words in."""
        if self._tail is None:
            return self._slots
        # High half: offset in bytes; low half: what `_slots` holds. Inline strings have no offset.
        offset = cursor.astype(np.uint64) << np.uint64(35)
        if isinstance(self.room, int):
            return self._slots | offset
        return np.where(self.room > 0, self._slots | offset, self._slots)

    def fill(self, words: Words, at: Offsets) -> None:
        """Write each row's variable part at its word."""
        if self._tail is not None:
            self._tail(words, at)

    def _masked(self, slots: Words) -> Words:
        # What Arrow holds under a null is anything; a null's field is zero.
        return slots if self.valid.all() else np.where(self.valid, slots, np.uint64(0))

    def _take_timestamps(self, array: pa.Array) -> None:
        values = _fixed_width(array, np.int64)
        if self._type.precision <= 3:
            self._slots = self._masked(values.view(np.uint64))
            return
        per_milli = units_per_second(self._type) // 1000
        millis, rest = np.divmod(values, per_milli)
        self._slots = self._masked((rest * (10**6 // per_milli)).view(np.uint64))
        millis = self._masked(millis.view(np.uint64))
        self.room = 1

        def fill(words: Words, at: Offsets) -> None:
            words[at] = millis

        self._tail = fill

    def _take_decimals(self, array: pa.Array) -> None:
        low, high = decimal_words(array)
        if self._type.precision <= 18:
            self._slots = self._masked(low.copy())
            return
        sizes, first, second = shortest_decimals(low, high)
        self._slots = self._masked(sizes)
        first, second = self._masked(first), self._masked(second)
        self.room = 2

        def fill(words: Words, at: Offsets) -> None:
            words[at] = first
            words[at + 1] = second

        self._tail = fill

    def _take_bytes(self, array: pa.Array) -> None:
        offsets = _fixed_width(array, np.int64, extra=1)
        begin, size = offsets[:-1], np.diff(offsets)
        if not self.valid.all():
            size = np.where(self.valid, size, 0)
        unaligned = _every_word(array.buffers()[2], int(offsets[0]), int(offsets[-1]))
        begin = begin - offsets[0]
        length = size.view(np.uint64)
        inline = size <= _INLINE
        short = unaligned[begin] & _KEEP[np.minimum(size, _INLINE)]
        mark = (length | np.uint64(0x80)) << np.uint64(56)
        self._slots = self._masked(np.where(inline, short | mark, length))
        if inline.all():
            return
        room = np.where(inline, 0, (size + 7) // 8)
        self.room = room
        long_rows = np.flatnonzero(~inline)
        counts = room[long_rows]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        left = np.repeat(size[long_rows], counts) - 8 * within
        text = unaligned[np.repeat(begin[long_rows], counts) + 8 * within]
        text &= _KEEP[np.minimum(left, 8)]

        def fill(words: Words, at: Offsets) -> None:
            words[np.repeat(at[long_rows], counts) + within] = text

        self._tail = fill


# The mask that keeps the first i bytes of a little-endian word.
_KEEP: Words = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)


def _every_word(buffer: pa.Buffer | None, begin: int, end: int) -> Words:
    """The 8 bytes from each byte of ``buffer[begin:end]`` on, zeros beyond the end."""
    padded = np.zeros(end - begin + 8, np.uint8)
    if buffer is not None and end > begin:
        padded[:-8] = np.frombuffer(buffer, np.uint8)[begin:end]
    return np.ndarray((end - begin + 1,), np.uint64, padded, strides=(1,))


def plain_array(array: pa.Array, data_type: AtomicType) -> pa.Array:
    """A key column in its Arrow form; of strings and bytes large_binary: offsets have 64 bits.

    Raises:
        Invalid: The column does not hold values of the type.
    """
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if not is_kindred(array.type, data_type):
        raise Invalid(f"a column of Arrow type {array.type} does not hold type {data_type}")
    try:
        return array.cast(pa.large_binary() if data_type.root in _BYTES else to_arrow(data_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(
            f"a column of Arrow type {array.type} does not hold type {data_type}: {error}"
        ) from error


def _validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


_Number = TypeVar("_Number", bound=np.generic)


def _fixed_width(array: pa.Array, dtype: type[_Number], *, extra: int = 0) -> npt.NDArray[_Number]:
    """The values buffer of an array, without copying; `extra` counts values after the last row."""
    data = array.buffers()[1]
    rows = len(array) + extra
    if data is None or data.size == 0:
        return np.zeros(rows, dtype)
    return np.frombuffer(data, dtype, rows, array.offset * np.dtype(dtype).itemsize)


_SIGNED: Mapping[Root, tuple[type[np.generic], type[np.generic]]] = {
    Root.TINYINT: (np.int8, np.uint8),
    Root.SMALLINT: (np.int16, np.uint16),
    Root.INT: (np.int32, np.uint32),
    Root.BIGINT: (np.int64, np.uint64),
    Root.FLOAT: (np.float32, np.uint32),
    Root.DOUBLE: (np.float64, np.uint64),
    Root.DATE: (np.int32, np.uint32),
    Root.TIME: (np.int32, np.uint32),
}


def _slots_of_plain(array: pa.Array, root: Root) -> Words:
    if root is Root.BOOLEAN:
        filled = array.fill_null(False) if array.null_count else array
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.uint64)
    dtype, unsigned = _SIGNED[root]
    # Reinterpreted as unsigned: a narrow number must not spread its sign over the 8 bytes.
    return _fixed_width(array, dtype).view(unsigned).astype(np.uint64)
