"""Calls of the catalog's functions: ``database.function(…)``.

Spark knows no functions of the catalog. Those in SQL become temporary ones of its session, each
time that they are called, and are called by these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import (
    FileDefinition,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.spark.names import quoted
from headwater.spark.session import is_connect, is_set
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import brace_escaped, brace_unescaped, string_literal
from headwater.spark.sql.parser import Cursor, QueryParser, UnsupportedSyntax, tokenize
from headwater.spark.sql.query.paimon_functions import paimon_call
from headwater.spark.sql.query.references import FunctionCall, OuterTable, find_references
from headwater.spark.sql.query.temporary_objects import system_functions
from headwater.spark.types import spark_type, sql_type_text
from headwater.storage.errors import Invalid, NotFound, Unsupported

__all__ = [
    "ANSI",
    "ANSI_OPTION",
    "CONTAINS_OPTION",
    "DIALECT",
    "QUERY_OPTION",
    "TABLE_DIALECT",
    "FunctionBody",
    "FunctionCalls",
    "SessionFunction",
    "is_query",
]

DIALECT = "spark"
"""The engine for which a definition is."""
_CURRENT = frozenset({"current_catalog", "current_database", "current_schema"})
TABLE_DIALECT = "spark-table"
"""The name of the definition of a function that returns a table.

Paimon's Spark has no such functions, and would take one called `DIALECT` for a scalar one.
"""
QUERY_OPTION = "spark.sql-function.is-query"
"""The option that says of a definition if it is a query."""
CONTAINS_OPTION = "spark.sql-function.contains-sql"
"""The option that says ``true`` of a function that reads no tables, ``false`` of one that may."""
ANSI = "spark.sql.ansi.enabled"
ANSI_OPTION = f"sqlConfig.{ANSI}"
"""The option that keeps the session's setting `ANSI` of when a function was made.

Paimon's Spark keeps all settings that a session changed (``CreatePaimonSQLFunctionCommand.scala``).
"""


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """The body of a function.

    Attributes:
        text: An expression or a query.
        is_query: Whether it is a query.
        function: The function.
        parameters: What its parameters are qualified with: the function's name.
    """

    text: str
    is_query: bool
    function: Identifier
    parameters: Sequence[OuterTable]


class BodyWriter(Protocol):
    """Puts the catalog's tables and functions into the body of a function."""

    def __call__(self, body: FunctionBody) -> tuple[str, bool]:
        """Write a body out.

        Returns:
            It with places for its tables, and whether tables were given any.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionFunction:
    """A function of the catalog as a temporary one of Spark's session.

    Attributes:
        name: Its name there, in backquotes.
        statement: The statement that creates it, with places for the tables that it reads.
        reads_tables: Whether it, or a function that it calls, has such places.
        returns_table: Whether it stands where relations do.
    """

    name: str
    statement: str
    reads_tables: bool
    returns_table: bool


class FunctionCalls:
    """The functions of the catalog that one statement calls.

    Args:
        context: The user's.
        write_body: Writes the bodies of functions.
        new: A function that is being made, and its content.
    """

    def __init__(
        self,
        context: SqlContext,
        write_body: BodyWriter,
        new: tuple[Identifier, FunctionSpec] | None = None,
    ) -> None:
        self.functions: dict[str, SessionFunction] = {}
        self._context, self._write_body, self._new = context, write_body, new
        self._made = 0
        self._around: list[str] = []
        self._reads: list[bool] = []
        """Whether the functions around read tables by those that they call."""

    def changes(
        self, calls: Sequence[FunctionCall], database: str | None, *, is_stored: bool = False
    ) -> list[tuple[int, int, str]]:
        """The offsets of calls of the catalog's functions, and what to write there.

        Args:
            calls: The calls of a query or an expression.
            database: The database of names that say none; there, functions of Spark's session go
                first.
            is_stored: Whether the calls stand in a view or function of the catalog, for which the
                session's temporary functions do not exist.

        Raises:
            Invalid: A function calls itself, or has arguments that it cannot have.
            Unsupported: A function's definition is not one that queries here can call.
        """
        changes: list[tuple[int, int, str]] = []
        short: list[tuple[FunctionCall, str]] = []
        for call in calls:
            parts = self._context.whole_name(call.parts)
            if (current := self._current(call)) is not None:
                changes.append(current)
                continue
            if len(parts) == 1:
                short.append((call, parts[0]))
            if len(parts) != 2:
                continue
            if (change := paimon_call(call, self._context, database)) is not None:
                changes.append(change)
                continue
            function = self._function(Identifier(*parts))
            if function is not None:  # Otherwise it may be Spark's.
                changes += _call_changes(call, parts[1], self._in_session(*function))
        return [*changes, *self._short_calls(short, database, is_stored=is_stored)]

    def _current(self, call: FunctionCall) -> tuple[int, int, str] | None:
        """What to write for ``current_database()`` and its like, which Spark has its own of."""
        *qualifier, name = map(str.lower, call.parts)
        is_sparks = qualifier in ([], ["builtin"], ["system", "builtin"])
        if not is_sparks or call.constants or name not in _CURRENT:
            return None
        context = self._context
        value = context.catalog.warehouse if name == "current_catalog" else context.database
        literal = "CAST(NULL AS STRING)" if value is None else string_literal(value)
        alias = f" AS {quoted(f'{name}()')}" if call.lacks_alias else ""
        return call.start, call.close, f"{literal}{alias}"

    def over_tables(self) -> Sequence[SessionFunction]:
        """The functions if any reads tables, in the order in which they are to be made.

        Otherwise they are made here, and need not be made for each set of frames.
        """
        functions = tuple(self.functions.values())
        if any(function.reads_tables for function in functions):
            return functions
        for function in functions[self._made :]:
            statement = brace_unescaped(function.statement)
            self._context.session.spark.sql(statement)
        self._made = len(functions)
        return ()

    def _function(self, name: Identifier) -> tuple[Identifier, FunctionSpec] | None:
        """A function by its name, or by one in another case."""
        if self._new is not None and self._new[0] == name:
            return self._new
        functions = self._context.catalog.catalog.functions
        try:
            return name, functions.get(name).spec
        except NotFound:
            stored = self._context.stored_names.function(name)
            return None if stored == name else (stored, functions.get(stored).spec)

    def _short_calls(
        self,
        calls: Sequence[tuple[FunctionCall, str]],
        database: str | None,
        *,
        is_stored: bool,
    ) -> list[tuple[int, int, str]]:
        """The calls of functions by names without a database, and what to write there."""
        if not calls or database is None:
            return []
        functions = self._context.catalog.catalog.functions
        try:
            names = set(all_pages(lambda token: functions.list(database, page_token=token)))
        except NotFound:
            return []
        if self._new is not None and self._new[0].database == database:
            names.add(self._new[0].name)
        spark = self._context.session.spark
        fold = self._context.fold
        folded = set(map(fold, names))
        called: dict[str, SessionFunction] = {}
        for name in {name for _, name in calls if fold(name) in folded}:
            if is_stored:
                is_sparks = name.lower() in system_functions(spark)
            else:
                is_sparks = spark.catalog.functionExists(quoted(name))
            if not is_sparks:
                function = self._function(Identifier(database, name))
                if function is not None:
                    called[name] = self._in_session(*function)
        return [
            change
            for call, name in calls
            if name in called
            for change in _call_changes(call, name, called[name])
        ]

    def _in_session(self, name: Identifier, spec: FunctionSpec) -> SessionFunction:
        """A function as one of Spark's session.

        Raises:
            Invalid: It calls itself.
            Unsupported: Its definition is not one that queries here can call, or it was made in a
                session in which expressions have other values than in this one.
        """
        if str(name) in self._around:
            path = " -> ".join([*self._around, str(name)])
            raise Invalid(f"function {name} calls itself: {path}")
        function = self.functions.get(str(name))
        if function is None:
            _check_session(name, spec, self._context)
            text, returns_table = _definition(name, spec)
            self._around.append(str(name))
            try:
                function = self._written(name, spec, text, returns_table)
            finally:
                self._around.pop()
            self.functions[str(name)] = function
        if self._reads:
            self._reads[-1] |= function.reads_tables
        return function

    def _written(
        self, name: Identifier, spec: FunctionSpec, text: str, returns_table: bool
    ) -> SessionFunction:
        spark = self._context.session.spark
        queries = returns_table or spec.options.get(QUERY_OPTION) == "true" or is_query(text)
        called = str(name)
        body = FunctionBody(text, queries, name, self._parameters(name, spec, called))
        self._reads.append(False)
        written, has_places = self._write_body(body)
        reads_tables = self._reads.pop() or has_places
        if reads_tables and is_connect(spark):
            # Spark Connect looks the function up again whenever the frame is run.
            called = f"{name} {self._context.session.catalog.runtime.new_uuid()}"
            body = FunctionBody(text, queries, name, self._parameters(name, spec, called))
            written, _ = self._write_body(body)
        parameters = ", ".join(
            f"{quoted(column.name)} {sql_type_text(spark_type(column.data_type))}"
            + self._default(column, name.database)
            for column in spec.input_params or ()
        )
        kind = "" if spec.is_deterministic else "NOT DETERMINISTIC "
        contains = spec.options.get(CONTAINS_OPTION)
        if contains is not None:
            kind += "CONTAINS SQL " if contains == "true" else "READS SQL DATA "
        declared = f"{quoted(called)}({parameters}) {_returns(spec, returns_table)}{kind}"
        escaped = brace_escaped(declared)
        return SessionFunction(
            quoted(called),
            f"CREATE OR REPLACE TEMPORARY FUNCTION {escaped}RETURN {written}",
            reads_tables,
            returns_table,
        )

    def _default(self, column: Column, database: str) -> str:
        """The clause ``DEFAULT`` of a parameter."""
        if column.default_value is None:
            return ""
        value = column.default_value
        names = find_references(value, self._context.fold, outer=(), is_query=False)
        for start, end, text in sorted(
            self.changes(names.calls, database, is_stored=True), reverse=True
        ):
            value = value[:start] + text + value[end:]
        return f" DEFAULT {value}"

    def _parameters(
        self, name: Identifier, spec: FunctionSpec, called: str
    ) -> Sequence[OuterTable]:
        fold = self._context.fold
        parameters = {fold(column.name) for column in spec.input_params or ()}
        # The name of a parameter would be that, and what follows it a field of its.
        return () if fold(name.name) in parameters else (OuterTable((name.name,), True, called),)


def _call_changes(
    call: FunctionCall, name: str, function: SessionFunction
) -> list[tuple[int, int, str]]:
    changes = [(call.start, call.end, function.name)]
    if call.lacks_alias and function.returns_table:
        changes.append((call.close, call.close, f" AS {quoted(name)}"))
    return changes


def _returns(spec: FunctionSpec, returns_table: bool) -> str:
    """The clause ``RETURNS`` of a function; empty where Spark is to find the type out."""
    columns = [
        (quoted(column.name), sql_type_text(spark_type(column.data_type)))
        for column in spec.return_params or ()
    ]
    if returns_table:
        declared = ", ".join(f"{name} {kind}" for name, kind in columns)
        return f"RETURNS TABLE({declared}) " if columns else "RETURNS TABLE "
    return f"RETURNS {columns[0][1]} " if columns else ""


def _check_session(name: Identifier, spec: FunctionSpec, context: SqlContext) -> None:
    ansi = spec.options.get(ANSI_OPTION, "").strip().lower()
    if ansi in ("true", "false") and (ansi == "true") != is_set(context.session.spark, ANSI):
        raise Unsupported(
            f"function {name} was made with {ANSI} = {ansi}, and may have other values here: "
            f"SET {ANSI} = {ansi} to call it"
        )


def _definition(name: Identifier, spec: FunctionSpec) -> tuple[str, bool]:
    """The SQL body of a function, and whether it returns a table."""
    table = spec.definitions.get(TABLE_DIALECT)
    match table or spec.definitions.get(DIALECT):
        case SqlDefinition(definition=body):
            return body, table is not None
        case FileDefinition() | LambdaDefinition() as other:
            form = "in files" if isinstance(other, FileDefinition) else "a lambda"
            raise Unsupported(
                f"function {name} is {form}, written in {other.language}, which queries here do "
                "not call: only functions with a SQL definition; register a function of your own "
                "with the Spark session"
            )
        case _:
            raise Unsupported(
                f"function {name} has no definition for '{DIALECT}'; add one with CALL "
                "sys.alter_function"
            )


def is_query(body: str) -> bool:
    """Whether a function's body is a query, and not an expression.

    As in Paimon, what can be read as an expression is one (``SQLFunctionConverter.scala``).
    """
    cursor = Cursor(body, tokenize(body))
    try:
        QueryParser(cursor).expressions.expression()
    except UnsupportedSyntax:
        return True
    return not cursor.at_end
