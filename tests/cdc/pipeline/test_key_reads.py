"""Rows of single keys, read from the source when it has changed further than the log was read."""

from __future__ import annotations

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.running_changes import follow_changes
from tests.cdc.pipeline.test_interruptions import ends

from headwater.cdc.pipeline.state import TablePhase

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"
ROWS = "INSERT INTO t VALUES (1, 10, 11), (2, 20, 21), (3, 30, 31)"
MINIMAL = "SET SESSION binlog_row_image = 'MINIMAL'"
# Afterwards the source's table has the columns that it had before.
CYCLES = {
    "a column is dropped and added": (
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN b INT",
    ),
    "a column is dropped and added with a default": (
        "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN b INT DEFAULT 5",
    ),
    "a column is renamed and renamed back": (
        "ALTER TABLE t RENAME COLUMN a TO c",
        "UPDATE t SET c = 25 WHERE id = 2",
        "ALTER TABLE t RENAME COLUMN c TO a",
    ),
    "two columns swap their names and places at once": (
        "ALTER TABLE t CHANGE a b INT, CHANGE b a INT AFTER id",
    ),
    "two columns swap their names and places": (
        "ALTER TABLE t RENAME COLUMN a TO c",
        "ALTER TABLE t RENAME COLUMN b TO a",
        "ALTER TABLE t RENAME COLUMN c TO b",
        "ALTER TABLE t MODIFY b INT AFTER a",
    ),
    "a column takes the name of a dropped one": (
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t RENAME COLUMN b TO a",
        "ALTER TABLE t ADD COLUMN b INT",
    ),
    "a column gives its name away": (
        "ALTER TABLE t RENAME COLUMN b TO c",
        "ALTER TABLE t ADD COLUMN b INT AFTER a",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t RENAME COLUMN c TO a",
        "ALTER TABLE t MODIFY a INT AFTER id",
    ),
    "the rows go": ("TRUNCATE TABLE t", "INSERT INTO t VALUES (2, 0, 0)"),
}


@pytest.mark.parametrize("statements", CYCLES.values(), ids=CYCLES)
def test_columns_that_come_back(
    origin: Origin, follower: Follower, statements: tuple[str, ...]
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.session(MINIMAL, "UPDATE t SET b = 12 WHERE id = 1", "UPDATE t SET a = 22 WHERE id = 2")
    origin.run(*statements, "UPDATE t SET a = 35 WHERE id = 3")
    follower.once()
    follower.check("t")
    assert follower.phases() == {"t": TablePhase.STREAMING}


@pytest.mark.parametrize("statements", CYCLES.values(), ids=CYCLES)
def test_columns_that_come_back_before_an_interruption(
    origin: Origin, follower: Follower, statements: tuple[str, ...]
) -> None:
    origin.run(TABLE, ROWS)
    follower.once()
    origin.session(MINIMAL, "UPDATE t SET b = 12 WHERE id = 1", "UPDATE t SET a = 22 WHERE id = 2")
    origin.run(*statements)
    ends(follower, "write", "t", is_done=True)
    follower.once()
    follower.check("t")


def test_another_table_of_the_name(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE, ROWS)
    follower.once()

    def change() -> None:
        origin.session(MINIMAL, "UPDATE t SET b = 12 WHERE id = 1", "UPDATE t SET a = 22")
        origin.run("RENAME TABLE t TO u", "CREATE TABLE t LIKE u", "INSERT INTO t VALUES (2, 0, 0)")

    follow_changes(follower, change)
    follower.check("t", "u")


def test_rows_that_are_gone_when_they_are_read(origin: Origin, follower: Follower) -> None:
    types = (
        *("TINYINT(1)", "TINYINT", "INT", "BIGINT UNSIGNED", "FLOAT", "DOUBLE", "YEAR"),
        *("DECIMAL(10, 2)", "DECIMAL(38, 30)", "DECIMAL(3, 3)", "BIT(1)", "BIT(20)"),
        *("CHAR(3)", "VARCHAR(9)", "TEXT", "JSON", "ENUM('a', 'b')"),
        *("BINARY(4)", "VARBINARY(9)", "BLOB", "DATE", "TIME", "TIME(6)"),
        *("DATETIME", "DATETIME(6)", "TIMESTAMP(3)"),
    )
    columns = ", ".join(f"c{number} {type_} NOT NULL" for number, type_ in enumerate(types))
    values = "0, 1, 1, 1, 1, 1, 2001, 1, 1, 0.5, b'1', b'1', 'abc', 'a', 'a', '[]', 'a', 'a', "
    values += "'a', 'a', '2024-01-02', '1:02', '1:02', '2024-01-02', '2024-01-02', '2024-01-02'"
    origin.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, n INT, {columns})",
        f"INSERT INTO t VALUES (1, 0, {values}), (2, 0, {values})",
    )
    follower.once()
    origin.session(MINIMAL, "UPDATE t SET n = 1")
    origin.run("DELETE FROM t WHERE id = 1")
    follower.once()
    follower.check("t")
