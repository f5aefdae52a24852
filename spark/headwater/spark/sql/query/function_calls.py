"""Calls of the catalog's functions: ``database.function(…)``.

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
from headwater.catalog.model.page import all_pages
from headwater.spark.names import quoted
from headwater.spark.session import is_set
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.parser import Cursor, QueryParser, tokenize
from headwater.spark.sql.query.paimon_functions import is_paimon_function, max_partition
from headwater.spark.sql.query.references import FunctionCall, OuterTable, find_references
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


def called_functions(
    calls: Sequence[FunctionCall],
    context: SqlContext,
    database: str | None,
    around: Sequence[str] = (),
) -> list[tuple[int, int, str]]:
    """The offsets of calls of the catalog's functions, and what to write there.

    Args:
        calls: The calls of a query or an expression.
        context: The user's.
        database: The database of names that say none; there, functions of Spark's session go first.
        around: The functions in whose definitions the calls stand.

    Raises:
        Invalid: A function calls itself, or has arguments that it cannot have.
        Unsupported: A function's definition is not one that queries here can call.
    """
    changes: list[tuple[int, int, str]] = []
    short: list[tuple[FunctionCall, str]] = []
    for call in calls:
        parts = context.whole_name(call.parts)
        if len(parts) == 1:
            short.append((call, parts[0]))
        if len(parts) != 2:
            continue
        if is_paimon_function(*parts):
            literal = max_partition(call.constants, context, database)
            changes.append((call.start, call.close, literal))
            continue
        function = _function(context, Identifier(*parts))
        if function is None:
            continue  # It may be Spark's.
        name, spec = function
        changes.append((call.start, call.end, register(context, name, spec, around)))
    return [*changes, *_short_calls(short, context, database, around)]


def _function(context: SqlContext, name: Identifier) -> tuple[Identifier, FunctionSpec] | None:
    """A function by its name, or by one in another case."""
    functions = context.catalog.catalog.functions
    try:
        return name, functions.get(name).spec
    except NotFound:
        stored = context.stored_names.function(name)
        return None if stored == name else (stored, functions.get(stored).spec)


def _short_calls(
    calls: Sequence[tuple[FunctionCall, str]],
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
    is_sparks = context.session.spark.catalog.functionExists
    fold = context.fold
    folded = set(map(fold, names))
    registered: dict[str, str] = {}
    for name in {name for _, name in calls if fold(name) in folded}:
        if not is_sparks(quoted(name)):
            identifier = context.stored_names.function(Identifier(database, name))
            spec = functions.get(identifier).spec
            registered[name] = register(context, identifier, spec, around)
    return [(call.start, call.end, registered[name]) for call, name in calls if name in registered]


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
        Unsupported: Its definition is not one that queries here can call, or it was made in a
            session in which expressions have other values than in this one.
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
    body = _written_body(body, name, spec, context, around)
    parameters = ", ".join(
        f"{quoted(column.name)} {sql_type_text(spark_type(column.data_type))}"
        + ("" if column.default_value is None else f" DEFAULT {column.default_value}")
        for column in spec.input_params or ()
    )
    returned = spec.return_params or ()
    returns = f"RETURNS {sql_type_text(spark_type(returned[0].data_type))} " if returned else ""
    kind = "" if spec.is_deterministic else "NOT DETERMINISTIC "
    call = quoted(str(name))
    context.session.spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {call}({parameters}) {returns}{kind}RETURN {body}"
    )
    return call


def _written_body(
    body: str, name: Identifier, spec: FunctionSpec, context: SqlContext, around: Sequence[str]
) -> str:
    """A function's expression with the functions that it calls by their names in Spark's session.

    Its own name before a parameter is left out, as it has another one there.
    """
    fold = context.fold
    parameters = {fold(column.name) for column in spec.input_params or ()}
    outer: list[OuterTable] = []
    if fold(name.name) not in parameters:  # That would be a field of the parameter.
        outer.append(OuterTable((name.name,), True, None))
    names = find_references(body, fold, outer=outer)
    changes = called_functions(names.calls, context, name.database, [*around, str(name)])
    changes += [(qualifier.start, qualifier.column_start, "") for qualifier in names.qualifiers]
    for start, end, text in sorted(changes, reverse=True):
        body = body[:start] + text + body[end:]
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
    """Whether a function's body is a query, and not an expression."""
    return QueryParser(Cursor(body, tokenize(body))).at_query()
