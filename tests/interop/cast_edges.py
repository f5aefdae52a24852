"""Pairs of types, and values at their edges, for tests of casts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.storage.casts.type_changes import equal_types, has_cast
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import parse_type

TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
    "DECIMAL(4, 2)", "DECIMAL(10, 0)", "DECIMAL(18, 9)", "DECIMAL(38, 10)", "DECIMAL(2, 2)",
    "CHAR(3)", "CHAR(12)", "VARCHAR(3)", "VARCHAR(12)", "STRING",
    "BINARY(3)", "BINARY(8)", "VARBINARY(3)", "BYTES",
    "DATE", "TIME(0)", "TIME(3)",
    *(f"TIMESTAMP({p})" for p in (0, 1, 2, 3, 4, 6, 9)),
    *(f"TIMESTAMP({p}) WITH LOCAL TIME ZONE" for p in (0, 2, 3, 6, 9)),
)  # fmt: skip

_SECONDS = (
    0, 1, -1, 86_399, 86_400, -86_401, 951_782_400, 1_078_012_800, -2_203_977_600,
    1_700_000_000, 1_711_850_400, 1_710_055_800, 1_730_611_800, 1_730_615_400, -3_000_000_000,
)  # fmt: skip
_FRACTIONS = (
    0, 1, 999_999_999, 500_000_000, 120_000_000, 123_000_000, 123_456_000, 123_456_789, 100,
)  # fmt: skip
_FLOATS = (
    0.0, -0.0, 1.0, -1.5, 0.1, 0.5, 1e-3, 9.99e-4, 1e7, 9_999_999.0, 123_456.78, 1e10, -1e10,
    127.9, 128.5, -129.0, 32_768.0, 2_147_483_647.0, 2_147_483_648.0, -2_147_483_649.0, 99.995,
    9.3e18, -9.3e18, 1e20, 99.99, 100.0, 0.125, 0.375, 12.345,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
_TEXTS = (
    "", " ", "a", "abc", "abcd", "übung", "日本語テキスト", "🙂🙂🙂🙂",
    "0", "1", "-1", "+1", "+", "-",
    ".", "-.5", "1.", ".5", "1.9", "-1.9", "127", "128", "-128", "-129", "32767",
    "32768", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "00000000000000000000000012", "1e3", "1E3",
    "1e-3", "1.5f", "1.5d", " 1.5 ", "NaN", "nan", "-Infinity", "Infinity", "inf", "1_0", "12.345",
    "12.344999", "99.995", "-99.995", "99.994", "1e400", "1e-400", "3.4028236e38", "1e40", "0e99",
    "true", "TRUE", "t", "y", "Yes", "1 ", "false", "F", "no", "N", "0", "truth", "\u0661\u0662",
    "2024-02-29", "2023-02-29", "2023-02-30", "2023-04-31", "2024-2-9", "2024-13-01", "2024-00-01",
    "2024-01-00", "2024-01-32", "2024", "2024-05", " 2024-05-06 ", "0000-01-01", "0001-01-01",
    "9999-12-31", "10000-01-01", "+10000-01-01", "1969-12-31", "1582-10-10", "19000", "-1000",
    "2024-02-29 10:11:12", "2024-02-29 10:11:12.5", "2024-02-29 10:11:12.123456789",
    "2024-02-29 10:11:12.1234567891", "2024-02-29 10:11:12.", "2024-02-29T10:11",
    "2024-02-29T10:11:12.25", "2024-02-29 10:11", "2024-02-29 1:2:3", "2024-02-29 24:00:00",
    "2024-02-29 24:00:01", "2024-02-29 23:59:60", "2024-02-29 23:60:00", "2024-03-10 02:30:00",
    "2024-11-03 01:30:00", "1960-01-01 00:00:00.999999999", "1700000000000", "170000000000000000",
    "10:11:12", "10:11", "10", "10:11:12.1234", "10:11:12.9996", "10:11:12.5 ", "23:59:59.9999",
    "24:00:00", "10:11:12+01:30", "10:11:12.5-01", "10:11+02", "10+1", "10+01:00", "10:11+01:00",
    "1:2:3", "-10:00", "99999999", "noon", "12.5.6", "2024-01-01 x", "2024-01-01x",
)  # fmt: skip

_INTEGERS: Mapping[Root, int] = {
    Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64
}  # fmt: skip


def pairs() -> Iterator[tuple[str, str]]:
    """Every pair of types that Paimon casts, and that are not the same."""
    for old in TYPES:
        for new in TYPES:
            if not equal_types(parse_type(old), parse_type(new)) and has_cast(
                parse_type(old), parse_type(new)
            ):
                yield old, new


def edges(text: str) -> list[object]:
    """Values of a type: storage values, decimals as text, timestamps as nanoseconds."""
    data_type = parse_type(text)
    assert isinstance(data_type, AtomicType)
    match data_type.root:
        case Root.BOOLEAN:
            return [True, False]
        case root if root in _INTEGERS:
            top = 1 << (_INTEGERS[root] - 1)
            powers = [sign * 10**k for k in range(19) for sign in (1, -1) if 10**k < top]
            seconds = [second for second in _SECONDS if -top <= second < top]
            return [0, 99, 100, 127, -128, top - 1, -top, *powers, *seconds]
        case Root.FLOAT:
            return [*_FLOATS, 1.401298464324817e-45, 3.4028234663852886e38, 1.1754943508222875e-38]
        case Root.DOUBLE:
            return [*_FLOATS, 4.9e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 1e300]
        case Root.DECIMAL:
            room = data_type.precision
            numbers = [0, 1, -1, 5, 10**room - 1, 1 - 10**room, 10**room // 2, 127, 12_345, 12_995]
            numbers += [10**k for k in range(room)] + [-(10**k) // 2 for k in range(room)]
            return [str(number) for number in dict.fromkeys(numbers) if abs(number) < 10**room]
        case Root.CHAR | Root.VARCHAR:
            return [value for value in dict.fromkeys(_TEXTS) if len(value) <= data_type.length]
        case Root.BINARY | Root.VARBINARY:
            found = [
                b"",
                b"a",
                b"abc",
                b"abcd",
                "ü".encode(),
                b"\x00\x01",
                b"12345678",
                b"123456789",
            ]
            return [value for value in found if len(value) <= data_type.length]
        case Root.DATE:
            return [0, 1, -1, 11_016, 12_477, -25_509, 19_800, -719_162, 2_932_896, -141_428]
        case Root.TIME:
            return [0, 1, 10, 100, 105, 999, 1000, 43_200_000, 86_399_999, 3_723_120]
        case _:
            step = 10 ** (9 - data_type.precision)
            nanos = sorted({fraction - fraction % step for fraction in _FRACTIONS})
            return [second * 10**9 + nano for second in _SECONDS for nano in nanos]
