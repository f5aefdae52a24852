"""What became of a table of a PostgreSQL server between two definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.consistent_reads import PostgresRowReader
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.redefined_tables import Redefinition, redefinition
from headwater.cdc.postgres.server import Address, PostgresServer

pytestmark = pytest.mark.postgresql

START = LogPosition(1, 1, 0)
ADDED = "columns {} were added, and have values that are not in the log"


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


def known(server: PostgresServer, name: str = "t") -> SourceTable:
    (table,) = read_tables(server, {TableName("public", name)}).followed
    return table


def compared(server: PostgresServer, before: SourceTable) -> Redefinition:
    after = known(server, before.name.table)
    with PostgresRowReader(server).consistent_read(START) as read:
        read.check(after)
        return redefinition(before, after, lambda names: read.has_values(after, names))


@pytest.mark.parametrize(
    ("statements", "renames", "rereads"),
    [
        ("ALTER TABLE t ADD COLUMN c int", [], None),
        ("ALTER TABLE t ADD COLUMN c int DEFAULT 5", [], ADDED.format("c")),
        ("ALTER TABLE t ADD COLUMN c float DEFAULT random()", [], ADDED.format("c")),
        ("ALTER TABLE t ADD COLUMN c bigserial", [], ADDED.format("c")),
        # The default is gone, and its values stay.
        (
            "ALTER TABLE t ADD COLUMN c int DEFAULT 5; ALTER TABLE t ALTER COLUMN c DROP DEFAULT;"
            "VACUUM FULL t",
            [],
            ADDED.format("c"),
        ),
        # The default is of rows to come.
        ("ALTER TABLE t ADD COLUMN c int; ALTER TABLE t ALTER c SET DEFAULT 5", [], None),
        ("ALTER TABLE t ADD COLUMN c int DEFAULT 5; UPDATE t SET c = NULL", [], None),
        ("ALTER TABLE t DROP COLUMN a", [], None),
        ("ALTER TABLE t RENAME COLUMN a TO c", [("a", "c")], None),
        (
            "ALTER TABLE t RENAME COLUMN a TO c; ALTER TABLE t RENAME COLUMN b TO a;"
            "ALTER TABLE t RENAME COLUMN c TO b",
            [("a", "b"), ("b", "a")],
            None,
        ),
        (
            "ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN a text",
            [],
            "column 'a' was dropped and added again",
        ),
        (
            "ALTER TABLE t RENAME COLUMN a TO c; ALTER TABLE t ADD COLUMN a text",
            [("a", "c")],
            None,
        ),
        # A column takes the name of one that was dropped.
        ("ALTER TABLE t DROP COLUMN a; ALTER TABLE t RENAME COLUMN b TO a", [("b", "a")], None),
        (
            "ALTER TABLE t ALTER COLUMN b TYPE bigint USING b * 2",
            [],
            "column 'b' was integer, and is bigint now",
        ),
        ("ALTER TABLE t ALTER COLUMN a SET NOT NULL; COMMENT ON TABLE t IS 'x'", [], None),
        ("ANALYZE t", [], None),
    ],
)
def test_columns(
    postgres: PostgresDatabase,
    server: PostgresServer,
    statements: str,
    renames: Sequence[tuple[str, str]],
    rereads: str | None,
) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "INSERT INTO t VALUES (1, 'a', 2)"
    )
    before = known(server)
    postgres.run(*statements.split(";"))
    result = compared(server, before)
    assert (result.renames, result.rereads, result.key_changed) == (renames, rereads, False)
    assert result.table == known(server)


@pytest.mark.parametrize(
    ("statement", "is_changed"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO c", False),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (a)", True),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b, a)", True),
        (
            "ALTER TABLE t DROP b; ALTER TABLE t ADD b int; ALTER TABLE t ADD PRIMARY KEY (a, b)",
            True,
        ),
    ],
)
def test_keys(
    postgres: PostgresDatabase, server: PostgresServer, statement: str, is_changed: bool
) -> None:
    postgres.run("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))")
    before = known(server)
    postgres.run(*statement.split(";"))
    assert compared(server, before).key_changed == is_changed


def test_another_table(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, a text)")
    before = known(server)
    postgres.run("DROP TABLE t", "CREATE TABLE t (a text, id int PRIMARY KEY)")
    result = compared(server, before)
    assert result.rereads == "public.t is another table of the source than before"
    assert (result.renames, result.key_changed) == ([], False)
    # Where numbers are not known, names decide.
    columns = tuple(replace(column, id=None) for column in before.columns)
    unnumbered = replace(before, id=None, columns=columns)
    assert compared(server, unnumbered) == replace(result, rereads=None)
