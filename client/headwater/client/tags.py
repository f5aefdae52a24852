"""Tags behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.wire.history import (
    CreateTagRequest,
    GetTagResponse,
    ListTagsResponse,
    RenameTagRequest,
    ReplaceTagRequest,
)
from headwater.catalog.wire.tables import (
    Empty,
)
from headwater.client.requests import (
    Requests,
    paging,
    table_path,
)

__all__ = ["RestTags"]


class RestTags:
    """Implements `headwater.catalog.model.tags.Tags` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def create(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
        snapshot_uuid: str | None = None,
    ) -> None:
        """Name a snapshot (the latest when None); AlreadyExists (TAG), NotFound (SNAPSHOT)."""
        body = CreateTagRequest(
            tag_name=tag,
            snapshot_id=snapshot_id,
            time_retained=None if retained_millis is None else f"{retained_millis} ms",
            snapshot_uuid=snapshot_uuid,
        )
        self._requests.post(Empty, body, *table_path(identifier), "tags", of=identifier)

    def get(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        return self._requests.get(
            GetTagResponse, None, *table_path(identifier), "tags", tag, of=identifier
        ).info()

    def list(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names."""
        params = paging(max_results, page_token, tagNamePrefix=prefix)
        return self._requests.get(
            ListTagsResponse, params, *table_path(identifier), "tags", of=identifier
        ).page()

    def replace(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Let a tag name another snapshot (the latest when None); NotFound (TAG, SNAPSHOT)."""
        body = ReplaceTagRequest(
            snapshot_id=snapshot_id,
            time_retained=None if retained_millis is None else f"{retained_millis} ms",
        )
        self._requests.post(
            Empty, body, *table_path(identifier), "tags", tag, "replace", of=identifier
        )

    def rename(self, identifier: Identifier, tag: str, new_name: str) -> None:
        """Rename a tag; NotFound (TAG), AlreadyExists (TAG), Invalid."""
        body = RenameTagRequest(to_tag=new_name)
        self._requests.post(
            Empty, body, *table_path(identifier), "tags", tag, "rename", of=identifier
        )

    def delete(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""
        self._requests.delete(*table_path(identifier), "tags", tag, of=identifier)
