"""Decimals: fitted to a type, as text, and from text.

Source: ``Decimal.fromBigDecimal``, ``BigDecimal.toPlainString``, ``new BigDecimal(String)``.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import to_arrow

__all__ = ["decimal_from_text", "decimal_text", "fitted_decimal", "whole_part"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,10}))?")
# Texts that Arrow reads, with every digit, as decimals of the widest type.
_WIDEST = pa.decimal256(75, 37)
_PLAIN = r"^-?([0-9]{1,38}(\.[0-9]{1,37})?|[0-9](\.[0-9]{1,17})?E-?(1?[0-9]|20))$"
# Java itself runs out of memory or patience with exponents far below this one.
_MOST_EXPONENT = 1_000_000


def fitted_decimal(array: pa.Array, wanted: AtomicType) -> pa.Array:
    """Decimals rounded half up to a type's scale; null where it has no room for one."""
    whole = array.type.precision - array.type.scale
    if wanted.scale < array.type.scale:
        array, whole = _shortened(array, wanted.scale, half_up=True), whole + 1
    digits = wanted.precision - wanted.scale
    if digits < whole:
        limit = pa.scalar(Decimal(10**digits), pa.decimal256(76, array.type.scale))
        array = pc.if_else(pc.less(pc.abs(array), limit), array, None)
    return array.cast(to_arrow(wanted))


def whole_part(array: pa.Array) -> pa.Array:
    """Decimals without what stands behind the point, as a decimal128 column."""
    if array.type.scale:
        array = _shortened(array, 0, half_up=False)
    return array.cast(pa.decimal128(38, 0))


def _shortened(array: pa.Array, scale: int, *, half_up: bool) -> pa.Array:
    """Decimals with fewer digits behind the point, cut off or rounded, as a decimal256 column.

    By way of text: where 32 bits of the quotient are all ones, Arrow divides wrongly, so that
    rounding makes 4294967294 of a DECIMAL(38, 15) of 4294967295.
    """
    cut = array.type.scale - scale
    wide = array.cast(pa.decimal256(75, array.type.scale))
    size = pc.abs(wide)
    if half_up:
        size = pc.add(size, pa.scalar(Decimal(5).scaleb(-scale - 1), wide.type))
    digits = pc.utf8_lpad(_unscaled(size).cast(pa.string()), width=cut + 1, padding="0")
    kept = pc.utf8_slice_codeunits(digits, 0, -cut)
    sign = pc.if_else(pc.less(wide, pa.scalar(Decimal(0), wide.type)), "-", "")
    signed = pc.binary_join_element_wise(sign, kept, "")
    return _scaled(signed.cast(pa.decimal256(76, 0)), scale)


def _unscaled(array: pa.Array) -> pa.Array:
    """The whole numbers that decimals are stored as."""
    return _scaled(array, 0)


def _scaled(array: pa.Array, scale: int) -> pa.Array:
    """Decimals with the point elsewhere and the same digits."""
    make = pa.decimal128 if pa.types.is_decimal128(array.type) else pa.decimal256
    most = 38 if pa.types.is_decimal128(array.type) else 76
    return pa.Array.from_buffers(
        make(most, scale), len(array), array.buffers(), array.null_count, array.offset
    )


def decimal_text(array: pa.Array) -> pa.Array:
    """A decimal column as text without an exponent, with every digit of its scale."""
    scale = array.type.scale
    text = _unscaled(array).cast(pa.string())
    if scale == 0:
        return text
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), width=scale + 1, padding="0")
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    after = pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), after, ".")


def decimal_from_text(texts: pa.Array, wanted: AtomicType) -> pa.Array:
    """Text as decimals, rounded half up; null where the type has no room for one.

    Raises:
        Invalid: A text is not a number.
    """
    plain = pc.match_substring_regex(texts, _PLAIN)
    fitted = fitted_decimal(pc.if_else(plain, texts, None).cast(_WIDEST), wanted)
    # What is left is odd and rare; one distinct text is read after the other.
    coded = pc.if_else(plain, None, texts).dictionary_encode()
    values = [_decimal(text, wanted) for text in coded.dictionary.to_pylist()]
    return pc.coalesce(fitted, pa.array(values, fitted.type).take(coded.indices))


def _decimal(text: str, wanted: AtomicType) -> Decimal | None:
    found = _NUMBER.fullmatch(text)
    exponent = int(found["exponent"] or 0) if found else 0
    if found is None or not -(2**31) < exponent < 2**31:
        raise Invalid(f"'{text}' is no value of {wanted}")
    if abs(exponent) > _MOST_EXPONENT:
        raise Invalid(f"'{text}' has too great an exponent for {wanted}")
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = len(text) + 100, 10**9, -(10**9)
        number = Decimal(text)
        if number and number.adjusted() >= wanted.precision - wanted.scale:
            return None
        rounded = number.quantize(Decimal(1).scaleb(-wanted.scale), ROUND_HALF_UP)
    if rounded and len(rounded.as_tuple().digits) > wanted.precision:
        return None
    return rounded if rounded else abs(rounded)
