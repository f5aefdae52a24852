"""Grants: who may do what."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, insert, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.events import Detail, EventType
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    Holder,
    PermissionTarget,
    SeenTable,
    TargetType,
    check_access,
    check_principal,
)
from headwater.catalog.model.principal import GROUP_PREFIX, Principal, acting_as
from headwater.catalog.model.rights import Thing, thing_of
from headwater.catalog.sql.admin.access import SqlAccess
from headwater.catalog.sql.admin.column_permissions import column_set, columns_document
from headwater.catalog.sql.admin.policies import require_asking_readers
from headwater.catalog.sql.admin.principal_names import check_new_grantee
from headwater.catalog.sql.admin.targets import find_object_id, locked_object_id, subject_of
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    GrantRow,
    GroupMemberRow,
    TableRow,
)
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.listing import list_globally
from headwater.catalog.sql.queries.lookup import latest_schema, lock_branch
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["SqlPermissions"]

_ATTEMPTS = 5


class SqlPermissions:
    """The grants of one warehouse (`headwater.catalog.model.permissions.Permissions`).

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._sql = context.database

    def list(
        self,
        target: PermissionTarget,
        *,
        principal: str | None = None,
        access: Access | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Grant]:
        """The grants on a target; all of them when `max_results` is None."""
        check_page(max_results)
        query = select(
            GrantRow.principal, GrantRow.access, GrantRow.columns, GrantRow.expires_at
        ).where(
            GrantRow.resource_type == target.type.value,
            GrantRow.warehouse == self._context.warehouse,
            or_(
                GrantRow.expires_at.is_(None),
                GrantRow.expires_at > self._context.runtime.latest_millis(),
            ),
        )
        if principal is None:
            query = query.order_by(GrantRow.principal, GrantRow.access)
        else:
            check_principal(principal)
            # In the index's order still, which MariaDB does not see with both columns.
            query = query.where(GrantRow.principal == principal).order_by(GrantRow.access)
        if access is not None:
            query = query.where(GrantRow.access == check_access(target, access).value)
        if page_token:
            last_access, last_principal = _parse_place(page_token)
            query = query.where(
                # The first clause is for the index: few rows have the same principal.
                GrantRow.principal >= last_principal,
                or_(GrantRow.principal > last_principal, GrantRow.access > last_access),
            )
        if max_results is not None:
            query = query.limit(max_results + 1)
        row = GrantRow
        query = along(
            query, row.object_id, row.resource_type, row.warehouse, row.principal, row.access
        )
        with self._sql.read() as connection:
            object_id = find_object_id(connection, self._context, target)
            rows = connection.execute(query.where(GrantRow.object_id == object_id)).all()
        grants = tuple(
            Grant(
                target,
                Access(row.access),
                row.principal,
                None if row.columns is None else column_set(row.columns),
                row.expires_at,
            )
            for row in rows
        )
        if max_results is None or len(grants) <= max_results:
            return Page(grants)
        return Page(grants[:max_results], _place(grants[max_results - 1]))

    def who(
        self,
        target: PermissionTarget,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Holder]:
        """Everybody with a right on a thing; see the protocol."""
        holders = SqlAccess(self._context).holders(
            thing_of(target), max_results=max_results, page_token=page_token
        )
        return holders.map(lambda each: Holder(each[0], each[1].own, tuple(each[1].columns)))

    def tables_of(
        self,
        principal: str,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[SeenTable]:
        """The tables that a principal sees; see the protocol."""
        check_principal(principal)
        with self._sql.read() as connection:
            kept = connection.execute(
                select(GroupMemberRow.group_name).where(GroupMemberRow.principal == principal)
            )
            groups = set(kept.scalars())
        if principal.startswith(GROUP_PREFIX):
            groups = {principal.removeprefix(GROUP_PREFIX)}
        caller = Principal(principal, frozenset(groups), asks_permission=True)
        with acting_as(caller):
            tables = list_globally(
                self._context,
                TableRow,
                database_pattern=None,
                pattern=None,
                max_results=max_results,
                token=page_token,
            )
        access = SqlAccess(self._context)

        def seen(identifier: Identifier) -> SeenTable:
            thing = Thing(TargetType.TABLE, identifier.database, identifier.name)
            rights = access.rights(caller, thing)
            return SeenTable(identifier, rights.own, tuple(rights.columns))

        return tables.map(seen)

    of = tables_of

    def grant(self, grant: Grant) -> None:
        """Record a grant, in place of one of the same target, access and principal."""
        check_new_grantee(grant.principal)
        now = self._context.runtime.now_millis()
        if grant.expires_at is not None and grant.expires_at <= now:
            raise Invalid("expireTime: that time is past; give one to come, or none")

        def work(connection: Connection) -> None:
            if grant.columns is not None:
                # Before the table itself, as whatever changes its columns takes them.
                table_id = find_object_id(connection, self._context, grant.target)
                lock_branch(connection, table_id, MAIN_BRANCH)
            object_id = locked_object_id(connection, self._context, grant.target)
            if grant.columns is not None:
                self._check_columns(connection, object_id, grant, grant.columns)
            values = {
                "columns": None if grant.columns is None else columns_document(grant.columns),
                "created_at": now,
                "expires_at": grant.expires_at,
            }
            same = self._same(object_id, grant.target, grant.access, grant.principal)
            # Changed where it is rather than replaced: of many that grant the same,
            # all but the first then find it there.
            if not connection.execute(update(GrantRow).where(*same).values(values)).rowcount:
                connection.execute(
                    insert(GrantRow),
                    {
                        "object_id": object_id,
                        "resource_type": grant.target.type.value,
                        "warehouse": self._context.warehouse,
                        "principal": grant.principal,
                        "access": grant.access.value,
                        **values,
                    },
                )
            details = _details(grant.target, grant.access, grant.principal)
            if grant.expires_at is not None:
                details["until"] = grant.expires_at
            if grant.columns is not None:
                details["columns"] = sorted(grant.columns.mentioned)
            subject = subject_of(self._context, grant.target, object_id)
            record_event(connection, self._context, EventType.GRANT_PERMISSION, subject, details)

        for _ in range(_ATTEMPTS):
            try:
                return self._sql.write(work)
            except IntegrityError:
                # Somebody else recorded the same one meanwhile: the later one changes it.
                continue
        raise Unavailable("the same permission is being granted and revoked by others; retry")

    def revoke(self, target: PermissionTarget, access: Access, principal: str) -> None:
        """Take a grant back; nothing happens when it does not exist."""
        check_access(target, access)
        check_principal(principal)

        def work(connection: Connection) -> None:
            object_id = find_object_id(connection, self._context, target)
            gone = connection.execute(
                delete(GrantRow).where(*self._same(object_id, target, access, principal))
            )
            if gone.rowcount:
                details = _details(target, access, principal)
                subject = subject_of(self._context, target, object_id)
                type_ = EventType.REVOKE_PERMISSION
                record_event(connection, self._context, type_, subject, details)

        self._sql.write(work)

    def _check_columns(
        self, connection: Connection, table_id: str, grant: Grant, columns: ColumnSet
    ) -> None:
        """Reject columns of a table whose readers do not ask, and columns that it lacks.

        Columns may be excluded that were when the table had them.
        """
        same = self._same(table_id, grant.target, grant.access, grant.principal)
        kept = connection.execute(select(GrantRow.columns).where(*same)).scalar_one_or_none()
        gone = () if kept is None else column_set(kept).excluded or ()
        known = () if columns.excluded is None else gone
        table = Identifier(grant.target.database or "", grant.target.table or "")
        schema = latest_schema(connection, table_id, table)
        require_asking_readers(table, schema, "a permission on columns", "which they may select")
        schema.columns([name for name in columns.mentioned if name not in known])

    def _same(
        self, object_id: str, target: PermissionTarget, access: Access, principal: str
    ) -> tuple[ColumnElement[bool], ...]:
        """The conditions that one grant meets at most."""
        return (
            GrantRow.object_id == object_id,
            GrantRow.resource_type == target.type.value,
            GrantRow.warehouse == self._context.warehouse,
            GrantRow.principal == principal,
            GrantRow.access == access.value,
        )


def _details(target: PermissionTarget, access: Access, principal: str) -> dict[str, Detail]:
    return {"on": target.type.value, "access": access.value, "to": principal}


def _place(grant: Grant) -> str:
    return f"{grant.access.value}:{grant.principal}"


def _parse_place(token: str) -> tuple[str, str]:
    access, colon, principal = token.partition(":")
    if not colon:
        raise Invalid(f"page token '{token}' is not one that this listing gave out")
    return access, principal
