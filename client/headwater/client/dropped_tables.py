"""Dropped tables over HTTP, by Headwater's own management API."""

from __future__ import annotations

from headwater.catalog.model.dropped_tables import DroppedTableInfo
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.wire.management import (
    ListDroppedTablesResponse,
    RestoreTableRequest,
    RestoreTableResponse,
)
from headwater.catalog.wire.tables import Empty, IdentifierModel
from headwater.client.requests import Requests, paging

__all__ = ["RestDroppedTables"]

_SEGMENT = "dropped-tables"


class RestDroppedTables:
    """Implements `headwater.catalog.model.dropped_tables.DroppedTables`.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        *,
        database: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[DroppedTableInfo]:
        """The tables that can be restored, by database, name and id."""
        params = paging(max_results, page_token, database=database)
        page = self._requests.manage("GET", ListDroppedTablesResponse, _SEGMENT, params=params)
        return Page(tuple(item.info() for item in page.dropped_tables), page.next_page_token)

    def restore(self, table_id: str, destination: Identifier | None = None) -> Identifier:
        """Undo a drop."""
        target = None if destination is None else IdentifierModel.of(destination)
        body = RestoreTableRequest(destination=target)
        answer = self._requests.manage(
            "POST", RestoreTableResponse, _SEGMENT, table_id, "restore", body=body
        )
        return answer.identifier.identifier()

    def purge(self, table_id: str) -> None:
        """Delete a dropped table and its files; NotFound (TABLE)."""
        self._requests.manage("DELETE", Empty, _SEGMENT, table_id)
