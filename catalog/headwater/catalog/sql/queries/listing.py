"""Listings in pages, of one database and of all: tables, and each kind of named object.

A page costs what it holds, however large the catalog is: names are read in the order of the index
over (database, name), from where the page before ended. No statement joins databases with what is
in them, so the plan does not depend on what a database's planner guesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVarTuple

from sqlalchemy import ColumnElement, Select, literal, select, union_all
from sqlalchemy.engine import Connection
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, NamedRow, TableRow
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.names import check_page, pattern_clause
from headwater.catalog.sql.queries.possessions import Sight, sight, visible_databases
from headwater.storage.errors import Invalid

__all__ = ["OfDatabase", "list_globally", "name_page", "of_database", "one_page"]

OfDatabase: TypeAlias = type[TableRow] | type[NamedRow]
"""The rows that have a name in a database."""

# How many databases one statement looks into; it starts with one, which is often enough.
_MOST_DATABASES = 64

Ts = TypeVarTuple("Ts")


def one_page(
    query: Select[*Ts],
    name: InstrumentedAttribute[str],
    *,
    pattern: str | None,
    max_results: int | None,
    token: str | None,
    is_sqlite: bool,
) -> Select[*Ts]:
    """The part of a query that is a page in the order of a name, and one row more.

    Args:
        query: Of everything there is.
        name: The column of the name.
        pattern: A LIKE pattern of names.
        max_results: The size of a page; None means everything.
        token: The last name of the page before.
        is_sqlite: True if the database is SQLite.

    Raises:
        Invalid: The page could hold nothing.
    """
    check_page(max_results)
    if pattern:
        query = query.where(pattern_clause(name, pattern, is_sqlite=is_sqlite))
    if token:
        query = query.where(name > token)
    return query.order_by(name).limit(None if max_results is None else max_results + 1)


def name_page(names: Sequence[str], max_results: int | None) -> Page[str]:
    """A page of names, from a query for one more than it may hold."""
    if max_results is None or len(names) <= max_results:
        return Page(tuple(names))
    return Page(tuple(names[:max_results]), names[max_results - 1])


def of_database(
    query: Select[*Ts],
    model: OfDatabase,
    database_id: str,
    seen: Sight | None,
    *,
    names_only: bool,
    index: Sequence[InstrumentedAttribute[str]] | None = None,
) -> Select[*Ts]:
    """The part of a query that is of one database, and visible.

    Args:
        query: Of all rows of a model.
        model: The rows.
        database_id: The database.
        seen: The caller's view; None shows everything.
        names_only: True if only names are asked for; see `Sight.shows_all`.
        index: The index to follow where everything is seen; by default that over names.
    """
    if seen is not None and not seen.shows_all(model, database_id, names_only=names_only):
        return seen.narrowed(query, model, database_id)
    query = along(query, *(index or (model.database_id, model.name)))
    return query.where(model.database_id == database_id)


def list_globally(
    context: CatalogContext,
    model: OfDatabase,
    *,
    database_pattern: str | None,
    pattern: str | None,
    max_results: int | None,
    token: str | None,
) -> Page[Identifier]:
    """Names in the order of database and name; the token is the last one's.

    Args:
        context: The warehouse.
        model: Of what.
        database_pattern: A LIKE pattern of database names.
        pattern: A LIKE pattern of names.
        max_results: The size of a page; None means everything.
        token: The end of the previous page.

    Raises:
        Invalid: The token is not one of such a page, or the page could hold nothing.
    """
    check_page(max_results)
    clauses: list[ColumnElement[bool]] = []
    if pattern:
        clauses.append(pattern_clause(model.name, pattern, is_sqlite=context.database.is_sqlite))
    found: list[Identifier] = []
    at: str | None = None
    with context.database.read() as connection:
        seen = sight(connection, context)
        if token is not None:
            after = _parse_place(token)
            at = after.database
            databases = _databases(
                connection, context, seen, database_pattern, [DatabaseRow.name == at]
            )
            rest = [*clauses, model.name > after.name]
            missing = _missing(found, max_results)
            found += _names(connection, model, seen, databases, rest, missing)
        size = 1
        while max_results is None or len(found) <= max_results:
            following = [] if at is None else [DatabaseRow.name > at]
            databases = _databases(connection, context, seen, database_pattern, following, size)
            if not databases:
                break
            missing = _missing(found, max_results)
            found += _names(connection, model, seen, databases, clauses, missing)
            at = databases[-1][1]
            size = min(2 * size, _MOST_DATABASES)
    if max_results is None or len(found) <= max_results:
        return Page(tuple(found))
    return Page(tuple(found[:max_results]), _place(found[max_results - 1]))


def _missing(found: Sequence[Identifier], max_results: int | None) -> int | None:
    """The number of rows still wanted: one more than a page shows that there is another page."""
    return None if max_results is None else max_results + 1 - len(found)


def _databases(
    connection: Connection,
    context: CatalogContext,
    seen: Sight | None,
    pattern: str | None,
    clauses: Sequence[ColumnElement[bool]],
    limit: int = 1,
) -> list[tuple[str, str]]:
    """Ids and names of the next databases."""
    query = select(DatabaseRow.id, DatabaseRow.name).where(
        # What was dropped and can be restored is in a database that no request can name.
        DatabaseRow.name.not_like("%$%"),
        *clauses,
    )
    if pattern:
        is_sqlite = context.database.is_sqlite
        query = query.where(pattern_clause(DatabaseRow.name, pattern, is_sqlite=is_sqlite))
    query = visible_databases(query, context, seen)
    rows = connection.execute(query.order_by(DatabaseRow.name).limit(limit))
    return [(row.id, row.name) for row in rows]


def _names(
    connection: Connection,
    model: OfDatabase,
    seen: Sight | None,
    databases: Sequence[tuple[str, str]],
    clauses: Sequence[ColumnElement[bool]],
    limit: int | None,
) -> list[Identifier]:
    """The first names in those databases, each database a look-up in the index of its own."""
    if not databases:
        return []
    parts = [
        select(
            of_database(
                select(literal(place).label("place"), model.name.label("name")),
                model,
                database_id,
                seen,
                names_only=True,
            )
            .where(*clauses)
            .order_by(model.name)
            .limit(limit)
            .subquery()
        )
        for place, (database_id, _) in enumerate(databases)
    ]
    # Text compares by code point here as it does in the database.
    rows = sorted((row.place, row.name) for row in connection.execute(union_all(*parts)))
    return [Identifier(databases[place][1], name) for place, name in rows[:limit]]


def _place(identifier: Identifier) -> str:
    # A full name, as in Paimon's own servers: no database's name has a dot.
    return str(identifier)


def _parse_place(token: str) -> Identifier:
    database, dot, name = token.partition(".")
    if not dot:
        raise Invalid(f"page token '{token}' is not one that this listing gave out")
    return Identifier(database, name)
