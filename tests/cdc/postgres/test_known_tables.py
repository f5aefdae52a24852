"""Tables that are read again when they have changed are as tables that are always read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase, new_database

from headwater.cdc.model.tables import SourceTable
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.known_tables import KnownTables
from headwater.cdc.postgres.server import Address, PostgresServer

pytestmark = pytest.mark.postgresql

TABLES = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN amount AS numeric(12, 2)",
    "CREATE DOMAIN price AS amount",
    "CREATE TYPE point3 AS (x int, y int, z int)",
    'CREATE COLLATION words FROM "C"',
    "CREATE SCHEMA shop",
    "CREATE TABLE a (id int PRIMARY KEY, v text, w text NOT NULL DEFAULT 'w', UNIQUE (w))",
    "CREATE TABLE b (id int PRIMARY KEY, v text)",
    "CREATE TABLE shop.c (id int PRIMARY KEY, m mood, ms mood[], p price, ps price[], q point3)",
    "CREATE TABLE d (id int PRIMARY KEY, t text COLLATE words)",
    "CREATE TABLE e (id int PRIMARY KEY, row_of_b b, rows_of_b b[])",
    "CREATE TABLE p (id int, v int, PRIMARY KEY (id, v)) PARTITION BY LIST (v)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY RANGE (id)",
    "CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE loose (id int NOT NULL, v int NOT NULL, PRIMARY KEY (id, v))",
    "CREATE TABLE others (id int PRIMARY KEY)",
    "CREATE PUBLICATION sent FOR TABLE others, TABLES IN SCHEMA shop",
)
# Statements, and the tables that may be read again.
CHANGES: list[tuple[str | tuple[str, ...], set[str]]] = [
    ("ALTER TABLE a ADD x int DEFAULT 3", {"a"}),
    ("ALTER TABLE a DROP v", {"a"}),
    ("ALTER TABLE a RENAME v TO x", {"a"}),
    ("ALTER TABLE a ALTER v TYPE varchar(7)", {"a"}),
    ("ALTER TABLE a ALTER v TYPE text USING v || '!'", {"a"}),
    ("ALTER TABLE a ALTER v SET NOT NULL", {"a"}),
    ("ALTER TABLE a ALTER w SET DEFAULT 'x'", {"a"}),
    ("ALTER TABLE a ALTER w DROP DEFAULT", {"a"}),
    (("BEGIN; ALTER TABLE a DROP v; ALTER TABLE a ADD v text; COMMIT",), {"a"}),
    ("ALTER TABLE a DROP CONSTRAINT a_pkey", {"a"}),
    ("ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (id) DEFERRABLE", {"a"}),
    ("ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (w, id)", {"a"}),
    ("ALTER TABLE a REPLICA IDENTITY FULL", {"a"}),
    ("ALTER TABLE a REPLICA IDENTITY NOTHING", {"a"}),
    ("ALTER TABLE a REPLICA IDENTITY USING INDEX a_w_key", {"a"}),
    ("ALTER TABLE a SET UNLOGGED", {"a"}),
    ("ALTER TABLE a RENAME TO z", {"z"}),
    ("ALTER TABLE a SET SCHEMA shop", {"a"}),
    ("ALTER SCHEMA shop RENAME TO store", {"c"}),
    ("COMMENT ON TABLE a IS 'all'", {"a"}),
    ("COMMENT ON COLUMN a.v IS 'some'", {"a"}),
    (("COMMENT ON TABLE a IS 'all'", "COMMENT ON TABLE a IS NULL"), {"a"}),
    ("BEGIN; ALTER TABLE a RENAME TO x; ALTER TABLE b RENAME TO a; ALTER TABLE x RENAME TO b; "
     "COMMIT", {"*"}),
    ("DROP TABLE a", set()),
    (("DROP TABLE a", "CREATE TABLE a (id int PRIMARY KEY)"), {"a"}),
    ("CREATE TABLE new (id int PRIMARY KEY)", {"new"}),
    ("CREATE TABLE new (id int)", {"new"}),
    ("TRUNCATE a", {"a"}),
    ("VACUUM FULL a", {"a"}),
    ("ALTER TYPE mood RENAME TO moods", {"*"}),
    ("ALTER TYPE mood SET SCHEMA shop", {"*"}),
    ("ALTER TYPE point3 RENAME TO point", {"*"}),
    ("ALTER TYPE point3 ADD ATTRIBUTE w int", {"*"}),
    ("ALTER TYPE mood ADD VALUE 'mad'", {"*"}),
    ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", {"*"}),
    ("ALTER DOMAIN price RENAME TO prices", {"*"}),
    ("ALTER DOMAIN amount RENAME TO amounts", {"*"}),
    ("ALTER TABLE b RENAME TO x", {"*"}),
    ("ALTER COLLATION words RENAME TO terms", {"*"}),
    ("TRUNCATE p21", {"p"}),
    ("DROP TABLE p1", {"p"}),
    ("CREATE TABLE p22 PARTITION OF p2 FOR VALUES FROM (10) TO (20)", {"p"}),
    ("ALTER TABLE p2 DETACH PARTITION p21", {"p", "p21"}),
    ("ALTER TABLE p DETACH PARTITION p2", {"p", "p2"}),
    ("ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY", {"p", "p1"}),
    ("ALTER TABLE p ATTACH PARTITION loose FOR VALUES IN (7)", {"p"}),
    ("ALTER TABLE p21 REPLICA IDENTITY NOTHING", {"p"}),
    ("ALTER TABLE p1 SET UNLOGGED", {"p"}),
    ("ALTER TABLE p1 RENAME TO p0", {"p"}),
    ("ALTER PUBLICATION sent DROP TABLE others", {"others"}),
    (("ALTER PUBLICATION sent DROP TABLE others", "ALTER PUBLICATION sent ADD TABLE others"),
     {"others"}),
    ("ALTER PUBLICATION sent DROP TABLES IN SCHEMA shop", {"c"}),
    ("ALTER PUBLICATION sent ADD TABLE b", {"b"}),
    (("ALTER PUBLICATION sent SET (publish = 'insert')",
      "ALTER PUBLICATION sent SET (publish = 'insert, update, delete, truncate')"), {"*"}),
    # What does not define a table.
    ("CREATE TABLE other.unread (id int)", {"unread"}),
    ("CREATE TEMPORARY TABLE t (id int PRIMARY KEY, row_of_b b)", set()),
    ("INSERT INTO a VALUES (1, 'v')", set()),
    ("ANALYZE", set()),
    ("VACUUM (FREEZE)", set()),
    ("CREATE VIEW view_of_a AS SELECT * FROM a", set()),
]  # fmt: skip


@pytest.fixture(scope="module")
def database(logical_server: str) -> Iterator[PostgresDatabase]:
    with new_database(logical_server) as database:
        yield database


@pytest.fixture
def server(database: PostgresDatabase) -> Iterator[PostgresServer]:
    """A connection to a database with tables of all kinds."""
    database.run("GRANT USAGE ON SCHEMA public TO PUBLIC", "CREATE SCHEMA other", *TABLES)
    with PostgresServer(Address.from_url(database.url)) as connection:
        yield connection
    schemas = database.rows(
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> "
        "'information_schema'"
    )
    database.run("DROP PUBLICATION sent")
    database.run("DISCARD TEMP", *(f'DROP SCHEMA "{name}" CASCADE' for (name,) in schemas))
    database.run("CREATE SCHEMA public")


def _check(server: PostgresServer, known: KnownTables) -> list[SourceTable]:
    """Compare what is known with what the catalogs have, and return the tables."""
    tables, actual = known.read(), read_tables(server, publication="sent")
    assert sorted(map(repr, tables.followed)) == sorted(map(repr, actual.followed))
    assert sorted(map(repr, tables.findings)) == sorted(map(repr, actual.findings))
    assert sorted(map(repr, tables.notes)) == sorted(map(repr, actual.notes))
    return list(tables.followed)


@pytest.mark.parametrize(("statements", "read"), CHANGES, ids=[str(s)[:60] for s, _ in CHANGES])
def test_what_is_known_follows_every_statement(
    database: PostgresDatabase,
    server: PostgresServer,
    statements: str | tuple[str, ...],
    read: set[str],
) -> None:
    known = KnownTables(server, "sent")
    before = _check(server, known)
    database.run(*((statements,) if isinstance(statements, str) else statements))
    after = _check(server, known)
    kept = set(map(id, before))
    assert "*" in read or {t.name.table for t in after if id(t) not in kept} <= read
    assert _is_kept(known, after)


@pytest.mark.parametrize("statement", ["ALTER TABLE a ADD x int", "DROP TABLE p21", "TRUNCATE p21"])
def test_a_statement_that_is_not_committed(
    database: PostgresDatabase, server: PostgresServer, statement: str
) -> None:
    known = KnownTables(server, "sent")
    before = _check(server, known)
    with database.connect() as session:
        session.execute(statement.encode())
        assert _is_kept(known, before)
        session.rollback()
    assert _is_kept(known, before)


def _is_kept(known: KnownTables, tables: list[SourceTable]) -> bool:
    """Whether none of the tables is read again."""
    return list(map(id, known.read().followed)) == list(map(id, tables))


def test_partitions_when_statistics_are_reset(
    database: PostgresDatabase, server: PostgresServer
) -> None:
    known = KnownTables(server, "sent")
    before = _check(server, known)
    database.rows("SELECT pg_stat_reset_shared('wal')")
    storages = [
        {t.name.table: t.storage for t in tables} for tables in (before, _check(server, known))
    ]
    assert storages[0]["a"] == storages[1]["a"]
    assert storages[0]["p"] != storages[1]["p"]


@pytest.fixture
def grant(
    database: PostgresDatabase, server: PostgresServer
) -> Iterator[Callable[[str], PostgresServer]]:
    """Runs statements about a role, and returns a connection of it."""
    user = f"reader_{uuid.uuid4().hex[:12]}"
    database.run(f"CREATE ROLE {user} LOGIN", f"CREATE ROLE {user}_group")
    url = database.url.replace("headwater@", f"{user}@")
    with PostgresServer(Address.from_url(url)) as own:

        def run(statement: str) -> PostgresServer:
            database.run(statement.format(user=user))
            return own

        yield run
    for role in (user, f"{user}_group"):
        database.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_what_a_user_may_read(grant: Callable[[str], PostgresServer]) -> None:
    known = KnownTables(grant("SELECT 1"), "sent")
    for statement, count in (
        ("SELECT 1", 0),
        ("GRANT SELECT ON a, b TO {user}", 2),
        ("GRANT SELECT ON shop.c TO {user}", 2),
        ("GRANT USAGE ON SCHEMA shop TO {user}", 3),
        ("GRANT SELECT ON d TO {user}_group", 3),
        ("GRANT {user}_group TO {user}", 4),
        ("ALTER TABLE a ENABLE ROW LEVEL SECURITY", 3),
        ("ALTER ROLE {user} BYPASSRLS", 4),
        ("REVOKE {user}_group FROM {user}", 3),
        ("ALTER ROLE {user} SUPERUSER", 8),
        ("ALTER ROLE {user} NOSUPERUSER", 3),
        ("ALTER TABLE e OWNER TO {user}", 4),
    ):
        assert len(_check(grant(statement), known)) == count, statement
