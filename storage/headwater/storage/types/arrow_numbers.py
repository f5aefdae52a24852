"""Arrow columns as NumPy numbers and back, nulls kept apart.

NumPy's integers have no null, and Arrow's own way into NumPy makes floating-point numbers of
integers that do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Integers", "arrow_numbers", "low_words", "plain_numbers"]

Integers = npt.NDArray[np.int64]

_WORDS = {32: pa.int32(), 64: pa.int64()}


def plain_numbers(array: pa.Array) -> npt.NDArray[np.generic]:
    """The numbers of a column of numbers, dates, times or timestamps; 0 where it is null."""
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(_WORDS[kind.bit_width])
    if array.null_count:
        array = array.fill_null(0)
    numbers: npt.NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return numbers


def arrow_numbers(
    numbers: npt.NDArray[np.generic], like: pa.Array, data_type: pa.DataType
) -> pa.Array:
    """Numbers as a column of `data_type`, null where `like` is."""
    mask = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    if pa.types.is_temporal(data_type):
        word = _WORDS[data_type.bit_width]
        return pa.array(numbers, word, mask=mask, from_pandas=False).view(data_type)
    return pa.array(numbers, data_type, mask=mask, from_pandas=False)


def low_words(decimals: pa.Array) -> Integers:
    """The lowest 64 bits of the unscaled numbers of a decimal128 column; 0 where it is null.

    They are the whole of a number of at most 18 digits, and what ``BigInteger.longValue`` gives.
    """
    if decimals.null_count:
        decimals = decimals.fill_null(0)
    data = decimals.buffers()[1]
    words = np.frombuffer(data, "<i8", count=2 * (decimals.offset + len(decimals)))
    return words[2 * decimals.offset :: 2].astype(np.int64)
