"""The bucket of a row as a Spark expression, for keys of whole numbers and dates.

Spark computes it in generated code. The same in a Python function costs about as much as the rest
of a shuffle, as every row waits in a queue for its answer; other types of key take the slow way.
`headwater.storage.rows.bucket` is the rule that both must agree with.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

__all__ = ["can_compute", "with_bucket"]

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.DATE: 32, Root.BIGINT: 64}
_WORD = 0xFFFFFFFF
_SEED = 42
_HASH, _MIXED = "_headwater_hash", "_headwater_mixed"
# A BinaryRow of so few fields has 8 bytes for row kind and nulls; all are 0 in a key.
_MOST_FIELDS = 56


def can_compute(fields: Sequence[DataField]) -> bool:
    """True if `with_bucket` knows the types of a bucket key."""
    return 0 < len(fields) <= _MOST_FIELDS and all(
        isinstance(field.type, AtomicType) and field.type.root in _BITS and not field.type.nullable
        for field in fields
    )


def with_bucket(df: DataFrame, fields: Sequence[DataField], buckets: int, name: str) -> DataFrame:
    """The frame with a column that holds each row's bucket.

    Args:
        df: Holds the columns of the bucket key.
        fields: The bucket key.
        buckets: The number of buckets.
        name: The new column's name.
    """
    state = _SEED
    for _ in range(2):
        state = _step_number(state, 0)
    frame = df.withColumn(_HASH, _long(state))
    for field in fields:
        for word in _words(field):
            # Step by step: Spark copies an expression wherever its value is used.
            frame = frame.withColumn(_MIXED, _times(word, 0xCC9E2D51))
            frame = frame.withColumn(_MIXED, _times(_rotated(sf.col(_MIXED), 15), 0x1B873593))
            mixed = sf.col(_HASH).bitwiseXOR(sf.col(_MIXED))
            frame = frame.withColumn(_HASH, _rotated(mixed, 13))
            frame = frame.withColumn(_HASH, _low(sf.col(_HASH) * 5 + _long(0xE6546B64)))
    last = sf.col(_HASH)
    frame = frame.withColumn(_HASH, last.bitwiseXOR(_long(8 + 8 * len(fields))))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        frame = frame.withColumn(_HASH, last.bitwiseXOR(sf.shiftright(last, shift)))
        frame = frame.withColumn(_HASH, _times(last, factor))
    frame = frame.withColumn(_HASH, last.bitwiseXOR(sf.shiftright(last, 16)))
    # The hash is a signed number, and Java's remainder has its sign.
    signed = sf.when(last > 0x7FFFFFFF, last - _long(1 << 32)).otherwise(last)
    # A null key, which the writer refuses, has to go somewhere.
    bucket = sf.coalesce(sf.abs(signed % buckets), sf.lit(0)).cast("int")
    return frame.withColumn(name, bucket).drop(_HASH, _MIXED)


def _words(field: DataField) -> list[Column]:
    """The two words of a field's slot in a BinaryRow, as numbers from 0 to 2^32 - 1."""
    assert isinstance(field.type, AtomicType)
    column = sf.col("`" + field.name.replace("`", "``") + "`")
    if field.type.root is Root.DATE:
        column = sf.unix_date(column.cast("date"))
    value = column.cast("bigint")
    bits = _BITS[field.type.root]
    if bits == 64:
        return [_low(value), _low(sf.shiftrightunsigned(value, 32))]
    return [value.bitwiseAND(_long((1 << bits) - 1)), _long(0)]


# 32-bit arithmetic in Spark's 64 bits, which must not overflow.


def _long(value: int) -> Column:
    return sf.lit(value).cast("bigint")


def _low(value: Column) -> Column:
    return value.bitwiseAND(_long(_WORD))


def _times(value: Column, factor: int) -> Column:
    low = value.bitwiseAND(_long(0xFFFF)) * _long(factor)
    high = (sf.shiftright(value, 16) * _long(factor)).bitwiseAND(_long(0xFFFF))
    return _low(low + sf.shiftleft(high, 16))


def _rotated(value: Column, by: int) -> Column:
    return _low(sf.shiftleft(value, by)).bitwiseOR(sf.shiftright(value, 32 - by))


def _step_number(state: int, word: int) -> int:
    mixed = word * 0xCC9E2D51 & _WORD
    mixed = (mixed << 15 | mixed >> 17) & _WORD
    state ^= mixed * 0x1B873593 & _WORD
    state = (state << 13 | state >> 19) & _WORD
    return (state * 5 + 0xE6546B64) & _WORD
