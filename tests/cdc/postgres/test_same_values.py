"""Values of all types: a query gives what the log has, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.copy_rows import copied_columns
from headwater.cdc.postgres.key_ranges import read_range
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.postgres.values import lake_values
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.types.data_type import to_arrow

pytestmark = pytest.mark.postgresql

TEXT = ["''", "'a'", r"E'\\N'", r"E'\\n\t\b\f\n\r\v'", r"E'\\\\\''", "'ä€𝄞 '", "repeat('x', 5000)"]
SETUP = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE TYPE public.mood AS ENUM ('sad', 'so, so', 'ok')",
    'CREATE TYPE public."Odd (3) []" AS ENUM (\'a"b\')',
    "CREATE TYPE public.pair AS (a int, b text)",
    "CREATE TYPE public.floats AS RANGE (subtype = float8)",
    "CREATE DOMAIN public.price AS numeric(8,2) CHECK (VALUE > 0)",
    "CREATE DOMAIN public.fair_price AS public.price NOT NULL",
    "CREATE DOMAIN public.grid AS int[]",
)
# Types with expressions for their values; a null is added to each.
TYPES: dict[str, list[str]] = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "0", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "real": ["0.1", "'NaN'", "'-Infinity'", "3.4e38", "1e-45", "'-0'", "1234567.9"],
    "double precision": ["0.1", "'NaN'", "'Infinity'", "1.7e308", "5e-324", "'-0'", "1e15", "1e16"],
    "numeric": ["1.50", "'NaN'", "'-Infinity'", "1e-30", "123456789012345678901234567890.123456"],
    "numeric(12,2)": ["0", "-0.01", "9999999999.99", "1.5"],
    "numeric(38,10)": ["-1234567890123456789012345678.0123456789", "1e-10"],
    "numeric(50,3)": ["12345678901234567890123456789012345678901234567.891"],
    "numeric(4,-2)": ["123456", "-100"],
    "numeric(2,4)": ["0.0012"],
    "money": ["'-1234.56'", "0"],
    "character(5)": ["'a'", "'ä'", "''", "'12345'"],
    "bpchar": ["'a  '"],
    '"char"': ["'a'", "''"],
    "character varying(20)": ["'a '", "''"],
    "character varying": TEXT,
    "text": TEXT,
    "name": ["'pg'"],
    "citext": ["'Ab'"],
    "bytea": [r"'\x'", r"'\x00ff5c0a09'", "decode(repeat('ab', 3000), 'hex')"],
    "date": ["'2026-02-28'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "'12345-01-01'"],
    "time": ["'24:00:00'", "'00:00:00.000001'", "'23:59:59'"],
    "time(3)": ["'01:02:03.004'", "'01:02:03.1'", "'01:02:03'"],
    "time(0)": ["'01:02:03'"],
    "timetz": ["'01:02:03.5+05:30'"],
    "timestamp": ["'2026-01-02 03:04:05.678901'", "'infinity'", "'0001-01-01 BC'", "'20000-1-1'"],
    "timestamp(3)": ["'2026-01-02 03:04:05.678'", "'1900-01-01'"],
    "timestamp(0)": ["'2026-01-02 03:04:05'"],
    "timestamptz": ["'2026-01-02 03:04:05.6+05:30'", "'-infinity'", "'4713-01-01 BC'"],
    "timestamptz(3)": ["'0001-01-01 00:00:00+00'", "'9999-12-31 23:59:59.999+00'"],
    "interval": ["'1 year -2 mons 3 days -04:05:06.789'", "'0'", "'-1 day'"],
    "interval day to second(3)": ["'3 days 04:05:06.789'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "json": [r"""'{"a": [1, "\\n\""],  "a": null}'"""],
    "jsonb": [r"""'{"b": 1.0, "a": "\u00e4"}'"""],
    "jsonpath": ["'$.a[*]'"],
    "xml": ["'<a>&lt;</a>'"],
    "inet": ["'10.0.0.1'", "'10.0.0.1/8'", "'::1'"],
    "cidr": ["'10.0.0.0/8'", "'10.0.0.1/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "bit(1)": ["'1'", "'0'"],
    "bit(11)": ["'10000000001'"],
    "bit varying(7)": ["'0101'", "''"],
    "bit varying": ["'0'"],
    "tsvector": ["to_tsvector('simple', 'a quick fox''s')"],
    "tsquery": ["'a & b'"],
    "point": ["'(1.5,-2)'"],
    "line": ["'{1,2,3}'"],
    "lseg": ["'[(0,0),(1,1)]'"],
    "box": ["'(1,1),(0,0)'"],
    "path": ["'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(2,0))'"],
    "circle": ["'<(1,2),3>'"],
    "oid": ["4294967295"],
    "xid": ["'4294967295'"],
    "xid8": ["'18446744073709551615'"],
    "pg_lsn": ["'16/B374D848'"],
    "hstore": [r"""'a=>"1\\n", b=>NULL'"""],
    "mood": ["'sad'", "'so, so'"],
    '"Odd (3) []"': ["'a\"b'"],
    "pair": ["ROW(1, 'x,\"y\"')", "ROW(NULL, '')"],
    "int4range": ["'[1,5)'", "'empty'", "'(,)'"],
    "tstzrange": ["'[2026-01-01 00:00+01,)'"],
    "datemultirange": ["'{[2026-01-01,2026-02-01),[2026-03-01,2026-04-01)}'"],
    "floats": ["'[0.1,1e20)'"],
    "price": ["1.5"],
    "fair_price": ["2.25"],
    "grid": ["'{1,2}'"],
    "int[]": ["'{1,NULL,3}'", "'{}'"],
    "int[3][]": ["'{1}'"],
    "numeric(6,2)[]": ["'{1.5,-2}'"],
    "text[]": [r"""ARRAY['a,b', '"\', 'NULL', '', NULL, '{}', E'\n', 'ä ']"""],
    "character(3)[]": ["'{a,bc}'"],
    "boolean[]": ["'{t,f,NULL}'"],
    "bytea[]": [r"ARRAY['\x00', '\x']::bytea[]"],
    "timestamptz[]": ["ARRAY['2026-01-02 03:04:05+05:30', NULL]::timestamptz[]"],
    "jsonb[]": [r"""ARRAY['{"a": "b\"\\"}']::jsonb[]"""],
    "mood[]": ["ARRAY['so, so', 'ok']::mood[]"],
    "price[]": ["'{1.5,2}'"],
    "grid[]": ["ARRAY['{1,2}', '{}']::grid[]"],
    "box[]": ["'{(1,1),(0,0);(3,3),(2,2)}'"],
    "int4range[]": ["ARRAY['[1,2)', 'empty']::int4range[]"],
}
EXPECTED_LAKE = {
    "fair_price": "DECIMAL(8, 2)",
    "grid": "ARRAY<INT>",
    "price[]": "ARRAY<DECIMAL(8, 2)>",
    "grid[]": "ARRAY<STRING>",
    "mood[]": "ARRAY<STRING>",
    "int[3][]": "ARRAY<INT>",
    "numeric(6,2)[]": "ARRAY<DECIMAL(6, 2)>",
    "character(5)": "CHAR(5)",
    "citext": "STRING",
    "hstore": "STRING",
    '"Odd (3) []"': "STRING",
}


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


def test_all_types(postgres: PostgresDatabase, server: PostgresServer) -> None:
    # The database's own form of values does not count.
    for setting in ("DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kolkata'", "bytea_output = escape"):
        postgres.run(f"ALTER DATABASE {postgres.name} SET {setting}")
    postgres.run("SET synchronous_commit = on", *SETUP)
    names = [f"c{number}" for number in range(len(TYPES))]
    definitions = ", ".join(f"{name} {type_}" for name, type_ in zip(names, TYPES, strict=True))
    postgres.run(
        f"CREATE TABLE t (id int PRIMARY KEY, {definitions})",
        "CREATE PUBLICATION p FOR TABLE t",
        "SELECT pg_create_logical_replication_slot('s_' || current_database(), 'pgoutput')",
    )
    count = max(map(len, TYPES.values())) + 1
    for row in range(count):
        # Domains that are NOT NULL have their first value again.
        values = [
            texts[row] if row < len(texts) else texts[0] if type_ == "fair_price" else "NULL"
            for type_, texts in TYPES.items()
        ]
        postgres.run(f"INSERT INTO t VALUES ({row}, {', '.join(values)})")
    with PostgresServer(Address.from_url(postgres.url)) as reader:
        _compare(reader, names)


def _compare(server: PostgresServer, names: list[str]) -> None:
    (table,) = read_tables(server, {TableName("public", "t")}).followed
    logged = _logged(server, len(names) + 1)
    selected = ", ".join(["id", *names])
    (copied,) = copied_columns(server, f"SELECT {selected} FROM public.t", len(names) + 1)
    in_lake = {column.name: str(column.type) for column in table.columns}
    for type_, name in zip(TYPES, names, strict=True):
        assert type_ not in EXPECTED_LAKE or in_lake[name] == EXPECTED_LAKE[type_]
    for column, from_log, from_query in zip(table.columns, logged, copied, strict=True):
        assert from_query.to_pylist() == from_log, column
        values = lake_values(pa.array(from_log, pa.binary()), column, BadDates.NULL)
        assert values.type == to_arrow(column.type)
    (batch,) = read_range(server, table, KeyRange(), BadDates.NULL)
    assert batch.schema.names == [column.name for column in table.columns]
    mapping = [TypeMapping.TO_STRING]
    (text_table,) = read_tables(server, {table.name}, mapping=mapping).followed
    (text_batch,) = read_range(server, text_table, KeyRange())
    casts = ", ".join(f"{name}::text" for name in names)
    rows = server.rows(f"SELECT {casts} FROM public.t ORDER BY id")
    as_text = list(zip(*rows, strict=True))
    for name, type_, texts in zip(names, TYPES, as_text, strict=True):
        if type_ not in ("character(5)", "bpchar", "inet"):
            # A cast removes the spaces of CHAR, and adds the length of a network to INET.
            assert text_batch.column(name).to_pylist() == list(texts), type_


def _logged(server: PostgresServer, columns: int) -> list[list[bytes | None]]:
    """The values of inserted rows as pgoutput writes them, a column each."""
    rows = server.rows(
        "SELECT data FROM pg_logical_slot_get_binary_changes('s_' || current_database(), NULL,"
        " NULL, 'proto_version', '1', 'publication_names', 'p')"
    )
    messages = [data for (data,) in rows if isinstance(data, bytes)]
    inserts = [_fields(message) for message in messages if message[:1] == b"I"]
    assert {len(fields) for fields in inserts} == {columns}
    return [list(values) for values in zip(*inserts, strict=True)]


def _fields(message: bytes) -> list[bytes | None]:
    fields: list[bytes | None] = []
    position = 8
    for _ in range(int.from_bytes(message[6:8], "big")):
        if message[position : position + 1] == b"n":
            fields.append(None)
            position += 1
            continue
        size = int.from_bytes(message[position + 1 : position + 5], "big")
        fields.append(message[position + 5 : position + 5 + size])
        position += 5 + size
    return fields


def test_enum_values_that_are_added_later(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run(
        "CREATE TYPE color AS ENUM ('red')",
        "CREATE TABLE t (id color PRIMARY KEY)",
        "INSERT INTO t VALUES ('red')",
    )
    (table,) = read_tables(server).followed
    postgres.run(
        "ALTER TYPE color ADD VALUE 'green' BEFORE 'red'", "INSERT INTO t VALUES ('green')"
    )
    (batch,) = read_range(server, table, KeyRange())
    assert sorted(batch.column("id").to_pylist()) == ["green", "red"]


def test_bits_without_their_number(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run(
        "CREATE TABLE t AS SELECT 1 AS id, B'101' AS b", "ALTER TABLE t ADD PRIMARY KEY (id)"
    )
    (table,) = read_tables(server).followed
    (batch,) = read_range(server, table, KeyRange())
    values: list[Any] = batch.column("b").to_pylist()
    assert values == ["101"]


def test_rows_of_many_chunks(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO t SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE repeat('é', i % 200) END,"
        r" CASE WHEN i % 5 = 0 THEN E'\\' || i || E'\n' END FROM generate_series(1, 40000) i",
    )
    (table,) = read_tables(server).followed
    batches = list(read_range(server, table, KeyRange()))
    assert len(batches) > 1
    rows = pa.Table.from_batches(batches).sort_by("id").to_pylist()
    assert rows == [
        {
            "id": i,
            "a": None if i % 3 == 0 else "é" * (i % 200),
            "b": f"\\{i}\n" if i % 5 == 0 else None,
        }
        for i in range(1, 40001)
    ]


def test_a_read_that_is_given_up_leaves_the_connection_usable(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run("CREATE TABLE t AS SELECT i, repeat('x', 100) FROM generate_series(1, 100000) i")
    columns = copied_columns(server, "SELECT * FROM public.t", 2)
    next(columns)
    columns.close()  # type: ignore[attr-defined]
    assert server.rows("SELECT 1") == [(1,)]
