"""The change feed of a database: read by offset, and deleted when its retention has ended."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, delete, or_, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import (
    ANY_EVENT,
    Event,
    EventFilter,
    EventPage,
    EventType,
    ObjectKind,
    Outcome,
    Subject,
    check_bounds,
)
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import EventPositionRow, EventRow
from headwater.catalog.sql.events.counted_requests import CountedRequests, record_requests
from headwater.catalog.sql.events.numbering import (
    DELETED,
    NUMBERED,
    NUMBERED_AT_ONCE,
    ensure_position,
    number_events,
    position_of,
)
from headwater.catalog.sql.events.record import ADDRESS, DETAILS, REQUEST
from headwater.catalog.sql.events.sink_position import Undelivered, first_undelivered, undelivered
from headwater.storage.errors import Invalid, NotFound

__all__ = ["Bounds", "EventFeed", "WarehouseEvents"]

# Events that one page looks at, with conditions that few of them meet.
_LOOKED_AT = 10_000
_DELETED_AT_ONCE = 500


@dataclass(frozen=True)
class Bounds:
    """The ends of the feed.

    Attributes:
        numbered: The last offset that was given out.
        deleted: The last one whose event is deleted.
    """

    numbered: int
    deleted: int


class EventFeed:
    """The change feed of all warehouses of a database.

    Args:
        database: The database.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def read(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        only: EventFilter = ANY_EVENT,
        warehouse: str | None = None,
    ) -> EventPage:
        """The events after an offset, in their order; see the protocol.

        Args:
            after, limit, only: As for `headwater.catalog.model.events.Events.read`.
            warehouse: Only those of this warehouse.
        """
        check_bounds(after, limit)
        bounds = self._bounds()
        while bounds.numbered - max(after, bounds.deleted) < limit:
            if not number_events(self._database):
                break
            bounds = self._bounds()
        _check_offset(after, bounds)
        start = max(after, bounds.deleted)
        end = min(start + max(_LOOKED_AT, limit), bounds.numbered)
        query = (
            select(EventRow.__table__)
            .where(
                EventRow.position > start, EventRow.position <= end, *_conditions(only, warehouse)
            )
            .order_by(EventRow.position)
            .limit(limit)
        )
        with self._database.read() as connection:
            events = tuple(_event(row) for row in connection.execute(query))
        if len(events) == limit:
            end = events[-1].offset
        # What has come meanwhile is numbered here, or by another reader: it is on the next page.
        is_end = (
            end >= bounds.numbered
            and not number_events(self._database)
            and end >= self._bounds().numbered
        )
        return EventPage(events, end, is_end=is_end)

    def record_requests(self, requests: Sequence[CountedRequests]) -> None:
        """Write an event for each; raises Unavailable."""
        record_requests(self._database, requests)

    def number(self) -> int:
        """Number all events that can be seen now; how many there were."""
        numbered = 0
        while True:
            # While others commit, there are always more: those are for the next time.
            done = number_events(self._database)
            numbered += done
            if done < NUMBERED_AT_ONCE:
                return numbered

    def bounds(self) -> Bounds:
        """The bounds of the feed, after numbering what can be seen; raises Unavailable."""
        number_events(self._database)
        return self._bounds()

    def undelivered(self, sinks: Collection[str]) -> Mapping[str, Undelivered]:
        """The events that each of some sinks has yet to get; raises Unavailable."""
        now = self._database.runtime.now_millis()
        with self._database.read() as connection:
            # Before the rows are looked at: what is numbered meanwhile is counted next time.
            numbered = position_of(connection, NUMBERED)
            return {sink: undelivered(connection, sink, numbered, now) for sink in sinks}

    def expire(self, now: int, retention_millis: int) -> int:
        """Delete events whose retention has ended, the oldest first and few at a time.

        Those that a sink has not got yet are kept for as long again, and no longer.

        Args:
            now: The time, milliseconds since the epoch.
            retention_millis: The time for which events are kept.

        Returns:
            How many were deleted.

        Raises:
            Unavailable: The database did not answer.
        """
        self.number()
        ensure_position(self._database, DELETED)
        with self._database.read() as connection:
            kept_after = first_undelivered(connection)
        deleted = self._expire(now - 2 * retention_millis, None)
        return deleted + self._expire(now - retention_millis, kept_after)

    def _expire(self, before: int, kept_after: int | None) -> int:
        deleted = 0
        while done := self._database.write(
            lambda connection: _expire(connection, before, kept_after), durable=False
        ):
            deleted += done
        return deleted

    def _bounds(self) -> Bounds:
        with self._database.read() as connection:
            # In this order: what is deleted was numbered.
            deleted = position_of(connection, DELETED)
            return Bounds(position_of(connection, NUMBERED), deleted)


class WarehouseEvents:
    """Implements `headwater.catalog.model.events.Events`.

    Args:
        feed: The feed of the database.
        warehouse: The warehouse's name.
    """

    def __init__(self, feed: EventFeed, warehouse: str) -> None:
        self._feed = feed
        self._warehouse = warehouse

    def read(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        only: EventFilter = ANY_EVENT,
        all_warehouses: bool = False,
    ) -> EventPage:
        """The events after an offset, in their order."""
        warehouse = None if all_warehouses else self._warehouse
        return self._feed.read(after=after, limit=limit, only=only, warehouse=warehouse)


def _check_offset(after: int, bounds: Bounds) -> None:
    if 0 < after < bounds.deleted:
        raise NotFound(
            f"the events after {after} up to {bounds.deleted} are deleted: their retention has "
            f"ended; go on after {bounds.deleted}, or begin with the oldest after 0"
        )
    if after > bounds.numbered:
        raise Invalid(
            f"no event has offset {after}; the last one has {bounds.numbered}. If you have read "
            "so far, the catalog's database is a restored one: begin with the oldest after 0"
        )


def _conditions(only: EventFilter, warehouse: str | None) -> list[ColumnElement[bool]]:
    row = EventRow
    conditions: list[ColumnElement[bool]] = []
    if warehouse is not None:
        conditions.append(row.warehouse == warehouse)
    if only.table is not None:
        conditions += [row.database == only.database, row.name == only.table]
    elif only.database is not None:
        is_itself = (row.kind == ObjectKind.DATABASE.value) & (row.name == only.database)
        conditions.append(or_(row.database == only.database, is_itself))
    if only.object_id is not None:
        conditions.append(row.object_id == only.object_id)
    if only.principal is not None:
        conditions.append(row.principal == only.principal)
    return conditions


def _event(row: Row[*tuple[object, ...]]) -> Event:
    document: Mapping[str, object] = json.loads(row.document)
    details = document[DETAILS]
    address, request_id = document.get(ADDRESS), document.get(REQUEST)
    assert isinstance(details, dict)
    return Event(
        offset=row.position,
        at=row.created_at,
        warehouse=row.warehouse,
        type=EventType(row.type),
        subject=Subject(ObjectKind(row.kind), row.name, row.object_id, row.database),
        principal=row.principal,
        address=None if address is None else str(address),
        request_id=None if request_id is None else str(request_id),
        outcome=Outcome(row.outcome),
        details=details,
    )


def _expire(connection: Connection, before: int, kept_after: int | None) -> int:
    locked = (
        select(EventPositionRow.position).where(EventPositionRow.name == DELETED).with_for_update()
    )
    last = connection.execute(locked).scalar_one()
    oldest = (
        select(EventRow.id, EventRow.position, EventRow.created_at)
        .where(EventRow.position > last)
        .order_by(EventRow.position)
        .limit(_DELETED_AT_ONCE)
    )
    if kept_after is not None:
        oldest = oldest.where(EventRow.position <= kept_after)
    gone: list[int] = []
    for row in connection.execute(oldest):
        if row.created_at >= before:
            break
        gone.append(row.id)
        last = row.position
    if gone:
        connection.execute(delete(EventRow).where(EventRow.id.in_(gone)))
        connection.execute(
            update(EventPositionRow).where(EventPositionRow.name == DELETED).values(position=last)
        )
    return len(gone)
