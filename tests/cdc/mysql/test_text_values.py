"""Rows of queries on a MariaDB server, a column at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pymysql.connections import Connection

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.result_sets import prepared_columns, text_columns
from headwater.cdc.mysql.server import Address, MySQLServer, connected
from headwater.cdc.mysql.text_values import BadDates, lake_values, select_expression
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import to_arrow

pytestmark = pytest.mark.mariadb

NAME = TableName("shop", "t")
UTC = dt.UTC


@pytest.fixture
def connection(shop_source: Address) -> Iterator[Connection]:
    connection = connected(shop_source)
    yield connection
    connection.close()


def described(server: MySQLServer) -> SourceTable:
    (table,) = read_tables(server, [NAME]).followed
    return table


def values(connection: Connection, source: Address, table: SourceTable) -> dict[str, list[Any]]:
    """The values of all rows, by column; their types are checked."""
    rows: dict[str, list[Any]] = {column.name: [] for column in table.columns}
    for batch in prepared_columns(connection, source, _query(table)):
        for column, raw in zip(table.columns, batch, strict=True):
            converted = lake_values(raw, column, BadDates.NULL)
            assert converted.type == to_arrow(column.type)
            converted.validate(full=True)
            rows[column.name] += converted.to_pylist()
    return rows


def _query(table: SourceTable) -> str:
    return f"SELECT {', '.join(map(select_expression, table.columns))} FROM shop.t ORDER BY id"


TYPES: list[tuple[str, list[tuple[str, Any]]]] = [
    ("TINYINT(1)", [("0", False), ("1", True), ("-7", True)]),
    ("TINYINT UNSIGNED", [("255", 255)]),
    ("MEDIUMINT", [("-8388608", -8388608)]),
    ("BIGINT UNSIGNED", [("18446744073709551615", Decimal(18446744073709551615))]),
    ("FLOAT", [("1.5", 1.5)]),
    ("DOUBLE", [("1e-300", 1e-300), ("0.1", 0.1)]),
    ("DECIMAL(38,10)", [("-12345.0000000001", Decimal("-12345.0000000001"))]),
    ("DECIMAL(65,30)", [("1.5", "1.500000000000000000000000000000")]),
    ("BIT(1)", [("b'1'", True), ("b'0'", False)]),
    ("BIT(9)", [("b'100000001'", b"\x01\x01")]),
    ("CHAR(3)", [("'ab'", "ab ")]),
    ("VARCHAR(300) CHARACTER SET latin1", [("'ä'", "ä"), ("REPEAT('ü', 300)", "ü" * 300)]),
    ("LONGTEXT CHARACTER SET utf8mb4", [("REPEAT('😀', 70000)", "😀" * 70000), ("''", "")]),
    ("ENUM('a','it''s')", [("'it''s'", "it's")]),
    ("SET('a','b','c')", [("'a,c'", ["a", "c"]), ("''", [])]),
    ("JSON", [("'{\"a\": [1, 2]}'", '{"a": [1, 2]}')]),
    ("UUID", [("'123e4567-e89b-12d3-a456-426614174000'", "123e4567-e89b-12d3-a456-426614174000")]),
    ("BINARY(4)", [("'ab'", b"ab\0\0")]),
    ("VARBINARY(300)", [("x'00ff'", b"\x00\xff")]),
    ("BLOB", [("REPEAT(x'80', 300)", b"\x80" * 300)]),
    ("DATE", [("'2024-02-29'", dt.date(2024, 2, 29)), ("'0000-00-00'", None)]),
    ("TIME", [("'23:59:59'", dt.time(23, 59, 59)), ("'-00:00:01'", None), ("'838:59:59'", None)]),
    ("TIME(3)", [("'01:02:03.456'", dt.time(1, 2, 3, 456000))]),
    ("TIME(6)", [("'-100:00:00.000001'", "-100:00:00.000001")]),
    ("DATETIME(6)", [("'2024-01-02 03:04:05.000006'", dt.datetime(2024, 1, 2, 3, 4, 5, 6))]),
    ("DATETIME", [("'1000-01-01 00:00:00'", dt.datetime(1000, 1, 1)), ("'2024-00-10'", None)]),
    (
        "TIMESTAMP(3) NULL",
        [("'2024-01-02 03:04:05.006'", dt.datetime(2024, 1, 2, 3, 4, 5, 6000, UTC))],
    ),
    ("YEAR", [("2024", 2024), ("0", 0)]),
    ("POINT", [("NULL", None)]),
]


@pytest.mark.parametrize(("type_", "cases"), TYPES, ids=[type_ for type_, _ in TYPES])
def test_values_of_all_types(
    shop: MySQLServer,
    shop_source: Address,
    connection: Connection,
    type_: str,
    cases: list[tuple[str, Any]],
) -> None:
    shop.rows(f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {type_})")
    for number, (literal, _) in enumerate([*cases, ("NULL", None), *cases]):
        shop.rows(f"INSERT INTO shop.t VALUES ({number}, {literal})")
    wanted = [value for _, value in cases]
    table = described(shop)
    assert values(connection, shop_source, table)["v"] == [*wanted, None, *wanted]


def test_rows_of_several_packets_and_batches(
    shop: MySQLServer, shop_source: Address, connection: Connection
) -> None:
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGTEXT)")
    shop.rows("INSERT INTO shop.t SELECT seq, REPEAT('x', seq % 400) FROM shop.seq_1_to_50000")
    large = {
        0: 40_000_000,
        50_001: (1 << 24) - 12,
        50_002: (1 << 24) - 11,
        50_003: (1 << 24) - 10,
        50_004: 1,
    }
    for number, length in large.items():
        shop.rows("INSERT INTO shop.t VALUES (%s, REPEAT('y', %s))", [number, length])
    table = described(shop)
    rows = values(connection, shop_source, table)
    assert rows["id"] == list(range(50_005))
    lengths = [large.get(number, number % 400) for number in rows["id"]]
    assert [len(text) for text in rows["v"]] == lengths


def test_bytes_that_look_like_the_heads_of_packets(
    shop: MySQLServer, shop_source: Address, connection: Connection
) -> None:
    rows, size = 6000, 12
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY, v BLOB)")
    heads = [bytes([size, 0, 0, number]) + bytes(size) for number in range(30)]
    shop.rows("INSERT INTO shop.t VALUES (0, %s)", [b"".join(heads)])
    # Values begin at many offsets of their rows' packets.
    for first in range(1, rows, 1000):
        shop.rows(
            "INSERT INTO shop.t SELECT seq, CONCAT(REPEAT('x', seq % 50), v) "
            f"FROM shop.t JOIN shop.seq_{first}_to_{first + 999} WHERE id = 0"
        )
    table = described(shop)
    actual = values(connection, shop_source, table)
    assert actual["id"] == list(range(rows + 1))
    assert actual["v"] == [b"x" * (number % 50) + b"".join(heads) for number in range(rows + 1)]


@pytest.mark.parametrize("columns", [text_columns, prepared_columns])
def test_a_result_without_rows_and_a_query_that_is_rejected(
    shop: MySQLServer,
    shop_source: Address,
    connection: Connection,
    columns: Callable[[Connection, Address, str], Iterator[Sequence[object]]],
) -> None:
    assert list(columns(connection, shop_source, "SELECT 1 FROM DUAL WHERE 0")) == []
    with pytest.raises(Invalid, match="rejects a statement: error 1064"):
        list(columns(connection, shop_source, "SELECT FROM"))
    # A mistake that shows only with the rows, after the first of them.
    query = "SELECT (SELECT seq FROM shop.seq_1_to_2 WHERE seq <= a.seq) FROM shop.seq_1_to_3 a"
    with pytest.raises(Invalid, match="more than 1 row"):
        list(columns(connection, shop_source, query))
    assert list(columns(connection, shop_source, "SELECT 1 FROM DUAL WHERE 0")) == []


@pytest.mark.parametrize(
    ("type_", "literal", "shown"),
    [
        ("DATE", "'2024-01-00'", "2024-01-00"),
        ("DATETIME", "'0000-05-01 23:59:59'", "0000-05-01 23:59:59"),
        ("DATETIME(3)", "'2024-02-31 01:02:03.04'", "2024-02-31 01:02:03.040"),
        ("TIMESTAMP(6)", "0", "0000-00-00 00:00:00.000000"),
        ("TIME", "'-00:00:01'", "-00:00:01"),
    ],
)
def test_a_date_that_the_lake_does_not_have_is_named(
    shop: MySQLServer,
    shop_source: Address,
    connection: Connection,
    type_: str,
    literal: str,
    shown: str,
) -> None:
    shop.rows(f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {type_} NULL)")
    shop.rows("SET sql_mode = 'ALLOW_INVALID_DATES'")
    shop.rows(f"INSERT INTO shop.t VALUES (1, '2024-01-01'), (2, {literal})")
    table = described(shop)
    ((_, raw),) = prepared_columns(connection, shop_source, _query(table))
    with pytest.raises(Invalid, match=f"column 'v' has the value '{shown}'"):
        lake_values(raw, table.columns[1])
    assert lake_values(raw, table.columns[1], BadDates.NULL).null_count == 1
