"""Every type gives the same Arrow values from a query and from the log, on both servers."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cdc.source_logs import MARIADB, MYSQL, LogContents, SourceServer
from tests.cdc.source_values import CHOICES, FAMILIES, FRACTIONS, Columns

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.mysql import DecodeOptions, RowBatch
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.key_ranges import read_range
from headwater.cdc.mysql.log_values import log_values
from headwater.cdc.mysql.server import MySQLServer, connected
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import parse_type, to_arrow

# The session settings of those who write.
SESSIONS = [
    ("+00:00", ""),
    ("+05:45", "ALLOW_INVALID_DATES"),
    ("-08:00", "STRICT_ALL_TABLES,ANSI_QUOTES,PIPES_AS_CONCAT"),
    ("+13:00", "PAD_CHAR_TO_FULL_LENGTH"),
]
# The choice of text is the last one: its dates are decoded in another way.
MAPPINGS: list[Collection[TypeMapping]] = [
    (),
    *((mapping,) for mapping in TypeMapping if mapping is not TypeMapping.TO_STRING),
    (TypeMapping.TO_STRING,),
]


def write_rows(source: SourceServer, columns: Columns, table: str = "t") -> None:
    """Insert every value in each of the sessions, and update all rows in another one."""
    named = {f"c{index}": item for index, item in enumerate(columns.items())}
    definitions = ", ".join(f"{name} {type_}" for name, (type_, _) in named.items())
    source.run(f"CREATE TABLE {table} (id int PRIMARY KEY, writes int, {definitions})")
    written = {name: values for name, (type_, values) in named.items() if "generated" not in type_}
    count = max([*(len(values) for values in written.values()), 2]) + 1
    for number, (zone, mode) in enumerate(SESSIONS):
        rows = [
            f"({number * count + row}, 0"
            + "".join(f", {_literal(values, row)}" for values in written.values())
            + ")"
            for row in range(count)
        ]
        with source.session() as cursor:
            cursor.execute(f"SET SESSION time_zone = '{zone}', sql_mode = '{mode}'")
            names = ", ".join(["id", "writes", *written])
            cursor.execute(f"INSERT IGNORE INTO {table} ({names}) VALUES {', '.join(rows)}")
            # In its own zone, an instant that is updated would be another one.
            zone, mode = SESSIONS[number - 1]
            cursor.execute(f"SET SESSION time_zone = '{zone}', sql_mode = '{mode}'")
            cursor.execute(
                f"UPDATE IGNORE {table} SET writes = 1 WHERE id BETWEEN %s AND %s",
                (number * count, number * count + count - 1),
            )


def _literal(values: Sequence[str], row: int) -> str:
    return values[row] if row < len(values) else "DEFAULT"


def described(
    source: SourceServer, mapping: Collection[TypeMapping] = (), table: str = "t"
) -> SourceTable:
    with MySQLServer(source.address) as server:
        tables = read_tables(server, [TableName(source.database, table)], mapping=mapping)
    assert tables.findings == []
    (described_table,) = tables.followed
    return described_table


def selected(source: SourceServer, table: SourceTable, bad_dates: BadDates) -> pa.Table:
    """The rows as a query reads them, ordered by their keys."""
    connection = connected(source.address)
    try:
        batches = list(read_range(connection, source.address, table, KeyRange(), bad_dates))
    finally:
        connection.close()
    return pa.Table.from_batches(batches).combine_chunks().sort_by("id")


def decoded(log: LogContents, table: SourceTable, bad_dates: BadDates) -> RowBatch:
    return log.decode(table.name.table, DecodeOptions.for_table(table, bad_dates))


def logged(
    batch: RowBatch, table: SourceTable, kind: RowKind, bad_dates: BadDates = BadDates.NULL
) -> pa.Table:
    """The rows as the log has them after an operation, ordered by their keys."""
    shapes = {shape.name: shape for shape in batch.shape.columns}
    arrays = [
        log_values(batch.rows[column.name], shapes[column.name], column, bad_dates)
        for column in table.columns
    ]
    rows = pa.table(arrays, [column.name for column in table.columns])
    return rows.filter(pc.equal(batch.kinds, kind)).combine_chunks().sort_by("id")


def assert_same(table: SourceTable, from_query: pa.Table, from_log: pa.Table) -> None:
    assert from_query.num_rows == from_log.num_rows > 0
    for column in table.columns:
        arrays = [rows[column.name].combine_chunks() for rows in (from_query, from_log)]
        for array in arrays:
            array.validate(full=True)
            assert array.type == to_arrow(column.type)
        expected, actual = map(_exact, arrays)
        if not actual.equals(expected):
            pairs = zip(expected.to_pylist(), actual.to_pylist(), strict=True)
            assert [pair for pair in pairs if pair[0] != pair[1]][:5] == [], column


def _exact(array: pa.Array) -> pa.Array:
    """An array of which zeros with another sign are other values."""
    if pa.types.is_floating(array.type):
        return array.view(pa.int32() if array.type == pa.float32() else pa.int64())
    return array


def families(names: Iterable[str]) -> pytest.MarkDecorator:
    """Each family of types on the servers that have it."""
    cases = [
        pytest.param(server.values[0], name, marks=server.marks)
        for server, other in [(MARIADB, "mysql"), (MYSQL, "mariadb")]
        for name in names
        if name.split()[0] != other
    ]
    return pytest.mark.parametrize(("source", "family"), cases, indirect=["source"])


# Values that some choices of types do not have: they are errors, see below.
ERRORS = {
    ("numbers", TypeMapping.BIGINT_UNSIGNED_TO_BIGINT),
    ("bytes", TypeMapping.TO_STRING),
    ("mariadb bytes", TypeMapping.TO_STRING),
}


@families(FAMILIES)
def test_a_query_and_the_log_give_the_same_values(source: SourceServer, family: str) -> None:
    write_rows(source, FAMILIES[family])
    log = source.read_log()
    batch = decoded(log, described(source), BadDates.NULL)

    for mapping in MAPPINGS:
        if any((family, choice) in ERRORS for choice in mapping):
            continue
        table = described(source, mapping)
        if TypeMapping.TO_STRING in mapping:
            batch = decoded(log, table, BadDates.NULL)
        from_query = selected(source, table, BadDates.NULL)
        assert_same(table, from_query, logged(batch, table, RowKind.UPDATE_AFTER))
        inserted = logged(batch, table, RowKind.INSERT)
        columns = [column for column in table.columns if column.name != "writes"]
        assert_same(replace(table, columns=columns), from_query, inserted)


@families(["numbers", "fractions", "instants", "choices", "mariadb"])
def test_text_is_that_of_the_server(source: SourceServer, family: str) -> None:
    write_rows(source, FAMILIES[family])
    table = described(source, [TypeMapping.TO_STRING])
    batch = decoded(source.read_log(), table, BadDates.FAIL)
    rows = logged(batch, table, RowKind.UPDATE_AFTER, BadDates.FAIL)

    # A server shows six digits of a float, zeros before a number, and the bytes of bits.
    unlike = ("float", "(10,2)", "zerofill", "bit(")
    columns = [
        column for column in table.columns if not any(word in column.source_type for word in unlike)
    ]
    texts = ", ".join(f"CONCAT({column.name})" for column in columns)
    server_rows = source.select(f"SELECT {texts} FROM t ORDER BY CONCAT(id)")
    for column, values in zip(columns, zip(*server_rows, strict=True), strict=True):
        expected = [text.decode() if isinstance(text, bytes) else text for text in values]
        assert rows[column.name].to_pylist() == expected, column


def decoded_alone(log: LogContents, table: SourceTable, column: SourceColumn) -> pa.Array:
    """The values of one column; dates of other columns do not fail."""
    others = frozenset(other.name for other in table.columns if other != column)
    batch = log.decode(table.name.table, DecodeOptions(BadDates.FAIL, others))
    index = batch.rows.column_names.index(column.name)
    return log_values(batch.rows[index], batch.shape.columns[index], column)


def failures(source: SourceServer, mapping: Collection[TypeMapping] = ()) -> list[str]:
    """The errors of a query and of the log, for one column at a time."""
    log = source.read_log()
    table = described(source, mapping)
    messages: list[str] = []
    for column in table.columns[2:]:
        key_and_column = replace(table, columns=[table.columns[0], column])
        with pytest.raises(Invalid) as from_query:
            selected(source, key_and_column, BadDates.FAIL)
        with pytest.raises(Invalid) as from_log:
            decoded_alone(log, table, column)
        assert str(from_query.value) == str(from_log.value)
        messages.append(str(from_query.value))
    return messages


def test_bad_dates_and_times_fail_with_the_same_message(source: SourceServer) -> None:
    columns = {
        "date": ["'2024-01-01'", "'0000-00-00'"],
        "datetime(2)": ["'2024-02-30 10:20:30.45'"],
        "datetime": ["'2024-00-10 10:20:30'"],
        "datetime(6)": ["'0000-05-06 00:00:00.000001'"],
        "timestamp(3) null": ["0"],
        "timestamp null": ["NULL", "0"],
        "time": ["'24:00:00'"],
        "time(3)": ["'01:02:03'", "'-00:00:00.5'"],
        "time(2)": ["'838:00:01'"],
    }
    names = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(columns))
    source.run(
        f"CREATE TABLE t (id int PRIMARY KEY, writes int, {names})",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        *(
            f"INSERT INTO t VALUES ({row}, 0, "
            + ", ".join(_literal(values, row) for values in columns.values())
            + ")"
            for row in range(2)
        ),
    )
    values = [message.split("'")[3] for message in failures(source)]
    assert values == [
        "0000-00-00", "2024-02-30 10:20:30.45", "2024-00-10 10:20:30",
        "0000-05-06 00:00:00.000001", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00",
        "24:00:00", "-00:00:00.500", "838:00:01.00",
    ]  # fmt: skip


def test_values_beyond_a_chosen_type_fail_with_the_same_message(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, writes int, a bigint unsigned)",
        "INSERT INTO t VALUES (1, 0, 5), (2, 0, 9223372036854775808), (3, 0, 1)",
    )
    (message,) = failures(source, [TypeMapping.BIGINT_UNSIGNED_TO_BIGINT])
    assert "column 'a' of type bigint" in message
    assert "has the value '9223372036854775808', which BIGINT of the lake" in message


def test_bytes_that_are_not_text_do_not_become_text(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, writes int, a varbinary(9), b blob)",
        "INSERT INTO t VALUES (1, 0, x'616263', x'c3a4'), (2, 0, x'80', x'00ff')",
    )
    messages = failures(source, [TypeMapping.TO_STRING])
    assert "column 'a' of type varbinary(9) has the value '0x80'" in messages[0]
    assert "column 'b' of type blob has the value" in messages[1]


WIDER = [
    ("tinyint", "BIGINT", ["-128", "127"]),
    ("bigint", "INT", ["-2147483648", "2147483647"]),
    ("mediumint unsigned", "DECIMAL(20, 4)", ["16777215"]),
    ("bigint unsigned", "DECIMAL(38, 2)", ["18446744073709551615"]),
    ("int", "DOUBLE", ["-2147483648"]),
    ("bigint unsigned", "DOUBLE", ["9007199254740992"]),
    ("float", "DOUBLE", ["0.1", "1e-45"]),
    ("decimal(10,2)", "DECIMAL(38, 20)", ["-99999999.99"]),
    ("decimal(65,30)", "DECIMAL(38, 30)", ["-99999999.5"]),
    ("varchar(50)", "VARCHAR(100)", ["'ä'"]),
    ("varchar(50)", "VARCHAR(3)", ["'äöü'"]),
    ("enum('a','b')", "VARCHAR(1)", ["'b'"]),
    ("varchar(50)", "BYTES", ["'ä'"]),
    ("varbinary(50)", "VARBINARY(3)", ["x'010203'"]),
    ("bit(9)", "BINARY(4)", ["b'100000001'"]),
    ("bit(1)", "BINARY(2)", ["1", "0"]),
    ("date", "TIMESTAMP(3)", ["'9999-12-31'", "'1969-12-31'", "'0000-00-00'", "'0001-01-01'"]),
    ("datetime(3)", "TIMESTAMP(6)", ["'9999-12-31 23:59:59.999'", "'1001-01-01'"]),
    ("timestamp(2) null", "TIMESTAMP(6) WITH LOCAL TIME ZONE", ["'2038-01-19 03:14:07.99'"]),
    ("time", "TIME(3)", ["'23:59:59'", "'-00:00:01'"]),
    *[
        (type_, "STRING", [value])
        for type_, value in [
            ("int", "-5"), ("year", "0"), ("date", "'0000-00-00'"), ("bit(12)", "2049"),
            ("datetime(1)", "'2024-01-02 03:04:05.6'"), ("time(3)", "'-800:00:01.5'"),
            ("decimal(5,2)", "-0.05"), ("set('a','b')", "'a,b'"), ("double", "1e-7"),
        ]
    ],
]  # fmt: skip


def test_the_type_of_the_lake_may_be_wider(source: SourceServer) -> None:
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _, _) in enumerate(WIDER))
    source.run(
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        *(
            f"INSERT INTO t VALUES ({row}"
            + "".join(f", {values[row] if row < len(values) else 'NULL'}" for *_, values in WIDER)
            + ")"
            for row in range(5)
        ),
        "DELETE FROM t WHERE id = 4",
    )
    log = source.read_log()
    table = described(source)
    types = [table.columns[0].type, *(parse_type(type_) for _, type_, _ in WIDER)]
    columns_of_lake = [
        replace(column, type=type_) for column, type_ in zip(table.columns, types, strict=True)
    ]
    table = replace(table, columns=columns_of_lake)
    batch = decoded(log, table, BadDates.NULL)
    from_log = logged(batch, table, RowKind.INSERT).slice(0, 4)
    assert_same(table, selected(source, table, BadDates.NULL), from_log)
    assert from_log.select([1, 6, 15]).to_pylist()[0] == {"c0": -128, "c5": 9007199254740992.0,
        "c14": b"\0\0\1\1"}  # fmt: skip


NARROWER = [
    ("bigint", "INT", "2147483648"),
    ("smallint", "TINYINT", "-129"),
    ("bigint", "DOUBLE", "9007199254740993"),
    ("decimal(10,2)", "DECIMAL(5, 2)", "1000.00"),
    ("decimal(10,2)", "DECIMAL(10, 1)", "0.55"),
    ("decimal(65,30)", "DECIMAL(38, 20)", "0.000000000000000000000000000001"),
    ("varchar(50)", "VARCHAR(3)", "abcd"),
    ("text", "CHAR(2)", "äöü"),
]


def test_values_beyond_the_type_of_the_lake_are_named(source: SourceServer) -> None:
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _, _) in enumerate(NARROWER))
    source.run(
        f"CREATE TABLE t (id int PRIMARY KEY, writes int, {columns})",
        f"INSERT INTO t VALUES (1, 0, {', '.join(['0'] * len(NARROWER))})",
        f"INSERT INTO t VALUES (2, 0, {', '.join(repr(value) for *_, value in NARROWER)})",
    )
    log = source.read_log()
    batch = log.decode("t")
    table = described(source)
    for index, (_, type_, value) in enumerate(NARROWER, 2):
        column = replace(table.columns[index], type=parse_type(type_))
        part = replace(table, columns=[table.columns[0], column])
        match = f"column '{column.name}' of type .* has the value '{value}', which"
        with pytest.raises(Invalid, match=match):
            selected(source, part, BadDates.NULL)
        with pytest.raises(Invalid, match=match):
            log_values(batch.rows[index], batch.shape.columns[index], column)


UNSUPPORTED = [
    ("varchar(5)", "INT"),
    ("datetime", "DATE"),
    ("datetime(6)", "TIMESTAMP(3)"),
    ("datetime", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("time(3)", "TIME(0)"),
    ("tinyint", "BOOLEAN"),
    ("bit(2)", "BOOLEAN"),
    ("double", "FLOAT"),
    ("decimal(5,2)", "DOUBLE"),
    ("point", "STRING"),
    ("varchar(5)", "ARRAY<STRING>"),
    ("int", "BYTES"),
]


def test_types_that_do_not_become_others_are_named(source: SourceServer) -> None:
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _) in enumerate(UNSUPPORTED))
    source.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", "INSERT INTO t (id) VALUES (1)")
    batch = source.read_log().decode("t")
    table = described(source)
    for index, (_, type_) in enumerate(UNSUPPORTED, 1):
        wanted = parse_type({"type": "ARRAY", "element": "STRING"} if "<" in type_ else type_)
        column: SourceColumn = replace(table.columns[index], type=wanted)
        match = f"cannot convert column '{column.name}': .* does not become"
        with pytest.raises(Unsupported, match=match):
            selected(source, replace(table, columns=[column]), BadDates.NULL)
        with pytest.raises(Unsupported, match=match):
            log_values(batch.rows[index], batch.shape.columns[index], column)


@pytest.mark.mariadb
def test_a_column_that_mariadb_hides(mariadb: SourceServer) -> None:
    """A unique key over TEXT has a column that the log has and the information schema lacks."""
    mariadb.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int, UNIQUE (a))",
        "INSERT INTO t VALUES (1, REPEAT('ä', 4000), 5), (2, NULL, NULL)",
    )
    table = described(mariadb)
    batch = decoded(mariadb.read_log(), table, BadDates.FAIL)
    assert batch.rows.column_names == ["id", "a", "b", "DB_ROW_HASH_1"]
    assert_same(
        table, selected(mariadb, table, BadDates.FAIL), logged(batch, table, RowKind.INSERT)
    )


def test_settings_of_the_server_make_no_difference(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a timestamp NULL, b char(5))",
        "INSERT INTO t VALUES (1, '2024-03-31 02:30:00', 'a'), (2, '2024-10-27 02:30:00', 'b ')",
        "SET GLOBAL time_zone = '-09:30', GLOBAL sql_select_limit = 1, "
        "GLOBAL sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
    )
    try:
        table = described(source)
        rows = selected(source, table, BadDates.FAIL)
    finally:
        source.run(
            "SET GLOBAL time_zone = DEFAULT, GLOBAL sql_select_limit = DEFAULT, "
            "GLOBAL sql_mode = DEFAULT"
        )
    batch = decoded(source.read_log(), table, BadDates.FAIL)
    assert_same(table, rows, logged(batch, table, RowKind.INSERT))
    assert str(rows["a"][0]) == "2024-03-31 02:30:00+00:00"


@pytest.mark.mysql
def test_the_key_that_mysql_generates(mysql: SourceServer) -> None:
    mysql.run(
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE t (id int, v varchar(20) INVISIBLE, w int AS (id + 1) VIRTUAL INVISIBLE)",
        "INSERT INTO t (id, v) VALUES (1, 'a'), (7, NULL)",
        "UPDATE t SET v = 'b'",
    )
    table = described(mysql)
    batch = decoded(mysql.read_log(), table, BadDates.NULL)
    from_log = logged(batch, table, RowKind.UPDATE_AFTER)
    rows = selected(mysql, table, BadDates.NULL)
    assert_same(table, rows, from_log)
    assert table.primary_key == ("my_row_id",)
    assert from_log.column_names == ["my_row_id", "id", "v", "w"]
    assert from_log["v"].to_pylist() == ["b", "b"]


def test_values_of_another_type_than_the_column_are_named(source: SourceServer) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, a varchar(9))", "INSERT INTO t VALUES (1, '5')")
    batch = source.read_log().decode("t")
    source.run("ALTER TABLE t MODIFY a int")
    column = described(source).columns[1]
    with pytest.raises(Invalid, match="column 'a': its values in the log are string, and not of"):
        log_values(batch.rows["a"], batch.shape.columns[1], column)


def test_dates_that_were_not_decoded_as_text_become_text(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a date, b datetime(3), c timestamp NULL, d datetime)",
        "INSERT INTO t VALUES (1, '0999-02-03', '1969-12-31 23:59:59.5', '2024-05-06', '9999-1-1')",
        "INSERT INTO t VALUES (2, NULL, NULL, NULL, '0000-00-00')",
    )
    batch = source.read_log().decode("t")
    table = described(source, [TypeMapping.TO_STRING])
    rows = logged(batch, table, RowKind.INSERT).to_pylist()
    assert list(rows[0].values()) == [
        "1", "0999-02-03", "1969-12-31 23:59:59.500", "2024-05-06 00:00:00", "9999-01-01 00:00:00",
    ]  # fmt: skip
    assert list(rows[1].values()) == ["2", None, None, None, None]


def test_equal_types_are_not_copied(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a varchar(80), b double, c decimal(9,2))",
        "INSERT INTO t VALUES (1, 'a', 2, 3)",
    )
    batch = source.read_log().decode("t")
    for column in described(source).columns:
        (chunk,) = batch.rows[column.name].chunks
        shape = next(shape for shape in batch.shape.columns if shape.name == column.name)
        converted = log_values(batch.rows[column.name], shape, column)
        assert converted.buffers()[-1].address == chunk.buffers()[-1].address


def test_no_rows_have_the_types_of_the_lake(source: SourceServer) -> None:
    write_rows(source, {**CHOICES, **FRACTIONS})
    batch = source.read_log().decode("t")
    for mapping in MAPPINGS:
        for column in described(source, mapping).columns:
            shape = next(shape for shape in batch.shape.columns if shape.name == column.name)
            rows = batch.rows[column.name]
            for none in (rows.slice(0, 0), pa.chunked_array([], rows.type)):
                assert log_values(none, shape, column).equals(pa.array([], to_arrow(column.type)))


def _texts(codec: str) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec=codec), max_size=20)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[str]:
    unscaled = st.integers(-(10**digits) + 1, 10**digits - 1)
    return unscaled.map(lambda number: f"{Decimal(number).scaleb(-scale, Context(prec=80)):f}")


def _times(digits: int) -> st.SearchStrategy[str]:
    numbers = st.tuples(st.integers(0, 838), *[st.integers(0, 59)] * 2, st.integers(0, 10**6 - 1))
    signs = st.sampled_from(["", "-"])
    return st.builds(
        lambda sign, n: f"{sign}{n[0]}:{n[1]:02}:{n[2]:02}.{n[3] // 10 ** (6 - digits):0{digits}}",
        signs,
        numbers,
    )


def _json() -> st.SearchStrategy[str]:
    leaves: st.SearchStrategy[Any]
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=10)
    leaves |= st.floats(allow_nan=False, allow_infinity=False)
    values = st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)
    )
    return values.map(json.dumps)


_DAYS = st.dates(dt.date(1, 1, 1)).map(str) | st.just("0000-00-00")
_INSTANTS = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2038, 1, 1))
RANDOM: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "bigint unsigned": st.integers(0, 2**64 - 1),
    "mediumint": st.integers(-(2**23), 2**23 - 1),
    "bit(23)": st.integers(0, 2**23 - 1),
    "decimal(30,10)": _decimals(30, 10),
    "decimal(65,30)": _decimals(65, 30),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "date": _DAYS,
    "datetime(6)": st.datetimes(dt.datetime(1, 1, 1)).map(str),
    "timestamp(3) null": _INSTANTS.map(lambda instant: str(instant)[:23]),
    "time(6)": _times(6),
    "time(3)": _times(3),
    "varchar(100)": st.text(max_size=20),
    "varchar(100) character set utf16": st.text(max_size=20),
    "text character set gbk": _texts("gbk"),
    "varbinary(60)": st.binary(max_size=60),
    "set('a','ä','','日')": st.integers(0, 15),
    "json": _json(),
}
RANDOM_OF_MARIADB: dict[str, st.SearchStrategy[Any]] = {
    "uuid": st.uuids().map(str),
    "inet6": st.lists(st.sampled_from([0, 0, 1, 0xFFFF, 0xABC]), min_size=8, max_size=8).map(
        lambda words: ":".join(f"{word:x}" for word in words)
    ),
    "inet4": st.ip_addresses(v=4).map(str),
    "text compressed": st.text(max_size=300),
}


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_random_values_are_the_same(source: SourceServer, data: st.DataObject) -> None:
    is_mariadb = "MariaDB" in source.select("SELECT VERSION()")[0][0]
    types = RANDOM | (RANDOM_OF_MARIADB if is_mariadb else {})
    rows = data.draw(st.lists(st.tuples(*(st.none() | values for values in types.values()))))
    names = [f"c{index}" for index in range(len(types))]
    columns = ", ".join(f"{name} {type_}" for name, type_ in zip(names, types, strict=True))
    table_name = f"t{uuid.uuid4().hex}"
    with source.session() as cursor:
        cursor.execute(f"CREATE TABLE {table_name} (id int PRIMARY KEY, {columns})")
        marks = ", ".join(["%s"] * (1 + len(types)))
        numbered = [(index, *row) for index, row in enumerate([*rows, [None] * len(types)])]
        cursor.executemany(f"INSERT INTO {table_name} VALUES ({marks})", numbered)
    log = source.read_log()
    table = described(source, (), table_name)
    batch = decoded(log, table, BadDates.NULL)
    assert_same(table, selected(source, table, BadDates.NULL), logged(batch, table, RowKind.INSERT))
    texts = described(source, [TypeMapping.TO_STRING], table_name)
    # Bytes need not be text.
    columns_of_text = [column for column in texts.columns if column.source_type != "varbinary(60)"]
    texts = replace(texts, columns=columns_of_text)
    batch = decoded(log, texts, BadDates.NULL)
    assert_same(texts, selected(source, texts, BadDates.NULL), logged(batch, texts, RowKind.INSERT))
