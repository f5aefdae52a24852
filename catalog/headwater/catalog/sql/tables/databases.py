"""Databases: names, locations and options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.databases import DatabaseInfo
from headwater.catalog.model.events import EventType, ObjectKind, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.sql.admin.attached import drop_attached
from headwater.catalog.sql.admin.warehouse_lock import hold_warehouse
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, TableRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.objects.named_objects import drop_objects_of_database
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import audit_of, created, updated
from headwater.catalog.sql.queries.claimed_places import (
    Claim,
    Kind,
    claim,
    lock_places,
    refuse_overlap,
    release,
)
from headwater.catalog.sql.queries.listing import name_page, one_page
from headwater.catalog.sql.queries.lookup import database_not_found
from headwater.catalog.sql.queries.names import (
    check_database_name,
)
from headwater.catalog.sql.queries.possessions import sight, visible_databases
from headwater.catalog.sql.tables.dropped_tables import SqlDroppedTables
from headwater.catalog.sql.tables.places import make_warehouse_folder
from headwater.catalog.sql.tables.protection import refuse_protected
from headwater.catalog.sql.tables.rows import drop_table_rows, lock_table
from headwater.storage.errors import AlreadyExists, Invalid, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.files.location import Place, new_folder, new_location

__all__ = ["SqlDatabases"]

_LOCATION = "location"


class SqlDatabases:
    """Implements `headwater.catalog.model.databases.Databases`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Follows the dropping of tables on storage.
        dropped: Keeps dropped tables that can be restored.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox, dropped: SqlDroppedTables) -> None:
        self._context = context
        self._sql = context.database
        self._outbox = outbox
        self._dropped = dropped

    def list(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names in their order."""
        query = one_page(
            select(DatabaseRow.name),
            DatabaseRow.name,
            pattern=pattern,
            max_results=max_results,
            token=page_token,
            is_sqlite=self._sql.is_sqlite,
        )
        with self._sql.read() as connection:
            seen = sight(connection, self._context)
            query = visible_databases(query, self._context, seen)
            names = connection.execute(query).scalars().all()
        return name_page(names, max_results)

    def create(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database; its ``location`` option must lie in the warehouse."""
        check_database_name(name)
        options = dict(options or {})
        database_id = self._context.runtime.new_uuid()
        location = f"{self._context.location}/{new_folder(name, database_id)}.db"
        if _LOCATION in options:
            location = new_location(options.pop(_LOCATION))
            place = Place.of(location)
            if not self._context.place.holds(place) or place == self._context.place:
                raise Invalid(
                    f"database {name}: location {location} is outside the warehouse "
                    f"{self._context.location}"
                )
        row = {
            "id": database_id,
            "warehouse": self._context.warehouse,
            "name": name,
            "location": location,
            "options": json.dumps(options),
            **created(self._context.runtime.now_millis()),
        }

        make_warehouse_folder(self._context)
        wanted = Claim(Place.of(location), Kind.DATABASE, self._context.warehouse, database_id)

        def work(connection: Connection) -> None:
            hold_warehouse(connection, self._context)
            lock_places(connection)
            connection.execute(insert(DatabaseRow), row)
            refuse_overlap(connection, wanted, f"database {name}")
            claim(connection, wanted)
            record_event(
                connection, self._context, EventType.CREATE_DATABASE, _subject(name, database_id)
            )

        try:
            self._sql.write(work)
        except IntegrityError as error:
            if not ignore_if_exists:
                raise AlreadyExists(
                    f"database {name} exists already",
                    resource_type=ResourceType.DATABASE,
                    resource_name=name,
                ) from error

    def get(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        with self._sql.read() as connection:
            row = connection.execute(
                select(
                    DatabaseRow.id,
                    DatabaseRow.name,
                    DatabaseRow.location,
                    DatabaseRow.options,
                    DatabaseRow.owner,
                    DatabaseRow.created_at,
                    DatabaseRow.created_by,
                    DatabaseRow.updated_at,
                    DatabaseRow.updated_by,
                ).where(DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name)
            ).one_or_none()
        if row is None:
            raise database_not_found(name)
        return DatabaseInfo(
            id=row.id,
            name=row.name,
            location=row.location,
            options=json.loads(row.options),
            **audit_of(row),
        )

    def alter(self, name: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove options; removing one that is not set is no error."""
        if _LOCATION in updates or _LOCATION in removals:
            raise Invalid(f"database {name}: its location cannot be changed")

        def work(connection: Connection) -> None:
            row = connection.execute(
                select(DatabaseRow.id, DatabaseRow.options)
                .where(DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name)
                .with_for_update()
            ).one_or_none()
            if row is None:
                raise database_not_found(name)
            options = {
                key: value
                for key, value in {**json.loads(row.options), **updates}.items()
                if key not in removals
            }
            connection.execute(
                update(DatabaseRow)
                .where(DatabaseRow.id == row.id)
                .values(
                    options=json.dumps(options),
                    **updated(self._context.runtime.now_millis()),
                )
            )
            details = {"set": sorted(updates), "removed": sorted(removals)}
            subject = _subject(name, row.id)
            record_event(connection, self._context, EventType.ALTER_DATABASE, subject, details)

        self._sql.write(work)

    def drop(self, name: str) -> None:
        """Drop a database with all that is in it; the tables may be restored later."""
        self._outbox.marker.require()
        place = self._dropped.place() if self._dropped.are_kept else None

        def work(connection: Connection) -> list[str]:
            database = connection.execute(
                select(DatabaseRow.id, DatabaseRow.is_protected)
                .where(DatabaseRow.warehouse == self._context.warehouse, DatabaseRow.name == name)
                .with_for_update()
            ).one_or_none()
            if database is None:
                raise database_not_found(name)
            refuse_protected(ResourceType.DATABASE, name, database.is_protected)
            # The lock above makes table creations that have begun end first, and later ones fail.
            ids = connection.execute(
                select(TableRow.id)
                .where(TableRow.database_id == database.id)
                .order_by(TableRow.name)
            ).scalars()
            dropped: list[str] = []
            for table_id in ids.all():
                lock_table(connection, table_id)
                table = connection.execute(
                    select(TableRow.name, TableRow.is_protected).where(
                        TableRow.id == table_id, TableRow.database_id == database.id
                    )
                ).one_or_none()
                if table is None:
                    continue  # dropped, or moved elsewhere, before the lock was had
                identifier = Identifier(name, table.name)
                subject = Subject.table(identifier, table_id)
                refuse_protected(ResourceType.TABLE, identifier, table.is_protected)
                if place is None:
                    drop_table_rows(connection, self._outbox, table_id)
                else:
                    self._dropped.put_away(connection, place, table_id, identifier)
                record_event(connection, self._context, EventType.DROP_TABLE, subject)
                dropped.append(table_id)
            drop_objects_of_database(connection, self._context, name, database.id)
            connection.execute(delete(DatabaseRow).where(DatabaseRow.id == database.id))
            drop_attached(connection, [database.id])
            release(connection, Kind.DATABASE, database.id)
            subject = _subject(name, database.id)
            record_event(connection, self._context, EventType.DROP_DATABASE, subject)
            return dropped

        for table_id in self._sql.write(work):
            self._outbox.finish(table_id, MAIN_BRANCH, f"database {name} is dropped")


def _subject(name: str, database_id: str) -> Subject:
    return Subject(ObjectKind.DATABASE, name, database_id)
