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
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid

__all__ = ["Comparable", "OrderColumn", "RowOrder", "argsort", "concatenate"]

Comparable: TypeAlias = npt.NDArray[np.generic]
"""One-dimensional: int64, uint64 or a fixed-width byte string (``S``)."""

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class OrderColumn:
    """A column that rows are ordered by.

    Attributes:
        arrow: Its Arrow type.
        nullable: Whether nulls may occur.
        descending: Whether great values come first; nulls come first all the same.
    """

    arrow: pa.DataType
    nullable: bool = False
    descending: bool = False


class RowOrder:
    """Turns columns into comparable arrays.

    Args:
        columns: What rows are ordered by, most significant first.

    Raises:
        Invalid: A column's type has no order (nested types).
    """

    def __init__(self, columns: Sequence[OrderColumn]) -> None:
        self.columns = tuple(columns)
        for column in self.columns:
            if pa.types.is_nested(column.arrow):
                raise Invalid(f"rows cannot be ordered by a column of type {column.arrow}")
        self._variable = [_is_variable(column.arrow) for column in self.columns]

    def widths(self, arrays: Sequence[pa.Array]) -> tuple[int, ...]:
        """Bytes that each column needs: arrays are comparable only if encoded with equal widths.

        Fixed for all but text and binary, where it is that of the longest value.
        """
        return tuple(
            _longest(array) if variable else _fixed_width(column.arrow)
            for column, array, variable in zip(self.columns, arrays, self._variable, strict=True)
        )

    def encode(self, arrays: Sequence[pa.Array], widths: Sequence[int] | None = None) -> Comparable:
        """The rows' comparable array.

        Args:
            arrays: The columns, of the types given, without chunks.
            widths: At least what `widths` says; None takes just that.
        """
        widths = self.widths(arrays) if widths is None else widths
        if len(self.columns) == 1 and not self._variable[0]:
            column = self.columns[0]
            if not column.nullable and not column.descending and _is_integer(column.arrow):
                return _integers(arrays[0])
        parts: list[_Bytes] = []
        for column, array, width in zip(self.columns, arrays, widths, strict=True):
            parts.extend(_encode(column, array, width))
        matrix = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return _as_comparable(matrix)


def concatenate(arrays: Sequence[Comparable]) -> Comparable:
    """Several comparable arrays of one encoding as one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def argsort(rows: Comparable) -> npt.NDArray[np.int64]:
    """The permutation that sorts rows; equal rows keep their order."""
    quick = np.argsort(rows)
    ordered = rows[quick]
    if np.any(ordered[1:] == ordered[:-1]):
        return np.argsort(rows, kind="stable")
    return quick


def _is_variable(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _is_integer(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(arrow) or pa.types.is_temporal(arrow))


def _fixed_width(arrow: pa.DataType) -> int:
    return 1 if pa.types.is_boolean(arrow) else int(arrow.byte_width)


def _longest(array: pa.Array) -> int:
    longest = pc.max(pc.binary_length(array)).as_py()
    return int(longest or 0)


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Integers or times as int64, whatever their width; nulls are arbitrary."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), np.int64)
    values = np.frombuffer(buffer, _SIGNED[width], len(array), array.offset * width)
    return values if width == 8 else values.astype(np.int64)


def _encode(column: OrderColumn, array: pa.Array, width: int) -> list[_Bytes]:
    """The column as big-endian bytes, after a byte that says whether the value is null."""
    body = _text(array, width) if _is_variable(column.arrow) else _fixed(array)
    if column.descending:
        body = [~part for part in body]
    if not column.nullable:
        return body
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False).astype(np.uint8)[:, None]
    if array.null_count:
        body = [part * valid for part in body]
    return [valid, *body]


def _big_endian(values: npt.NDArray[np.unsignedinteger]) -> _Bytes:
    size = values.dtype.itemsize
    swapped = values.astype(values.dtype.newbyteorder(">"))
    return swapped.view(np.uint8).reshape(len(values), size)


def _fixed(array: pa.Array) -> list[_Bytes]:
    arrow = array.type
    if pa.types.is_boolean(arrow):
        bits = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        return [bits.astype(np.uint8)[:, None]]
    width = arrow.byte_width
    buffer = array.buffers()[1]
    if buffer is None:
        return [np.zeros((len(array), width), np.uint8)]
    if pa.types.is_decimal(arrow):
        raw = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
        flipped = raw.reshape(len(array), width)[:, ::-1].copy()
        flipped[:, 0] ^= 0x80
        return [flipped]
    unsigned = np.dtype(f"u{width}")
    bits = np.frombuffer(buffer, unsigned, len(array), array.offset * width)
    sign = unsigned.type(1 << (8 * width - 1))
    if pa.types.is_floating(arrow):
        numbers = bits.view(f"f{width}")
        total = np.where(bits & sign, ~bits, bits | sign)
        return [_big_endian(np.where(np.isnan(numbers), ~unsigned.type(0), total))]
    return [_big_endian(bits ^ sign)]


def _text(array: pa.Array, width: int) -> list[_Bytes]:
    """Bytes padded with zeros, then the length: ``a`` stays below ``a\\0``."""
    text = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    lengths = pc.binary_length(text).to_numpy(zero_copy_only=False)
    tail = _big_endian(lengths.astype(np.uint32))
    if width == 0 or not len(text):
        return [tail]
    # The kernel counts bytes, whatever they mean, so it serves binary and non-ASCII text alike.
    padded = pc.ascii_rpad(text.view(pa.string()), width=width, padding="\0")
    raw = np.frombuffer(padded.buffers()[2], np.uint8, len(padded) * width, padded.offset * width)
    return [raw.reshape(len(padded), width), tail]


def _as_comparable(matrix: _Bytes) -> Comparable:
    rows, width = matrix.shape
    if width > 8:
        return np.ascontiguousarray(matrix).view(f"S{width}").reshape(rows)
    word = np.zeros((rows, 8), np.uint8)
    word[:, 8 - width :] = matrix
    return word.view(">u8").reshape(rows).astype(np.uint64)
