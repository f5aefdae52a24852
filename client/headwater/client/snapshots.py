"""Snapshots behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.catalog.wire.history import (
    CommitTableRequest,
    GetLastCommitResponse,
    GetTableSnapshotResponse,
    GetVersionSnapshotResponse,
    ListSnapshotsResponse,
    PartitionStatisticsModel,
    RollbackSchemaRequest,
    RollbackTableRequest,
    SnapshotInstant,
    TagInstant,
    snapshot_from_listing,
)
from headwater.catalog.wire.tables import (
    Empty,
)
from headwater.client.commit_answer import commit_answer
from headwater.client.requests import (
    Requests,
    paging,
    table_headers,
    table_path,
)
from headwater.storage.errors import (
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
    Unsupported,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, RememberedCommits

__all__ = ["RestSnapshots"]


class RestSnapshots:
    """Implements `headwater.catalog.model.snapshots.Snapshots` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def commit(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> CommitAnswer:
        """Try once to make `snapshot` the latest, if the latest still is the one with `base_uuid`.

        Raises:
            NotFound: No such table, or `table_id` is not its id.
            HeadwaterError: The server refused it.
        """
        try:
            connected = self._requests.connected(is_once=True)
        except Unavailable as error:
            return CommitAnswer.not_sent(error)
        body = CommitTableRequest(
            table_id=table_id,
            base_snapshot_uuid=base_uuid,
            snapshot=dict(snapshot.document),
            statistics=[PartitionStatisticsModel.of(item) for item in statistics],
        )
        path = self._requests.path(*table_path(identifier), "commit")
        try:
            headers = table_headers(identifier)
            answer = connected.transport.send("POST", path, body=body, headers=headers)
        except OutcomeUnknown as error:
            return CommitAnswer.unknown(error)
        except Unavailable as error:
            return CommitAnswer.not_sent(error)
        return commit_answer(answer)

    def was_taken(self, identifier: Identifier, snapshot: Snapshot) -> bool | None:
        """Look once whether a snapshot was taken; None when no snapshot has its id yet."""
        path = table_path(identifier)
        try:
            latest = self._requests.get_once(
                GetTableSnapshotResponse, *path, "snapshot", of=identifier
            )
        except NotFound as error:
            if error.resource_type is ResourceType.SNAPSHOT:
                return None
            raise
        present = latest.snapshot.info().snapshot
        if present.id < snapshot.id:
            return None
        if present.id > snapshot.id:
            number = str(snapshot.id)
            older = self._requests.get_once(
                GetVersionSnapshotResponse, *path, "snapshots", number, of=identifier
            )
            present = Snapshot.from_document(older.snapshot, f"snapshot {number} of {identifier}")
        return snapshot.is_same_commit(present)

    def commits_of(self, identifier: Identifier, commit_user: str) -> RememberedCommits:
        """A user's commits; nothing is known of them by servers that do not tell."""
        path = (*table_path(identifier), "commits", commit_user)
        try:
            return self._requests.get(
                GetLastCommitResponse, None, *path, of=identifier
            ).remembered()
        except (NotFound, Unsupported) as error:
            if isinstance(error, NotFound) and error.resource_type is ResourceType.TABLE:
                raise
            return RememberedCommits()

    def latest(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot; None for a table without one. Its file is on storage."""
        try:
            answer = self._requests.get(
                GetTableSnapshotResponse, None, *table_path(identifier), "snapshot", of=identifier
            )
        except NotFound as error:
            if error.resource_type is ResourceType.SNAPSHOT:
                return None
            raise
        return answer.snapshot.info()

    def get(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        answer = self._requests.get(
            GetVersionSnapshotResponse,
            None,
            *table_path(identifier),
            "snapshots",
            version,
            of=identifier,
        )
        return Snapshot.from_document(answer.snapshot, f"snapshot {version} of {identifier}")

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that still exist, newest first."""
        params = paging(max_results, page_token)
        answer = self._requests.get(
            ListSnapshotsResponse, params, *table_path(identifier), "snapshots", of=identifier
        )
        return answer.page().map(snapshot_from_listing)

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; later ones and their tags go away."""
        body = RollbackTableRequest(
            instant=SnapshotInstant(snapshot_id=snapshot_id), from_snapshot=from_snapshot
        )
        self._requests.post(Empty, body, *table_path(identifier), "rollback", of=identifier)

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Likewise, to the snapshot that a tag names."""
        body = RollbackTableRequest(instant=TagInstant(tag_name=tag), from_snapshot=from_snapshot)
        self._requests.post(Empty, body, *table_path(identifier), "rollback", of=identifier)

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; Invalid, Conflict."""
        body = RollbackSchemaRequest(schema_id=schema_id)
        self._requests.post(Empty, body, *table_path(identifier), "rollback-schema", of=identifier)
