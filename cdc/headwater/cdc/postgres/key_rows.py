"""Rows of single keys, read from the source.

The server finds keys by their index and by its collations; of its rows, those are kept whose keys
have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.columns.value_text import null_flags, text_array
from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.postgres.catalog import quoted
from headwater.cdc.postgres.key_ranges import (
    has_own_operators,
    literal,
    operator,
    operator_schemas,
    read_query,
    source_rows,
)
from headwater.cdc.postgres.server import PostgresServer
from headwater.cdc.postgres.types import Family, parse_source_type
from headwater.cdc.source.keys import key_columns, key_positions
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import to_arrow

__all__ = ["missing_keys", "read_keys"]

_KEYS_AT_ONCE = 10_000


def read_keys(
    server: PostgresServer,
    table: SourceTable,
    keys: pa.Table,
    bad_values: BadDates = BadDates.FAIL,
) -> Iterator[pa.RecordBatch]:
    """Read the rows that the source has of some keys.

    Args:
        server: A connection that nobody else uses meanwhile.
        table: The table; its columns are selected by name.
        keys: The keys, in the lake's types. Keys that differ in their bytes are different ones,
            also where the server has them equal.
        bad_values: What to do with values that the lake does not have.

    Yields:
        Rows with the table's columns, in the lake's types.

    Raises:
        Conflict: The table has changed.
        Invalid: A key or a value cannot be in the table of its side.
        Unavailable: The connection is lost.
        Unsupported: A column of the key cannot be compared.
    """
    source, schemas = source_rows(server, table), operator_schemas(server, table)
    for part in _parts(table, keys):
        query = _query(source, table, table.columns, part, schemas)
        for batch in read_query(server, query, table.columns, bad_values):
            rows = batch.select(list(table.primary_key))
            yield batch.take(key_positions(rows, part, is_in=True))


def missing_keys(server: PostgresServer, table: SourceTable, keys: pa.Table) -> pa.Table:
    """The keys that the source does not have.

    Args:
        server, table, keys: As for `read_keys`.

    Returns:
        Those of the keys.

    Raises:
        Conflict, Invalid, Unavailable, Unsupported: As for `read_keys`.
    """
    columns, source = key_columns(table), source_rows(server, table)
    schemas = operator_schemas(server, table)
    missing: list[pa.Table] = []
    for part in _parts(table, keys):
        query = _query(source, table, columns, part, schemas)
        batches = list(read_query(server, query, columns, BadDates.FAIL))
        rows = pa.Table.from_batches(batches, part.schema)
        missing.append(part.take(key_positions(part, rows, is_in=False)))
    return pa.concat_tables([*missing, keys.select(list(table.primary_key)).slice(0, 0)])


def _parts(table: SourceTable, keys: pa.Table) -> Iterator[pa.Table]:
    absent = [name for name in table.primary_key if name not in keys.column_names]
    if absent:
        raise Invalid(
            f"cannot read keys of {table.name}: column '{absent[0]}' is missing; give the columns "
            f"{', '.join(table.primary_key)}"
        )
    keys = keys.select(list(table.primary_key))
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        yield keys.slice(begin, _KEYS_AT_ONCE).combine_chunks()


def _query(
    source: str,
    table: SourceTable,
    columns: Sequence[SourceColumn],
    keys: pa.Table,
    schemas: Sequence[str],
) -> str:
    """A query for the rows of keys, which it has as arrays of text, a column each."""
    key = key_columns(table)
    arrays: list[str] = []
    values: list[str] = []
    for index, (column, chunks) in enumerate(zip(key, keys.columns, strict=True)):
        text = key_text(chunks.combine_chunks(), column)
        arrays.append(f"{literal(_array_text(text))}::text[]")
        values.append(f"u.k{index}::{_unbounded(column)}")
    names = ", ".join(quoted(column.name) for column in columns)
    left = ", ".join(quoted(column.name) for column in key)
    aliases = ", ".join(f"k{index}" for index in range(len(key)))
    if has_own_operators(schemas):
        equal = " AND ".join(
            f"r.{quoted(column.name)} {operator(schema, '=')} {value}"
            for column, schema, value in zip(key, schemas, values, strict=True)
        )
        return (
            f"SELECT {names} FROM {source} AS r WHERE EXISTS (SELECT "
            f"FROM unnest({', '.join(arrays)}) AS u ({aliases}) WHERE {equal})"
        )
    return (
        f"SELECT {names} FROM {source} WHERE ({left}) IN (SELECT {', '.join(values)} "
        f"FROM unnest({', '.join(arrays)}) AS u ({aliases}))"
    )


def _unbounded(column: SourceColumn) -> str:
    """A column's type without a length or digits, to which a cast might cut a value."""
    source = parse_source_type(column.source_type)
    if not source.arguments:
        return column.source_type
    return {"character": "bpchar", "bit": '"bit"'}.get(source.name, source.name)


def _array_text(text: pa.Array) -> str:
    """Text as an array's literal."""
    escaped = pc.replace_substring_regex(text, r'(["\\])', r"\\\1")
    elements = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    lists = pa.ListArray.from_arrays(pa.array([0, len(elements)], pa.int32()), elements)
    return "{" + str(pc.binary_join(lists, ",")[0].as_py()) + "}"


def key_text(values: pa.Array, column: SourceColumn) -> pa.Array:
    """The text form of values of the lake: the inverse of `lake_values`.

    Args:
        values: The values, in the Arrow form of the column's type in the lake.
        column: The column.

    Raises:
        Invalid: The values are not of that type.
        Unsupported: The column's type has no such form.
    """
    expected = to_arrow(column.type)
    if values.type != expected:
        raise Invalid(
            f"cannot compare column '{column.name}' with values of type {values.type}: it is "
            f"{column.type} in the lake; give values of type {expected}"
        )
    source = parse_source_type(column.source_type)
    if pa.types.is_string(expected):
        return values
    if pa.types.is_nested(expected):
        raise Unsupported(
            f"column '{column.name}' of type {column.source_type} cannot be compared with values "
            f"of type {column.type}; change the table's primary key"
        )
    if source.family is Family.BITS:
        return _bits_text(values, (source.arguments or (1,))[0])
    if pa.types.is_binary(expected):
        if source.family is not Family.BYTES:
            return values.cast(pa.string())
        digits = pl.Series(values).bin.encode("hex").to_arrow().cast(pa.string())
        return pc.binary_join_element_wise("\\x", digits, "")
    if pa.types.is_decimal(expected):
        # Arrow would write small numbers with an exponent.
        return pl.Series(values).cast(pl.String).to_arrow().cast(pa.string())
    if pa.types.is_timestamp(expected):
        # The session is in UTC.
        return values.cast(pa.timestamp(expected.unit)).cast(pa.string())
    return values.cast(pa.string())


def _bits_text(values: pa.Array, bits: int) -> pa.Array:
    if pa.types.is_boolean(values.type):
        return pc.if_else(values, "1", "0")
    rows, nulls = len(values), null_flags(values)
    filled = pc.fill_null(values, bytes((bits + 7) // 8))
    bounds = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset :][: rows + 1]
    data = np.frombuffer(filled.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    matrix = np.unpackbits(data.reshape(rows, -1), axis=1)[:, -bits:]
    return text_array(matrix + np.uint8(ord("0")), nulls)
