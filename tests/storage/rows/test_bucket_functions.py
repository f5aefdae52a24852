"""The functions by which tables spread rows over buckets, against what Paimon 2.0.0 answered."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.options import BucketFunction
from headwater.storage.rows.bucket import bucket_numbers, hash_rows
from headwater.storage.types.data_type import DataType, parse_type, to_arrow
from headwater.storage.types.values import StorageValue

LARGEST = 2**31 - 1

# Types, values, HiveBucketFunction.bucket for LARGEST buckets and for 7.
HIVE_BUCKETS: Sequence[tuple[Sequence[str], Sequence[StorageValue], int, int]] = [
    (["BOOLEAN"], [True], 1, 1),
    (["INT"], [-7], 2147483641, 2),
    (["INT"], [2147483647], 0, 1),
    (["BIGINT"], [-1], 0, 0),
    (["BIGINT"], [1099511627781], 261, 2),
    (["BIGINT"], [-9223372036854775808], 0, 0),
    (["DATE"], [-3], 2147483645, 6),
    (["DOUBLE"], [-0.0], 0, 0),
    (["DOUBLE"], [1.5], 1073217536, 6),
    (["DOUBLE"], [float("nan")], 2146959360, 0),
    (["DOUBLE"], [-1e300], 1983353248, 2),
    (["STRING"], [""], 0, 0),
    (["STRING"], ["abc"], 96354, 6),
    (["STRING"], ["a longer text, with ünïcode"], 817361613, 5),
    (["BYTES"], [b"\x00\xff\x80"], 2147483489, 4),
    (["BYTES"], [b"\xff" * 20], 1710941888, 5),
    (["DECIMAL(10,2)"], [Decimal("1.50")], 466, 4),
    (["DECIMAL(10,2)"], [Decimal("-1.50")], 2147483184, 0),
    (["DECIMAL(10,2)"], [Decimal("100.00")], 3100, 6),
    (["DECIMAL(10,2)"], [Decimal("0.00")], 0, 0),
    (["DECIMAL(10,2)"], [Decimal("-0.01")], 2147483619, 1),
    (["DECIMAL(38,18)"], [Decimal("12345678901234567890.123456789012345678")], 1266550999, 0),
    (["DECIMAL(38,18)"], [Decimal("-99999999999999999999.9")], 544351121, 6),
    (["DECIMAL(38,0)"], [Decimal("-9223372036854775808")], 0, 0),
    (["DECIMAL(38,0)"], [Decimal("9" * 38)], 1720285262, 3),
    (["DECIMAL(38,38)"], [Decimal("1e-38")], 69, 6),
    (["DECIMAL(20,5)"], [Decimal("18446744073709.5516")], 1589136976, 0),
    (["INT"], [None], 0, 0),
    (["STRING", "INT", "BIGINT"], ["xyz", None, 77], 114544550, 1),
    (["INT", "STRING"], [5, "five"], 3143501, 4),
    (["DECIMAL(38,2)", "BOOLEAN"], [None, False], 0, 0),
]


def _types(texts: Sequence[str]) -> list[DataType]:
    return [parse_type(text) for text in texts]


def _hive(types: Sequence[DataType], columns: Sequence[pa.Array], buckets: int) -> list[int]:
    found: list[int] = bucket_numbers(columns, types, buckets, BucketFunction.HIVE).tolist()
    return found


def _column(values: Sequence[StorageValue], data_type: DataType) -> pa.Array:
    arrow = to_arrow(data_type)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32()).view(arrow)
    return pa.array(values, arrow)


@pytest.mark.parametrize(("texts", "values", "of_largest", "of_seven"), HIVE_BUCKETS)
def test_hive_buckets_are_those_of_paimon(
    texts: Sequence[str], values: Sequence[StorageValue], of_largest: int, of_seven: int
) -> None:
    types = _types(texts)
    columns = [_column([value], kind) for value, kind in zip(values, types, strict=True)]
    assert _hive(types, columns, LARGEST) == [of_largest]
    assert _hive(types, columns, 7) == [of_seven]


def test_hive_buckets_of_many_rows_are_those_of_each() -> None:
    for text in {kinds[0] for kinds, *_ in HIVE_BUCKETS if len(kinds) == 1}:
        found = [(kinds, values[0], bucket) for kinds, values, bucket, _ in HIVE_BUCKETS]
        rows = [(value, bucket) for kinds, value, bucket in found if kinds == [text]]
        # Part of a longer column, with nulls on both sides.
        values = [None, rows[0][0], None, *(value for value, _ in rows), None, rows[0][0]]
        types = _types([text])
        column = _column(values, types[0]).slice(2, len(rows) + 2)
        assert _hive(types, [column], LARGEST) == [0, *(bucket for _, bucket in rows), 0]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 38), st.integers(0, 12))
def test_hive_buckets_of_decimals_do_not_depend_on_zeros_at_the_end(
    numbers: Sequence[int], scale: int, zeros: int
) -> None:
    # Numbers of many lengths that end in zeros.
    unscaled = [n // 10 ** (n % 37) // 10**zeros * 10**zeros for n in numbers]
    kind = parse_type(f"DECIMAL(38,{scale})")
    values = [_decimal(n, scale) for n in unscaled]
    expected = [_hash(n, scale) & LARGEST for n in unscaled]
    found = bucket_numbers([pa.array(values, to_arrow(kind))], [kind], LARGEST, BucketFunction.HIVE)
    assert found.tolist() == [number % LARGEST for number in expected]


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _hash(unscaled: int, scale: int) -> int:
    """``BigDecimal.hashCode`` of a number in its shortest form, one digit after another."""
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if unscaled == 0:
        return 0
    number, size = 0, -(-abs(unscaled).bit_length() // 32)
    for at in reversed(range(size)):
        number = number * 31 + (abs(unscaled) >> (32 * at) & 0xFFFFFFFF)
    return (31 * (number if unscaled > 0 else -number) + scale) & 0xFFFFFFFF


def test_mod_buckets_are_remainders_that_are_never_negative() -> None:
    # The examples of ModBucketFunction.java, and the ends of the types.
    for text, keys in (
        ("INT", [17, -3, 5, -(2**31), 2**31 - 1, None]),
        ("BIGINT", [17, -3, 5, -(2**63), 2**63 - 1, None]),
    ):
        types = _types([text])
        column = pa.array(keys, to_arrow(types[0]))
        found = bucket_numbers([column], types, 5, BucketFunction.MOD)
        assert found.tolist() == [2, 2, 0, *(key % 5 for key in keys[3:5] if key is not None), 0]


@pytest.mark.parametrize(
    ("function", "texts", "message"),
    [
        (BucketFunction.MOD, ["SMALLINT"], "one INT or BIGINT column"),
        (BucketFunction.MOD, ["INT", "INT"], "one INT or BIGINT column"),
        (BucketFunction.HIVE, ["TIMESTAMP(3)"], "no TIMESTAMP"),
    ],
)
def test_keys_that_a_function_does_not_take_are_refused(
    function: BucketFunction, texts: Sequence[str], message: str
) -> None:
    types = _types(texts)
    columns = [pa.nulls(1, to_arrow(kind)) for kind in types]
    with pytest.raises(Invalid, match=message):
        bucket_numbers(columns, types, 4, function)


def _murmur3(words: bytes, told: int) -> int:
    """The hash of bytes in words of 4, one after another."""
    ones = 0xFFFFFFFF
    found = 42
    for (word,) in struct.iter_unpack("<I", words):
        mixed = word * 0xCC9E2D51 & ones
        mixed = (mixed << 15 | mixed >> 17) * 0x1B873593 & ones
        found ^= mixed
        found = ((found << 13 | found >> 19) * 5 + 0xE6546B64) & ones
    found ^= told
    found = (found ^ found >> 16) * 0x85EBCA6B & ones
    found = (found ^ found >> 13) * 0xC2B2AE35 & ones
    return found ^ found >> 16


@pytest.mark.parametrize("sizes", [[8, 1024, 1028, 16, 4096, 0, 1020, 20_000], [2000, 4000], [8]])
def test_long_rows_among_short_ones_are_hashed_alike(sizes: list[int]) -> None:
    rows = [bytes((7 * at + size) % 256 for at in range(size)) for size in sizes]
    data = np.frombuffer(b"".join(rows), np.uint8)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    expected = [_murmur3(row, len(row)) for row in rows]
    assert hash_rows(data, offsets).tolist() == expected
    lengths = np.arange(len(sizes)) * 3 + 1
    expected = [_murmur3(row, int(told)) for row, told in zip(rows, lengths, strict=True)]
    assert hash_rows(data, offsets, lengths).tolist() == expected
