"""The warehouses of a catalog's database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Select, column, delete, func, insert, select, table, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.page import Page
from headwater.catalog.model.warehouses import WarehouseInfo, check_warehouse_name
from headwater.catalog.sql.admin.grants import drop_warehouse_grants
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import (
    VERSION_TABLE,
    DatabaseRow,
    DroppedTableRow,
    OutboxRow,
    WarehouseRow,
)
from headwater.catalog.sql.queries.names import check_page, inside, normalised_location
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound
from headwater.storage.files.open_files import open_file_access
from headwater.storage.runtime import Runtime

__all__ = ["Warehouses"]


class Warehouses:
    """Adds, changes and removes warehouses; the servers of the database see it within seconds.

    Args:
        database: Where they are kept.
        runtime: The clock.
    """

    def __init__(self, database: SqlDatabase, runtime: Runtime) -> None:
        self._database = database
        self._runtime = runtime

    def add(
        self,
        name: str,
        location: str,
        options: Mapping[str, str],
        *,
        beside: Mapping[str, str] | None = None,
    ) -> WarehouseInfo:
        """Add a warehouse.

        Args:
            name: Its name.
            location: Where its tables are to lie: a URI or a local path.
            options: What file access needs, such as ``s3.endpoint`` and ``s3.access-key``.
            beside: The URIs of further warehouses, by name, which it must not touch either.

        Raises:
            AlreadyExists: There is one of that name.
            Invalid: The name or the location is not one, or the location is in another's.
            Unsupported: Nothing here reaches such a location.
        """
        check_warehouse_name(name)
        uri = normalised_location(location)
        _check_options(name, options)
        open_file_access(uri, dict(options))
        now = self._runtime.now_millis()
        info = WarehouseInfo(name, uri, dict(options), now, now)

        def work(connection: Connection) -> None:
            _lock_all(connection)
            known = connection.execute(select(WarehouseRow.name, WarehouseRow.location))
            _refuse_overlap(
                name, uri, [*(beside or {}).items(), *((name, at) for name, at in known)]
            )
            row = {
                "name": name,
                "location": uri,
                "options": json.dumps(dict(options)),
                "created_at": now,
                "updated_at": now,
            }
            connection.execute(insert(WarehouseRow), row)

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExists(
                f"there is a warehouse '{name}' already; change it, or choose another name"
            ) from error
        return info

    def check_apart(self, given: Mapping[str, str]) -> None:
        """Refuse warehouses of which one lies in another, or in one of the database.

        Args:
            given: Locations by names. One of a name that the database has, too, is that warehouse.

        Raises:
            Invalid: Two overlap, or a location is malformed.
            Unavailable: The database did not answer.
        """
        places = [(name, normalised_location(location)) for name, location in given.items()]
        known = [(info.name, info.location) for info in self.list().items]
        for name, uri in places:
            _refuse_overlap(name, uri, [other for other in [*places, *known] if other[0] != name])

    def find(self, name: str) -> WarehouseInfo | None:
        """A warehouse; None when there is none of that name; raises Unavailable."""
        with self._database.read() as connection:
            return _find(connection, _warehouses().where(WarehouseRow.name == name))

    def get(self, name: str) -> WarehouseInfo:
        """A warehouse; NotFound."""
        found = self.find(name)
        if found is None:
            raise _not_found(name)
        return found

    def list(
        self, *, max_results: int | None = None, page_token: str | None = None
    ) -> Page[WarehouseInfo]:
        """The warehouses by name; all of them when `max_results` is None."""
        check_page(max_results)
        query = _warehouses().order_by(WarehouseRow.name)
        if page_token:
            query = query.where(WarehouseRow.name > page_token)
        if max_results is not None:
            query = query.limit(max_results + 1)
        with self._database.read() as connection:
            found = [_info(*row) for row in connection.execute(query)]
        if max_results is None or len(found) <= max_results:
            return Page(tuple(found))
        return Page(tuple(found[:max_results]), found[max_results - 1].name)

    def set(self, name: str, updates: Mapping[str, str], removals: Sequence[str]) -> WarehouseInfo:
        """Set and remove options; removing one that is not set is no error.

        Raises:
            Invalid: An option is set and removed at once.
            NotFound: There is no such warehouse.
        """
        _check_options(name, updates)
        both = sorted(set(updates) & set(removals))
        if both:
            raise Invalid(f"warehouse '{name}': option '{both[0]}' is both set and removed")

        def work(connection: Connection) -> WarehouseInfo:
            query = _warehouses().where(WarehouseRow.name == name).with_for_update()
            found = _find(connection, query)
            if found is None:
                raise _not_found(name)
            options = {
                key: value
                for key, value in {**found.options, **updates}.items()
                if key not in removals
            }
            open_file_access(found.location, options)
            # Later than before whatever the clock says: that is how servers see the change.
            now = max(self._runtime.now_millis(), found.updated_at + 1)
            connection.execute(
                update(WarehouseRow)
                .where(WarehouseRow.name == name)
                .values(options=json.dumps(options), updated_at=now)
            )
            return WarehouseInfo(name, found.location, options, found.created_at, now)

        return self._database.write(work)

    def remove(self, name: str) -> None:
        """Remove a warehouse that holds nothing; its directory stays.

        Raises:
            Conflict: It holds databases, or dropped tables that can be restored, or files that are
                yet to be deleted.
            NotFound: There is no such warehouse.
        """

        def work(connection: Connection) -> None:
            if (
                connection.execute(delete(WarehouseRow).where(WarehouseRow.name == name)).rowcount
                != 1
            ):
                raise _not_found(name)
            held = connection.execute(
                select(func.count()).where(DatabaseRow.warehouse == name)
            ).scalar_one()
            restorable = connection.execute(
                select(func.count()).where(DroppedTableRow.warehouse == name)
            ).scalar_one()
            if held or restorable:
                raise Conflict(
                    f"warehouse '{name}' is not empty: drop its databases and purge its dropped "
                    "tables before"
                )
            unfollowed = connection.execute(
                select(func.count()).where(OutboxRow.warehouse == name)
            ).scalar_one()
            if unfollowed:
                # Nobody would look after them any more.
                raise Conflict(
                    f"warehouse '{name}': files of what was dropped in it are yet to be deleted; "
                    "retry when a server has done so"
                )
            drop_warehouse_grants(connection, name)

        self._database.write(work)


_Columns = Select[str, str, str, int, int]


def _warehouses() -> _Columns:
    return select(
        WarehouseRow.name,
        WarehouseRow.location,
        WarehouseRow.options,
        WarehouseRow.created_at,
        WarehouseRow.updated_at,
    )


def _find(connection: Connection, query: _Columns) -> WarehouseInfo | None:
    row = connection.execute(query).one_or_none()
    return None if row is None else _info(*row)


def _info(
    name: str, location: str, options: str, created_at: int, updated_at: int
) -> WarehouseInfo:
    return WarehouseInfo(name, location, json.loads(options), created_at, updated_at)


def _lock_all(connection: Connection) -> None:
    """Let nobody add a warehouse until the transaction ends.

    What there is of warehouses cannot be locked where there is none: the one row that every
    database has stands for it. On SQLite the write transaction itself is that lock.
    """
    connection.execute(
        select(column("version_num")).select_from(table(VERSION_TABLE)).with_for_update()
    )


def _refuse_overlap(wanted: str, uri: str, others: Iterable[tuple[str, str]]) -> None:
    """Two warehouses in one directory would take each other's tables for strangers' files."""
    for name, location in others:
        is_same = location == uri and name != wanted
        if is_same or inside(location, uri) or inside(uri, location):
            raise Invalid(
                f"warehouse '{wanted}': {uri} and warehouse '{name}' at {location} lie in each "
                "other; choose another location"
            )


def _check_options(name: str, options: Mapping[str, str]) -> None:
    if any(not key.strip() for key in options):
        raise Invalid(f"warehouse '{name}': an option has no name")


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no warehouse '{name}' in the catalog's database")
