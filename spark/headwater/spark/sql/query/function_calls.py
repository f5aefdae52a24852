"""Calls of the catalog's functions in SQL text: ``database.function(…)``.

Spark knows no functions of the catalog. Those that are SQL expressions become temporary ones of its
session, each time that they are called, and are called by these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.catalog.model.functions import (
    FileDefinition,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.spark.names import quoted
from headwater.spark.session import is_set
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.query.paimon_functions import is_paimon_function, max_partition
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.spark.types import spark_type, sql_type_text
from headwater.storage.errors import Invalid, NotFound, Unsupported

__all__ = [
    "ANSI",
    "ANSI_OPTION",
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
ANSI = "spark.sql.ansi.enabled"
ANSI_OPTION = f"sqlConfig.{ANSI}"
"""The option that keeps the session's setting `ANSI` of when a function was made.

Paimon's Spark keeps all settings that a session changed (``CreatePaimonSQLFunctionCommand.scala``).
"""

# What stands before brackets often, and is no function's name.
_BEFORE_BRACKETS = frozenset(
    {
        "ALL", "AND", "AS", "BY", "CUBE", "DISTINCT", "EXCEPT", "EXISTS", "FROM", "IN", "INTERSECT",
        "JOIN", "NOT", "ON", "OR", "OVER", "ROLLUP", "SELECT", "SETS", "TABLESAMPLE", "THEN",
        "UNION", "USING", "VALUES", "WHEN", "WHERE", "WITH",
    }
)  # fmt: skip


def called_functions(
    text: str, context: SqlContext, database: str | None, around: Sequence[str] = ()
) -> list[tuple[int, int, str]]:
    """The places of a text where functions of the catalog are called, and what to write there.

    Args:
        text: A query or an expression.
        context: The user's.
        database: The database of names that say none; there, functions of Spark's session go first.
        around: The functions in whose definitions the text stands.

    Raises:
        Invalid: A function calls itself, or has arguments that it cannot have.
        Unsupported: A function's definition is none that queries here can call.
    """
    words = read_words(text)
    found: list[tuple[int, int, str]] = []
    short: list[tuple[int, int, str]] = []
    at = 0
    while at < len(words):
        first = at
        if not words[at].is_name:
            at += 1
            continue
        while at + 2 < len(words) and words[at + 1].text == "." and words[at + 2].is_name:
            at += 2
        at += 1
        parts = context.whole_name([word.text for word in words[first:at:2]])
        if at == len(words) or words[at].kind is not WordKind.SYMBOL or words[at].text != "(":
            continue
        start, end = words[first].start, words[at - 1].end
        if len(parts) == 1 and words[first].text.upper() not in _BEFORE_BRACKETS:
            short.append((start, end, parts[0]))
        if len(parts) != 2:
            continue
        if is_paimon_function(*parts):
            close = _closing(words, at)
            arguments = text[words[at].end : words[close].start]
            literal = max_partition(arguments, context, database)
            found.append((start, words[close].end, literal))
            continue
        name = Identifier(*parts)
        try:
            spec = context.catalog.catalog.functions.get(name).spec
        except NotFound:
            continue  # It may be Spark's.
        found.append((start, end, register(context, name, spec, around)))
    return sorted([*found, *_short_calls(short, context, database, around)])


def _short_calls(
    calls: Sequence[tuple[int, int, str]],
    context: SqlContext,
    database: str | None,
    around: Sequence[str],
) -> list[tuple[int, int, str]]:
    """The calls of functions by names without a database, and what to write there."""
    if not calls or database is None:
        return []
    functions = context.catalog.catalog.functions
    try:
        names = set(all_pages(lambda token: functions.list(database, page_token=token)))
    except NotFound:
        return []
    known = context.session.spark.catalog.functionExists
    registered: dict[str, str] = {}
    for name in names.intersection(each for _, _, each in calls):
        if not known(quoted(name)):
            identifier = Identifier(database, name)
            spec = functions.get(identifier).spec
            registered[name] = register(context, identifier, spec, around)
    return [(start, end, registered[name]) for start, end, name in calls if name in registered]


def _closing(words: Sequence[Word], opening: int) -> int:
    """The place of the bracket that closes one."""
    depth = 0
    for at in range(opening, len(words)):
        if words[at].kind is WordKind.SYMBOL:
            depth += (words[at].text == "(") - (words[at].text == ")")
            if depth == 0:
                return at
    raise Invalid(f"the bracket after '{words[opening - 1].text}' is not closed")


def with_functions(
    text: str, context: SqlContext, around: Sequence[str] = (), database: str | None = None
) -> str:
    """A text that calls the catalog's functions by their names in Spark's session.

    Args:
        text: An expression.
        context: The user's.
        around: The functions in whose definitions it stands.
        database: The database of names that say none; None for the one in use.

    Raises:
        Invalid, Unsupported: As `called_functions`.
    """
    database = context.database if database is None else database
    for start, end, call in reversed(called_functions(text, context, database, around)):
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
        Unsupported: Its definition is none that queries here can call, or it was made in a session
            in which expressions have other values than in this one.
    """
    if str(name) in around:
        raise Invalid(f"function {name} calls itself: {' -> '.join([*around, str(name)])}")
    body = _body(name, spec)
    ansi = spec.options.get(ANSI_OPTION, "").strip().lower()
    if ansi in ("true", "false") and (ansi == "true") != is_set(context.session.spark, ANSI):
        raise Unsupported(
            f"function {name} was made with {ANSI} = {ansi}, and may have other values here: "
            f"SET {ANSI} = {ansi} to call it"
        )
    body = _with_plain_parameters(body, name, spec, context.fold)
    body = with_functions(body, context, [*around, str(name)], name.database)
    parameters = ", ".join(
        f"{quoted(each.name)} {sql_type_text(spark_type(each.data_type))}"
        + ("" if each.default_value is None else f" DEFAULT {each.default_value}")
        for each in spec.input_params or ()
    )
    returned = spec.return_params or ()
    returns = f"RETURNS {sql_type_text(spark_type(returned[0].data_type))} " if returned else ""
    kind = "" if spec.is_deterministic else "NOT DETERMINISTIC "
    call = quoted(str(name))
    context.session.spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {call}({parameters}) {returns}{kind}RETURN {body}"
    )
    return call


def _with_plain_parameters(
    body: str, name: Identifier, spec: FunctionSpec, fold: Callable[[str], str]
) -> str:
    """A function's expression without its own name before parameters, as it has another here."""
    parameters = {fold(each.name) for each in spec.input_params or ()}
    if fold(name.name) in parameters:
        return body  # That is a field of the parameter.
    words = read_words(body)
    for at in range(len(words) - 3, -1, -1):
        owner, dot, parameter = words[at : at + 3]
        before = words[at - 1].text if at else ""
        if (
            owner.is_name
            and fold(owner.text) == fold(name.name)
            and (dot.text, before == ".") == (".", False)
            and parameter.is_name
            and fold(parameter.text) in parameters
        ):
            body = body[: owner.start] + body[parameter.start :]
    return body


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
