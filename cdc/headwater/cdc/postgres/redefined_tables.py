"""What became of a table between two of its definitions, as the log has no statements.

Columns keep their numbers when they are renamed, and a column that is dropped and added again has
another one. Several statements may have led from one definition to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.cdc.model.tables import SourceColumn, SourceTable

__all__ = ["Redefinition", "redefinition"]


@dataclass(frozen=True)
class Redefinition:
    """A table after some statements.

    Attributes:
        table: The table.
        renames: The old and the new name of each renamed column; all happen at once.
        rereads: Why rows may have changed without events, so that the table must be read again;
            None if they cannot have.
        key_changed: Whether the primary key has other columns, or has them in another order.
    """

    table: SourceTable
    renames: Sequence[tuple[str, str]] = ()
    rereads: str | None = None
    key_changed: bool = False


def redefinition(
    before: SourceTable, after: SourceTable, has_values: Callable[[Collection[str]], bool]
) -> Redefinition:
    """Compare two definitions of a table.

    Args:
        before: The table as it was known. Where it or its columns have no numbers, names decide.
        after: The table as it is.
        has_values: Whether any row has a value in some columns, see `PostgresRead.has_values`. It
            is asked only for columns that were added: their rows have the default of that time,
            which may be another one by now.
    """
    is_same = None in (before.id, after.id) or before.id == after.id
    origins = _origins(before, after, by_number=is_same)
    renames = [
        (origin.name, name) for name, origin in origins.items() if origin and origin.name != name
    ]
    names = dict(renames)
    key = [names.get(name, name) for name in before.primary_key]
    key_changed = key != [*after.primary_key] or not all(map(origins.get, key))
    rereads = f"{after.name} is another table of the source than before"
    return Redefinition(
        after,
        renames,
        _reread_reason(before, after, origins, has_values) if is_same else rereads,
        key_changed,
    )


def _origins(
    before: SourceTable, after: SourceTable, *, by_number: bool
) -> Mapping[str, SourceColumn | None]:
    """The columns that those of a table were before, by their names; None for one that is new."""
    names = {column.name: column for column in before.columns}
    if not by_number:
        return {column.name: names.get(column.name) for column in after.columns}
    unnumbered = {name: column for name, column in names.items() if column.id is None}
    numbers: dict[int | None, SourceColumn] = {
        column.id: column for column in before.columns if column.id is not None
    }
    return {
        column.name: numbers.get(column.id) or unnumbered.get(column.name)
        for column in after.columns
    }


def _reread_reason(
    before: SourceTable,
    after: SourceTable,
    origins: Mapping[str, SourceColumn | None],
    has_values: Callable[[Collection[str]], bool],
) -> str | None:
    for column in after.columns:
        origin = origins[column.name]
        if origin is not None and origin.source_type != column.source_type:
            return (
                f"column '{column.name}' was {origin.source_type}, and is {column.source_type} now"
            )
    added = [name for name, origin in origins.items() if origin is None]
    renamed = {origin.name for name, origin in origins.items() if origin and origin.name != name}
    again = {column.name for column in before.columns}.difference(renamed).intersection(added)
    if again:
        # The lake has the values of the other column under this name.
        return f"column '{min(again)}' was dropped and added again"
    if added and has_values(added):
        return f"columns {', '.join(added)} were added, and have values that are not in the log"
    return None
