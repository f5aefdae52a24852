"""The views of a catalog behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewChange, ViewInfo, ViewSchema
from headwater.catalog.wire.views import (
    AlterViewRequest,
    CreateViewRequest,
    GetViewResponse,
    ListViewDetailsResponse,
    ListViewsGloballyResponse,
    ListViewsResponse,
    ReplaceViewRequest,
)
from headwater.client.named_objects import ObjectShape, RestNamedObjects
from headwater.client.requests import Requests
from headwater.storage.errors import ResourceType

__all__ = ["RestViews"]

_VIEW = ObjectShape(
    kind=ResourceType.VIEW,
    names=ListViewsResponse,
    details=ListViewDetailsResponse,
    everywhere=ListViewsGloballyResponse,
    answer=GetViewResponse,
    info=GetViewResponse.info,
    create=CreateViewRequest.of,
    alter=AlterViewRequest.of,
    replace=ReplaceViewRequest.of,
)


class RestViews(RestNamedObjects[ViewSchema, ViewChange, ViewInfo, GetViewResponse]):
    """The views of one warehouse (`headwater.catalog.model.views.Views`).

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests, _VIEW)

    def replace(
        self, identifier: Identifier, content: ViewSchema, *, keep_properties: bool = False
    ) -> None:
        """Let a view say something else; NotFound; Unsupported when the server cannot."""
        body = ReplaceViewRequest.of(content, keep_properties=keep_properties)
        self._replace(identifier, body)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a view another name; NotFound (VIEW, DATABASE), AlreadyExists (VIEW)."""
        self._rename(source, destination)
