"""Tables of a PostgreSQL server, read in ranges of their keys and by single keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.key_ranges import key_ranges, read_range
from headwater.cdc.postgres.key_rows import missing_keys, read_keys
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.errors import Conflict, Invalid, Unsupported

pytestmark = pytest.mark.postgresql

ROWS = 40
NO_CASE = "und-u-ks-level2"
SETUP = (
    f"CREATE COLLATION any_case (provider = icu, locale = '{NO_CASE}', deterministic = false)",
    "CREATE COLLATION german (provider = icu, locale = 'de-u-co-phonebk')",
    "CREATE TYPE mood AS ENUM ('z', 'y', 'x')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE EXTENSION citext",
    "CREATE SCHEMA further",
    "CREATE EXTENSION ltree SCHEMA further",
)
# Definitions of keys, and what makes the key of the row with the number `seq`.
KEYS = {
    "number": ("a bigint, PRIMARY KEY (a)", "seq * 7 - 100"),
    "numeric": ("a numeric, PRIMARY KEY (a)", "(seq / 3.0)::numeric(20,5)"),
    "small numeric": ("a numeric(30,20), PRIMARY KEY (a)", "seq * 1e-20"),
    "double": ("a double precision, PRIMARY KEY (a)", "seq / 3.0::float8 - 5"),
    "infinite double": (
        "a double precision, PRIMARY KEY (a)",
        "CASE seq WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE seq * 1e300 END",
    ),
    "real": ("a real, PRIMARY KEY (a)", "(seq / 3.0)::real"),
    "boolean": ("a boolean, c int, PRIMARY KEY (a, c)", "seq % 2 = 0, seq"),
    "text": ("a text, PRIMARY KEY (a)", "chr(64 + seq) || seq"),
    "text of bytes": ('a text COLLATE "C", PRIMARY KEY (a)', "chr(64 + seq * 7) || seq"),
    "german text": (
        "a text COLLATE german, PRIMARY KEY (a)",
        "(ARRAY['ae', 'ä', 'z', 'ß'])[1 + seq % 4] || seq",
    ),
    "any case": (
        "a varchar(20) COLLATE any_case, PRIMARY KEY (a)",
        "(CASE seq % 2 WHEN 0 THEN 'Ä' ELSE 'b' END) || chr(97 + seq % 26) || seq",
    ),
    "citext": ("a citext, PRIMARY KEY (a)", "chr(64 + seq % 26) || seq"),
    "citext of any case": (
        "a citext, PRIMARY KEY (a)",
        "chr(CASE seq % 2 WHEN 0 THEN 65 ELSE 97 END + seq % 26) || seq",
    ),
    "tree": ("a further.ltree, PRIMARY KEY (a)", "('a.b' || seq)::further.ltree"),
    "trees and numbers": (
        "k0 int, c further.ltree, a citext, PRIMARY KEY (c, k0, a)",
        "seq % 4, ('a.b' || seq % 3)::further.ltree, chr(65 + seq % 2 * 32) || seq",
    ),
    "quotes": ("a text, PRIMARY KEY (a)", r"E'it''s \\ \" \n , {} NULL ' || seq"),
    "char": ("a char(6), PRIMARY KEY (a)", "seq || ' '"),
    "bytes": ("a bytea, PRIMARY KEY (a)", "decode(md5(seq::text), 'hex')"),
    "bits": ("a bit(11), PRIMARY KEY (a)", "seq::bit(11)"),
    "bit": ("a bit(1), c int, PRIMARY KEY (a, c)", "(seq % 2)::bit(1), seq"),
    "date": ("a date, PRIMARY KEY (a)", "'2024-01-01'::date + seq"),
    "timestamp": (
        "a timestamp, PRIMARY KEY (a)",
        "'2024-01-01'::timestamp + seq * interval '1001 us'",
    ),
    "instant": (
        "a timestamptz(3), PRIMARY KEY (a)",
        "'2024-01-01'::timestamptz + seq * interval '7 ms'",
    ),
    "time": ("a time(3), PRIMARY KEY (a)", "'01:00'::time + seq * interval '1 ms'"),
    "interval": ("a interval, PRIMARY KEY (a)", "seq * interval '-1 day 00:00:01'"),
    "uuid": ("a uuid, PRIMARY KEY (a)", "md5(seq::text)::uuid"),
    "inet": ("a inet, PRIMARY KEY (a)", "'10.0.0.0'::inet + seq"),
    "json": ("a jsonb, PRIMARY KEY (a)", "jsonb_build_object('a', seq)"),
    "enum": ("a mood, c int, PRIMARY KEY (a, c)", "(ARRAY['z', 'y', 'x'])[1 + seq % 3]::mood, seq"),
    "domain": ("a positive, PRIMARY KEY (a)", "seq"),
    "several": (
        "a varchar(9), c int, d date, PRIMARY KEY (a, c, d)",
        "(ARRAY['x', 'Y'])[1 + seq % 2], seq % 5, '2024-01-01'::date + seq",
    ),
    "in another order": ("a int, c int, PRIMARY KEY (c, a)", "seq, seq % 3"),
    "partitioned": ("a int, PRIMARY KEY (a)) PARTITION BY HASH (a", "seq"),
}


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


def made(
    postgres: PostgresDatabase,
    server: PostgresServer,
    definition: str,
    values: str,
    count: int = ROWS,
) -> SourceTable:
    postgres.run(*SETUP, f'CREATE TABLE "T t" ("v " int, {definition})')
    if "PARTITION" in definition:
        for part in range(2):
            of = f"FOR VALUES WITH (MODULUS 2, REMAINDER {part})"
            postgres.run(f'CREATE TABLE p{part} PARTITION OF "T t" {of}')
    postgres.run(f'INSERT INTO "T t" SELECT seq, {values} FROM generate_series(1, {count}) seq')
    (table,) = read_tables(server, {TableName("public", "T t")}).followed
    return table


@pytest.mark.parametrize("key", KEYS)
def test_ranges_have_each_row_once(
    postgres: PostgresDatabase, server: PostgresServer, key: str
) -> None:
    table = made(postgres, server, *KEYS[key])
    ranges = list(key_ranges(server, table, 7))
    assert len(ranges) == 1 + ROWS // 7
    assert (ranges[0].after, ranges[-1].until) == (None, None)
    assert [part.until for part in ranges[:-1]] == [part.after for part in ranges[1:]]
    rows: Counter[int] = Counter()
    for part in ranges:
        batches = list(read_range(server, table, part))
        assert all(batch.schema.names == [one.name for one in table.columns] for batch in batches)
        numbers = [number for batch in batches for number in batch.column("v ").to_pylist()]
        assert part.until is None or len(numbers) == 7
        rows.update(numbers)
    assert rows == Counter(range(1, ROWS + 1))
    # A bound that was read before begins the others, whether it is there any more or not.
    assert list(key_ranges(server, table, 7, ranges[2].until)) == ranges[3:]
    postgres.run('DELETE FROM "T t"')
    assert list(key_ranges(server, table, 7, ranges[2].until)) == [KeyRange(ranges[2].until)]
    assert list(key_ranges(server, table, 7)) == [KeyRange()]
    assert list(read_range(server, table, KeyRange())) == []


@pytest.mark.parametrize("key", KEYS)
def test_rows_of_keys(postgres: PostgresDatabase, server: PostgresServer, key: str) -> None:
    table = made(postgres, server, *KEYS[key])
    rows = pa.Table.from_batches(list(read_range(server, table, KeyRange())))
    rows = rows.sort_by("v ")
    keys = rows.select(list(table.primary_key))
    postgres.run('DELETE FROM "T t" WHERE "v " % 4 = 0')
    # Each key is there in one batch of the lake's rows, in any order of columns.
    wanted = rows.filter(pa.array([number % 3 == 0 for number in rows.column("v ").to_pylist()]))
    batches = list(read_keys(server, table, wanted))
    read = pa.Table.from_batches(batches, rows.schema).sort_by("v ")
    expected = [number for number in range(1, ROWS + 1) if number % 3 == 0 and number % 4]
    assert read.column("v ").to_pylist() == expected
    # As text, as NaN equals nothing.
    rows_of_them = [row for row in rows.to_pylist() if row["v "] in set(expected)]
    assert str(read.to_pylist()) == str(rows_of_them)
    missing = missing_keys(server, table, keys)
    gone = rows.filter(pa.array([number % 4 == 0 for number in rows.column("v ").to_pylist()]))
    assert str(missing.to_pylist()) == str(gone.select(list(table.primary_key)).to_pylist())
    assert missing_keys(server, table, keys.slice(0, 0)).num_rows == 0
    assert list(read_keys(server, table, keys.slice(0, 0))) == []


@pytest.mark.parametrize(
    ("definition", "value", "other"),
    [
        ("a text COLLATE any_case, PRIMARY KEY (a)", "'a'", "A"),
        ("a citext, PRIMARY KEY (a)", "'a'", "A"),
        ("a numeric, PRIMARY KEY (a)", "1.50", "1.5"),
    ],
)
def test_equal_keys_of_other_bytes_are_other_keys(
    postgres: PostgresDatabase, server: PostgresServer, definition: str, value: str, other: str
) -> None:
    table = made(postgres, server, definition, value, 1)
    keys = pa.table({"a": [other]})
    assert sum(batch.num_rows for batch in read_keys(server, table, keys)) == 0
    assert missing_keys(server, table, keys).equals(keys)
    same = pa.table({"a": [value.strip("'")]})
    assert sum(batch.num_rows for batch in read_keys(server, table, same)) == 1
    assert missing_keys(server, table, same).num_rows == 0


def test_more_keys_than_a_statement_has(postgres: PostgresDatabase, server: PostgresServer) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    postgres.run("INSERT INTO t SELECT * FROM generate_series(1, 25000)")
    (table,) = read_tables(server).followed
    keys = pa.table({"id": pa.array(range(2, 25003), pa.int32())})
    assert sum(batch.num_rows for batch in read_keys(server, table, keys)) == 24999
    assert missing_keys(server, table, keys).column("id").to_pylist() == [25001, 25002]


def test_rows_of_tables_that_inherit_are_not_read(
    postgres: PostgresDatabase, server: PostgresServer
) -> None:
    postgres.run(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (2), (3)",
    )
    (table,) = read_tables(server, {TableName("public", "parent")}).followed
    (batch,) = read_range(server, table, KeyRange())
    assert batch.column("id").to_pylist() == [1]
    assert list(key_ranges(server, table, 2)) == [KeyRange()]
    keys = pa.table({"id": pa.array([1, 2], pa.int32())})
    assert missing_keys(server, table, keys).column("id").to_pylist() == [2]


def test_keys_that_cannot_be_compared(postgres: PostgresDatabase, server: PostgresServer) -> None:
    table = made(postgres, server, "a int[], PRIMARY KEY (a)", "ARRAY[seq]")
    assert len(list(key_ranges(server, table, 7))) == 6
    keys = pa.table({"a": pa.array([[1]], pa.list_(pa.int32()))})
    with pytest.raises(Unsupported, match="change the table's primary key"):
        list(read_keys(server, table, keys))
    with pytest.raises(Invalid, match="column 'a' is missing"):
        list(read_keys(server, table, pa.table({"b": [1]})))
    with pytest.raises(Invalid, match="give values of type list"):
        list(read_keys(server, table, pa.table({"a": [1]})))
    postgres.run('DROP TABLE "T t"')
    with pytest.raises(Conflict, match="does not exist"):
        list(read_range(server, table, KeyRange()))
