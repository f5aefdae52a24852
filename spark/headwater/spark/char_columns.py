"""Columns of CHAR and VARCHAR as Spark has them.

Spark has one type of text. It knows a column of CHAR or VARCHAR by an entry in its metadata. What a
column of CHAR(n) holds is filled up with spaces to n characters when it is written, and again when
it is read, as files may come from writers that do not. So is what it is compared with, for which
Spark's analyser looks at that entry. Spaces beyond n characters are cut off; longer text is refused
by the write.

Sources: ``ApplyCharTypePadding``, ``CharVarcharUtils`` and ``CharVarcharCodegenUtils`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.char_types import (
    AS_TEXT,
    FILLS,
    TYPE_KEY,
    holds,
    is_bounded,
    is_char,
    type_text,
    with_types,
)
from headwater.spark.names import quoted
from headwater.spark.session import is_connect, is_set
from headwater.spark.types import spark_type
from headwater.storage.predicate.char_columns import (
    char_lengths,
    of_stored_values,
    padded_predicate,
)
from headwater.storage.predicate.filter import Predicate, columns_of, to_sql
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

__all__ = [
    "CharColumns",
    "filled_value",
    "is_text",
    "stored_condition",
    "stored_value",
    "with_stored_texts",
    "with_stored_values",
]

_STORED = "_headwater_stored_"

_Leaf: TypeAlias = Callable[[Column, AtomicType], Column | None]


@dataclass(frozen=True)
class CharColumns:
    """Columns of CHAR and VARCHAR, and of what holds them, as a session reads them.

    Attributes:
        kinds: Their types, by name.
        fills: Whether what CHAR holds is filled up when it is read.
    """

    kinds: Mapping[str, DataType] = field(default_factory=dict)
    fills: bool = False

    @staticmethod
    def from_session(spark: SparkSession, fields: Sequence[DataField]) -> CharColumns:
        """Those among some columns of a table."""
        bounded = {each.name: each.type for each in fields if is_bounded(each.type)}
        if not bounded or is_text(spark):
            return CharColumns()
        return CharColumns(bounded, is_set(spark, FILLS))

    def within(self, schema: st.StructType) -> CharColumns:
        """Those in a schema of which other columns may have their names."""
        if not self.kinds:
            return self
        there = {each.name: each.dataType for each in schema.fields}
        kept = {n: kind for n, kind in self.kinds.items() if there.get(n) == spark_type(kind)}
        return replace(self, kinds=kept)

    @property
    def lengths(self) -> dict[str, int]:
        """The characters that columns of CHAR are filled up to, by name."""
        return {
            name: kind.length for name, kind in self._filled.items() if isinstance(kind, AtomicType)
        }

    @property
    def compared(self) -> set[str]:
        """The columns of CHAR, which Spark compares as if they were filled up."""
        return {name for name, kind in self.kinds.items() if is_char(kind)}

    @property
    def stored(self) -> dict[str, str]:
        """The names of what `of_target` adds, by the columns' names."""
        return {name: f"{_STORED}{at}" for at, name in enumerate(self._filled)}

    def schema(self, schema: st.StructType) -> st.StructType:
        """A schema whose columns Spark knows to be of these types."""
        return with_types(schema, self.kinds)

    def declared(self, frame: DataFrame) -> DataFrame:
        """A frame whose columns Spark knows to be of these types."""
        return self._with(frame, {})

    def read(self, frame: DataFrame) -> DataFrame:
        """Rows as they are stored, as the session reads them."""
        return self._with(frame, self._filled)

    def of_target(self, frame: DataFrame) -> DataFrame:
        """As `read`, with columns of what is stored under the names of `stored`."""
        there = set(frame.columns) if self.kinds else ()
        kept = [
            sf.col(quoted(name)).alias(added)
            for name, added in self.stored.items()
            if name in there
        ]
        return self.read(frame.select("*", *kept) if kept else frame)

    @property
    def _filled(self) -> dict[str, DataType]:
        if not self.fills:
            return {}
        return {name: kind for name, kind in self.kinds.items() if holds(kind, (Root.CHAR,))}

    def _with(self, frame: DataFrame, filled: Mapping[str, DataType]) -> DataFrame:
        if not self.kinds:
            return frame
        told = {
            name: {**metadata, TYPE_KEY: type_text(self.kinds[name])}
            for name, metadata in _metadata(frame).items()
            if name in self.kinds
        }
        if not told:
            return frame
        changed: dict[str, Column] = {}
        for name, metadata in told.items():
            value = sf.col(quoted(name))
            if name in filled:
                value = filled_value(value, filled[name])
            changed[name] = value.alias(name, metadata=metadata)
        frame = frame.withColumns(changed)
        if is_connect(frame.sparkSession):
            # Its columns take the metadata of an alias only where they are selected.
            for name, metadata in told.items():
                frame = frame.withMetadata(name, metadata)
        return frame


def _metadata(frame: DataFrame) -> dict[str, dict[str, Any]]:
    return {each.name: each.metadata for each in frame.schema.fields}


def stored_condition(predicate: Predicate, schema: TableSchema) -> str:
    """A predicate as a condition on values as they are stored, of which Spark skips what it can."""
    padded = padded_predicate(predicate, schema)
    lengths = char_lengths(schema, columns_of(padded))
    whole = to_sql(padded, schema, pads=True)
    implied = of_stored_values(padded, lengths)
    if not lengths or implied is None:
        return whole
    return f"({to_sql(implied, schema)}) AND ({whole})"


def filled_value(value: Column, data_type: DataType) -> Column:
    """A value of a column, as it is read."""
    filled = _changed(value, data_type, _filled)
    return value if filled is None else filled


def stored_value(value: Column, name: str, schema: TableSchema) -> Column | None:
    """A value of a column, as it is stored; None for the value itself.

    Args:
        value: The value.
        name: The column's name.
        schema: The table's.
    """
    return _changed(value, schema.column(name).type, _stored)


def with_stored_values(spark: SparkSession, rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows for a table, as they are stored.

    Args:
        spark: The session; if CHAR and VARCHAR are plain text to it, nothing is changed.
        rows: The rows, in columns of the table's types; some may be missing.
        schema: The table's.
    """
    names = set(rows.columns)
    bounded = [each.name for each in schema.fields if each.name in names and is_bounded(each.type)]
    if not bounded or is_text(spark):
        return rows
    changed = {name: stored_value(sf.col(quoted(name)), name, schema) for name in bounded}
    return rows.withColumns({name: value for name, value in changed.items() if value is not None})


def with_stored_texts(
    spark: SparkSession, schema: TableSchema, partition: Mapping[str, object]
) -> dict[str, object]:
    """A partition's values as they are stored.

    Args:
        spark: The session; if CHAR and VARCHAR are plain text to it, nothing is changed.
        schema: The table's.
        partition: Values by the names of columns; those of no column stay as they are.
    """
    kinds = {each.name: each.type for each in schema.partition_fields if is_bounded(each.type)}
    if not kinds or is_text(spark):
        return dict(partition)
    return {
        name: _stored_text(value, kinds[name])
        if isinstance(value, str) and name in kinds
        else value
        for name, value in partition.items()
    }


def _stored_text(value: str, kind: DataType) -> str:
    assert isinstance(kind, AtomicType)
    if len(value) <= kind.length:
        return value.ljust(kind.length) if kind.root is Root.CHAR else value
    return value[: kind.length] if len(value.rstrip(" ")) <= kind.length else value


def is_text(spark: SparkSession) -> bool:
    """Whether CHAR and VARCHAR are plain text to a session."""
    return is_set(spark, AS_TEXT)


def _filled(value: Column, kind: AtomicType) -> Column | None:
    if kind.root is not Root.CHAR:
        return None
    return sf.when(sf.char_length(value) < kind.length, sf.rpad(value, kind.length, " ")).otherwise(
        value
    )


def _stored(value: Column, kind: AtomicType) -> Column | None:
    if not is_bounded(kind):
        return None
    length = kind.length
    fitting = sf.rpad(value, length, " ") if kind.root is Root.CHAR else value
    return (
        sf.when(sf.char_length(value) <= length, fitting)
        .when(sf.char_length(sf.rtrim(value)) <= length, sf.substring(value, 1, length))
        .otherwise(value)
    )


def _changed(value: Column, kind: DataType, leaf: _Leaf) -> Column | None:
    """A value whose parts of some atomic types are changed; None if it has no such parts.

    Args:
        value: The value.
        kind: Its type.
        leaf: Changes a part, or gives None for one that stays.
    """
    match kind:
        case AtomicType():
            return leaf(value, kind)
        case ArrayType():
            return _each(value, kind.element, leaf)
        case MapType() | MultisetType():
            key, other = sf.map_keys(value), sf.map_values(value)
            keys = _each(key, kind.key if isinstance(kind, MapType) else kind.element, leaf)
            values = _each(other, kind.value, leaf) if isinstance(kind, MapType) else None
            if keys is None and values is None:
                return None
            return sf.map_from_arrays(
                key if keys is None else keys, other if values is None else values
            )
        case RowType():
            parts: list[Column] = []
            changes = False
            for item in kind.fields:
                own = value.getField(item.name)
                part = _changed(own, item.type, leaf)
                changes |= part is not None
                parts.append((own if part is None else part).alias(item.name))
            return sf.when(value.isNotNull(), sf.struct(*parts)) if changes else None
    return None


def _each(value: Column, kind: DataType, leaf: _Leaf) -> Column | None:
    if _changed(value, kind, leaf) is None:
        return None

    def changed(item: Column) -> Column:
        new = _changed(item, kind, leaf)
        return item if new is None else new

    return sf.transform(value, changed)
