"""Interpreted statements against what MySQL and MariaDB make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError

from headwater.cdc.ddl import (
    AddColumns,
    Change,
    ChangeColumn,
    ColumnDefinition,
    DropColumns,
    RenameColumns,
    Syntax,
    interpret,
)

COLUMNS = "abcdef"
NEW_COLUMNS = "xyzw"
STATEMENTS = 300


@pytest.fixture(
    params=[
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ]
)
def server(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection to an empty database."""
    create: Callable[[], str] = request.getfixturevalue(f"new_{request.param}_database")
    engine = create_engine(create().replace("://", "+pymysql://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def alteration(random: Random) -> str:
    """An ALTER TABLE of columns, which may be wrong."""
    names = [*COLUMNS, *NEW_COLUMNS]
    clauses = []
    for _ in range(random.randint(1, 5)):
        position = random.choice(["", "FIRST", *(f"AFTER {name}" for name in names)])
        old, new = random.choice(COLUMNS), random.choice(names)
        clauses.append(
            random.choice(
                [
                    f"ADD {random.choice(NEW_COLUMNS)} INT {position}",
                    f"DROP {old}",
                    f"RENAME COLUMN {old} TO {new}",
                    f"MODIFY {old} BIGINT {position}",
                    f"CHANGE {old} {new} BIGINT {position}",
                ]
            )
        )
    return f"ALTER TABLE t {', '.join(clauses)}"


def place(names: list[str], column: ColumnDefinition) -> None:
    """Put a column that is added or moved."""
    if column.name in names:
        if column.position is None:
            return
        names.remove(column.name)
    if column.position is None:
        names.append(column.name)
    elif column.position.after is None:
        names.insert(0, column.name)
    else:
        names.insert(names.index(column.position.after) + 1, column.name)


def apply(names: list[str], change: Change) -> list[str]:
    """The names of a table's columns after a change."""
    if isinstance(change, DropColumns):
        return [name for name in names if name not in change.columns]
    if isinstance(change, RenameColumns):
        renames = dict(change.renames)
        return [renames.get(name, name) for name in names]
    assert isinstance(change, AddColumns | ChangeColumn)
    columns = change.columns if isinstance(change, AddColumns) else (change.definition,)
    for column in columns:
        place(names, column)
    return names


def test_columns_are_where_the_server_puts_them(server: Connection) -> None:
    """apache/flink-cdc#4183: values were in wrong columns after MODIFY … AFTER."""
    random = Random(7)
    accepted = 0
    for _ in range(STATEMENTS):
        server.exec_driver_sql("DROP TABLE IF EXISTS t")
        server.exec_driver_sql(f"CREATE TABLE t ({', '.join(f'{name} INT' for name in COLUMNS)})")
        sql = alteration(random)
        try:
            server.exec_driver_sql(sql)
        except DBAPIError:
            continue
        accepted += 1
        names = list(COLUMNS)
        for change in interpret(sql, "shop"):
            names = apply(names, change)
        assert names == [row[0] for row in server.exec_driver_sql("SHOW COLUMNS FROM t")], sql
    assert accepted > STATEMENTS // 10


@pytest.mark.parametrize(
    ("definition", "fills_rows"),
    [
        ("INT", False),
        ("INT NULL DEFAULT NULL COMMENT 'x'", False),
        ("TIMESTAMP(3) NULL ON UPDATE CURRENT_TIMESTAMP(3)", False),
        ("ENUM('a', 'b')", False),
        ("VARCHAR(9) CHARACTER SET latin1", False),
        ("INT /*! NOT NULL */", True),
        ("ENUM('a', 'b') NOT NULL", True),
        ("VARCHAR(9) DEFAULT ''", True),
        ("DATETIME DEFAULT NOW()", True),
        ("INT DEFAULT (1 + 1)", True),
        ("INT AS (a + 1) VIRTUAL", True),
        ("BIGINT UNSIGNED AUTO_INCREMENT UNIQUE", True),
        ("SERIAL", True),
        ("INT PRIMARY KEY", True),
    ],
)
def test_a_table_is_read_again_if_its_rows_get_values(
    server: Connection, definition: str, fills_rows: bool
) -> None:
    """apache/paimon#2843: rows that exist get a value without an event."""
    server.exec_driver_sql("CREATE TABLE t (a INT)")
    server.exec_driver_sql("INSERT INTO t VALUES (1)")
    sql = f"ALTER TABLE t ADD c {definition}"
    server.exec_driver_sql(sql)
    value = server.exec_driver_sql("SELECT c FROM t").scalar_one()
    changes = interpret(sql, "shop", syntax=Syntax(mariadb=server.dialect.name == "mariadb"))
    assert (value is not None) == fills_rows
    assert any(change.tables_to_reread for change in changes) == fills_rows
