"""Names in statements: columns whatever their case, patterns of names, and names as SQL text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.spark.names import quoted
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

__all__ = [
    "accept_database_word",
    "brace_escaped",
    "brace_unescaped",
    "column_name",
    "column_path",
    "database_name",
    "fields_inside",
    "matching",
    "object_identifier",
    "quoted_identifier",
    "string_literal",
]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DATABASE_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def column_name(fields: Sequence[DataField], name: str) -> str:
    """A column's own name from how a user wrote it: its case does not matter, as in Spark.

    Raises:
        NotFound: There is no such column.
        Invalid: Several differ from it in case only.
    """
    names = [field.name for field in fields]
    if name in names:
        return name
    alike = [column for column in names if column.lower() == name.lower()]
    if len(alike) > 1:
        raise Invalid(f"column '{name}' may be any of {', '.join(alike)}; write it as it is")
    if not alike:
        raise NotFound(
            f"column '{name}' does not exist; the columns are {', '.join(names)}",
            resource_type=ResourceType.COLUMN,
            resource_name=name,
        )
    return alike[0]


def column_path(fields: Sequence[DataField], path: Sequence[str]) -> tuple[str, ...]:
    """As `column_name`, for a column or what is in one: ``v.f``, ``v.element.f``, ``v.value.f``.

    What cannot be found in a nested type is left to those who change the schema to refuse.
    """
    first = column_name(fields, path[0])
    field = next(field for field in fields if field.name == first)
    return (first, *_inner_path(field.type, path[1:]))


def _inner_path(data_type: DataType, path: Sequence[str]) -> tuple[str, ...]:
    if not path:
        return ()
    match data_type:
        case RowType(fields=fields):
            return column_path(fields, path)
        case ArrayType(element=inner) | MultisetType(element=inner) if _is(path[0], "element"):
            return ("element", *_inner_path(inner, path[1:]))
        case MapType(value=inner) if _is(path[0], "value"):
            return ("value", *_inner_path(inner, path[1:]))
        case MapType(key=inner) if _is(path[0], "key"):
            return ("key", *_inner_path(inner, path[1:]))
        case _:
            return tuple(path)


def fields_inside(fields: Sequence[DataField], path: Sequence[str]) -> Sequence[DataField]:
    """The fields of the row at a path of `column_path`; none where there is no row."""
    if not path:
        return fields
    inner = next((field.type for field in fields if field.name == path[0]), None)
    rest = path[1:]
    while isinstance(inner, ArrayType | MapType | MultisetType) and rest:
        inner = inner.value if isinstance(inner, MapType) else inner.element
        rest = rest[1:]
    return fields_inside(inner.fields, rest) if isinstance(inner, RowType) else ()


def _is(written: str, name: str) -> bool:
    return written.lower() == name


def database_name(statement: Statement, context: SqlContext) -> str:
    """Read a database's name, which may have the warehouse's before it.

    Raises:
        Invalid: Another warehouse is meant, or there are more parts.
    """
    parts = statement.name_parts()
    warehouse = context.catalog.warehouse
    if len(parts) == 2 and parts[0] == warehouse:
        parts = parts[1:]
    if len(parts) != 1:
        raise Invalid(
            f"'{'.'.join(parts)}' is not a database of warehouse {warehouse}: write its name alone"
        )
    return context.stored_names.database(parts[0])


def accept_database_word(statement: Statement) -> bool:
    """Read DATABASE, SCHEMA or NAMESPACE if one of them comes next."""
    return any(statement.accept(word) for word in _DATABASE_WORDS)


def object_identifier(
    statement: Statement,
    context: SqlContext,
    resource_type: ResourceType = ResourceType.TABLE,
) -> Identifier:
    """Read the name of a table or a view; of a function if that is asked for."""
    return Identifier.parse(context.full_name(statement.name_parts(), resource_type))


def matching(names: Sequence[str], pattern: str | None) -> list[str]:
    """The names that match a pattern of SHOW, in their order; all of them without one.

    As Spark has it: a regular expression for all of the name, in which ``*`` is any text, ``|``
    parts several, and case does not matter.

    Raises:
        Invalid: It is not a regular expression.
    """
    if pattern is None:
        return sorted(names)
    try:
        wanted = [
            re.compile(part.strip().replace("*", ".*"), re.IGNORECASE)
            for part in pattern.strip().split("|")
        ]
    except re.error as error:
        raise Invalid(f"'{pattern}' is not a pattern of names: {error}") from None
    return sorted(name for name in names if any(one.fullmatch(name) for one in wanted))


def quoted_identifier(name: str) -> str:
    """A name as it stands in SQL text: in backquotes unless it is a plain word."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED else quoted(name)


def string_literal(text: str) -> str:
    """A text as a string in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\0") + "'"


# What statements here read as words of their own where a name may stand.
_RESERVED = frozenset(
    (
        "AFTER", "AS", "BY", "COLUMN", "COLUMNS", "COMMENT", "CONSTRAINT", "DEFAULT", "EXISTS",
        "FIRST", "FROM", "IF", "IN", "LIKE", "NOT", "NULL", "OR", "ORDER", "PARTITION", "PRIMARY",
        "SELECT", "SET", "TABLE", "TO", "USING", "VALUES", "WHERE", "WITH",
    )
)  # fmt: skip


def brace_escaped(text: str) -> str:
    """Text that keeps its braces where `SparkSession.sql` fills places in."""
    return text.replace("{", "{{").replace("}", "}}")


def brace_unescaped(text: str) -> str:
    """The text of `brace_escaped`, for `SparkSession.sql` without places."""
    return text.replace("{{", "{").replace("}}", "}")
