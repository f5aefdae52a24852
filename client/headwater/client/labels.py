"""Labels behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.labels import Entity, Label, check_key
from headwater.catalog.model.page import Page
from headwater.catalog.wire.labels import GetLabelResponse, ListLabelsResponse, UpsertLabelRequest
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging

__all__ = ["RestLabels"]


class RestLabels:
    """Implements `headwater.catalog.model.labels.Labels` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self, entity: Entity, *, max_results: int | None = None, page_token: str | None = None
    ) -> Page[Label]:
        """The labels of an entity, by key."""
        params = paging(max_results, page_token)
        answer = self._requests.get(ListLabelsResponse, params, *_path(entity))
        return answer.page().map(GetLabelResponse.label)

    def get(self, entity: Entity, key: str) -> Label:
        """One label of an entity; NotFound (LABEL)."""
        check_key(key)
        return self._requests.get(GetLabelResponse, None, *_path(entity), key).label()

    def set(self, entity: Entity, label: Label) -> None:
        """Give an entity a label, in place of the one that has the same key."""
        body = UpsertLabelRequest(value=label.value)
        self._requests.post(Empty, body, *_path(entity), label.key)

    def unset(self, entity: Entity, key: str) -> None:
        """Take a label away; it is no error when there is none."""
        check_key(key)
        self._requests.delete(*_path(entity), key)


def _path(entity: Entity) -> tuple[str, str, str]:
    return "labels", entity.type, entity.name
