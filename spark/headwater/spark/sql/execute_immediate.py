"""``EXECUTE IMMEDIATE``: a statement that is a value of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.spark.sql.parameters import Arguments
from headwater.spark.sql.statement import Statement, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["Immediate", "assign", "read_immediate"]

# A constant of one of these types would be of another, if its value were all that is known.
_SIZED: Mapping[type[st.DataType], Callable[[Any], object]] = {
    st.ByteType: np.int8,
    st.ShortType: np.int16,
    st.LongType: np.int64,
    st.FloatType: np.float32,
}


@dataclass(frozen=True)
class Immediate:
    """A statement that another one runs.

    Attributes:
        text: The statement.
        arguments: Values of its parameters; None without USING.
        targets: The session's variables that take its one row, as SQL names them.
    """

    text: str
    arguments: Arguments | None
    targets: tuple[str, ...]


def read_immediate(statement: Statement, spark: SparkSession) -> Immediate:
    """Read ``EXECUTE IMMEDIATE text [INTO variable, …] [USING value [AS name], …]``.

    Raises:
        Invalid: It says something else, or the text is none.
    """
    statement.expect("EXECUTE", "IMMEDIATE")
    if not (asked := statement.until("INTO", "USING")):
        raise statement.unexpected("a string or an expression that gives one")
    targets: list[str] = []
    if statement.accept("INTO"):
        targets.append(_variable(statement))
        while statement.accept(","):
            targets.append(_variable(statement))
    arguments = _arguments(statement, spark) if statement.accept("USING") else None
    statement.end()
    row, kinds = _values([asked], spark)
    if not isinstance(kinds[0], st.StringType) or row[0] is None:
        given = "null" if row[0] is None else f"of type {kinds[0].simpleString()}"
        raise Invalid(f"EXECUTE IMMEDIATE {asked}: a string is expected, and the value is {given}")
    return Immediate(str(row[0]), arguments, tuple(targets))


def assign(frame: DataFrame, targets: Sequence[str], spark: SparkSession) -> None:
    """Give the one row of a frame to variables of the session; without a row they are null.

    Raises:
        Invalid: The frame has another number of columns, or several rows.
        AnalysisException: There is no such variable, or a value is of no fitting type.
    """
    if len(frame.columns) != len(targets):
        raise Invalid(
            f"EXECUTE IMMEDIATE … INTO: {len(targets)} variables are named, and the statement "
            f"gives {len(frame.columns)} columns"
        )
    rows = frame.limit(2).collect()
    if len(rows) > 1:
        raise Invalid("EXECUTE IMMEDIATE … INTO: the statement gives more than one row")
    names = ", ".join(targets).replace("{", "{{").replace("}", "}}")
    row = spark.createDataFrame(rows, frame.schema)
    spark.sql(f"SET VARIABLE ({names}) = (SELECT * FROM {{row}})", row=row)


def _variable(statement: Statement) -> str:
    return ".".join(map(quoted, statement.name_parts()))


def _arguments(statement: Statement, spark: SparkSession) -> Arguments:
    in_brackets = statement.accept("(")
    expressions: list[str] = []
    names: list[str] = []
    while True:
        expression, name = _named(statement.until(","), statement)
        expressions.append(expression)
        if name is not None:
            names.append(name)
        if not statement.accept(","):
            break
    if in_brackets:
        statement.expect(")")
    row, kinds = _values(expressions, spark)
    values = [
        value if value is None or type(kind) not in _SIZED else _SIZED[type(kind)](value)
        for value, kind in zip(row, kinds, strict=True)
    ]
    if not names:
        return values
    if len(names) != len(values) or len(set(names)) != len(names):
        raise Invalid(
            "EXECUTE IMMEDIATE … USING: each value has a name of its own, as in 5 AS least, or "
            "none has one"
        )
    return dict(zip(names, values, strict=True))


def _named(text: str, statement: Statement) -> tuple[str, str | None]:
    """An expression, and the name that it has by AS."""
    words = read_words(text)
    if not words:
        raise statement.unexpected("a value")
    if len(words) < 3 or words[-2].kind is not WordKind.WORD or words[-2].text.upper() != "AS":
        return text, None
    return text[: words[-2].start], words[-1].text


def _values(
    expressions: Sequence[str], spark: SparkSession
) -> tuple[list[object], list[st.DataType]]:
    """The values of constant expressions, and their types, as Spark has them."""
    columns = (f"({text}) AS c{at}" for at, text in enumerate(expressions))
    frame = spark.sql(f"SELECT {', '.join(columns)}")
    row = frame.collect()[0]
    return list(row), [field.dataType for field in frame.schema.fields]
