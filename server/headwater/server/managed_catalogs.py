"""The catalogs of the warehouses in the database, opened as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from headwater.catalog.model.warehouses import WarehouseInfo
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.storage.files.access import FileAccess
from headwater.storage.runtime import Runtime

__all__ = ["KEPT_MILLIS", "ManagedCatalogs"]

KEPT_MILLIS = 5_000
"""The time for which a server trusts what it knows of a warehouse before it looks again."""


@dataclass(frozen=True)
class _Known:
    info: WarehouseInfo
    catalog: SqlCatalog
    until: float


class ManagedCatalogs:
    """Finds a warehouse's catalog, as the database describes the warehouse now or did just now.

    Safe to use from several threads.

    Args:
        database: The catalog's database, which all of them share.
        runtime: Clock and names.
        undrop_millis: The time during which a dropped table can be restored.
        external_locations: Locations beside the warehouses from which tables may be registered.
        watch_files: As for `SqlCatalog.on`.
        keys: The keys of the warehouses' options.
        history_millis: As for `SqlCatalog.open`.
    """

    def __init__(
        self,
        database: SqlDatabase,
        runtime: Runtime,
        undrop_millis: int = 0,
        external_locations: Sequence[str] | None = None,
        watch_files: Callable[[FileAccess, str], FileAccess] | None = None,
        keys: OptionKeys | None = None,
        history_millis: int | None = None,
    ) -> None:
        self.warehouses = Warehouses(database, runtime, keys)
        self._database = database
        self._runtime = runtime
        self._undrop_millis = undrop_millis
        self._history_millis = history_millis
        self._external_locations = external_locations
        self._watch_files = watch_files
        self._known: dict[str, _Known] = {}
        self._lock = Lock()

    def at_hand(self, name: str) -> SqlCatalog | None:
        """A catalog that was found a moment ago; asks no database."""
        with self._lock:
            known = self._known.get(name)
        if known is None or self._runtime.monotonic() >= known.until:
            return None
        return known.catalog

    def find(self, name: str) -> SqlCatalog | None:
        """A warehouse's catalog; None when there is no such warehouse.

        Raises:
            Unavailable: The database did not answer.
        """
        found = self.at_hand(name)
        if found is not None:
            return found
        info = self.warehouses.find(name)
        if info is None:
            self.forget(name)
            return None
        return self._opened(info)

    def all(self) -> Mapping[str, SqlCatalog]:
        """Every warehouse's catalog, by name; raises Unavailable."""
        return {info.name: self._opened(info) for info in self.warehouses.list().items}

    def names(self, most: int) -> Sequence[str]:
        """The names of the warehouses, the first ones; raises Unavailable."""
        return [info.name for info in self.warehouses.list(max_results=most).items]

    def forget(self, name: str) -> None:
        """Look again when the warehouse is asked for next."""
        with self._lock:
            self._known.pop(name, None)

    def _opened(self, info: WarehouseInfo) -> SqlCatalog:
        until = self._runtime.monotonic() + KEPT_MILLIS / 1000
        with self._lock:
            known = self._known.get(info.name)
        # Without the lock: to resolve the name of a folder may wait for its disk.
        # One that is replaced serves the requests that have begun with it to their end.
        is_same = known is not None and known.info == info
        catalog = known.catalog if known is not None and is_same else self._open(info)
        with self._lock:
            latest = self._known.get(info.name)
            if latest is not None and latest.info == info:
                catalog = latest.catalog
            self._known[info.name] = _Known(info, catalog, until)
        return catalog

    def _open(self, info: WarehouseInfo) -> SqlCatalog:
        return SqlCatalog.on(
            self._database,
            warehouse=info.name,
            location=info.location,
            storage_options=info.options,
            undrop_millis=self._undrop_millis,
            history_millis=self._history_millis,
            external_locations=self._external_locations,
            is_managed=True,
            watch_files=self._watch_files,
        )
