"""A list of snapshots as people see it."""

from __future__ import annotations

from headwater.catalog.table.display import Display, time_text
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["Snapshots"]


class Snapshots(list[Snapshot]):
    """Snapshots, newest first, that show themselves as a table."""

    def __repr__(self) -> str:
        return str(self._display())

    def _repr_html_(self) -> str:
        """The form that notebooks show."""
        return self._display().html()

    def _display(self) -> Display:
        columns = ("id", "committed at", "kind", "rows added", "rows in all", "by")
        rows = [
            (
                snapshot.id,
                time_text(snapshot.time_millis),
                snapshot.commit_kind,
                snapshot.delta_record_count,
                snapshot.total_record_count,
                snapshot.commit_user,
            )
            for snapshot in self
        ]
        return Display(f"{len(self)} snapshots", {}, columns, rows)
