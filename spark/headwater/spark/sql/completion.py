"""The words that a statement's text may go on with: names of the catalog and SQL's own."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client import Lake
from headwater.storage.errors import HeadwaterError

__all__ = ["WORD_ENDS", "completions", "names_in"]

WORD_ENDS = " \t\n,()=<>+-*/;'\""
"""The characters that part words."""

_WORDS = (
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CACHE",
    "CALL",
    "CASE",
    "CATALOG",
    "CREATE",
    "CROSS",
    "DATABASE",
    "DATABASES",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPIRES",
    "EXPLAIN",
    "EXTENDED",
    "FROM",
    "FULL",
    "FUNCTION",
    "FUNCTIONS",
    "GRANT",
    "GRANTS",
    "GROUP",
    "HAVING",
    "IF",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MATCHED",
    "MERGE",
    "NOT",
    "NULL",
    "OF",
    "ON",
    "OR",
    "ORDER",
    "OVERWRITE",
    "PARTITION",
    "PARTITIONED",
    "PARTITIONS",
    "POLICIES",
    "REVOKE",
    "RIGHT",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TABLES",
    "TBLPROPERTIES",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUNCATE",
    "UNION",
    "UPDATE",
    "USE",
    "USER",
    "USING",
    "VALUES",
    "VERSION",
    "VIEW",
    "VIEWS",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
)


def names_in(catalog: Lake, database: str | None) -> list[str]:
    """Databases and tables; none while the catalog cannot be asked, as the statement will tell.

    Args:
        catalog: The catalog.
        database: The database whose tables have short names, too.
    """
    names: list[str] = []
    try:
        for each in catalog.list_databases():
            tables = catalog.list_tables(each)
            names += [each, *(f"{each}.{table}" for table in tables)]
            if each == database:
                names += tables
    except HeadwaterError:
        return names
    return names


def completions(begun: str, names: Sequence[str]) -> list[str]:
    """The words that begin so, whatever their case: names, then SQL's words in the case begun."""
    folded = begun.casefold()
    found = [name for name in names if name.casefold().startswith(folded)]
    is_upper = not begun or begun[:1].isupper()
    words = [word for word in _WORDS if word.casefold().startswith(folded)]
    return [*found, *(word if is_upper else word.lower() for word in words)]
