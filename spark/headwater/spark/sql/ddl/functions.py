"""Functions: ``CREATE``, ``DROP`` and ``DESCRIBE FUNCTION`` of those that the catalog keeps.

Those with a SQL expression for their definition are called by queries, as Paimon's Spark calls
them; others are kept for engines that can. Source: ``SQLFunctionConverter.scala``,
``PaimonFunctionExec.scala``.
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
from headwater.spark.session import is_set
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.ddl.column_types import read_type
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.query.function_calls import (
    ANSI,
    ANSI_OPTION,
    DIALECT,
    QUERY_OPTION,
    begins_query,
    register,
)
from headwater.spark.sql.statement import Statement
from headwater.spark.types import paimon_schema
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.types.data_type import type_json

__all__ = ["HANDLERS"]

_DETERMINISTIC_OPTION = "spark.sql-function.deterministic"


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
    parameters = _parameters(statement, name)
    returned: tuple[Column, ...] | None = None
    if statement.accept("RETURNS"):
        if statement.peek("TABLE"):
            raise Unsupported(f"function {name}: functions that return tables are not supported")
        returned = (Column(0, name.name, type_json(read_type(statement))),)
    comment: str | None = None
    deterministic = True
    seen: set[str] = set()
    while not statement.accept("RETURN"):
        if statement.accept("LANGUAGE", "SQL"):
            clause = "LANGUAGE"
        elif statement.accept("NOT", "DETERMINISTIC"):
            clause, deterministic = "DETERMINISTIC", False
        elif statement.accept("DETERMINISTIC"):
            clause = "DETERMINISTIC"
        elif statement.accept("CONTAINS", "SQL"):
            clause = "CONTAINS SQL"
        elif statement.accept("COMMENT"):
            clause, comment = "COMMENT", statement.string()
        else:
            raise statement.unexpected(
                "LANGUAGE SQL, [NOT] DETERMINISTIC, CONTAINS SQL, COMMENT or RETURN"
            )
        if clause in seen:
            raise Invalid(f"{clause} stands twice")
        seen.add(clause)
    refused = statement.unexpected("an expression")
    body = statement.rest()
    if not body:
        raise refused
    if begins_query(body):
        raise Unsupported(
            f"function {name}: its body is a query, which would read tables wherever it is called; "
            "make a view of the query and join it, or write an expression"
        )
    spec = FunctionSpec(
        input_params=parameters,
        return_params=returned,
        definitions={DIALECT: SqlDefinition(body)},
        is_deterministic=deterministic,
        comment=comment,
        options={
            QUERY_OPTION: "false",
            _DETERMINISTIC_OPTION: str(deterministic).lower(),
            ANSI_OPTION: str(is_set(context.session.spark, ANSI)).lower(),
        },
    )
    return _checked(spec, context, name)


def _parameters(statement: Statement, name: Identifier) -> tuple[Column, ...]:
    statement.expect("(")
    parameters: list[Column] = []
    while not statement.accept(")"):
        if parameters:
            statement.expect(",")
        label = statement.name()
        kind = read_type(statement)
        default = statement.until(",", "COMMENT") if statement.accept("DEFAULT") else None
        comment = statement.string() if statement.accept("COMMENT") else None
        parameters.append(Column(len(parameters), label, type_json(kind), comment, default))
    labels = [column.name.casefold() for column in parameters]
    if len(set(labels)) < len(labels):
        raise Invalid(f"function {name} has two parameters of one name")
    return tuple(parameters)


def _checked(spec: FunctionSpec, context: SqlContext, name: Identifier) -> FunctionSpec:
    """A function that Spark can call, with the type that it returns."""
    spark = context.session.spark
    with _invalid(name):
        call = register(context, name, spec)
        values = ", ".join("NULL" for _ in spec.input_params or ())
        schema = spark.sql(f"SELECT {call}({values}) AS value").schema
    if spec.return_params is not None:
        return spec
    (field,) = paimon_schema(schema).fields
    return replace(spec, return_params=(Column(0, name.name, type_json(field.type)),))


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
    match spec.definitions.get(DIALECT):
        case SqlDefinition(definition=body):
            lines.append(("Type:", "SCALAR"))
            inputs = [f"{each.name} {each.data_type}" for each in spec.input_params or ()] or ["()"]
            lines += [("Input:" if at == 0 else "", text) for at, text in enumerate(inputs)]
            lines += [("Returns:", str(each.data_type)) for each in spec.return_params or ()]
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
