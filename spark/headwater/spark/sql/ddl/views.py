"""``CREATE``, ``ALTER`` and ``DROP VIEW``: queries that the catalog keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import create_or_replace
from headwater.catalog.model.views import ViewSchema
from headwater.spark.names import quoted
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.alter_table import renamed, set_properties, unset_properties
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.references import names_columns
from headwater.spark.sql.statement import Statement
from headwater.spark.types import paimon_schema
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.types.data_type import type_json

__all__ = ["DIALECT", "HANDLERS"]

DIALECT = "spark"
"""The engine for which a view's query is."""


@dataclass
class _Definition:
    names: list[tuple[str, str | None]] = field(default_factory=list)
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    query: str = ""


def _create(statement: Statement, context: SqlContext) -> None:
    """``CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(a COMMENT 'x')] … AS query``."""
    statement.expect("CREATE")
    replaces = statement.accept("OR", "REPLACE")
    statement.expect("VIEW")
    ignore = statement.accept("IF", "NOT", "EXISTS")
    if ignore and replaces:
        raise Invalid("CREATE OR REPLACE VIEW … IF NOT EXISTS says two things: write one of them")
    name = object_identifier(statement, context)
    definition = _read_definition(statement)
    if context.catalog.table_exists(str(name)):
        raise AlreadyExists(
            f"there is a table {name}: queries would read it, and never the view",
            resource_type=ResourceType.TABLE,
            resource_name=str(name),
        )
    schema = _view_schema(name, definition, context)
    if replaces:
        create_or_replace(context.catalog.catalog.views, ResourceType.VIEW, name, schema)
    else:
        context.catalog.catalog.views.create(name, schema, ignore_if_exists=ignore)


def _read_definition(statement: Statement) -> _Definition:
    definition = _Definition()
    if statement.accept("("):
        while not statement.accept(")"):
            if definition.names:
                statement.expect(",")
            column = statement.name()
            definition.names.append(
                (column, statement.string() if statement.accept("COMMENT") else None)
            )
    seen: set[str] = set()
    while not statement.accept("AS"):
        if statement.accept("COMMENT"):
            clause, definition.comment = "COMMENT", statement.string()
        elif statement.accept("TBLPROPERTIES"):
            clause, definition.options = "TBLPROPERTIES", statement.properties()
        else:
            raise statement.unexpected("COMMENT, TBLPROPERTIES or AS")
        if clause in seen:
            raise Invalid(f"{clause} stands twice")
        seen.add(clause)
    definition.query = _read_query(statement)
    return definition


def _read_query(statement: Statement) -> str:
    refused = statement.unexpected("a query")
    query = statement.rest()
    if not query:
        raise refused
    return query


def _view_schema(name: Identifier, definition: _Definition, context: SqlContext) -> ViewSchema:
    """The content of a view. Its query is planned, as nobody could read one that cannot be.

    Names without a database are in the view's own, as they are whenever it is read.
    """
    within = replace(context, database=name.database)
    frame = query_frame(definition.query, within, f"view {name}")
    fields = paimon_schema(frame.schema).fields
    names = definition.names or [(field.name, None) for field in fields]
    if len(names) != len(fields):
        raise Invalid(
            f"view {name}: {len(names)} columns are named, and its query has {len(fields)}"
        )
    columns = tuple(
        Column(at, label, type_json(field.type), comment)
        for at, ((label, comment), field) in enumerate(zip(names, fields, strict=True))
    )
    labels = [label.lower() for label, _ in names]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise Invalid(f"view {name}: there are two columns '{twice}'; give them names of their own")
    query = _with_named_columns(definition.query, frame.columns, [label for label, _ in names])
    return ViewSchema(columns, query, {DIALECT: query}, definition.comment, definition.options)


def _with_named_columns(query: str, columns: Sequence[str], labels: Sequence[str]) -> str:
    """A view's query, which gives its columns whatever columns its tables get later.

    What is not named (``*``) would else be other columns when those of a table are moved, dropped
    or added, and the view would show them under its columns' names.

    Args:
        query: The query.
        columns: The names of its columns now.
        labels: The names of the view's columns.
    """
    if names_columns(query) or len({name.casefold() for name in columns}) < len(columns):
        return query
    named = ", ".join(
        quoted(name) if name == label else f"{quoted(name)} AS {quoted(label)}"
        for name, label in zip(columns, labels, strict=True)
    )
    return f"SELECT {named} FROM (\n{query}\n)"


def _alter(statement: Statement, context: SqlContext) -> None:
    """``ALTER VIEW v {AS query | RENAME TO w | SET TBLPROPERTIES (…) | UNSET …}``."""
    statement.expect("ALTER", "VIEW")
    name = object_identifier(statement, context)
    if context.view(name) is None:
        _refuse_table(context, name)
    views = context.catalog.catalog.views
    if statement.accept("RENAME", "TO"):
        views.rename(name, renamed(statement, name, context))
    elif statement.accept("SET", "TBLPROPERTIES"):
        views.alter(name, set_properties(statement, check=False))
    elif statement.accept("UNSET", "TBLPROPERTIES"):
        views.alter(name, unset_properties(statement))
    elif statement.accept("AS"):
        definition = _Definition(query=_read_query(statement))
        views.replace(name, _view_schema(name, definition, context), keep_properties=True)
    else:
        raise statement.unexpected("AS, RENAME TO, SET TBLPROPERTIES or UNSET TBLPROPERTIES")


def _drop(statement: Statement, context: SqlContext) -> None:
    """``DROP VIEW [IF EXISTS] v``: the session's temporary one if there is one of that name."""
    statement.expect("DROP", "VIEW")
    ignore = statement.accept("IF", "EXISTS")
    parts = statement.name_parts()
    statement.end()
    if len(parts) == 1 and _drop_temporary(context, parts):
        return
    name = Identifier.parse(context.full_name(parts))
    try:
        context.catalog.catalog.views.drop(name)
    except NotFound as error:
        _refuse_table(context, name)
        if not ignore or error.resource_type not in (ResourceType.VIEW, ResourceType.DATABASE):
            raise


def _refuse_table(context: SqlContext, name: Identifier) -> None:
    if context.catalog.table_exists(str(name)):
        raise Invalid(
            f"{name} is a table, and this is for views: of tables there are ALTER TABLE and "
            "DROP TABLE"
        )


def _drop_temporary(context: SqlContext, parts: Sequence[str]) -> bool:
    return bool(context.session.spark.catalog.dropTempView(parts[0]))


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CREATE", "VIEW"): _create,
    ("CREATE", "OR", "REPLACE", "VIEW"): _create,
    ("ALTER", "VIEW"): _alter,
    ("DROP", "VIEW"): _drop,
}
