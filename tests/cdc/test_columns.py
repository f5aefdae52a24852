"""Columns gathered from raw bytes equal what Python's struct, Decimal and datetime make of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.columns import (
    BadDates,
    Charset,
    DateRule,
    LogBytes,
    binary_column,
    date_column,
    datetime_column,
    decimal_column,
    fixed_binary_column,
    float_column,
    integer_column,
    spaced_column,
    text_column,
    time_column,
    timestamp_column,
    values_at_even_places,
    year_column,
)
from headwater.cdc.columns.decimals import digit_groups, packed_decimal_width
from headwater.storage.errors import CorruptData, Invalid

FAIL = DateRule("d")
NULL = DateRule("d", BadDates.NULL)
UTF8 = Charset("utf8mb4", "utf-8")
CONTEXT = Context(prec=80)
FIXED_WIDTHS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.decimal128(20, 3), pa.date32(), pa.timestamp("us")),
]


def laid_out(
    values: Sequence[Any], encode: Callable[[Any], bytes]
) -> tuple[LogBytes, Any, Any, Any]:
    """Values in a log with other bytes between them: the log, offsets, nulls and lengths."""
    parts: list[bytes] = []
    offsets, lengths = [], []
    size = 0
    for index, value in enumerate(values):
        gap = b"\xa5" * (index % 3)
        data = b"" if value is None else encode(value)
        offsets.append(size + len(gap))
        lengths.append(len(data))
        parts += [gap, data]
        size += len(gap) + len(data)
    nulls = np.array([value is None for value in values], np.bool_)
    return LogBytes.joined(parts), np.array(offsets, np.int64), nulls, np.array(lengths, np.int64)


@given(st.data(), st.integers(1, 8), st.booleans(), st.sampled_from(["little", "big"]))
def test_integers_of_any_width(data: st.DataObject, width: int, signed: bool, order: Any) -> None:
    low, high = (-(1 << 8 * width - 1), (1 << 8 * width - 1) - 1) if signed else (0, 256**width - 1)
    values = data.draw(st.lists(st.none() | st.integers(low, high)))
    log, offsets, nulls, _ = laid_out(values, lambda x: x.to_bytes(width, order, signed=signed))
    column = integer_column(log.cells(offsets, width), nulls, width, signed=signed, order=order)
    column.validate(full=True)
    assert column.to_pylist() == values
    assert column.type.bit_width == {3: 32, 5: 64, 6: 64, 7: 64}.get(width, 8 * width)


@given(st.lists(st.none() | st.floats(allow_nan=False)), st.sampled_from(["little", "big"]))
def test_floats(values: list[float | None], order: Any) -> None:
    form = "<d" if order == "little" else ">d"
    log, offsets, nulls, _ = laid_out(values, lambda x: struct.pack(form, x))
    assert float_column(log.cells(offsets, 8), nulls, 8, order).to_pylist() == values


@given(st.lists(st.none() | st.floats(width=32, allow_nan=False)))
def test_single_floats(values: list[float | None]) -> None:
    log, offsets, nulls, _ = laid_out(values, lambda x: struct.pack("<f", x))
    column = float_column(log.cells(offsets, 4), nulls, 4)
    assert column.type == pa.float32()
    assert column.to_pylist() == values


def packed_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    digits = f"{int(value.copy_abs().scaleb(scale, CONTEXT)):0{precision}}"
    packed = bytearray()
    for width, count in digit_groups(precision, scale):
        packed += int(digits[:count]).to_bytes(width, "big")
        digits = digits[count:]
    packed[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in packed) if value < 0 else bytes(packed)


@given(st.data(), st.integers(1, 65))
def test_decimals_of_any_precision(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, min(precision, 30)))
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    decimals = unscaled.map(lambda number: Decimal(number).scaleb(-scale, CONTEXT))
    values = data.draw(st.lists(st.none() | decimals))
    log, offsets, nulls, _ = laid_out(values, lambda x: packed_decimal(x, precision, scale))
    column = decimal_column(
        log.cells(offsets, packed_decimal_width(precision, scale)), nulls, precision, scale
    )
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    assert column.type == make(precision, scale)
    assert column.to_pylist() == values


@given(st.lists(st.none() | st.dates()))
def test_dates(values: list[date | None]) -> None:
    log, offsets, nulls, _ = laid_out(
        values, lambda x: (x.year << 9 | x.month << 5 | x.day).to_bytes(3, "little")
    )
    assert date_column(log.cells(offsets, 3), nulls, FAIL).to_pylist() == values


def packed_fraction(micros: int, digits: int) -> bytes:
    width = (digits + 1) // 2
    return int(micros // 10 ** (6 - 2 * width)).to_bytes(width, "big")


def cut(micros: int, digits: int) -> int:
    return int(micros - micros % 10 ** (6 - digits))


@given(st.lists(st.none() | st.datetimes()), st.integers(0, 6))
def test_datetimes_and_timestamps(values: list[datetime | None], digits: int) -> None:
    values = [x and x.replace(microsecond=cut(x.microsecond, digits)) for x in values]

    def packed(x: datetime) -> bytes:
        day = (x.year * 13 + x.month) << 5 | x.day
        seconds = day << 17 | x.hour << 12 | x.minute << 6 | x.second
        return (seconds + 0x8000000000).to_bytes(5, "big") + packed_fraction(x.microsecond, digits)

    log, offsets, nulls, _ = laid_out(values, packed)
    assert (
        datetime_column(log.cells(offsets, 5 + (digits + 1) // 2), nulls, digits, FAIL).to_pylist()
        == values
    )

    instants = [x and x.replace(year=1971 + x.year % 100, day=1, tzinfo=UTC) for x in values]
    log, offsets, nulls, _ = laid_out(
        instants,
        lambda x: int(x.timestamp()).to_bytes(4, "big") + packed_fraction(x.microsecond, digits),
    )
    column = timestamp_column(log.cells(offsets, 4 + (digits + 1) // 2), nulls, digits, FAIL)
    assert column.type == pa.timestamp("us", "UTC")
    assert column.to_pylist() == instants


@given(
    st.lists(st.none() | st.integers(-(839 * 3600 * 10**6) + 1, 839 * 3600 * 10**6 - 1)),
    st.integers(0, 6),
)
def test_times_beyond_a_day_and_below_zero(values: list[int | None], digits: int) -> None:
    def cut_off(micros: int) -> int:
        return cut(abs(micros), digits) * (1 if micros > 0 else -1)

    values = [None if x is None else cut_off(x) for x in values]
    width = (digits + 1) // 2

    def packed(micros: int) -> bytes:
        seconds, rest = divmod(abs(micros), 10**6)
        hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
        number = (hour << 12 | minute << 6 | second) << 8 * width
        number |= int.from_bytes(packed_fraction(rest, digits), "big")
        number = -number if micros < 0 else number
        return (number + (0x800000 << 8 * width)).to_bytes(3 + width, "big")

    log, offsets, nulls, _ = laid_out(values, packed)
    column = time_column(log.cells(offsets, 3 + (digits + 1) // 2), nulls, digits)
    assert column.type == pa.duration("us")
    assert column.to_pylist() == [None if x is None else timedelta(microseconds=x) for x in values]


def test_years_keep_zero() -> None:
    log, offsets, nulls, _ = laid_out([0, 1, 255, None], lambda x: bytes([x]))
    assert year_column(log.cells(offsets, 1), nulls).to_pylist() == [0, 1901, 2155, None]


IMPOSSIBLE = [(0, 0, 0), (2026, 0, 10), (2026, 2, 29), (2026, 4, 31), (2026, 13, 1), (1900, 2, 29)]
IMPOSSIBLE += [(0, 5, 1)]


@pytest.mark.parametrize(("year", "month", "day"), IMPOSSIBLE)
def test_dates_that_do_not_exist_are_null_or_an_error(year: int, month: int, day: int) -> None:
    packed = (year << 9 | month << 5 | day).to_bytes(3, "little")
    good = (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little")
    log, offsets, nulls, _ = laid_out([good, packed, None], lambda x: x)
    assert date_column(log.cells(offsets, 3), nulls, NULL).to_pylist() == [
        date(2024, 2, 29),
        None,
        None,
    ]
    with pytest.raises(Invalid, match=f"column 'd' has the value '{year:04}-{month:02}-{day:02}'"):
        date_column(log.cells(offsets, 3), nulls, FAIL)


@given(st.lists(st.none() | st.binary(max_size=40)))
def test_bytes(values: list[bytes | None]) -> None:
    log, offsets, nulls, lengths = laid_out(values, bytes)
    column = binary_column(log, offsets, nulls, lengths)
    column.validate(full=True)
    assert column.to_pylist() == values
    spaced = spaced_column(log, offsets, nulls, lengths)
    spaced.validate(full=True)
    assert spaced[::2].to_pylist() == values
    assert spaced[1::2].null_count == len(spaced[1::2])


@pytest.mark.parametrize("type_", FIXED_WIDTHS, ids=str)
@given(st.lists(st.none() | st.integers(0, 99)))
def test_values_at_even_places(type_: pa.DataType, values: list[int | None]) -> None:
    spaced = [value for each in values for value in (each, None)][:-1]
    even = values_at_even_places(pa.array(spaced, type_))
    even.validate(full=True)
    assert even.equals(pa.array(values, type_))


@given(st.lists(st.none() | st.binary(min_size=6, max_size=6)))
def test_bytes_of_one_width_regain_the_zeros_at_the_end(values: list[bytes | None]) -> None:
    log, offsets, nulls, lengths = laid_out(values, lambda x: x.rstrip(b"\0"))
    assert fixed_binary_column(log, offsets, nulls, lengths, 6).to_pylist() == values


CODECS = [
    Charset("utf8mb4", "utf-8"),
    Charset("latin1", "latin-1"),
    Charset("gbk", "gbk"),
    Charset("gb18030", "gb18030"),
    Charset("euckr", "cp949"),
    Charset("utf16", "utf-16-be", 2, ascii=False),
    Charset("utf16le", "utf-16-le", 2, ascii=False),
    Charset("utf32", "utf-32-be", 4, ascii=False),
]


# Hypothesis would try all characters of Unicode to find those of these.
_OF_TWO_BYTES = {
    codec: "".join(
        bytes([first, second]).decode(codec, "ignore")
        for first in range(0x80, 0x100)
        for second in range(0x40, 0x100)
    )
    for codec in ("gbk", "cp949")
}


def characters_of(charset: Charset) -> st.SearchStrategy[str]:
    if charset.codec == "latin-1":
        return st.characters(max_codepoint=0xFF)
    if charset.codec in _OF_TWO_BYTES:
        return st.characters(max_codepoint=0x7F) | st.sampled_from(_OF_TWO_BYTES[charset.codec])
    return st.characters(exclude_categories=["Cs"])


@given(st.data(), st.sampled_from(CODECS))
def test_text_of_any_character_set(data: st.DataObject, charset: Charset) -> None:
    characters = characters_of(charset) | st.just("\0")
    values = data.draw(st.lists(st.none() | st.text(characters, max_size=20)))
    log, offsets, nulls, lengths = laid_out(values, lambda x: x.encode(charset.codec))
    column = text_column(log, offsets, nulls, lengths, charset)
    column.validate(full=True)
    assert column.to_pylist() == values


@pytest.mark.parametrize(
    ("charset", "value"),
    [
        (UTF8, b"\xff and more than twelve bytes"),
        (CODECS[2], b"ab\x81"),
        (CODECS[5], b"abc"),
    ],
)
def test_bytes_that_are_not_text_are_an_error(charset: Charset, value: bytes) -> None:
    log, offsets, nulls, lengths = laid_out([b"", value], bytes)
    with pytest.raises(CorruptData, match=f"cannot decode text as {charset.name}"):
        text_column(log, offsets, nulls, lengths, charset)


def test_a_value_outside_of_the_log_is_an_error() -> None:
    with pytest.raises(CorruptData, match="outside of their 3 bytes"):
        LogBytes.joined([b"abc"]).cells(np.array([1000]), 4)
