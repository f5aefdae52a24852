"""The background sweep: what a crash left half done, and what is to be deleted by now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from headwater.catalog.sql import SqlCatalog
from headwater.server.metrics import Metrics
from headwater.server.readiness import SECONDS_TO_WAIT, ask
from headwater.server.recurring import recurring
from headwater.storage.errors import HeadwaterError
from headwater.storage.steps import step

__all__ = ["Sweeps", "sweeping"]

_LOG = logging.getLogger("headwater.server.sweep")


class Sweeps:
    """Sweeps warehouses one after another; one that hangs does not keep the others.

    Args:
        metrics: The counts.
        seconds_to_wait: The longest time that the others wait for a sweep; it goes on after that,
            and is not begun again before it has ended.
    """

    def __init__(self, metrics: Metrics, seconds_to_wait: float = SECONDS_TO_WAIT) -> None:
        self._metrics = metrics
        self._seconds_to_wait = seconds_to_wait
        self._late: dict[str, Future[None]] = {}

    def sweep(self, catalogs: Mapping[str, SqlCatalog]) -> None:
        """Sweep every warehouse once; one that fails does not keep the others from being swept."""
        for name, catalog in sorted(catalogs.items()):
            late = self._late.get(name)
            if late is not None and not late.done():
                self._metrics.swept(name, None)
                _LOG.warning("warehouse %s was not swept: the last sweep has not ended", name)
                continue
            begun = ask(f"sweep of {name}", partial(_sweep, name, catalog, self._metrics))
            self._late[name] = begun
            wait([begun], timeout=self._seconds_to_wait)
            if begun.done():
                del self._late[name]
                begun.result()


def _sweep(name: str, catalog: SqlCatalog, metrics: Metrics) -> None:
    try:
        with step("sweep", warehouse=name):
            report = catalog.operation.sweep()
    except (HeadwaterError, SQLAlchemyError) as error:
        metrics.swept(name, None)
        _LOG.warning("warehouse %s was not swept: %s", name, error)
        return
    metrics.swept(name, report)
    if report.repaired.settled or report.purged or report.forgotten:
        _LOG.info(
            "warehouse %s: storage follows %s more decisions, %s dropped tables are purged, "
            "%s rows of expired snapshots are deleted",
            name,
            report.repaired.settled,
            report.purged,
            report.forgotten,
        )


def _expire(expire_events: Callable[[], int], metrics: Metrics) -> None:
    try:
        expired = expire_events()
    except (HeadwaterError, SQLAlchemyError) as error:
        metrics.swept("", None)
        _LOG.warning("events were not expired: %s", error)
        return
    if expired:
        _LOG.info("%s events are deleted, as their retention had ended", expired)


@contextmanager
def sweeping(
    catalogs: Callable[[], Mapping[str, SqlCatalog]],
    expire_events: Callable[[], int],
    seconds: float,
    metrics: Metrics,
) -> Iterator[None]:
    """Sweep every so many seconds while the block runs; 0 is never.

    Any number of servers may do so at the same time: each step can be repeated.

    Args:
        catalogs: The warehouses that there are now.
        expire_events: Deletes the events whose retention has ended; how many there were.
        seconds: The seconds between two sweeps.
        metrics: The counts.
    """
    if not seconds:
        yield
        return
    sweeps = Sweeps(metrics)

    def work() -> None:
        try:
            found = catalogs()
        except HeadwaterError as error:
            metrics.swept("", None)
            _LOG.warning("nothing was swept: %s", error)
            return
        sweeps.sweep(found)
        _expire(expire_events, metrics)

    with recurring("sweep", work, seconds):
        yield
