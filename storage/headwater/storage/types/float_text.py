"""Floating-point numbers as Java writes them (``Float.toString``, ``Double.toString``).

The digits are the fewest that tell a number from its neighbours, as Java writes since version 19;
earlier versions at times write one more.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["float_text", "float_texts"]

_PARTS = r"^(?P<sign>-?)(?P<before>[0-9]+)(?:\.(?P<after>[0-9]+))?(?:e(?P<power>[+-]?[0-9]+))?$"


def float_text(value: float, *, single: bool) -> str:
    """One number as text.

    Args:
        value: The number.
        single: True for a FLOAT, which fewer digits tell from its neighbours.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    text = np.format_float_scientific(number, unique=True, trim="0", exp_digits=1)
    if text.lstrip("-")[1:3] == ".0":
        # Java writes two digits at least, and then the two that are nearest.
        nearest = f"{float(number):.1e}"
        if type(number)(float(nearest)) == number:
            text = nearest
    mantissa, exponent = text.split("e")
    return f"{mantissa}E{int(exponent)}"


def float_texts(array: pa.Array) -> pa.Array:
    """A float32 or float64 column as text."""
    size = pc.abs(array)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    shortest = array.cast(pa.string())
    written = pc.if_else(plain, shortest, None)
    whole = pc.invert(pc.match_substring(written, "."))
    written = pc.if_else(whole, pc.binary_join_element_wise(written, ".0", ""), written)
    written = pc.coalesce(written, _scientific(pc.if_else(plain, None, shortest)))
    # A single digit may have to become two others, and some numbers are none: both are few.
    rest = pc.if_else(written.is_valid(), None, array).dictionary_encode()
    single = pa.types.is_float32(array.type)
    texts = [float_text(value, single=single) for value in rest.dictionary.to_pylist()]
    return pc.coalesce(written, pa.array(texts, pa.string()).take(rest.indices))


def _scientific(shortest: pa.Array) -> pa.Array:
    """Arrow's text of numbers with a power of ten; null for those of one digit, and for others."""
    parts = pc.extract_regex(shortest, _PARTS)
    before, after, power = (parts.field(name) for name in ("before", "after", "power"))
    digits = pc.binary_join_element_wise(before, after, "")
    kept = pc.utf8_ltrim(digits, "0")
    point = pc.subtract(pc.utf8_length(before), pc.subtract(pc.utf8_length(digits), 1))
    point = pc.add(point, pc.subtract(pc.utf8_length(kept), 2))
    power = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    exponent = pc.add(point, power).cast(pa.string())
    kept = pc.utf8_rtrim(kept, "0")
    first, rest = pc.utf8_slice_codeunits(kept, 0, 1), pc.utf8_slice_codeunits(kept, 1)
    mantissa = pc.binary_join_element_wise(parts.field("sign"), first, "")
    texts = pc.binary_join_element_wise(mantissa, rest, ".")
    texts = pc.binary_join_element_wise(texts, exponent, "E")
    return pc.if_else(pc.and_(parts.is_valid(), pc.not_equal(rest, "")), texts, None)
