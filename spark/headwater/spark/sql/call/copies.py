"""Copies of tables: of all that a snapshot has, or of rows, beside what is there.

Source: ``CopyFilesProcedure.java``.
"""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.functions as sf

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.names import quoted
from headwater.spark.sql.call.defaults import refuse_defaults
from headwater.spark.sql.call.partitions import chosen_rows
from headwater.spark.sql.call.procedure import Arguments, Rows
from headwater.spark.sql.ddl.create_as import fill_new_table
from headwater.spark.sql.ddl.options import PATH
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.types import spark_type
from headwater.spark.write.change_commit import insert_rows
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import columns_of
from headwater.storage.types.data_type import DataField

__all__ = ["copy"]


def copy(arguments: Arguments) -> Rows:
    """Make a table of another one's latest snapshot, or replace partitions of a table by its."""
    source, name = arguments.table("source_table"), str(arguments.identifier("target_table"))
    context, where = arguments.context, arguments.text("where")
    chosen = chosen_rows(arguments, source)
    if chosen is not None and not columns_of(chosen) <= set(source.schema.partition_keys):
        raise Invalid("sys.copy: where is about partition columns: whole partitions are copied")
    exists = context.catalog.table_exists(name)
    if not exists and where is None:
        context.catalog.clone_table(source, name)
        return [(True,)]
    text = f"SELECT * FROM {_quoted(source.identifier)}"
    frame = query_frame(text if where is None else f"{text} WHERE {where}", context)
    if exists:
        target = arguments.table("target_table")
        _check_alike(source, target)
        refuse_defaults(target, "copy")
        for field in target.schema.fields:
            if field.name not in frame.columns:
                frame = frame.withColumn(field.name, sf.lit(None).cast(spark_type(field.type)))
        insert_rows(context.session, target, frame, overwrite=True, dynamic=True)
        return [(True,)]
    refuse_defaults(source, "copy")
    schema = source.schema.to_schema()
    options = {key: value for key, value in schema.options.items() if key != PATH}
    context.catalog.create_table(name, replace(schema, options=options))
    fill_new_table(context, context.catalog.table(name), frame)
    return [(True,)]


def _quoted(identifier: Identifier) -> str:
    return f"{quoted(identifier.database)}.{quoted(identifier.name)}"


def _check_alike(source: Table, target: Table) -> None:
    """Refuse a table that has not the keys, the partitions and the columns of another one."""
    problem = ""
    if set(source.schema.primary_keys) != set(target.schema.primary_keys):
        problem = "the same primary key"
    elif set(source.schema.partition_keys) != set(target.schema.partition_keys):
        problem = "the same partition columns"
    else:
        own = target.schema.field_by_name
        for field in source.schema.fields:
            there = own.get(field.name)
            if there is None or _kind(there) != _kind(field):
                problem = f"a column {field.name} of type {_kind(field)}"
                break
    if problem:
        raise Invalid(
            f"sys.copy: table {target.name} has not {problem}, as table {source.name} has: copy to "
            "another table, or INSERT OVERWRITE it"
        )


def _kind(field: DataField) -> str:
    return str(field.type).removesuffix(" NOT NULL")
