"""Ranges of a table's primary key, read one after the other.

The server alone compares keys, by the columns' collations: a bound is a key that it named, in the
text form of its values. A range begins after its lower bound and ends with its upper one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceColumn, SourceTable
from headwater.cdc.postgres.catalog import quoted, quoted_table
from headwater.cdc.postgres.copy_rows import copied_columns
from headwater.cdc.postgres.server import PostgresServer
from headwater.cdc.postgres.values import lake_values
from headwater.cdc.source.key_ranges import Bound, KeyRange

__all__ = [
    "key_ranges",
    "literal",
    "read_query",
    "read_range",
    "source_rows",
]


def key_ranges(
    server: PostgresServer,
    table: SourceTable,
    rows: int,
    after: Bound | None = None,
    until: Bound | None = None,
) -> Iterator[KeyRange]:
    """Divide a table, whose rows others may change meanwhile.

    Args:
        server: A connection that nobody else uses meanwhile.
        table: The table.
        rows: How many rows a range has when its bound is asked for.
        after: The upper bound of the last range that was read.
        until: Where the last range ends; None is the table's end.

    Yields:
        The ranges, in their order. A table without a key is one.

    Raises:
        Conflict: The table has changed.
        Unavailable: The connection is lost.
    """
    source = source_rows(server, table)
    names = ", ".join(map(quoted, table.primary_key))
    while table.primary_key:
        query = (
            f"SELECT {names} FROM {source}{_where(table, KeyRange(after, until))} "
            f"ORDER BY {names} LIMIT 1 OFFSET {rows - 1}"
        )
        values = [
            tuple(values[0].as_py().decode() for values in batch)
            for batch in copied_columns(server, query, len(table.primary_key))
        ]
        if not values or values[0] == until:
            break
        yield KeyRange(after, values[0])
        after = values[0]
    yield KeyRange(after, until)


def read_range(
    server: PostgresServer,
    table: SourceTable,
    part: KeyRange,
    bad_values: BadDates = BadDates.FAIL,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a range.

    Args:
        server: A connection that nobody else uses meanwhile.
        table: The table; its columns are selected by name.
        part: The range.
        bad_values: What to do with values that the lake does not have.

    Yields:
        Rows with the table's columns, in the lake's types.

    Raises:
        Conflict: The table has changed.
        Invalid: A value cannot be in the lake.
        Unavailable: The connection is lost.
    """
    names = ", ".join(quoted(column.name) for column in table.columns)
    query = f"SELECT {names} FROM {source_rows(server, table)}{_where(table, part)}"
    return read_query(server, query, table.columns, bad_values)


def read_query(
    server: PostgresServer, query: str, columns: Sequence[SourceColumn], bad_values: BadDates
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a query that selects some columns, in the lake's types."""
    names = [column.name for column in columns]
    for batch in copied_columns(server, query, len(columns)):
        arrays = [
            lake_values(values, column, bad_values)
            for values, column in zip(batch, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names)


def source_rows(server: PostgresServer, table: SourceTable) -> str:
    """What a query reads a table's rows from: without those of tables that inherit from it.

    Raises:
        Unavailable: The connection is lost.
    """
    name = quoted_table(table.name)
    kinds = server.rows("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [name])
    is_partitioned = any(kind for (kind,) in kinds)
    return name if is_partitioned else f"ONLY {name}"


def literal(text: str) -> str:
    """A literal, whose type is that of what it is compared with."""
    return "'" + text.replace("'", "''") + "'"


def _where(table: SourceTable, part: KeyRange) -> str:
    row = f"({', '.join(map(quoted, table.primary_key))})"
    conditions = [
        f"{row} {sign} ({', '.join(map(literal, bound))})"
        for sign, bound in ((">", part.after), ("<=", part.until))
        if bound is not None
    ]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
