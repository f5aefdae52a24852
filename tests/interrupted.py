"""Commits that others come before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import (
    BranchPointers,
    CommitAnswer,
    PartitionStatistics,
    SnapshotPointer,
)


@dataclass
class _Passing:
    """A pointer that passes everything on."""

    inner: SnapshotPointer

    def latest(self) -> Snapshot | None:
        return self.inner.latest()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.inner.was_taken(snapshot)

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        return self.inner.commit(snapshot, base, statistics)


@dataclass
class Racing(_Passing):
    """A pointer before whose next commit something else happens."""

    before: Callable[[], object] | None
    offered: int = 0

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.offered += 1
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().commit(snapshot, base, statistics)


@dataclass
class Overtaken(_Passing):
    """A pointer; at once after it has told the latest snapshot so often, something else happens."""

    after: Callable[[], object]
    looks: int = 1

    def latest(self) -> Snapshot | None:
        found = super().latest()
        self.looks -= 1
        if self.looks == 0:
            self.after()
        return found


@dataclass
class WatchedBranches(_Passing):
    """The pointers of a table's branches, and a watcher told of each use before it happens."""

    watcher: Callable[[str], object]
    branch: str = "main"

    def of_branch(self, branch: str) -> SnapshotPointer:
        assert isinstance(self.inner, BranchPointers)
        return WatchedBranches(self.inner.of_branch(branch), self.watcher, branch)

    def latest(self) -> Snapshot | None:
        self.watcher(f"look at {self.branch}")
        return super().latest()

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.watcher(f"commit to {self.branch}")
        return super().commit(snapshot, base, statistics)
