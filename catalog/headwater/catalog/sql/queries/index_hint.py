"""Pages of a long list: what a page holds is read, not what comes before it."""

from __future__ import annotations

from typing import Any, TypeVarTuple

from sqlalchemy import Index, Select, Table, UniqueConstraint
from sqlalchemy.orm import InstrumentedAttribute

__all__ = ["along"]

Ts = TypeVarTuple("Ts")


def along(query: Select[*Ts], *columns: InstrumentedAttribute[Any]) -> Select[*Ts]:
    """Have a query follow one index from where its conditions let it begin.

    Of an index over (database, name), MariaDB uses the first column alone to look for what comes
    after a name of that database, as long as that is more than about half of the whole table: it
    reads everything before that name, too. It does not when it is told which index to use; the
    others need not be told.

    Args:
        query: Of one table.
        columns: All the columns of the index, in its order.
    """
    table = columns[0].class_.__table__
    return query.with_hint(table, f"FORCE INDEX ({_index_over(table, columns)})", "mariadb")


def _index_over(table: Table, columns: tuple[InstrumentedAttribute[Any], ...]) -> str:
    names = [column.key for column in columns]
    if list(table.primary_key.columns.keys()) == names:
        return "PRIMARY"
    unique = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    indexes: list[Index | UniqueConstraint] = [*table.indexes, *unique]
    for index in indexes:
        if list(index.columns.keys()) == names:
            return str(index.name)
    raise LookupError(f"table {table.name} has no index over {', '.join(names)}")
