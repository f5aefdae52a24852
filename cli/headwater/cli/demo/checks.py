"""Checks of Headwater's answers against what plain Spark computes from the source data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Difference", "Digest", "digest", "expect", "expect_same_rows"]


class Difference(Exception):
    """A result differs from the independent computation: the demo has failed."""


@dataclass(frozen=True)
class Digest:
    """A digest of rows, whatever their order.

    Attributes:
        rows: The number of rows.
        total: The sum of the rows' 64-bit hashes; a doubled row changes it, as a lost one does.
    """

    rows: int
    total: Decimal


def digest(frame: DataFrame) -> Digest:
    """The digest of a frame; columns count with their names, in any order."""
    from pyspark.sql import functions as F

    # JSON keeps (null, 1) and (1, null) apart, which hashing the columns one by one does not.
    text = F.to_json(F.struct(*sorted(frame.columns)))
    row = frame.agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.xxhash64(text).cast("decimal(38,0)")).alias("total"),
    ).head()
    assert row is not None
    return Digest(row["rows"], row["total"] if row["total"] is not None else Decimal(0))


def expect_same_rows(what: str, actual: DataFrame, expected: DataFrame) -> int:
    """Make sure that two frames hold the same rows, each as often.

    Returns:
        How many rows that is.

    Raises:
        Difference: They do not; the message says how, with an example.
    """
    if sorted(actual.columns) != sorted(expected.columns):
        raise Difference(f"{what}: columns {actual.columns}, expected {expected.columns}")
    found, wanted = digest(actual), digest(expected)
    if found != wanted:
        raise Difference(
            f"{what}: {found.rows} rows, expected {wanted.rows}; "
            f"for example {_example('unexpected', actual, expected)}; "
            f"{_example('missing', expected, actual)}"
        )
    return found.rows


def expect(what: str, actual: object, expected: object) -> None:
    """Make sure that two values are equal.

    Raises:
        Difference: They are not.
    """
    if actual != expected:
        raise Difference(f"{what}: {actual!r}, expected {expected!r}")


def _example(kind: str, one: DataFrame, other: DataFrame) -> str:
    columns = sorted(one.columns)
    row = one.select(*columns).exceptAll(other.select(*columns)).head()
    return f"nothing {kind}" if row is None else f"{kind} {row.asDict()}"
