"""A warehouse whose files were moved or copied to another location: the database follows.

The database names the places of databases and tables as URIs; in a table's own files they are
relative to its directory. So a move changes the database alone, in one transaction.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, func, literal, or_, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.model.events import EventType, ObjectKind, Subject
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import (
    DatabaseRow,
    OutboxRow,
    PlaceRow,
    TableRow,
    WarehouseRow,
)
from headwater.catalog.sql.events.record import record_event_in
from headwater.catalog.sql.queries.claimed_places import (
    Claim,
    Kind,
    find_overlap,
    lock_places,
    overlap_error,
    place_columns,
)
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place, parse_location

__all__ = ["move_warehouse"]

_ROWS_AT_ONCE = 500


def move_warehouse(
    database: SqlDatabase, name: str, moved_from: str, location: str, *, apply: bool
) -> int:
    """Let a warehouse's databases and tables lie in another location.

    Nothing else may use the warehouse meanwhile: servers go on with the location they know.

    Args:
        database: The catalog's database.
        name: The warehouse.
        moved_from: The location that the database knows.
        location: The location where the files are now.
        apply: Change the database; else only count.

    Returns:
        The number of databases and tables.

    Raises:
        Invalid: A location is malformed, they overlap each other, or the new one another
            warehouse's; or a table has files of its own at a URI below the old one, which its
            manifests name.
    """
    old, new = parse_location(moved_from), parse_location(location)
    if Place.of(old).overlaps(Place.of(new)):
        raise Invalid(f"{old} and {new} overlap: a warehouse is moved to a place apart from it")

    def work(connection: Connection) -> int:
        lock_places(connection)
        wanted = Claim(Place.of(new), Kind.WAREHOUSE, name, name)
        other = find_overlap(connection, wanted)
        if other is not None and other.warehouse != name:
            raise overlap_error(f"warehouse '{name}'", wanted, other)
        _refuse_named_places(connection, name, Place.of(old))
        count = _count(connection, name, old)
        if apply:
            _move(connection, name, old, new)
            subject, now = Subject(ObjectKind.WAREHOUSE, name), database.runtime.now_millis()
            record_event_in(connection, now, name, EventType.MOVE_WAREHOUSE, subject)
        return count

    return database.write(work)


def _refuse_named_places(connection: Connection, name: str, old: Place) -> None:
    row = PlaceRow
    named = connection.execute(
        select(row.place)
        .where(
            row.warehouse == name,
            row.kind.in_((Kind.DATA.value, Kind.KEPT_DATA.value)),
            func.substr(row.place, 1, len(old.key)) == old.key,
        )
        .limit(1)
    ).scalar_one_or_none()
    if named is not None:
        raise Invalid(
            f"a table of warehouse '{name}' has files at {Place(named).uri}, which its manifests "
            "name by that URI: the warehouse cannot be moved"
        )


def _count(connection: Connection, name: str, old: str) -> int:
    databases = select(func.count()).where(
        DatabaseRow.warehouse == name, _lies_in(DatabaseRow.location, old)
    )
    tables = (
        select(func.count())
        .select_from(TableRow)
        .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
        .where(DatabaseRow.warehouse == name, _lies_in(TableRow.path, old))
    )
    return sum(connection.execute(each).scalar_one() for each in (databases, tables))


def _move(connection: Connection, name: str, old: str, new: str) -> None:
    of_warehouse = select(DatabaseRow.id).where(DatabaseRow.warehouse == name)
    moved = (
        update(TableRow)
        .where(TableRow.database_id.in_(of_warehouse), _lies_in(TableRow.path, old))
        .values(path=_moved(TableRow.path, old, new)),
        update(OutboxRow)
        .where(OutboxRow.warehouse == name, _lies_in(OutboxRow.path, old))
        .values(path=_moved(OutboxRow.path, old, new)),
        update(DatabaseRow)
        .where(DatabaseRow.warehouse == name, _lies_in(DatabaseRow.location, old))
        .values(location=_moved(DatabaseRow.location, old, new)),
        update(WarehouseRow)
        .where(WarehouseRow.name == name, _lies_in(WarehouseRow.location, old))
        .values(location=_moved(WarehouseRow.location, old, new)),
    )
    for statement in moved:
        connection.execute(statement)
    _move_places(connection, name, Place.of(old), Place.of(new))


def _move_places(connection: Connection, name: str, old: Place, new: Place) -> None:
    row, after = PlaceRow, ""
    while True:
        found = connection.execute(
            select(row.place_hash, row.sharer, row.place)
            .where(row.warehouse == name, row.place_hash > after)
            .where(func.substr(row.place, 1, len(old.key)) == old.key)
            .order_by(row.place_hash)
            .limit(_ROWS_AT_ONCE)
        ).all()
        for each in found:
            place = Place(new.key + each.place[len(old.key) :])
            connection.execute(
                update(row)
                .where(row.place_hash == each.place_hash, row.sharer == each.sharer)
                .values(**place_columns(place))
            )
        if len(found) < _ROWS_AT_ONCE:
            return
        after = found[-1].place_hash


def _lies_in(uri: InstrumentedAttribute[str], location: str) -> ColumnElement[bool]:
    inside = f"{location}/"
    return or_(uri == location, func.substr(uri, 1, len(inside)) == inside)


def _moved(uri: InstrumentedAttribute[str], old: str, new: str) -> ColumnElement[str]:
    return literal(new) + func.substr(uri, len(old) + 1)
