"""Values of every type in the log of a real server equal what its SELECT returns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cdc.source_logs import SourceServer

from headwater.cdc.columns import BadDates
from headwater.cdc.mysql import ColumnShape, ColumnType, DecodeOptions, RowBatch
from headwater.storage.errors import Invalid
from headwater.storage.rows.kinds import KIND_NAMES

INTEGERS = {
    "tinyint": ["-128", "127", "0"],
    "tinyint unsigned": ["0", "128", "255"],
    "smallint": ["-32768", "32767"],
    "smallint unsigned": ["65535"],
    "mediumint": ["-8388608", "8388607", "-1"],
    "mediumint unsigned": ["16777215", "8388608"],
    "int": ["-2147483648", "2147483647"],
    "int unsigned": ["4294967295"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615", "9223372036854775808"],
    "bit(1)": ["0", "1"],
    "bit(9)": ["b'101000001'", "0"],
    "bit(64)": ["18446744073709551615", "1"],
    "year": ["0", "1901", "2155", "2026"],
}
REALS = {
    "float": ["1.5", "-3.25e10", "0"],
    "double": ["0.1", "-1.7976931348623157e308", "1e-300"],
    "decimal(1,0)": ["-9", "9"],
    "decimal(9,9)": ["-0.123456789"],
    "decimal(10,0)": ["9999999999", "-1"],
    "decimal(12,2) unsigned": ["9999999999.99", "0.01"],
    "decimal(18,9)": ["-999999999.999999999"],
    "decimal(19,0)": ["-9999999999999999999", "9223372036854775808"],
    "decimal(38,10)": ["-9999999999999999999999999999.9999999999", "0.0000000001"],
    "decimal(39,0)": ["999999999999999999999999999999999999999"],
    "decimal(65,30)": [
        "12345678901234567890123456789012345.123456789012345678901234567890",
        "-0.000000000000000000000000000001",
        "-99999999999999999999999999999999999.999999999999999999999999999999",
    ],
    "decimal(65,0)": ["-" + "9" * 65],
}
TIMES = {
    "date": ["'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'0000-00-00'", "'2026-00-10'"],
    "time": ["'838:59:59'", "'-838:59:59'", "'00:00:00'"],
    **{
        f"time({digits})": ["'-00:00:01.5'", "'-25:00:59.999999'", "'12:34:56.789012'"]
        for digits in range(1, 7)
    },
    **{
        f"datetime({digits})": [
            "'1000-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
            "'2026-11-28 12:34:56.987654'",
            "'0000-00-00 00:00:00'",
            "'2026-02-00 10:00:00'",
        ]
        for digits in range(7)
    },
    **{
        f"timestamp({digits}) null": [
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
            "'2026-11-28 12:34:56.987654'",
            "'0000-00-00 00:00:00'",
        ]
        for digits in range(7)
    },
}
WORDS = ["''", "'a'", "'exactly 12 b'", "'thirteen chars'", "'äöü ß é'", "'trailing  '"]
CHINESE = [*WORDS, "'你好、世界'", "REPEAT('漢字', 100)"]
STRINGS = {
    "char(20)": [*WORDS, "'😀日本'"],
    "char(255)": [*WORDS, "REPEAT('😀', 255)"],
    "char(20) character set latin1": [*WORDS, "'€uro'"],
    "varchar(40)": [*WORDS, "'日本😀'"],
    "varchar(300)": [*WORDS, "REPEAT('😀', 300)"],
    "varchar(300) character set latin1": WORDS,
    "varchar(300) character set gbk": CHINESE,
    "varchar(300) character set sjis": [*WORDS[:4], "'日本'"],
    "varchar(300) character set utf16": CHINESE,
    "varchar(300) character set utf32 collate utf32_bin": CHINESE,
    "varchar(300) character set utf8mb3": CHINESE,
    "tinytext": [*WORDS, "'日本😀'"],
    "text character set cp1251": [*WORDS[:4], "'Привет, мир, как дела'"],
    "text character set gbk": CHINESE,
    "mediumtext": [*CHINESE, "REPEAT('x', 70000)"],
    "longtext": CHINESE,
    "enum('a','b''c','d,e')": ["'a'", "'b''c'", "'d,e'", "'wrong'"],
    "enum('ä','ß') character set latin1": ["'ß'", "'ä'"],
    f"enum({','.join(repr(f'value {n}') for n in range(300))})": ["'value 0'", "'value 299'"],
    "set('x','y','z')": ["''", "'x'", "'x,z'", "'z,y,x'"],
    "set('ä','ß') character set latin1": ["'ß,ä'"],
    f"set({','.join(repr(f's{n}') for n in range(64))})": ["'s63,s0'", "18446744073709551615"],
}
BYTES = {
    "binary(4)": ["x'00'", "x'61000000'", "x'ffffffff'", "x''"],
    "binary(255)": ["x'61'", "REPEAT('b', 255)"],
    "varbinary(300)": ["x''", "x'00'", "REPEAT(x'ff00', 150)"],
    "tinyblob": ["x'80ff'", "x''"],
    "blob": ["x'8000ff'"],
    "mediumblob": ["REPEAT(x'ff', 70000)"],
    "longblob": ["x'ff'"],
    "geometry": ["POINT(1, 2)", "ST_GeomFromText('LINESTRING(0 0, 1 1, 2 5)')"],
    "point": ["POINT(-1, 0.5)"],
}
GENERATED: dict[str, list[str]] = {
    "int generated always as (id * 2) virtual": [],
    "varchar(40) generated always as (concat('row ', id)) stored": [],
}
FAMILIES = {
    "integers": INTEGERS,
    "reals": REALS,
    "times": TIMES,
    "strings": STRINGS,
    "bytes": BYTES,
    "generated": GENERATED,
    "wide": {**INTEGERS, **REALS, **TIMES, **STRINGS, **BYTES, **GENERATED},
}


def create_table(source: SourceServer, definitions: dict[str, list[str]]) -> list[str]:
    """A table with a column of each type, and statements that insert each value, and nulls."""
    columns = ", ".join(f"c{index} {type_}" for index, type_ in enumerate(definitions))
    source.run(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    names = [f"c{index}" for index, type_ in enumerate(definitions) if "generated" not in type_]
    literals = [values for type_, values in definitions.items() if "generated" not in type_]
    rows = [
        f"({', '.join([str(number), *(_pick(values, number) for values in literals)])})"
        for number in range(max([*map(len, literals), 2]) + 1)
    ]
    return [f"INSERT INTO t ({', '.join(['id', *names])}) VALUES {', '.join(rows)}"]


def _pick(values: Sequence[str], number: int) -> str:
    return values[number] if number < len(values) else "NULL"


def as_selected(value: Any, column: ColumnShape) -> Any:
    """A decoded value as PyMySQL returns it; PyMySQL's own for what it leaves as it is."""
    if value is None:
        return None
    if column.type is ColumnType.BIT and column.length == 1:
        return bytes([value])
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return value


def from_select(value: Any, column: ColumnShape) -> Any:
    """A value of PyMySQL, with None for a date that does not exist."""
    dates = (ColumnType.DATE, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
    if column.type in dates and isinstance(value, str):
        return None
    if column.type is ColumnType.FLOAT and value is not None:
        return float(np.float32(value))
    return value


def assert_equal_to_select(batch: RowBatch, selected: Sequence[tuple[Any, ...]]) -> None:
    batch.rows.validate(full=True)
    for index, column in enumerate(batch.shape.columns):
        decoded = [as_selected(value, column) for value in batch.rows[index].to_pylist()]
        expected = [from_select(row[index], column) for row in selected]
        assert decoded == expected, column


def kind_names(batch: RowBatch) -> list[str]:
    return [KIND_NAMES[kind] for kind in batch.kinds.to_pylist()]


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_of_the_log_equal_those_of_select(source: SourceServer, family: str) -> None:
    source.run(*create_table(source, FAMILIES[family]))
    selected = source.select("SELECT * FROM t ORDER BY id")

    batch = source.read_log().decode("t")

    assert set(kind_names(batch)) == {"+I"}
    assert batch.column_set is None
    assert batch.shape.primary_key == (0,)
    assert_equal_to_select(batch, selected)


def test_updates_have_the_row_before_and_after(source: SourceServer) -> None:
    source.run(
        *create_table(source, {"int": ["1", "2"], "varchar(40)": ["'a'", "'b'"], "text": ["'c'"]})
    )
    before = source.select("SELECT * FROM t ORDER BY id")
    source.run("UPDATE t SET c0 = 7, c1 = NULL, c2 = 'a longer text than before' WHERE id > 0")
    after = source.select("SELECT * FROM t ORDER BY id")
    source.run("DELETE FROM t WHERE id = 1")

    batch = source.read_log().decode("t")

    assert kind_names(batch) == ["+I"] * 3 + ["-U", "+U"] * 2 + ["-D"]
    assert_equal_to_select(batch, [*before, before[1], after[1], before[2], after[2], after[1]])


def test_thousands_of_rows_keep_their_order(source: SourceServer) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, a varchar(60), b decimal(30,2), c bigint)")
    numbers = range(20_000)
    for first in range(0, len(numbers), 5000):
        rows = (
            f"({n}, {'NULL' if n % 3 else repr('x' * (n % 60))}, {n}.5, {n * 7})"
            for n in numbers[first : first + 5000]
        )
        source.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    source.run("UPDATE t SET a = CONCAT('row ', id) WHERE id % 2 = 0", "DELETE FROM t WHERE id < 5")

    batch = source.read_log().decode("t")

    ids = batch.rows["id"].to_numpy()
    assert ids[:20_000].tolist() == list(numbers)
    assert ids[20_000:40_000:2].tolist() == list(numbers[::2])
    assert batch.rows["a"][20_001:40_000:2].to_pylist() == [f"row {n}" for n in numbers[::2]]
    assert kind_names(batch)[40_000:] == ["-D"] * 5
    assert batch.rows["b"].type == pa.decimal128(30, 2)


def test_partial_images_name_the_columns_that_they_have(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int NOT NULL DEFAULT 3, c text)",
        "INSERT INTO t VALUES (1, 2, 3, 'long')",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE t SET b = 5",
        "INSERT INTO t (id) VALUES (9)",
        "SET SESSION binlog_row_image = NOBLOB",
        "UPDATE t SET a = 8 WHERE id = 1",
        "SET SESSION binlog_row_image = FULL",
        "DELETE FROM t WHERE id = 1",
    )

    batch = source.read_log().decode("t")

    assert kind_names(batch) == ["+I", "-U", "+U", "+I", "-U", "+U", "-D"]
    assert batch.column_set is not None
    sets = [set(batch.column_sets[index]) for index in batch.column_set.to_pylist()]
    everything = {"id", "a", "b", "c"}
    assert sets[0] == sets[-1] == everything
    assert sets[1:4] == [{"id"}, {"b"}, {"id"}]
    assert sets[4:6] == [everything - {"c"}] * 2
    rows = [tuple(row.values()) for row in batch.rows.to_pylist()]
    assert rows[1:4] == [(1, None, None, None), (None, None, 5, None), (9, None, None, None)]
    assert rows[4:] == [(1, 2, 5, None), (1, 8, 5, None), (1, 8, 5, "long")]


def test_zero_dates_can_be_an_error(source: SourceServer) -> None:
    source.run("CREATE TABLE t (id int PRIMARY KEY, d date NOT NULL)")
    source.run("INSERT INTO t VALUES (1, '2026-01-02'), (2, '0000-00-00')")
    contents = source.read_log()
    assert contents.decode("t").rows["d"].null_count == 1
    with pytest.raises(Invalid, match="column 'd' has the value '0000-00-00'"):
        contents.decode("t", DecodeOptions(BadDates.FAIL))


def test_a_table_without_a_key_and_with_a_key_of_several_columns(source: SourceServer) -> None:
    source.run(
        "CREATE TABLE bare (a int, b int)",
        "CREATE TABLE keyed (a int, b varchar(20), c int, PRIMARY KEY (c, a))",
        "CREATE TABLE prefixed (a int, b varchar(20), PRIMARY KEY (b(5), a))",
        *(f"INSERT INTO {table}(a) VALUES (1)" for table in ("bare", "keyed", "prefixed")),
    )
    shapes = {shape.table: shape for shape in source.read_log().rows}
    assert shapes["bare"].primary_key == ()
    assert shapes["keyed"].primary_key == (2, 0)
    assert shapes["prefixed"].primary_key == (1, 0)
    assert shapes["prefixed"].primary_key_prefixes == (5, 0)
    assert shapes["keyed"].qualified_name == f"{source.database}.keyed"
