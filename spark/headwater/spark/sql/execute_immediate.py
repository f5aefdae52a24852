"""``EXECUTE IMMEDIATE``: a statement that is a value of an expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.spark.sql.constants import SqlConstant
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.parameters import Arguments, has_named_parameters
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.variables import set_variables
from headwater.spark.sql.statement import Statement, WordKind, read_words
from headwater.spark.sql.typed_constants import typed_constants
from headwater.storage.errors import Invalid

__all__ = ["Immediate", "assign", "computed_arguments", "read_immediate", "read_values"]


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


def read_immediate(statement: Statement, context: SqlContext) -> Immediate:
    """Read ``EXECUTE IMMEDIATE text [INTO variable, …] [USING value [AS name], …]``.

    Args:
        statement: The statement.
        context: The user's, whose session computes the text and the values.

    Raises:
        Invalid: It says something else, or its text is not a string.
    """
    statement.expect("EXECUTE", "IMMEDIATE")
    if not (asked := statement.until("INTO", "USING")):
        raise statement.unexpected("a string or an expression that gives one")
    targets: list[str] = []
    if statement.accept("INTO"):
        targets.append(_variable(statement))
        while statement.accept(","):
            targets.append(_variable(statement))
    values = read_values(statement) if statement.accept("USING") else None
    statement.end()
    frame = query_frame(f"SELECT ({asked}) AS text", replace(context))
    text, kind = frame.collect()[0][0], frame.schema.fields[0].dataType
    if not isinstance(kind, st.StringType) or text is None:
        value = "null" if text is None else f"of type {kind.simpleString()}"
        raise Invalid(f"EXECUTE IMMEDIATE {asked}: a string is expected, and the value is {value}")
    arguments = None if values is None else computed_arguments(values, text, context)
    return Immediate(text, arguments, tuple(targets))


def computed_arguments(
    values: Sequence[tuple[str, str | None]], text: str, context: SqlContext
) -> Arguments:
    """The arguments of a statement, which Spark computes.

    Args:
        values: Expressions and their names, as `read_values` reads them.
        text: The statement, whose parameters have names or none.
        context: The user's.

    Raises:
        Invalid: A value has no name where the statement has names.
    """
    written = typed_constants([expression for expression, _ in values], context)
    return _named_arguments(values, written) if has_named_parameters(text) else written


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
    set_variables(targets, spark.createDataFrame(rows, frame.schema), spark)


def _variable(statement: Statement) -> str:
    return ".".join(map(quoted, statement.name_parts()))


def read_values(statement: Statement) -> list[tuple[str, str | None]]:
    """The expressions of ``USING``, and their names."""
    start = statement.mark()
    in_brackets = statement.peek("(")
    if in_brackets:
        statement.bracketed()
        in_brackets = statement.at_end
        statement.reset(start)
    if in_brackets:
        statement.expect("(")
    values = [_named(statement.until(","), statement)]
    while statement.accept(","):
        values.append(_named(statement.until(","), statement))
    if in_brackets:
        statement.expect(")")
    return values


def _named_arguments(
    values: Sequence[tuple[str, str | None]], written: Sequence[SqlConstant]
) -> dict[str, SqlConstant]:
    """Values by their names; a variable without one has its own."""
    names = [name or _variable_name(expression) for expression, name in values]
    if None in names or len(set(names)) != len(names):
        raise Invalid(
            "EXECUTE IMMEDIATE … USING: each value has a name of its own, as in 5 AS least, where "
            "the statement has :names"
        )
    return {name: value for name, value in zip(names, written, strict=True) if name is not None}


def _variable_name(expression: str) -> str | None:
    """The last part of a name; None for other expressions."""
    words = read_words(expression)
    is_name = all(
        word.is_name if at % 2 == 0 else word.text == "." for at, word in enumerate(words)
    )
    return words[-1].text if is_name and len(words) % 2 else None


def _named(text: str, statement: Statement) -> tuple[str, str | None]:
    """An expression, and the name that it has by AS."""
    words = read_words(text)
    if not words:
        raise statement.unexpected("a value")
    if len(words) < 3 or words[-2].kind is not WordKind.WORD or words[-2].text.upper() != "AS":
        return text, None
    return text[: words[-2].start], words[-1].text
