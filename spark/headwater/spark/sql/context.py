"""The state of a SQL session: the catalog, and the database of names that say none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.session import is_set
from headwater.spark.source.table_read import Relation, TableRead
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.stored_names import StoredNames
from headwater.storage.errors import Invalid, NotFound, ResourceType

__all__ = ["DEFAULT_DATABASE", "Answer", "CachedTable", "Handler", "SqlContext"]

DEFAULT_DATABASE = "default"
"""The database that is in use when a session begins, if it exists."""

Answer: TypeAlias = pa.Table | DataFrame | None
"""The answer of a statement: rows known already, a frame that Spark computes, or nothing."""


@dataclass(frozen=True)
class CachedTable:
    """A table whose rows ``CACHE TABLE`` keeps as of one snapshot.

    Attributes:
        table_id: The table's; another one that gets its name later is not cached.
        settings: The session's options of the table when it was cached.
        relation: Its rows.
        storage: The text of ``OPTIONS``, for the next snapshot; empty without it.
    """

    table_id: str
    settings: Mapping[str, str]
    relation: Relation
    storage: str


@dataclass
class SqlContext:
    """The state of a user's SQL session.

    Attributes:
        session: The Spark session and the catalog.
        database: The database of names without one; None until one is in use.
        last_query: The reads of the last query, in the order of its text.
        cached: The tables that ``CACHE TABLE`` keeps, by ``database.table``.
        changed: Those of them that the statement may change.
    """

    session: CatalogSession
    database: str | None = None
    last_query: tuple[TableRead, ...] = ()
    cached: dict[str, CachedTable] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    _has_begun: bool = field(default=False, init=False)
    _global_database: str | None = field(default=None, init=False)

    def begin(self) -> None:
        """Use the database ``default`` from the first statement on, as Spark and Paimon do.

        There may be none of that name, and ``USE`` may have chosen another one.
        """
        if not self._has_begun:
            self._has_begun = True
            if self.database is None:
                self.use_default()

    def use_default(self) -> None:
        """Use the database that Spark begins with in a catalog, or none if it does not exist."""
        try:
            self.database = self.catalog.get_database(DEFAULT_DATABASE).name
        except NotFound:
            self.database = None

    @property
    def catalog(self) -> Lake:
        """The catalog without Spark."""
        return self.session.catalog

    def note_change(self, name: str) -> None:
        """Note that a statement may change a table, of which another snapshot is to be cached."""
        if name in self.cached:
            self.changed.add(name)

    def whole_name(self, parts: Sequence[str], database: str | None = None) -> tuple[str, ...]:
        """A name with its database and without the warehouse, where it says as much.

        Args:
            parts: The parts of the name.
            database: The database of names that say none; None leaves those as they are.
        """
        if len(parts) == 3 and parts[0] == self.catalog.warehouse:
            parts = parts[1:]
        return (database, *parts) if len(parts) == 1 and database is not None else tuple(parts)

    def view(self, identifier: Identifier) -> ViewInfo | None:
        """The view of a name; None where there is none."""
        try:
            return self.catalog.catalog.views.get(identifier)
        except NotFound:
            return None

    def table(self, name: str) -> Table:
        """The table of a name ``database.table``, as a statement about tables names it.

        Raises:
            Invalid: It is a view.
            NotFound: There is no such table.
        """
        try:
            return self.catalog.table(name)
        except NotFound as error:
            self.refuse_view(Identifier.parse(name), error)
            raise

    def refuse_view(self, identifier: Identifier, error: NotFound) -> None:
        """Say that what a statement about tables names is a view; raises Invalid.

        Args:
            identifier: The name.
            error: The error that there is no such table.
        """
        if error.resource_type is ResourceType.TABLE and self.view(identifier) is not None:
            raise Invalid(
                f"{identifier} is a view, and this is for tables: of views there are ALTER VIEW, "
                "DROP VIEW and CREATE OR REPLACE VIEW"
            ) from None

    @property
    def fold(self) -> Callable[[str], str]:
        """Gives names that are one to the session the same form."""
        return str if is_set(self.session.spark, "spark.sql.caseSensitive") else str.lower

    @property
    def global_database(self) -> str:
        """Spark's database of global temporary views: ``global_temp``, unless it was configured."""
        if self._global_database is None:
            configured = self.session.spark.conf.get("spark.sql.globalTempDatabase")
            self._global_database = str(configured).lower()
        return self._global_database

    @property
    def stored_names(self) -> StoredNames:
        """Finds names of the catalog whatever their case."""
        return StoredNames(self.catalog, self.fold)

    def full_name(
        self, parts: Sequence[str], resource_type: ResourceType = ResourceType.TABLE
    ) -> str:
        """The name ``database.table`` for the parts of a name in a statement.

        That is the name of what the catalog has, if the names differ in case only.

        Args:
            parts: ``table``, ``database, table`` or ``warehouse, database, table``.
            resource_type: What it names: FUNCTION, or TABLE for tables and views.

        Raises:
            Invalid: There are more parts, another warehouse is meant, no database is in use, or
                several names differ from this one in case only.
        """
        whole = self.whole_name(parts, self.database)
        if len(whole) == 2 and all(whole):
            identifier = Identifier(*whole)
            if resource_type is ResourceType.FUNCTION:
                return str(self.stored_names.function(identifier))
            return str(self.stored_names.table(identifier))
        if len(whole) == 2:
            return ".".join(whole)
        written = ".".join(parts)
        if len(whole) > 2:
            raise Invalid(
                f"'{written}' is not a name in warehouse {self.catalog.warehouse}: "
                "write table, database.table or warehouse.database.table"
            )
        raise Invalid(
            f"'{written}' says no database, and none is in use: "
            f"write database.{written}, or USE a database first"
        )


Handler: TypeAlias = Callable[[Statement, SqlContext], Answer]
"""Runs a statement that begins with certain words, of which none has been read yet."""
