"""Sums of integers and decimals, group by group, that are right however large they become.

A number of 64 or 128 bits is cut into digits of 32 bits; the sums of each digit fit 64 bits, and
are carried at the end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.merge.engine import Indices, Mask

__all__ = ["exact_sums"]

_DIGIT = np.int64(0xFFFFFFFF)


def exact_sums(
    values: pa.Array, firsts: Indices, negative: Mask | None = None
) -> tuple[pa.Array, Mask]:
    """The sum of each group's values; null counts as 0.

    Args:
        values: Signed integers, or decimals of 128 bits.
        firsts: The position of each group's first row; no group is empty.
        negative: A mask of the rows that count against the sum.

    Returns:
        The sums, of the values' type, and a mask of those that fit it; the others are null.
    """
    arrow = values.type
    digits = _digits(values)
    if negative is not None:
        digits[:, negative] *= -1
    sums = np.add.reduceat(digits, firsts, axis=1)
    for at in range(len(sums) - 1):
        sums[at + 1] += sums[at] >> 32
        sums[at] &= _DIGIT
    fits: Mask = sums[-1] == sums[-1].astype(np.int32)
    raw = np.ascontiguousarray(sums.astype(np.uint64).astype(np.uint32).T)
    if pa.types.is_decimal(arrow):
        whole = pa.Array.from_buffers(
            pa.decimal128(38, arrow.scale), len(firsts), [None, pa.py_buffer(raw)]
        )
        most = pa.scalar(10**arrow.precision - 1, pa.decimal128(38, 0))
        unscaled = pa.Array.from_buffers(
            pa.decimal128(38, 0), len(firsts), [None, pa.py_buffer(raw)]
        )
        within = pc.and_(pc.less_equal(unscaled, most), pc.greater_equal(unscaled, pc.negate(most)))
        fits &= within.to_numpy(zero_copy_only=False)
        kept = pc.if_else(pa.array(fits), whole, pa.scalar(None, whole.type))
        return kept.cast(arrow), fits
    numbers = raw.view(np.int64).ravel()
    bits = np.iinfo(arrow.to_pandas_dtype())
    fits &= (numbers >= bits.min) & (numbers <= bits.max)
    return pa.array(np.where(fits, numbers, 0), pa.int64(), mask=~fits).cast(arrow), fits


def _digits(values: pa.Array) -> npt.NDArray[np.int64]:
    """The values' digits of 32 bits, the lowest first, the highest signed; 0 for null."""
    if pa.types.is_decimal(values.type):
        filled = values.fill_null(pa.scalar(0, values.type))
        raw = np.frombuffer(filled.buffers()[1], np.uint32)
        raw = raw[4 * filled.offset : 4 * (filled.offset + len(filled))].reshape(-1, 4)
    else:
        raw = values.fill_null(0).cast(pa.int64()).to_numpy().view(np.uint32).reshape(-1, 2)
    digits = raw.T.astype(np.int64)
    digits[-1] = digits[-1].astype(np.int32)
    return digits
