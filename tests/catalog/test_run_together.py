"""Statements that are run together change what they change one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.prepared import Change, Prepared, run_together
from headwater.storage.runtime import SYSTEM_RUNTIME

METADATA = MetaData()
COLOURS, SIZES = (
    Table(
        name,
        METADATA,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("name", String(20)),
        Column("number", BigInteger),
    )
    for name in ("colours", "sizes")
)

ADD_COLOUR, ADD_SIZE = (
    Prepared(
        insert(table)
        .inline()
        .values(id=bindparam("new"), name=bindparam("name"), number=bindparam("number"))
    )
    for table in (COLOURS, SIZES)
)
# The name is there twice: one parameter, in two places.
NAME_COLOUR = Prepared(
    update(COLOURS)
    .where(COLOURS.c.id == bindparam("one"), COLOURS.c.name != bindparam("name"))
    .values(name=bindparam("name"), number=COLOURS.c.number + bindparam("number"))
)
REMOVE_SIZE = Prepared(delete(SIZES).where(SIZES.c.id == bindparam("one")))


def _changes(first: int) -> Sequence[Change]:
    return [
        Change(NAME_COLOUR, {"one": 1, "name": f"red {first}", "number": first}),
        Change(ADD_SIZE, {"new": first, "name": "small", "number": -first}),
        Change(REMOVE_SIZE, {"one": first - 1}),
        Change(ADD_COLOUR, {"new": first, "name": None, "number": 2**40}),
    ]


@pytest.fixture
def database(database_url: str) -> Iterator[SqlDatabase]:
    opened = SqlDatabase(open_engine(database_url), SYSTEM_RUNTIME)
    METADATA.create_all(opened.engine)
    with opened.engine.begin() as connection:
        connection.execute(insert(COLOURS).values(id=1, name="blue", number=7))
    yield opened
    opened.close()


def _rows(database: SqlDatabase) -> Sequence[Sequence[tuple[object, ...]]]:
    with database.read() as connection:
        return [
            [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]
            for table in (COLOURS, SIZES)
        ]


def test_few_changes_are_one_statement_on_postgresql(database: SqlDatabase) -> None:
    run: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        run.append(statement)

    def change(connection: Connection) -> None:
        event.listen(connection, "before_cursor_execute", note)
        run_together(connection, _changes(10))

    database.write(change)
    assert _rows(database) == [[(1, "red 10", 17), (10, None, 2**40)], [(10, "small", -10)]]
    assert len(run) == (1 if database.engine.dialect.name == "postgresql" else 4)


def test_many_changes_are_made_one_by_one(database: SqlDatabase) -> None:
    changes = [*_changes(10), *_changes(11)]
    database.write(partial(run_together, changes=changes))
    colours = [(1, "red 11", 28), (10, None, 2**40), (11, None, 2**40)]
    assert _rows(database) == [colours, [(11, "small", -11)]]


@pytest.mark.parametrize("before_it", [1, 3])
def test_nothing_is_changed_when_one_of_them_fails(database: SqlDatabase, before_it: int) -> None:
    """One statement, or several."""
    others = [change for at in range(before_it) for change in _changes(10 + at)]
    changes = [*others, Change(ADD_COLOUR, {"new": 1, "name": "again", "number": 0})]
    before = _rows(database)
    with pytest.raises(IntegrityError):
        database.write(partial(run_together, changes=changes))
    assert _rows(database) == before


def test_numbers_of_all_sizes_need_one_prepared_statement(
    new_postgresql_database: Callable[[], str],
) -> None:
    database = SqlDatabase(open_engine(new_postgresql_database()), SYSTEM_RUNTIME)
    METADATA.create_all(database.engine)
    for at, number in enumerate([1, 2**20, 2**40, -1, 2**14] * 8):
        changes = [
            Change(ADD_COLOUR, {"new": at, "name": "", "number": number}),
            Change(ADD_SIZE, {"new": at, "name": "", "number": -number}),
        ]
        database.write(partial(run_together, changes=changes))
    with database.read() as connection:
        prepared = connection.execute(
            text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'WITH %'")
        )
        assert prepared.scalar_one() == 1
    database.close()
