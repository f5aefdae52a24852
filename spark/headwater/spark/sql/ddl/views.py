"""``CREATE``, ``ALTER`` and ``DROP VIEW``: queries that the catalog keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.named_objects import create_or_replace
from headwater.catalog.model.views import ViewInfo, ViewSchema
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.names import quoted
from headwater.spark.session import is_set
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.alter_table import renamed, set_properties, unset_properties
from headwater.spark.sql.ddl.column_types import refuse_collation
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.references import names_columns
from headwater.spark.sql.query.temporary_objects import refuse_variables
from headwater.spark.sql.query.view_columns import (
    SCHEMA_MODE,
    SchemaMode,
    mode_option,
    schema_mode,
)
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import is_global, names_temporary
from headwater.spark.types import paimon_schema
from headwater.storage.errors import (
    AlreadyExists,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.schema.change import RemoveOption, SetOption
from headwater.storage.types.data_type import type_json

__all__ = ["DIALECT", "HANDLERS"]

DIALECT = "spark"
"""The engine for which a view's query is."""


_DEFAULT_IS_COMPENSATION = "spark.sql.legacy.viewSchemaCompensation"
_HAS_MODES = "spark.sql.legacy.viewSchemaBindingMode"
_FROM, _END = " FROM (\n", "\n)"
_NAME = r"`(?:[^`]|``)+`"
_COLUMNS = re.compile(rf"SELECT {_NAME}(?:, {_NAME})*")
_RENAMED_COLUMNS = re.compile(rf"SELECT {_NAME}(?: AS {_NAME})?(?:, {_NAME}(?: AS {_NAME})?)*")


@dataclass
class _Definition:
    names: list[tuple[str, str | None]] = field(default_factory=list)
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    mode: SchemaMode | None = None
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
    definition = _read_definition(statement, context)
    if context.catalog.table_exists(str(name)):
        raise AlreadyExists(
            f"there is a table {name}: queries would read it, and never the view",
            resource_type=ResourceType.TABLE,
            resource_name=str(name),
        )
    mode = definition.mode
    if mode is None:
        compensates = is_set(context.session.spark, _DEFAULT_IS_COMPENSATION)
        mode = SchemaMode.COMPENSATION if compensates else SchemaMode.BINDING
    if mode is SchemaMode.EVOLUTION and definition.names:
        raise Invalid(
            f"view {name}: WITH SCHEMA EVOLUTION takes the columns of the query, whatever they are "
            "later; leave the list of columns out, or write WITH SCHEMA TYPE EVOLUTION"
        )
    schema = _view_schema(name, definition, mode, context)
    schema = replace(schema, options={**schema.options, **mode_option(mode)})
    if replaces:
        create_or_replace(context.catalog.catalog.views, ResourceType.VIEW, name, schema)
    else:
        context.catalog.catalog.views.create(name, schema, ignore_if_exists=ignore)


def _read_definition(statement: Statement, context: SqlContext) -> _Definition:
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
            _refuse_mode(definition.options)
        elif statement.accept("WITH", "SCHEMA"):
            clause, definition.mode = "WITH SCHEMA", _read_mode(statement, context)
        elif statement.peek("DEFAULT", "COLLATION"):
            clause = "DEFAULT COLLATION"
            refuse_collation(statement)
        else:
            raise statement.unexpected("COMMENT, TBLPROPERTIES, WITH SCHEMA or AS")
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


def _view_schema(
    name: Identifier, definition: _Definition, mode: SchemaMode, context: SqlContext
) -> ViewSchema:
    """The content of a view. Its query is planned, as nobody could read one that cannot be.

    Names without a database are in the view's own, as they are whenever it is read.
    """
    within = replace(context, database=name.database)
    frame = query_frame(definition.query, within, f"view {name}")
    refuse_variables(frame, f"view {name}")
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
    query = definition.query
    if mode is not SchemaMode.EVOLUTION:
        query = _with_named_columns(query, frame.columns, [label for label, _ in names])
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
    return f"SELECT {named}{_FROM}{query}{_END}"


def _as_written(query: str) -> tuple[str, bool]:
    """The query that `_with_named_columns` was given, and whether its columns have other names."""
    named, separator, rest = query.partition(_FROM)
    written = rest.removesuffix(_END)
    if not separator or written == rest or _RENAMED_COLUMNS.fullmatch(named) is None:
        return query, False
    try:
        if names_columns(written):
            return query, False
    except HeadwaterError:
        return query, False  # Its end is in the text that was found.
    return written, _COLUMNS.fullmatch(named) is None


def _set_mode(view: ViewInfo, mode: SchemaMode, context: SqlContext) -> None:
    """Let a view follow the columns of its query in another way.

    If its types were those of the query, it keeps those that they are now.
    """
    name, schema = view.identifier, view.schema
    views = context.catalog.catalog.views
    before = schema.options.get(SCHEMA_MODE)
    is_free = before in (SchemaMode.TYPE_EVOLUTION, SchemaMode.EVOLUTION)
    if mode is not SchemaMode.EVOLUTION and not is_free:
        option = mode_option(mode)
        changes = [SetOption(key, value) for key, value in option.items()]
        views.alter(name, changes or [RemoveOption(SCHEMA_MODE)])
        return
    query = schema.query_for(DIALECT)
    definition = _Definition(query=query)
    is_renamed = False
    if mode is SchemaMode.EVOLUTION:
        definition.query, is_renamed = _as_written(query)
    elif before == SchemaMode.TYPE_EVOLUTION:
        definition.names = [(column.name, column.description) for column in schema.columns]
    made = _view_schema(name, definition, mode, context)
    if mode is SchemaMode.EVOLUTION and definition.query == query and before != mode:
        is_renamed = [each.name for each in made.columns] != [each.name for each in schema.columns]
    if is_renamed:
        raise Invalid(
            f"view {name}: its columns have other names than those of its query, which WITH SCHEMA "
            f"EVOLUTION takes; write them into the query: ALTER VIEW {name} AS SELECT …"
        )
    others = {key: value for key, value in schema.options.items() if key != SCHEMA_MODE}
    changed = replace(
        schema,
        columns=made.columns,
        query=made.query if schema.query == query else schema.query,
        dialects={**schema.dialects, **made.dialects},
        options={**others, **mode_option(mode)},
    )
    views.replace(name, changed)


def _read_mode(statement: Statement, context: SqlContext) -> SchemaMode:
    """Read what follows WITH SCHEMA."""
    mode = next((mode for mode in SchemaMode if statement.accept(*mode.split())), None)
    if mode is None:
        raise statement.unexpected("BINDING, COMPENSATION, TYPE EVOLUTION or EVOLUTION")
    if not is_set(context.session.spark, _HAS_MODES):
        raise Unsupported(
            f"WITH SCHEMA {mode}: {_HAS_MODES} is false in this session; leave the clause out, or "
            f"RESET {_HAS_MODES}"
        )
    return mode


def _alter(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``ALTER VIEW v {AS query | RENAME TO w | {SET | UNSET} TBLPROPERTIES … | WITH SCHEMA …}``."""
    statement.expect("ALTER", "VIEW")
    if names_temporary(statement, context):
        return _alter_temporary(statement, context)
    name = object_identifier(statement, context)
    view = context.view(name)
    if view is None:
        _refuse_table(context, name)
    views = context.catalog.catalog.views
    if statement.accept("RENAME", "TO"):
        views.rename(name, renamed(statement, name, context))
    elif statement.accept("SET", "TBLPROPERTIES"):
        changes = set_properties(statement, check=False)
        _refuse_mode([change.key for change in changes if isinstance(change, SetOption)])
        views.alter(name, changes)
    elif statement.accept("UNSET", "TBLPROPERTIES"):
        removals = unset_properties(statement)
        _refuse_mode([change.key for change in removals if isinstance(change, RemoveOption)])
        views.alter(name, removals)
    elif statement.accept("WITH", "SCHEMA"):
        mode = _read_mode(statement, context)
        statement.end()
        _set_mode(views.get(name) if view is None else view, mode, context)
    elif statement.accept("AS"):
        definition = _Definition(query=_read_query(statement))
        mode = schema_mode(views.get(name) if view is None else view)
        views.replace(name, _view_schema(name, definition, mode, context), keep_properties=True)
    else:
        raise statement.unexpected(
            "AS, RENAME TO, SET TBLPROPERTIES, UNSET TBLPROPERTIES or WITH SCHEMA"
        )
    return None


def _alter_temporary(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``ALTER VIEW v …`` of a temporary view: what is not about its query is Spark's to do."""
    spark = context.session.spark
    parts = statement.name_parts()
    if not statement.accept("AS"):
        return spark.sql(statement.text)
    query = _read_query(statement)
    if not spark.catalog.tableExists(".".join(map(quoted, parts))):
        raise NotFound(
            f"cannot alter view {'.'.join(parts)}: there is no such temporary view; write CREATE "
            "GLOBAL TEMPORARY VIEW",
            resource_type=ResourceType.VIEW,
            resource_name=".".join(parts),
        )
    frame = query_frame(query, context)
    if len(parts) > 1:
        frame.createOrReplaceGlobalTempView(parts[-1])
    else:
        frame.createOrReplaceTempView(parts[0])
    return None


def _refuse_mode(keys: Iterable[str]) -> None:
    if SCHEMA_MODE in keys:
        raise Invalid(
            f"'{SCHEMA_MODE}' is how a view keeps its clause WITH SCHEMA: write that, or ALTER "
            "VIEW v WITH SCHEMA …"
        )


def _drop(statement: Statement, context: SqlContext) -> DataFrame | None:
    """``DROP VIEW [IF EXISTS] v``: the session's temporary one if there is one of that name."""
    statement.expect("DROP", "VIEW")
    ignore = statement.accept("IF", "EXISTS")
    parts = statement.name_parts()
    statement.end()
    if is_global(parts, context):
        return context.session.spark.sql(statement.text)
    if len(parts) == 1 and _drop_temporary(context, parts):
        return None
    name = Identifier.parse(context.full_name(parts))
    try:
        context.catalog.catalog.views.drop(name)
    except NotFound as error:
        _refuse_table(context, name)
        if not ignore or error.resource_type not in (ResourceType.VIEW, ResourceType.DATABASE):
            raise
    return None


def _refuse_table(context: SqlContext, name: Identifier) -> None:
    if context.catalog.table_exists(str(name)):
        raise Invalid(
            f"{name} is a table, and this is for views: of tables there are ALTER TABLE and "
            "DROP TABLE"
        )


def _drop_temporary(context: SqlContext, parts: Sequence[str]) -> bool:
    catalog = context.session.spark.catalog
    if context.session.explains is not None and catalog.tableExists(quoted(parts[0])):
        stop_if_explained(context.session)
    return bool(catalog.dropTempView(parts[0]))


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CREATE", "VIEW"): _create,
    ("CREATE", "OR", "REPLACE", "VIEW"): _create,
    ("ALTER", "VIEW"): _alter,
    ("DROP", "VIEW"): _drop,
}
