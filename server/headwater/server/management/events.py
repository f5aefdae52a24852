"""The change feed, read by offset."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Query

from headwater.catalog.model.events import MOST_EVENTS, EventFilter
from headwater.catalog.wire.events import ListEventsResponse
from headwater.server.dependencies import ServicesOf
from headwater.server.error_responses import Failure, failures
from headwater.server.management.dependencies import ManagedCatalog
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Unsupported

__all__ = ["router"]

router = ResourceRouter(prefix="/management/v1", tags=["management"])

_GONE = Failure(
    "events deleted", 404, "the events after 7 up to 4000 are deleted: their retention has ended"
)

_After: TypeAlias = Annotated[
    int, Query(ge=0, lt=2**63, description="The offset to go on after; 0 begins with the oldest.")
]
_Limit: TypeAlias = Annotated[
    int, Query(ge=1, le=MOST_EVENTS, description="The number of events to answer with.")
]


async def _filter(
    database: Annotated[
        str | None, Query(description="Only events about this database and what is in it.")
    ] = None,
    table: Annotated[
        str | None,
        Query(description="Only events about what had this name in `database`, which it needs."),
    ] = None,
    object_id: Annotated[
        str | None, Query(alias="objectId", description="Only events about the thing of this id.")
    ] = None,
    principal: Annotated[
        str | None, Query(description="Only what this principal did or was refused.")
    ] = None,
) -> EventFilter:
    return EventFilter(database, table, object_id, principal)


_Only: TypeAlias = Annotated[EventFilter, Depends(_filter)]


@router.get(
    "/warehouses/{warehouse}/events",
    summary="Read the change feed of a warehouse",
    responses=failures(_GONE),
)
def list_events(
    catalog: ManagedCatalog, only: _Only, after: _After = 0, limit: _Limit = 100
) -> ListEventsResponse:
    """Read who did what to which object of the warehouse, from where, in the order of commits.

    Each event has an offset. A page holds no more than `limit` events and, where few events meet
    the conditions, may hold none: go on after `nextAfter` until `isEnd`.
    """
    return ListEventsResponse.of(catalog.events.read(after=after, limit=limit, only=only))


@router.get(
    "/events",
    summary="Read the change feed of all warehouses",
    responses=failures("no manager", "unsupported", _GONE),
)
def list_all_events(
    services: ServicesOf, only: _Only, after: _After = 0, limit: _Limit = 100
) -> ListEventsResponse:
    """Likewise for all warehouses of the database, with what was done to tokens and groups."""
    if services.feed is None:
        raise Unsupported("this server has no database that could have a change feed")
    return ListEventsResponse.of(services.feed.read(after=after, limit=limit, only=only))
