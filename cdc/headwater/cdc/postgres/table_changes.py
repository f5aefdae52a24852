"""A table after statements that the log does not have: two definitions, compared by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.cdc.model.tables import SourceColumn, SourceTable
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
    reasons += _moved_rows(before.partitions, after.partitions)
    key = [_number(before, name) for name in before.primary_key]
    return TableChanges(
        after,
        renames,
        reasons[0] if reasons else None,
        key_changed=key != [_number(after, name) for name in after.primary_key],
    )


def _moved_rows(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Why rows have come or gone with partitions, which the log does not have."""
    known, now = (dict(mark.split("/") for mark in marks) for marks in (before, after))
    if known.keys() - now.keys():
        yield "a partition was dropped or detached"
    for number, file in now.items():
        # Rows of one that was made as a partition are in the log.
        if file != known.get(number, number):
            yield "a partition was attached, truncated or rewritten"


def _fills(column: SourceColumn) -> bool:
    """Whether rows that were there have values of a column that is added."""
    return column.default is not None or not column.type.nullable


def _number(table: SourceTable, name: str) -> int | None:
    return next(column.id for column in table.columns if column.name == name)
