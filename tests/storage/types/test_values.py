from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import TableOptions
from headwater.storage.types.data_type import DataField, parse_type
from headwater.storage.types.values import (
    StorageValue,
    arrow_scalar,
    parse_moment,
    parse_partition_text,
    partition_text,
    storage_value,
)

LEGACY = TableOptions({})
PLAIN = TableOptions({"partition.legacy-name": "false"})
LTZ = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
ZONE = dt.timezone(dt.timedelta(hours=-5))


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (None, "INT", None),
        (np.int64(5), "INT", 5),
        (np.bool_(True), "BOOLEAN", True),
        (3, "DOUBLE", 3.0),
        (0.1, "FLOAT", 0.10000000149011612),
        (5, "DECIMAL(5, 2)", Decimal("5.00")),
        (Decimal("-0.0"), "DECIMAL(5, 2)", Decimal("0.00")),
        (Decimal("9" * 38), "DECIMAL(38, 0)", Decimal("9" * 38)),
        (bytearray(b"x"), "BYTES", b"x"),
        (dt.date(1969, 12, 31), "DATE", -1),
        (dt.time(23, 59, 59, 999000), "TIME(3)", 86_399_999),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999000), "TIMESTAMP(3)", -1),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1), "TIMESTAMP(6)", 1),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1), "TIMESTAMP(9)", 1000),
        (dt.datetime(1969, 12, 31, 19, tzinfo=ZONE), LTZ, 0),
        (pa.scalar(7, pa.int8()), "BIGINT", 7),
        (pa.scalar(None, pa.int8()), "BIGINT", None),
        (pa.scalar("x", pa.large_string()), "STRING", "x"),
        (pa.array(["x"]).dictionary_encode()[0], "STRING", "x"),
        (pa.scalar(1, pa.date32()), "DATE", 1),
        (pa.scalar(1, pa.time32("s")), "TIME(3)", 1000),
        (pa.scalar(1, pa.timestamp("s")), "TIMESTAMP(6)", 1_000_000),
        (pa.scalar(1, pa.timestamp("ns")), "TIMESTAMP(9)", 1),
        (pa.scalar(1, pa.timestamp("us", "Asia/Tokyo")), LTZ, 1),
    ],
)
def test_a_value_becomes_what_storage_holds(
    value: object, text: str, expected: StorageValue
) -> None:
    found = storage_value(value, parse_type(text))
    assert found == expected
    assert type(found) is type(expected)
    # What storage holds stays as it is, and goes through Arrow and back.
    assert storage_value(found, parse_type(text)) == expected
    assert storage_value(arrow_scalar(found, parse_type(text)), parse_type(text)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "INT"),
        (1, "BOOLEAN"),
        (1.0, "INT"),
        ("1", "INT"),
        (128, "TINYINT"),
        (2**63, "BIGINT"),
        (1e39, "FLOAT"),
        (True, "DOUBLE"),
        (1.5, "DECIMAL(5, 2)"),
        (Decimal("1.234"), "DECIMAL(5, 2)"),
        (Decimal(1000), "DECIMAL(5, 2)"),
        (Decimal("NaN"), "DECIMAL(5, 2)"),
        (Decimal("Infinity"), "DECIMAL(5, 2)"),
        (b"x", "STRING"),
        ("x", "BYTES"),
        (dt.datetime(2024, 1, 1), "DATE"),
        (dt.date(2024, 1, 1), "TIMESTAMP(3)"),
        (dt.time(0, 0, 0, 1), "TIME(3)"),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1), "TIMESTAMP(3)"),
        (dt.datetime(1970, 1, 1, tzinfo=ZONE), "TIMESTAMP(3)"),
        (dt.datetime(1970, 1, 1), LTZ),
        (dt.datetime(2300, 1, 1), "TIMESTAMP(9)"),
        (pa.scalar("1"), "INT"),
        (pa.scalar(True), "INT"),
        (pa.scalar(1.5), "INT"),
        (pa.scalar(1, pa.timestamp("us")), LTZ),
        (pa.scalar(1, pa.timestamp("us", "UTC")), "TIMESTAMP(6)"),
        (pa.scalar(1, pa.timestamp("us")), "TIMESTAMP(3)"),
        (object(), "INT"),
    ],
)
def test_a_value_of_another_type_is_invalid(value: object, text: str) -> None:
    with pytest.raises(Invalid):
        storage_value(value, parse_type(text))


@pytest.mark.parametrize(
    ("value", "text", "legacy", "plain"),
    [
        (None, "STRING", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("", "STRING", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        (" \t\u2003", "STRING", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        *((text, "STRING", text, text) for text in ("\u00a0", "\u2007", "\u202f")),
        ("a b/ü", "STRING", "a b/ü", "a b/ü"),
        (True, "BOOLEAN", "true", "true"),
        (-5, "BIGINT", "-5", "-5"),
        (Decimal("1E+3"), "DECIMAL(10, 2)", "1000.00", "1000.00"),
        (Decimal("0.0000001"), "DECIMAL(10, 7)", "0.0000001", "0.0000001"),
        (1.0, "DOUBLE", "1.0", "1.0"),
        (0.1, "FLOAT", "0.1", "0.1"),
        (1e7, "DOUBLE", "1.0E7", "1.0E7"),
        (9999999.0, "DOUBLE", "9999999.0", "9999999.0"),
        (0.001, "DOUBLE", "0.001", "0.001"),
        (-1.25e-4, "DOUBLE", "-1.25E-4", "-1.25E-4"),
        (-0.0, "DOUBLE", "-0.0", "-0.0"),
        (math.inf, "DOUBLE", "Infinity", "Infinity"),
        (math.nan, "FLOAT", "NaN", "NaN"),
        (19782, "DATE", "19782", "2024-02-29"),
        (-719_162, "DATE", "-719162", "0001-01-01"),
        (36_000_500, "TIME(3)", "36000500", "10:00:00.5"),
        (36_000_000, "TIME(3)", "36000000", "10:00:00.0"),
        (36_000_000, "TIME(0)", "36000000", "10:00:00"),
        (0, "TIMESTAMP(3)", "1970-01-01T00:00", "1970-01-01 00:00:00.000"),
        (-1, "TIMESTAMP(3)", "1969-12-31T23:59:59.999", "1969-12-31 23:59:59.999"),
        (1_500_000, "TIMESTAMP(6)", "1970-01-01T00:00:01.500", "1970-01-01 00:00:01.500000"),
        (7_000_000, "TIMESTAMP(0)", "1970-01-01T01:56:40", "1970-01-01 01:56:40"),
        (1, "TIMESTAMP(9)", "1970-01-01T00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
    ],
)
def test_partition_values_are_named_as_java_names_them(
    value: object, text: str, legacy: str, plain: str
) -> None:
    field = DataField(0, "p", parse_type(text))
    assert partition_text(value, field, LEGACY) == legacy
    assert partition_text(value, field, PLAIN) == plain
    expected = storage_value(value, field.type)
    if legacy == "__DEFAULT_PARTITION__":
        expected = None
    for name, options in ((legacy, LEGACY), (plain, PLAIN)):
        # repr tells NaN from nothing and -0.0 from 0.0.
        assert repr(parse_partition_text(name, field.type, options)) == repr(expected)


def test_a_local_zoned_timestamp_is_named_by_utc() -> None:
    field = DataField(0, "p", parse_type(LTZ))
    assert partition_text(1_000_000, field, LEGACY) == "1970-01-01T00:00:01"
    assert parse_partition_text("1970-01-01T00:00:01", field.type, LEGACY) == 1_000_000


@pytest.mark.parametrize(
    ("value", "text", "options"),
    [
        (b"x", "BYTES", LEGACY),
        (b"\xff", "BYTES", PLAIN),
        (0, LTZ, PLAIN),
        (2**31 - 1, "DATE", PLAIN),
    ],
)
def test_a_value_without_a_stable_name_is_refused(
    value: object, text: str, options: TableOptions
) -> None:
    with pytest.raises(Unsupported, match="'p'"):
        partition_text(value, DataField(0, "p", parse_type(text)), options)


def test_the_default_name_is_an_option() -> None:
    options = TableOptions({"partition.default-name": "none"})
    field = DataField(0, "p", parse_type("INT"))
    assert partition_text(None, field, options) == "none"
    assert parse_partition_text("none", field.type, options) is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("2024-2-9", "DATE", 19762),
        ("2024-02-09 10:11:12", "DATE", 19762),
        ("T", "BOOLEAN", True),
        ("0", "BOOLEAN", False),
        ("1000", "TIMESTAMP(3)", 1000),
        ("1", "TIMESTAMP(0)", 1000),
        ("1970-01-01", "TIMESTAMP(6)", 0),
        ("1970-01-01 00:00:01.5", "TIMESTAMP(3)", 1500),
        ("10:00", "TIME(3)", 36_000_000),
        ("x", "BYTES", b"x"),
    ],
)
def test_partition_text_is_read_leniently(name: str, text: str, expected: StorageValue) -> None:
    assert parse_partition_text(name, parse_type(text), LEGACY) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x", "INT"),
        ("", "INT"),
        ("1_000", "INT"),
        ("\u0661", "INT"),
        ("999", "TINYINT"),
        ("1.0", "INT"),
        ("x", "DOUBLE"),
        ("1_0", "DOUBLE"),
        ("1_0", "DECIMAL(5, 2)"),
        ("x", "DECIMAL(5, 2)"),
        ("1.234", "DECIMAL(5, 2)"),
        ("maybe", "BOOLEAN"),
        ("2024-02-30", "DATE"),
        ("yesterday", "DATE"),
        ("24:00", "TIME(3)"),
        ("1970-01-01 00:00:01.0005", "TIMESTAMP(3)"),
        ("1970-01-01 00:00:01Z", "TIMESTAMP(3)"),
        ("1970-01-01T", "TIMESTAMP(3)"),
    ],
)
def test_partition_text_of_another_type_is_invalid(name: str, text: str) -> None:
    with pytest.raises(Invalid):
        parse_partition_text(name, parse_type(text), LEGACY)


def test_a_decimal_has_no_negative_zero() -> None:
    field = DataField(0, "p", parse_type("DECIMAL(5, 2)"))
    assert partition_text(Decimal("-0"), field, LEGACY) == "0.00"


def test_a_moment_may_have_a_zone() -> None:
    assert parse_moment("1970-01-01T01:00:00+01:00") == (0, True)
    assert parse_moment("1969-12-31 18:30:00 -05:30") == (0, True)
    assert parse_moment("1970-01-01 00:00:00.000000001 UTC") == (1, True)
    assert parse_moment("1970-01-01") == (0, False)
    assert parse_moment("1970-01-01 18:00:00+18:00") == (0, True)
    for offset in ("+19:00", "-19:00", "+99:00", "+01:60"):
        with pytest.raises(ValueError, match="time zone"):
            parse_moment(f"1970-01-01 00:00:00{offset}")


@settings(deadline=None)
@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999), st.booleans())
def test_every_timestamp_partition_is_read_back(value: int, legacy: bool) -> None:
    field = DataField(0, "p", parse_type("TIMESTAMP(6)"))
    options = LEGACY if legacy else PLAIN
    text = partition_text(value, field, options)
    assert parse_partition_text(text, field.type, options) == value


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_every_double_partition_is_read_back(value: float) -> None:
    field = DataField(0, "p", parse_type("DOUBLE"))
    assert parse_partition_text(partition_text(value, field, LEGACY), field.type, LEGACY) == value
