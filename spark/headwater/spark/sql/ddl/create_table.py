"""``CREATE TABLE`` and ``REPLACE TABLE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.explained_write import overwrite_mode, planned_from
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.clauses import TableClauses, read_clauses
from headwater.spark.sql.ddl.columns import read_column, refuse_alike
from headwater.spark.sql.ddl.create_as import columns_of, fill_new_table, replace_and_fill
from headwater.spark.sql.ddl.options import PATH
from headwater.spark.sql.names import column_name, object_identifier
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.schema.column_directives import with_types_of_options
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.snapshot.snapshot import CommitOperation
from headwater.storage.types.data_type import DataField
from headwater.storage.write.creation import refuse_unwritable

__all__ = ["HANDLERS", "provider"]

_ANOTHER_ENGINE = "call SparkLake.create_table with for_another_engine=True"


def _create(statement: Statement, context: SqlContext) -> None:
    """``CREATE [EXTERNAL] TABLE [IF NOT EXISTS] t …``."""
    statement.expect("CREATE")
    external = statement.accept("EXTERNAL")
    statement.expect("TABLE")
    ignore = statement.accept("IF", "NOT", "EXISTS")
    name = object_identifier(statement, context)
    if statement.accept("LIKE"):
        source = context.table(str(object_identifier(statement, context)))
        clauses = read_clauses(statement)
        schema = _schema_like(source, clauses)
    else:
        fields = _read_columns(statement)
        clauses = read_clauses(statement)
        if clauses.query:
            _create_as(context, name, fields, clauses, ignore=ignore)
            return
        schema = _schema(fields, clauses, statement.fold)
    if external and PATH not in schema.options:
        raise Invalid(f"CREATE EXTERNAL TABLE {name} needs a LOCATION")
    _create_table(context, name, schema, ignore=ignore)


def _create_as(
    context: SqlContext,
    name: Identifier,
    fields: list[DataField],
    clauses: TableClauses,
    *,
    ignore: bool,
) -> None:
    _refuse_query(name, fields, clauses)
    if context.catalog.table_exists(str(name)):
        if ignore:
            return
        raise AlreadyExists(
            f"table {name} exists already",
            resource_type=ResourceType.TABLE,
            resource_name=str(name),
        )
    frame = query_frame(clauses.query, context)
    schema = _schema(columns_of(frame), clauses, context.fold)
    with planned_from(context.session, frame, str(name), "append to a new table"):
        created = _create_table(context, name, schema, ignore=ignore)
    if created:
        fill_new_table(context, context.catalog.table(str(name)), frame)


def _refuse_query(name: Identifier, fields: list[DataField], clauses: TableClauses) -> None:
    """Refuse what does not go together with a query."""
    if fields or clauses.partition_columns:
        raise Invalid("CREATE TABLE … AS takes its columns from the query; leave their types out")
    if PATH in clauses.options:
        raise Unsupported(
            f"table {name}: what a query that fails has written outside the warehouse would stay; "
            "create the table at its LOCATION, then INSERT"
        )


def _replace(statement: Statement, context: SqlContext) -> None:
    """``[CREATE OR] REPLACE TABLE t …``: another schema and no rows; the history stays."""
    create = statement.accept("CREATE", "OR")
    statement.expect("REPLACE", "TABLE")
    name = object_identifier(statement, context)
    context.note_change(str(name))
    if statement.peek("LIKE"):
        raise Unsupported("REPLACE TABLE … LIKE is not supported: write the columns")
    fields = _read_columns(statement)
    clauses = read_clauses(statement)
    frame: DataFrame | None = None
    if clauses.query:
        _refuse_query(name, fields, clauses)
        frame = query_frame(clauses.query, context)
        fields = columns_of(frame)
    schema = _schema(fields, clauses, statement.fold)
    refuse_unwritable(str(name), schema, _ANOTHER_ENGINE)
    if frame is None:
        _replace_table(context, name, schema, None, create=create)
        return
    with planned_from(context.session, frame, str(name), overwrite_mode(None, dynamic=False)):
        _replace_table(context, name, schema, frame, create=create)


def _replace_table(
    context: SqlContext, name: Identifier, schema: Schema, frame: DataFrame | None, *, create: bool
) -> None:
    operation = CommitOperation.REPLACE_TABLE_AS_SELECT
    if create:
        operation = CommitOperation.CREATE_OR_REPLACE_TABLE_AS_SELECT
    try:
        before = context.catalog.table(str(name))
        after = context.catalog.replace_table(str(name), schema)
    except NotFound as error:
        if not create or error.resource_type is not ResourceType.TABLE:
            raise
        _create_table(context, name, schema, ignore=False)
        if frame is not None:
            fill_new_table(context, context.catalog.table(str(name)), frame, operation)
        return
    if frame is not None:
        replace_and_fill(context, before, after, frame, operation)


def _create_table(context: SqlContext, name: Identifier, schema: Schema, *, ignore: bool) -> bool:
    """Create a table; false when there is one, and that is allowed."""
    _refuse_view(context, name)
    # Those that this engine does not write are for others, and named so (USING csv).
    foreign = not table_type(schema.options).has_snapshots
    if not foreign:
        refuse_unwritable(str(name), schema, _ANOTHER_ENGINE)
    try:
        context.catalog.create_table(str(name), schema, for_another_engine=foreign)
    except AlreadyExists as error:
        if not ignore or error.resource_type is not ResourceType.TABLE:
            raise
        return False
    return True


def _refuse_view(context: SqlContext, name: Identifier) -> None:
    if context.view(name) is not None:
        raise AlreadyExists(
            f"there is a view {name}: queries could not tell which is meant",
            resource_type=ResourceType.VIEW,
            resource_name=str(name),
        )


def _read_columns(statement: Statement) -> list[DataField]:
    """Read ``(a INT, b STRING)``; nothing where there are none."""
    fields: list[DataField] = []
    if not statement.peek("("):
        return fields
    mark = statement.mark()
    statement.expect("(")
    if statement.peek("SELECT") or statement.peek("WITH") or statement.peek("("):
        statement.reset(mark)
        return fields
    while not statement.accept(")"):
        if fields:
            statement.expect(",")
        if statement.peek("PRIMARY", "KEY") or statement.peek("CONSTRAINT"):
            raise Unsupported(
                "CREATE TABLE takes no constraints but NOT NULL; for a primary key write "
                "TBLPROPERTIES ('primary-key' = 'a,b')"
            )
        fields.append(read_column(statement))
    if not fields:
        raise Invalid("a table needs at least one column")
    return fields


def _schema(fields: list[DataField], clauses: TableClauses, fold: Callable[[str], str]) -> Schema:
    # The columns of an object table are always the same.
    if not fields and table_type(clauses.options) is not TableType.OBJECT:
        if PATH not in clauses.options:
            raise Invalid("a table needs columns, a query, or the LOCATION of a table")
        if clauses.partition_keys:
            raise Invalid("the table at the LOCATION has its own partitions; leave them out")
    columns = (*fields, *clauses.partition_columns)
    refuse_alike(columns, fold)
    keys = clauses.partition_keys
    if columns:
        keys = [column_name(columns, key) for key in keys]
    if table_type(clauses.options).has_snapshots:
        columns = with_types_of_options(columns, clauses.options)
    return Schema(columns, tuple(keys), (), clauses.options, clauses.comment)


def _schema_like(source: Table, clauses: TableClauses) -> Schema:
    """The schema of a table like another (``CopyDataFromSource`` is for data; this copies none).

    Properties are copied where both are of one provider, and those that are given win.
    """
    if clauses.partition_keys or clauses.query:
        raise Invalid("CREATE TABLE … LIKE takes partitions and columns from the other table")
    schema = source.schema.to_schema()
    own = dict(schema.options)
    own.pop(PATH, None)
    comment = schema.comment if clauses.comment is None else clauses.comment
    if clauses.provider is None or provider(own) == provider(clauses.options):
        options = {**own, **clauses.options}
        keys = () if "primary-key" in clauses.options else schema.primary_keys
        return replace(schema, options=options, primary_keys=keys, comment=comment)
    return replace(schema, options=clauses.options, primary_keys=(), comment=comment)


def provider(options: Mapping[str, str]) -> str:
    """The name that ``USING`` has for a table: ``paimon``, or a format of files alone."""
    if table_type(options) is TableType.FORMAT:
        return options.get("file.format", "parquet").lower()
    return "paimon"


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CREATE", "TABLE"): _create,
    ("CREATE", "EXTERNAL", "TABLE"): _create,
    ("CREATE", "OR", "REPLACE", "TABLE"): _replace,
    ("REPLACE", "TABLE"): _replace,
}
