"""The views of a catalog behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.views import ViewChange, ViewInfo, ViewSchema
from headwater.catalog.wire.tables import Empty, IdentifierModel, RenameTableRequest
from headwater.catalog.wire.views import (
    AlterViewRequest,
    CreateViewRequest,
    GetViewResponse,
    ListViewDetailsResponse,
    ListViewsGloballyResponse,
    ListViewsResponse,
    ViewSchemaModel,
    view_change_model,
)
from headwater.client.requests import Requests, paging
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType

__all__ = ["RestViews"]


class RestViews:
    """The views of one warehouse (`headwater.catalog.model.views.Views`).

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """View names; NotFound (DATABASE)."""
        params = paging(max_results, page_token, viewNamePattern=pattern)
        page = self._requests.get(ListViewsResponse, params, "databases", database, "views")
        return Page(tuple(page.views or ()), page.next_page_token or None)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ViewInfo]:
        """Views in the order of their names; NotFound (DATABASE)."""
        params = paging(max_results, page_token, viewNamePattern=pattern)
        page = self._requests.get(
            ListViewDetailsResponse, params, "databases", database, "view-details"
        )
        views = tuple(item.info(database) for item in page.view_details or ())
        return Page(views, page.next_page_token or None)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """Views of all databases, by database and name."""
        params = paging(
            max_results, page_token, databaseNamePattern=database_pattern, viewNamePattern=pattern
        )
        page = self._requests.get(ListViewsGloballyResponse, params, "views")
        views = tuple(item.identifier() for item in page.views or ())
        return Page(views, page.next_page_token or None)

    def create(
        self, identifier: Identifier, schema: ViewSchema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a view; NotFound (DATABASE), AlreadyExists (VIEW)."""
        body = CreateViewRequest(
            identifier=IdentifierModel.of(identifier), schema=ViewSchemaModel.of(schema)
        )
        try:
            self._requests.post(Empty, body, "databases", identifier.database, "views")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get(self, identifier: Identifier) -> ViewInfo:
        """A view; NotFound (VIEW)."""
        answer = self._requests.get(GetViewResponse, None, *_path(identifier))
        return answer.info(identifier.database)

    def alter(self, identifier: Identifier, changes: Sequence[ViewChange]) -> None:
        """Apply changes, all or none; NotFound (VIEW, DIALECT), AlreadyExists (DIALECT)."""
        body = AlterViewRequest(changes=[view_change_model(change) for change in changes])
        self._requests.post(Empty, body, *_path(identifier))

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name, and another database if so asked."""
        body = RenameTableRequest(
            source=IdentifierModel.of(source), destination=IdentifierModel.of(destination)
        )
        self._requests.post(Empty, body, "views", "rename")

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view; NotFound (VIEW)."""
        try:
            self._requests.delete(*_path(identifier))
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.VIEW:
                raise


def _path(identifier: Identifier) -> tuple[str, str, str, str]:
    return "databases", identifier.database, "views", identifier.name
