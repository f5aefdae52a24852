"""Requests that change nothing, added up and written to the change feed from time to time."""

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
from headwater.catalog.sql.events.counted_requests import CountedRequests
from headwater.server.dependencies import decode_segment
from headwater.server.recurring import recurring
from headwater.storage.errors import HeadwaterError
from headwater.storage.runtime import Runtime

__all__ = [
    "ANYTHING",
    "OTHERS",
    "NotedRequest",
    "RequestCounts",
    "recording",
    "requested_subject",
    "requested_warehouse",
]

ANYTHING = Subject(ObjectKind.REQUEST, "")
"""The subject of requests about several things, added up."""

OTHERS = "others"
"""The operation of such requests."""

_SECONDS = 10.0
_LOG = logging.getLogger("headwater.server.audit")
_LONGEST_NAME = 255


class NotedRequest(NamedTuple):
    """A request, as far as it is told; those that are equal are one event.

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


class RequestCounts:
    """Requests that are yet to be written, those that are alike together.

    A subclass bounds how many events there are. Safe to use from several threads.

    Args:
        runtime: The clock.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._now_millis = runtime.now_millis
        self._lock = threading.Lock()
        self._counts: dict[NotedRequest, _Count] = {}

    def add(self, noted: NotedRequest, request_id: str) -> None:
        """Count a request."""
        now = self._now_millis()
        with self._lock:
            told = noted if noted in self._counts else self._told(noted)
            self._add(told, _Count(now, now, request_id, 1))

    def write(self, record: Callable[[Sequence[CountedRequests]], None]) -> None:
        """Have what was counted recorded; if that fails, it is kept for the next time.

        Raises:
            HeadwaterError: From `record`.
        """
        with self._lock:
            counts = self._counts
            self._counts = {}
            self._begin_turn()
        if not counts:
            return
        try:
            record([_counted(noted, count) for noted, count in counts.items()])
        except BaseException:
            with self._lock:
                for noted, count in counts.items():
                    self._add(noted, count)
            raise

    def _begin_turn(self) -> None:
        """Forget what bounds the events of one turn."""

    def _told(self, noted: NotedRequest) -> NotedRequest:
        """The form in which something new is told; one that names less bounds the events."""
        return noted

    def _add(self, told: NotedRequest, more: _Count) -> None:
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


def _counted(noted: NotedRequest, count: _Count) -> CountedRequests:
    origin = None if count.request_id is None else Origin(noted.address, count.request_id)
    return CountedRequests(
        count.first_at,
        count.last_at,
        count.count,
        noted.warehouse,
        noted.subject,
        noted.operation,
        noted.status,
        noted.principal,
        origin,
    )


def requested_subject(path: str, parameters: Mapping[str, str]) -> Subject:
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
    if names.get("tableId"):
        return Subject(ObjectKind.TABLE, "", names["tableId"])
    return Subject(ObjectKind.REQUEST, _printable(path))


def requested_warehouse(parameters: Mapping[str, str]) -> str:
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
def recording(
    noted: Sequence[RequestCounts],
    record: Callable[[Sequence[CountedRequests]], None],
    failed: Callable[[], None],
    seconds: float = _SECONDS,
) -> Iterator[None]:
    """Record requests every so many seconds while the block runs, and at its end.

    Args:
        noted: The requests.
        record: Writes events.
        failed: Told each time that events could not be written; they are kept for the next time.
        seconds: The seconds.
    """

    def work() -> None:
        for counts in noted:
            try:
                counts.write(record)
            except (HeadwaterError, SQLAlchemyError) as error:
                failed()
                _LOG.warning("the feed has no events of requests yet: %s", error)

    with recurring("audit", work, seconds, at_end=True):
        yield
