"""Rows of single keys, read from both servers by the key's index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pymysql.connections import Connection
from tests.cdc.source_logs import MARIADB, MYSQL, SourceServer

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.key_ranges import read_range
from headwater.cdc.mysql.key_rows import missing_keys, read_keys
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import to_arrow

ROWS = 1200
NAME = "a `table`"

# Definitions of keys, and what makes the key of the row with the number `n`.
KEYS = {
    "number": ("a INT, PRIMARY KEY (a)", "n * 7 - 100"),
    "unsigned": ("a BIGINT UNSIGNED, PRIMARY KEY (a)", "18446744073709551615 - n"),
    "decimal": ("a DECIMAL(20,9), PRIMARY KEY (a)", "n * 0.000000003 - 0.0000001"),
    "long decimal": ("a DECIMAL(65,30), PRIMARY KEY (a)", "n * 0.000000000000000000000000000007"),
    "double": ("a DOUBLE, PRIMARY KEY (a)", "n / 10e0 - 1e-7"),
    "text": ("a VARCHAR(40), PRIMARY KEY (a)", r"CONCAT('it''s \\ ` 😀', n)"),
    "text in any case": (
        "a VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci, PRIMARY KEY (a)",
        "CONCAT(IF(n % 2, 'Ä', 'b'), CHAR(97 + n % 26), n)",
    ),
    "german text": (
        "a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, PRIMARY KEY (a)",
        "CONCAT(ELT(1 + n % 4, 'ae', 'ä', 'z', 'ß'), n)",
    ),
    "chinese text": (
        "a CHAR(20) CHARACTER SET gbk, b INT, PRIMARY KEY (a, b)",
        "CONCAT('你好', n % 10), n",
    ),
    "bytes": (
        "a VARBINARY(20), b BINARY(8), PRIMARY KEY (a, b)",
        "UNHEX(LEFT(SHA2(n, 256), 32)), CONCAT('b', n % 7)",
    ),
    "date and time": (
        "a DATE, b TIME(3), PRIMARY KEY (a, b)",
        "'2024-01-01' + INTERVAL n DAY, SEC_TO_TIME(n)",
    ),
    "longer time": ("a TIME(6), PRIMARY KEY (a)", "SEC_TO_TIME(n * 1000 - 600000.000001)"),
    "timestamps": (
        "a DATETIME(6), b TIMESTAMP(3), PRIMARY KEY (a, b)",
        "'2024-01-01' + INTERVAL n * 1001 MICROSECOND, '2024-10-27' + INTERVAL n MINUTE",
    ),
    "year": ("a YEAR, b INT, PRIMARY KEY (a, b)", "IF(n % 2, 0, 1901 + n % 200), n"),
    "bits": ("a BIT(9), b BIT(1), c INT, PRIMARY KEY (a, b, c)", "n % 512, n % 2, n"),
    "64 bits": ("a BIT(64), PRIMARY KEY (a)", "18446744073709551615 - n"),
    "enum": ("a ENUM('z', 'y', 'x'), b INT, PRIMARY KEY (a, b)", "1 + n % 3, n"),
    "flag": ("a INT, b TINYINT(1), PRIMARY KEY (a, b)", "n, n % 4"),
    "flag and enum": (
        "a INT, b ENUM('z', 'y'), c TINYINT(1), PRIMARY KEY (a, b, c)",
        "n, 1 + n % 2, -(n % 3)",
    ),
    "several": (
        "a VARCHAR(9), c INT, d DATE, PRIMARY KEY (d, a, c)",
        "ELT(1 + n % 2, 'x', 'Y'), n % 5, '2024-01-01' + INTERVAL n DAY",
    ),
}
OF_MARIADB = {
    "uuid": (
        "a UUID, PRIMARY KEY (a)",
        "CONCAT('123e4567-e89b-12d3-a456-4266141', 74000 + n)",
    ),
    "addresses": (
        "a INET4, b INET6, PRIMARY KEY (a, b)",
        "CONCAT('10.0.0.', n % 100), CONCAT('::', HEX(n))",
    ),
}


class RecordedConnection(Connection):  # type: ignore[misc]
    """A connection that keeps its statements."""

    def __init__(self, address: Address) -> None:
        self.statements: list[str] = []
        super().__init__(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET SESSION time_zone = '+00:00', sql_mode = ''",
        )

    def _execute_command(self, command: int, sql: str | bytes) -> None:
        if isinstance(sql, str):
            self.statements.append(sql)
        super()._execute_command(command, sql)

    def select(self, statement: str) -> Sequence[dict[str, Any]]:
        """The rows of a statement by the names of their columns."""
        with self.cursor() as cursor:
            cursor.execute(statement)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def rows_read(self) -> int:
        """How many rows the session's statements have read, by an index or without."""
        status = self.select("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(row["Value"]) for row in status)


@pytest.fixture
def address(source: SourceServer) -> Address:
    return Address(**source.login)


@pytest.fixture
def connection(address: Address) -> Iterator[RecordedConnection]:
    connection = RecordedConnection(address)
    yield connection
    connection.close()


def create(
    source: SourceServer,
    address: Address,
    definition: str,
    values: str,
    mapping: Sequence[TypeMapping] = (),
) -> SourceTable:
    name = f"`{NAME.replace('`', '``')}`"
    numbers = ", ".join(f"({number})" for number in range(ROWS))
    source.run(
        "CREATE TABLE numbers (n INT PRIMARY KEY)",
        f"INSERT INTO numbers VALUES {numbers}",
        f"CREATE TABLE {name} (`n``1` INT, {definition})",
        f"INSERT INTO {name} SELECT n, {values} FROM numbers",
        f"ANALYZE TABLE {name}",
    )
    return described(source, address, mapping)


def described(
    source: SourceServer, address: Address, mapping: Sequence[TypeMapping] = ()
) -> SourceTable:
    with MySQLServer(address) as server:
        (table,) = read_tables(server, [TableName(source.database, NAME)], mapping=mapping).followed
    return table


def all_rows(connection: Connection, address: Address, table: SourceTable) -> pa.Table:
    return pa.Table.from_batches(read_range(connection, address, table, KeyRange()))


def rows_of(
    connection: Connection, address: Address, table: SourceTable, keys: pa.Table
) -> list[dict[str, Any]]:
    batches = list(read_keys(connection, address, table, keys))
    for batch in batches:
        assert batch.schema.types == [to_arrow(column.type) for column in table.columns]
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda r: r["n`1"])


def keys_of(table: SourceTable, **columns: Sequence[Any]) -> pa.Table:
    types = {column.name: to_arrow(column.type) for column in table.columns}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("source", "name"),
    [
        *(pytest.param("mariadb", name, marks=MARIADB.marks) for name in [*KEYS, *OF_MARIADB]),
        *(pytest.param("mysql", name, marks=MYSQL.marks) for name in KEYS),
    ],
    indirect=["source"],
)
def test_rows_are_found_by_the_index_and_others_are_missing(
    source: SourceServer, address: Address, connection: RecordedConnection, name: str
) -> None:
    table = create(source, address, *{**KEYS, **OF_MARIADB}[name])
    rows = all_rows(connection, address, table)
    assert len(rows) == ROWS
    every_tenth = list(range(0, ROWS, 10))
    keys = rows.select(list(table.primary_key)).take(every_tenth)
    expected = sorted(rows.take(every_tenth).to_pylist(), key=lambda r: r["n`1"])
    before = connection.rows_read()

    assert rows_of(connection, address, table, keys) == expected

    # A key is sought, its row is read, and the next one of the index.
    assert connection.rows_read() - before < 4 * len(keys) < ROWS
    statements = [text for text in connection.statements if "WHERE" in text and "`n``1`" in text]
    plans = [connection.select(f"EXPLAIN FORMAT=TRADITIONAL {text}") for text in statements]
    assert {(plan["type"], plan["key"]) for (plan,) in plans} == {("range", "PRIMARY")}

    source.run(f"DELETE FROM `{NAME.replace('`', '``')}` WHERE `n``1` % 5 = 0")
    keys = rows.select(list(table.primary_key))
    missing = missing_keys(connection, address, table, keys)
    assert missing.equals(keys.filter(pa.array(np.array(rows.column("n`1")) % 5 == 0)))
    assert len(rows_of(connection, address, table, keys)) == ROWS - len(missing)


@pytest.mark.parametrize(
    ("type_", "requested"),
    [
        ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", ["A", "a ", "á", "Á "]),
        ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ["A", "a ", "😀"]),
        ("CHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci", ["A", "á", "?", "😀"]),
        ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", ["A ", "😀", "你"]),
        ("VARCHAR(20) CHARACTER SET utf16", ["A", "a\t", "", "😀"]),
        ("VARBINARY(20)", [b"A", b"a ", b"a\0", b""]),
        ("ENUM('a', 'b')", ["A", "B", "c", ""]),
    ],
)
@pytest.mark.parametrize("columns", ["a", "a, b"])
def test_keys_that_only_a_collation_has_equal_are_others(
    source: SourceServer,
    address: Address,
    connection: RecordedConnection,
    type_: str,
    requested: list[Any],
    columns: str,
) -> None:
    name = f"`{NAME.replace('`', '``')}`"
    other = "b" if type_.startswith("ENUM") else "Z"
    source.run(f"CREATE TABLE {name} (`n``1` INT, a {type_}, b INT, PRIMARY KEY ({columns}))")
    source.run(f"INSERT INTO {name} VALUES (1, 'a', 1), (2, '{other}', 1)")
    table = described(source, address)
    present = b"a" if isinstance(requested[0], bytes) else "a"
    if type_.startswith("CHAR"):
        # As the lake has it.
        present, requested = "a".ljust(20), [value.ljust(20) for value in requested]
    others = {"b": [1] * len(requested)} if "b" in columns else {}
    keys = keys_of(table, a=requested, **others)
    assert rows_of(connection, address, table, keys) == []
    assert missing_keys(connection, address, table, keys).equals(keys)
    others = {"b": [1] * (len(requested) + 1)} if "b" in columns else {}
    both = keys_of(table, a=[*requested, present], **others)
    (row,) = rows_of(connection, address, table, both)
    assert (row["n`1"], row["a"]) == (1, present)
    assert missing_keys(connection, address, table, both).equals(keys)


def test_real_numbers_are_found_by_all_of_their_digits(
    source: SourceServer, address: Address, connection: RecordedConnection
) -> None:
    table = create(source, address, "a FLOAT, PRIMARY KEY (a)", "n / 7e0")
    values = (np.arange(ROWS) / 7).astype(np.float32)
    keys = keys_of(table, a=[*values, np.float32(0.1), np.nan, np.inf, None])
    rows = rows_of(connection, address, table, keys)
    assert sorted(row["a"] for row in rows) == values.tolist()
    missing = missing_keys(connection, address, table, keys)
    assert str(missing.column("a").to_pylist()) == str(
        [np.float32(0.1).item(), np.nan, np.inf, None]
    )


@pytest.mark.parametrize(
    ("key", "mapping"),
    [
        *(
            (KEYS[name], "to-string")
            for name in ("number", "decimal", "timestamps", "enum", "year")
        ),
        (("a FLOAT, PRIMARY KEY (a)", "n / 7e3"), "to-string"),
        (("a DOUBLE(20,3), PRIMARY KEY (a)", "n / 7e0"), "to-string"),
        (("a DOUBLE, PRIMARY KEY (a)", "n * 1e30 / 7"), "to-string"),
        (KEYS["bits"], "to-string"),
        (("a INT(9) ZEROFILL, PRIMARY KEY (a)", "n"), "to-string"),
        (("a DECIMAL(9,3) ZEROFILL, PRIMARY KEY (a)", "n / 7e0"), "to-string"),
        (
            ("a BIGINT UNSIGNED, PRIMARY KEY (a)", "9223372036854775807 - n"),
            "bigint-unsigned-to-bigint",
        ),
        (("a TINYINT(1), b INT, PRIMARY KEY (a, b)", "n % 2, n"), "tinyint1-not-bool"),
    ],
)
def test_keys_of_other_types_in_the_lake(
    source: SourceServer,
    address: Address,
    connection: RecordedConnection,
    key: tuple[str, str],
    mapping: str,
) -> None:
    table = create(source, address, *key, [TypeMapping(mapping)])
    keys = all_rows(connection, address, table).select(list(table.primary_key)).slice(7, 100)
    assert missing_keys(connection, address, table, keys).num_rows == 0
    assert sum(len(batch) for batch in read_keys(connection, address, table, keys)) == 100


def test_text_that_the_column_cannot_have_is_rejected(
    source: SourceServer, address: Address, connection: RecordedConnection
) -> None:
    definition = "a INT, b DATE, PRIMARY KEY (a, b)"
    table = create(source, address, definition, "n, '2024-01-01'", [TypeMapping.TO_STRING])
    for number, day in [("1 OR 1=1", "2024-01-01"), ("1", "'; DROP TABLE t")]:
        keys = keys_of(table, a=["5", number], b=["2024-01-01", day])
        with pytest.raises(Invalid, match=r"with '(1 OR 1=1|'; DROP TABLE t)': the type does not"):
            missing_keys(connection, address, table, keys)


def test_a_flag_is_any_number_but_zero(
    source: SourceServer, address: Address, connection: RecordedConnection
) -> None:
    table = create(source, address, "a TINYINT(1), b INT, PRIMARY KEY (a, b)", "n % 4 - 2, n")
    keys = keys_of(table, a=[True, False, True, True, False], b=[0, 2, 2, 5, 5])
    assert [row["b"] for row in rows_of(connection, address, table, keys)] == [0, 2, 5]
    assert missing_keys(connection, address, table, keys).to_pylist() == [
        {"a": True, "b": 2},
        {"a": False, "b": 5},
    ]


def test_many_keys(source: SourceServer, address: Address, connection: RecordedConnection) -> None:
    count = 100_000
    table = create(
        source, address, "a BIGINT, b VARCHAR(40), PRIMARY KEY (a, b)", "n, CONCAT('key ', n)"
    )
    keys = keys_of(table, a=range(count), b=[f"key {number}" for number in range(count)])
    rows = rows_of(connection, address, table, keys)
    assert [row["a"] for row in rows] == list(range(ROWS))
    assert missing_keys(connection, address, table, keys).equals(keys.slice(ROWS))
    # In any order, and with other columns among them.
    shuffled = keys.take(pa.array(np.random.default_rng(7).permutation(2000)))
    shuffled = shuffled.append_column("n`1", shuffled.column("a")).select(["n`1", "b", "a"])
    assert len(rows_of(connection, address, table, shuffled)) == ROWS
    missing = missing_keys(connection, address, table, shuffled)
    assert missing.column_names == ["a", "b"]
    assert missing.num_rows == 2000 - ROWS


def test_statements_are_as_long_as_the_server_takes(source: SourceServer, address: Address) -> None:
    table = create(
        source, address, "a VARBINARY(700), b INT, PRIMARY KEY (a, b)", "REPEAT('x', n % 700), n"
    )
    (previous,) = source.select("SELECT @@GLOBAL.max_allowed_packet")
    source.run("SET GLOBAL max_allowed_packet = 2048")
    try:
        connection = RecordedConnection(address)
    finally:
        source.run(f"SET GLOBAL max_allowed_packet = {previous[0]}")
    numbers = range(0, ROWS, 2)
    keys = keys_of(table, a=[b"x" * (number % 700) for number in numbers], b=numbers)
    rows = rows_of(connection, address, table, keys)
    assert [row["b"] for row in rows] == list(numbers)
    lengths = [len(text) for text in connection.statements]
    assert 1500 < max(lengths) < 2048
    keys = keys_of(table, a=[b"y", b"x" * 1000], b=[1, 2])
    with pytest.raises(Invalid, match=r"has 2012 bytes, .* set max_allowed_packet to more"):
        rows_of(connection, address, table, keys)
    connection.close()


def test_keys_of_other_columns_are_rejected(
    source: SourceServer, address: Address, connection: RecordedConnection
) -> None:
    table = create(source, address, *KEYS["several"])
    with pytest.raises(Invalid, match=r"column 'd' is missing; give the columns d, a, c"):
        missing_keys(connection, address, table, keys_of(table, a=["x"], c=[1]))
    keys = pa.table({"a": ["x"], "c": [1], "d": ["2024-01-01"]})
    with pytest.raises(Invalid, match="column 'd' with values of type string: it is DATE"):
        list(read_keys(connection, address, table, keys))
    assert list(read_keys(connection, address, table, keys.slice(0, 0))) == []
