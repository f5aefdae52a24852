"""Snapshots, and how a catalog commits them and goes back to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, RememberedCommits

__all__ = ["SnapshotInfo", "Snapshots"]


@dataclass(frozen=True)
class SnapshotInfo:
    """A table's latest snapshot with the sizes the catalog keeps for it."""

    snapshot: Snapshot
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0


class Snapshots(Protocol):
    """The history of one warehouse's tables."""

    def commit(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> CommitAnswer:
        """Try once to make `snapshot` the latest, if the latest still is the one with `base_uuid`.

        The same snapshot may be tried again, whatever the answer: one that was taken is taken.

        Raises:
            NotFound: No such table, or `table_id` is not its id.
        """
        ...

    def was_taken(self, identifier: Identifier, snapshot: Snapshot) -> bool | None:
        """Look once whether a snapshot was taken.

        Returns:
            True if it was, False if another has its id and None if none has yet.

        Raises:
            NotFound: No such table, or there are later snapshots and this id's is gone (SNAPSHOT).
            Unavailable: It cannot be known now.
        """
        ...

    def commits_of(self, identifier: Identifier, commit_user: str) -> RememberedCommits:
        """A user's commits in the table's history as far as the catalog remembers it."""
        ...

    def latest(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot; None for a table without one. Its file is on storage."""
        ...

    def get(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        ...

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that still exist, newest first."""
        ...

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; later ones and their tags go away."""
        ...

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Likewise, to the snapshot that a tag names."""
        ...

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; later ones go away.

        Raises:
            Invalid: There is no such schema.
            Conflict: A snapshot, tag or changelog still refers to a later one.
        """
        ...
