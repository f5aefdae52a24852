"""The values of a column as the keys of an index.

Numbers, dates, times and moments are NumPy numbers as Java holds them: moments of at most 3 digits
are milliseconds, others microseconds; DECIMALs are their unscaled numbers. Text is bytes.

Keys are compared as Java compares them: -0.0 is below 0.0 and another key, NaN is one key above all
others. A predicate takes the two zeros for one; whoever looks a zero up looks for both.

Source: ``BitmapTypeVisitor.java``, ``BitmapFileIndex.getValueMapper``, ``KeyFactory.java``,
``HashMap.java`` and the ``hashCode`` of the keys' classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.index.file_index.map_order import hash_map_order
from headwater.storage.rows.bucket import hash_rows
from headwater.storage.types.arrow_numbers import low_words, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.values import StorageValue

__all__ = [
    "Distinct",
    "Integers",
    "Key",
    "Numbers",
    "binary_content",
    "distinct_keys",
    "entry_bytes",
    "greedy_starts",
    "is_lossy",
    "is_text",
    "key_bytes",
    "key_numbers",
    "key_of",
    "key_width",
    "literal_numbers",
    "map_order",
    "ordered",
    "read_key",
]

Numbers: TypeAlias = npt.NDArray[np.generic]
Integers: TypeAlias = npt.NDArray[np.int64]
Key: TypeAlias = "int | bytes"
"""A key that compares as Java's does: bytes of a text, or the `ordered` integer of a number."""

_TEXTS = (Root.CHAR, Root.VARCHAR)
_MOMENTS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_MICROSECOND_DIGITS = 6
_DTYPES = {
    Root.BOOLEAN: ">i1", Root.TINYINT: ">i1", Root.SMALLINT: ">i2", Root.INT: ">i4",
    Root.BIGINT: ">i8", Root.FLOAT: ">f4", Root.DOUBLE: ">f8", Root.DECIMAL: ">i8",
    Root.DATE: ">i4", Root.TIME: ">i4", Root.TIMESTAMP: ">i8", Root.TIMESTAMP_LTZ: ">i8",
}  # fmt: skip


def is_text(data_type: AtomicType) -> bool:
    """True if the keys are bytes of text."""
    return data_type.root in _TEXTS


def is_lossy(data_type: AtomicType) -> bool:
    """True if different values may have one key: moments of more digits than microseconds."""
    return data_type.root in _MOMENTS and data_type.precision > _MICROSECOND_DIGITS


def key_numbers(column: pa.Array, data_type: AtomicType) -> Numbers:
    """The keys of a column of any type but text and bytes; anything stands where it is null."""
    match data_type.root:
        case Root.BOOLEAN:
            return np.asarray(column.cast(pa.int8()).fill_null(0))
        case Root.DECIMAL:
            return low_words(column.cast(pa.decimal128(38, data_type.scale)))
    numbers = plain_numbers(column)
    # Floor, as Timestamp.toMicros does.
    return numbers // np.int64(1000) if is_lossy(data_type) else numbers  # type: ignore[operator]


def literal_numbers(values: Sequence[StorageValue], data_type: AtomicType) -> Numbers:
    """The keys of storage values of any type but text and bytes."""
    dtype = np.dtype(_DTYPES[data_type.root]).newbyteorder("=")
    if data_type.root is Root.DECIMAL:
        assert all(isinstance(value, Decimal) for value in values)
        return np.array([int(Decimal(str(v)).scaleb(data_type.scale)) for v in values], dtype)
    if is_lossy(data_type):
        return np.array([int(str(value)) // 1000 for value in values], dtype)
    return np.array(values, dtype)


def ordered(numbers: Numbers) -> Integers:
    """Integers that compare as Java compares the numbers, one for one."""
    if numbers.dtype.kind != "f":
        return numbers.astype(np.int64)
    plain = np.where(np.isnan(numbers), np.abs(numbers.dtype.type(np.nan)), numbers)
    bits = plain.astype(numbers.dtype.newbyteorder("="))
    word = np.dtype(f"=i{bits.itemsize}")
    whole = bits.view(word)
    return np.where(whole < 0, whole ^ np.iinfo(word).max, whole).astype(np.int64)


def key_of(value: StorageValue, data_type: AtomicType) -> Key:
    """The key of a storage value."""
    if isinstance(value, str):
        return value.encode()
    return int(ordered(literal_numbers([value], data_type))[0])


# Bytes ----------------------------------------------------------------------------------------


def key_width(data_type: AtomicType) -> int | None:
    """The bytes of a key; None for text, which has its length before it."""
    return None if is_text(data_type) else np.dtype(_DTYPES[data_type.root]).itemsize


def key_bytes(keys: Numbers | pa.Array, data_type: AtomicType) -> pa.Array:
    """The keys as indexes hold them, a ``large_binary`` array."""
    if isinstance(keys, np.ndarray):
        return _rows_of(keys.astype(_DTYPES[data_type.root]))
    lengths = np.asarray(pc.binary_length(keys), ">i4")
    return pc.binary_join_element_wise(_rows_of(lengths), keys, pa.scalar(b"", pa.large_binary()))


def _rows_of(fixed: npt.NDArray[np.generic]) -> pa.Array:
    """Each row of an array of numbers as bytes."""
    width = fixed.itemsize * (fixed.shape[1] if fixed.ndim > 1 else 1)
    offsets = np.arange(len(fixed) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(fixed.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(fixed), buffers)


def entry_bytes(keys: pa.Array, *numbers: Integers) -> tuple[bytes, Integers]:
    """Keys, each with 32-bit numbers after it, one after another.

    Args:
        keys: From `key_bytes`.
        numbers: The numbers of each key.

    Returns:
        The bytes, and n + 1 offsets into them.
    """
    rows = np.column_stack(numbers).astype(">i4")
    joined = pc.binary_join_element_wise(keys, _rows_of(rows), pa.scalar(b"", pa.large_binary()))
    return binary_content(joined)


def binary_content(array: pa.Array) -> tuple[bytes, Integers]:
    """The bytes of a ``large_binary`` array without nulls, and n + 1 offsets into them."""
    if not len(array):
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: len(array) + 1]
    data = array.buffers()[2]
    whole = b"" if data is None else data.to_pybytes()[offsets[0] : offsets[-1]]
    return whole, offsets - offsets[0]


def read_key(data: bytes, at: int, data_type: AtomicType) -> tuple[Key, int]:
    """The key that stands there, and the position after it; raises ValueError when it is cut."""
    width = key_width(data_type)
    if width is None:
        width = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if width < 0 or at + width > len(data):
            raise ValueError(f"a text of {width} bytes at {at} is beyond the end")
        return data[at : at + width], at + width
    number = np.frombuffer(data, _DTYPES[data_type.root], 1, at)
    return int(ordered(number)[0]), at + width


def greedy_starts(ends: Integers, room: int, *, free_first: bool = False) -> list[int]:
    """The first entry of each group, when groups take entries as long as they fit.

    Args:
        ends: The end of each entry, counted from the first one's beginning.
        room: The bytes of a group at most; an entry alone may be larger.
        free_first: True if a group's first entry takes no room.
    """
    starts: list[int] = []
    at = 0
    while at < len(ends):
        starts.append(at)
        base = int(ends[at]) if free_first else int(ends[at - 1]) if at else 0
        at = max(at + 1, int(np.searchsorted(ends, base + room, side="right")))
    return starts


# Distinct keys --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distinct:
    """The distinct keys of a column, ascending.

    Attributes:
        keys: The keys: numbers, or a ``large_binary`` array of text.
        codes: The position in `keys` of the key of each row that is not null.
        rows: The numbers of these rows, ascending.
        first: The first row of each key.
        row_count: Rows, those that are null included.
    """

    keys: Numbers | pa.Array
    codes: Integers
    rows: npt.NDArray[np.uint32]
    first: Integers
    row_count: int

    @property
    def nulls(self) -> npt.NDArray[np.uint32]:
        """The numbers of the rows that are null."""
        mask = np.ones(self.row_count, np.bool_)
        mask[self.rows] = False
        return np.flatnonzero(mask).astype(np.uint32)


def distinct_keys(column: pa.Array, data_type: AtomicType) -> Distinct:
    """The distinct keys of a column."""
    valid = np.flatnonzero(np.asarray(column.is_valid())).astype(np.uint32)
    if is_text(data_type):
        encoded = column.drop_null().cast(pa.large_binary()).dictionary_encode()
        order = np.asarray(pc.array_sort_indices(encoded.dictionary))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[np.asarray(encoded.indices)]
        keys: Numbers | pa.Array = encoded.dictionary.take(pa.array(order))
        _, at = np.unique(codes, return_index=True)
    else:
        numbers = key_numbers(column, data_type)[valid]
        _, at, codes = np.unique(ordered(numbers), return_index=True, return_inverse=True)
        keys = numbers[at]
    return Distinct(keys, codes.astype(np.int64), valid, valid[at].astype(np.int64), len(column))


def map_order(found: Distinct, data_type: AtomicType) -> Integers:
    """The order in which Java's ``HashMap`` gives keys that it met row by row."""
    keys = found.keys
    hashes = _text_hashes(keys) if isinstance(keys, pa.Array) else _number_hashes(keys, data_type)
    return hash_map_order(hashes, found.first)


def _number_hashes(numbers: Numbers, data_type: AtomicType) -> npt.NDArray[np.uint32]:
    if data_type.root is Root.BOOLEAN:
        return np.where(numbers.astype(np.bool_), 1231, 1237).astype(np.uint32)
    if numbers.dtype.kind == "f":
        canonical = np.where(np.isnan(numbers), np.nan, numbers).astype(numbers.dtype)
        numbers = canonical.view(np.int32 if numbers.itemsize == 4 else np.int64)
    if numbers.itemsize < 8:
        return numbers.astype(np.int32).view(np.uint32)
    words = numbers.view(np.uint64)
    return (words ^ (words >> np.uint64(32))).astype(np.uint32)


def _text_hashes(texts: pa.Array) -> npt.NDArray[np.uint32]:
    """``BinaryString.hashCode``: murmur3 of words, then of each byte that is left as a word."""
    data, offsets = binary_content(texts)
    lengths = np.diff(offsets)
    whole, rest = lengths // 4, lengths % 4
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(whole + rest, out=ends[1:])
    row = np.repeat(np.arange(len(lengths)), whole + rest)
    position = np.arange(len(row)) - ends[row]
    plain = np.append(np.frombuffer(data, np.uint8), np.zeros(4, np.uint8))
    is_word = position < whole[row]
    at = offsets[row] + np.where(is_word, 4 * position, 3 * whole[row] + position)
    words = np.zeros(len(row), np.uint32)
    for byte in range(4):
        words |= plain[np.minimum(at + byte, len(plain) - 1)].astype(np.uint32) << np.uint32(
            8 * byte
        )
    words = np.where(is_word, words, plain[at].view(np.int8).astype(np.int32).view(np.uint32))
    return hash_rows(words.view(np.uint8), ends * 4, lengths)
