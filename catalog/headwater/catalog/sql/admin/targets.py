"""Targets of permissions and labels: their ids, and the locks of their rows."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import ObjectKind, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import PermissionTarget, TargetType
from headwater.catalog.sql.admin.attached import NO_OBJECT
from headwater.catalog.sql.admin.warehouse_lock import hold_warehouse
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    DatabaseRow,
    FunctionRow,
    NamedRow,
    TableRow,
    ViewRow,
)
from headwater.catalog.sql.queries.lookup import database_not_found
from headwater.storage.errors import NotFound, ResourceType

__all__ = ["find_object_id", "locked_object_id", "subject_of"]

_OF_DATABASES: dict[TargetType, type[TableRow] | type[NamedRow]] = {
    TargetType.TABLE: TableRow,
    TargetType.COLUMN: TableRow,
    TargetType.VIEW: ViewRow,
    TargetType.FUNCTION: FunctionRow,
}
_MODELS: dict[TargetType, type[DatabaseRow] | type[TableRow] | type[NamedRow]] = {
    TargetType.DATABASE: DatabaseRow,
    TargetType.DATABASE_ALL: DatabaseRow,
    **_OF_DATABASES,
}


def find_object_id(
    connection: Connection, context: CatalogContext, target: PermissionTarget
) -> str:
    """The target's id; `NO_OBJECT` for the warehouse.

    Raises:
        NotFound: There is no such target (DATABASE, TABLE, VIEW, FUNCTION).
    """
    if target.database is None:
        return NO_OBJECT
    database_id = connection.execute(
        select(DatabaseRow.id).where(
            DatabaseRow.warehouse == context.warehouse, DatabaseRow.name == target.database
        )
    ).scalar_one_or_none()
    name = target.table or target.view or target.function
    if name is None:
        if database_id is None:
            raise database_not_found(target.database)
        return database_id
    row = _OF_DATABASES[target.type]
    found = connection.execute(
        select(row.id).where(row.database_id == database_id, row.name == name)
    ).scalar_one_or_none()
    if found is None:
        raise _not_found(target)
    return found


def locked_object_id(
    connection: Connection,
    context: CatalogContext,
    target: PermissionTarget,
    *,
    alone: bool = False,
) -> str:
    """The target's id; it is neither dropped nor renamed until the transaction ends.

    Args:
        connection: A connection in a write transaction.
        context: The warehouse.
        target: The target.
        alone: True if no other transaction may hold it so meanwhile.

    Raises:
        NotFound: There is no such target, or another is taking its name (DATABASE, TABLE, VIEW,
            FUNCTION).
    """
    object_id = find_object_id(connection, context, target)
    if object_id == NO_OBJECT:
        hold_warehouse(connection, context)
        return object_id
    row = _MODELS[target.type]
    connection.execute(
        select(row.id).where(row.id == object_id).with_for_update(read=not alone, key_share=True)
    ).scalar_one_or_none()
    # It may have been dropped, put away or renamed while its lock was waited for.
    if find_object_id(connection, context, target) != object_id:
        raise _not_found(target, "was dropped and created again meanwhile; retry")
    return object_id


def subject_of(context: CatalogContext, target: PermissionTarget, object_id: str) -> Subject:
    """The target as the subject of an event."""
    if target.database is None:
        return Subject(ObjectKind.WAREHOUSE, context.warehouse)
    for kind, name in (
        (ObjectKind.TABLE, target.table),
        (ObjectKind.VIEW, target.view),
        (ObjectKind.FUNCTION, target.function),
    ):
        if name is not None:
            return Subject(kind, name, object_id, target.database)
    return Subject(ObjectKind.DATABASE, target.database, object_id)


def _not_found(target: PermissionTarget, what: str = "does not exist") -> NotFound:
    database = target.database or ""
    name = target.table or target.view or target.function
    if name is None:
        return database_not_found(database)
    kind = ResourceType.TABLE if target.table else ResourceType(target.type.value)
    return NotFound(
        f"{kind.value.lower()} {Identifier(database, name)} {what}",
        resource_type=kind,
        resource_name=name,
    )
