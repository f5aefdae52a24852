"""Rows of single keys, read from the source.

The server finds keys by their index and by its collations; of its rows, those are kept whose keys
have the same bytes. BOOLEAN in the lake is any number but 0 in a column ``tinyint(1)``: such a key
is found by its columns before that one, and by reading the whole table if it is the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pymysql.connections import Connection

from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.mysql.column_types import parse_source_type
from headwater.cdc.mysql.literals import lake_literals
from headwater.cdc.mysql.result_sets import prepared_columns, text_columns
from headwater.cdc.mysql.server import Address
from headwater.cdc.mysql.text_values import BadDates, lake_values, quoted, select_expression
from headwater.cdc.source.keys import key_columns, key_positions
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import to_arrow

__all__ = ["missing_keys", "read_keys"]

# MariaDB reads lists of 1000 values and more as tables, and may not use the key's index then.
_MAX_LITERALS = 900
# Alternatives are tried one after the other for each row.
_MAX_ALTERNATIVES = 100
_MAX_STATEMENT_BYTES = 1 << 20
# Of a packet: its command, and some more to be sure.
_RESERVED_BYTES = 64


def read_keys(
    connection: Connection,
    address: Address,
    table: SourceTable,
    keys: pa.Table,
    bad_dates: BadDates = BadDates.FAIL,
) -> Iterator[pa.RecordBatch]:
    """Read the rows that the source has of some keys.

    Args:
        connection: A connection that nobody else uses meanwhile; its session has the time zone
            UTC.
        address: The server, for messages.
        table: The table; its columns are asked for by name.
        keys: The keys, in the lake's types. Keys that differ in their bytes are different ones,
            also where a collation has them equal.
        bad_dates: What to do with dates that the lake does not have.

    Yields:
        Rows with the table's columns, in the lake's types.

    Raises:
        Invalid: A key or a value cannot be in the table of its side, a key is longer than the
            server takes, or the table's columns have changed.
        Unavailable: The connection is lost.
        Unsupported: A column of the key cannot be compared exactly.
    """
    for part, condition in _parts(connection, address, table, keys):
        statement = _statement(table, table.columns, condition)
        for batch in _batches(connection, address, statement, table.columns, bad_dates):
            rows = batch.select(list(table.primary_key))
            yield batch.take(key_positions(rows, part, is_in=True))


def missing_keys(
    connection: Connection, address: Address, table: SourceTable, keys: pa.Table
) -> pa.Table:
    """The keys that the source does not have.

    Args:
        connection, address, table, keys: As for `read_keys`.

    Returns:
        Those of the keys.

    Raises:
        Invalid, Unavailable, Unsupported: As for `read_keys`.
    """
    columns = key_columns(table)
    missing: list[pa.Table] = []
    for part, condition in _parts(connection, address, table, keys):
        statement = _statement(table, columns, condition)
        batches = list(_batches(connection, address, statement, columns, BadDates.FAIL))
        rows = pa.Table.from_batches(batches, part.schema)
        missing.append(part.take(key_positions(part, rows, is_in=False)))
    return pa.concat_tables([*missing, keys.select(list(table.primary_key)).slice(0, 0)])


def _parts(
    connection: Connection, address: Address, table: SourceTable, keys: pa.Table
) -> Iterator[tuple[pa.Table, str]]:
    """Some of the keys, and the condition that the source's rows of them meet."""
    columns = key_columns(table)
    absent = [column.name for column in columns if column.name not in keys.column_names]
    if absent:
        raise Invalid(
            f"cannot read keys of {table.name}: column '{absent[0]}' is missing; give the columns "
            f"{', '.join(table.primary_key)}"
        )
    keys = keys.select(list(table.primary_key))
    max_bytes = _max_statement_bytes(connection, address, table)
    # As a list, neither of the servers takes ENUM by its index.
    is_list = all(parse_source_type(column.source_type).name != "enum" for column in columns)
    size = _MAX_LITERALS // len(columns) if is_list else _MAX_ALTERNATIVES
    for begin in range(0, len(keys), size):
        part = keys.slice(begin, size).combine_chunks()
        literals = [
            lake_literals(values.combine_chunks(), column)
            for values, column in zip(part.columns, columns, strict=True)
        ]
        yield from _bounded(table, part, columns, literals, is_list, max_bytes)


def _bounded(
    table: SourceTable,
    part: pa.Table,
    columns: Sequence[SourceColumn],
    literals: Sequence[pa.Array],
    is_list: bool,
    max_bytes: int,
) -> Iterator[tuple[pa.Table, str]]:
    """Keys in groups, for each of which a statement is short enough."""
    names = [quoted(column.name) for column in columns]
    flags = [_is_flag(column) for column in columns]
    sides = [f"({name} <> 0)" if flag else name for name, flag in zip(names, flags, strict=True)]
    ends = np.cumsum(_lengths(_alternatives(sides, literals, is_list)))
    # The columns before the first flag are compared once more, for the index.
    before = flags.index(True) if True in flags else 0
    if before:
        ends += np.cumsum(_lengths(_alternatives(names[:before], literals[:before], is_list)))
    begin, done = 0, 0
    while begin < len(part):
        end = int(np.searchsorted(ends, done + max_bytes, side="right"))
        if end == begin:
            raise Invalid(
                f"cannot read a key of {table.name}: its statement has {int(ends[begin]) - done} "
                f"bytes, and the source takes {max_bytes}; set max_allowed_packet to more"
            )
        some = [array.slice(begin, end - begin) for array in literals]
        condition = _condition(sides, some, is_list)
        if before:
            condition += f" AND {_condition(names[:before], some[:before], is_list)}"
        yield part.slice(begin, end - begin), condition
        begin, done = end, int(ends[end - 1])


def _condition(sides: Sequence[str], literals: Sequence[pa.Array], is_list: bool) -> str:
    """A condition that the rows of some keys meet."""
    alternatives = _alternatives(sides, literals, is_list)
    all_of_them = pa.ListArray.from_arrays(pa.array([0, len(alternatives)]), alternatives)
    text: str = pc.binary_join(all_of_them, ", " if is_list else " OR ")[0].as_py()
    return f"({', '.join(sides)}) IN ({text})" if is_list else f"({text})"


def _alternatives(sides: Sequence[str], literals: Sequence[pa.Array], is_list: bool) -> pa.Array:
    """For each key its literals in brackets, or a comparison with them."""
    if is_list:
        joined = pc.binary_join_element_wise(*literals, ", ")
    else:
        comparisons = [
            pc.binary_join_element_wise(side, array, " = ")
            for side, array in zip(sides, literals, strict=True)
        ]
        joined = pc.binary_join_element_wise(*comparisons, " AND ")
    return pc.binary_join_element_wise("(", joined, ")", "")


def _lengths(alternatives: pa.Array) -> np.ndarray:
    """How many bytes each takes in a statement, with what separates it from the next."""
    lengths: np.ndarray = pc.binary_length(alternatives).to_numpy().astype(np.int64) + len(" OR ")
    return lengths


def _max_statement_bytes(connection: Connection, address: Address, table: SourceTable) -> int:
    """How many bytes the keys of a statement may take."""
    ((text,),) = text_columns(connection, address, "SELECT @@max_allowed_packet")
    packet = int(text[0].as_py())
    others = len(_statement(table, table.columns, "").encode())
    names = sum(len(quoted(name).encode()) for name in table.primary_key)
    return min(packet, _MAX_STATEMENT_BYTES) - others - 4 * names - _RESERVED_BYTES


def _statement(table: SourceTable, columns: Sequence[SourceColumn], condition: str) -> str:
    names = ", ".join(map(select_expression, columns))
    database, name = quoted(table.name.database), quoted(table.name.table)
    return f"SELECT {names} FROM {database}.{name} WHERE {condition}"


def _batches(
    connection: Connection,
    address: Address,
    statement: str,
    columns: Sequence[SourceColumn],
    bad_dates: BadDates,
) -> Iterator[pa.RecordBatch]:
    for batch in prepared_columns(connection, address, statement):
        arrays = [
            lake_values(values, column, bad_dates)
            for values, column in zip(batch, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


def _is_flag(column: SourceColumn) -> bool:
    source = parse_source_type(column.source_type)
    return source.name == "tinyint" and pa.types.is_boolean(to_arrow(column.type))
