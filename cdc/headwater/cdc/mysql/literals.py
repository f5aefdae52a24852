"""Literals of SQL for values of a column's type, made a column at a time.

The server compares a column with such a literal by the column's index: text is in the column's own
character set and collation, and numbers are of its type.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.mysql.charsets import charset_of
from headwater.cdc.mysql.column_types import parse_source_type
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import has_chars

__all__ = ["lake_literals", "text_literals"]

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_REALS = frozenset({"float", "double"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_QUOTED = frozenset({"date", "time", "datetime", "timestamp", "uuid", "inet4", "inet6"})
_NUMBER_FORM = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_QUOTED_FORM = r"^[0-9A-Za-z:. -]*$"
_BIT_DIGITS = 16
_UTF8 = "utf8mb4"


def lake_literals(values: pa.Array, column: SourceColumn) -> pa.Array:
    """Literals that equal values of the lake in a source's column.

    Args:
        values: The values, in the Arrow form of the column's type in the lake.
        column: The column.

    Returns:
        The literals, ``string``; NULL for what is null and for numbers that the source does not
        have, such as NaN.

    Raises:
        Invalid: A value cannot be one of the column.
        Unsupported: Values of the column's type cannot be compared exactly.
    """
    expected = to_arrow(column.type)
    if values.type != expected:
        raise Invalid(
            f"cannot compare column '{column.name}' with values of type {values.type}: it is "
            f"{column.type} in the lake; give values of type {expected}"
        )
    return text_literals(_text(values, column), column)


def text_literals(text: pa.Array, column: SourceColumn) -> pa.Array:
    """Literals for values of a query's result.

    Args:
        text: The values of `select_expression` as the server writes them, ``binary``.
        column: The column.

    Returns:
        As for `lake_literals`.

    Raises:
        Invalid: A value cannot be one of the column.
        Unsupported: Values of the column's type cannot be compared exactly.
    """
    name = parse_source_type(column.source_type).name
    is_number = name in _INTEGERS | {"decimal"} or (
        name == "bit" and pa.types.is_string(to_arrow(column.type))
    )
    if name in _TEXT:
        literals = _joined(f"_{_UTF8} X'", _hexadecimal(text), "'")
        charset = charset_of(column.collation)
        if charset not in (None, _UTF8):
            # A character that the column cannot have would keep its index from being used.
            end = f" USING {charset}) COLLATE {column.collation}"
            literals = _joined("CONVERT(", literals, end)
    elif name in _BYTES:
        literals = _joined("X'", _hexadecimal(text), "'")
    elif is_number:
        literals = _checked(text, _NUMBER_FORM, column)
    elif name == "bit":
        digits = pl.Series(_hexadecimal(text)).str.zfill(_BIT_DIGITS)
        literals = digits.str.to_integer(base=16, dtype=pl.UInt64).to_arrow().cast(pa.string())
    elif name in _QUOTED:
        literals = _joined("'", _checked(text, _QUOTED_FORM, column), "'")
    elif name in _REALS:
        numbers = _checked(text, _NUMBER_FORM, column)
        if name == "float":
            # The server compares doubles: all digits of the number that is meant.
            numbers = numbers.cast(pa.float32()).cast(pa.float64()).cast(pa.string())
        # Without an exponent it would be a decimal.
        has_exponent = pc.match_substring(numbers, "e", ignore_case=True)
        literals = pc.if_else(has_exponent, numbers, _joined("", numbers, "e0"))
    else:
        raise Unsupported(
            f"column '{column.name}' of type {column.source_type} cannot be compared with values "
            "of the lake; leave its table out, or change the table's primary key"
        )
    return pc.fill_null(literals, "NULL")


def _text(values: pa.Array, column: SourceColumn) -> pa.Array:
    """Values of the lake as the server writes them: the inverse of `lake_values`."""
    type_ = values.type
    source = parse_source_type(column.source_type).name
    if pa.types.is_boolean(type_) and source == "bit":
        return pc.if_else(values, pa.scalar(b"\1"), pa.scalar(b"\0"))
    if pa.types.is_boolean(type_):
        text = values.cast(pa.int8()).cast(pa.string())
    elif pa.types.is_decimal(type_):
        # Arrow would write small numbers with an exponent.
        text = pl.Series(values).cast(pl.String).to_arrow().cast(pa.string())
    elif pa.types.is_floating(type_):
        doubles = values.cast(pa.float64())
        text = pc.if_else(pc.is_finite(doubles), doubles.cast(pa.string()), None)
    elif pa.types.is_timestamp(type_):
        text = values.cast(pa.timestamp(type_.unit)).cast(pa.string())
    elif pa.types.is_nested(type_):
        raise Unsupported(
            f"column '{column.name}' of type {column.source_type} cannot be compared with values "
            f"of type {column.type}; change the table's primary key"
        )
    elif has_chars(column.type):
        # Collations that do not pad tell 'a' from 'a '; the server has CHAR without spaces.
        text = pc.utf8_rtrim(values, " ")
    else:
        text = values if pa.types.is_binary(type_) else values.cast(pa.string())
    return text.cast(pa.binary())


def _checked(text: pa.Array, form: str, column: SourceColumn) -> pa.Array:
    """Text of numbers and times, which is put into statements as it is."""
    values = text.cast(pa.string())
    is_bad = pc.invert(pc.match_substring_regex(values, form))
    if pc.any(is_bad).as_py():
        (first, *_) = values.filter(is_bad)
        raise Invalid(
            f"cannot compare column '{column.name}' of type {column.source_type} with '{first}': "
            "the type does not have such a value; repair the table of the lake"
        )
    return values


def _hexadecimal(text: pa.Array) -> pa.Array:
    return pl.Series(text).bin.encode("hex").to_arrow().cast(pa.string())


def _joined(begin: str, values: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(begin, values, end, "")
