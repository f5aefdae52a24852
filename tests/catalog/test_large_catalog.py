"""A large catalog is listed, paged, searched and read through its indexes, on every database.

The plans are the databases' own. What an index does not bound would grow with the catalog: a step
that reads a whole table, and a sort of more than a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from psycopg import RawCursor
from sqlalchemy import Connection, Engine, event, insert, text
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.labels import Entity, EntityType
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, PermissionTarget, TargetType
from headwater.catalog.model.principal import Principal, acting_as
from headwater.catalog.model.rights import Rights, Thing
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.catalog.sql.database.models import (
    BranchRow,
    DatabaseRow,
    DroppedTableRow,
    FunctionRow,
    GrantRow,
    LabelRow,
    OutboxRow,
    SchemaRow,
    TableRow,
    ViewRow,
)
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema

DATABASES, TABLES = 1000, 30
# Milliseconds: the year 2286.
FAR_OFF = 9_999_999_999_999

Statement: TypeAlias = tuple[str, Any]

_SORT = re.compile(r"Sort .*rows=(\d+)")


@contextmanager
def _recorded() -> Iterator[list[Statement]]:
    """Every query that is executed, with its parameters."""
    seen: list[Statement] = []

    def record(_: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if statement.startswith("SELECT"):
            seen.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", record)


def _fill(connection: Connection, schema: Schema) -> None:
    document = new_table_schema(schema, 0).to_json()
    audit = {"created_at": 0, "updated_at": 0}
    databases = [
        {"id": f"d{d:03}", "warehouse": "main", "name": f"db{d:03}", "location": f"file:///x/{d}",
         "options": "{}", **audit}
        for d in range(DATABASES)
    ]  # fmt: skip
    # One database holds most of them: a plan that is good for the average only would show.
    places = [(d, t) for d in range(DATABASES) for t in range(TABLES)]
    places += [(500, t) for t in range(TABLES, 5000)]
    tables = [
        {"id": f"d{d:03}t{t:04}", "database_id": f"d{d:03}", "name": f"table{t:04}",
         "path": f"file:///x/{d}/{t}", "is_external": False, "is_protected": False,
         "kind": "format-table" if t == 4000 else "table", **audit}
        for d, t in places
    ]  # fmt: skip
    branches = [
        {"table_id": table["id"], "branch": "main", "schema_id": 0, "snapshot_id": 0}
        for table in tables
    ]
    schemas = [
        {"table_id": table["id"], "branch": "main", "schema_id": 0, "document": document}
        for table in tables
    ]
    # Another warehouse's storage is away for a while.
    backlog = [
        {"warehouse": "other", "table_id": f"x{t:05}", "branch": "main", "action": "schema",
         "number": 0, "path": "", "created_at": 0}
        for t in range(20_000)
    ]  # fmt: skip
    connection.execute(insert(OutboxRow), backlog)
    connection.execute(insert(DatabaseRow), databases)
    connection.execute(insert(TableRow), tables)
    connection.execute(insert(BranchRow), branches)
    connection.execute(insert(SchemaRow), schemas)
    _fill_objects(connection)


def _fill_objects(connection: Connection) -> None:
    places = [(d, v) for d in range(DATABASES) for v in range(3)]
    places += [(500, v) for v in range(3, 3000)]
    documents: tuple[tuple[type[ViewRow] | type[FunctionRow], str], ...] = (
        (ViewRow, '{"fields": [], "query": "SELECT 1"}'),
        (FunctionRow, "{}"),
    )
    for model, document in documents:
        rows = [
            {"id": f"{model.__tablename__[3]}{d}-{o}", "database_id": f"d{d:03}",
             "name": f"object{o:04}", "document": document, "created_at": 0, "updated_at": 0}
            for d, o in places
        ]  # fmt: skip
        connection.execute(insert(model), rows)
    grants = [
        {"object_id": f"d{d:03}t{t:04}", "resource_type": "TABLE", "warehouse": "main",
         "principal": f"user{u:04}", "access": access, "created_at": 0}
        for d, t, users in ((500, 3333, 3000), *((d, 0, 10) for d in range(DATABASES)))
        for u in range(users)
        for access in ("SELECT", "UPDATE")
    ]  # fmt: skip
    connection.execute(insert(GrantRow), grants)
    labels = [
        {"object_id": f"d{d:03}t{t:04}", "key": f"key{k:02}", "value": "v", "updated_at": 0}
        for d in range(DATABASES)
        for t in range(3)
        for k in range(9)
    ]
    labels += [{**labels[0], "object_id": "d500t3333", "key": f"key{k:02}"} for k in range(100)]
    connection.execute(insert(LabelRow), labels)
    # Nearly all of them are to be kept for long yet.
    dropped = [
        {"table_id": f"d500t{t:04}", "warehouse": "main", "database": f"db{t % 3}",
         "name": f"table{t:04}", "dropped_at": FAR_OFF + t}
        for t in range(3000)
    ]  # fmt: skip
    connection.execute(insert(DroppedTableRow), dropped)


def _analyze(connection: Connection) -> None:
    names = (
        "hw_databases",
        "hw_tables",
        "hw_branches",
        "hw_schemas",
        "hw_outbox",
        "hw_views",
        "hw_functions",
        "hw_grants",
        "hw_labels",
        "hw_dropped_tables",
    )
    for name in names:
        is_mysql = connection.dialect.name in ("mysql", "mariadb")
        connection.execute(text(f"ANALYZE TABLE {name}" if is_mysql else f"ANALYZE {name}"))


def _sqlite_faults(connection: Connection, statement: Statement) -> list[str]:
    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1])
    steps = [str(row[-1]) for row in plan]
    # What a subquery has found, a page, is scanned again to join it to the others.
    return [s for s in steps if s.startswith("SCAN hw_") or "TEMP B-TREE" in s]


def _postgresql_faults(connection: Connection, statement: Statement) -> list[str]:
    # As a server is set up by itself: the catalog's own connections avoid scans by a setting.
    connection.exec_driver_sql("SET enable_seqscan = on")
    explain, parameters = f"EXPLAIN {statement[0]}", statement[1]
    driver: Any = connection.connection.dbapi_connection
    # Statements that are made once have their parameters in the server's own form.
    cursor = RawCursor(driver) if isinstance(parameters, tuple) else driver.cursor()
    plan = cursor.execute(explain, parameters).fetchall()
    steps = [str(row[0]).strip(" ->") for row in plan]
    # To sort a page is cheaper, sometimes, than to follow an index in its order.
    sorts = [s for s in steps if (found := _SORT.match(s)) and int(found[1]) > 1000]
    return [*sorts, *(s for s in steps if s.startswith(("Seq Scan on hw_", "Parallel")))]


def _mysql_faults(connection: Connection, statement: Statement) -> list[str]:
    # MySQL draws a tree unless it is asked for a table; MariaDB knows nothing else.
    form = "FORMAT=TRADITIONAL " if connection.dialect.name == "mysql" else ""
    plan = connection.exec_driver_sql(f"EXPLAIN {form}{statement[0]}", statement[1])
    return [
        str(dict(row._mapping))
        for row in plan
        if str(row.table).startswith("hw_")
        and (row.type in ("ALL", "index") or "filesort" in str(row.Extra))
    ]


_FAULTS: dict[str, Callable[[Connection, Statement], list[str]]] = {
    "sqlite": _sqlite_faults,
    "postgresql": _postgresql_faults,
    "mysql": _mysql_faults,
    "mariadb": _mysql_faults,
}


@pytest.fixture
def large(migrated_url: str, tmp_path: Path, orders_schema: Schema) -> Iterator[SqlCatalog]:
    engine = open_engine(migrated_url)
    with engine.begin() as connection:
        _fill(connection, orders_schema)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        _analyze(connection)
    engine.dispose()
    opened = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    with closing(opened) as catalog:
        yield catalog


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_every_query_of_a_large_catalog_follows_an_index_and_every_page_is_reached(
    large: SqlCatalog, migrated_url: str
) -> None:
    table = PermissionTarget(TargetType.TABLE, "db500", "table3333")
    labelled = Entity(EntityType.TABLE, "db500.table3333")
    questions: dict[str, Callable[[], int]] = {
        "databases": lambda: len(large.databases.list(max_results=100).items),
        "later databases": lambda: len(
            large.databases.list(max_results=100, page_token="db500").items
        ),
        "some databases": lambda: len(large.databases.list(pattern="db9%", max_results=100).items),
        "a database": lambda: len([large.databases.get("db777")]),
        "tables": lambda: len(large.tables.list("db500", max_results=100).items),
        "later tables": lambda: len(
            large.tables.list("db500", max_results=100, page_token="table4950").items
        ),
        "some tables": lambda: len(
            large.tables.list("db500", pattern="table12%", max_results=100).items
        ),
        "tables of a type": lambda: len(
            large.tables.list("db500", table_type="format-table", max_results=100).items
        ),
        "details": lambda: len(large.tables.list_details("db500", max_results=100).items),
        "later details": lambda: len(
            large.tables.list_details("db500", max_results=100, page_token="table4999").items
        ),
        "all tables": lambda: len(large.tables.list_globally(max_results=100).items),
        "all later tables": lambda: len(
            large.tables.list_globally(max_results=100, page_token="db500.table4000").items
        ),
        "some of all tables": lambda: len(
            large.tables.list_globally(pattern="table4%", max_results=100).items
        ),
        "some of some databases": lambda: len(
            large.tables.list_globally(
                database_pattern="db99%", pattern="table001%", max_results=100
            ).items
        ),
        "views": lambda: len(large.views.list("db500", max_results=100).items),
        "later views": lambda: len(
            large.views.list_details("db500", max_results=100, page_token="object2950").items
        ),
        "some views": lambda: len(
            large.views.list_details("db500", pattern="object12%", max_results=100).items
        ),
        "all later functions": lambda: len(
            large.functions.list_globally(max_results=100, page_token="db500.object0900").items
        ),
        "some of all views": lambda: len(
            large.views.list_globally(
                database_pattern="db99%", pattern="object0%", max_results=100
            ).items
        ),
        "a view": lambda: len([large.views.get(Identifier("db500", "object2222"))]),
        "grants": lambda: len(large.permissions.list(table, max_results=100).items),
        "later grants": lambda: len(
            large.permissions.list(table, max_results=100, page_token="SELECT:user2950").items
        ),
        "labels": lambda: len(large.labels.list(labelled, max_results=50).items),
        "later labels": lambda: len(
            large.labels.list(labelled, max_results=100, page_token="key89").items
        ),
        "a label": lambda: len(large.labels.get(labelled, "key77").value),
        "somebody's grants": lambda: len(
            large.permissions.list(table, principal="user2222", max_results=100).items
        ),
        "dropped tables to purge": lambda: large.dropped_tables.purge_expired(),
        "a table": lambda: len([large.tables.get(Identifier("db500", "table3333"))]),
        "a table by id": lambda: len([large.tables.get_by_id("d500t3333")]),
    }
    answers: dict[str, int] = {}
    asked: dict[str, list[Statement]] = {}
    for name, ask in questions.items():
        with _recorded() as statements:
            answers[name] = ask()
        asked[name] = statements
    assert answers == {
        **dict.fromkeys(questions, 100),
        "later tables": 49,
        "tables of a type": 1,
        "later details": 0,
        "later views": 49,
        "some of all views": 30,
        "a view": 1,
        "later grants": 99,
        "labels": 50,
        "later labels": 10,
        "a label": 1,
        "somebody's grants": 2,
        "dropped tables to purge": 0,
        "a database": 1,
        "a table": 1,
        "a table by id": 1,
    }
    engine = open_engine(migrated_url)
    with engine.connect() as connection:
        faults = {
            name: (found, statement)
            for name, statements in asked.items()
            for statement in statements
            if (found := _FAULTS[connection.dialect.name](connection, statement))
        }
    engine.dispose()
    assert not faults, json.dumps(faults, indent=2, default=str)
    # Where few of many databases have what is asked for, few statements look through them all.
    assert {name: len(statements) for name, statements in asked.items()}["some of all tables"] < 40
    assert _paged_to_the_end(large) == DATABASES * TABLES + 5000 - TABLES
    _check_a_limited_view(large, migrated_url)


def _check_a_limited_view(large: SqlCatalog, migrated_url: str) -> None:
    """A caller who sees one table of many is shown it by way of the caller's own grants."""
    questions: dict[str, Callable[[], object]] = {
        "databases": lambda: large.databases.list(max_results=100).items,
        "tables": lambda: large.tables.list("db500", max_results=100).items,
        "other tables": lambda: large.tables.list("db007", max_results=100).items,
        "all tables": lambda: large.tables.list_globally(max_results=100).items,
        "views": lambda: large.views.list_details("db500", max_results=100).items,
        "all functions": lambda: large.functions.list_globally(max_results=100).items,
        "rights": lambda: large.access.rights(caller, Thing(TargetType.DATABASE, "db500")),
        "rights on a table": lambda: large.access.rights(
            caller, Thing(TargetType.TABLE, "db500", "table3333")
        ),
    }
    caller = Principal("user2222", frozenset({"a", "b"}), asks_permission=True)
    answers: dict[str, object] = {}
    asked: dict[str, list[Statement]] = {}
    with acting_as(caller):
        for name, ask in questions.items():
            with _recorded() as statements:
                answers[name] = ask()
            asked[name] = statements
    assert answers == {
        "databases": ("db500",),
        "tables": ("table3333",),
        "other tables": (),
        "all tables": (Identifier("db500", "table3333"),),
        "views": (),
        "all functions": (),
        "rights": Rights(holds_visible=True),
        "rights on a table": Rights(frozenset({Access.SELECT, Access.UPDATE})),
    }
    engine = open_engine(migrated_url)
    with engine.connect() as connection:
        faults = {
            name: (found, statement)
            for name, statements in asked.items()
            for statement in statements
            # What is the caller's is put in order.
            if (found := _more_than_sorts(_FAULTS[connection.dialect.name](connection, statement)))
        }
    engine.dispose()
    assert not faults, json.dumps(faults, indent=2, default=str)
    assert max(map(len, asked.values())) <= 6


def _more_than_sorts(faults: list[str]) -> list[str]:
    # PostgreSQL takes a thousand databases for so few that a scan is as cheap. On the catalog's own
    # connections it looks them up.
    harmless = ("TEMP B-TREE", "filesort", "Seq Scan on hw_databases")
    return [each for each in faults if not any(word in each for word in harmless)]


def _paged_to_the_end(catalog: SqlCatalog) -> int:
    """The number of all tables, a page at a time."""
    found = 0
    token: str | None = None
    while True:
        page = catalog.tables.list_globally(max_results=1000, page_token=token)
        found += len(page.items)
        token = page.next_token
        if token is None:
            return found
