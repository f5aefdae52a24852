"""The schema of a lake's table that has the rows of several of the source's.

Columns are united by their names. A column that one of the tables lacks is null in its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headwater.cdc.model.tables import SourceTable
from headwater.cdc.model.type_changes import wider_type
from headwater.storage.errors import HeadwaterError, Unsupported
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema_change import (
    AddColumn,
    DropColumn,
    SchemaChange,
    UpdateColumnNullability,
    UpdateColumnType,
)

__all__ = ["united", "uniting_changes"]


def uniting_changes(
    existing: TableSchema, table: SourceTable, gone: Collection[str] = ()
) -> Sequence[SchemaChange]:
    """The changes with which a lake's table also has the rows of a source's; none if it has.

    Args:
        existing: The schema of the lake's table.
        table: The source's table, with columns that are the lake's alone.
        gone: Columns that no table of the source has any more.

    Raises:
        Unsupported: The keys differ, or the types of a column do not go together.
    """
    if tuple(existing.primary_keys) != tuple(table.primary_key):
        raise _unsupported(
            table,
            f"its key is to be ({', '.join(table.primary_key)}), and the lake's table has "
            f"({', '.join(existing.primary_keys)})",
        )
    fields = {field.name: field for field in existing.fields}
    own = {column.name for column in table.columns}
    changes: list[SchemaChange] = []
    for column in table.columns:
        field = fields.get(column.name)
        if field is None:
            nullable = replace(column.type, nullable=True)
            changes.append(AddColumn((column.name,), nullable, column.comment or None))
            continue
        wider = wider_type(field.type, column.type)
        if wider is None:
            raise _unsupported(
                table,
                f"column '{column.name}' is {column.type}, and {field.type} in the lake, which "
                "do not go together",
            )
        if wider != field.type:
            changes.append(UpdateColumnType((column.name,), wider, keep_nullability=True))
        if column.type.nullable and not field.type.nullable:
            changes.append(UpdateColumnNullability((column.name,), nullable=True))
    for name, field in fields.items():
        if name in own:
            continue
        if name in gone:
            changes.append(DropColumn((name,)))
        elif not field.type.nullable:
            changes.append(UpdateColumnNullability((name,), nullable=True))
    if changes:
        united(existing, table, changes)
    return changes


def united(
    existing: TableSchema, table: SourceTable, changes: Sequence[SchemaChange]
) -> TableSchema:
    """A schema after changes; Unsupported if the lake's table does not allow them."""
    try:
        return apply_changes(existing, changes, now_millis=0, has_snapshots=True)
    except HeadwaterError as error:
        raise _unsupported(table, f"the lake's table rejects it: {error.message}") from error


def _unsupported(table: SourceTable, problem: str) -> Unsupported:
    return Unsupported(
        f"table {table.name} cannot be merged into the lake's table: {problem}; change it at the "
        "source, exclude it, or give it a table of its own with table-mapping"
    )
