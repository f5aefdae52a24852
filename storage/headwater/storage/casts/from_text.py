"""Text as numbers, booleans, dates, times, timestamps and bytes, as Java's Paimon reads it.

What Java accepts by oversight (hexadecimal floating-point numbers, ``2026-011-01``) is refused;
nothing is read as another value than Java reads.

Source: the rules named ``StringTo…CastRule`` in ``org.apache.paimon.casting``,
``BinaryStringUtils.java``, ``DateTimeUtils.java``.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.decimals import decimal_from_text
from headwater.storage.errors import Invalid
from headwater.storage.types.arrow_numbers import Integers, arrow_numbers, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.local_time import moments
from headwater.storage.types.values import units_per_second

__all__ = ["cast_from_text", "sized_bytes"]

Flags: TypeAlias = npt.NDArray[np.bool_]

# Not yet arrays: with the first one that is made of Python's values pyarrow imports pandas.
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}
_SPACE = r"[\x00-\x20]*"  # what String.trim takes away
_FLOAT = (
    rf"^{_SPACE}(?P<sign>[+-]?)(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    rf"|(?P<word>NaN|Infinity)){_SPACE}$"
)
_WHOLE = r"^-?[0-9]+$"
_DATE = (
    rf"^{_SPACE}(?P<y>[0-9]{{1,18}}){_SPACE}(?:-{_SPACE}(?P<m>[0-9]{{1,18}}){_SPACE}"
    rf"(?:-{_SPACE}(?P<d>[0-9]{{1,18}}){_SPACE})?)?$"
)
_ZONE_HOUR = rf"(?P<sign>[+-]){_SPACE}(?P<zh>[0-9]{{1,9}}){_SPACE}"
_TIME = (
    rf"^{_SPACE}(?P<h>[0-9]{{1,9}}){_SPACE}(?::{_SPACE}(?P<m>[0-9]{{1,9}}){_SPACE}"
    rf"(?::{_SPACE}(?P<s>[0-9]{{1,9}}){_SPACE}(?:\.{_SPACE}(?P<f>[0-9]*){_SPACE})?)?)?"
    rf"(?:{_ZONE_HOUR}(?::{_SPACE}(?P<zm>[0-9]{{1,9}}){_SPACE})?)?$"
)
_TIMESTAMP = (
    r"^(?P<y>[0-9]{4}|\+[0-9]{5,9})-(?P<mo>[0-9]{1,2})-(?P<d>[0-9]{1,2})"
    r"(?: (?P<h>[0-9]{1,2}):(?P<m>[0-9]{1,2}):(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{0,9}))?"
    r"|T(?P<th>[0-9]{1,2}):(?P<tm>[0-9]{1,2})"
    r"(?::(?P<ts>[0-9]{1,2})(?:\.(?P<tf>[0-9]{0,9}))?)?)?$"
)
_MONTH_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DAY_MILLIS = 86_400_000


def cast_from_text(texts: pa.Array, wanted: AtomicType, zone: dt.tzinfo) -> pa.Array:
    """Text as values of another type.

    Args:
        texts: A string column.
        wanted: Any type that is neither text nor nested.
        zone: The time zone of texts that become a TIMESTAMP_LTZ.

    Raises:
        Invalid: A text is no value of the type; the message shows it.
    """
    match wanted.root:
        case Root.BOOLEAN:
            lower = pc.ascii_lower(texts)
            true, false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
            _require(pc.or_(true, false), texts, wanted)
            return pc.if_else(texts.is_valid(), true, None)
        case Root.BINARY | Root.VARBINARY:
            return sized_bytes(texts.cast(pa.binary()), wanted)
        case Root.DECIMAL:
            return decimal_from_text(texts, wanted)
        case Root.FLOAT | Root.DOUBLE:
            return _floats(texts, wanted)
        case Root.DATE:
            return _dates(texts, wanted)
        case Root.TIME:
            return _times(texts, wanted)
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _timestamps(texts, wanted, zone)
    return _integers(texts, wanted).cast(to_arrow(wanted))


def sized_bytes(array: pa.Array, wanted: AtomicType) -> pa.Array:
    """Bytes cut to a BINARY's or VARBINARY's length, and filled with zeros to a BINARY's."""
    lengths = pc.binary_length(array)
    if pc.any(pc.greater(lengths, wanted.length), min_count=0).as_py():
        array = pc.binary_slice(array, 0, wanted.length)
    if wanted.root is Root.BINARY:
        missing = pc.max_element_wise(pc.subtract(wanted.length, lengths), 0, skip_nulls=False)
        zeros = pc.binary_repeat(pa.scalar(b"\0"), missing)
        array = pc.binary_join_element_wise(array, zeros, b"")
    return array


def _require(good: pa.Array, texts: pa.Array, wanted: AtomicType) -> None:
    """Raises Invalid with the first text that is not good."""
    bad = pc.and_(pc.invert(pc.fill_null(good, False)), texts.is_valid())
    first = pc.index(bad, True).as_py()
    if first >= 0:
        text = texts[first].as_py()
        shown = text if len(text) <= 100 else text[:100] + "…"
        raise Invalid(f"'{shown}' is no value of {wanted}")


def _integers(texts: pa.Array, wanted: AtomicType, bits: int = 0) -> pa.Array:
    """The digits before a decimal point, as int64; BinaryStringUtils.toInt and toLong."""
    parts = pc.extract_regex(texts, r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]*)(?:\.[0-9]*)?$")
    digits = parts.field("digits")
    # Nothing, and a sign alone, are no numbers; a point alone is zero.
    is_number = pc.and_(parts.is_valid(), pc.match_substring_regex(texts, r"[0-9.]"))
    _require(pc.and_(is_number, pc.less_equal(pc.utf8_length(digits), 19)), texts, wanted)
    sign = pc.if_else(pc.equal(parts.field("sign"), "-"), "-", "")
    whole = pc.binary_join_element_wise(sign, pc.if_else(pc.equal(digits, ""), "0", digits), "")
    exact = pc.if_else(parts.is_valid(), whole, None).cast(pa.decimal128(38, 0))
    low, high = (
        pa.scalar(Decimal(bound), pa.decimal128(38, 0))
        for bound in _bounds(bits or _BITS[wanted.root])
    )
    inside = pc.and_(pc.greater_equal(exact, low), pc.less_equal(exact, high))
    _require(inside, texts, wanted)
    return exact.cast(pa.int64())


def _bounds(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _floats(texts: pa.Array, wanted: AtomicType) -> pa.Array:
    parts = pc.extract_regex(texts, _FLOAT)
    _require(parts.is_valid(), texts, wanted)
    word = pc.replace_substring(parts.field("word"), "Infinity", "inf")
    number = pc.binary_join_element_wise(parts.field("sign"), parts.field("number"), word, "")
    return pc.if_else(parts.is_valid(), number, None).cast(to_arrow(wanted))


def _numbers(parts: pa.Array, *names: str) -> Integers:
    """A group's digits as numbers: of several groups the one that is there, else 0."""
    texts = pc.binary_join_element_wise(*(parts.field(name) for name in names), "")
    texts = pc.if_else(pc.equal(texts, ""), "0", pc.utf8_ltrim(texts, "+"))
    numbers = pc.if_else(parts.is_valid(), texts, None).cast(pa.int64())
    return plain_numbers(numbers).astype(np.int64)


def _fraction(parts: pa.Array, *names: str) -> Integers:
    """Nanoseconds."""
    digits = pc.binary_join_element_wise(*(parts.field(name) for name in names), "")
    digits = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, 9), width=9, padding="0")
    numbers = pc.if_else(parts.is_valid(), digits, None).cast(pa.int64())
    return plain_numbers(numbers).astype(np.int64)


def _chosen(texts: pa.Array, numeric: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The texts that are numbers, and the others."""
    return pc.if_else(numeric, texts, None), pc.if_else(numeric, None, texts)


def _month_days(years: Integers, months: Integers) -> Integers:
    found = _MONTH_DAYS[np.clip(months, 1, 12) - 1]
    leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    return np.where((months == 2) & leap, 29, found).astype(np.int64)


def _days(years: Integers, months: Integers, days: Integers) -> Integers:
    """Days since the epoch, in the Gregorian calendar without end."""
    years = years - (months <= 2)
    era, year = years // 400, years % 400
    day_of_year = (153 * ((months + 9) % 12) + 2) // 5 + days - 1
    return era * 146_097 + year * 365 + year // 4 - year // 100 + day_of_year - 719_468


def _good(parts: pa.Array, check: Flags) -> pa.Array:
    return pc.and_(parts.is_valid(), pa.array(check))


def _dates(texts: pa.Array, wanted: AtomicType) -> pa.Array:
    numeric, written = _chosen(texts, pc.match_substring_regex(texts, _WHOLE))
    numbers = _integers(numeric, wanted, 32)
    # A timestamp's text does, too: what comes after a space is not looked at.
    date = pc.replace_substring_regex(written, r"(?s)^([^ ]+) .*$", r"\1")
    parts = pc.extract_regex(date, _DATE)
    year, month, day = (_numbers(parts, name) for name in "ymd")
    month = np.where(_missing(parts, "m"), 1, month)
    day = np.where(_missing(parts, "d"), 1, day)
    inside = (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1)
    inside &= day <= _month_days(year, month)
    _require(_good(parts, inside), written, wanted)
    days = arrow_numbers(_days(year, month, day), parts, pa.int64())
    return pc.coalesce(numbers, days).cast(pa.int32()).view(pa.date32())


def _missing(parts: pa.Array, name: str) -> Flags:
    empty = pc.fill_null(pc.equal(parts.field(name), ""), True)
    missing: Flags = empty.to_numpy(zero_copy_only=False)
    return missing


def _times(texts: pa.Array, wanted: AtomicType) -> pa.Array:
    numeric, written = _chosen(texts, pc.match_substring_regex(texts, _WHOLE))
    numbers = _integers(numeric, wanted, 32)
    parts = pc.extract_regex(written, _TIME)
    # Minutes of a zone are read only where there are seconds.
    inside = _missing(parts, "zm") | ~_missing(parts, "s")
    _require(_good(parts, inside), written, wanted)
    fraction = _fraction(parts, "f")
    # The fourth digit rounds; none after it counts.
    millis = fraction // 10**6 + (fraction // 10**5 % 10 >= 5)
    sign = pc.if_else(pc.equal(parts.field("sign"), "-"), -1, 1)
    ahead = plain_numbers(sign).astype(np.int64)
    hours = _numbers(parts, "h") + ahead * _numbers(parts, "zh")
    minutes = _numbers(parts, "m") + ahead * _numbers(parts, "zm")
    millis += ((hours * 60 + minutes) * 60 + _numbers(parts, "s")) * 1000
    found = pc.coalesce(numbers, arrow_numbers(millis, parts, pa.int64()))
    in_day = pc.and_(pc.greater_equal(found, 0), pc.less(found, _DAY_MILLIS))
    _require(in_day, texts, wanted)
    return found.cast(pa.int32()).view(pa.time32("ms"))


def _timestamps(texts: pa.Array, wanted: AtomicType, zone: dt.tzinfo) -> pa.Array:
    units = units_per_second(wanted)
    local = wanted.root is Root.TIMESTAMP
    is_number = pc.match_substring_regex(texts, _WHOLE)
    numeric, written = _chosen(texts, is_number) if local else (_none(texts), texts)
    ticks = _numeric_timestamps(numeric, wanted, units)
    parts = pc.extract_regex(written, _TIMESTAMP)
    year, month, day = (_numbers(parts, name) for name in ("y", "mo", "d"))
    hour, minute, second = (_numbers(parts, n, f"t{n}") for n in "hms")
    nanos = _fraction(parts, "f", "tf")
    inside = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    # Midnight may be the end of a day.
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (nanos == 0)
    inside &= ((hour < 24) | midnight) & (minute < 60) & (second < 60)
    _require(_good(parts, inside), written, wanted)
    # Java takes the 31st of any month for its last day.
    days = _days(year, month, np.minimum(day, _month_days(year, month)))
    seconds = days * 86_400 + (hour * 60 + minute) * 60 + second
    if not local:
        seconds = moments(seconds, zone)
    nanos -= nanos % 10 ** (9 - wanted.precision)
    _require(_good(parts, np.abs(seconds) < 2**63 // units - 1), written, wanted)
    found = arrow_numbers(seconds * units + nanos // (10**9 // units), parts, pa.int64())
    return (
        pc.coalesce(ticks, found).view(pa.timestamp(to_arrow(wanted).unit)).cast(to_arrow(wanted))
    )


def _none(texts: pa.Array) -> pa.Array:
    return pa.nulls(len(texts), pa.string())


def _numeric_timestamps(numeric: pa.Array, wanted: AtomicType, units: int) -> pa.Array:
    """Numbers count in units of the type's own precision, of which Java knows four."""
    numbers = _integers(numeric, wanted, 64)
    if wanted.precision not in (0, 3, 6, 9):
        _require(_none(numeric).is_valid(), numeric, wanted)
    step = units // 10**wanted.precision
    limit = (2**63 - 1) // step
    inside = pc.and_(pc.less_equal(numbers, limit), pc.greater_equal(numbers, -limit))
    _require(inside, numeric, wanted)
    return pc.multiply(numbers, step)
