"""Predicates from SQL text (Spark's dialect) and back.

The grammar is imported when the first text comes: most processes that read or write files see none,
and the parser of SQL takes them longer to import than their work.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.storage.predicate.tree import Predicate
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["exact_predicate", "implied_predicate", "parse_predicate", "to_sql"]


def parse_predicate(sql: str, schema: TableSchema, *, any_case: bool = False) -> Predicate:
    """Read a condition in Spark's SQL dialect.

    Literals become values of their column's type; text beside a date or timestamp column is read
    as ISO text.

    Args:
        sql: The condition, without ``WHERE``.
        schema: The table's schema.
        any_case: A name that no column has means the one that differs from it in case alone.

    Raises:
        Invalid: The text is not a condition, or compares a column with a value of another kind.
        NotFound: It names a column that does not exist (COLUMN).
        Unsupported: It is a condition that cannot be pushed down to files; the message says what
            can.
    """
    from headwater.storage.predicate.sql_syntax import read_predicate

    return read_predicate(sql, schema, any_case=any_case)


def implied_predicate(
    sql: str, schema: TableSchema, columns: Mapping[str, str]
) -> Predicate | None:
    """A predicate that is true wherever a condition is, as narrow as predicates can say it.

    Args:
        sql: A condition in Spark's dialect.
        schema: The table's schema.
        columns: The table's columns by their names in the text, in which dots part names.

    Returns:
        None when no part of the condition can be said.
    """
    from headwater.storage.predicate.sql_syntax import read_implied

    return read_implied(sql, schema, columns)


def exact_predicate(sql: str, schema: TableSchema, columns: Mapping[str, str]) -> Predicate | None:
    """A predicate that is true wherever a condition is, and nowhere else.

    Args:
        sql: A condition in Spark's dialect.
        schema: The table's schema.
        columns: As for `implied_predicate`.

    Returns:
        None when a part of the condition cannot be said.
    """
    from headwater.storage.predicate.sql_syntax import read_exact

    return read_exact(sql, schema, columns)


def to_sql(predicate: Predicate, schema: TableSchema, *, pads: bool = False) -> str:
    """A predicate as a condition in Spark's dialect, which `parse_predicate` reads back.

    Args:
        predicate: The predicate.
        schema: The schema that its columns are of: dates and timestamps need their types.
        pads: Write an expression that pads its values for a column of CHAR. It is not read back.

    Raises:
        NotFound: A column does not exist.
    """
    from headwater.storage.predicate.sql_syntax import write_predicate

    return write_predicate(predicate, schema, pads=pads)
