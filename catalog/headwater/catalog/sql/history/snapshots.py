"""Snapshots: commits, history and rollback, as one part of the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.history.commit import Commits, Offer
from headwater.catalog.sql.history.rollback import Rollbacks
from headwater.catalog.sql.history.schema_rollback import SchemaRollbacks
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics

__all__ = ["SqlSnapshots"]


class SqlSnapshots(Rollbacks, SchemaRollbacks):
    """Implements `headwater.catalog.model.snapshots.Snapshots`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Makes storage follow what is decided.

    Attributes:
        commits: Commits snapshots, of one table or of several at once.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        super().__init__(context, outbox)
        self.commits = Commits(context, outbox)

    def commit(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> CommitAnswer:
        """Try to make `snapshot` the latest, if the latest still is the one with `base_uuid`."""
        offer = Offer(identifier, table_id, snapshot, base_uuid, statistics)
        return self.commits.commit(offer)
