"""The least and greatest values that statistics tell of a table's present columns.

Statistics are of the columns of the schema that a file was written with. They are found by field
id, and left out where a column has changed its type so that they say nothing of its present values.

Source: ``SimpleStatsEvolution.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from headwater.storage.casts.type_changes import is_widening, keeps_form
from headwater.storage.manifest.data_file import DataFile, SimpleStats
from headwater.storage.predicate.filter import ColumnRange
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.schema.system_fields import ROW_ID_FIELD, TRACKING_FIELDS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType
from headwater.storage.types.padded_text import greatest_padded
from headwater.storage.types.type_parts import root_of

__all__ = ["are_comparable", "evolved_ranges", "stored_ranges", "value_ranges"]

_TRACKING_IDS = frozenset(field.id for field in TRACKING_FIELDS.values())
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)


def value_ranges(
    storage: TableStorage, file: DataFile, columns: Sequence[DataField]
) -> dict[str, ColumnRange]:
    """A file's statistics of some of the table's present columns, by name, where they are known."""
    schema = storage.schema_by_id(file.schema_id)
    fields: Sequence[DataField] = schema.fields
    stored = file.write_cols if file.value_stats_cols is None else file.value_stats_cols
    if stored is not None:
        if any(name not in schema.field_by_name for name in stored):
            return {}
        fields = schema.columns(stored)
    own = [item for item in columns if item.id not in _TRACKING_IDS]
    ranges = evolved_ranges(file, file.value_stats, fields, schema, own)
    if file.first_row_id is not None and not file.stores_row_ids:
        first, rows = file.first_row_id, file.row_count
        ranges |= {
            item.name: ColumnRange(first, first + rows - 1, 0, rows)
            for item in columns
            if item.id == ROW_ID_FIELD.id
        }
    return ranges


def evolved_ranges(
    file: DataFile,
    stats: SimpleStats,
    fields: Sequence[DataField],
    schema: TableSchema,
    columns: Sequence[DataField],
) -> dict[str, ColumnRange]:
    """Statistics of present columns, by present name, where they are known.

    Args:
        file: The file.
        stats: Statistics of its rows.
        fields: The columns that they are of, as they were then.
        schema: The schema that the file was written with.
        columns: The present columns.
    """
    ranges: dict[str, ColumnRange] = {}
    stored: dict[str, ColumnRange] | None = None
    for item in columns:
        old = schema.field_by_id.get(item.id)
        if old is None:
            # The file is older than the column: all null.
            ranges[item.name] = ColumnRange(None, None, file.row_count, file.row_count)
        elif are_comparable(old.type, item.type):
            stored = stored_ranges(stats, fields, file.row_count) if stored is None else stored
            if old.name in stored:
                ranges[item.name] = stored[old.name]
    return ranges


def are_comparable(old: DataType, new: DataType) -> bool:
    """Whether a storage value of the old type is the storage value of the new one too.

    Of what a cast changes, the old values' bounds say nothing: 383 becomes 127, '10' comes before
    '9'. A whole number that gets wider is the same number.
    """
    if root_of(old) in _INTEGERS and root_of(new) in _INTEGERS:
        return is_widening(old, new)
    return isinstance(new, AtomicType) and keeps_form(old, new)


def stored_ranges(
    stats: SimpleStats, fields: Sequence[DataField], row_count: int | None
) -> dict[str, ColumnRange]:
    """Statistics by the names that columns had; empty when they are not of these columns.

    Args:
        stats: The statistics.
        fields: The columns.
        row_count: Rows that they are of; None when unknown.
    """
    arity = len(fields)
    for row in (stats.min_values, stats.max_values):
        # Some writers leave statistics out as rows without fields.
        if len(row) < 4 or struct.unpack_from(">i", row)[0] != arity:
            return {}
    types = [item.type for item in fields]
    low = deserialize_row(stats.min_values, types)
    high = deserialize_row(stats.max_values, types)
    nulls: Iterable[int | None] = stats.null_counts
    if len(stats.null_counts) != arity:
        nulls = [None] * arity
    return {
        item.name: ColumnRange(a, greatest_padded(b, item.type), count, row_count)
        for item, a, b, count in zip(fields, low, high, nulls, strict=True)
    }
