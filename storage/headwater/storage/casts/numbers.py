"""Numbers, decimals and booleans as one another, by Java's rules.

Whole numbers wrap around, floating-point numbers end at the greatest whole number there is, a
decimal without room is null, and what decimals round off they round half up.

Source: ``NumericPrimitiveCastRule.java``, ``DecimalToDecimalCastRule.java`` and the other rules of
numbers in ``org.apache.paimon.casting``; ``DecimalUtils.java``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.decimals import (
    decimal_from_text,
    decimal_text,
    fitted_decimal,
    whole_part,
)
from headwater.storage.errors import Invalid
from headwater.storage.types.arrow_numbers import Integers, arrow_numbers, low_words, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.float_text import float_texts

__all__ = ["cast_number"]

_WIDTH: Mapping[Root, npt.DTypeLike] = {
    Root.TINYINT: np.int8,
    Root.SMALLINT: np.int16,
    Root.INT: np.int32,
    Root.BIGINT: np.int64,
}
_FLOATS = (Root.FLOAT, Root.DOUBLE)
# A long of Java's has at most so many digits, and so has Decimal.isCompact's.
_LONG_DIGITS, _COMPACT_DIGITS = 19, 18


def cast_number(array: pa.Array, stored: AtomicType, wanted: AtomicType) -> pa.Array:
    """A column of numbers or booleans as another one of numbers or booleans.

    Raises:
        Invalid: A number that is none (NaN) or has no end is to become a decimal.
    """
    if stored.root is Root.BOOLEAN:
        return cast_number(array.cast(pa.int32()), AtomicType(Root.INT), wanted)
    if wanted.root is Root.BOOLEAN:
        return pc.not_equal(array, pa.scalar(0, array.type))
    if wanted.root is Root.DECIMAL:
        return _to_decimal(array, stored, wanted)
    if stored.root is Root.DECIMAL:
        return _from_decimal(array, stored, wanted)
    target = to_arrow(wanted)
    numbers = plain_numbers(array)
    if wanted.root in _FLOATS:
        with np.errstate(over="ignore"):
            return arrow_numbers(numbers.astype(target.to_pandas_dtype()), array, target)
    if stored.root in _FLOATS:
        # Below BIGINT, Java first makes an int.
        numbers = _whole(numbers, 64 if wanted.root is Root.BIGINT else 32)
    return arrow_numbers(numbers.astype(_WIDTH[wanted.root]), array, target)


def _whole(numbers: npt.NDArray[np.generic], bits: int) -> Integers:
    """Floating-point numbers without their fraction, inside the bounds; NaN is 0."""
    floats = np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    bound = 1 << (bits - 1)
    beyond, below = floats >= float(bound), floats <= -float(bound)
    inside = np.where(beyond | below, 0.0, floats).astype(np.int64)
    return np.where(beyond, bound - 1, np.where(below, -bound, inside))


def _to_decimal(array: pa.Array, stored: AtomicType, wanted: AtomicType) -> pa.Array:
    if stored.root is Root.DECIMAL:
        return fitted_decimal(array, wanted)
    if stored.root in _FLOATS:
        # Java goes by way of the text of the double.
        if not pc.all(pc.is_finite(array), min_count=0).as_py():
            raise Invalid(f"NaN and infinities are no values of {wanted}")
        return decimal_from_text(float_texts(array.cast(pa.float64())), wanted)
    digits = wanted.precision - wanted.scale
    if digits < _LONG_DIGITS:
        limit = 10**digits
        if stored.root is not Root.BIGINT:
            array = array.cast(pa.int64())
        fits = pc.and_(pc.less(array, limit), pc.greater(array, -limit))
        array = pc.if_else(fits, array, None)
    wide = array.cast(pa.decimal256(_LONG_DIGITS + wanted.scale, wanted.scale))
    return wide.cast(to_arrow(wanted))


def _from_decimal(array: pa.Array, stored: AtomicType, wanted: AtomicType) -> pa.Array:
    target = to_arrow(wanted)
    if wanted.root not in _FLOATS:
        words = low_words(whole_part(array))
        return arrow_numbers(words.astype(_WIDTH[wanted.root]), array, target)
    if stored.precision <= _COMPACT_DIGITS:
        doubles = low_words(array).astype(np.float64) / np.float64(10**stored.scale)
    else:
        doubles = plain_numbers(decimal_text(array).cast(pa.float64())).astype(np.float64)
    with np.errstate(over="ignore"):
        return arrow_numbers(doubles.astype(target.to_pandas_dtype()), array, target)
