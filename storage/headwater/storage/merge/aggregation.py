"""The merge engine ``aggregation``: each column of a key's rows becomes one value by a function.

Source: ``AggregateMergeFunction.java``, ``FieldAggregatorFactory.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.engine import Indices, Kinds, Mask, MergeEngine, RowGroups
from headwater.storage.merge.field_aggregates import (
    AggregateFunction,
    BoolAnd,
    BoolOr,
    Extreme,
    FirstFunction,
    FirstNonNullValue,
    FirstValue,
    GroupedColumn,
    LastNonNullValue,
    LastValue,
    ListAgg,
    Sum,
)
from headwater.storage.merge.field_collections import Collect, DistinctListAgg, MergeMap
from headwater.storage.merge.field_products import Product
from headwater.storage.options import TableOptions
from headwater.storage.rows.kinds import RowKind
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataField, DataType, MapType

__all__ = ["AGGREGATE_FUNCTIONS", "Aggregation"]

_NUMBERS = (
    Root.TINYINT,
    Root.SMALLINT,
    Root.INT,
    Root.BIGINT,
    Root.FLOAT,
    Root.DOUBLE,
    Root.DECIMAL,
)
_ORDERED = (
    *_NUMBERS, Root.BOOLEAN, Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY, Root.DATE,
    Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ,
)  # fmt: skip


@dataclass(frozen=True)
class _Offer:
    """A function that a column may have.

    Attributes:
        make: Makes it for a column.
        takes: Tells whether it is for columns of a type.
        types: These types, in words.
    """

    make: Callable[[DataField, TableOptions], AggregateFunction]
    takes: Callable[[DataType], bool] = lambda item: True
    types: str = ""


def _atomic(*roots: Root) -> Callable[[DataType], bool]:
    return lambda item: isinstance(item, AtomicType) and item.root in roots


def _is_string(item: DataType) -> bool:
    return isinstance(item, AtomicType) and item.root is Root.VARCHAR and item.length == MAX_LENGTH


def _list_agg(field: DataField, options: TableOptions) -> AggregateFunction:
    delimiter = options.list_agg_delimiter(field.name)
    if not options.is_distinct(field.name):
        return ListAgg(delimiter)
    if not delimiter:
        raise Unsupported(
            f"column '{field.name}': a distinct listagg without a delimiter is not supported; set "
            f"'fields.{field.name}.list-agg-delimiter'"
        )
    return DistinctListAgg(delimiter)


def _collect(field: DataField, options: TableOptions) -> AggregateFunction:
    assert isinstance(field.type, ArrayType)
    if not isinstance(field.type.element, AtomicType):
        # Equal elements are found by their order, which nested ones have none of.
        raise Unsupported(
            f"column '{field.name}': collect is supported for arrays of atomic types, not of "
            f"{field.type.element}"
        )
    return Collect(options.is_distinct(field.name))


def _merge_map(field: DataField, _: TableOptions) -> AggregateFunction:
    assert isinstance(field.type, MapType)
    if not isinstance(field.type.key, AtomicType):
        raise Unsupported(
            f"column '{field.name}': merge_map is supported for maps with keys of an atomic type, "
            f"not of {field.type.key}"
        )
    return MergeMap()


AGGREGATE_FUNCTIONS: Mapping[str, _Offer] = {
    "sum": _Offer(lambda field, _: Sum(field.name), _atomic(*_NUMBERS), "numbers"),
    "product": _Offer(lambda field, _: Product(field.name), _atomic(*_NUMBERS), "numbers"),
    "max": _Offer(lambda *_: Extreme(True), _atomic(*_ORDERED), "atomic types"),
    "min": _Offer(lambda *_: Extreme(False), _atomic(*_ORDERED), "atomic types"),
    "last_value": _Offer(lambda *_: LastValue()),
    "last_non_null_value": _Offer(lambda *_: LastNonNullValue()),
    "first_value": _Offer(lambda *_: FirstValue()),
    "first_non_null_value": _Offer(lambda *_: FirstNonNullValue()),
    # A name of earlier versions (FieldFirstNonNullValueAggLegacyFactory.java).
    "first_not_null_value": _Offer(lambda *_: FirstNonNullValue()),
    "bool_and": _Offer(lambda *_: BoolAnd(), _atomic(Root.BOOLEAN), "BOOLEAN"),
    "bool_or": _Offer(lambda *_: BoolOr(), _atomic(Root.BOOLEAN), "BOOLEAN"),
    "listagg": _Offer(_list_agg, _is_string, "STRING"),
    "collect": _Offer(_collect, lambda item: isinstance(item, ArrayType), "ARRAY"),
    "merge_map": _Offer(_merge_map, lambda item: isinstance(item, MapType), "MAP"),
}
"""The functions by the name that the option ``fields.<column>.aggregate-function`` gives them."""


@dataclass(frozen=True)
class _Field:
    """A column's function.

    Attributes:
        function: The function.
        name: Its name.
        ignores_retractions: True if rows that retract count for nothing.
    """

    function: AggregateFunction
    name: str
    ignores_retractions: bool


class Aggregation(MergeEngine):
    """Computes each column of a key's row from those of all its rows.

    Args:
        schema: The table's schema.

    Raises:
        Invalid: A column's type is not one that its function takes, or options contradict each
            other.
        Unsupported: Headwater does not have a column's function.
    """

    def __init__(self, schema: TableSchema) -> None:
        options = schema.table_options
        keys = {*schema.primary_keys}
        self.deletes_keys = options.removes_record_on_delete
        self._fields = {
            item.name: _field(item, options, self.deletes_keys)
            for item in schema.fields
            if item.name not in keys
        }
        # Others lose what a retraction finds no value for, and a deletion its older rows.
        self.merges_retractions_partially = not self.deletes_keys and all(
            isinstance(field.function, Sum) and not field.ignores_retractions
            for field in self._fields.values()
        )

    def refused_kinds(self, kinds: Kinds) -> str | None:
        """Say why rows of some kinds must not be written: a function could never merge them."""
        retracts = (kinds & 1) == 1
        if self.deletes_keys:
            retracts &= kinds != RowKind.DELETE
        stubborn = [
            f"'{name}' ({field.name})"
            for name, field in self._fields.items()
            if not (field.function.takes_retractions or field.ignores_retractions)
        ]
        if not stubborn or not retracts.any():
            return None
        return (
            f"{int(retracts.sum())} rows of kind -U or -D cannot be written, for the functions of "
            f"the columns {', '.join(stubborn)} take no value back; set "
            "'fields.<column>.ignore-retract' for each of them, or 'ignore-delete'"
        )

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns themselves: each is computed from its own values."""
        return columns

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> pa.RecordBatch:
        """Merge each group into one row.

        Raises:
            Invalid: A result does not fit its column's type, or a function does not take
                retractions.
        """
        rows = groups.gather([*columns, KIND_FIELD.name])
        kinds = rows.column(KIND_FIELD.name).to_numpy()
        positions = np.arange(len(kinds))
        deletes = kinds == RowKind.DELETE if self.deletes_keys else np.zeros(len(kinds), np.bool_)
        # A deleted row's values are those that later rows are added to.
        begins = np.maximum.reduceat(np.where(deletes, positions, -1), groups.firsts)
        kept = positions >= np.repeat(begins, groups.sizes)
        sizes = np.add.reduceat(kept, groups.firsts, dtype=np.int64)
        firsts = np.cumsum(sizes) - sizes
        retracts = ((kinds & 1) == 1) & ~deletes
        begun = begins >= 0 if deletes.any() else None
        later = rows if begun is None else rows.filter(pa.array(kept))
        merged: list[pa.Array] = []
        for name in columns:
            function = self._fields[name].function
            if begun is not None and isinstance(function, FirstFunction):
                merged.append(
                    _first_values(rows.column(name), groups, retracts | deletes, begins, function)
                )
                continue
            column = GroupedColumn(later.column(name), firsts, retracts[kept], begun)
            merged.append(self._merged(name, column))
        result_kinds = np.where(
            begins == groups.lasts, RowKind.DELETE.value, RowKind.INSERT.value
        ).astype(np.int8)
        return pa.RecordBatch.from_arrays(
            [*merged, pa.array(result_kinds)], names=[*columns, KIND_FIELD.name]
        )

    def _merged(self, name: str, column: GroupedColumn) -> pa.Array:
        """One column's values, one for each group."""
        field = self._fields[name]
        retracts = column.retracts
        if retracts is None or not retracts.any():
            return field.function.merge(replace(column, retracts=None))
        if not field.ignores_retractions:
            if not field.function.takes_retractions:
                raise Invalid(
                    f"column '{name}': the aggregate function {field.name} takes no value back, "
                    f"but {int(retracts.sum())} rows are of kind -U or -D; "
                    f"set 'fields.{name}.ignore-retract' to pass over them"
                )
            return field.function.merge(column)
        # A group may be left without rows: it has no value.
        sizes = np.add.reduceat(~retracts, column.firsts, dtype=np.int64)
        there = sizes > 0
        if not there.any():
            return pa.nulls(len(sizes), column.values.type)
        added = column.values.filter(pa.array(~retracts))
        merged = field.function.merge(GroupedColumn(added, (np.cumsum(sizes) - sizes)[there]))
        return merged.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _first_values(
    values: pa.Array, groups: RowGroups, retracts: Mask, begins: Indices, function: FirstFunction
) -> pa.Array:
    """The first values of groups in some of which a row was deleted.

    A deleted row's value stays if a first one was found before it, for none is looked for again.

    Args:
        values: The rows' values.
        groups: The rows.
        retracts: A mask of those that retract, deleted ones among them.
        begins: The position of each group's last deleted row; -1 where there is none.
        function: The function.
    """
    column = GroupedColumn(values, groups.firsts, retracts)
    chosen = function.chosen(column)
    return column.take(np.where((begins >= 0) & (chosen < begins), begins, chosen))


def _field(item: DataField, options: TableOptions, removes: bool) -> _Field:
    name = options.aggregate_function(item.name)
    if item.name in options.sequence_fields:
        name = "last_value"
    offer = AGGREGATE_FUNCTIONS.get(name)
    if offer is None:
        raise Unsupported(
            f"column '{item.name}': the aggregate function '{name}' is not supported; there are "
            f"{', '.join(AGGREGATE_FUNCTIONS)}"
        )
    if not offer.takes(item.type):
        raise Invalid(
            f"column '{item.name}' of type {item.type}: the aggregate function {name} is for "
            f"{offer.types}"
        )
    ignores = options.ignores_retractions(item.name)
    if ignores and removes:
        raise Invalid(
            f"'fields.{item.name}.ignore-retract' and 'aggregation.remove-record-on-delete' "
            "contradict each other; set one of them"
        )
    return _Field(offer.make(item, options), name, ignores)
