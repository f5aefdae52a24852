"""Statements about several tables and branches, which find each by its name as one alone does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Label,
    Select,
    String,
    bindparam,
    column,
    literal_column,
    select,
    true,
    union_all,
    values,
)
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.sql.database.models import Base, BranchRow, DatabaseRow, TableRow
from headwater.catalog.sql.database.prepared import Prepared, numbered, padded

__all__ = ["about_tables", "place_values"]

_Columns: TypeAlias = Sequence[InstrumentedAttribute[Any] | Label[Any]]
_Joins: TypeAlias = Sequence[tuple[type[Base], ColumnElement[bool]]]

_PARTS = ("database", "table", "branch")


def about_tables(count: int, columns: _Columns, joins: _Joins = ()) -> Prepared:
    """A statement that tells something of several tables.

    Its rows begin with a table's place among those asked for; a table that is not there has none.
    Its values are ``warehouse`` and those of `place_values`.

    Args:
        count: The number of tables.
        columns: The columns to select, of databases, tables, branches and what is joined to them.
        joins: Other tables with one row for each branch, and the condition that finds it.
    """

    def found(database: Any, table: Any, branch: Any, *told: Any) -> Select[*tuple[Any, ...]]:
        query = (
            select(*told, *columns)
            .select_from(DatabaseRow)
            .join(TableRow, TableRow.database_id == DatabaseRow.id)
            .join(BranchRow, BranchRow.table_id == TableRow.id)
        )
        for model, condition in joins:
            query = query.join(model, condition)
        return query.where(
            DatabaseRow.warehouse == bindparam("warehouse"),
            DatabaseRow.name == database,
            TableRow.name == table,
            BranchRow.branch == branch,
        )

    each: list[Select[*tuple[Any, ...]]] = []
    asked: list[tuple[ColumnElement[int] | BindParameter[str], ...]] = []
    for at in range(count):
        place: ColumnElement[int] = literal_column(str(at))
        names: list[BindParameter[str]] = [bindparam(f"{part}_{at}") for part in _PARTS]
        each.append(found(*names, place.label("place")))
        asked.append((place, *names))
    if count == 1:
        return Prepared(each[0])
    # PostgreSQL begins one plan for all instead of one for each, which takes it longer than to
    # look. The limit keeps it from reading anything before a name says what.
    parts = [column(part, String) for part in _PARTS]
    listed = values(column("place", Integer), *parts, name="asked").data(asked)
    alone = found(listed.c.database, listed.c.table, listed.c.branch)
    lateral = alone.limit(literal_column("1")).lateral("found")
    at_once = select(listed.c.place, *lateral.c).select_from(listed).join(lateral, true())
    return Prepared(union_all(*each), postgresql=at_once)


def place_values(names: Sequence[tuple[str, str, str]]) -> tuple[int, dict[str, str]]:
    """For how many tables the statement has to be, and the values that say which they are.

    Args:
        names: Of each table its database, its own name and the branch.
    """
    asked = [dict(zip(_PARTS, name, strict=True)) for name in padded(names)]
    return len(asked), numbered(asked)
