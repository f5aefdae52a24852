"""What became of a table of a PostgreSQL server between two definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import filled_columns, read_tables
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.postgres.table_changes import changed_table
from headwater.cdc.source.table_changes import TableChanges

pytestmark = pytest.mark.postgresql

FILLED = "column {} was added with a default"


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


def known(server: PostgresServer) -> SourceTable:
    (table,) = read_tables(server, {TableName("public", "t")}).followed
    return table


def changed(server: PostgresServer, before: SourceTable) -> TableChanges:
    after = known(server)
    return changed_table(before, after, filled_columns(server, after))


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize(
    ("statements", "renames", "rereads"),
    [
        ("ALTER TABLE t ADD c int", [], None),
        ("ALTER TABLE t ADD c int DEFAULT 5", [], FILLED.format("c")),
        ("ALTER TABLE t ADD c float DEFAULT random()", [], FILLED.format("c")),
        ("ALTER TABLE t ADD c bigserial", [], FILLED.format("c")),
        # The default is gone, and its values stay.
        (
            "ALTER TABLE t ADD c int DEFAULT 5; ALTER TABLE t ALTER c DROP DEFAULT",
            [],
            FILLED.format("c"),
        ),
        ("ALTER TABLE t DROP a", [], None),
        ("ALTER TABLE t RENAME a TO c", [("a", "c")], None),
        (
            "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a;ALTER TABLE t RENAME c TO b",
            [("a", "b"), ("b", "a")],
            None,
        ),
        ("ALTER TABLE t DROP a, ADD a text", [], "column a was dropped and added again"),
        ("ALTER TABLE t RENAME a TO c; ALTER TABLE t ADD a text", [("a", "c")], None),
        # A column takes the name of one that was dropped.
        ("ALTER TABLE t DROP a; ALTER TABLE t RENAME b TO a", [("b", "a")], None),
        ("ALTER TABLE t ALTER b TYPE bigint USING b * 2", [], "column b has another type"),
        ("ALTER TABLE t ALTER a SET NOT NULL; COMMENT ON TABLE t IS 'x'", [], None),
    ],
)
def test_columns(
    postgres: PostgresDatabase,
    server: PostgresServer,
    is_partitioned: bool,
    statements: str,
    renames: Sequence[tuple[str, str]],
    rereads: str | None,
) -> None:
    by = " PARTITION BY HASH (id)" if is_partitioned else ""
    postgres.run(f"CREATE TABLE t (id int PRIMARY KEY, a text, b int){by}")
    if is_partitioned:
        postgres.run("CREATE TABLE p PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    postgres.run("INSERT INTO t VALUES (1, 'a', 2)")
    before = known(server)
    postgres.run(*statements.split(";"))
    result = changed(server, before)
    assert (result.renames, result.rereads, result.key_changed) == (renames, rereads, False)
    assert result.table == known(server)


@pytest.mark.parametrize(
    ("statement", "is_changed"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO c", False),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (a)", True),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b, a)", True),
        ("ALTER TABLE t DROP b, ADD b int; ALTER TABLE t ADD PRIMARY KEY (a, b)", True),
    ],
)
def test_keys(
    postgres: PostgresDatabase, server: PostgresServer, statement: str, is_changed: bool
) -> None:
    postgres.run("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))")
    before = known(server)
    postgres.run(*statement.split(";"))
    assert changed(server, before).key_changed == is_changed


@pytest.mark.parametrize(
    ("column", "rereads"), [("a", None), ("id", "column id of the key has another collation")]
)
def test_collations(
    postgres: PostgresDatabase, server: PostgresServer, column: str, rereads: str | None
) -> None:
    postgres.run('CREATE TABLE t (id text COLLATE "C" PRIMARY KEY, a text COLLATE "C")')
    before = known(server)
    postgres.run(f'ALTER TABLE t ALTER {column} TYPE text COLLATE "POSIX"')
    assert changed(server, before).rereads == rereads
