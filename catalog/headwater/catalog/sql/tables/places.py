"""The place of a table: its database, its name, its directory."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import current_principal
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, TableRow
from headwater.catalog.sql.queries.claimed_places import Claim, Kind
from headwater.catalog.sql.queries.lookup import database_not_found, has_tables
from headwater.storage.errors import AlreadyExists, Forbidden, Invalid, ResourceType
from headwater.storage.files.location import Place, new_location

__all__ = [
    "check_external_path",
    "check_may_name",
    "check_readable",
    "find_database",
    "is_in_warehouse",
    "is_readable",
    "make_warehouse_folder",
    "refuse_taken_name",
    "table_claim",
    "table_location",
]


def find_database(connection: Connection, context: CatalogContext, name: str) -> tuple[str, str]:
    """A database's id and location; raises NotFound (DATABASE)."""
    row = connection.execute(
        select(DatabaseRow.id, DatabaseRow.location).where(
            DatabaseRow.warehouse == context.warehouse, DatabaseRow.name == name
        )
    ).one_or_none()
    if row is None:
        raise database_not_found(name)
    return row.id, row.location


def refuse_taken_name(connection: Connection, database_id: str, identifier: Identifier) -> None:
    """Refuse the name of a table that exists; raises AlreadyExists (TABLE)."""
    taken = select(TableRow.id).where(
        TableRow.database_id == database_id, TableRow.name == identifier.table
    )
    if connection.execute(taken).one_or_none() is not None:
        raise AlreadyExists(
            f"table {identifier} exists already",
            resource_type=ResourceType.TABLE,
            resource_name=str(identifier),
        )


def table_claim(
    context: CatalogContext, table_id: str, location: str, *, is_external: bool
) -> Claim:
    """The claim of a table on its directory."""
    kind = Kind.EXTERNAL if is_external else Kind.TABLE
    return Claim(Place.of(location), kind, context.warehouse, table_id)


def table_location(identifier: Identifier, text: str) -> str:
    """The URI of a table's directory from how a client wrote it; raises Invalid."""
    if not text.startswith("/") and ":" not in text:
        raise Invalid(
            f"table {identifier}: option 'path' must be a URI or an absolute path, not '{text}'"
        )
    return new_location(text)


def is_in_warehouse(context: CatalogContext, location: str) -> bool:
    """True if a location lies in the warehouse, by its name or in fact.

    A database's folder may be a symbolic link to another disk.
    """
    place = Place.of(location)
    is_below = context.place.holds(place) and place != context.place
    return is_below or location.startswith(f"{context.location.rstrip('/')}/")


def check_may_name(context: CatalogContext, what: str, place: Place) -> None:
    """Refuse a place outside that the caller may not have for a table.

    A place that a table has is closed to every warehouse and to other tables, so it is the
    operator's to give: by listing it, or by the scope to administer.

    Args:
        context: The warehouse.
        what: The thing that names it, such as ``table sales.orders: option 'path'``.
        place: The place.

    Raises:
        Forbidden: It is outside the warehouse and not listed, and the caller asks permission. It
            is not looked at, so that the answer tells nothing of what is there.
    """
    principal = current_principal()
    if principal is None or not principal.asks_permission:
        return
    if context.is_allowed(place) or context.place.holds(place):
        return
    raise Forbidden(
        f"{what}: {place.uri} is outside the warehouse, and not one of the places that tables may "
        "have there: have the operator list it in the setting external_locations "
        "(HEADWATER_EXTERNAL_LOCATIONS), or somebody with scope administer name it"
    )


def check_external_path(context: CatalogContext, identifier: Identifier, location: str) -> None:
    """Refuse an external table's path that the caller may not name, or that meets the warehouse.

    Raises:
        Forbidden: As `check_may_name`.
        Invalid: The path is in this warehouse, or around it.
    """
    check_may_name(context, f"table {identifier}: option 'path'", Place.of(location))
    if context.place.overlaps(Place.of(location)):
        raise Invalid(
            f"table {identifier}: an external table's path must not overlap the warehouse "
            f"{context.location}, whose files the catalog manages; leave option 'path' out"
        )


def make_warehouse_folder(context: CatalogContext) -> None:
    """Make the folder of a warehouse that has no tables yet.

    One that has tables and no folder has lost it, or its disk is not mounted: a new folder would
    hide that.

    Raises:
        Forbidden, Unavailable: It cannot be made.
    """
    with context.database.read() as connection:
        holds_tables = has_tables(connection, context.warehouse)
    if not holds_tables:
        context.files.make_directory(context.location)


def is_readable(context: CatalogContext, path: str) -> bool:
    """True if the operator lets the catalog work at a path outside the warehouse."""
    return context.is_allowed(Place.of(path))


def check_readable(context: CatalogContext, identifier: Identifier, path: str) -> None:
    """Refuse to work at a place that the operator did not allow; raises Forbidden."""
    if is_readable(context, path):
        return
    raise Forbidden(
        f"table {identifier}: this server neither reads nor writes at {path}; name the place in "
        "its setting external_locations (HEADWATER_EXTERNAL_LOCATIONS), or create the table with "
        "its columns and change them with an engine that works there"
    )
