"""The tables, views and system tables that SHOW and DESCRIBE tell of."""

from __future__ import annotations

from typing import TypeAlias

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.types.data_type import DataField, from_arrow

__all__ = ["Found", "fields_of", "table_or_view"]

Found: TypeAlias = Table | ViewInfo | tuple[DataField, ...]
"""A table, a view, or the columns of a system table."""


def table_or_view(context: SqlContext, identifier: Identifier) -> Found:
    """A table, a view where there is no such table, or the columns of a system table.

    Raises:
        NotFound: There is none of them.
    """
    if identifier.system_table is not None:
        arrow = context.catalog.system_table(str(identifier)).schema
        return tuple(
            DataField(number, field.name, from_arrow(field.type, field.nullable))
            for number, field in enumerate(arrow)
        )
    try:
        return context.catalog.table(str(identifier))
    except NotFound as error:
        if error.resource_type is not ResourceType.TABLE:
            raise
        try:
            return context.catalog.catalog.views.get(identifier)
        except NotFound:
            raise error from None


def fields_of(found: Found) -> tuple[DataField, ...]:
    """The columns."""
    if isinstance(found, Table):
        return found.schema.fields
    if isinstance(found, ViewInfo):
        return tuple(
            DataField(column.id, column.name, column.data_type, column.description)
            for column in found.schema.columns
        )
    return found
