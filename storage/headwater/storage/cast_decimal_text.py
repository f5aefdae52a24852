"""Decimals as text and back (``BigDecimal.toPlainString``, ``new BigDecimal(String)``)."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.types import AtomicType, to_arrow

__all__ = ["decimal_from_text", "decimal_text"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,10}))?")
# Java itself runs out of memory or patience with exponents far below this one.
_MOST_EXPONENT = 1_000_000


def decimal_text(array: pa.Array) -> pa.Array:
    """A decimal128 column as text without an exponent, with every digit of its scale."""
    scale = array.type.scale
    whole = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(array), array.buffers(), array.null_count, array.offset
    )
    text = whole.cast(pa.string())
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
    target = to_arrow(wanted)
    room = wanted.precision - wanted.scale
    if room:
        fraction = rf"(\.[0-9]{{1,{wanted.scale}}})?" if wanted.scale else ""
        exact = pc.match_substring_regex(texts, rf"^-?[0-9]{{1,{room}}}{fraction}$")
        if pc.all(exact, min_count=0).as_py():
            return texts.cast(target)
    # The rest is rounded one distinct text after the other.
    coded = texts.dictionary_encode()
    values = [_decimal(text, wanted) for text in coded.dictionary.to_pylist()]
    return pa.array(values, target).take(coded.indices)


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
