"""The change feed over HTTP, by Headwater's own management API."""

from __future__ import annotations

from headwater.catalog.model.events import ANY_EVENT, EventFilter, EventPage, check_bounds
from headwater.catalog.wire.events import ListEventsResponse
from headwater.client.requests import Requests

__all__ = ["RestEvents"]

_SEGMENT = "events"


class RestEvents:
    """Implements `headwater.catalog.model.events.Events`.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def read(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        only: EventFilter = ANY_EVENT,
        all_warehouses: bool = False,
    ) -> EventPage:
        """The events after an offset, in their order."""
        check_bounds(after, limit)
        asked = {
            "after": str(after),
            "limit": str(limit),
            "database": only.database,
            "table": only.table,
            "objectId": only.object_id,
            "principal": only.principal,
        }
        params = {name: value for name, value in asked.items() if value is not None}
        if all_warehouses:
            return self._requests.manage_all(ListEventsResponse, _SEGMENT, params=params).page()
        return self._requests.manage("GET", ListEventsResponse, _SEGMENT, params=params).page()
