"""Ranges of a table's primary key, read one after the other.

The server alone compares keys, by the columns' collations: a bound is a key that it named, in the
text form of its values. A range begins after its lower bound and ends with its upper one. Types of
extensions have operators of their own, which are those of the key's index, in whichever schema.
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
    "has_own_operators",
    "key_ranges",
    "literal",
    "operator",
    "operator_schemas",
    "read_query",
    "read_range",
    "source_rows",
]


# Of the operators by which the index of the primary key has its columns in order.
_OPERATORS = """
SELECT n.nspname::text
FROM pg_index i CROSS JOIN LATERAL unnest(i.indclass::oid[]) WITH ORDINALITY AS u(class, number)
  JOIN pg_opclass c ON c.oid = u.class
  JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 5
    AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
  JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
WHERE i.indisprimary AND i.indrelid = to_regclass(%s) ORDER BY u.number
"""
_SYSTEM_SCHEMA = "pg_catalog"


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
    schemas = operator_schemas(server, table)
    while table.primary_key:
        query = (
            f"SELECT {names} FROM {source}{_where(table, schemas, KeyRange(after, until))} "
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
    where = _where(table, operator_schemas(server, table), part)
    query = f"SELECT {names} FROM {source_rows(server, table)}{where}"
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


def operator_schemas(server: PostgresServer, table: SourceTable) -> Sequence[str]:
    """The schema of the operators that compare each column of the key.

    Raises:
        Unavailable: The connection is lost.
    """
    rows = server.rows(_OPERATORS, [quoted_table(table.name)])
    schemas = [str(schema) for (schema,) in rows]
    # It has another key meanwhile, which `check_definition` notices.
    is_known = len(schemas) == len(table.primary_key)
    return schemas if is_known else [_SYSTEM_SCHEMA for _ in table.primary_key]


def has_own_operators(schemas: Sequence[str]) -> bool:
    """Whether operators are not the system's, which comparisons of whole rows find."""
    return any(schema != _SYSTEM_SCHEMA for schema in schemas)


def operator(schema: str, sign: str) -> str:
    """An operator of a schema."""
    return f"OPERATOR({quoted(schema)}.{sign})"


def _where(table: SourceTable, schemas: Sequence[str], part: KeyRange) -> str:
    conditions = [
        _condition(list(map(quoted, table.primary_key)), schemas, sign, list(map(literal, bound)))
        for sign, bound in ((">", part.after), ("<=", part.until))
        if bound is not None
    ]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _condition(names: list[str], schemas: Sequence[str], sign: str, values: list[str]) -> str:
    """A comparison of the key with a bound."""
    if not has_own_operators(schemas):
        return f"({', '.join(names)}) {sign} ({', '.join(values)})"
    *columns, (name, schema, value) = zip(names, schemas, values, strict=True)
    condition = f"{name} {operator(schema, sign)} {value}"
    for name, schema, value in reversed(columns):
        is_further = f"{name} {operator(schema, sign[0])} {value}"
        is_equal = f"{name} {operator(schema, '=')} {value}"
        condition = f"({is_further} OR {is_equal} AND {condition})"
    # An index serves the first column alone.
    return f"{names[0]} {operator(schemas[0], sign[0] + '=')} {values[0]} AND {condition}"
