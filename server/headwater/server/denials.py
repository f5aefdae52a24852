"""Requests that were refused, added up and written to the change feed from time to time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from headwater.catalog.model.events import ObjectKind, Subject
from headwater.catalog.model.origin import Origin
from headwater.catalog.sql.events.refusals import Refusals
from headwater.server.dependencies import decode_segment
from headwater.storage.errors import HeadwaterError
from headwater.storage.runtime import Runtime

__all__ = [
    "DENIED",
    "MOST_CALLERS",
    "MOST_THINGS",
    "Denials",
    "Refused",
    "recording_denials",
    "refused_subject",
    "refused_warehouse",
]

DENIED = "denied"
"""The key, in a connection's state, that says that a 404 hides what the caller may not see."""

MOST_CALLERS = 10
"""The callers of whom each turn tells; so many with a name, and so many addresses without."""

MOST_THINGS = 5
"""The things that it tells for each of them."""

MOST_KEPT = 1000
"""The events that wait for a database that is away."""

_SECONDS = 10.0
_LOG = logging.getLogger("headwater.server.denials")
_LONGEST_NAME = 255


class Refused(NamedTuple):
    """A request that was refused, as far as it is told.

    Attributes:
        principal: The caller; None if nobody is known.
        address: The network address of the client; None if unknown.
        warehouse: The warehouse that the request named; empty for none.
        subject: The thing that it was about, as far as known.
        operation: The operation's id; ``none`` where it is not known.
        status: The HTTP status of the answer.
    """

    principal: str | None
    address: str | None
    warehouse: str
    subject: Subject
    operation: str
    status: int


@dataclass(frozen=True)
class _Count:
    """The first and the last time, the id of the first request, and how many there were."""

    first_at: int
    last_at: int
    request_id: str | None
    count: int


@dataclass
class _Budget:
    """The events that may be written at once, and those that follow in a minute."""

    most: float
    a_minute: float
    left: float
    filled_at: float

    def take(self, now: float) -> bool:
        """Use up one of them at a time by the monotonic clock; False if none is left."""
        more = (now - self.filled_at) / 60 * self.a_minute
        self.left, self.filled_at = min(self.left + more, self.most), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


_ANYTHING = Subject(ObjectKind.REQUEST, "")
_Caller = tuple[str | None, str | None]


class Denials:
    """Refused requests that are yet to be written, however many: their number is bounded.

    Of each caller the first things are told that were refused to it, and of the first callers, as
    long as there is a budget of events, which grows with time. All that is beyond is added up.
    Callers that nobody knows have a budget of their own: they cannot crowd out those who have a
    name. Safe to use from several threads.

    Args:
        runtime: The clock.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._now_millis = runtime.now_millis
        self._monotonic = runtime.monotonic
        now = runtime.monotonic()
        self._named, self._nameless = _Budget(100, 20, 100, now), _Budget(50, 5, 50, now)
        self._lock = threading.Lock()
        self._counts: dict[Refused, _Count] = {}
        self._things: dict[_Caller, int] = {}

    def add(self, refused: Refused, request_id: str) -> None:
        """Count a request that was refused."""
        now = self._now_millis()
        with self._lock:
            told = refused if refused in self._counts else self._told(refused)
            self._add(told, _Count(now, now, request_id, 1))

    def write(self, record: Callable[[Sequence[Refusals]], None]) -> None:
        """Have what was counted recorded; if that fails, it is kept for the next time.

        Raises:
            HeadwaterError: From `record`.
        """
        with self._lock:
            counts = self._counts
            self._counts, self._things = {}, {}
        if not counts:
            return
        try:
            record([_refusals(refused, count) for refused, count in counts.items()])
        except BaseException:
            with self._lock:
                for refused, count in counts.items():
                    self._add(refused, count)
            raise

    def _add(self, told: Refused, more: _Count) -> None:
        so_far = self._counts.get(told)
        if so_far is None:
            is_one = told.address is not None
            self._counts[told] = more if is_one else replace(more, request_id=None)
            return
        self._counts[told] = _Count(
            min(so_far.first_at, more.first_at),
            max(so_far.last_at, more.last_at),
            so_far.request_id,
            so_far.count + more.count,
        )

    def _told(self, refused: Refused) -> Refused:
        """The form in which something new is told."""
        is_named = refused.principal is not None
        caller = (refused.principal, None if is_named else refused.address)
        things = self._things.get(caller, 0)
        if things >= MOST_THINGS:
            return Refused(*caller, "", _ANYTHING, "others", refused.status)
        budget = self._named if is_named else self._nameless
        callers = sum((principal is not None) == is_named for principal, _ in self._things)
        is_beyond = (not things and callers >= MOST_CALLERS) or len(self._counts) >= MOST_KEPT
        if is_beyond or not budget.take(self._monotonic()):
            return Refused(None, None, "", _ANYTHING, "others", refused.status)
        self._things[caller] = things + 1
        return refused


def _refusals(refused: Refused, count: _Count) -> Refusals:
    origin = None if count.request_id is None else Origin(refused.address, count.request_id)
    return Refusals(
        count.first_at,
        count.last_at,
        count.count,
        refused.warehouse,
        refused.subject,
        refused.operation,
        refused.status,
        refused.principal,
        origin,
    )


def refused_subject(path: str, parameters: Mapping[str, str]) -> Subject:
    """The thing that a request was about, by its path; nobody knows if there is such a thing.

    Args:
        path: The path as it was sent.
        parameters: The segments that the route has names for; none where no route was found.
    """
    names = {name: _name(segment) for name, segment in parameters.items()}
    database = names.get("database", "")
    for kind in (ObjectKind.TABLE, ObjectKind.VIEW, ObjectKind.FUNCTION):
        if names.get(kind.value):
            return Subject(kind, names[kind.value], database=database)
    if database:
        return Subject(ObjectKind.DATABASE, database)
    return Subject(ObjectKind.REQUEST, _printable(path))


def refused_warehouse(parameters: Mapping[str, str]) -> str:
    """The warehouse that a request named; empty for none."""
    return _name(parameters.get("prefix") or parameters.get("warehouse") or "")


def _name(segment: str) -> str:
    try:
        return _printable(decode_segment(segment))
    except ValueError:
        return ""


def _printable(text: str) -> str:
    short = text[:_LONGEST_NAME]
    return short if short.isprintable() else ""


@contextmanager
def recording_denials(
    denials: Denials, record: Callable[[Sequence[Refusals]], None], seconds: float = _SECONDS
) -> Iterator[None]:
    """Record denials every so many seconds while the block runs, and at its end."""
    stop = threading.Event()

    def work() -> None:
        while True:
            is_last = stop.wait(seconds)
            try:
                denials.write(record)
            except (HeadwaterError, SQLAlchemyError) as error:
                _LOG.warning("the feed has no events of what was refused yet: %s", error)
            if is_last:
                return

    thread = threading.Thread(target=work, name="denials", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        # A database that is away does not keep the server from ending.
        thread.join(timeout=5)
