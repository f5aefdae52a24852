"""The JSON of the change feed. See `…catalog.wire`."""

from __future__ import annotations

from pydantic import JsonValue

from headwater.catalog.model.events import (
    Event,
    EventPage,
    EventType,
    ObjectKind,
    Outcome,
    Subject,
)
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import WireModel
from headwater.storage.errors import Unsupported

__all__ = ["EventModel", "ListEventsResponse", "SubjectModel"]

_SUBJECT: dict[str, JsonValue] = {
    "kind": "table",
    "name": "orders",
    "id": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
    "database": "sales",
}
_EVENT: dict[str, JsonValue] = {
    "offset": 4711,
    "at": 1767225600000,
    "warehouse": "main",
    "type": "commitTable",
    "subject": _SUBJECT,
    "principal": "nightly-spark",
    "address": "10.0.7.12",
    "requestId": "7d1e2c04-93a5-4b7e-8f10-00000000002a",
    "outcome": "done",
    "details": {"snapshot": 42, "kind": "APPEND"},
}


class SubjectModel(WireModel):
    """The thing that an event is about, as it was called before what the event tells.

    Attributes:
        kind: Its kind, such as `table`.
        name: Its name; a table's has no branch, which is among the details.
        id: Its id, which stays when its name changes; empty for what has none.
        database: The database that it is in; empty for what is in none.
    """

    model_config = example(_SUBJECT)

    kind: str
    name: str
    id: str
    database: str


class EventModel(WireModel):
    """Something that somebody did, or was refused.

    Attributes:
        offset: Its place in the feed.
        at: The time, milliseconds since the epoch.
        warehouse: The warehouse; empty for what belongs to none.
        type: The change, as the id of the operation that does it.
        subject: The thing that it was done to.
        principal: The caller; null if nobody is known.
        address: The network address of the client.
        request_id: The id of the request, as the log has it.
        outcome: `done`, or `denied`.
        details: A few facts, such as a commit's `snapshot` and `kind`.
    """

    model_config = example(_EVENT)

    offset: int
    at: int
    warehouse: str
    type: str
    subject: SubjectModel
    principal: str | None
    address: str | None
    request_id: str | None
    outcome: str
    details: dict[str, str | int | bool | list[str] | None]

    @staticmethod
    def of(event: Event) -> EventModel:
        """The model of an event."""
        subject = event.subject
        return EventModel(
            offset=event.offset,
            at=event.at,
            warehouse=event.warehouse,
            type=event.type.value,
            subject=SubjectModel(
                kind=subject.kind.value,
                name=subject.name,
                id=subject.id,
                database=subject.database,
            ),
            principal=event.principal,
            address=event.address,
            request_id=event.request_id,
            outcome=event.outcome.value,
            details={
                name: value if isinstance(value, str | int | None) else list(value)
                for name, value in event.details.items()
            },
        )

    def event(self) -> Event:
        """The value; raises Unsupported for an event of a newer server."""
        subject = self.subject
        try:
            type_, kind, outcome = (
                EventType(self.type),
                ObjectKind(subject.kind),
                Outcome(self.outcome),
            )
        except ValueError as error:
            raise Unsupported(
                f"event {self.offset} ({self.type} of a {subject.kind}) is of a newer server; "
                "install its version here"
            ) from error
        return Event(
            offset=self.offset,
            at=self.at,
            warehouse=self.warehouse,
            type=type_,
            subject=Subject(kind, subject.name, subject.id, subject.database),
            principal=self.principal,
            address=self.address,
            request_id=self.request_id,
            outcome=outcome,
            details=self.details,
        )


class ListEventsResponse(WireModel):
    """``GET …/events``.

    Attributes:
        events: In the order of their offsets; there may be none although more follow.
        next_after: The offset to go on after.
        is_end: True if nothing more was there.
    """

    model_config = example({"events": [_EVENT], "nextAfter": 4711, "isEnd": True})

    events: list[EventModel]
    next_after: int
    is_end: bool

    @staticmethod
    def of(page: EventPage) -> ListEventsResponse:
        """The model of a page."""
        return ListEventsResponse(
            events=[EventModel.of(event) for event in page.events],
            next_after=page.next_after,
            is_end=page.is_end,
        )

    def page(self) -> EventPage:
        """The value."""
        events = tuple(each.event() for each in self.events)
        return EventPage(events, self.next_after, self.is_end)
