"""Permissions on columns, which follow the columns through changes of a schema."""

from __future__ import annotations

from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import Detail, EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import ColumnSet, TargetType
from headwater.catalog.model.policy_rules import QUERY_AUTH
from headwater.catalog.sql.admin.policies import asks_for_authorization
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import GrantRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.possessions import is_running
from headwater.catalog.wire.permissions import PermissionColumnsModel
from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField

__all__ = ["column_set", "columns_document", "follow_columns", "refuse_unasked_columns"]


def follow_columns(
    connection: Connection,
    context: CatalogContext,
    table: tuple[str, Identifier],
    before: TableSchema,
    after: TableSchema,
    *,
    is_successor: bool = True,
    may_refuse: bool = True,
) -> None:
    """Let the permissions on a table's columns name the same columns in its next schema.

    A renamed column keeps its permissions under its new name. One that is gone is no longer among
    the columns that somebody may select; where it was excluded, its name stays excluded, also for
    a column that takes it later.

    Args:
        connection: A write transaction that holds the lock of the table's main branch.
        context: The warehouse.
        table: The table's id and its name.
        before: The schema that the permissions were granted on.
        after: The schema that takes its place.
        is_successor: False if its columns need not be those of the same ids before, as in a table
            that was replaced, or in a branch that takes the main one's place. Then a column is the
            same under the same name, unless it is known to have had another one.
        may_refuse: False if the next schema is there already, whatever it is.

    Raises:
        Invalid: Readers would no longer ask which columns they may select.
    """
    table_id, identifier = table
    if may_refuse:
        refuse_unasked_columns(connection, context, table, before, after)
    here = (
        GrantRow.object_id == table_id,
        GrantRow.resource_type == TargetType.COLUMN.value,
        GrantRow.warehouse == context.warehouse,
    )
    granted = connection.execute(
        select(GrantRow.principal, GrantRow.access, GrantRow.columns).where(*here)
    ).all()
    subject = Subject.table(Identifier(identifier.database, identifier.table), table_id)
    for row in granted:
        if row.columns is None:
            continue
        columns = column_set(row.columns)
        following = _following(columns, before, after, is_successor=is_successor)
        if following == columns:
            continue
        this = (*here, GrantRow.principal == row.principal, GrantRow.access == row.access)
        target = TargetType.COLUMN.value
        details: dict[str, Detail] = {"on": target, "access": row.access, "to": row.principal}
        if following is None:
            connection.execute(delete(GrantRow).where(*this))
            record_event(connection, context, EventType.REVOKE_PERMISSION, subject, details)
        else:
            values = {"columns": columns_document(following)}
            connection.execute(update(GrantRow).where(*this).values(values))
            details["columns"] = sorted(following.mentioned)
            record_event(connection, context, EventType.GRANT_PERMISSION, subject, details)


def refuse_unasked_columns(
    connection: Connection,
    context: CatalogContext,
    table: tuple[str, Identifier],
    before: TableSchema,
    after: TableSchema,
) -> None:
    """Refuse that readers of a table or branch no longer ask which columns they may select.

    Raises:
        Invalid: They would not, and there are permissions on columns of the table.
    """
    if not asks_for_authorization(before) or asks_for_authorization(after):
        return
    table_id, identifier = table
    granted = select(GrantRow.principal).where(
        GrantRow.object_id == table_id,
        GrantRow.resource_type == TargetType.COLUMN.value,
        GrantRow.warehouse == context.warehouse,
        is_running(context),
    )
    if connection.execute(granted.limit(1)).one_or_none():
        raise Invalid(
            f"table {identifier.database}.{identifier.table} has permissions on columns: "
            f"'{QUERY_AUTH}' must stay true, in its branches, too; revoke them first"
        )


def column_set(document: str) -> ColumnSet:
    """The columns of a permission as the database keeps them."""
    return PermissionColumnsModel.model_validate_json(document).columns()


def columns_document(columns: ColumnSet) -> str:
    """The form in which the database keeps the columns of a permission."""
    return PermissionColumnsModel.of(columns).model_dump_json()


def _following(
    columns: ColumnSet, before: TableSchema, after: TableSchema, *, is_successor: bool
) -> ColumnSet | None:
    """The same columns in another schema; None if none of those that were named is left."""
    if columns.excluded is not None:
        names: list[str] = []
        for name in columns.excluded:
            new = _by_id(name, before, after)
            names += [new.name] if new is not None else []
            names += [name] if new is None or not is_successor else []
        return ColumnSet(excluded=tuple(dict.fromkeys(names)))
    find = _by_id if is_successor else _by_name
    found = [find(name, before, after) for name in columns.mentioned]
    kept = dict.fromkeys(each.name for each in found if each is not None)
    return ColumnSet(tuple(kept)) if kept else None


def _by_id(name: str, before: TableSchema, after: TableSchema) -> DataField | None:
    old = before.field_by_name.get(name)
    return None if old is None else after.field_by_id.get(old.id)


def _by_name(name: str, before: TableSchema, after: TableSchema) -> DataField | None:
    """The column of the same name, unless either had another name in the other schema."""
    old, new = before.field_by_name.get(name), after.field_by_name.get(name)
    if old is None or new is None or old.id == new.id:
        return None if old is None else new
    is_known = old.id in after.field_by_id or new.id in before.field_by_id
    return None if is_known else new
