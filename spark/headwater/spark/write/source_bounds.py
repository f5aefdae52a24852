"""Bounds of the rows that the rows of a merge's source can match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.spark.literal import literal
from headwater.spark.names import quoted
from headwater.spark.types import spark_type
from headwater.storage.maintenance.row_matchers import merge_predicate, merge_source
from headwater.storage.predicate.filter import And, Comparison, Constant, Predicate
from headwater.storage.schema.system_fields import ROW_ID_FIELD
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.values import storage_value

__all__ = ["SourceBounds", "bounds_of", "comparable_pairs"]

_FEW_ROWS = 1000
_MOST_BROADCAST_ROWS = 500_000
# Their Python values depend on time zones.
_ZONED = (st.TimestampType, st.TimestampNTZType)
# Floating-point numbers have NaN and two zeros; CHAR is compared with spaces that files may lack.
_UNORDERED = {Root.FLOAT, Root.DOUBLE, Root.BINARY, Root.VARBINARY, Root.TIME, Root.CHAR}


@dataclass(frozen=True)
class SourceBounds:
    """The bounds of the rows that a source can match.

    Attributes:
        rows: The number of the source's rows.
        predicate: The condition of every row of the table that one of the source matches; None when
            nothing is known.
        condition: The same for Spark's own scan, over the table's columns by name.
    """

    rows: int
    predicate: Predicate | None = None
    condition: Column | None = None

    @property
    def is_small(self) -> bool:
        """True if the source's keys may be sent to all tasks."""
        return self.rows <= _MOST_BROADCAST_ROWS


def comparable_pairs(
    storage: TableStorage, source: st.StructType, pairs: Mapping[str, str]
) -> dict[str, str]:
    """The pairs of columns whose values can be compared as they are stored.

    Args:
        storage: The table.
        source: The source's schema.
        pairs: Columns of the source by the table's columns that they equal.
    """
    kept: dict[str, str] = {}
    for own, other in pairs.items():
        if own not in storage.schema.field_by_name and own != ROW_ID_FIELD.name:
            continue  # Files have no statistics of sequence numbers.
        kind = storage.schema.column(own).type
        if (
            isinstance(kind, AtomicType)
            and kind.root not in _UNORDERED
            and source[other].dataType == spark_type(kind)
        ):
            kept[own] = other
    return kept


def bounds_of(storage: TableStorage, source: DataFrame, pairs: Mapping[str, str]) -> SourceBounds:
    """The bounds of the rows that a source can match, with a job or two over the source.

    Args:
        storage: The table.
        source: The source's rows, which a second look finds the same.
        pairs: From `comparable_pairs`; at least one.
    """
    own = list(pairs)
    keys = source.select(*[sf.col(quoted(pairs[name])).alias(name) for name in own])
    few = keys.limit(_FEW_ROWS + 1).toArrow()
    if few.num_rows <= _FEW_ROWS:
        # A row with null in one of them matches none.
        known = few.drop_null()
        predicate = merge_predicate(storage, _as_stored(storage, known), own)
        return SourceBounds(few.num_rows, predicate, _between(keys, known))
    ends = keys.agg(
        sf.count(sf.lit(1)).alias("rows"),
        *[sf.min(quoted(name)).alias(f"low{at}") for at, name in enumerate(own)],
        *[sf.max(quoted(name)).alias(f"high{at}") for at, name in enumerate(own)],
    ).toArrow()
    rows = int(ends.column("rows")[0].as_py())
    parts: list[Predicate] = []
    conditions: list[Column] = []
    for at, name in enumerate(own):
        low, high = (ends.column(f"{end}{at}")[0] for end in ("low", "high"))
        if not low.is_valid:
            return SourceBounds(rows, Constant(False), sf.lit(False))
        kind = storage.schema.column(name).type
        parts.append(Comparison(name, ">=", storage_value(low.as_py(), kind)))
        parts.append(Comparison(name, "<=", storage_value(high.as_py(), kind)))
        conditions += _between_ends(name, keys.schema[name].dataType, low, high)
    partitions = [name for name in own if name in storage.schema.partition_keys]
    for name in partitions:
        present = keys.select(quoted(name)).dropna().distinct()
        values = present.limit(_FEW_ROWS + 1).toArrow()
        if values.num_rows <= _FEW_ROWS:
            found = merge_predicate(storage, merge_source(storage, values, [name]), [name])
            if found is not None:
                parts.append(found)
    condition = reduce(Column.__and__, conditions) if conditions else None
    return SourceBounds(rows, And(tuple(parts)), condition)


def _as_stored(storage: TableStorage, values: pa.Table) -> pa.Table:
    """Values in the types of the table's columns; those of row ids are in theirs."""
    own = [name for name in values.column_names if name in storage.schema.field_by_name]
    stored = merge_source(storage, values.select(own), own) if own else values
    columns = [(stored if name in own else values).column(name) for name in values.column_names]
    return pa.table(columns, names=values.column_names)


def _between(keys: DataFrame, few: pa.Table) -> Column | None:
    """The condition that columns lie between the ends of a few values."""
    conditions: list[Column] = []
    for field in keys.schema.fields:
        values = few.column(field.name)
        if not len(values):
            return sf.lit(False)
        ordered = values.take(pc.sort_indices(values))
        conditions += _between_ends(field.name, field.dataType, ordered[0], ordered[-1])
    return reduce(Column.__and__, conditions) if conditions else None


def _between_ends(
    name: str, data_type: st.DataType, low: pa.Scalar, high: pa.Scalar
) -> Iterator[Column]:
    """The condition that a column lies between two values, if it can be said."""
    if not isinstance(data_type, _ZONED):
        yield sf.col(quoted(name)).between(literal(low, data_type), literal(high, data_type))
