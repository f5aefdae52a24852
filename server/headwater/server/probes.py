"""The probes behind `/readyz`, of what the server depends on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from sqlalchemy import select

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.server.readiness import SECONDS_TO_WAIT, Probe, ask
from headwater.storage.errors import HeadwaterError, Unavailable
from headwater.storage.runtime import Runtime

__all__ = ["WarehouseStorage", "probes_of"]

_LOG = logging.getLogger("headwater.server.readiness")


class _Asked(NamedTuple):
    since: float
    answer: Future[None]


# The time for which the list of warehouses is waited for.
_LIST_SECONDS = 1.0
_LATE = f"its storage has not answered for {SECONDS_TO_WAIT:g} s"


class WarehouseStorage:
    """The probe of the warehouses' storage, each of which is asked in a thread of its own.

    One of them must answer: every replica has the same warehouses, so that one that somebody
    described wrongly, or that hangs, would otherwise take all others out of service.

    A database that does not answer is another probe's matter: the warehouses are then those that
    there were before.

    Args:
        catalogs: The warehouses' catalogs by name; called each time.
        runtime: The clock.
        known: Those that there are in any case.
    """

    def __init__(
        self,
        catalogs: Callable[[], Mapping[str, SqlCatalog]],
        runtime: Runtime,
        known: Mapping[str, SqlCatalog] | None = None,
    ) -> None:
        self._catalogs = catalogs
        self._runtime = runtime
        self._listing: Future[Mapping[str, SqlCatalog]] | None = None
        self._known: Mapping[str, SqlCatalog] = known or {}
        # Both are changed by the thread of the probe alone, of which there is one at a time.
        self._asked: dict[str, _Asked] = {}
        self._faults: dict[str, str | None] = {}
        self._changing = Lock()

    def __call__(self) -> None:
        """Ask all of them, and return as soon as one answers.

        Raises:
            HeadwaterError: None is well: why the last one is not.
        """
        catalogs = self._warehouses()
        # What came after the last time says nothing of now.
        self._answers()
        now = self._runtime.monotonic()
        with self._changing:
            for gone in (self._asked.keys() | self._faults.keys()) - catalogs.keys():
                self._asked.pop(gone, None)
                self._faults.pop(gone, None)
            for name, catalog in catalogs.items():
                # One that hangs is not asked again until it answers.
                if name not in self._asked:
                    answer = ask(f"warehouse {name}", catalog.operation.check_storage)
                    self._asked[name] = _Asked(now, answer)
        last: HeadwaterError | None = None
        while self._asked:
            wait([asked.answer for asked in self._asked.values()], return_when=FIRST_COMPLETED)
            answers = self._answers()
            if None in answers:
                return
            last = next((error for error in answers if error is not None), last)
        if last is not None:
            raise last

    def _warehouses(self) -> Mapping[str, SqlCatalog]:
        """The warehouses' catalogs, or those of before while the database does not say."""
        listing = self._listing = self._listing or ask("warehouses", self._catalogs)
        wait([listing], timeout=_LIST_SECONDS)
        if listing.done():
            self._listing = None
            with suppress(Unavailable):
                self._known = listing.result()
        return self._known

    def _answers(self) -> list[HeadwaterError | None]:
        """The answers since the last time: errors, and None where all is well."""
        found: list[HeadwaterError | None] = []
        with self._changing:
            for name in [name for name, asked in self._asked.items() if asked.answer.done()]:
                error = self._asked.pop(name).answer.exception()
                if error is not None and not isinstance(error, HeadwaterError):
                    self._faults[name] = "internal error; the log says why"
                    raise error
                self._faults[name] = None if error is None else error.message
                if error is not None:
                    _LOG.warning("the storage of warehouse %s: %s", name, error)
                found.append(error)
        return found

    def faults(self) -> Mapping[str, str | None]:
        """Of each warehouse, what was wrong with its storage when it was asked last, or None."""
        latest = self._runtime.monotonic() - SECONDS_TO_WAIT
        with self._changing:
            late = {name: _LATE for name, asked in self._asked.items() if asked.since <= latest}
            return {**self._faults, **late}

    def states(self) -> Mapping[str, bool]:
        """Of each warehouse, True if its storage answered when it was asked last."""
        return {name: fault is None for name, fault in self.faults().items()}


def probes_of(database: SqlDatabase, storage: WarehouseStorage) -> Mapping[str, Probe]:
    """Probes of the database, which is one for all, and of the warehouses' storage."""

    def check_database() -> None:
        with database.read() as connection:
            connection.execute(select(1)).scalar_one()

    return {"database": check_database, "storage": storage}
