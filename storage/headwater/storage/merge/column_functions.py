"""The aggregate functions by their names in options, and the function of each column.

Source: ``FieldAggregatorFactory.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.merge.field_aggregates import (
    AggregateFunction,
    BoolAnd,
    BoolOr,
    Extreme,
    FirstNonNullValue,
    FirstValue,
    GroupedColumn,
    LastNonNullValue,
    LastValue,
    ListAgg,
    Sum,
)
from headwater.storage.merge.field_collections import Collect, DistinctListAgg, MergeMap
from headwater.storage.merge.field_nested import (
    MergeMapWithKeyTime,
    NestedKey,
    NestedPartialUpdate,
    NestedUpdate,
)
from headwater.storage.merge.field_products import Product
from headwater.storage.merge.field_sketches import (
    States,
    check_sketches,
    hll_union,
    roaring_union,
    theta_union,
)
from headwater.storage.merge.roaring64 import roaring64_union
from headwater.storage.options import TableOptions
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataField, DataType, MapType, RowType

__all__ = ["AGGREGATE_FUNCTIONS", "ColumnFunction", "refused_retractions"]

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
    return Collect(options.is_distinct(field.name))


def _is_nested_table(item: DataType) -> bool:
    return isinstance(item, ArrayType) and isinstance(item.element, RowType)


def _is_map_of_rows(item: DataType) -> bool:
    return isinstance(item, MapType) and isinstance(item.value, RowType)


def _nested_update(field: DataField, options: TableOptions) -> AggregateFunction:
    row = _nested_row(field)
    sequence = options.nested_sequence_fields(field.name)
    _check_fields(field.name, "nested-sequence-field", sequence, row)
    key = _nested_key(field, options)
    if not key.fields:
        for option in ("nested-sequence-field", "nested-key-null-strategy"):
            if f"fields.{field.name}.{option}" in options.raw:
                raise Invalid(
                    f"option 'fields.{field.name}.{option}' needs 'fields.{field.name}.nested-key'"
                )
    return NestedUpdate(key, sequence, options.count_limit(field.name))


def _nested_partial_update(field: DataField, options: TableOptions) -> AggregateFunction:
    key = _nested_key(field, options)
    if not key.fields:
        raise Invalid(
            f"column '{field.name}': nested_partial_update needs 'fields.{field.name}.nested-key'"
        )
    return NestedPartialUpdate(key)


def _nested_row(field: DataField) -> RowType:
    assert isinstance(field.type, ArrayType)
    assert isinstance(field.type.element, RowType)
    return field.type.element


def _nested_key(field: DataField, options: TableOptions) -> NestedKey:
    fields = options.nested_key(field.name)
    _check_fields(field.name, "nested-key", fields, _nested_row(field))
    return NestedKey(field.name, fields, options.nested_key_null_strategy(field.name))


def _check_fields(column: str, option: str, fields: Sequence[str], row: RowType) -> None:
    known = [item.name for item in row.fields]
    for name in fields:
        if name not in known:
            raise Invalid(
                f"option 'fields.{column}.{option}' names '{name}', which is no field of the "
                f"nested rows: {', '.join(known)}"
            )


def _merge_map_with_keytime(field: DataField, options: TableOptions) -> AggregateFunction:
    assert isinstance(field.type, MapType)
    assert isinstance(field.type.value, RowType)
    row = field.type.value
    if len(row.fields) < 2:
        raise Invalid(
            f"column '{field.name}': merge_map_with_keytime needs rows of two fields or more, one "
            "of them the time"
        )
    name = options.map_time_field(field.name)
    if name is None:
        name = row.fields[-1].name
    _check_fields(field.name, "ts-field", [name], row)
    (kind,) = [item.type for item in row.fields if item.name == name]
    if not _atomic(Root.CHAR, Root.VARCHAR)(kind):
        raise Invalid(
            f"column '{field.name}': merge_map_with_keytime compares times as text, and '{name}' "
            f"is of type {kind}"
        )
    return MergeMapWithKeyTime(name)


def _bitmap(field: DataField, _: TableOptions) -> AggregateFunction:
    return States(field.name, roaring_union)


def _wide_bitmap(field: DataField, _: TableOptions) -> AggregateFunction:
    return States(field.name, roaring64_union)


def _theta_sketch(field: DataField, _: TableOptions) -> AggregateFunction:
    check_sketches(field.name, "theta_sketch")
    return States(field.name, theta_union)


def _hll_sketch(field: DataField, _: TableOptions) -> AggregateFunction:
    check_sketches(field.name, "hll_sketch")
    return States(field.name, hll_union)


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
    "merge_map": _Offer(lambda *_: MergeMap(), lambda item: isinstance(item, MapType), "MAP"),
    "merge_map_with_keytime": _Offer(_merge_map_with_keytime, _is_map_of_rows, "MAP of ROW"),
    "rbm32": _Offer(_bitmap, _atomic(Root.VARBINARY), "VARBINARY"),
    "rbm64": _Offer(_wide_bitmap, _atomic(Root.VARBINARY), "VARBINARY"),
    "theta_sketch": _Offer(_theta_sketch, _atomic(Root.VARBINARY), "VARBINARY"),
    "hll_sketch": _Offer(_hll_sketch, _atomic(Root.VARBINARY), "VARBINARY"),
    "nested_update": _Offer(_nested_update, _is_nested_table, "ARRAY of ROW"),
    "nested_partial_update": _Offer(_nested_partial_update, _is_nested_table, "ARRAY of ROW"),
}
"""The functions by the name that the option ``fields.<column>.aggregate-function`` gives them."""


@dataclass(frozen=True)
class ColumnFunction:
    """A column's function.

    Attributes:
        column: The column.
        function: The function.
        name: Its name.
        ignores_retractions: True if rows that retract count for nothing.
    """

    column: str
    function: AggregateFunction
    name: str
    ignores_retractions: bool

    @staticmethod
    def of(item: DataField, name: str, options: TableOptions) -> ColumnFunction:
        """The function of a column.

        Args:
            item: The column.
            name: The name of its function.
            options: The table's options.

        Raises:
            Invalid: The column's type is not one that the function takes, or options contradict
                each other.
            Unsupported: Headwater does not have the function.
        """
        offer = AGGREGATE_FUNCTIONS.get(name)
        if offer is None:
            raise Unsupported(
                f"column '{item.name}': the aggregate function '{name}' is not supported; there "
                f"are {', '.join(AGGREGATE_FUNCTIONS)}"
            )
        if not offer.takes(item.type):
            raise Invalid(
                f"column '{item.name}' of type {item.type}: the aggregate function {name} is for "
                f"{offer.types}"
            )
        ignores = options.ignores_retractions(item.name)
        if ignores and options.removes_record_on_delete:
            raise Invalid(
                f"'fields.{item.name}.ignore-retract' and 'aggregation.remove-record-on-delete' "
                "contradict each other; set one of them"
            )
        return ColumnFunction(item.name, offer.make(item, options), name, ignores)

    @property
    def may_retract(self) -> bool:
        """True if ``-U`` and ``-D`` rows may be merged."""
        return self.function.takes_retractions or self.ignores_retractions

    @property
    def reverses(self) -> bool:
        """True if the values of rows that come late count as the oldest."""
        appends = self.function.appends_late and not self.ignores_retractions
        return self.function.is_ordered and not appends

    def merge(self, column: GroupedColumn) -> pa.Array:
        """One value for each group.

        Raises:
            Invalid: The function takes no values back, or a result does not fit.
        """
        retracts = column.retracts
        if retracts is None or not retracts.any():
            return self.function.merge(replace(column, retracts=None))
        self.check_retractions(int(retracts.sum()))
        if not self.ignores_retractions:
            return self.function.merge(column)
        # A group may be left without rows: it has no value.
        sizes = np.add.reduceat(~retracts, column.firsts, dtype=np.int64)
        there = sizes > 0
        if not there.any():
            return pa.nulls(len(sizes), column.values.type)
        added = column.values.filter(pa.array(~retracts))
        merged = self.function.merge(GroupedColumn(added, (np.cumsum(sizes) - sizes)[there]))
        return merged.take(pa.array(np.cumsum(there) - 1, mask=~there))

    def check_retractions(self, count: int) -> None:
        """Raise Invalid if there are rows that retract and they cannot be merged."""
        if count and not self.may_retract:
            raise Invalid(
                f"column '{self.column}': the aggregate function {self.name} takes no value back, "
                f"but {count} rows are of kind -U or -D; "
                f"set 'fields.{self.column}.ignore-retract' to pass over them"
            )


def refused_retractions(functions: Mapping[str, ColumnFunction], retracting: int) -> str | None:
    """Say why rows that retract must not be written.

    Args:
        functions: The columns' functions, by column.
        retracting: The number of such rows.

    Returns:
        The reason, which names the columns and the options to set; None when there are no such
        rows, or every function takes values back.
    """
    stubborn = [
        f"'{name}' ({function.name})"
        for name, function in functions.items()
        if not function.may_retract
    ]
    if not stubborn or not retracting:
        return None
    return (
        f"{retracting} rows of kind -U or -D cannot be written, for the functions of the columns "
        f"{', '.join(stubborn)} take no value back; set 'fields.<column>.ignore-retract' for each "
        "of them, or 'ignore-delete'"
    )
