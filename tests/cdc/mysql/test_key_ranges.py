"""Tables of a MariaDB server, read in ranges of their keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pymysql.connections import Connection

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.key_ranges import key_ranges, read_range
from headwater.cdc.mysql.server import Address, MySQLServer, connected
from headwater.cdc.source.key_ranges import KeyRange

pytestmark = pytest.mark.mariadb

ROWS = 40

# Definitions of keys, and what makes the key of the row with the number `seq`.
KEYS = {
    "number": ("a BIGINT, PRIMARY KEY (a)", "CAST(seq AS SIGNED) * 7 - 100"),
    "decimal": ("a DECIMAL(20,5), PRIMARY KEY (a)", "seq / 3"),
    "text in any case": (
        "a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, PRIMARY KEY (a)",
        "CONCAT(IF(seq % 2, 'Ä', 'b'), CHAR(97 + seq % 26), seq)",
    ),
    "german text": (
        "a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, PRIMARY KEY (a)",
        "CONCAT(ELT(1 + seq % 4, 'ae', 'ä', 'z', 'ß'), seq)",
    ),
    "quotes": ("a VARCHAR(20), PRIMARY KEY (a)", r"CONCAT('it''s \\ `', seq)"),
    "bytes": ("a VARBINARY(20), PRIMARY KEY (a)", "UNHEX(MD5(seq))"),
    "timestamp": (
        "a DATETIME(6), PRIMARY KEY (a)",
        "'2024-01-01' + INTERVAL seq * 1001 MICROSECOND",
    ),
    "uuid": (
        "a UUID, PRIMARY KEY (a)",
        "CONCAT('123e4567-e89b-12d3-a456-4266141', 74000 + seq * 7)",
    ),
    "enum": ("a ENUM('z', 'y', 'x'), c INT, PRIMARY KEY (a, c)", "1 + seq % 3, seq"),
    "several": (
        "a VARCHAR(9), c INT, d DATE, PRIMARY KEY (a, c, d)",
        "ELT(1 + seq % 2, 'x', 'Y'), seq % 5, '2024-01-01' + INTERVAL seq DAY",
    ),
    "in another order": ("a INT, c INT, PRIMARY KEY (c, a)", "seq, seq % 3"),
}


@pytest.fixture
def connection(shop_source: Address) -> Iterator[Connection]:
    connection = connected(shop_source)
    yield connection
    connection.close()


@pytest.fixture(params=KEYS)
def table(request: pytest.FixtureRequest, shop: MySQLServer) -> SourceTable:
    definition, values = KEYS[request.param]
    shop.rows(f"CREATE TABLE shop.`a table` (`n``1` INT, {definition})")
    shop.rows(f"INSERT INTO shop.`a table` SELECT seq, {values} FROM shop.seq_1_to_{ROWS}")
    (table,) = read_tables(shop, [TableName("shop", "a table")]).followed
    return table


def numbers(
    connection: Connection, source: Address, table: SourceTable, part: KeyRange
) -> list[int]:
    batches = read_range(connection, source, table, part)
    return [number for batch in batches for number in batch.column("n`1").to_pylist()]


@pytest.mark.parametrize("size", [1, 7, ROWS, 1000])
def test_each_row_is_in_one_range(
    connection: Connection, shop_source: Address, table: SourceTable, size: int
) -> None:
    parts = list(key_ranges(connection, shop_source, table, size))
    counts = [numbers(connection, shop_source, table, part) for part in parts]
    assert Counter(number for part in counts for number in part) == Counter(range(1, ROWS + 1))
    if table.columns[1].source_type.startswith("enum"):
        assert parts == [KeyRange()]
    else:
        assert [len(part) for part in counts[:-1]] == [size] * (ROWS // size)


def test_ranges_go_on_after_one_that_was_read(
    connection: Connection, shop_source: Address, table: SourceTable
) -> None:
    parts = list(key_ranges(connection, shop_source, table, 7))
    for index, part in enumerate(parts[:-1]):
        following = key_ranges(connection, shop_source, table, 7, part.until)
        assert list(following) == parts[index + 1 :]


def test_an_empty_table_is_one_range_without_rows(
    shop: MySQLServer, connection: Connection, shop_source: Address
) -> None:
    shop.rows("CREATE TABLE shop.t (`n``1` INT PRIMARY KEY)")
    (table,) = read_tables(shop, [TableName("shop", "t")]).followed
    assert list(key_ranges(connection, shop_source, table, 7)) == [KeyRange()]
    assert numbers(connection, shop_source, table, KeyRange()) == []
