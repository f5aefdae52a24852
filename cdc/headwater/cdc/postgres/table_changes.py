"""A table after statements that the log does not have: two definitions, compared by number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.postgres.table_storage import TableStorage
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.types.data_type import DataType

__all__ = ["changed_table", "may_have_had_others"]


def changed_table(
    before: SourceTable, after: SourceTable, filled: Collection[str] = ()
) -> TableChanges:
    """A table whose definition is another one.

    A column keeps its number when it is renamed, and no other column gets it. Rows that were there
    get the default of a column that is added, and new values where a type is changed, without being
    in the log; nor is what `TableStorage.silent_change` tells of.

    Args:
        before: The table as it was known, with the numbers of its columns.
        after: The table as it is.
        filled: Columns that have a value in rows which were there before, see `filled_columns`.
    """
    known = {column.id: column for column in before.columns}
    now = {column.id: column for column in after.columns}
    renames = [
        (known[number].name, column.name)
        for number, column in now.items()
        if number in known and known[number].name != column.name
    ]
    added = [column for number, column in now.items() if number not in known]
    reasons = [
        f"column {column.name} was added with a default"
        for column in added
        if column.name in filled or _fills(column)
    ]
    # The lake has no generated columns, which the log lacks.
    earlier = _numbers(before)
    reasons += [
        f"column {column.name} is not generated any more"
        for column in added
        if column.id in earlier
    ]
    # The lake has the values of the other column under this name.
    names = {column.name for column in before.columns}.difference(old for old, _ in renames)
    reasons += [
        f"column {column.name} was dropped and added again"
        for column in added
        if column.name in names
    ]
    reasons += [
        f"column {column.name} has another type"
        for number, column in now.items()
        if number in known and known[number].source_type != column.source_type
    ]
    # The bounds of ranges are by the order of the key.
    reasons += [
        f"column {column.name} of the key has another collation"
        for number, column in now.items()
        if column.name in after.primary_key
        and number in known
        and known[number].collation != column.collation
    ]
    # Another choice of types.
    reasons += [
        f"column {column.name} is {known[number].type} in the lake and becomes {column.type}"
        for number, column in now.items()
        if number in known and _without_nulls(known[number]) != _without_nulls(column)
    ]
    if before.storage is not None and after.storage is not None:
        stored = TableStorage.from_json(before.storage)
        silent = stored.silent_change(TableStorage.from_json(after.storage))
        reasons += [silent] if silent is not None else []
    key = [_number(before, name) for name in before.primary_key]
    return TableChanges(
        after,
        renames,
        reasons[0] if reasons else None,
        key_changed=key != [_number(after, name) for name in after.primary_key],
    )


def may_have_had_others(before: SourceTable, after: SourceTable, dropped: Collection[int]) -> bool:
    """Whether a table may have had other columns in between, of the names and types of the present.

    Numbers are given in their order, and never again. So columns that were as many as now, and not
    the present ones, had one that was dropped where a new one is, known or not.

    Args:
        before: The table as it was known, with the numbers of its columns.
        after: The table as it is.
        dropped: The numbers of all columns that it does not have any more.
    """
    known = {column.id for column in before.columns}
    now = {column.id for column in after.columns}
    if now <= known:
        return False
    return not known <= now or max(dropped, default=0) > max(_numbers(before), default=0)


def _numbers(table: SourceTable) -> frozenset[int]:
    """The numbers of columns that a table was known to have, also generated and dropped ones."""
    numbers = [column.id for column in table.columns if column.id is not None]
    if table.storage is not None:
        storage = TableStorage.from_json(table.storage)
        part = storage.parts.get(storage.oid)
        numbers += part.numbers if part is not None else []
    return frozenset(numbers)


def _fills(column: SourceColumn) -> bool:
    """Whether rows that were there have values of a column that is added."""
    return column.default is not None or not column.type.nullable


def _without_nulls(column: SourceColumn) -> DataType:
    return replace(column.type, nullable=False)


def _number(table: SourceTable, name: str) -> int | None:
    return next(column.id for column in table.columns if column.name == name)
