"""The rules of a chain table for overwrites of its two branches.

Source: ``ChainTableCommitPreCallback.java``, ``ChainTableOverwriteCommitCallback.java``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.rows.partition import partition_spec
from headwater.storage.scan.chain import chain_links
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.chain import Chain, chain_options
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import BranchPointers, SnapshotPointer, TableStorage

__all__ = ["ChainCommits", "written_in"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChainCommits:
    """Overwrites of a branch that a chain table is made of.

    Attributes:
        storage: The branch.
        chain: The table's chain.
        pointers: Decides which snapshots are the branches' latest.
        beginnings: Partitions of changes that need no whole ones before them if there are no
            others.
    """

    storage: TableStorage
    chain: Chain
    pointers: BranchPointers
    beginnings: frozenset[bytes] = frozenset()

    @staticmethod
    def of(
        storage: TableStorage, pointer: SnapshotPointer, beginnings: frozenset[bytes]
    ) -> ChainCommits | None:
        """The rules for a branch; None for one that no chain is made of."""
        chain = chain_options(storage.schema)
        branch = storage.layout.branch
        if chain is None or not isinstance(pointer, BranchPointers):
            return None
        if not (chain.is_snapshot_branch(branch) or chain.is_delta_branch(branch)):
            return None
        return ChainCommits(storage, chain, pointer, beginnings)

    def check(
        self, kind: CommitKind, base: Snapshot | None, changes: Sequence[ManifestEntry]
    ) -> None:
        """Refuse to drop whole partitions on which changes of later ones build.

        An overwrite in the delta branch drops the whole partitions of the same values. If it leaves
        no other changes there than its own, they begin the chains anew.

        Args:
            kind: The reason for the commit.
            base: The branch's snapshot that it follows.
            changes: The files it adds and takes away.

        Raises:
            Invalid: Later changes would have no whole partition to build on.
        """
        if kind is not CommitKind.OVERWRITE or not changes:
            return
        gone = {entry.partition for entry in changes}
        if self.chain.is_delta_branch(self.storage.layout.branch):
            latest = self.pointers.of_branch(self.chain.snapshot_branch).latest()
            whole, deltas = self._partitions(latest), self._partitions(base, changes)
        elif all(entry.kind is FileKind.DELETE for entry in changes):
            latest = self.pointers.of_branch(self.chain.delta_branch).latest()
            whole, deltas = self._partitions(base), self._partitions(latest)
        else:
            return
        dropped = gone & whole
        if not dropped:
            return
        kept = whole - dropped
        written = self.beginnings | written_in(changes)
        # Who replaces all changes there are begins the chains anew.
        made = [] if deltas <= written else sorted(deltas - kept)
        before = chain_links(self.storage, self.chain, made, whole, deltas)
        after = chain_links(self.storage, self.chain, made, kept, deltas)
        for one, other in zip(before, after, strict=True):
            if one.anchor in dropped and other.anchor is None:
                assert one.anchor is not None
                raise Invalid(
                    f"table {self.storage.name}: partition {self._name(one.anchor)} of branch "
                    f"{self.chain.snapshot_branch} cannot be dropped, because partition "
                    f"{self._name(one.partition)} of branch {self.chain.delta_branch} builds on it "
                    "and there is no earlier one; write a later whole partition, or drop the "
                    "changes, first"
                )

    def follow(self, snapshot: Snapshot, changes: Sequence[ManifestEntry]) -> frozenset[bytes]:
        """The whole partitions to drop after a commit, as the changes behind them are others."""
        if snapshot.commit_kind is not CommitKind.OVERWRITE:
            return frozenset()
        if not self.chain.is_delta_branch(self.storage.layout.branch):
            return frozenset()
        latest = self.pointers.of_branch(self.chain.snapshot_branch).latest()
        return frozenset({entry.partition for entry in changes} & self._partitions(latest))

    def whole_branch(self) -> tuple[TableStorage, SnapshotPointer]:
        """The snapshot branch, as of its latest snapshot.

        Raises:
            Invalid: It has no snapshot.
        """
        pointer = self.pointers.of_branch(self.chain.snapshot_branch)
        latest = pointer.latest()
        if latest is None:
            raise Invalid(f"table {self.storage.name}: its snapshot branch has no snapshot")
        return self.storage.on_branch(self.chain.snapshot_branch, latest.schema_id), pointer

    def tell(self, dropped: Collection[bytes], error: HeadwaterError) -> None:
        """Log that whole partitions are still there which an overwrite made wrong."""
        _LOG.warning(
            "table %s: the overwrite of branch %s is committed, and the partitions %s of branch %s "
            "could not be dropped: %s; drop them, because reads of the table still show them",
            self.storage.name,
            self.chain.delta_branch,
            ", ".join(map(self._name, sorted(dropped))),
            self.chain.snapshot_branch,
            error,
        )

    def _partitions(
        self, snapshot: Snapshot | None, changes: Sequence[ManifestEntry] = ()
    ) -> frozenset[bytes]:
        """The partitions that have files, after these changes."""
        present = [] if snapshot is None else live_entries(self.storage, snapshot)
        files = Counter(entry.partition for entry in present)
        for change in changes:
            files[change.partition] += 1 if change.kind is FileKind.ADD else -1
        return frozenset(partition for partition, count in files.items() if count > 0)

    def _name(self, partition: bytes) -> str:
        spec = partition_spec(self.storage, partition)
        return "/".join(f"{name}={value}" for name, value in spec)


def written_in(changes: Sequence[ManifestEntry]) -> frozenset[bytes]:
    """The partitions that changes add files to."""
    return frozenset(entry.partition for entry in changes if entry.kind is FileKind.ADD)
