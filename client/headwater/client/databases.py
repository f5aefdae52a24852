"""Databases behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.catalog.model.databases import DatabaseInfo
from headwater.catalog.model.page import Page
from headwater.catalog.wire.databases import (
    AlterDatabaseRequest,
    CreateDatabaseRequest,
    GetDatabaseResponse,
    ListDatabasesResponse,
)
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import (
    Requests,
    paging,
)
from headwater.storage.errors import AlreadyExists

__all__ = ["RestDatabases"]


class RestDatabases:
    """Implements `headwater.catalog.model.databases.Databases` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names."""
        params = paging(max_results, page_token, databaseNamePattern=pattern)
        return self._requests.get(ListDatabasesResponse, params, "databases").page()

    def create(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database."""
        body = CreateDatabaseRequest(name=name, options=dict(options or {}))
        try:
            self._requests.post(Empty, body, "databases")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        return self._requests.get(GetDatabaseResponse, None, "databases", name).info()

    def alter(self, name: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove options."""
        body = AlterDatabaseRequest(updates=dict(updates), removals=list(removals))
        self._requests.post(Empty, body, "databases", name)

    def drop(self, name: str) -> None:
        """Drop a database with all tables, views and functions in it."""
        self._requests.delete("databases", name)
