"""Tables that are made of a query: all of the statement is done, or nothing."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.declared_types import table_schema
from headwater.spark.write.format_table import write_format_rows
from headwater.spark.write.frame import write_frame
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.snapshot.snapshot import CommitOperation
from headwater.storage.types.data_type import DataField

__all__ = ["columns_of", "fill_new_table", "replace_and_fill"]


def columns_of(frame: DataFrame) -> list[DataField]:
    """The columns that a table of a query's rows gets; any of them may be null, as in Spark.

    Raises:
        Unsupported: A column's type has no Paimon type.
    """
    return [
        replace(field, type=replace(field.type, nullable=True))
        for field in table_schema(frame.schema).fields
    ]


def fill_new_table(
    context: SqlContext,
    table: Table,
    frame: DataFrame,
    operation: CommitOperation = CommitOperation.CREATE_TABLE_AS_SELECT,
) -> None:
    """Write a query's rows to a table that was just created; when that fails, drop it for good.

    Args:
        context: The session.
        table: The table.
        frame: The rows.
        operation: The statement.
    """
    try:
        if is_format_table(table):
            write_format_rows(context.session, table, frame)
        else:
            write_frame(context.session, frame, table, "append", operation=operation)
    except BaseException:
        _undo_creation(context, table.identifier, table.info.id)
        raise


def _undo_creation(context: SqlContext, name: Identifier, table_id: str) -> None:
    catalog = context.catalog.catalog
    try:
        # Another may have the name by now.
        if catalog.tables.get(name).id != table_id:
            return
        catalog.tables.drop(name)
        catalog.dropped_tables.purge(table_id)
    except NotFound as error:
        # It is gone, or dropped tables are not kept.
        if error.resource_type not in (ResourceType.TABLE, ResourceType.DATABASE):
            raise


def replace_and_fill(
    context: SqlContext,
    before: Table,
    after: Table,
    frame: DataFrame,
    operation: CommitOperation,
) -> None:
    """Write a query's rows to a table that was just replaced; when that fails, roll it back.

    Args:
        context: The session.
        before: The table before; its handle knows the schema of then.
        after: The table as it is now, empty.
        frame: The rows, which may be those that the table held.
        operation: The statement.
    """
    emptied = after.latest_snapshot()
    try:
        write_frame(context.session, frame, after, "append", operation=operation)
    except BaseException:
        latest = after.latest_snapshot()
        # What others have committed since is theirs.
        if latest is None or emptied is None or latest.id == emptied.id:
            if emptied is not None and emptied.id > 1:
                after.rollback(snapshot_id=emptied.id - 1)
            if emptied is None or emptied.id > 1:
                after.rollback_schema(before.schema.id)
        raise
