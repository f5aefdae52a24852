"""Casts of columns: the values are those of Paimon's Java library (see tests/interop)."""

from __future__ import annotations

import datetime as dt
from decimal import ROUND_HALF_UP, Decimal, localcontext
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.types.data_type import Json, parse_type, to_arrow

NEW_YORK = ZoneInfo("America/New_York")
LTZ = "TIMESTAMP({}) WITH LOCAL TIME ZONE"
ROW: Json = {
    "type": "ROW",
    "fields": [
        {"id": 1, "name": "a", "type": "DOUBLE"},
        {"id": 2, "name": "b", "type": {"type": "ARRAY", "element": "DATE"}},
    ],
}
MAP: Json = {"type": "MAP", "key": "STRING", "value": "DECIMAL(5, 2)"}


def _cast(old: Json, new: Json, values: list[object], zone: dt.tzinfo = dt.UTC) -> list[object]:
    stored, wanted = parse_type(old), parse_type(new)
    target = to_arrow(stored)
    is_number = isinstance(values[0], int) and pa.types.is_temporal(target)
    array = pa.array([values[0], *values], _word(target) if is_number else target).view(target)
    # A slice, so that what stands before it must be stepped over.
    array = pa.concat_arrays([array, pa.nulls(1, array.type)]).slice(1)
    result = cast(array, stored, wanted, lambda: zone)
    result.validate(full=True)
    assert result.type == to_arrow(wanted)
    assert not result[-1].is_valid
    result = result[:-1]
    if pa.types.is_temporal(result.type):
        result = result.view(_word(result.type))
    found: list[object] = result.to_pylist()
    return found


def _word(temporal: pa.DataType) -> pa.DataType:
    return pa.int32() if temporal.bit_width == 32 else pa.int64()


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("BIGINT", "INT", [2**31, -(2**31) - 1, 2**40 + 5], [-(2**31), 2**31 - 1, 5]),
        ("INT", "TINYINT", [383, 128, -129], [127, -128, 127]),
        ("INT", "FLOAT", [16_777_217], [16_777_216.0]),
        ("DOUBLE", "INT", [1e10, -1e10, float("nan"), 1.9, -1.9], [2**31 - 1, -(2**31), 0, 1, -1]),
        ("DOUBLE", "BIGINT", [1e19, -1e19, 9.3e18], [2**63 - 1, -(2**63), 2**63 - 1]),
        ("DOUBLE", "TINYINT", [300.5, 1e10], [44, -1]),
        ("DOUBLE", "FLOAT", [1e300, -1e300], [float("inf"), float("-inf")]),
        ("BIGINT", "DECIMAL(4, 2)", [99, 100, -99], [Decimal("99.00"), None, Decimal("-99.00")]),
        (
            "DOUBLE",
            "DECIMAL(4, 2)",
            [1.005, 0.125, 99.995],
            [Decimal("1.01"), Decimal("0.13"), None],
        ),
        ("FLOAT", "DECIMAL(20, 17)", [0.1], [Decimal("0.10000000149011612")]),
        (
            "DECIMAL(38, 4)",
            "DECIMAL(4, 2)",
            [Decimal("1.0050"), Decimal("-1.0050"), Decimal("99.9950"), Decimal(10**30)],
            [Decimal("1.01"), Decimal("-1.01"), None, None],
        ),
        ("DECIMAL(5, 2)", "INT", [Decimal("1.99"), Decimal("-1.99")], [1, -1]),
        ("DECIMAL(38, 0)", "BIGINT", [Decimal(2**64 + 7), Decimal(-(2**63) - 1)], [7, 2**63 - 1]),
        # Arrow divides such decimals wrongly, see cast_decimals.
        ("DECIMAL(38, 15)", "BIGINT", [Decimal("-4294967295.5")], [-4294967295]),
        (
            "DECIMAL(38, 14)",
            "DECIMAL(38, 0)",
            [Decimal("18446744073709551615.5")],
            [Decimal(2**64)],
        ),
        ("STRING", "DECIMAL(38, 0)", ["18446744073709551614.50000000000000"], [Decimal(2**64 - 1)]),
        (
            "DECIMAL(18, 17)",
            "DOUBLE",
            [Decimal("0.12345678901234567")],
            [12345678901234567.0 / 1e17],
        ),
        ("BOOLEAN", "DECIMAL(2, 2)", [True, False], [None, Decimal("0.00")]),
        ("INT", "BOOLEAN", [0, -3], [False, True]),
        ("INT", "VARCHAR(3)", [12345, -1], ["123", "-1"]),
        ("BOOLEAN", "CHAR(6)", [True, False], ["true  ", "false "]),
        ("BOOLEAN", "CHAR(2)", [True, False], ["tr", "fa"]),
        (
            "DOUBLE",
            "STRING",
            [1.0, -0.0, 1e7, 1.5e-5, 0.001, float("inf"), 5e-324, 100.0],
            ["1.0", "-0.0", "1.0E7", "1.5E-5", "0.001", "Infinity", "4.9E-324", "100.0"],
        ),
        ("FLOAT", "STRING", [0.1, 16_777_216.0], ["0.1", "1.6777216E7"]),
        (
            "DECIMAL(20, 10)",
            "STRING",
            [Decimal("-1E-10"), Decimal(5)],
            ["-0.0000000001", "5.0000000000"],
        ),
        ("STRING", "CHAR(3)", ["üäöß", "a", ""], ["üäö", "a  ", "   "]),
        ("CHAR(3)", "CHAR(5)", ["abc"], ["abc  "]),
        ("STRING", "BINARY(3)", ["ü", "abcd"], [b"\xc3\xbc\0", b"abc"]),
        ("BYTES", "VARBINARY(2)", [b"abc", b"a"], [b"ab", b"a"]),
        ("BYTES", "CHAR(1)", [b"ab"], ["ab"]),
        ("STRING", "BOOLEAN", ["Yes", "F", "1"], [True, False, True]),
        ("STRING", "INT", ["+7", "-1.9", ".", "1."], [7, -1, 0, 1]),
        ("STRING", "DOUBLE", [" 1.5f ", "-Infinity", "1e400"], [1.5, float("-inf"), float("inf")]),
        (
            "STRING",
            "DECIMAL(4, 2)",
            ["1e1", "99.995", "-.005"],
            [Decimal("10.00"), None, Decimal("-0.01")],
        ),
        ("STRING", "DATE", ["2024-2-29 x", "2024", "0000-01-01"], [19782, 2024, -719528]),
        ("STRING", "TIME(3)", ["1:2:3.9996", "1", "10:00:00+1"], [3_724_000, 1, 39_600_000]),
        (
            "STRING",
            "TIMESTAMP(3)",
            ["2023-02-31 24:00:00", "2024-1-1T1:02", "1700000000000", "1969-12-31 23:59:59.9999"],
            [1_677_628_800_000, 1_704_070_920_000, 1_700_000_000_000, -1],
        ),
        ("TIMESTAMP(3)", "BIGINT", [-1500, 1500], [-1, 1]),
        ("TIMESTAMP(3)", "TIMESTAMP(0)", [-1500, 1999], [-1000, 1000]),
        ("TIMESTAMP(6)", "TIMESTAMP(4)", [-1, 199], [-100, 100]),
        ("TIMESTAMP(6)", "DATE", [-1], [-1]),
        ("TIMESTAMP(6)", "TIME(3)", [-1], [86_399_999]),
        ("DATE", "TIMESTAMP(3)", [-1], [-86_400_000]),
        ("TIME(3)", "TIMESTAMP(6)", [5], [5000]),
        ("INT", "TIMESTAMP(3)", [-1], [-1000]),
        ("DATE", "STRING", [-1, -719162], ["1969-12-31", "0001-01-01"]),
        ("TIME(3)", "STRING", [105, 0, 3_600_100], ["00:00:00.105", "00:00:00.0", "01:00:00.1"]),
        ("TIME(0)", "STRING", [105], ["00:00:00"]),
        (
            "TIMESTAMP(3)",
            "STRING",
            [1500, -1],
            ["1970-01-01 00:00:01.500", "1969-12-31 23:59:59.999"],
        ),
        ("TIMESTAMP(0)", "STRING", [1000], ["1970-01-01 00:00:01"]),
        (
            ROW,
            "STRING",
            [{"a": 0.5, "b": [dt.date(2024, 2, 29), None]}, {"a": None, "b": []}],
            ["{0.5, [2024-02-29, null]}", "{null, []}"],
        ),
        (
            MAP,
            "CHAR(2)",
            [[("x", Decimal("1.50")), ("y", None)], []],
            ["{x -> 1.50, y -> null}", "{}"],
        ),
    ],
)
def test_values_become_what_java_makes_of_them(
    old: Json, new: Json, before: list[object], after: list[object]
) -> None:
    found = _cast(old, new, before)
    assert found == after
    assert [str(value) for value in found] == [str(value) for value in after]


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        (
            "TIMESTAMP(3)",
            LTZ.format(3),
            # In the hour that is skipped, in the hour that comes twice, and in the year 20000.
            [1_710_037_800_000, 1_730_597_400_000, 568_971_820_800_000],
            [1_710_055_800_000, 1_730_611_800_000, 568_971_838_800_000],
        ),
        (LTZ.format(3), "TIMESTAMP(3)", [1_710_055_800_000], [1_710_041_400_000]),
        (LTZ.format(3), "DATE", [0], [-1]),
        (LTZ.format(3), "TIME(3)", [5], [68_400_005]),
        (LTZ.format(3), "BIGINT", [5000], [5]),
        ("DATE", LTZ.format(3), [0], [18_000_000]),
        ("BIGINT", LTZ.format(3), [0], [-18_000_000]),
        ("STRING", LTZ.format(0), ["2024-07-01T00:00"], [1_719_806_400_000]),
    ],
)
def test_local_times_are_those_of_the_zone(
    old: str, new: str, before: list[object], after: list[int]
) -> None:
    assert _cast(old, new, before, NEW_YORK) == after


def test_moments_are_written_in_the_zone() -> None:
    assert _cast(LTZ.format(3), "STRING", [0], NEW_YORK) == ["1969-12-31 19:00:00.000"]
    assert _cast(LTZ.format(3), "STRING", [0]) == ["1970-01-01 00:00:00.000"]


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        *(
            ("STRING", "INT", text)
            for text in ("", "+", "abc", "1e3", " 1", "2147483648", "\u0661")
        ),
        ("STRING", "TINYINT", "128"),
        *(("STRING", "BIGINT", text) for text in ("9223372036854775808", "1.x")),
        *(("STRING", "DOUBLE", text) for text in ("", "nan", "inf", "1_0", "0x1p3")),
        *(("STRING", "DECIMAL(4, 2)", text) for text in ("", " 1", "NaN", "1_0", "1e99999999999")),
        *(("STRING", "BOOLEAN", text) for text in ("", " true", "2")),
        *(("STRING", "DATE", text) for text in ("", "2023-02-29", "2024-01-01T00", "10000-01-01")),
        *(("STRING", "TIME(0)", text) for text in ("", "24:00:00", "10+01:00", "noon", "-1")),
        *(
            ("STRING", "TIMESTAMP(3)", text)
            for text in ("", "2024-01-01 10:00", "0000-01-01", "2024-01-01 24:00:01", "2024-01-32")
        ),
        ("STRING", "TIMESTAMP(4)", "1700000000000"),
        ("STRING", LTZ.format(3), "1700000000000"),
        ("STRING", "TIMESTAMP(9)", "1582-10-10"),
        ("BIGINT", "TIMESTAMP(3)", 2**62),
        ("DATE", "STRING", 2_932_897),
        ("DATE", "TIMESTAMP(9)", 2_932_896),
        ("DOUBLE", "DECIMAL(38, 2)", float("inf")),
        ("BYTES", "STRING", b"\xff"),
        ("INT", "DECIMAL(2, 1) NOT NULL", 10),
    ],
)
def test_what_has_no_counterpart_is_refused(old: str, new: str, value: object) -> None:
    with pytest.raises(Invalid):
        _cast(old, new, [value])


def test_the_first_text_that_is_refused_is_shown() -> None:
    with pytest.raises(Invalid, match="'x1' is no value of INT"):
        cast(
            pa.array(["1", None, "x1", "x2"]),
            parse_type("STRING"),
            parse_type("INT"),
            lambda: dt.UTC,
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [("DATE", "INT"), ("STRING", ROW), ("DATE", "VARCHAR(10)"), ("VARIANT", "STRING")],
)
def test_there_is_no_cast_that_paimon_has_not(old: Json, new: Json) -> None:
    with pytest.raises(Unsupported, match="no cast from"):
        cast(pa.nulls(1), parse_type(old), parse_type(new), lambda: dt.UTC)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_numbers_come_back_from_their_text(numbers: list[float]) -> None:
    texts = _cast("DOUBLE", "STRING", list(numbers))
    assert _cast("STRING", "DOUBLE", texts) == numbers
    single = [float(np.float32(number)) for number in numbers if abs(number) < 3e38] or [0.0]
    assert _cast("STRING", "FLOAT", _cast("FLOAT", "STRING", list(single))) == single


@given(st.lists(st.decimals(places=4, min_value=-(10**15), max_value=10**15), min_size=1))
def test_decimals_come_back_from_their_text(numbers: list[Decimal]) -> None:
    plain = [abs(number) if number == 0 else number for number in numbers]
    texts = _cast("DECIMAL(20, 4)", "STRING", list(plain))
    assert texts == [format(number, "f") for number in plain]
    assert _cast("STRING", "DECIMAL(20, 4)", texts) == plain


@given(
    st.lists(
        st.decimals(places=20, min_value=-(10**20), max_value=10**20)
        | st.floats(-1e20, 1e20).map(lambda number: Decimal(repr(number))),
        min_size=1,
    ),
    st.sampled_from([0, 2, 17]),
)
def test_texts_are_rounded_to_decimals_as_python_rounds_them(
    numbers: list[Decimal], scale: int
) -> None:
    places = Decimal(1).scaleb(-scale)
    with localcontext() as context:
        context.prec = 60
        rounded = [number.quantize(places, ROUND_HALF_UP) for number in numbers]
    room = Decimal(10) ** (20 - scale)
    expected = [abs(number) if number == 0 else number for number in rounded]
    for form in ("f", "E"):
        texts: list[object] = [format(number, form) for number in numbers]
        assert _cast("STRING", f"DECIMAL(20, {scale})", texts) == [
            number if abs(number) < room else None for number in expected
        ]


@given(
    st.lists(st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)), min_size=1),
    st.sampled_from(["America/New_York", "Europe/Berlin", "Asia/Kolkata", "Pacific/Apia"]),
)
def test_local_times_are_pythons(times: list[dt.datetime], name: str) -> None:
    zone = ZoneInfo(name)
    local, moment = parse_type("TIMESTAMP(6)"), parse_type(LTZ.format(6))
    moments = cast(pa.array(times, to_arrow(local)), local, moment, lambda: zone)
    expected = [time - (time.replace(tzinfo=zone).utcoffset() or dt.timedelta()) for time in times]
    assert [found.replace(tzinfo=None) for found in moments.to_pylist()] == expected
    back = cast(moments, moment, local, lambda: zone).to_pylist()
    assert back == [
        found.replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None) for found in expected
    ]


@pytest.mark.parametrize(
    ("name", "offset"), [("Asia/Kolkata", 19_800), (":Asia/Kolkata", 19_800), ("UTC", 0)]
)
def test_the_zone_is_the_processs(name: str, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", name)
    found = SYSTEM_RUNTIME.time_zone().utcoffset(dt.datetime(2024, 1, 1))
    assert found == dt.timedelta(seconds=offset)
    monkeypatch.setenv("TZ", "Nowhere/At_All")
    with pytest.raises(Invalid, match="TZ=Nowhere/At_All names no time zone"):
        SYSTEM_RUNTIME.time_zone()
