"""Events about requests that were refused: nothing was changed, so they are written apart."""

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

__all__ = ["Refusals", "record_refusals"]


@dataclass(frozen=True)
class Refusals:
    """Requests that were refused alike.

    Attributes:
        first_at: The time of the first one, milliseconds since the epoch.
        last_at: The time of the last one, likewise.
        count: Their number.
        warehouse: The warehouse that they named; empty for none.
        subject: The thing that they were about, as far as known.
        operation: The operation's id; ``none`` where it is not known.
        status: The HTTP status of the answers.
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


def record_refusals(database: SqlDatabase, refusals: Sequence[Refusals]) -> None:
    """Write an event for each; raises Unavailable."""
    rows = [_row(each) for each in refusals]
    if rows:
        database.write(lambda connection: connection.execute(insert(EventRow), rows), durable=False)


def _row(refused: Refusals) -> dict[str, object]:
    details: dict[str, Detail] = {
        "operation": refused.operation,
        "status": refused.status,
        "count": refused.count,
        "until": refused.last_at,
    }
    with acting_as(refused.principal), coming_from(refused.origin):
        return event_row(
            refused.first_at,
            refused.warehouse,
            EventType.REFUSED,
            refused.subject,
            details,
            Outcome.DENIED,
        )
