"""A table after statements that the log does not have: two definitions, compared by number."""

from __future__ import annotations

from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.postgres.storage import unlogged_change
from headwater.cdc.source.table_changes import TableChanges

__all__ = ["changed_table"]


def changed_table(before: SourceTable, after: SourceTable) -> TableChanges:
    """A table whose definition is another one.

    A column keeps its number when it is renamed, and no other column gets it. Rows that were there
    get the default of a column that is added, and new values where a type is changed, without being
    in the log.

    Args:
        before: The table as it was known, with the numbers of its columns.
        after: The table as it is.
    """
    known = {column.id: column for column in before.columns}
    now = {column.id: column for column in after.columns}
    renames = [
        (known[number].name, column.name)
        for number, column in now.items()
        if number in known and known[number].name != column.name
    ]
    reasons = [
        f"column {column.name} was added with a default"
        for number, column in now.items()
        if number not in known and _fills(column)
    ]
    reasons += [
        f"column {column.name} has another type"
        for number, column in now.items()
        if number in known and known[number].source_type != column.source_type
    ]
    unlogged = unlogged_change(before.storage, after.storage)
    reasons += [] if unlogged is None else [unlogged]
    key = [_number(before, name) for name in before.primary_key]
    return TableChanges(
        after,
        renames,
        reasons[0] if reasons else None,
        key_changed=key != [_number(after, name) for name in after.primary_key],
    )


def _fills(column: SourceColumn) -> bool:
    """Whether rows that were there have values of a column that is added."""
    return column.default is not None or not column.type.nullable


def _number(table: SourceTable, name: str) -> int | None:
    return next(column.id for column in table.columns if column.name == name)
