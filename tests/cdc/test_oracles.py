"""A log's changes, as other readers of the log have them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cdc.source_logs import SourceServer

from headwater.cdc.mysql import (
    ColumnShape,
    ColumnType,
    EventType,
    PackedRows,
    TableShape,
    decode_rows,
    expand,
    is_rows_event,
    parse_table_map,
    read_log_file,
    table_number,
)
from headwater.storage.rows.kinds import RowKind

pytestmark = pytest.mark.cdc_oracles

SCRIPTS = Path(__file__).parent / "oracles"
ROOT = Path(__file__).parents[2]
MARIADB_JARS = ROOT / ".interop" / "debezium-mariadb"
SECONDS = 120

TYPES = {
    "id": "BIGINT PRIMARY KEY",
    "tiny": "TINYINT",
    "small": "SMALLINT UNSIGNED",
    "medium": "MEDIUMINT",
    "natural_number": "INT UNSIGNED",
    "large": "BIGINT UNSIGNED",
    "bits": "BIT(9)",
    "born": "YEAR",
    "single": "FLOAT",
    "weight": "DOUBLE",
    "amount": "DECIMAL(12,2)",
    "exact": "DECIMAL(38,10)",
    "day": "DATE",
    "clock": "TIME(3)",
    "second": "DATETIME",
    "micro": "DATETIME(6)",
    "milli": "TIMESTAMP(3) NULL",
    "code": "CHAR(10)",
    "name": "VARCHAR(80)",
    "western": "VARCHAR(40) CHARACTER SET latin1",
    "note": "TEXT",
    "status": "ENUM('new', 'paid', 'packed')",
    "flags": "SET('a', 'b', 'c')",
    "fixed": "BINARY(4)",
    "bytes": "VARBINARY(300)",
    "picture": "BLOB",
}
ROW_A = (
    "1, -128, 65535, -8388608, 4294967295, 18446744073709551615, b'101000001', 1999, 1.5, 0.1, "
    "9999999999.99, '-1234567890123456789012345678.0123456789', '2024-02-29', '-25:00:59.999', "
    "'1000-01-01 00:00:00', '2026-11-28 12:34:56.987654', '2038-01-19 03:14:07.123', 'code', "
    "'日本😀', '€uro', REPEAT('long text ', 100), 'packed', 'a,c', x'61000000', x'00ff', "
    "REPEAT(x'80ff', 200)"
)
ROW_B = "2" + ", NULL" * (len(TYPES) - 1)
ROW_C = (
    "3, 127, 0, 8388607, 0, 0, 0, 2155, -3.25e10, -1e-300, -0.01, '0.0000000001', '1000-01-01', "
    "'00:00:00', '9999-12-31 23:59:59', '1969-12-31 23:59:59.000001', '1970-01-01 00:00:01', '', "
    "'', '', '', 'new', '', x'ffffffff', x'', x''"
)
CHANGES = (
    f"INSERT INTO t VALUES ({ROW_A}), ({ROW_B}), ({ROW_C})",
    "UPDATE t SET weight = id, note = CONCAT('changed ', id), amount = NULL",
    "CREATE TABLE pairs (first INT, second VARCHAR(10), amount INT, PRIMARY KEY (first, second))",
    "BEGIN",
    "INSERT INTO pairs VALUES (1, 'a', 10), (1, 'b', 20), (2, 'a', 30)",
    "UPDATE t SET name = 'in a transaction' WHERE id = 1",
    "UPDATE pairs SET amount = amount + 1 WHERE first = 1",
    "DELETE FROM pairs WHERE second = 'b'",
    "COMMIT",
    "UPDATE pairs SET first = 3 WHERE first = 2",
    "ALTER TABLE pairs ADD COLUMN added VARCHAR(20) FIRST, MODIFY amount BIGINT",
    "INSERT INTO pairs VALUES ('new', 4, 'd', 40)",
    "ALTER TABLE pairs DROP COLUMN added, CHANGE amount total BIGINT",
    "REPLACE INTO pairs VALUES (4, 'd', 50), (5, 'e', 60)",
    "DELETE FROM t WHERE id < 3",
)
MORE_CHANGES = (
    "INSERT INTO pairs SELECT id, name, 7 FROM t",
    "UPDATE t SET note = REPEAT('compressed ', 50), status = 'paid', flags = 'b,c'",
    "DELETE FROM pairs WHERE first = 3",
)
# mysql-event-stream leaves JSON of MySQL as it is.
DOCUMENTS = (
    "CREATE TABLE documents (id INT PRIMARY KEY, doc JSON)",
    "INSERT INTO documents VALUES (1, NULL), (2, '[]'), (3, '{}'), (4, '\"text\"'), "
    '(5, \'{"a": [1, -2.5, true, null, "äöü"], "b": {"c": 12345678901}}\'), '
    "(6, CONCAT('[', REPEAT('\"item\", ', 20000), '0]'))",
)
# Neither reader has MariaDB's compressed events: Debezium loses their rows without an error, and
# mysql-event-stream fails, as it does on MySQL's.
COMPRESSED = {"mariadb": (), "mysql": ("SET SESSION binlog_transaction_compression = ON",)}

Row = Mapping[str, Any] | None
Change = tuple[str, str, Row, Row]
"""A changed row: its table, what happened to it, and it before and after."""
Normalize = Callable[[ColumnShape, Any], Any]
EPOCH = datetime(1970, 1, 1)


def our_changes(log_files: Sequence[Path]) -> Iterator[tuple[Change, TableShape]]:
    """Our decoder's changes in the order of the log, each with its table."""
    shapes: dict[int, TableShape] = {}
    for compressed in (event for path in log_files for event in read_log_file(path)):
        for event in expand(compressed):
            if event.type is EventType.TABLE_MAP:
                table_map = parse_table_map(event)
                shapes[table_map.table_id] = table_map.shape
            elif is_rows_event(event):
                rows = PackedRows()
                rows.add(event)
                shape = shapes[table_number(event)]
                (slab,) = rows.slabs()
                batch = decode_rows(shape, slab)
                before: Row = None
                for kind, row in zip(batch.kinds.to_pylist(), batch.rows.to_pylist(), strict=True):
                    if kind == RowKind.UPDATE_BEFORE:
                        before = row
                        continue
                    yield _change(shape.table, RowKind(kind), before, row), shape
                    before = None


def _change(table: str, kind: RowKind, before: Row, row: Row) -> Change:
    if kind is RowKind.DELETE:
        return table, "delete", row, None
    return table, "insert" if kind is RowKind.INSERT else "update", before, row


def with_split_key_updates(
    changes: Iterable[tuple[Change, TableShape]],
) -> Iterator[tuple[Change, TableShape]]:
    """The same changes, with a delete and an insert for each update of a key."""
    for (table, kind, before, after), shape in changes:
        key = [shape.columns[index].name for index in shape.primary_key]
        if before is not None and after is not None and any(before[c] != after[c] for c in key):
            yield (table, "delete", before, None), shape
            yield (table, "insert", None, after), shape
        else:
            yield (table, kind, before, after), shape


def normalized(change: Change, shape: TableShape, normalize: Normalize) -> Change:
    """The same change with equal values for what readers spell differently."""
    columns = {column.name: column for column in shape.columns}

    def row(values: Row) -> Row:
        if values is None:
            return None
        return {
            name: None if value is None else normalize(columns[name], value)
            for name, value in values.items()
        }

    table, kind, before, after = change
    return table, kind, row(before), row(after)


def from_headwater(column: ColumnShape, value: Any) -> Any:
    if column.type is ColumnType.TIMESTAMP2:
        return value.astimezone(UTC).replace(tzinfo=None)
    if column.name == "doc":
        return json.loads(value)
    return int.from_bytes(value, "big") if column.type is ColumnType.BIT else value


def from_event_stream(column: ColumnShape, value: Any) -> Any:
    """Numbers stand for ENUM and SET, decimal seconds for TIMESTAMP; text is not decoded."""
    if column.type is ColumnType.ENUM:
        return column.values[value - 1]
    if column.type is ColumnType.SET:
        return ",".join(name for bit, name in enumerate(column.values) if value >> bit & 1)
    if column.type is ColumnType.TIMESTAMP2:
        return EPOCH + timedelta(microseconds=int(Decimal(value) * 1_000_000))
    if column.type is ColumnType.DATETIME2:
        return datetime.fromisoformat(value)
    if column.type is ColumnType.DATE:
        return date.fromisoformat(value)
    if column.type is ColumnType.TIME2:
        return _time(value)
    if column.type is ColumnType.NEWDECIMAL:
        return Decimal(value)
    if column.name == "western":
        return value.encode("utf-8", "surrogateescape").decode("cp1252")
    if column.is_binary:
        # The log leaves out zeros at the end of BINARY.
        width = column.length if column.type is ColumnType.STRING else 0
        return bytes.fromhex(value).ljust(width, b"\0")
    return int(value) if column.type is ColumnType.LONGLONG else value


def _time(text: str) -> timedelta:
    hours, minutes, seconds = text.removeprefix("-").split(":")
    microseconds = int(Decimal(seconds) * 1_000_000)
    time = timedelta(hours=int(hours), minutes=int(minutes), microseconds=microseconds)
    return -time if text.startswith("-") else time


def from_debezium(column: ColumnShape, value: Any) -> Any:
    """Times are numbers since 1970, and unsigned and bit numbers are Base64."""
    if column.type is ColumnType.DATE:
        return EPOCH.date() + timedelta(days=value)
    if column.type is ColumnType.TIME2:
        return timedelta(microseconds=value)
    if column.type is ColumnType.DATETIME2:
        return EPOCH + timedelta(**{"microseconds" if column.length > 3 else "milliseconds": value})
    if column.type is ColumnType.TIMESTAMP2:
        return datetime.fromisoformat(value).replace(tzinfo=None)
    if column.type is ColumnType.NEWDECIMAL:
        return Decimal(value)
    if column.type is ColumnType.FLOAT:
        return float(np.float32(value))
    if column.type is ColumnType.LONGLONG and column.unsigned:
        return int.from_bytes(base64.b64decode(value), "big", signed=True)
    if column.type is ColumnType.BIT:
        return int.from_bytes(base64.b64decode(value), "little")
    if column.name == "doc":
        return json.loads(value)
    return bytes.fromhex(value) if column.is_binary else value


def assert_equal_changes(
    ours: Iterable[tuple[Change, TableShape]], others: Iterable[Change], normalize: Normalize
) -> None:
    of_tables = [one for one in ours if not one[0][0].startswith("the_")]
    theirs = [change for change in others if not change[0].startswith("the_")]
    assert len(theirs) > len(CHANGES)
    assert [change[:2] for change, _ in of_tables] == [change[:2] for change in theirs]
    expected = [
        normalized(change, shape, normalize)
        for change, (_, shape) in zip(theirs, of_tables, strict=True)
    ]
    assert [normalized(change, shape, from_headwater) for change, shape in of_tables] == expected


def create_tables(source: SourceServer) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    source.run(
        f"CREATE TABLE t ({columns}) CHARACTER SET utf8mb4",
        "CREATE TABLE the_beginning (id INT PRIMARY KEY)",
        "INSERT INTO the_beginning VALUES (1)",
        "CREATE TABLE the_end (id INT PRIMARY KEY)",
    )


def make_changes(source: SourceServer, *settings: str) -> None:
    source.run(*CHANGES)
    source.run(*settings, *MORE_CHANGES)
    source.run("INSERT INTO the_end VALUES (1)")


def python_of(client: str) -> str:
    python = ROOT / ".interop" / client / "bin" / "python"
    if not python.exists():
        pytest.skip(f"needs .interop/{client}: run tests/interop/environments")
    return str(python)


def parsed(line: str) -> Change:
    change = json.loads(line)
    return change["table"], change["kind"], change["before"], change["after"]


@pytest.fixture(params=["mariadb", "mysql"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_mysql_event_stream_reads_the_same_changes(
    request: pytest.FixtureRequest, flavour: str
) -> None:
    python = python_of("log-readers")
    source: SourceServer = request.getfixturevalue(flavour)
    create_tables(source)
    make_changes(source)
    log_files = source.log_files()
    reader = subprocess.run(
        [python, str(SCRIPTS / "event_stream.py"), *map(str, log_files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert reader.returncode == 0, reader.stderr
    changes = [parsed(line) for line in reader.stdout.splitlines()]
    assert_equal_changes(our_changes(log_files), changes, from_event_stream)


def test_debezium_reads_the_same_changes(
    request: pytest.FixtureRequest, flavour: str, tmp_path: Path
) -> None:
    python = python_of("debezium")
    if flavour == "mariadb" and not any(MARIADB_JARS.glob("*.jar")):
        pytest.skip(f"needs the connector for MariaDB in {MARIADB_JARS}")
    source: SourceServer = request.getfixturevalue(flavour)
    create_tables(source)
    with debezium(python, source, flavour, tmp_path) as lines:
        for line in lines:
            if line == "ready\n":
                break
        else:
            pytest.fail("Debezium ended before it had read the tables")
        make_changes(source, *COMPRESSED[flavour], *DOCUMENTS)
        printed = [line.removeprefix("change ") for line in lines if line.startswith("change ")]
    ours = with_split_key_updates(our_changes(source.log_files()))
    assert_equal_changes(ours, [parsed(line) for line in printed], from_debezium)


@contextmanager
def debezium(
    python: str, source: SourceServer, flavour: str, folder: Path
) -> Iterator[Iterator[str]]:
    """Run Debezium on a server, with its log in a folder; what it prints."""
    # It chooses a garbage collector itself, and two are an error.
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    login = source.login
    arguments = [login["host"], str(login["port"]), login["user"], login["password"]]
    jars = [str(MARIADB_JARS)] if flavour == "mariadb" else []
    process = subprocess.Popen(
        [python, str(SCRIPTS / "debezium.py"), flavour, *arguments, source.database, *jars],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=folder,
    )
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.kill()
        process.wait()
