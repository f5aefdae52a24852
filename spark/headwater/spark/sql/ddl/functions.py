"""Functions: ``CREATE``, ``DROP`` and ``DESCRIBE FUNCTION`` of those that the catalog keeps.

Those in SQL are called by queries: those with an expression or a query for a value, as Paimon's
Spark calls them, and those that return a table, which Paimon's Spark does not have. Others are kept
for engines that can. Source: ``SQLFunctionConverter.scala``, ``PaimonFunctionExec.scala``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import AnalysisException, ParseException

from headwater.catalog.model.column import Column
from headwater.catalog.model.functions import (
    FileDefinition,
    FileResource,
    FunctionInfo,
    FunctionSpec,
    LambdaDefinition,
    SqlDefinition,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import create_or_replace
from headwater.spark.names import quoted
from headwater.spark.session import is_set
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.ddl.column_types import read_type, refuse_collation
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.function_calls import (
    ANSI,
    ANSI_OPTION,
    CONTAINS_OPTION,
    DIALECT,
    QUERY_OPTION,
    TABLE_DIALECT,
    is_query,
)
from headwater.spark.sql.query.temporary_objects import refuse_variables
from headwater.spark.sql.statement import Statement
from headwater.spark.types import paimon_schema
from headwater.storage.errors import Invalid, NotFound, ResourceType
from headwater.storage.types.data_type import type_json

__all__ = ["HANDLERS"]

_DETERMINISTIC_OPTION = "spark.sql-function.deterministic"
_MODIFIERS = {
    ("LANGUAGE", "SQL"): "LANGUAGE",
    ("NOT", "DETERMINISTIC"): "DETERMINISTIC",
    ("DETERMINISTIC",): "DETERMINISTIC",
    ("CONTAINS", "SQL"): "SQL DATA",
    ("READS", "SQL", "DATA"): "SQL DATA",
}
"""What may be said of a function, and the clause that each is."""


def _create(statement: Statement, context: SqlContext) -> None:
    """``CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] f(a INT) [RETURNS INT] … RETURN a + 1``.

    Or ``… f AS 'class' USING JAR 'file'``.
    """
    statement.expect("CREATE")
    replaces = statement.accept("OR", "REPLACE")
    statement.expect("FUNCTION")
    ignore = statement.accept("IF", "NOT", "EXISTS")
    if ignore and replaces:
        raise Invalid(
            "CREATE OR REPLACE FUNCTION … IF NOT EXISTS says two things: write one of them"
        )
    name = object_identifier(statement, context, ResourceType.FUNCTION)
    spec = _of_files(statement, name) if statement.peek("AS") else _of_sql(statement, context, name)
    functions = context.catalog.catalog.functions
    if replaces:
        create_or_replace(functions, ResourceType.FUNCTION, name, spec)
    else:
        functions.create(name, spec, ignore_if_exists=ignore)


def _of_files(statement: Statement, name: Identifier) -> FunctionSpec:
    """``AS 'class' USING JAR 'file', JAR 'file'``."""
    statement.expect("AS")
    class_name = statement.string()
    resources: list[FileResource] = []
    if statement.accept("USING"):
        while True:
            if not statement.peek("JAR"):
                raise statement.unexpected("JAR and a file's name in quotes")
            statement.expect("JAR")
            resources.append(FileResource("jar", statement.string()))
            if not statement.accept(","):
                break
    statement.end()
    definition = FileDefinition(tuple(resources), "JAVA", class_name, name.name)
    return FunctionSpec(definitions={DIALECT: definition})


def _of_sql(statement: Statement, context: SqlContext, name: Identifier) -> FunctionSpec:
    """``(a INT COMMENT 'x') [RETURNS INT] [NOT DETERMINISTIC] [COMMENT 'x'] RETURN a + 1``."""
    parameters = _columns(statement, name, "parameters")
    returned: tuple[Column, ...] | None = None
    returns_table = statement.accept("RETURNS", "TABLE")
    if returns_table:
        returned = _columns(statement, name, "columns") if statement.peek("(") else None
    elif statement.accept("RETURNS"):
        returned = (Column(0, name.name, type_json(read_type(statement))),)
    comment, modifiers = _modifiers(statement)
    missing = statement.unexpected("an expression or a query")
    body = statement.rest()
    if not body:
        raise missing
    deterministic = ("NOT", "DETERMINISTIC") not in modifiers
    options = {
        QUERY_OPTION: str(returns_table or is_query(body)).lower(),
        _DETERMINISTIC_OPTION: str(deterministic).lower(),
        ANSI_OPTION: str(is_set(context.session.spark, ANSI)).lower(),
    }
    if ("CONTAINS", "SQL") in modifiers or ("READS", "SQL", "DATA") in modifiers:
        options[CONTAINS_OPTION] = str(("CONTAINS", "SQL") in modifiers).lower()
    spec = FunctionSpec(
        input_params=parameters,
        return_params=returned,
        definitions={TABLE_DIALECT if returns_table else DIALECT: SqlDefinition(body)},
        is_deterministic=deterministic,
        comment=comment,
        options=options,
    )
    return _checked(spec, context, name)


def _modifiers(statement: Statement) -> tuple[str | None, set[tuple[str, ...]]]:
    """Read what is said of a function, up to ``RETURN``; its comment, and the other clauses."""
    comment: str | None = None
    modifiers: set[tuple[str, ...]] = set()
    clauses: set[str] = set()
    while not statement.accept("RETURN"):
        words = next((words for words in _MODIFIERS if statement.accept(*words)), None)
        if words is not None:
            clause = _MODIFIERS[words]
            modifiers.add(words)
        elif statement.accept("COMMENT"):
            clause, comment = "COMMENT", statement.string()
        elif statement.peek("DEFAULT", "COLLATION"):
            clause = "DEFAULT COLLATION"
            refuse_collation(statement)
        else:
            raise statement.unexpected(
                "LANGUAGE SQL, [NOT] DETERMINISTIC, CONTAINS SQL, READS SQL DATA, COMMENT or RETURN"
            )
        if clause in clauses:
            raise Invalid(f"{clause} stands twice")
        clauses.add(clause)
    return comment, modifiers


def _columns(statement: Statement, name: Identifier, what: str) -> tuple[Column, ...]:
    """Read ``(a INT [DEFAULT 1] [COMMENT 'x'], …)``."""
    statement.expect("(")
    columns: list[Column] = []
    while not statement.accept(")"):
        if columns:
            statement.expect(",")
        label = statement.name()
        kind = read_type(statement)
        default: str | None = None
        if what == "parameters" and statement.accept("DEFAULT"):
            default = statement.until(",", "COMMENT")
        comment = statement.string() if statement.accept("COMMENT") else None
        columns.append(Column(len(columns), label, type_json(kind), comment, default))
    labels = [column.name.casefold() for column in columns]
    if len(set(labels)) < len(labels):
        raise Invalid(f"function {name} has two {what} of one name")
    return tuple(columns)


def _checked(spec: FunctionSpec, context: SqlContext, name: Identifier) -> FunctionSpec:
    """A function that Spark can call, with the types that it returns."""
    values = ", ".join("NULL" for _ in spec.input_params or ())
    call = f"{quoted(name.database)}.{quoted(name.name)}({values})"
    returns_table = TABLE_DIALECT in spec.definitions
    text = f"SELECT * FROM {call}" if returns_table else f"SELECT {call} AS value"
    with _invalid(name):
        within = replace(context, database=name.database)
        frame = query_frame(text, within, f"function {name}", (name, spec))
        schema = frame.schema
    refuse_variables(frame, f"function {name}")
    if spec.return_params is not None:
        return spec
    columns = tuple(
        Column(number, field.name if returns_table else name.name, type_json(field.type))
        for number, field in enumerate(paimon_schema(schema).fields)
    )
    return replace(spec, return_params=columns)


@contextmanager
def _invalid(name: Identifier) -> Iterator[None]:
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise Invalid(f"function {name} cannot be called: {error}") from error


def _drop(statement: Statement, context: SqlContext) -> None:
    """``DROP FUNCTION [IF EXISTS] f``."""
    statement.expect("DROP", "FUNCTION")
    ignore = statement.accept("IF", "EXISTS")
    name = object_identifier(statement, context, ResourceType.FUNCTION)
    statement.end()
    try:
        context.catalog.catalog.functions.drop(name)
    except NotFound as error:
        kinds = (ResourceType.FUNCTION, ResourceType.DATABASE)
        if not ignore or error.resource_type not in kinds:
            raise


def _describe(statement: Statement, context: SqlContext) -> Answer:
    """``DESCRIBE FUNCTION [EXTENDED] f``: the catalog's, or Spark's own."""
    if not statement.accept("DESCRIBE"):
        statement.expect("DESC")
    statement.expect("FUNCTION")
    extended = statement.accept("EXTENDED")
    if statement.peek_string():
        return context.session.spark.sql(statement.text)
    start = statement.mark()
    try:
        parts = statement.name_parts()
        statement.end()
    except Invalid:
        # An operator's name, such as <>.
        return context.session.spark.sql(statement.text)
    statement.reset(start)
    if len(parts) > 1 or context.database is not None:
        try:
            name = object_identifier(statement, context, ResourceType.FUNCTION)
            function = context.catalog.catalog.functions.get(name)
        except NotFound:
            if len(parts) > 1:
                raise
        else:
            lines = _described(function, extended=extended)
            return answer({"function_desc": str}, [(line,) for line in lines])
    return context.session.spark.sql(statement.text)


def _described(function: FunctionInfo, *, extended: bool) -> list[str]:
    spec = function.spec
    lines = [("Function:", str(function.identifier))]
    table = spec.definitions.get(TABLE_DIALECT)
    match table or spec.definitions.get(DIALECT):
        case SqlDefinition(definition=body):
            lines.append(("Type:", "SCALAR" if table is None else "TABLE"))
            inputs = [f"{each.name} {each.data_type}" for each in spec.input_params or ()] or ["()"]
            lines += [("Input:" if at == 0 else "", text) for at, text in enumerate(inputs)]
            returned = [
                str(column.data_type) if table is None else f"{column.name} {column.data_type}"
                for column in spec.return_params or ()
            ]
            lines += [("Returns:" if at == 0 else "", text) for at, text in enumerate(returned)]
            if extended and spec.comment is not None:
                lines.append(("Comment:", spec.comment))
            if extended:
                lines.append(("Deterministic:", str(spec.is_deterministic).lower()))
                lines.append(("Body:", body))
        case FileDefinition(class_name=class_name, file_resources=resources):
            lines.append(("Class:", class_name))
            if extended:
                uris = ", ".join(each.uri for each in resources or ())
                lines.append(("File Resources:", uris))
        case LambdaDefinition(language=language):
            lines.append(("Type:", f"LAMBDA in {language}"))
        case None:
            lines.append(("Type:", "defined for no engine called spark"))
    width = max(len(label) for label, _ in lines)
    return [f"{label.ljust(width)} {text}" for label, text in lines]


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CREATE", "FUNCTION"): _create,
    ("CREATE", "OR", "REPLACE", "FUNCTION"): _create,
    ("DROP", "FUNCTION"): _drop,
    ("DESCRIBE", "FUNCTION"): _describe,
    ("DESC", "FUNCTION"): _describe,
}
