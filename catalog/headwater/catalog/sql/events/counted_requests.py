"""Events about requests that changed nothing, refused ones and reads: they are written apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import insert

from headwater.catalog.model.events import Detail, EventType, Outcome, Subject
from headwater.catalog.model.origin import Origin, coming_from
from headwater.catalog.model.principal import acting_as
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import EventRow
from headwater.catalog.sql.events.record import event_row

__all__ = ["CountedRequests", "record_requests"]


_ERRORS = 400


@dataclass(frozen=True)
class CountedRequests:
    """Requests that are alike: refused to their caller, or reads.

    Attributes:
        first_at: The time of the first one, milliseconds since the epoch.
        last_at: The time of the last one, likewise.
        count: Their number.
        warehouse: The warehouse that they named; empty for none.
        subject: The thing that they were about, as far as known.
        operation: The operation's id; ``none`` where it is not known.
        status: The HTTP status of the answers; of a read, that of a success.
        principal: The caller; None if nobody is known.
        origin: The first request; None when they came from several clients.
    """

    first_at: int
    last_at: int
    count: int
    warehouse: str
    subject: Subject
    operation: str
    status: int
    principal: str | None
    origin: Origin | None


def record_requests(database: SqlDatabase, requests: Sequence[CountedRequests]) -> None:
    """Write an event for each; raises Unavailable."""
    rows = [_row(each) for each in requests]
    if rows:
        database.write(lambda connection: connection.execute(insert(EventRow), rows), durable=False)


def _row(noted: CountedRequests) -> dict[str, object]:
    is_refused = noted.status >= _ERRORS
    details: dict[str, Detail] = {"operation": noted.operation}
    if is_refused:
        details["status"] = noted.status
    details |= {"count": noted.count, "until": noted.last_at}
    with acting_as(noted.principal), coming_from(noted.origin):
        return event_row(
            noted.first_at,
            noted.warehouse,
            EventType.REFUSED if is_refused else EventType.READ,
            noted.subject,
            details,
            Outcome.DENIED if is_refused else Outcome.DONE,
        )
