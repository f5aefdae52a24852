"""The context that every part of `SqlCatalog` works in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.storage.files.access import FileAccess
from headwater.storage.files.location import Place
from headwater.storage.files.open_files import open_file_access
from headwater.storage.runtime import Runtime

__all__ = ["CatalogContext"]


@dataclass(frozen=True)
class CatalogContext:
    """A warehouse and the means to work on it.

    Attributes:
        database: The SQL database that decides.
        files: The storage that follows.
        runtime: Clock and names.
        warehouse: The warehouse's name.
        location: Its URI, without a trailing slash.
        undrop_millis: The time during which a dropped table can be restored; 0 deletes it at once.
        external_places: The places outside the warehouse where external tables' schema files may
            be read and written, and data files of dropped tables deleted; None is all of them.
        is_managed: True if the warehouse is a row of the database, and can be removed.
    """

    database: SqlDatabase
    files: FileAccess
    runtime: Runtime
    warehouse: str
    location: str
    undrop_millis: int = 0
    external_places: tuple[Place, ...] | None = None
    is_managed: bool = False

    @cached_property
    def place(self) -> Place:
        """The warehouse's directory."""
        return Place.of(self.location)

    def is_allowed(self, place: Place) -> bool:
        """True if the operator lets the catalog work at a place outside the warehouse.

        A server reads and writes with its own rights, which its callers do not have.
        """
        return self.external_places is None or any(
            allowed.holds(place) for allowed in self.external_places
        )

    def files_at(self, location: str) -> FileAccess:
        """The file access that reaches a location, inside the warehouse or outside.

        Raises:
            Unsupported: No file access reaches it.
        """
        is_near = Place.of(location).scheme == self.place.scheme
        return self.files if is_near else open_file_access(location)
