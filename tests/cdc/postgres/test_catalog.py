"""Tables of a PostgreSQL database, and why some of them cannot be followed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import Finding, TableName
from headwater.cdc.postgres.catalog import read_definitions, read_tables
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.postgres.types import TypeMapping

pytestmark = pytest.mark.postgresql


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


def problems(server: PostgresServer, *, without_key: bool = False) -> dict[str, list[str]]:
    """The problems of each table."""
    by_table: dict[str, list[str]] = {}
    for finding in read_tables(server, without_key=without_key).findings:
        assert finding.table is not None
        by_table.setdefault(finding.table.table, []).append(finding.problem)
    return by_table


def test_what_the_catalog_has_of_a_table(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run(
        "CREATE SCHEMA shop",
        'CREATE TABLE shop."Or.ders" (gone int, b varchar(3) COLLATE "C", id bigint GENERATED '
        'ALWAYS AS IDENTITY, price numeric(12,2) NOT NULL DEFAULT 1.5, "X y" text, '
        "PRIMARY KEY (id, b) INCLUDE (price))",
        'ALTER TABLE shop."Or.ders" DROP COLUMN gone',
        "COMMENT ON TABLE shop.\"Or.ders\" IS 'all orders'",
        "COMMENT ON COLUMN shop.\"Or.ders\".price IS 'in €'",
    )
    (table,) = read_tables(server).followed
    assert table.name == TableName("shop", "Or.ders")
    assert (table.comment, list(table.primary_key)) == ("all orders", ["id", "b"])
    assert table.id == postgres.value("SELECT 'shop.\"Or.ders\"'::regclass::oid::int")
    assert [(column.id, column.name, str(column.type)) for column in table.columns] == [
        (2, "b", "VARCHAR(3) NOT NULL"),
        (3, "id", "BIGINT NOT NULL"),
        (4, "price", "DECIMAL(12, 2) NOT NULL"),
        (5, "X y", "STRING"),
    ]
    by_name = {column.name: column for column in table.columns}
    assert (by_name["price"].default, by_name["price"].comment) == ("1.5", "in €")
    assert (by_name["b"].collation, by_name["id"].collation) == ("C", None)
    (definition,) = read_definitions(server)
    assert definition.columns[1].is_identity
    assert not definition.columns[0].is_identity
    columns = [(column.type_oid, column.modifier) for column in definition.columns]
    assert columns == [(1043, 7), (20, -1), (1700, 12 << 16 | 2 + 4), (25, -1)]
    # Only tables that are asked for.
    assert read_tables(server, {TableName("shop", "nothing")}).followed == []
    assert read_tables(server, set()).followed == []
    postgres.run("CREATE TABLE other (id int PRIMARY KEY)")
    assert [one.name for one in read_tables(server, {table.name}).followed] == [table.name]


def test_what_is_not_a_table(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
        "CREATE SEQUENCE s",
        "CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY)",
    )
    tables = read_tables(server)
    assert [table.name.table for table in tables.followed] == ["t"]
    assert tables.findings == []


def test_tables_that_cannot_be_followed(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run(
        "CREATE TABLE fine (id int PRIMARY KEY)",
        "CREATE TABLE fine_full (id int PRIMARY KEY)",
        "ALTER TABLE fine_full REPLICA IDENTITY FULL",
        "CREATE TABLE fine_index (id int PRIMARY KEY)",
        "ALTER TABLE fine_index REPLICA IDENTITY USING INDEX fine_index_pkey",
        "CREATE TABLE no_key (id int)",
        "CREATE TABLE no_identity (id int PRIMARY KEY)",
        "ALTER TABLE no_identity REPLICA IDENTITY NOTHING",
        "CREATE TABLE other_index (id int PRIMARY KEY, b int NOT NULL UNIQUE)",
        "ALTER TABLE other_index REPLICA IDENTITY USING INDEX other_index_b_key",
        "CREATE TABLE lost_index (id int PRIMARY KEY, b int NOT NULL UNIQUE)",
        "ALTER TABLE lost_index REPLICA IDENTITY USING INDEX lost_index_b_key",
        "ALTER TABLE lost_index DROP CONSTRAINT lost_index_b_key",
        "CREATE TABLE deferrable_key (id int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE full_deferrable (id int PRIMARY KEY DEFERRABLE)",
        "ALTER TABLE full_deferrable REPLICA IDENTITY FULL",
        "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
        "CREATE TABLE key_generated (a int, id int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY)",
        "CREATE TABLE odd_type (id int PRIMARY KEY, r regclass)",
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE away (id int) SERVER s",
    )
    assert problems(server) == {
        "no_key": ["it has no primary key"],
        "no_identity": ["its replica identity is NOTHING: the log does not have its deleted rows"],
        "other_index": ["its replica identity is an index other than its primary key"],
        "lost_index": ["its replica identity is an index other than its primary key"],
        "deferrable_key": [
            "its primary key is deferrable, and so does not identify rows in the log"
        ],
        "unlogged": ["it is unlogged: its changes are not in the log"],
        "key_generated": ["a column of its primary key is generated, and not in the log"],
        "odd_type": [
            "column type 'regclass' is not followed: its values are names of the server's objects, "
            "or of the server's own"
        ],
        "away": ["it is a foreign table, which has no log"],
    }
    fine = {"fine", "fine_full", "fine_index", "full_deferrable"}
    assert {table.name.table for table in read_tables(server).followed} == fine
    # The remedies help.
    for finding in read_tables(server).findings:
        if finding.remedy.startswith("ALTER"):
            postgres.run(finding.remedy.partition(", ")[0])
    assert problems(server).keys() == {
        *("no_key", "deferrable_key", "key_generated", "odd_type", "away")
    }


def test_tables_without_a_key(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run(
        "CREATE TABLE t (id int)",
        "CREATE TABLE f (id int)",
        "ALTER TABLE f REPLICA IDENTITY FULL",
    )
    (table,) = read_tables(server, without_key=True).followed
    assert (table.name.table, list(table.primary_key)) == ("f", [])
    (finding,) = read_tables(server, without_key=True).findings
    assert str(finding) == (
        "table public.t: it has no primary key, and the log does not have its deleted rows; add a "
        'primary key, ALTER TABLE "public"."t" REPLICA IDENTITY FULL, or leave it out with '
        "--exclude"
    )


def test_partitions_are_followed_as_their_table(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE a PARTITION OF t FOR VALUES IN (1) PARTITION BY LIST (id)",
        "CREATE TABLE b PARTITION OF a DEFAULT",
        "CREATE TABLE c PARTITION OF t DEFAULT",
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
    )
    assert problems(server) == {}
    names = [table.name.table for table in read_tables(server).followed]
    assert names == ["child", "parent", "t"]
    definitions = {table.name.table: table for table in read_definitions(server)}
    assert [partition.name.table for partition in definitions["t"].partitions] == ["b", "c"]
    assert definitions["t"].is_partitioned
    assert not definitions["parent"].is_partitioned
    postgres.run("ALTER TABLE b REPLICA IDENTITY NOTHING", "DROP TABLE c")
    postgres.run("CREATE UNLOGGED TABLE c PARTITION OF t DEFAULT")
    assert problems(server) == {
        "t": [
            "the replica identity of its partition public.b is not DEFAULT",
            "its partition public.c is unlogged: its changes are not in the log",
        ]
    }


def test_generated_columns_are_left_out(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED)")
    tables = read_tables(server)
    assert [column.name for column in tables.followed[0].columns] == ["id"]
    assert [str(note) for note in tables.notes] == [
        "column public.t.d: it is generated, and not in the log: the lake does not have it; "
        "compute it in the lake"
    ]


@pytest.fixture
def reader(postgres: PostgresDatabase, logical_server: str) -> Iterator[PostgresServer]:
    """A connection of a user without privileges."""
    user = f"reader_{postgres.name}"
    postgres.run(f"CREATE ROLE {user} LOGIN")
    url = postgres.url.replace("headwater@", f"{user}@")
    with PostgresServer(Address.from_url(url)) as server:
        yield server
    postgres.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def _applied(postgres: PostgresDatabase, finding: Finding) -> None:
    first, _, _ = finding.remedy.partition(", ")
    for statement in first.split(" and "):
        postgres.run(statement)


def test_tables_that_the_user_may_not_read(
    postgres: PostgresDatabase, reader: PostgresServer
) -> None:
    postgres.run("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)")
    (finding,) = read_tables(reader).findings
    assert finding.problem == f"user '{reader.address.user}' may not read it"
    _applied(postgres, finding)
    assert read_tables(reader).findings == []
    reader.rows("SELECT * FROM s.t")


def test_rows_that_are_hidden_from_the_user(
    postgres: PostgresDatabase, reader: PostgresServer
) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "GRANT SELECT ON t TO PUBLIC",
    )
    (finding,) = read_tables(reader).findings
    assert finding.problem.startswith("row level security hides rows from user 'reader_")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.connection.execute("SELECT * FROM public.t")
    _applied(postgres, finding)
    assert read_tables(reader).findings == []
    reader.rows("SELECT * FROM public.t")


def test_types_of_arrays_with_another_delimiter(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run(
        "CREATE TYPE odd",
        "CREATE FUNCTION odd_in(cstring) RETURNS odd IMMUTABLE STRICT LANGUAGE internal "
        "AS 'int4in'",
        "CREATE FUNCTION odd_out(odd) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal "
        "AS 'int4out'",
        "CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = int4, DELIMITER = ':')",
        "CREATE TABLE t (id int PRIMARY KEY, a odd[], b odd)",
    )
    (table,) = read_tables(server).followed
    types = [(column.source_type, str(column.type)) for column in table.columns[1:]]
    assert types == [("public._odd", "STRING"), ("public.odd", "STRING")]


def test_choices_of_types(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n numeric)")
    mapping = [TypeMapping.NUMERIC_NOT_STRING]
    (finding,) = read_tables(server, mapping=mapping).findings
    assert str(finding).startswith("column public.t.n: column type 'numeric' has values that the")
    (table,) = read_tables(server, mapping=[TypeMapping.TO_NULLABLE]).followed
    assert [str(column.type) for column in table.columns] == ["INT", "STRING"]
