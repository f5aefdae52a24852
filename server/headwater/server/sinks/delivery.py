"""The delivery of the change feed to a sink, by one server process at a time, in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from headwater.catalog.model.events import Event
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.events.feed import EventFeed
from headwater.catalog.sql.events.sink_position import Lease, SinkPosition
from headwater.server.delivery_metrics import DeliveryMetrics
from headwater.storage.errors import Conflict, HeadwaterError
from headwater.storage.runtime import Runtime

__all__ = ["Delivery", "Sink", "delivering"]

_LOG = logging.getLogger("headwater.server.sinks")

LEASE_SECONDS = 30.0
"""The time after which another process delivers if the one that did is not heard of."""

_AT_ONCE = 100
# How often to look for new events, and for the lease of another that has ended.
_IDLE_SECONDS, _OTHERS_SECONDS = 1.0, 5.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 1.0, 30.0


class Sink(Protocol):
    """A receiver of events.

    Attributes:
        name: Its name, under which the database keeps its position.
    """

    name: str

    def deliver(self, events: Sequence[Event], advance: Callable[[int], None]) -> None:
        """Deliver events in their order.

        Args:
            events: At least one; the sink has all that come before.
            advance: Notes the offset up to which the sink has them; raises Conflict if another
                delivers by now.

        Raises:
            Conflict: From `advance`.
            Unavailable: The sink did not take them, or not all; to be tried again.
        """
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


class Delivery:
    """Delivers the feed to one sink, as long as no other process does.

    Args:
        feed: The feed.
        position: The sink's position.
        sink: The sink.
        metrics: The counts.
        runtime: The clock.
    """

    def __init__(
        self,
        feed: EventFeed,
        position: SinkPosition,
        sink: Sink,
        metrics: DeliveryMetrics,
        runtime: Runtime,
    ) -> None:
        self._feed = feed
        self._position = position
        self._sink = sink
        self._metrics = metrics
        self._runtime = runtime
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._failures = 0

    def turn(self) -> float:
        """Deliver some events, if there are any; the seconds until the next turn.

        Nothing is raised: what went wrong is logged, and tried again later and later.
        """
        try:
            seconds = self._turn()
        except Conflict as error:
            self._lease = None
            _LOG.warning("%s", error)
            return _OTHERS_SECONDS
        except (HeadwaterError, SQLAlchemyError) as error:
            self._metrics.failed(self._sink.name)
            self._failures += 1
            seconds = min(_FIRST_RETRY_SECONDS * 2.0 ** (self._failures - 1), _LAST_RETRY_SECONDS)
            _LOG.warning(
                "events were not delivered to the %s, which is tried again in %s s: %s",
                self._sink.name, seconds, error,
            )  # fmt: skip
            return seconds
        self._failures = 0
        return seconds

    def end(self) -> None:
        """Let another process deliver at once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._position.give_back(lease)
            except (HeadwaterError, SQLAlchemyError) as error:
                _LOG.warning("the lease of the %s is not given back: %s", self._sink.name, error)

    def _turn(self) -> float:
        if self._lease is None or self._runtime.monotonic() >= self._renew_at:
            self._renew_at = self._runtime.monotonic() + LEASE_SECONDS / 3
            self._lease = self._position.take()
        if self._lease is None:
            return _OTHERS_SECONDS
        bounds = self._feed.bounds()
        deleted = bounds.deleted
        if deleted > self._lease.position:
            _LOG.error(
                "the %s has not got the events after %s up to %s: their retention has ended",
                self._sink.name, self._lease.position, deleted,
            )  # fmt: skip
            self._metrics.lost(self._sink.name, deleted - self._lease.position)
            self._lease = self._position.advance(self._lease, deleted)
        if bounds.numbered <= self._lease.position:
            return _IDLE_SECONDS
        events = self._feed.read(after=self._lease.position, limit=_AT_ONCE).events
        self._sink.deliver(events, self._advance)
        return 0.0

    def _advance(self, position: int) -> None:
        assert self._lease is not None
        before = self._lease.position
        self._renew_at = self._runtime.monotonic() + LEASE_SECONDS / 3
        self._lease = self._position.advance(self._lease, position)
        if position > before:
            self._metrics.delivered(self._sink.name, position - before)
            self._failures = 0


@contextmanager
def delivering(
    sinks: Sequence[Sink],
    database: SqlDatabase,
    feed: EventFeed,
    metrics: DeliveryMetrics,
    runtime: Runtime,
) -> Iterator[None]:
    """Deliver the feed to sinks while the block runs, each by a thread of its own.

    Any number of processes may do so at the same time: one of them delivers to each sink.
    """
    owner = runtime.new_uuid()
    millis = int(LEASE_SECONDS * 1000)
    stop = threading.Event()

    def work(sink: Sink) -> None:
        position = SinkPosition(database, sink.name, owner, millis)
        delivery = Delivery(feed, position, sink, metrics, runtime)
        while not stop.wait(delivery.turn()):
            pass
        delivery.end()
        sink.close()

    threads = [
        threading.Thread(target=work, args=(sink,), name=f"{sink.name} sink", daemon=True)
        for sink in sinks
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            # A receiver that is slow does not keep the server from ending.
            thread.join(timeout=5)
