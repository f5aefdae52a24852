"""Bring a caller's data to a table's schema, or say exactly why it cannot be.

Nothing is guessed: a value is cast only when nothing of it is lost, a column that the table does
not have is an error, and so is a null where the table forbids it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.rows.python_times import lost_of_times
from headwater.storage.schema.default_values import default_value
from headwater.storage.schema.system_fields import ROW_KIND_COLUMN
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.arrow_numbers import (
    arrow_mask,
    arrow_values,
    numpy_mask,
    numpy_values,
)
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    VARIANT_ARROW,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    refuse_kept,
    timestamp_unit,
    to_arrow,
)
from headwater.storage.types.local_time import Zone
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with
from headwater.storage.types.padded_text import has_chars, padded_array
from headwater.storage.types.values import is_kindred

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ROW_KIND_COLUMN", "TabularData", "arrow_table", "coerce"]

"""An input column of this name holds each row's kind: ``+I``, ``-U``, ``+U`` or ``-D``."""


_BYTES = AtomicType(Root.VARBINARY)
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)


@runtime_checkable
class _ArrowStream(Protocol):
    """An object that exports Arrow data: Arrow, Polars and pandas tables, DuckDB relations…"""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


TabularData: TypeAlias = (
    "pa.Table | pa.RecordBatch | pl.DataFrame | pl.LazyFrame | _ArrowStream"
    " | Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]]"
)


def arrow_table(data: TabularData) -> pa.Table:
    """A caller's data as an Arrow table.

    Args:
        data: An Arrow table or batch, a Polars frame, a pandas frame, anything else that exports
            an Arrow stream, a mapping of columns, or a list of rows as mappings.

    Raises:
        Invalid: It is something else, a column has no single type, Arrow cannot hold a value, or
            columns have the same name.
    """
    try:
        table = _arrow_table(data)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        # Not all that Arrow raises of values that it cannot hold is an error of its own.
        raise Invalid(f"the data cannot be read as Arrow columns: {error}") from error
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise Invalid(f"the data has more than one column '{twice}'")
    return table


def _arrow_table(data: TabularData) -> pa.Table:
    match data:
        case pa.Table():
            return data
        case pa.RecordBatch():
            return pa.Table.from_batches([data])
        case Mapping():
            columns = dict(data)
            return _with_whole_times(pa.table(columns), columns.__getitem__)
        case list() | tuple():
            return _rows_table(data)
    if (frame := _polars_frame(data)) is not None:
        return frame.to_arrow()
    if (pandas := _pandas_frame(data)) is not None:
        # Not through the Arrow stream: that would make an index of row numbers a column.
        table = pa.Table.from_pandas(pandas, preserve_index=False)
        return _with_whole_times(table, pandas.get)
    if isinstance(data, _ArrowStream):
        return pa.table(data)
    raise Invalid(
        f"cannot write a {type(data).__name__}: pass an Arrow table, a Polars or pandas frame, "
        "a mapping of columns or a list of rows"
    )


def _rows_table(rows: Sequence[object]) -> pa.Table:
    """Rows as mappings; a column that some of them lack is null there."""
    if not rows:
        return pa.table({})
    # As structs, whose fields Arrow takes from all rows; `from_pylist` takes those of the first.
    structs = pa.array(rows if isinstance(rows[0], dict) else list(map(_plain_row, rows)))
    if not pa.types.is_struct(structs.type):
        raise Invalid(f"a list of rows must hold mappings, not {structs.type}")
    if structs.null_count:
        raise Invalid(f"{structs.null_count} rows of the list are None, not mappings")
    table = pa.Table.from_struct_array(structs)
    mappings = [row for row in rows if isinstance(row, Mapping)]
    return _with_whole_times(table, lambda name: [row.get(name) for row in mappings])


def _with_whole_times(table: pa.Table, values_of: Callable[[str], object]) -> pa.Table:
    """A table made of Python's objects; raises Invalid if times among them lost a part."""
    for field in table.schema:
        if not pa.types.is_temporal(field.type) or pa.types.is_duration(field.type):
            continue
        values = values_of(field.name)
        if isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object":
            assert isinstance(values, Collection)
            reason = lost_of_times(values, field.type)
            if reason is not None:
                raise Invalid(f"column '{field.name}' {reason}")
    return table


def _plain_row(row: object) -> object:
    return dict(row) if isinstance(row, Mapping) else row


def _pandas_frame(data: object) -> pd.DataFrame | None:
    """A pandas frame whose named index is columns: it is data, where a nameless one counts rows.

    Raises:
        Invalid: Some levels of the index have no name, or columns have these names.
    """
    if "pandas" not in sys.modules:
        return None
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        return None
    names = [name for name in data.index.names if name is not None]
    if not names:
        return data
    if len(names) < data.index.nlevels or set(names) & set(data.columns):
        raise Invalid(
            f"the frame's index {list(data.index.names)} cannot become columns: give each level a "
            "name that no column has, or drop the index with reset_index(drop=True)"
        )
    return data.reset_index()


def _polars_frame(data: object) -> pl.DataFrame | None:
    # Who has a frame has loaded Polars. Nobody else is to wait for it, nor need it be installed.
    if "polars" not in sys.modules:
        return None
    import polars as pl

    if isinstance(data, pl.LazyFrame):
        return data.collect()
    return data if isinstance(data, pl.DataFrame) else None


def coerce(
    table: pa.Table,
    schema: TableSchema,
    name: str,
    zone: Zone,
    *,
    keeps_nulls: bool = False,
    pads: bool = False,
) -> pa.Table:
    """The data with exactly the table's columns, in order, in the types' Arrow forms.

    A nullable column that the data lacks becomes its default value, or null; those of the primary
    key must be there. A null becomes its column's default value, too (``DefaultValueRow.java``),
    but in a primary key, where it is a value of its own.

    Args:
        table: The data.
        schema: The table's schema.
        name: The table's name in error messages.
        zone: Of local times in defaults, see `cast`.
        keeps_nulls: Leave nulls as they are: of rows that the table holds already.
        pads: Pad CHAR values, as Flink and Spark do: of rows that are new.

    Raises:
        Unsupported: Headwater does not write a column's type.
        Invalid: A column is unknown, occurs twice, is missing though it must not be null, has a
            type or a value that the table's type does not hold without loss, or has a null where
            the table forbids it. The message names the column.
    """
    names = table.column_names
    _check_names(names, schema, name)
    columns: list[pa.ChunkedArray] = []
    for field in schema.fields:
        refuse_kept(field)
        where = f"table {name}, column '{field.name}'"
        if field.name in names:
            column = _cast_column(table.column(field.name), field.type, where)
        else:
            column = _absent(field, table.num_rows, where, zone)
        if not field.type.nullable and column.null_count:
            raise Invalid(
                f"{where} is NOT NULL, but {column.null_count} of {table.num_rows} rows are null"
            )
        is_filled = not keeps_nulls and field.name not in schema.primary_keys
        if is_filled and field.default_value is not None and column.null_count:
            value = default_value(where, field.type, field.default_value, zone)
            column = _filled(column, value)
        if pads and has_chars(field.type):
            chunks = [padded_array(chunk, field.type) for chunk in column.chunks]
            column = pa.chunked_array(chunks, column.type)
        columns.append(column)
    return pa.table(columns, schema=schema.arrow)


def _check_names(names: Sequence[str], schema: TableSchema, table: str) -> None:
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise Invalid(f"table {table}: the data has more than one column '{column}'")
        seen.add(column)
    unknown = [column for column in names if column not in schema.field_by_name]
    if unknown:
        raise Invalid(
            f"table {table} has no column {', '.join(repr(c) for c in unknown)}; its columns are "
            f"{', '.join(schema.field_by_name)}"
        )
    for kind, required in (
        ("NOT NULL", [f for f in schema.fields if not f.type.nullable]),
        # Without it all rows would have one key: nobody means that who leaves a column out.
        ("primary-key", schema.columns(schema.primary_keys)),
    ):
        missing = [f.name for f in required if f.default_value is None and f.name not in seen]
        if missing:
            raise Invalid(
                f"table {table}: the data lacks the {kind} column "
                f"{', '.join(repr(c) for c in missing)}"
            )


def _absent(field: DataField, rows: int, where: str, zone: Zone) -> pa.ChunkedArray:
    target = to_arrow(field.type)
    if field.default_value is None:
        return pa.chunked_array([pa.nulls(rows, target)])
    value = default_value(where, field.type, field.default_value, zone)
    return pa.chunked_array([pa.repeat(value, rows).cast(target)])


def _filled(column: pa.ChunkedArray, value: pa.Scalar) -> pa.ChunkedArray:
    """A column with a value in the places of nulls."""
    if not pa.types.is_nested(column.type):
        return column.fill_null(value)
    # Arrow fills no nulls of these types.
    last = pa.repeat(value, 1).cast(column.type)
    chunks: list[pa.Array] = []
    for chunk in column.chunks:
        places = np.where(numpy_mask(chunk.is_null()), len(chunk), np.arange(len(chunk)))
        chunks.append(pa.concat_arrays([chunk, last]).take(arrow_values(places)))
    return pa.chunked_array(chunks, column.type)


def _cast_column(column: pa.ChunkedArray, data_type: DataType, where: str) -> pa.ChunkedArray:
    target = to_arrow(data_type)
    chunks = [_cast(chunk, data_type, where) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=target)


def _cast(array: pa.Array, data_type: DataType, where: str) -> pa.Array:
    source = array.type
    if pa.types.is_dictionary(source):
        return _cast(array.dictionary_decode(), data_type, where)
    if isinstance(source, pa.ExtensionType):
        return _cast(array.storage, data_type, where)
    if pa.types.is_null(source):
        return pa.nulls(len(array), to_arrow(data_type))
    match data_type:
        case AtomicType():
            return _cast_atomic(array, data_type, where)
        case ArrayType():
            return _cast_list(array, data_type, where)
        case MapType():
            return _cast_map(array, data_type, data_type.key, data_type.value, where)
        case MultisetType():
            count = AtomicType(Root.INT, nullable=False)
            return _cast_map(array, data_type, data_type.element, count, where)
        case RowType():
            return _cast_struct(array, data_type, where)
        case VectorType():
            return _cast_vector(array, data_type, where)
        case VariantType():
            return _cast_variant(array, data_type, where)


def _cast_variant(array: pa.Array, data_type: VariantType, where: str) -> pa.Array:
    if not pa.types.is_struct(array.type) or sorted(f.name for f in array.type) != [
        "metadata",
        "value",
    ]:
        raise Invalid(
            f"{where} is {data_type}: its data is a struct of the binary fields 'value' and "
            f"'metadata', as Spark and Parquet encode variants, not {array.type}"
        )
    # Flattening a struct gives its own nulls to its fields.
    parts = dict(zip((item.name for item in array.type), array.flatten(), strict=True))
    made: list[pa.Array] = []
    for item in VARIANT_ARROW:
        part = parts[item.name]
        if not is_kindred(part.type, _BYTES):
            raise Invalid(f"{where} is {data_type}: its field '{item.name}' is {part.type}")
        if part.null_count != array.null_count:
            raise Invalid(f"{where} is {data_type}, but a value lacks its '{item.name}'")
        made.append(part.cast(pa.binary()).fill_null(b""))
    return struct_with(array, made, list(VARIANT_ARROW))


# Atomic types ---------------------------------------------------------------------------------


def _refusal(array: pa.Array, data_type: DataType, where: str, why: str) -> Invalid:
    return Invalid(f"{where} is {data_type}, which does not hold the data's {array.type}: {why}")


def _cast_atomic(array: pa.Array, data_type: AtomicType, where: str) -> pa.Array:
    source, target = array.type, to_arrow(data_type)
    if not _castable(source, data_type):
        why = "cast the column first"
        if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
            # Arrow would take local time as UTC without a word.
            why = "one is local time and the other an instant; convert the column first"
        raise _refusal(array, data_type, where, why)
    if source == target:
        cast = array
    else:
        try:
            cast = _safe_cast(array, data_type, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refusal(array, data_type, where, str(error)) from error
        if pa.types.is_floating(source) and pa.types.is_floating(target):
            _check_floats(array, cast, data_type, where)
    _check_size(cast, data_type, where)
    return cast


def _castable(source: pa.DataType, data_type: AtomicType) -> bool:
    # Whole numbers with nulls are floats in pandas.
    whole = data_type.root in _INTEGERS and pa.types.is_floating(source)
    return bool(whole or is_kindred(source, data_type))


def _safe_cast(array: pa.Array, data_type: AtomicType, target: pa.DataType) -> pa.Array:
    source = array.type
    if data_type.root is Root.DECIMAL:
        # Arrow wants space for the widest integer; the values may well need less.
        if pa.types.is_integer(source):
            array = array.cast(pa.decimal256(20, 0))
        return array.cast(pa.decimal256(76, data_type.scale)).cast(target)
    return array.cast(target, safe=True)


def _check_floats(array: pa.Array, cast: pa.Array, data_type: AtomicType, where: str) -> None:
    if array.type.bit_width <= cast.type.bit_width:
        return
    back = cast.cast(array.type)
    same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
    lost = pc.sum(pc.invert(same)).as_py() or 0
    if lost:
        why = f"{lost} values lose digits; cast the column first"
        raise _refusal(array, data_type, where, why)


def _check_size(array: pa.Array, data_type: AtomicType, where: str) -> None:
    """Refuse text and bytes that are too long and times that are too precise."""
    match data_type.root:
        case Root.CHAR | Root.VARCHAR if data_type.length < 2**31 - 1:
            if (pc.max(pc.binary_length(array)).as_py() or 0) <= data_type.length:
                # No value has more characters than bytes, and bytes need no counting.
                return
            over = pc.greater(pc.utf8_length(array), data_type.length)
        case Root.BINARY | Root.VARBINARY if data_type.length < 2**31 - 1:
            over = pc.greater(pc.binary_length(array), data_type.length)
        case Root.TIME if data_type.precision < 3:
            over = _not_a_multiple(array.cast(pa.int32()), 10 ** (3 - data_type.precision))
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            digits = {"ms": 3, "us": 6, "ns": 9}[timestamp_unit(data_type.precision)]
            if digits == data_type.precision:
                return
            over = _not_a_multiple(array.cast(pa.int64()), 10 ** (digits - data_type.precision))
        case _:
            return
    count = pc.sum(over).as_py() or 0
    if count:
        raise Invalid(f"{where} is {data_type}, but {count} values are longer or more precise")


def _not_a_multiple(numbers: pa.Array, step: int) -> pa.Array:
    # NumPy divides by one number several times as fast as Arrow.
    values = numpy_values(numbers)
    over = arrow_mask(values // step * step != values)
    return pc.and_(over, numbers.is_valid()) if numbers.null_count else over


# Nested types ---------------------------------------------------------------------------------


def _check_inner_nulls(inner: pa.Array, data_type: DataType, where: str) -> None:
    if not data_type.nullable and inner.null_count:
        raise Invalid(f"{where} is NOT NULL, but {inner.null_count} values are null")


def _cast_list(array: pa.Array, data_type: ArrayType, where: str) -> pa.Array:
    source = array.type
    if not (
        pa.types.is_list(source)
        or pa.types.is_large_list(source)
        or pa.types.is_fixed_size_list(source)
    ):
        raise _refusal(array, data_type, where, "it is not a list")
    inner = f"{where}, element"
    values = _cast(array.flatten(), data_type.element, inner)
    _check_inner_nulls(values, data_type.element, inner)
    return list_with(array, values, to_arrow(data_type))


def _cast_vector(array: pa.Array, data_type: VectorType, where: str) -> pa.Array:
    """Lists of any kind as vectors; raises Invalid for other lengths and for null elements."""
    values = replace(data_type.element, nullable=False)
    lists = _cast_list(array, ArrayType(values), where)
    wrong = pc.not_equal(pc.list_value_length(lists), data_type.length)
    count = pc.sum(wrong).as_py() or 0
    if count:
        raise Invalid(
            f"{where} is {data_type}, but {count} of {len(array)} values have another length than "
            f"{data_type.length}"
        )
    return lists.cast(to_arrow(data_type))


def _cast_map(
    array: pa.Array, data_type: MapType | MultisetType, key: DataType, value: DataType, where: str
) -> pa.Array:
    if not pa.types.is_map(array.type):
        raise _refusal(array, data_type, where, "it is not a map")
    keys, values = map_entries(array)
    keys = _cast(keys, key, f"{where}, key")
    values = _cast(values, value, f"{where}, value")
    _check_inner_nulls(values, value, f"{where}, value")
    return map_with(array, keys, values, to_arrow(data_type))


def _cast_struct(array: pa.Array, data_type: RowType, where: str) -> pa.Array:
    source = array.type
    if not pa.types.is_struct(source):
        raise _refusal(array, data_type, where, "it is not a struct")
    present = [child.name for child in source]
    unknown = sorted(set(present) - {field.name for field in data_type.fields})
    if unknown or len(set(present)) != len(present):
        raise _refusal(array, data_type, where, f"check its fields {', '.join(present)}")
    valid = array.is_valid()
    flat = dict(zip(present, array.flatten(), strict=True))
    children: list[pa.Array] = []
    for field in data_type.fields:
        inner = f"{where}, field '{field.name}'"
        if field.name in flat:
            child = _cast(flat[field.name], field.type, inner)
        else:
            child = pa.nulls(len(array), to_arrow(field.type))
        _check_inner_nulls(child.filter(valid), field.type, inner)
        children.append(child)
    return struct_with(array, children, list(to_arrow(data_type)))
