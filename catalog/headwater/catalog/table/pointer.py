"""The catalog as the authority on a table's snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, RememberedCommits

__all__ = ["CatalogPointer"]


@dataclass(frozen=True)
class CatalogPointer:
    """Lets the catalog decide which snapshot of a table is the latest.

    Attributes:
        catalog: The catalog, which decides.
        identifier: The table.
        table_id: Its id, so that a table of the same name made later is not mistaken for it.
    """

    catalog: Catalog
    identifier: Identifier
    table_id: str

    def latest(self) -> Snapshot | None:
        """The latest snapshot; None for a table without snapshots."""
        latest = self.catalog.snapshots.latest(self.identifier)
        return None if latest is None else latest.snapshot

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        """Try once to make `snapshot` the latest, if `base` still is."""
        base_uuid = None if base is None else base.uuid
        # The caller repeats it.
        snapshots = self.catalog.patient(0).snapshots
        return snapshots.commit(self.identifier, self.table_id, snapshot, base_uuid, statistics)

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        """Look once whether a snapshot was taken; None when no snapshot has its id yet."""
        return self.catalog.patient(0).snapshots.was_taken(self.identifier, snapshot)

    def of_branch(self, branch: str) -> CatalogPointer:
        """The pointer of another branch of the table."""
        return replace(self, identifier=branch_of(self.identifier, branch))

    def commits_of(self, commit_user: str) -> RememberedCommits:
        """A user's commits, also those whose snapshots have expired."""
        return self.catalog.snapshots.commits_of(self.identifier, commit_user)
