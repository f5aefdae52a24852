"""Dropped tables that can be restored: put away under another name, whole.

They are in a database of their own that belongs to no warehouse that can be asked for, so that no
look-up by name finds them and no listing shows them. What is committed, altered or written about
them meanwhile (a commit that had begun, an open decision that storage has yet to follow) goes by
the table's id and stays right.
"""

from __future__ import annotations

from urllib.parse import quote_plus, unquote_plus

from sqlalchemy import Select, and_, delete, insert, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.dropped_tables import DroppedTableInfo
from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, DroppedTableRow, TableRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import updated
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.lookup import database_not_found
from headwater.catalog.sql.queries.names import check_page, check_table_name
from headwater.catalog.sql.queries.possessions import sight
from headwater.catalog.sql.tables.rows import drop_table_rows, lock_all_branches
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
)
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["SqlDroppedTables"]

# No warehouse's name has a slash, and no database's a dollar sign.
_WAREHOUSE_SUFFIX = "/dropped"
_DATABASE = "$dropped"
_RESTORE_ATTEMPTS = 3
_PURGED_AT_ONCE = 100


class SqlDroppedTables:
    """Implements `headwater.catalog.model.dropped_tables.DroppedTables`.

    Args:
        context: The warehouse, and how long its dropped tables are kept.
        outbox: Deletes the files of what is purged.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._sql = context.database
        self._outbox = outbox
        self._place: str | None = None

    @property
    def are_kept(self) -> bool:
        """True if a table that is dropped now can be restored."""
        return self._context.undrop_millis > 0

    def place(self) -> str:
        """The id of the database that they are put into; made when it is not there."""
        if self._place is None:
            self._place = self._find_place() or self._make_place()
        return self._place

    def _find_place(self) -> str | None:
        with self._sql.read() as connection:
            return connection.execute(
                select(DatabaseRow.id).where(
                    DatabaseRow.warehouse == f"{self._context.warehouse}{_WAREHOUSE_SUFFIX}",
                    DatabaseRow.name == _DATABASE,
                )
            ).scalar_one_or_none()

    def _make_place(self) -> str:
        now = self._context.runtime.now_millis()
        place = self._context.runtime.new_uuid()
        row = {
            "id": place,
            "warehouse": f"{self._context.warehouse}{_WAREHOUSE_SUFFIX}",
            "name": _DATABASE,
            "location": self._context.location,
            "options": "{}",
            "created_at": now,
            "updated_at": now,
        }
        try:
            self._sql.write(lambda connection: connection.execute(insert(DatabaseRow), row))
        except IntegrityError:
            # Somebody else made it meanwhile.
            found = self._find_place()
            if found is None:
                raise
            return found
        return place

    def put_away(
        self, connection: Connection, place: str, table_id: str, identifier: Identifier
    ) -> None:
        """Drop a table so that it can be restored, in the caller's transaction.

        The caller holds the locks of its branches and of its own row.
        """
        connection.execute(
            update(TableRow).where(TableRow.id == table_id).values(database_id=place, name=table_id)
        )
        connection.execute(
            insert(DroppedTableRow),
            {
                "table_id": table_id,
                "warehouse": self._context.warehouse,
                "database": identifier.database,
                "name": identifier.table,
                # Dropped while a clock was set back, it must not be purged when that is put right.
                "dropped_at": self._sql.safe_now_millis(connection),
                "dropped_by": current_name(),
            },
        )

    def list(
        self,
        *,
        database: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[DroppedTableInfo]:
        """The tables that can be restored, by database, name and id."""
        check_page(max_results)
        row = DroppedTableRow
        query = (
            select(
                row.table_id, row.database, row.name, row.dropped_at, row.dropped_by, TableRow.path
            )
            .join(TableRow, TableRow.id == row.table_id)
            .where(row.warehouse == self._context.warehouse)
            .order_by(row.database, row.name, row.table_id)
        )
        if database is not None:
            query = query.where(row.database == database)
        if page_token:
            after_database, after_name, after_id = _parse_place(page_token)
            # Spelled out: not every database uses an index for a comparison of rows.
            query = query.where(
                row.database >= after_database,
                or_(
                    row.database > after_database,
                    row.name > after_name,
                    and_(row.name == after_name, row.table_id > after_id),
                ),
            )
        if max_results is not None:
            query = query.limit(max_results + 1)
        with self._sql.read() as connection:
            seen = sight(connection, self._context)
            if seen is not None and not seen.shows_all(TableRow, "", names_only=False):
                query = query.where(
                    or_(
                        TableRow.id.in_(seen.ids(TableRow)),
                        row.dropped_by == seen.principal.name,
                    )
                )
            rows = connection.execute(query).all()
        kept = self._context.undrop_millis
        found = tuple(
            DroppedTableInfo(
                id=each.table_id,
                identifier=Identifier(each.database, each.name),
                path=each.path,
                dropped_at=each.dropped_at,
                dropped_by=each.dropped_by,
                kept_until=each.dropped_at + kept if kept else None,
            )
            for each in rows
        )
        if max_results is None or len(found) <= max_results:
            return Page(found)
        last = found[max_results - 1]
        return Page(found[:max_results], _token(last))

    def restore(self, table_id: str, destination: Identifier | None = None) -> Identifier:
        """Undo a drop; see the protocol."""
        if destination is not None:
            check_table_name(destination)

        def work(connection: Connection) -> Identifier:
            was = self._take(connection, table_id)
            target = destination or was
            database_id = connection.execute(
                select(DatabaseRow.id).where(
                    DatabaseRow.warehouse == self._context.warehouse,
                    DatabaseRow.name == target.database,
                )
            ).scalar_one_or_none()
            if database_id is None:
                raise database_not_found(target.database)
            taken = select(TableRow.id).where(
                TableRow.database_id == database_id, TableRow.name == target.table
            )
            if connection.execute(taken).one_or_none() is not None:
                raise AlreadyExists(
                    f"table {target} exists already; restore the dropped one under another name",
                    resource_type=ResourceType.TABLE,
                    resource_name=str(target),
                )
            connection.execute(
                update(TableRow)
                .where(TableRow.id == table_id)
                .values(
                    database_id=database_id,
                    name=target.table,
                    **updated(self._context.runtime.now_millis()),
                )
            )
            subject, details = Subject.table(was, table_id), {"to": str(target)}
            record_event(connection, self._context, EventType.RESTORE_TABLE, subject, details)
            return target

        for _ in range(_RESTORE_ATTEMPTS):
            try:
                return self._sql.write(work)
            except IntegrityError:
                # The name was taken, or the database dropped, since we looked: look again.
                continue
        raise Conflict(f"the name for dropped table {table_id} is being taken by others; retry")

    def purge(self, table_id: str) -> None:
        """Delete a dropped table and its files; NotFound (TABLE)."""

        def work(connection: Connection) -> None:
            lock_all_branches(connection, table_id)
            was = self._take(connection, table_id)
            drop_table_rows(connection, self._outbox, table_id)
            subject = Subject.table(was, table_id)
            record_event(connection, self._context, EventType.PURGE_TABLE, subject)

        self._sql.write(work)
        self._outbox.finish(table_id, MAIN_BRANCH, f"table {table_id} is purged")

    def purge_expired(self) -> int:
        """Purge the tables whose time is up for certain, whatever a clock says for a while.

        Returns:
            How many there were. One that cannot be purged now does not keep the others.
        """
        until = self._sql.certain_now_millis() - self._context.undrop_millis
        purged = 0
        last: tuple[int, str] | None = None
        while True:
            with self._sql.read() as connection:
                rows = connection.execute(self._expired(until, last)).all()
            if not rows:
                return purged
            for table_id, _ in rows:
                try:
                    self.purge(table_id)
                except NotFound:
                    continue  # restored, or purged by another server
                except HeadwaterError:
                    # It is decided, and the outbox has it: a repair deletes the files.
                    pass
                purged += 1
            last = rows[-1].dropped_at, rows[-1].table_id

    def _expired(self, until: int, last: tuple[int, str] | None) -> Select[str, int]:
        """The next tables whose time is up, those dropped first before others."""
        row = DroppedTableRow
        query = select(row.table_id, row.dropped_at).where(
            row.warehouse == self._context.warehouse, row.dropped_at <= until
        )
        if last is not None:
            dropped_at, table_id = last
            query = query.where(
                row.dropped_at >= dropped_at,
                or_(row.dropped_at > dropped_at, row.table_id > table_id),
            )
        query = along(query, row.warehouse, row.dropped_at, row.table_id)
        return query.order_by(row.dropped_at, row.table_id).limit(_PURGED_AT_ONCE)

    def _take(self, connection: Connection, table_id: str) -> Identifier:
        """Take a table out of the dropped ones; what it was called."""
        row = DroppedTableRow
        mine = and_(row.table_id == table_id, row.warehouse == self._context.warehouse)
        found = connection.execute(
            select(row.database, row.name).where(mine).with_for_update()
        ).one_or_none()
        if found is None:
            raise NotFound(
                f"there is no dropped table {table_id}; it was restored or purged, or never was",
                resource_type=ResourceType.TABLE,
                resource_name=table_id,
            )
        connection.execute(delete(row).where(mine))
        return Identifier(found.database, found.name)


def _token(info: DroppedTableInfo) -> str:
    return "/".join(
        quote_plus(part) for part in (info.identifier.database, info.identifier.name, info.id)
    )


def _parse_place(token: str) -> tuple[str, str, str]:
    parts = [unquote_plus(part) for part in token.split("/")]
    if len(parts) != 3:
        raise Invalid(f"page token '{token}' is not one that this listing gave out")
    return parts[0], parts[1], parts[2]
