"""Decimals, floats and times as the text that MySQL's SELECT returns, all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns.gather import Nulls, validity_bitmap

Characters: TypeAlias = npt.NDArray[np.uint8]
"""ASCII characters of each row, as a matrix."""

_DOUBLE_DIGITS = 17
# Exponents of doubles that are written without one: -15 to 14.
_MIN_EXPONENT = -15
_MAX_EXPONENT = 14
_SCIENTIFIC = r"^(?P<sign>-?)(?P<first>\d)\.?(?P<rest>\d*)e(?P<exponent>[+-]\d+)$"


def digit_characters(values: npt.NDArray[np.int64], width: int) -> Characters:
    """The last `width` decimal digits of numbers that are not negative."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def join_characters(parts: Sequence[Characters | str], rows: int) -> Characters:
    """Put matrices and constant characters side by side."""
    return np.hstack(
        [
            np.tile(np.frombuffer(part.encode(), np.uint8), (rows, 1))
            if isinstance(part, str)
            else part
            for part in parts
        ]
    )


def text_array(
    characters: Characters, nulls: Nulls, shown: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Make an array of ``string``.

    Args:
        characters: The characters of each row.
        nulls: Which rows are null.
        shown: Which characters are part of the text; None for all.
    """
    rows, width = characters.shape
    offsets = np.zeros(rows + 1, np.int32)
    if shown is None:
        offsets[1:] = np.arange(1, rows + 1) * width
        data = np.ascontiguousarray(characters)
    else:
        np.cumsum(shown.sum(axis=1), out=offsets[1:])
        data = characters[shown]
    buffers = [validity_bitmap(nulls), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def null_flags(values: pa.Array) -> Nulls:
    """Which values are null; None where none is."""
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


def plain_numbers(values: pa.Array, dtype: type[Any]) -> npt.NDArray[Any]:
    """The values of an array of fixed width; any value where it is null."""
    if not len(values):
        return np.zeros(0, dtype)
    numbers = np.frombuffer(values.buffers()[1], dtype)
    return numbers[values.offset : values.offset + len(values)]


def decimal_text(values: pa.Array) -> pa.Array:
    """Write decimals with all digits of their scale, never with an exponent."""
    type_ = values.type
    whole = pa.decimal256(76, 0) if pa.types.is_decimal256(type_) else pa.decimal128(38, 0)
    buffers = values.buffers()
    unscaled = pa.Array.from_buffers(whole, len(values), buffers, offset=values.offset)
    text = pc.cast(unscaled, pa.string())
    if type_.scale == 0:
        return text
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), type_.scale + 1, "0")
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    before = pc.utf8_slice_codeunits(digits, 0, -type_.scale)
    after = pc.utf8_slice_codeunits(digits, -type_.scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), after, ".")


def float_text(values: pa.Array) -> pa.Array:
    """Write ``float32`` or ``float64`` with the fewest digits that read back.

    An exponent is written from 1e15 on and below 1e-15, without a plus sign.
    """
    text = pc.cast(values, pa.string())
    is_scientific = pc.fill_null(pc.match_substring(text, "e"), False)
    scientific = text.filter(is_scientific)
    if not len(scientific):
        return text
    parts = pc.extract_regex(scientific, _SCIENTIFIC)
    exponent = pc.cast(pc.utf8_ltrim(pc.struct_field(parts, "exponent"), "+"), pa.int64())
    fixed = _fixed_text(
        pc.equal(pc.struct_field(parts, "sign"), "-").to_numpy(zero_copy_only=False),
        pc.binary_join_element_wise(
            pc.struct_field(parts, "first"), pc.struct_field(parts, "rest"), ""
        ),
        np.clip(exponent.to_numpy(), _MIN_EXPONENT, _MAX_EXPONENT),
    )
    is_fixed = pc.and_(
        pc.greater_equal(exponent, _MIN_EXPONENT), pc.less_equal(exponent, _MAX_EXPONENT)
    )
    short = pc.if_else(is_fixed, fixed, pc.replace_substring(scientific, "e+", "e"))
    return pc.replace_with_mask(text, is_scientific, short)


def _fixed_text(
    negative: npt.NDArray[np.bool_], digits: pa.Array, exponent: npt.NDArray[np.int64]
) -> pa.Array:
    """Write numbers, whose digits begin before the point of their exponent, without it."""
    rows = len(digits)
    padded = pc.utf8_rpad(digits, _DOUBLE_DIGITS, "0")
    kept = np.frombuffer(padded.buffers()[2], np.uint8)[: rows * _DOUBLE_DIGITS]
    zeros = "0" * -_MIN_EXPONENT
    wide = join_characters([zeros, kept.reshape(rows, _DOUBLE_DIGITS), zeros], rows)
    index = np.arange(wide.shape[1])
    start = len(zeros)
    point = start + exponent[:, None] + 1
    end = start + pc.utf8_length(digits).to_numpy()[:, None]
    before = (index < point) & ((index >= start) | (index == point - 1))
    after = (index >= point) & (index < end)
    shown = np.hstack([negative[:, None], before, end > point, after])
    return text_array(join_characters(["-", wide, ".", wide], rows), None, shown)


def time_text(values: pa.Array, digits: int) -> pa.Array:
    """Write ``duration[us]`` as ``-HHH:MM:SS.ffffff``, hours with at least two digits.

    Args:
        values: The times.
        digits: How many digits of a second are written.
    """
    micros = plain_numbers(values, np.int64)
    negative, micros = micros < 0, np.abs(micros)
    seconds, fraction = micros // 1_000_000, micros % 1_000_000
    hours = seconds // 3600
    parts = ["-", digit_characters(hours, 3), *clock_characters(seconds, fraction, digits)]
    characters = join_characters(parts, len(micros))
    shown = np.ones(characters.shape, np.bool_)
    shown[:, 0] = negative
    shown[:, 1] = hours >= 100
    return text_array(characters, null_flags(values), shown)


def clock_characters(
    seconds: npt.NDArray[np.int64], micros: npt.NDArray[np.int64], digits: int
) -> list[Characters | str]:
    """The characters of minutes, seconds and some digits of a second, from the first colon on."""
    parts: list[Characters | str] = [
        ":",
        digit_characters(seconds // 60 % 60, 2),
        ":",
        digit_characters(seconds % 60, 2),
    ]
    if digits:
        parts += [".", digit_characters(micros, 6)[:, :digits]]
    return parts
