"""A catalog whose warehouse was moved or copied to another location."""

from __future__ import annotations

from headwater.client.connect import database_of
from headwater.storage.errors import Invalid

__all__ = ["move_warehouse"]


def move_warehouse(
    target: str,
    *,
    moved_from: str,
    warehouse: str | None = None,
    location: str | None = None,
    apply: bool = False,
) -> int:
    """Let a catalog's databases and tables lie where their files are now.

    Nothing else may use the catalog meanwhile.

    Args:
        target: The folder of an embedded catalog, or a SQL database's URL.
        moved_from: The location of the warehouse that the database knows.
        warehouse: The warehouse's name; ``main`` unless given.
        location: With a SQL URL, the location of the warehouse now.
        apply: Change the database; else only count.

    Returns:
        The number of databases and tables that were, or would be, moved.

    Raises:
        Invalid: The target is a server's address, or a location is malformed or overlaps another.
        NotFound, Unavailable: There is no such catalog.
    """
    from headwater.catalog.sql.admin import moved_warehouse
    from headwater.catalog.sql.database.open_database import opened_database

    if target.startswith(("http://", "https://")):
        raise Invalid(
            "a warehouse is moved in the catalog's database, not through a server: give the "
            "database's URL and the location of the files"
        )
    url, place = database_of(target, location)
    with opened_database(url) as database:
        name = "main" if warehouse is None else warehouse
        return moved_warehouse.move_warehouse(database, name, moved_from, place, apply=apply)
