"""The bucket of a row as a Spark expression, for keys of whole numbers and dates.

Spark computes it in generated code. The same in a Python function costs about as much as the rest
of a shuffle, as every row waits in a queue for its answer; other types of key take the slow way.
`headwater.storage.rows.bucket` is the rule that both must agree with.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headwater.spark.names import quoted
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

__all__ = ["can_compute", "with_bucket"]

_BITS = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.DATE: 32, Root.BIGINT: 64}
_WORD = 0xFFFFFFFF
_SEED = 42
_HASH = "_headwater_hash"
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
    names = [quoted(each) for each in df.columns]
    frame, hashed = df, f"{state}L"
    for field in fields:
        for word in _words(field):
            hashed = _step(hashed, word)
        # A column for each field, which Spark computes once: it copies an expression wherever its
        # value is used, and each frame costs the planning of one.
        frame, hashed = frame.selectExpr(*names, f"{hashed} AS {_HASH}"), _HASH
    hashed = f"{hashed} ^ {8 + 8 * len(fields)}L"
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = _times(_folded(hashed, shift), factor)
    # The hash is a signed number, and Java's remainder has its sign.
    signed = f"({_folded(hashed, 16)} << 32 >> 32)"
    # A null key, which the writer refuses, has to go somewhere.
    bucket = f"coalesce(CAST(abs({signed} % {buckets}L) AS INT), 0)"
    return frame.selectExpr(*names, f"{bucket} AS {quoted(name)}")


def _words(field: DataField) -> list[str]:
    """The two words of a field's slot in a BinaryRow, as numbers from 0 to 2^32 - 1."""
    assert isinstance(field.type, AtomicType)
    column = quoted(field.name)
    if field.type.root is Root.DATE:
        column = f"unix_date(CAST({column} AS DATE))"
    value = f"CAST({column} AS BIGINT)"
    bits = _BITS[field.type.root]
    if bits == 64:
        return [f"({value} & {_WORD}L)", f"({value} >>> 32)"]
    return [f"({value} & {(1 << bits) - 1}L)", "0L"]


# 32-bit arithmetic in Spark's 64 bits, which must not overflow.


def _times(value: str, factor: int) -> str:
    # By a signed factor, so that the product of 32 bits and 31 has a place.
    signed = factor - (1 << 32) if factor > 0x7FFFFFFF else factor
    return f"({value} * {signed}L & {_WORD}L)"


def _rotated(value: str, by: int) -> str:
    return f"({value} << {by} & {_WORD}L | {value} >> {32 - by})"


def _folded(value: str, by: int) -> str:
    return f"(({value}) ^ ({value}) >> {by})"


def _step(state: str, word: str) -> str:
    """The hash after another word (``MurmurHashUtils.java``)."""
    mixed = _times(_rotated(_times(word, 0xCC9E2D51), 15), 0x1B873593)
    return f"({_rotated(f'({state} ^ {mixed})', 13)} * 5L + {0xE6546B64}L & {_WORD}L)"


def _step_number(state: int, word: int) -> int:
    mixed = word * 0xCC9E2D51 & _WORD
    mixed = (mixed << 15 | mixed >> 17) & _WORD
    state ^= mixed * 0x1B873593 & _WORD
    state = (state << 13 | state >> 19) & _WORD
    return (state * 5 + 0xE6546B64) & _WORD
