"""The kinds of rows: added, before an update, after an update, deleted (``RowKind.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["KIND_NAMES", "RowKind", "take_row_kinds"]


class RowKind(IntEnum):
    """The kind of a row, as ``_VALUE_KIND`` has it. Odd ones take a row back."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


KIND_NAMES: Mapping[RowKind, str] = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}


def take_row_kinds(
    table: pa.Table,
    row_kinds: pa.Array | pa.ChunkedArray | None,
    schema: TableSchema,
    name: str,
) -> tuple[pa.Table, npt.NDArray[np.int8] | None]:
    """Separate rows from their kinds.

    The kinds are `row_kinds`, else the column ``_ROW_KIND`` (taken off), else the column that the
    option ``rowkind.field`` names (which stays).

    Args:
        table: The rows.
        row_kinds: Their kinds, as names or numbers.
        schema: The table's schema.
        name: The table's name in error messages.

    Returns:
        The rows, and their kinds as numbers; None when every row is added.

    Raises:
        Invalid: A kind is null or none of the four, or there are not as many kinds as rows.
    """
    own = ROW_KIND_COLUMN in table.column_names and ROW_KIND_COLUMN not in schema.field_by_name
    if own:
        if row_kinds is None:
            row_kinds = table.column(ROW_KIND_COLUMN)
        table = table.drop_columns([ROW_KIND_COLUMN])
    if row_kinds is None:
        column = schema.table_options.row_kind_field
        if column is None:
            return table, None
        if column not in table.column_names:
            raise Invalid(
                f"table {name}: the data lacks column '{column}', which the option "
                "'rowkind.field' takes the rows' kinds from"
            )
        row_kinds = table.column(column)
    if not isinstance(row_kinds, pa.Array | pa.ChunkedArray):
        raise Invalid(
            f"table {name}: row kinds are an Arrow array, such as pa.array(['+I', '-D']), not a "
            f"{type(row_kinds).__name__}"
        )
    if len(row_kinds) != table.num_rows:
        raise Invalid(f"table {name}: {table.num_rows} rows have {len(row_kinds)} row kinds")
    kinds = _numbers(row_kinds, name)
    return table, kinds if kinds.any() else None


def _numbers(row_kinds: pa.Array | pa.ChunkedArray, name: str) -> npt.NDArray[np.int8]:
    if pa.types.is_dictionary(row_kinds.type):
        row_kinds = row_kinds.cast(row_kinds.type.value_type)
    if pa.types.is_integer(row_kinds.type):
        if not row_kinds.null_count and _are_kinds(pc.min_max(row_kinds)):
            return np.asarray(row_kinds.cast(pa.int8()))
        valid = pc.and_(pc.greater_equal(row_kinds, 0), pc.less_equal(row_kinds, 3))
        numbers = row_kinds
    elif (
        pa.types.is_string(row_kinds.type)
        or pa.types.is_large_string(row_kinds.type)
        or pa.types.is_string_view(row_kinds.type)
    ):
        names = pa.array(list(KIND_NAMES.values()))
        numbers = pc.index_in(pc.utf8_upper(row_kinds.cast(pa.string())), names)
        valid = pc.is_valid(numbers)
    else:
        raise Invalid(f"table {name}: row kinds are names or numbers, not {row_kinds.type}")
    wrong = row_kinds.filter(pc.invert(pc.fill_null(valid, False)))
    if len(wrong):
        raise Invalid(
            f"table {name}: {len(wrong)} row kinds such as {wrong[0].as_py()!r} are unknown; use "
            f"{', '.join(KIND_NAMES.values())}"
        )
    result: npt.NDArray[np.int8] = numbers.cast(pa.int8()).to_numpy()
    return result


def _are_kinds(bounds: pa.StructScalar) -> bool:
    """Whether numbers are kinds, of which these are the least and the greatest."""
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least is None or (least >= 0 and most <= 3)
