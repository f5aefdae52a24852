"""Definitions of columns, and of partitions, in CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.spark.sql.ddl.column_types import read_type, type_text
from headwater.spark.sql.names import column_name, quoted_identifier, string_literal
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
)

__all__ = [
    "column_text",
    "read_column",
    "read_default",
    "read_partition",
    "read_value",
    "refuse_alike",
]

_AFTER_DEFAULT = (",", "COMMENT", "NOT", "DEFAULT", "FIRST", "AFTER", "PRIMARY")
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")
_NUMBER = re.compile(r"(?P<value>-?\s*(\d+(\.\d*)?|\.\d+)(E[+-]?\d+)?)(BD|[LSYDF])?", re.IGNORECASE)
_ONLY_CONSTANTS = "the default of a column is a constant: a string, a number, TRUE or FALSE"


def read_column(statement: Statement) -> DataField:
    """Read ``name type [NOT NULL] [DEFAULT value] [COMMENT text]``, in any order after the type.

    Raises:
        Invalid: Something stands twice.
        Unsupported: The column is generated, or has a constraint that is not kept.
    """
    name = statement.name()
    statement.accept(":")
    field = DataField(-1, name, read_type(statement))
    seen: set[str] = set()

    def once(clause: str) -> None:
        if clause in seen:
            raise Invalid(f"column '{name}' has {clause} twice")
        seen.add(clause)

    while True:
        if statement.accept("NOT", "NULL"):
            once("NOT NULL")
            field = replace(field, type=replace(field.type, nullable=False))
        elif statement.accept("DEFAULT"):
            once("DEFAULT")
            field = replace(field, default_value=read_default(statement, field.type))
        elif statement.accept("COMMENT"):
            once("COMMENT")
            field = replace(field, description=statement.string())
        elif statement.peek("GENERATED"):
            raise Unsupported(
                f"column '{name}': tables have no generated columns; compute the value in the "
                "query that writes it"
            )
        elif any(statement.peek(word) for word in ("PRIMARY", "UNIQUE", "REFERENCES", "CHECK")):
            raise Unsupported(
                f"column '{name}': a column has no constraint but NOT NULL; for a primary key "
                "write TBLPROPERTIES ('primary-key' = '…')"
            )
        else:
            return field


def refuse_alike(fields: Sequence[DataField], fold: Callable[[str], str], where: str = "") -> None:
    """Refuse two columns, or two fields of a struct, whose names are one to the session.

    Args:
        fields: The columns, or the fields.
        fold: Gives names that are one to the session the same form.
        where: The struct that the fields are in, as it follows them in the message.

    Raises:
        Invalid: The message names them.
    """
    names = [fold(field.name) for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid(
            f"there are two columns '{twice}'{where}; the case of names does not matter unless "
            "spark.sql.caseSensitive is true"
        )
    for field in fields:
        for inner in _rows_in(field.type):
            refuse_alike(inner.fields, fold, f" in '{field.name}'")


def _rows_in(data_type: DataType) -> list[RowType]:
    """The rows that a value of a type consists of, those in these rows left out."""
    match data_type:
        case RowType():
            return [data_type]
        case ArrayType(element=inner) | MultisetType(element=inner):
            return _rows_in(inner)
        case MapType(key=key, value=value):
            return [*_rows_in(key), *_rows_in(value)]
        case _:
            return []


def read_default(statement: Statement, data_type: DataType) -> str | None:
    """Read a default: the text that a table's schema keeps of it, None for NULL.

    A string becomes its value in quotes, and ``DATE '…'`` and the like their string: readers of a
    schema cast the text between the quotes. The default of a nested type is kept as it is written.

    Args:
        statement: The statement.
        data_type: The column's type.

    Raises:
        Invalid: There is none.
        Unsupported: It is no constant, and the type is not nested.
    """
    if statement.accept("NULL"):
        return None
    is_plain = isinstance(data_type, AtomicType | VariantType)
    if is_plain and any(statement.accept(word) for word in _TYPED_LITERALS):
        return f"'{statement.string()}'"
    if is_plain and statement.peek_string():
        value = f"'{statement.literal()}'"
        if statement.at_end or any(statement.peek(word) for word in (*_AFTER_DEFAULT, ")")):
            return value
        raise Unsupported(_ONLY_CONSTANTS)
    written = statement.until(*_AFTER_DEFAULT)
    if not written:
        raise statement.unexpected("a default")
    if not is_plain:
        return written
    number = _NUMBER.fullmatch(written)
    if number is not None:
        return number["value"].replace(" ", "")
    if written.upper() in ("TRUE", "FALSE"):
        return written.lower()
    raise Unsupported(f"{_ONLY_CONSTANTS}, not {written}")


def column_text(field: DataField) -> str:
    """The definition that `read_column` reads as a column."""
    parts = [quoted_identifier(field.name), type_text(field.type)]
    if not field.type.nullable:
        parts.append("NOT NULL")
    if field.default_value is not None:
        parts.append(f"DEFAULT {_default_text(field.type, field.default_value)}")
    if field.description is not None:
        parts.append(f"COMMENT {string_literal(field.description)}")
    return " ".join(parts)


def _default_text(data_type: DataType, text: str) -> str:
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        return string_literal(text[1:-1])
    is_plain = isinstance(data_type, AtomicType | VariantType)
    if is_plain and not _NUMBER.fullmatch(text) and text not in ("true", "false"):
        return string_literal(text)
    return text


def read_partition(
    statement: Statement, names_alone: Sequence[DataField] = ()
) -> dict[str, str | None]:
    """Read ``PARTITION (a = 1, b = 'x')``: the columns' values as text; None is null.

    Args:
        statement: The statement.
        names_alone: Partition columns that may stand without a value; they are left out.

    Raises:
        Invalid: A column stands twice.
        NotFound: There is no such column that may stand without a value.
    """
    statement.expect("PARTITION", "(")
    found: dict[str, str | None] = {}
    seen: set[str] = set()
    while not statement.accept(")"):
        if seen:
            statement.expect(",")
        name = statement.name()
        if name in seen:
            raise Invalid(f"the partition has '{name}' twice")
        seen.add(name)
        if names_alone and not statement.peek("="):
            column_name(names_alone, name)
            continue
        statement.expect("=")
        found[name] = read_value(statement)
    if not seen:
        raise Invalid("PARTITION () names no column")
    return found


def read_value(statement: Statement) -> str | None:
    """Read a constant, such as ``1``, ``'x'``, ``DATE '…'`` or ``NULL``: its value as text."""
    if statement.accept("NULL"):
        return None
    for word in _TYPED_LITERALS:
        if statement.accept(word):
            return statement.string()
    return statement.literal()
