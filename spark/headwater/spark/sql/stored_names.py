"""Names of databases, tables, views and functions as the catalog has them, whatever their case.

Spark does not mind the case of names unless ``spark.sql.caseSensitive`` is set; the catalog does. A
name that does not exist means the one that differs from it in case only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.model.page import all_pages
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound, ResourceType

__all__ = ["StoredNames"]


@dataclass(frozen=True)
class StoredNames:
    """Finds names.

    Attributes:
        lake: The catalog.
        fold: Maps names that are equal in the session to the same text.
    """

    lake: Lake
    fold: Callable[[str], str]

    def database(self, name: str) -> str:
        """The stored name of a database; the name itself if it does not exist.

        Raises:
            Invalid: Several databases differ from the name in case only.
        """
        if self._is_exact_session or self._exists(lambda: self.lake.get_database(name)):
            return name
        return self._only("database", name, self.lake.list_databases())

    def table(self, identifier: Identifier, *, is_missing: bool = False) -> Identifier:
        """The stored name of a table or a view; the name itself if it does not exist.

        Args:
            identifier: The name.
            is_missing: Whether the catalog is known not to have it as it is written.

        Raises:
            Invalid: Several tables and views differ from the name in case only.
        """
        if identifier.database == SYSTEM_DATABASE or self._is_exact_session:
            return identifier
        database = self.database(identifier.database)
        name = identifier.table
        table = Identifier(database, name)
        catalog = self.lake.catalog
        is_new = not is_missing or database != identifier.database
        if is_new and (
            self._exists(lambda: catalog.tables.get(table))
            or self._exists(lambda: catalog.views.get(table))
        ):
            return replace(identifier, database=database)

        def names() -> list[str]:
            views = all_pages(lambda token: catalog.views.list(database, page_token=token))
            return [*self.lake.list_tables(database), *views]

        stored = self._only("table", name, _existing(names))
        return replace(identifier, database=database, name=stored + identifier.name[len(name) :])

    def function(self, identifier: Identifier) -> Identifier:
        """The stored name of a function; the name itself if it does not exist.

        Raises:
            Invalid: Several functions differ from the name in case only.
        """
        database = self.database(identifier.database)
        functions = self.lake.catalog.functions
        exact = replace(identifier, database=database)
        if self._is_exact_session or self._exists(lambda: functions.get(exact)):
            return exact
        names = _existing(
            lambda: all_pages(lambda token: functions.list(database, page_token=token))
        )
        return replace(exact, name=self._only("function", exact.name, names))

    @property
    def _is_exact_session(self) -> bool:
        """Whether names that differ in case are different names to the session."""
        return self.fold("A") != self.fold("a")

    def _exists(self, get: Callable[[], object]) -> bool:
        try:
            get()
        except NotFound:
            return False
        return True

    def _only(self, resource: str, name: str, names: Iterable[str]) -> str:
        folded = self.fold(name)
        alike = sorted({stored for stored in names if self.fold(stored) == folded})
        if len(alike) > 1:
            raise Invalid(
                f"{resource} '{name}' may be any of {', '.join(alike)}, which differ in case only: "
                "write the name as it is"
            )
        return alike[0] if alike else name


def _existing(names: Callable[[], list[str]]) -> list[str]:
    """Names in a database; none where the database does not exist."""
    try:
        return names()
    except NotFound as error:
        if error.resource_type is not ResourceType.DATABASE:
            raise
        return []
