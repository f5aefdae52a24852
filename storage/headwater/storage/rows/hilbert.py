"""Places of rows on the Hilbert curve, as Paimon's sort compaction computes them.

Rows with neighbouring places have like values in every column, with fewer jumps than on the
Z-order curve. Source: ``HilbertIndexer.java``; the curve is Skilling's ("Programming the Hilbert
curve", 2004), for all rows at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Unsupported
from headwater.storage.rows.z_order import (
    Bytes,
    double_bits,
    integers,
    interleaved_bits,
    leading_bytes,
    unscaled_words,
)
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType

__all__ = ["hilbert_curve", "hilbert_order"]

_BITS = 63
_HIGHEST = np.uint64(2**63 - 1)
_TEXT_BYTES = 8


def hilbert_order(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> Bytes:
    """The places of rows on the curve through some columns, as bytes that compare as they do.

    Null comes last. Fractions of DECIMAL, and all but eight bytes of text and binary, do not count.

    Args:
        arrays: The columns, without chunks; at least two.
        types: Their types.

    Raises:
        Unsupported: A column's type has no place on the curve.
    """
    return hilbert_curve(
        [_coordinate(array, kind) for array, kind in zip(arrays, types, strict=True)]
    )


def hilbert_curve(points: Sequence[npt.NDArray[np.uint64]]) -> Bytes:
    """The places of points, of which the lowest 63 bits of each coordinate count."""
    x = [point.copy() for point in points]
    one = np.uint64(1)
    for shift in range(_BITS - 1, 0, -1):
        lower = np.uint64((1 << shift) - 1)
        for each in x:
            is_set = (each >> np.uint64(shift)) & one
            # All ones where the bit is set: the first coordinate is inverted there; elsewhere it
            # is exchanged with this one.
            mask = np.negative(is_set)
            exchanged = (x[0] ^ each) & lower & ~mask
            if each is not x[0]:
                each ^= exchanged
                x[0] ^= exchanged
            x[0] ^= mask & lower
    for before, each in pairwise(x):
        each ^= before
    turned = np.zeros_like(x[0])
    for shift in range(_BITS - 1, 0, -1):
        is_set = (x[-1] >> np.uint64(shift)) & one
        turned ^= np.negative(is_set) & np.uint64((1 << shift) - 1)
    for each in x:
        each ^= turned
    # The highest bit is in none, so that zeros stand before the place.
    return interleaved_bits(
        [(each & _HIGHEST).astype(">u8").view(np.uint8).reshape(len(each), 8) for each in x]
    )


def _coordinate(array: pa.Array, kind: DataType) -> npt.NDArray[np.uint64]:
    match kind:
        case AtomicType(root=Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY):
            found = _text_number(array)
        case AtomicType(root=Root.BOOLEAN):
            flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
            found = flags.astype(np.uint64) * _HIGHEST
        case AtomicType(root=Root.TINYINT):
            found = integers(array).view(np.uint64) & np.uint64(0xFF)
        case AtomicType(
            root=Root.SMALLINT | Root.INT | Root.BIGINT | Root.DATE | Root.TIME | Root.TIMESTAMP
            | Root.TIMESTAMP_LTZ
        ):  # fmt: skip
            found = integers(array).view(np.uint64)
        case AtomicType(root=Root.FLOAT | Root.DOUBLE):
            found = double_bits(array)
        case AtomicType(root=Root.DECIMAL):
            found = _whole_part(array)
        case _:
            raise Unsupported(
                f"a column of type {kind} has no place on a Hilbert curve; leave it out of the "
                "columns to sort by"
            )
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        found = np.where(valid, found, _HIGHEST)
    return found


def _text_number(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Up to eight bytes as a number; shorter values are the smaller."""
    data = leading_bytes(array, _TEXT_BYTES).view(">u8").reshape(len(array)).astype(np.uint64)
    counted = pc.min_element_wise(pc.binary_length(pc.fill_null(array, _empty(array))), _TEXT_BYTES)
    lengths = counted.to_numpy(zero_copy_only=False).astype(np.uint64)
    # A shift by all 64 bits is undefined.
    missing = (np.uint64(_TEXT_BYTES) - lengths) * np.uint64(8)
    return np.where(lengths == 0, np.uint64(0), data >> np.minimum(missing, np.uint64(63)))


def _empty(array: pa.Array) -> str | bytes:
    return "" if pa.types.is_string(array.type) else b""


def _whole_part(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Numbers without their fractions, of which 64 bits stay (``BigDecimal.longValue``)."""
    if array.null_count == len(array):
        return np.zeros(len(array), np.uint64)
    _, low = unscaled_words(
        array if array.type.scale == 0 else pc.trunc(array).cast(pa.decimal128(38, 0))
    )
    return low
