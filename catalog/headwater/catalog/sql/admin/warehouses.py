"""The warehouses of a catalog's database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sqlalchemy import Select, delete, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.data_token import check_storage_options
from headwater.catalog.model.events import Detail, EventType, ObjectKind, Subject
from headwater.catalog.model.page import Page
from headwater.catalog.model.warehouses import (
    WarehouseInfo,
    check_warehouse_name,
    harmless_options,
)
from headwater.catalog.sql.admin.attached import drop_warehouse_grants
from headwater.catalog.sql.admin.sealed_options import KEYS, KEYS_FILE, OptionKeys
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import (
    DatabaseRow,
    DroppedTableRow,
    OutboxRow,
    PlaceRow,
    WarehouseMarkerRow,
    WarehouseRow,
)
from headwater.catalog.sql.events.record import record_event_in
from headwater.catalog.sql.queries.claimed_places import (
    Claim,
    Kind,
    claim,
    find_overlap,
    lock_places,
    overlap_error,
    place_hash,
    refuse_overlap,
    release,
    release_warehouse,
)
from headwater.catalog.sql.queries.lookup import has_tables
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound
from headwater.storage.files.location import Place, new_location
from headwater.storage.files.open_files import open_file_access
from headwater.storage.runtime import Runtime

__all__ = ["Warehouses"]

_LOG = logging.getLogger(__name__)

_Columns = Select[str, str, str, int, int]


class Warehouses:
    """Adds, changes and removes warehouses; the servers of the database see it within seconds.

    Args:
        database: The database that keeps them.
        runtime: The clock.
        keys: The keys by which their options are encrypted; without any, they are stored as they
            are.
    """

    def __init__(
        self, database: SqlDatabase, runtime: Runtime, keys: OptionKeys | None = None
    ) -> None:
        self._database = database
        self._runtime = runtime
        self._keys = keys or OptionKeys()

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
            location: The location of its tables: a URI or a local path.
            options: Options for file access, such as ``s3.endpoint`` and ``s3.access-key``.
            beside: The locations of further warehouses, by name, which it must not overlap either.

        Raises:
            AlreadyExists: There is one of that name.
            Invalid: The name or the location is not one, or the location overlaps another's.
            Forbidden, Unavailable: Its folder cannot be made.
            Unsupported: Nothing here reaches such a location.
        """
        check_warehouse_name(name)
        uri = new_location(location)
        wanted = _claim(name, uri)
        check_storage_options(options, f"warehouse '{name}'")
        files = open_file_access(uri, dict(options))
        now = self._runtime.now_millis()
        info = WarehouseInfo(name, uri, dict(options), now, now)
        sealed = self._seal(name, options)

        def work(connection: Connection) -> None:
            lock_places(connection)
            for started, at in (beside or {}).items():
                other = _claim(started, at)
                if not other.is_compatible(wanted):
                    raise overlap_error(f"warehouse '{name}'", wanted, other)
            row = {
                "name": name,
                "location": uri,
                "options": sealed,
                "created_at": now,
                "updated_at": now,
            }
            connection.execute(insert(WarehouseRow), row)
            refuse_overlap(connection, wanted, f"warehouse '{name}'")
            files.make_directory(uri)
            if not _is_claimed(connection, wanted):
                claim(connection, wanted)
            _recorded(connection, now, EventType.ADD_WAREHOUSE, name, options)

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise AlreadyExists(
                f"there is a warehouse '{name}' already; change it, or choose another name"
            ) from error
        return info

    def claim(self, given: Mapping[str, str]) -> None:
        """Claim the places of warehouses that a server is started with.

        They are known to everybody who adds a warehouse or a table from then on. One that was
        started with earlier and holds nothing gives way.

        Args:
            given: Locations by names. One of a name that the database has, too, is that warehouse.

        Raises:
            Invalid: Two overlap, one overlaps a warehouse or an external table of the database, or
                a location is malformed.
            Unavailable: The database did not answer.
        """
        claims = [_claim(name, location) for name, location in given.items()]
        for wanted in claims:
            other = next((each for each in claims if not wanted.is_compatible(each)), None)
            if other is not None:
                raise overlap_error(f"warehouse '{wanted.owner}'", wanted, other)
        with self._database.read() as connection:
            new = [wanted for wanted in claims if not _is_claimed(connection, wanted)]
        if not new:
            return

        def work(connection: Connection) -> None:
            lock_places(connection)
            managed = set(connection.execute(select(WarehouseRow.name)).scalars())
            for wanted in new:
                if _is_claimed(connection, wanted):
                    continue
                if wanted.owner not in managed:
                    _refuse_moved(connection, wanted)
                    release(connection, Kind.WAREHOUSE, wanted.owner)
                other = find_overlap(connection, wanted)
                while other is not None and _gives_way(connection, other, managed):
                    release(connection, Kind.WAREHOUSE, other.owner)
                    other = find_overlap(connection, wanted)
                if other is not None:
                    raise overlap_error(f"warehouse '{wanted.owner}'", wanted, other)
                claim(connection, wanted)
                now = self._runtime.now_millis()
                _recorded(connection, now, EventType.CLAIM_WAREHOUSE, wanted.owner)

        self._database.write(work)

    def find(self, name: str) -> WarehouseInfo | None:
        """A warehouse; None when none has that name; raises Unavailable."""
        with self._database.read() as connection:
            return self._find(connection, _warehouses().where(WarehouseRow.name == name))

    def get(self, name: str) -> WarehouseInfo:
        """A warehouse; NotFound."""
        info = self.find(name)
        if info is None:
            raise _not_found(name)
        return info

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
            infos = [self._info(*row) for row in connection.execute(query)]
        if max_results is None or len(infos) <= max_results:
            return Page(tuple(infos))
        return Page(tuple(infos[:max_results]), infos[max_results - 1].name)

    def set(
        self,
        name: str,
        updates: Mapping[str, str],
        removals: Sequence[str],
        *,
        check: Callable[[WarehouseInfo], None] | None = None,
    ) -> WarehouseInfo:
        """Set and remove options; removing one that is not set does nothing.

        Args:
            name: The warehouse's name.
            updates: Options to set.
            removals: Options to remove.
            check: Refuses the changed warehouse by raising.

        Raises:
            Invalid: An option is set and removed at once.
            NotFound: The warehouse does not exist.
        """
        check_storage_options(updates, f"warehouse '{name}'")
        both = sorted(set(updates) & set(removals))
        if both:
            raise Invalid(f"warehouse '{name}': option '{both[0]}' is both set and removed")

        def work(connection: Connection) -> WarehouseInfo:
            query = _warehouses().where(WarehouseRow.name == name).with_for_update()
            current = self._find(connection, query)
            if current is None:
                raise _not_found(name)
            options = {
                key: value
                for key, value in {**current.options, **updates}.items()
                if key not in removals
            }
            open_file_access(current.location, options)
            # Later than before whatever the clock says: that is how servers see the change.
            now = max(self._runtime.now_millis(), current.updated_at + 1)
            changed = WarehouseInfo(name, current.location, options, current.created_at, now)
            if check is not None:
                check(changed)
            connection.execute(
                update(WarehouseRow)
                .where(WarehouseRow.name == name)
                .values(options=self._seal(name, options), updated_at=now)
            )
            named = [*updates, *removals]
            _recorded(connection, now, EventType.SET_WAREHOUSE, name, named)
            return changed

        return self._database.write(work)

    def rotate_key(self) -> int:
        """Encrypt all options again that are not encrypted with the first key.

        Servers need not know: they read what any of their keys opens.

        Returns:
            The number of warehouses whose options were.

        Raises:
            Invalid: No key is set, or one is missing.
            CorruptData: Options were changed in the database.
        """
        if self._keys.current is None:
            raise Invalid(f"no key to encrypt with; set one in {KEYS} or {KEYS_FILE}")

        def work(connection: Connection) -> int:
            row = WarehouseRow
            rows = connection.execute(select(row.name, row.options).with_for_update()).all()
            old = [
                sealed_row for sealed_row in rows if not self._keys.is_current(sealed_row.options)
            ]
            for sealed_row in old:
                options = self._keys.open(sealed_row.name, sealed_row.options)
                connection.execute(
                    update(row)
                    .where(row.name == sealed_row.name)
                    .values(options=self._keys.seal(sealed_row.name, options))
                )
                now = self._runtime.now_millis()
                _recorded(connection, now, EventType.ROTATE_KEY, sealed_row.name)
            return len(old)

        return self._database.write(work)

    def _seal(self, name: str, options: Mapping[str, str]) -> str:
        if self._keys.current is None and harmless_options(options).keys() != options.keys():
            _LOG.warning(
                "warehouse %s: its storage options are stored in the database as they are; set %s "
                "to encrypt them",
                name,
                KEYS,
            )
        return self._keys.seal(name, options)

    def _find(self, connection: Connection, query: _Columns) -> WarehouseInfo | None:
        row = connection.execute(query).one_or_none()
        return None if row is None else self._info(*row)

    def _info(
        self, name: str, location: str, options: str, created_at: int, updated_at: int
    ) -> WarehouseInfo:
        opened = self._keys.open(name, options)
        return WarehouseInfo(name, location, opened, created_at, updated_at)

    def remove(self, name: str) -> None:
        """Remove a warehouse that holds nothing; its directory stays.

        Of one that a server was started with, it is forgotten where it was.

        Raises:
            Conflict: It holds databases, or dropped tables that can be restored, or files that are
                yet to be deleted.
            NotFound: The warehouse does not exist.
        """

        def work(connection: Connection) -> None:
            row = WarehouseRow
            managed = connection.execute(
                select(row.location).where(row.name == name).with_for_update()
            ).scalar_one_or_none()
            lock_places(connection)
            places = [] if managed is None else [Place.of(managed)]
            places += _places(connection, name)
            if not places:
                raise _not_found(name)
            connection.execute(delete(row).where(row.name == name))
            if _holds_anything(connection, name):
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
            connection.execute(
                delete(WarehouseMarkerRow).where(WarehouseMarkerRow.warehouse == name)
            )
            for place in places:
                release_warehouse(connection, name, place)
            now = self._runtime.now_millis()
            _recorded(connection, now, EventType.REMOVE_WAREHOUSE, name)

        self._database.write(work)


def _recorded(
    connection: Connection, now: int, type_: EventType, name: str, options: Iterable[str] = ()
) -> None:
    # Not their values, which may be secret.
    details: dict[str, Detail] = {"options": sorted(options)} if options else {}
    subject = Subject(ObjectKind.WAREHOUSE, name)
    record_event_in(connection, now, name, type_, subject, details)


def _warehouses() -> _Columns:
    return select(
        WarehouseRow.name,
        WarehouseRow.location,
        WarehouseRow.options,
        WarehouseRow.created_at,
        WarehouseRow.updated_at,
    )


def _claim(name: str, location: str) -> Claim:
    return Claim(Place.of(location), Kind.WAREHOUSE, name, name)


def _places(connection: Connection, name: str) -> list[Place]:
    """The places that a warehouse has claimed."""
    place = select(PlaceRow.place).where(
        PlaceRow.owner == name, PlaceRow.kind == Kind.WAREHOUSE.value
    )
    return [Place(key) for key in connection.execute(place).scalars()]


def _is_claimed(connection: Connection, wanted: Claim) -> bool:
    """Whether a warehouse has its place already."""
    owner = select(PlaceRow.owner).where(
        PlaceRow.place_hash == place_hash(wanted.place), PlaceRow.kind == wanted.kind.value
    )
    return connection.execute(owner).scalar_one_or_none() == wanted.owner


def _refuse_moved(connection: Connection, wanted: Claim) -> None:
    """Refuse another place for a warehouse that has tables where it was; raises Invalid."""
    before = _places(connection, wanted.owner)
    if before and has_tables(connection, wanted.owner):
        raise Invalid(
            f"warehouse '{wanted.owner}' has tables at {before[0].uri}, not at "
            f"{wanted.place.uri}: name its location. If its files were moved there, stop all "
            f"servers and run 'headwater reconcile --moved-from {before[0].uri} --apply' with the "
            "new location"
        )


def _gives_way(connection: Connection, other: Claim, managed: Collection[str]) -> bool:
    """Whether a claim is of a warehouse that some server was started with, and holds nothing."""
    if other.kind is not Kind.WAREHOUSE or other.owner in managed:
        return False
    return not _holds_anything(connection, other.owner)


def _holds_anything(connection: Connection, name: str) -> bool:
    """Whether a warehouse has databases, or dropped tables that can be restored."""
    return any(
        connection.execute(select(row.warehouse).where(row.warehouse == name).limit(1)).first()
        for row in (DatabaseRow, DroppedTableRow)
    )


def _not_found(name: str) -> NotFound:
    return NotFound(f"warehouse '{name}' does not exist in the catalog's database")
