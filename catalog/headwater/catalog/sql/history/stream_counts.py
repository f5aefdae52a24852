"""Running totals of the rows given to streams, from which a consumer's backlog is computed.

Every snapshot's row keeps the running totals of its branch, so that a lag is the difference of two
rows, however far behind a consumer is.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.sql.database.models import SnapshotRow
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot

__all__ = ["COUNT_COLUMNS", "StreamCounts"]

COUNT_COLUMNS = (
    SnapshotRow.appended_count,
    SnapshotRow.changelog_count,
    SnapshotRow.counted_since,
)


@dataclass(frozen=True)
class StreamCounts:
    """Running totals as of a snapshot; two of them compare only if they began at the same one.

    Attributes:
        appended: Rows that appends added: what a stream reads of a table without changelog files.
        changes: Rows in changelog files: what it reads of the others.
        since: The snapshot that the totals begin with.
    """

    appended: int
    changes: int
    since: int

    @staticmethod
    def of(appended: int | None, changes: int | None, since: int | None) -> StreamCounts | None:
        """From `COUNT_COLUMNS`; None if they were not counted."""
        if appended is None or changes is None or since is None:
            return None
        return StreamCounts(appended, changes, since)

    @staticmethod
    def following(before: StreamCounts | None, snapshot: Snapshot) -> StreamCounts:
        """The totals with a snapshot that comes next."""
        appended, changes = _given_by(snapshot)
        if before is None:
            return StreamCounts(appended, changes, snapshot.id)
        return StreamCounts(before.appended + appended, before.changes + changes, before.since)

    def before(self, snapshot: Snapshot) -> StreamCounts:
        """The totals without the snapshot that these are as of."""
        appended, changes = _given_by(snapshot)
        return StreamCounts(self.appended - appended, self.changes - changes, self.since)

    def columns(self) -> dict[str, int]:
        """The columns of a snapshot's row."""
        return {
            "appended_count": self.appended,
            "changelog_count": self.changes,
            "counted_since": self.since,
        }


def _given_by(snapshot: Snapshot) -> tuple[int, int]:
    # A compaction changes no rows, and streams pass over what an overwrite writes.
    appended = snapshot.delta_record_count if snapshot.commit_kind is CommitKind.APPEND else 0
    return max(0, appended), max(0, snapshot.changelog_record_count or 0)
