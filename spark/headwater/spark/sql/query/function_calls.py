"""Calls of the catalog's functions in SQL text: ``database.function(…)``.

Spark knows no functions of the catalog. Those that are SQL expressions become temporary ones of its
session, each time that they are called, and are called by these.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.functions import (
    FileDefinition,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.spark.names import quoted
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.statement import WordKind, read_words
from headwater.spark.types import spark_type
from headwater.storage.errors import Invalid, NotFound, Unsupported

__all__ = [
    "DIALECT",
    "QUERY_OPTION",
    "begins_query",
    "called_functions",
    "register",
    "with_functions",
]

DIALECT = "spark"
"""The engine for which a definition is."""
QUERY_OPTION = "spark.sql-function.is-query"
"""The option that says of a definition if it is a query."""


def called_functions(
    text: str, context: SqlContext, around: Sequence[str] = ()
) -> list[tuple[int, int, str]]:
    """The places of a text where functions of the catalog are called, and what to write there.

    Args:
        text: A query or an expression.
        context: The user's.
        around: The functions in whose definitions the text stands.

    Raises:
        Invalid: A function calls itself.
        Unsupported: A function's definition is none that queries here can call.
    """
    words = read_words(text)
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(words):
        first = at
        if not words[at].is_name:
            at += 1
            continue
        while at + 2 < len(words) and words[at + 1].text == "." and words[at + 2].is_name:
            at += 2
        at += 1
        parts = [word.text for word in words[first:at:2]]
        called = at < len(words) and words[at].kind is WordKind.SYMBOL and words[at].text == "("
        if len(parts) == 3 and parts[0] == context.catalog.warehouse:
            parts = parts[1:]
        if not called or len(parts) != 2:
            continue
        name = Identifier(*parts)
        try:
            spec = context.catalog.catalog.functions.get(name).spec
        except NotFound:
            continue  # It may be Spark's.
        end = words[at - 1].end
        found.append((words[first].start, end, register(context, name, spec, around)))
    return found


def with_functions(text: str, context: SqlContext, around: Sequence[str] = ()) -> str:
    """A text that calls the catalog's functions by their names in Spark's session.

    Raises:
        Invalid, Unsupported: As `called_functions`.
    """
    for start, end, call in reversed(called_functions(text, context, around)):
        text = text[:start] + call + text[end:]
    return text


def register(
    context: SqlContext, name: Identifier, spec: FunctionSpec, around: Sequence[str] = ()
) -> str:
    """Make a function one of Spark's session; its name there, in backquotes.

    Args:
        context: The user's.
        name: The function's.
        spec: The function.
        around: The functions in whose definitions it is called.

    Raises:
        Invalid: It calls itself.
        Unsupported: Its definition is none that queries here can call.
    """
    if str(name) in around:
        raise Invalid(f"function {name} calls itself: {' -> '.join([*around, str(name)])}")
    body = _body(name, spec)
    body = with_functions(body, context, [*around, str(name)])
    parameters = ", ".join(
        f"{quoted(each.name)} {spark_type(each.data_type).simpleString()}"
        + ("" if each.default_value is None else f" DEFAULT {each.default_value}")
        for each in spec.input_params or ()
    )
    returned = spec.return_params or ()
    returns = f"RETURNS {spark_type(returned[0].data_type).simpleString()} " if returned else ""
    kind = "" if spec.is_deterministic else "NOT DETERMINISTIC "
    call = quoted(str(name))
    context.session.spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {call}({parameters}) {returns}{kind}RETURN {body}"
    )
    return call


def _body(name: Identifier, spec: FunctionSpec) -> str:
    match spec.definitions.get(DIALECT):
        case SqlDefinition(definition=body):
            if spec.options.get(QUERY_OPTION) == "true" or begins_query(body):
                raise Unsupported(
                    f"function {name}: its body is a query, which is not supported in calls; "
                    "write the query into the statement"
                )
            return body
        case FileDefinition() | LambdaDefinition() as other:
            form = "in files" if isinstance(other, FileDefinition) else "a lambda"
            raise Unsupported(
                f"function {name} is {form}, written in {other.language}, which queries here do "
                "not call: only functions with a SQL expression; register a function of your own "
                "with the Spark session"
            )
        case _:
            raise Unsupported(
                f"function {name} has no definition for '{DIALECT}'; add one with CALL "
                "sys.alter_function"
            )


def begins_query(body: str) -> bool:
    """True for a query, false for an expression."""
    words = [word for word in read_words(body) if word.text != "("]
    return bool(words) and words[0].text.upper() in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
