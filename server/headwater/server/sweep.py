"""The background sweep: what a crash left half done, and what is to be deleted by now."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from headwater.catalog.sql import SqlCatalog
from headwater.server.metrics import Metrics
from headwater.storage.errors import HeadwaterError
from headwater.storage.steps import step

__all__ = ["sweep_all", "sweeping"]

_LOG = logging.getLogger("headwater.server.sweep")


def sweep_all(catalogs: Mapping[str, SqlCatalog], metrics: Metrics) -> None:
    """Sweep every warehouse once; one that fails does not keep the others from being swept."""
    for name, catalog in sorted(catalogs.items()):
        try:
            with step("sweep", warehouse=name):
                report = catalog.operation.sweep()
        except (HeadwaterError, SQLAlchemyError) as error:
            metrics.swept(name, None)
            _LOG.warning("warehouse %s was not swept: %s", name, error)
            continue
        metrics.swept(name, report)
        if report.repaired.settled or report.purged:
            _LOG.info(
                "warehouse %s: storage follows %s more decisions, %s dropped tables are purged",
                name,
                report.repaired.settled,
                report.purged,
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
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(seconds):
            try:
                found = catalogs()
            except HeadwaterError as error:
                metrics.swept("", None)
                _LOG.warning("nothing was swept: %s", error)
                continue
            sweep_all(found, metrics)
            _expire(expire_events, metrics)

    thread = threading.Thread(target=work, name="sweep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        # A sweep that waits for storage does not keep the server from ending: it can be repeated.
        thread.join(timeout=5)
