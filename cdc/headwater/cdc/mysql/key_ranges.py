"""Ranges of a table's primary key, read one after the other.

The server alone compares keys, by the columns' collations: a bound is a key that it named, written
as a literal. A range begins after its lower bound and ends with its upper one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pymysql.connections import Connection

from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.mysql.column_types import parse_source_type
from headwater.cdc.mysql.literals import text_literals
from headwater.cdc.mysql.result_sets import prepared_columns, text_columns
from headwater.cdc.mysql.server import Address
from headwater.cdc.mysql.text_values import BadDates, lake_values, quoted, select_expression
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.keys import key_columns

__all__ = ["key_ranges", "read_range"]

_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_QUOTED = frozenset({"date", "time", "datetime", "timestamp", "uuid", "inet4", "inet6"})
# Others are sorted in another way than their literals compare: ENUM and SET by number, FLOAT by
# more digits than are shown.
_ORDERED = _NUMBERS | _TEXT | _BYTES | _QUOTED


def key_ranges(
    connection: Connection,
    address: Address,
    table: SourceTable,
    rows: int,
    after: Bound | None = None,
    until: Bound | None = None,
) -> Iterator[KeyRange]:
    """Divide a table, whose rows others may change meanwhile.

    Args:
        connection: A connection that nobody else uses meanwhile.
        address: The server, for messages.
        table: The table.
        rows: How many rows a range has when its bound is asked for.
        after: The upper bound of the last range that was read.
        until: Where the last range ends; None is the table's end.

    Yields:
        The ranges, in their order. A table whose key the server
        sorts in another way than it compares literals is one range.
    """
    key = key_columns(table)
    is_one = any(parse_source_type(column.source_type).name not in _ORDERED for column in key)
    while not is_one:
        bound = _bound(connection, address, table, KeyRange(after, until), rows)
        if bound is None or bound == until:
            break
        yield KeyRange(after, bound)
        after = bound
    yield KeyRange(after, until)


def read_range(
    connection: Connection,
    address: Address,
    table: SourceTable,
    part: KeyRange,
    bad_dates: BadDates = BadDates.FAIL,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a range.

    Args:
        connection: As for `key_ranges`; its session has the time zone UTC, as `connected` makes it.
        address: The server, for messages.
        table: The table; its columns are selected by name.
        part: The range.
        bad_dates: What to do with dates that the lake does not have.

    Yields:
        Rows with the table's columns, in the lake's types.

    Raises:
        Invalid: A value cannot be in the lake, or the table's columns have changed.
        Unavailable: The connection is lost.
    """
    names = [column.name for column in table.columns]
    expressions = ", ".join(map(select_expression, table.columns))
    statement = f"SELECT {expressions} FROM {_named(table)}{_where(table, part)}"
    for batch in prepared_columns(connection, address, statement):
        arrays = [
            lake_values(values, column, bad_dates)
            for values, column in zip(batch, table.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names)


def _bound(
    connection: Connection, address: Address, table: SourceTable, part: KeyRange, rows: int
) -> Bound | None:
    key = key_columns(table)
    names = ", ".join(quoted(column.name) for column in key)
    statement = (
        f"SELECT {names} FROM {_named(table)}{_where(table, part)} "
        f"ORDER BY {names} LIMIT 1 OFFSET {rows - 1}"
    )
    for batch in text_columns(connection, address, statement):
        values: Sequence[bytes] = [text[0].as_py() for text in batch]
        return tuple(_literal(column, value) for column, value in zip(key, values, strict=True))
    return None


def _where(table: SourceTable, part: KeyRange) -> str:
    key = [quoted(name) for name in table.primary_key]
    conditions: list[str] = []
    if part.after is not None:
        conditions.append(_compared(key, part.after, ">", is_with_equal=False))
    if part.until is not None:
        conditions.append(_compared(key, part.until, "<", is_with_equal=True))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _compared(key: Sequence[str], bound: Bound, sign: str, *, is_with_equal: bool) -> str:
    """A comparison of whole keys in a form for which both servers use the key's index."""
    choices: list[str] = []
    for index, name in enumerate(key):
        is_last = index == len(key) - 1
        equal = [f"{key[before]} = {bound[before]}" for before in range(index)]
        comparison = f"{sign}=" if is_last and is_with_equal else sign
        choices.append(" AND ".join([*equal, f"{name} {comparison} {bound[index]}"]))
    return f"({' OR '.join(choices)})"


def _literal(column: SourceColumn, value: bytes) -> str:
    literal: str = text_literals(pa.array([value], pa.binary()), column)[0].as_py()
    return literal


def _named(table: SourceTable) -> str:
    return f"{quoted(table.name.database)}.{quoted(table.name.table)}"
