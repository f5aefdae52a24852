"""Compressed logs, JSON and character sets of real servers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest
from tests.cdc.source_logs import SourceServer

from headwater.cdc.mysql import EventType, parse_query
from headwater.cdc.mysql.charsets import charset_of_collation
from headwater.cdc.mysql.compression import inflate_value
from headwater.storage.errors import CorruptData, Unsupported


@pytest.mark.mysql
def test_a_compressed_transaction_of_mysql(mysql: SourceServer) -> None:
    mysql.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "SET SESSION binlog_transaction_compression = ON",
        "INSERT INTO t VALUES (1, REPEAT('a', 2000)), (2, REPEAT('b', 3000))",
        "UPDATE t SET v = REPEAT('c', 100) WHERE id = 2",
        "BEGIN",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (3, NULL)",
        "COMMIT",
    )
    (path, *_) = mysql.log_files()
    assert bytes([0]) + b"a" * 2000 not in path.read_bytes()

    contents = mysql.read_log()
    batch = contents.decode("t")

    assert batch.kinds.to_pylist() == [0, 0, 1, 2, 3, 0]
    assert batch.rows["id"].to_pylist() == [1, 2, 2, 2, 1, 3]
    assert batch.rows["v"].to_pylist() == [
        "a" * 2000, "b" * 3000, "b" * 3000, "c" * 100, "a" * 2000, None,
    ]  # fmt: skip
    assert sum(event.type is EventType.XID for event in contents.events) == 3


@pytest.mark.mariadb
def test_compressed_events_of_mariadb(mariadb: SourceServer) -> None:
    names = ", ".join(f"a_column_with_a_long_name_{n} int" for n in range(20))
    mariadb.run("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10")
    try:
        mariadb.run(
            f"CREATE TABLE t (id int PRIMARY KEY, v mediumtext, {names})",
            "INSERT INTO t (id, v) VALUES (1, REPEAT('a', 2000)), (2, REPEAT('b', 70000))",
            "UPDATE t SET v = REPEAT('c', 1000) WHERE id = 2",
            "DELETE FROM t",
        )
    finally:
        mariadb.run("SET GLOBAL log_bin_compress = OFF")
    assert not any(b"a" * 2000 in path.read_bytes() for path in mariadb.log_files())

    contents = mariadb.read_log()
    batch = contents.decode("t")

    assert batch.kinds.to_pylist() == [0, 0, 1, 2, 3, 3]
    assert batch.rows["v"].to_pylist() == [
        "a" * 2000, "b" * 70000, "b" * 70000, "c" * 1000, "a" * 2000, "c" * 1000,
    ]  # fmt: skip
    queries = [parse_query(event) for event in contents.events if event.type is EventType.QUERY]
    assert any(query.statement.startswith(b"CREATE TABLE t (id int") for query in queries)
    assert {query.database for query in queries} >= {mariadb.database}


def test_rows_before_updates_are_left_out_where_the_key_stays(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (note varchar(20), a int, d datetime, name varchar(300) NOT NULL, "
        "id int, v text, PRIMARY KEY (id, name))",
        "INSERT INTO t VALUES (NULL, 1, NULL, 'x', 1, 'one'), ('n', NULL, 20260102, 'y', 2, NULL)",
        "UPDATE t SET v = 'other', note = IF(id = 1, 'now', NULL), a = 7",
        "UPDATE t SET id = id + 10 WHERE id = 1",
        "UPDATE t SET name = 'Y' WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET v = 'part' WHERE id = 11",
    )
    contents = source.read_log()
    every, needed = contents.decode("t"), contents.decode("t", keys=("id", "name"))
    assert every.kinds.to_pylist() == [0, 0, 1, 2, 1, 2, 1, 2, 1, 2, 3, 1, 2]
    assert needed.kinds.to_pylist() == [0, 0, 2, 2, 1, 2, 1, 2, 3, 1, 2]
    kept = [0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12]
    assert needed.rows.to_pylist() == every.rows.take(kept).to_pylist()
    assert needed.column_set is not None
    assert every.column_set is not None
    assert needed.column_set.to_pylist() == every.column_set.take(kept).to_pylist()
    assert (every.left_out, needed.left_out) == (0, 2)


@pytest.mark.mariadb
def test_types_that_only_the_information_schema_of_mariadb_has(mariadb: SourceServer) -> None:
    mariadb.run(
        "CREATE TABLE t (id int PRIMARY KEY, a inet6, b inet4, c uuid, d json)",
        """INSERT INTO t VALUES (1, '::1', '1.2.3.4',
        '123e4567-e89b-42d3-a456-426614174000', '{"a":  1}'), (2, NULL, NULL, NULL, NULL)""",
        "INSERT INTO t VALUES (3, '::', '0.0.0.0', '00000000-0000-0000-0000-000000000000', '[]')",
    )
    batch = mariadb.read_log().decode("t")
    rows = [list(row.values()) for row in batch.rows.to_pylist()]
    uuid = bytes.fromhex("123e4567e89b42d3a456426614174000")
    assert rows[0] == [1, bytes(15) + b"\1", bytes([1, 2, 3, 4]), rows[0][3], '{"a":  1}']
    assert sorted(rows[0][3]) == sorted(uuid)
    assert rows[1] == [2, None, None, None, None]
    assert rows[2] == [3, bytes(16), bytes(4), bytes(16), "[]"]


JSON_VALUES = [
    "'null'", "'true'", "'false'", "'0'", "'-1'", "'32767'", "'-32768'", "'65535'", "'70000'",
    "'-2147483648'", "'4294967295'", "'9223372036854775807'", "'-9223372036854775808'",
    "'18446744073709551615'", "'1.0'", "'0.1'", "'-0.0'", "'1e100'", "'1.5e-30'", "'123456789.125'",
    "'1e15'", "'1e16'", "'123456789012345678'", "'1.2345678901234567e17'", "'1e-5'", "'1.5e-15'",
    "'1e14'", "'0.0001'", "'2.5e-10'", "'1e20'", "'3.0e15'", "'1.1e-14'",
    "'\"\"'", "'\"text\"'", r"""'"quotes \\" and \\\\ and \\n and \\u0001 / ü 😀"'""",
    "'{}'", "'[]'", """'{"b": 1, "aa": [1, 2.5, "x", null, {"c": []}], "": false}'""",
    "JSON_ARRAY(CAST('12.340' AS DECIMAL(10,3)), CAST(-5 AS DECIMAL(20,0)))",
    "JSON_ARRAY(CAST('-0.05' AS DECIMAL(65,30)))",
    "JSON_ARRAY(CAST('2026-01-02' AS DATE), CAST('-12:34:56.5' AS TIME(6)))",
    "JSON_ARRAY(CAST('2026-01-02 03:04:05.678' AS DATETIME(3)), TIMESTAMP'2026-01-02 03:04:05')",
    "JSON_OBJECT('b', x'00ff80', 'bit', b'101')",
    *(f"JSON_ARRAY(CAST(REPEAT('x', {size}) AS BINARY))" for size in (57, 58, 114, 200)),
    "JSON_OBJECT('long', REPEAT('x', 200), 'longer', REPEAT('y', 20000))",
    "JSON_ARRAY(REPEAT('z', 70000), 1, 70000, -3000000000, CAST('[1, 2]' AS JSON))",
]  # fmt: skip


@pytest.mark.mysql
def test_binary_json_equals_what_select_returns(mysql: SourceServer) -> None:
    mysql.run("CREATE TABLE t (id int PRIMARY KEY, j json)", "INSERT INTO t VALUES (0, NULL)")
    for number, value in enumerate(JSON_VALUES, 1):
        mysql.run(f"INSERT INTO t VALUES ({number}, {value})")
    many = json.dumps([{"k": n, "v": [n / 7, str(n), n * 100_000]} for n in range(4000)])
    with mysql.session() as cursor:
        cursor.execute("INSERT INTO t VALUES (1000, %s)", (many,))

    batch = mysql.read_log().decode("t")

    expected = dict(mysql.select("SELECT id, j FROM t"))
    decoded = dict(zip(batch.rows["id"].to_pylist(), batch.rows["j"].to_pylist(), strict=True))
    assert {number: decoded[number] for number in expected} == expected


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"\x91\x01a", "a value of column 'v': compression header 0x91 is unknown"),
        (b"\x89\x05abcde", "a value of column 'v': Error"),
        (b"\x81\x09" + zlib.compress(b"four"), "a value of column 'v': expected 9 bytes, got 4"),
    ],
)
def test_a_compressed_value_that_cannot_be_read(value: bytes, error: str) -> None:
    with pytest.raises((CorruptData, Unsupported), match=error):
        inflate_value(value, "v")


NO_CODEC = {"armscii8", "eucjpms", "geostd8", "keybcs2"}


def _collations(source: SourceServer) -> Iterator[tuple[int, str]]:
    table = "collations WHERE character_set_name IS NOT NULL"
    if source.select("SELECT VERSION() LIKE '%MariaDB%'")[0][0]:
        table = "collation_character_set_applicability"
    yield from source.select(f"SELECT id, character_set_name FROM information_schema.{table}")


def test_every_collation_has_its_character_set(source: SourceServer) -> None:
    for collation, name in _collations(source):
        if name in NO_CODEC or name == "binary":
            with pytest.raises(Unsupported, match=f"character set {name} of collation"):
                charset_of_collation(collation)
        else:
            assert charset_of_collation(collation).name == name, collation


def test_characters_equal_those_of_the_server(source: SourceServer) -> None:
    """Each byte, and each pair of bytes, that is a character to the server."""
    source.run("CREATE TABLE codes (b varbinary(2))")
    with source.session() as cursor:
        codes = [bytes([byte]) for byte in range(256)]
        codes += [bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x40, 0xFF, 2)]
        for first in range(0, len(codes), 8000):
            values = ",".join(f"(x'{code.hex()}')" for code in codes[first : first + 8000])
            cursor.execute(f"INSERT INTO codes VALUES {values}")
    for name in sorted({name for _, name in _collations(source)} - NO_CODEC - {"binary"}):
        if name.startswith(("utf", "ucs")):
            continue
        collation = min(number for number, other in _collations(source) if other == name)
        charset = charset_of_collation(collation)
        # A byte that begins a pair may stand for a character of its own: only what the server
        # encodes as the same bytes counts.
        characters = f"CONVERT(CONVERT(b USING {name}) USING utf8mb4)"
        rows = source.select(
            f"SELECT b, {characters} FROM codes WHERE CHAR_LENGTH(CONVERT(b USING {name})) = 1 "
            f"AND CAST(CONVERT({characters} USING {name}) AS BINARY) = b"
        )
        decoded = {code: _decoded(charset, code) for code, _ in rows}
        wrong = [(code, text) for code, text in rows if decoded[code] not in (text, None)]
        wrong = [(code, text) for code, text in wrong if text != "\ufffd"]
        assert wrong == [], name
        # Python's codec of ujis does not have the characters that users define.
        undecoded = [(code, text) for code, text in rows if decoded[code] is None]
        assert [item for item in undecoded if not "\ue000" <= item[1] <= "\uf8ff"] == [], name


def _decoded(charset: object, code: bytes) -> str | None:
    from headwater.cdc.columns import Charset

    assert isinstance(charset, Charset)
    try:
        return charset.decode(code)
    except CorruptData:
        return None
