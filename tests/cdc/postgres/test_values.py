"""PostgreSQL's text of values, and what the lake has for it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.cdc.columns import BadDates, values_at_even_places
from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.postgres.types import lake_type, parse_source_type, parse_type_mapping
from headwater.cdc.postgres.values import can_be_spaced, lake_values
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import ArrayType, parse_type, to_arrow

UTC = datetime.UTC
# The 32-bit float that is shown as 0.1.
F32 = 0.10000000149011612


def column(source_type: str, type_: str | None = None, mapping: str = "") -> SourceColumn:
    in_lake = lake_type(
        parse_source_type(source_type), nullable=True, mapping=parse_type_mapping(mapping)
    )
    if type_ is not None:
        element = type_.removeprefix("ARRAY<").removesuffix(">")
        in_lake = parse_type(element) if element == type_ else ArrayType(parse_type(element))
    return SourceColumn("c", source_type, in_lake)


def converted(
    source_type: str, texts: Sequence[str | None], type_: str | None = None, mapping: str = ""
) -> list[object]:
    source = column(source_type, type_, mapping)
    encoded = [None if text is None else text.encode() for text in texts]
    values = lake_values(pa.array(encoded, pa.binary()), source)
    assert values.type == to_arrow(source.type)
    values.validate(full=True)
    # Part of a longer array, as rows of a batch may be.
    longer = pa.array([*encoded, *encoded, None], pa.binary()).slice(len(encoded), len(encoded))
    assert lake_values(longer, source).equals(values)
    result: list[object] = values.to_pylist()
    return result


@pytest.mark.parametrize(
    ("source_type", "texts", "expected"),
    [
        ("boolean", ["t", "f", None], [True, False, None]),
        ("smallint", ["-32768", None], [-32768, None]),
        ("bigint", ["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        ("oid", ["4294967295"], [2**32 - 1]),
        ("xid8", ["18446744073709551615"], [Decimal(2**64 - 1)]),
        ("real", ["0.1", "-Infinity", "1.1529215e+18"], [F32, float("-inf"), 2.0**60]),
        ("double precision", ["0.1", "Infinity", None], [0.1, float("inf"), None]),
        ("numeric(12,2)", ["0.10", "-12.00"], [Decimal("0.10"), Decimal("-12.00")]),
        ("numeric(4,-2)", ["123400"], [Decimal(123400)]),
        ("numeric(2,4)", ["0.0012"], [Decimal("0.0012")]),
        ("numeric", ["1.50", "NaN", "1" * 50], ["1.50", "NaN", "1" * 50]),
        ("character(3)", ["a  ", "äöü", None], ["a  ", "äöü", None]),
        ("bpchar", ["a "], ["a "]),
        ("character varying(3)", ["a ", ""], ["a ", ""]),
        ("bytea", ["\\x", "\\x00ff", None], [b"", b"\0\xff", None]),
        ("bit(1)", ["1", "0", None], [True, False, None]),
        ("bit(9)", ["100000001", None], [b"\1\1", None]),
        ("bit varying(9)", ["01"], ["01"]),
        ("date", ["2026-02-28", None], [datetime.date(2026, 2, 28), None]),
        ("time(3) without time zone", ["23:59:59.5"], [datetime.time(23, 59, 59, 500000)]),
        ("time without time zone", ["24:00:00"], ["24:00:00"]),
        ("time with time zone", ["01:02:03.4+05:30"], ["01:02:03.4+05:30"]),
        ("timestamp without time zone", ["0001-01-01 00:00:00"], None),
        (
            "timestamp(3) without time zone",
            ["2026-01-02 03:04:05.12"],
            [datetime.datetime(2026, 1, 2, 3, 4, 5, 120000)],
        ),
        (
            "timestamp with time zone",
            ["2026-01-02 03:04:05.123456+00", None],
            [datetime.datetime(2026, 1, 2, 3, 4, 5, 123456, UTC), None],
        ),
        ("public.mood", ["sad"], ["sad"]),
        ("integer[]", ["{1,NULL,-3}", "{}", None], [[1, None, -3], [], None]),
        ("date[]", ["{2026-01-02}"], [[datetime.date(2026, 1, 2)]]),
        ("boolean[]", ["{t,f}"], [[True, False]]),
        ("bytea[]", ['{"\\\\x00"}'], [[b"\0"]]),
        ("character(2)[]", ['{"a "}'], [["a "]]),
        ("box[]", ["{(1,1),(0,0);(2,2),(1,1)}"], [["(1,1),(0,0)", "(2,2),(1,1)"]]),
        ("text[]", ['{NULL,"NULL","",a}'], [[None, "NULL", "", "a"]]),
    ],
)
def test_values(source_type: str, texts: list[str | None], expected: list[object] | None) -> None:
    values = converted(source_type, texts)
    assert values == (expected or [datetime.datetime(1, 1, 1)])
    assert converted(source_type, []) == []
    assert converted(source_type, [None, None]) == [None, None]


def test_text_is_what_the_server_shows() -> None:
    assert converted("boolean", ["t", "f", None], mapping="to-string") == ["true", "false", None]
    assert converted("date", ["infinity"], mapping="to-string") == ["infinity"]
    assert converted("integer[]", ["{{1},{2}}"], mapping="to-string") == ["{{1},{2}}"]
    assert converted("numeric", ["1.5"], mapping="numeric-to-decimal") == [Decimal("1.5")]


@pytest.mark.parametrize(
    ("source_type", "bad", "good"),
    [
        ("date", "infinity", "2026-01-02"),
        ("date", "0044-03-15 BC", "2026-01-02"),
        ("date", "10000-01-01", "9999-12-31"),
        ("timestamp without time zone", "-infinity", "2026-01-02 03:04:05"),
        ("timestamp without time zone", "0001-12-31 23:59:59 BC", "0001-01-01 00:00:00"),
        ("timestamp without time zone", "294276-12-31 23:59:59.999999", "9999-12-31 23:59:59"),
        ("timestamp with time zone", "infinity", "2026-01-02 03:04:05+00"),
        ("timestamp with time zone", "4714-11-24 00:00:00+00 BC", "2026-01-02 03:04:05.1+00"),
        ("time(0) without time zone", "24:00:00", "23:59:59"),
        ("numeric(5,2)", "NaN", "1.00"),
        ("date[]", "{infinity}", "{2026-01-02}"),
    ],
)
def test_bad_values_are_null_or_fail(source_type: str, bad: str, good: str) -> None:
    source = column(source_type)
    values = pa.array([good, bad, None])
    with pytest.raises(Invalid) as error:
        lake_values(values, source)
    shown = bad.strip("{}")
    assert f"column 'c' of type {source_type} has the value '{shown}'" in str(error.value)
    assert "choose 'null'" in str(error.value)
    expected = converted(source_type, [good])[0]
    nothing = [None] if source_type.endswith("[]") else None
    assert lake_values(values, source, BadDates.NULL).to_pylist() == [expected, nothing, None]


@pytest.mark.parametrize(
    ("source_type", "type_", "text", "shown"),
    [
        ("bigint", "INT", "2147483648", "2147483648"),
        ("numeric(12,2)", "DECIMAL(5, 2)", "1000.00", "1000.00"),
        ("numeric(12,3)", "DECIMAL(12, 2)", "0.001", "0.001"),
        ("character varying(9)", "VARCHAR(2)", "äöü", "äöü"),
        ("character(3)", "CHAR(2)", "a  ", "a  "),
        ("text", "VARCHAR(2)", "x" * 200, "x" * 100 + "…"),
        ("bytea", "VARBINARY(1)", "\\x0102", "\\x0102"),
        ("numeric", "DECIMAL(38, 18)", "0.0000000000000000001", "0.0000000000000000001"),
    ],
)
def test_values_that_the_lake_does_not_hold(
    source_type: str, type_: str, text: str, shown: str
) -> None:
    with pytest.raises(Invalid) as error:
        lake_values(pa.array([None, text]), column(source_type, type_), BadDates.NULL)
    assert f"has the value '{shown}', which {type_} of the lake does not hold" in str(error.value)


def test_wider_types_of_the_lake() -> None:
    assert converted("smallint", ["1"], "BIGINT") == [1]
    assert converted("real", ["0.1"], "DOUBLE") == [F32]
    assert converted("integer", ["7"], "DECIMAL(12, 2)") == [Decimal("7.00")]
    assert converted("date", ["2026-01-02"], "TIMESTAMP(6)") == [datetime.datetime(2026, 1, 2)]
    assert converted("character(2)", ["a "], "CHAR(4)") == ["a   "]
    assert converted("integer[]", ["{1}"], "ARRAY<BIGINT>") == [[1]]
    for source_type, type_ in [
        ("text", "INT"),
        ("integer", "ARRAY<INT>"),
        ("integer[]", "INT"),
        ("timestamp without time zone", "TIMESTAMP(3)"),
        ("timestamp with time zone", "TIMESTAMP(6)"),
        ("bit(17)", "BINARY(2)"),
        ("bit(2)", "BOOLEAN"),
    ]:
        with pytest.raises(Unsupported, match="does not become"):
            lake_values(pa.array(["1"]), column(source_type, type_))


@pytest.mark.parametrize("source_type", ["text", "integer", "numeric(5,2)", "date", "real"])
def test_text_that_is_not_utf8(source_type: str) -> None:
    with pytest.raises(Invalid, match="column 'c' has a value that is not UTF-8"):
        lake_values(pa.array([b"1", b"\xff"]), column(source_type))


@pytest.mark.parametrize(
    ("source_type", "texts", "bad"),
    [
        ("smallint", ["1", None, "-32768"], "40000"),
        ("integer", [None, "2147483647"], "x"),
        ("bigint", ["-9223372036854775808", None], "9223372036854775808"),
        ("real", ["0.1", "NaN", None], "x"),
        ("double precision", [None, "0.1", "-Infinity"], "x"),
        ("numeric(12,2)", ["-0.10", None, "9999999999.99"], "NaN"),
        ("numeric(38,0)", ["9" * 38, None], "Infinity"),
        ("date", ["2026-02-28", None], "infinity"),
        ("timestamp(3) without time zone", ["2026-01-02 03:04:05.12", None], "-infinity"),
    ],
)
def test_values_with_nulls_between_them(
    source_type: str, texts: list[str | None], bad: str
) -> None:
    source = column(source_type)
    assert can_be_spaced(source)
    for some in (texts, [*texts, "1" if bad == "x" else bad], texts[:1], []):
        values = pa.array([text and text.encode() for text in some], pa.binary())
        spaced = pa.array(
            [value for text in values.to_pylist() for value in (text, None)][:-1], pa.binary()
        )
        try:
            expected = lake_values(values, source, BadDates.NULL)
        except Invalid as error:
            with pytest.raises(Invalid, match=re.escape(str(error))):
                lake_values(spaced, source, BadDates.NULL)
        else:
            even = values_at_even_places(lake_values(spaced, source, BadDates.NULL))
            even.validate(full=True)
            assert even.type == expected.type
            # Arrow's texts of values, which tell NaN from null.
            assert even.cast(pa.string()).equals(expected.cast(pa.string()))


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}", "[2:2][1:1]={{1}}"])
def test_arrays_that_the_lake_does_not_have(text: str) -> None:
    with pytest.raises(Invalid, match=r"array '\S+', and arrays of the lake have one dimension"):
        lake_values(pa.array(["{1}", text, None, "{}"]), column("integer[]"), BadDates.NULL)


def array_text(elements: Sequence[str | None] | None) -> str | None:
    """An array as ``array_out`` writes it."""
    if elements is None:
        return None
    return "{" + ",".join(map(_element_text, elements)) + "}"


def _element_text(element: str | None) -> str:
    if element is None:
        return "NULL"
    is_quoted = not element or element.upper() == "NULL" or set(element) & set('{},"\\ \t\n\r\v\f')
    escaped = element.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if is_quoted else element


@given(st.lists(st.none() | st.lists(st.none() | st.text('a"\\{},NUL ä\n', max_size=6))))
@example([["\\", '"', '\\"', "\\\\"], [], None, [None, "NULL", "null", ""]])
def test_any_array_of_text(arrays: list[list[str | None] | None]) -> None:
    assert converted("text[]", [array_text(elements) for elements in arrays]) == arrays


@given(st.lists(st.none() | st.datetimes()))
def test_any_timestamp(values: list[datetime.datetime | None]) -> None:
    texts = [None if value is None else _shown(value) for value in values]
    assert converted("timestamp without time zone", texts) == values
    instants = [None if text is None else f"{text}+00" for text in texts]
    expected = [None if value is None else value.replace(tzinfo=UTC) for value in values]
    assert converted("timestamp with time zone", instants) == expected


def _shown(value: datetime.datetime) -> str:
    text = value.isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


@given(st.lists(st.none() | st.decimals("-9999999999.99", "9999999999.99", places=2)))
def test_any_decimal(values: list[Decimal | None]) -> None:
    texts = [None if value is None else f"{value:f}" for value in values]
    assert converted("numeric(12,2)", texts) == values


@given(st.lists(st.none() | st.binary()))
def test_any_bytes(values: list[bytes | None]) -> None:
    texts = [None if value is None else f"\\x{value.hex()}" for value in values]
    assert converted("bytea", texts) == values


@given(st.lists(st.none() | st.integers(0, 2**19 - 1)))
def test_any_bits(values: list[int | None]) -> None:
    texts = [None if value is None else f"{value:019b}" for value in values]
    expected = [None if value is None else value.to_bytes(3, "big") for value in values]
    assert converted("bit(19)", texts) == expected
