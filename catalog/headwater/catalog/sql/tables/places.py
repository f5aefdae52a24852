"""Where a table goes: its database, its name, its directory, and whether they are free."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DatabaseRow, PathRow, TableRow
from headwater.catalog.sql.queries.lookup import database_not_found
from headwater.catalog.sql.queries.names import inside, normalised_location, path_key
from headwater.storage.errors import AlreadyExists, Forbidden, Invalid, ResourceType

__all__ = [
    "check_external_path",
    "check_readable",
    "find_database",
    "is_known_path",
    "is_readable",
    "refuse_known_path",
    "refuse_taken_name",
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


def is_known_path(connection: Connection, path: str) -> bool:
    """Whether a directory is, or was, a table's of the catalog."""
    known = select(PathRow.table_id).where(PathRow.path_key == path_key(path))
    return connection.execute(known).one_or_none() is not None


def refuse_known_path(connection: Connection, identifier: Identifier, path: str) -> None:
    """Refuse a directory that is, or was, a table's of the catalog, be it of another warehouse.

    Raises:
        Invalid: It is: two that decide about the same files would take them from each other.
    """
    if is_known_path(connection, path):
        raise Invalid(f"table {identifier}: {path} is, or was, the place of another table here")


def table_location(identifier: Identifier, text: str) -> str:
    """The URI of a table's directory from how a client wrote it; raises Invalid."""
    if not text.startswith("/") and ":" not in text:
        raise Invalid(
            f"table {identifier}: option 'path' must be a URI or an absolute path, not '{text}'"
        )
    return normalised_location(text)


def check_external_path(context: CatalogContext, identifier: Identifier, path: str) -> None:
    """Refuse a place in the warehouse, or around it; raises Invalid."""
    location = context.location
    if path == location or inside(path, location) or inside(location, path):
        raise Invalid(
            f"table {identifier}: an external table's path must not touch the warehouse "
            f"{location}, whose files the catalog manages; leave option 'path' out"
        )


def is_readable(context: CatalogContext, path: str) -> bool:
    """Whether whoever runs the catalog lets it work at a place outside the warehouse.

    A server reads and writes with its own rights, which its callers do not have.
    """
    places = context.external_locations
    return places is None or any(path == place or inside(path, place) for place in places)


def check_readable(context: CatalogContext, identifier: Identifier, path: str) -> None:
    """Refuse to work at a place that whoever runs the catalog did not name; raises Forbidden."""
    if is_readable(context, path):
        return
    raise Forbidden(
        f"table {identifier}: this server neither reads nor writes at {path}; name the place in "
        "its setting external_locations (HEADWATER_EXTERNAL_LOCATIONS), or create the table with "
        "its columns and change them with an engine that works there"
    )
