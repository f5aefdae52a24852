"""References of tables and deletions of their files behind a Headwater server."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.references import (
    CommitDeletionRequest,
    CommitDeletionResponse,
    ReferencesModel,
)
from headwater.client.requests import Requests, table_path
from headwater.storage.maintenance.deletion import Deletion, References

__all__ = ["RestReferences"]


class RestReferences:
    """Implements `headwater.catalog.model.references.TableReferences` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def state(self, identifier: Identifier) -> References:
        """The version of a table's references; storage reflects every change up to it."""
        path = table_path(identifier)
        return self._requests.get(
            ReferencesModel, None, *path, "references", of=identifier
        ).references()

    def commit_deletion(self, identifier: Identifier, deletion: Deletion) -> bool:
        """Decide a deletion, and delete its roots; False if references have changed."""
        body = CommitDeletionRequest.from_deletion(deletion)
        path = table_path(identifier)
        return self._requests.post(
            CommitDeletionResponse, body, *path, "deletions", of=identifier
        ).success

    def finish_deletion(self, identifier: Identifier, deletion_id: str) -> None:
        """Forget an open deletion whose files are gone; nothing happens when it is another's."""
        self._requests.delete(*table_path(identifier), "deletions", deletion_id, of=identifier)
