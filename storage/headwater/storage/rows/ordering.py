"""Columns as one NumPy array that sorts and compares as the rows do in Paimon.

The order is that of Paimon's generated comparators (``GenerateUtils.scala``): text and binary by
unsigned byte, floating point as ``Double.compare`` (-0.0 below 0.0, NaN highest and equal to
itself), null below everything, ascending or descending.

A single integer column is its own array; several columns become byte strings of a fixed width
(NumPy dtype ``S``), which `numpy` sorts, searches and compares without a Python loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.types.arrow_numbers import arrow_mask, numpy_mask, numpy_values

__all__ = [
    "Comparable",
    "Encoding",
    "OrderColumn",
    "RowOrder",
    "argsort",
    "concatenate",
    "first_of_equal",
    "integers",
    "is_integer",
    "is_variable",
    "sorted_distinct",
    "words",
]

Comparable: TypeAlias = npt.NDArray[np.generic]
"""One-dimensional: int64, uint64 or a fixed-width byte string (``S``)."""

_Integer = TypeVar("_Integer", bound=np.integer)
_Bytes: TypeAlias = npt.NDArray[np.uint8]
# Bytes of a long value that are compared before its rank.
_RANKED_WIDTH = 64
# Beyond that, comparing whole values is faster.
_MAX_WORDS_SORTED = 4
# Bytes padded at a time: Arrow's text ends at 2 GiB.
_PADDED_BYTES = 1 << 26
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class OrderColumn:
    """A column that rows are ordered by.

    Attributes:
        arrow: Its Arrow type.
        nullable: Whether nulls may occur.
        descending: Put great values first; nulls come first all the same.
    """

    arrow: pa.DataType
    nullable: bool = False
    descending: bool = False


@dataclass(frozen=True)
class Encoding:
    """The encoding of text and binary columns in bytes of a fixed width.

    Comparable arrays compare only with those of the same encoding.

    Attributes:
        widths: The bytes of each column.
        long: Of each column the distinct values that are longer, sorted, as large binary; None
            when there are none. They are told apart by their places in it.
    """

    widths: tuple[int, ...]
    long: tuple[pa.Array | None, ...]


class RowOrder:
    """Turns columns into comparable arrays.

    Args:
        columns: The columns to order by, most significant first.

    Attributes:
        columns: The same.
        fixed: The encoding of any rows; None when it depends on text or binary columns.

    Raises:
        Invalid: A column's type has no order (nested types).
    """

    def __init__(self, columns: Sequence[OrderColumn]) -> None:
        self.columns = tuple(columns)
        for column in self.columns:
            if pa.types.is_nested(column.arrow):
                raise Invalid(f"rows cannot be ordered by a column of type {column.arrow}")
        self._variable = [is_variable(column.arrow) for column in self.columns]
        self.fixed: Encoding | None = None
        if not any(self._variable):
            widths = tuple(_fixed_width(column.arrow) for column in self.columns)
            self.fixed = Encoding(widths, (None,) * len(widths))

    def widths(self, arrays: Sequence[pa.Array]) -> tuple[int, ...]:
        """Bytes of each column's longest value; fixed for all but text and binary."""
        return tuple(
            _longest(array) if variable else _fixed_width(column.arrow)
            for column, array, variable in zip(self.columns, arrays, self._variable, strict=True)
        )

    def encoding(
        self,
        batches: Sequence[Sequence[pa.Array]],
        widths: Sequence[Sequence[int]] | None = None,
    ) -> Encoding:
        """An encoding that holds all rows of some batches, so that they may be compared.

        Args:
            batches: The columns of each batch.
            widths: The result of `widths` for each batch; None computes it.

        Memory follows the rows' own size, not their number times the longest value: where few
        values are long, only the first 64 bytes are kept, and the rank of longer values.
        """
        each = [self.widths(arrays) for arrays in batches] if widths is None else widths
        rows = sum(len(arrays[0]) for arrays in batches)
        chosen: list[int] = []
        long: list[pa.Array | None] = []
        for at, variable in enumerate(self._variable):
            width = max((one[at] for one in each), default=0)
            columns = [arrays[at] for arrays in batches]
            ranked = variable and _is_wasteful(width, rows, columns)
            chosen.append(_RANKED_WIDTH if ranked else width)
            long.append(_long_values(columns) if ranked else None)
        return Encoding(tuple(chosen), tuple(long))

    def encode(self, arrays: Sequence[pa.Array], encoding: Encoding | None = None) -> Comparable:
        """The rows' comparable array.

        Args:
            arrays: The columns, of the types given, without chunks.
            encoding: One that these rows were given to `encoding` for; None makes one for them.
        """
        if len(self.columns) == 1 and not self._variable[0]:
            column = self.columns[0]
            if not column.nullable and not column.descending and is_integer(column.arrow):
                return integers(arrays[0])
        if encoding is None:
            encoding = self.fixed or self.encoding([arrays])
        # Each column is null byte, body, and for text the length; filled in place to save a copy.
        widths = [
            width + (4 if variable else 0) + (1 if column.nullable else 0)
            for column, width, variable in zip(
                self.columns, encoding.widths, self._variable, strict=True
            )
        ]
        total = sum(widths)
        # An integer compares much faster than bytes, so up to eight fill one.
        padding = max(0, 8 - total)
        matrix = np.zeros((len(arrays[0]), padding + total), np.uint8)
        start = padding
        for column, array, width, long, taken in zip(
            self.columns, arrays, encoding.widths, encoding.long, widths, strict=True
        ):
            _encode(column, array, width, long, matrix[:, start : start + taken])
            start += taken
        return _as_comparable(matrix)


def concatenate(arrays: Sequence[Comparable]) -> Comparable:
    """Several comparable arrays of one encoding as one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def sorted_distinct(values: npt.NDArray[_Integer]) -> npt.NDArray[_Integer]:
    """Integers ascending, each once.

    NumPy's `unique` takes 25 times as long for a million that differ: since 2.3 it hashes them.
    """
    ordered = np.sort(values)
    return ordered[first_of_equal(ordered)]


def first_of_equal(ordered: Comparable) -> npt.NDArray[np.bool_]:
    """Whether each row is the first of those that equal it; the rows are in order."""
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def argsort(rows: Comparable) -> npt.NDArray[np.int64]:
    """The permutation that sorts rows; equal rows keep their order."""
    if bool(np.all(np.greater_equal(rows[1:], rows[:-1]))):
        return np.arange(len(rows))
    if rows.dtype.kind == "S":
        differing = [word for word in words(rows) if np.any(word != word[0])]
        if len(differing) <= _MAX_WORDS_SORTED:
            return np.lexsort(differing[::-1])
    else:
        low, bits = int(rows.min()), len(rows).bit_length()
        if bits + (int(rows.max()) - low).bit_length() < 64:
            # Row numbers in the low bits make rows distinct, and plain numbers sort the fastest.
            # In a narrower type a difference may not fit.
            wide = rows if rows.dtype.itemsize == 8 else rows.astype(np.int64)
            packed = np.subtract(wide, wide.dtype.type(low)).astype(np.int64) << bits
            packed |= np.arange(len(rows))
            packed.sort()
            return packed & ((1 << bits) - 1)
    return np.argsort(rows, kind="stable")


def words(rows: Comparable) -> list[Comparable]:
    """Integers that rows compare by, the most significant first."""
    if rows.dtype.kind != "S":
        return [rows]
    width = rows.dtype.itemsize
    padded = np.zeros((len(rows), width + -width % 8), np.uint8)
    padded[:, :width] = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), width)
    columns = padded.view(">u8").astype(np.uint64)
    return [np.ascontiguousarray(column) for column in columns.T]


def is_variable(arrow: pa.DataType) -> bool:
    """Whether values are text or binary, of any length."""
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def is_integer(arrow: pa.DataType) -> bool:
    """Whether values compare as integers do: integers, dates, times."""
    return bool(pa.types.is_signed_integer(arrow) or pa.types.is_temporal(arrow))


def _fixed_width(arrow: pa.DataType) -> int:
    return 1 if pa.types.is_boolean(arrow) else int(arrow.byte_width)


def _longest(array: pa.Array) -> int:
    longest = pc.max(pc.binary_length(array)).as_py()
    return int(longest or 0)


def integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Integers or times as int64, whatever their width; nulls are arbitrary."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), np.int64)
    values = np.frombuffer(buffer, _SIGNED[width], len(array), array.offset * width)
    return values if width == 8 else values.astype(np.int64)


def _is_wasteful(width: int, rows: int, arrays: Sequence[pa.Array]) -> bool:
    """Whether values padded to the longest take far more bytes than they need."""
    padded = width * rows
    if width <= _RANKED_WIDTH or padded <= _PADDED_BYTES:
        return False
    held: int = sum(array.nbytes for array in arrays)
    return padded > 4 * held


def _long_values(arrays: Sequence[pa.Array]) -> pa.Array:
    """The distinct values beyond the width at which values are ranked, sorted."""
    long_values = [
        array.filter(pc.greater(pc.binary_length(array), _RANKED_WIDTH)).cast(pa.large_binary())
        for array in arrays
    ]
    distinct = pc.unique(pa.chunked_array(long_values, pa.large_binary()))
    return distinct.take(pc.sort_indices(distinct))


def _encode(
    column: OrderColumn, array: pa.Array, width: int, long: pa.Array | None, out: _Bytes
) -> None:
    """Write the column as big-endian bytes, after a byte that says whether the value is null."""
    body = out[:, 1:] if column.nullable else out
    if is_variable(column.arrow):
        _text(array, width, long, body)
    else:
        _fixed(array, body)
    if column.descending:
        np.invert(body, out=body)
    if column.nullable:
        valid = numpy_mask(pc.is_valid(array))
        out[:, 0] = valid
        if array.null_count:
            body[~valid] = 0


def _big_endian(values: npt.NDArray[np.unsignedinteger]) -> _Bytes:
    size = values.dtype.itemsize
    swapped = values.astype(values.dtype.newbyteorder(">"))
    return swapped.view(np.uint8).reshape(len(values), size)


def _fixed(array: pa.Array, out: _Bytes) -> None:
    arrow = array.type
    if pa.types.is_boolean(arrow):
        out[:, 0] = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return
    width = arrow.byte_width
    buffer = array.buffers()[1]
    if buffer is None:
        return
    if pa.types.is_decimal(arrow):
        raw = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
        out[:] = raw.reshape(len(array), width)[:, ::-1]
        out[:, 0] ^= 0x80
        return
    unsigned = np.dtype(f"u{width}")
    bits = np.frombuffer(buffer, unsigned, len(array), array.offset * width)
    sign = unsigned.type(1 << (8 * width - 1))
    if pa.types.is_floating(arrow):
        numbers = bits.view(f"f{width}")
        total = np.where(bits & sign, ~bits, bits | sign)
        out[:] = _big_endian(np.where(np.isnan(numbers), ~unsigned.type(0), total))
    else:
        out[:] = _big_endian(bits ^ sign)


def _text(array: pa.Array, width: int, long: pa.Array | None, out: _Bytes) -> None:
    """Write bytes padded with zeros, then the length: ``a`` stays below ``a\\0``.

    A value beyond the width is its beginning, then a number beyond each length by its rank.
    """
    text = array
    if array.null_count:
        text = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    lengths = numpy_values(pc.binary_length(text)).astype(np.uint32)
    if long is not None:
        beyond = lengths > width
        values = text.filter(arrow_mask(beyond)).cast(pa.large_binary())
        lengths[beyond] = numpy_values(pc.index_in(values, value_set=long)) + (width + 1)
        text = pc.binary_slice(text.view(pa.binary()), 0, width)
    out[:, width:] = _big_endian(lengths)
    if width == 0:
        return
    # The kernel counts bytes, whatever they mean, so it serves binary and non-ASCII text alike.
    text = text.view(pa.string())
    step = max(1, _PADDED_BYTES // width)
    for start in range(0, len(text), step):
        padded = pc.ascii_rpad(text.slice(start, step), width=width, padding="\0")
        rows = len(padded)
        raw = np.frombuffer(padded.buffers()[2], np.uint8, rows * width, padded.offset * width)
        out[start : start + rows, :width] = raw.reshape(rows, width)


def _as_comparable(matrix: _Bytes) -> Comparable:
    rows, width = matrix.shape
    if width > 8:
        return matrix.view(f"S{width}").reshape(rows)
    return matrix.view(">u8").reshape(rows).astype(np.uint64)
