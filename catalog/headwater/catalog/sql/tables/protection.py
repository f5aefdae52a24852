"""The protection flags in the catalog's database."""

from __future__ import annotations

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, ObjectKind, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, TableRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.queries.lookup import database_not_found, find_table, lock_branch
from headwater.storage.errors import Forbidden, Invalid, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["SqlProtection", "refuse_protected"]


class SqlProtection:
    """Implements `headwater.catalog.model.protection.Protection`.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._sql = context.database

    def is_database_protected(self, name: str) -> bool:
        """True if a database cannot be dropped; NotFound (DATABASE)."""
        with self._sql.read() as connection:
            found = connection.execute(
                select(DatabaseRow.is_protected).where(
                    DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name
                )
            ).scalar_one_or_none()
        if found is None:
            raise database_not_found(name)
        return bool(found)

    def is_table_protected(self, identifier: Identifier) -> bool:
        """True if a table cannot be dropped; NotFound (TABLE)."""
        with self._sql.read() as connection:
            table_id = self._table_id(connection, identifier)
            found = connection.execute(
                select(TableRow.is_protected).where(TableRow.id == table_id)
            ).scalar_one_or_none()
        return bool(found)

    def protect_database(self, name: str, protected: bool = True) -> None:
        """Set a database's flag, or take it back; NotFound (DATABASE)."""

        def work(connection: Connection) -> None:
            # Not rowcount: a database may count only the rows that it had to change.
            found = connection.execute(
                select(DatabaseRow.id)
                .where(DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name)
                .with_for_update()
            ).scalar_one_or_none()
            if found is None:
                raise database_not_found(name)
            connection.execute(
                update(DatabaseRow).where(DatabaseRow.id == found).values(is_protected=protected)
            )
            subject, details = Subject(ObjectKind.DATABASE, name, found), {"protected": protected}
            record_event(
                connection, self._context, EventType.SET_DATABASE_PROTECTION, subject, details
            )

        self._sql.write(work)

    def protect_table(self, identifier: Identifier, protected: bool = True) -> None:
        """Set a table's flag, or take it back; NotFound (TABLE)."""

        def work(connection: Connection) -> None:
            table_id = self._table_id(connection, identifier)
            lock_branch(connection, table_id, MAIN_BRANCH)
            connection.execute(
                update(TableRow).where(TableRow.id == table_id).values(is_protected=protected)
            )
            subject, details = Subject.table(identifier, table_id), {"protected": protected}
            record_event(
                connection, self._context, EventType.SET_TABLE_PROTECTION, subject, details
            )

        self._sql.write(work)

    def _table_id(self, connection: Connection, identifier: Identifier) -> str:
        if identifier.branch != MAIN_BRANCH:
            raise Invalid(f"{identifier} names a branch; name the table itself")
        return find_table(connection, self._context, identifier).id


def refuse_protected(kind: ResourceType, name: object, is_protected: bool) -> None:
    """Refuse to drop what is protected; raises Forbidden.

    The caller holds the lock of the row that says so until the drop is decided.
    """
    if is_protected:
        raise Forbidden(
            f"{kind.lower()} {name} is protected and cannot be dropped; "
            f"'headwater unprotect {name}' takes the protection away",
            resource_type=kind,
            resource_name=str(name),
        )
