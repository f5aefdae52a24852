"""A table's snapshots as files: finding them, and deciding by them where no catalog does.

Source: ``SnapshotManager.java``, ``RenamingSnapshotCommit.java``, ``HintFileUtils.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from headwater.storage.errors import (
    CorruptData,
    HeadwaterError,
    NotFound,
    ResourceType,
    Unavailable,
)
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics

__all__ = [
    "FileSnapshotPointer",
    "expired_meanwhile",
    "hinted_earliest",
    "read_hint",
    "read_history",
    "read_snapshot_file",
    "snapshot_file_ids",
    "write_earliest_hint",
    "write_latest_hint",
]

_PREFIX = "snapshot-"


def read_snapshot_file(files: FileAccess, layout: TableLayout, snapshot_id: int) -> Snapshot | None:
    """A snapshot from its file; None when there is none.

    Raises:
        CorruptData: The file is not that snapshot.
    """
    path = layout.snapshot(snapshot_id)
    try:
        snapshot = Snapshot.from_json(files.read(path), path)
    except NotFound:
        return None
    check_id(snapshot, snapshot_id, path)
    return snapshot


def read_history(files: FileAccess, layout: TableLayout, first: int, last: int) -> list[Snapshot]:
    """The snapshots between two ids, both included, to keep what they need.

    Raises:
        CorruptData: One of them does not exist: it expired meanwhile or is lost.
    """
    history: list[Snapshot] = []
    for number in range(first, last + 1):
        snapshot = read_snapshot_file(files, layout, number)
        if snapshot is None:
            raise expired_meanwhile(layout.snapshot(number))
        history.append(snapshot)
    return history


def expired_meanwhile(path: str) -> CorruptData:
    """The error about a root that goes, or is gone, while what it needs is collected."""
    error = CorruptData(
        f"{path} does not exist, so it is not known what it needs: it expired meanwhile, or is lost"
    )
    error.__cause__ = NotFound(f"{path} does not exist")
    return error


def check_id(found: Snapshot, snapshot_id: int, path: str) -> None:
    """Check that a file holds the snapshot that it is named after; raises CorruptData."""
    if found.id != snapshot_id:
        raise CorruptData(f"{path} holds snapshot {found.id}, not {snapshot_id}")


def snapshot_file_ids(files: FileAccess, layout: TableLayout) -> list[int]:
    """The ids of the snapshots that have files, ascending."""
    names = (status.name for status in files.list(layout.snapshot_directory))
    numbers = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
    return sorted(int(number) for number in numbers if number.isdecimal())


def write_latest_hint(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Note the latest snapshot's id for readers in a hurry."""
    files.write(layout.latest_hint, str(snapshot_id).encode())


def write_earliest_hint(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Note the earliest snapshot's id for readers in a hurry."""
    files.write(layout.earliest_hint, str(snapshot_id).encode())


def read_hint(files: FileAccess, path: str) -> int | None:
    """The number that a hint gives; None when it is not there, or holds none."""
    try:
        text = files.read(path).decode(errors="replace").strip()
    except NotFound:
        return None
    return int(text) if text.isdecimal() else None


def hinted_earliest(files: FileAccess, layout: TableLayout) -> int | None:
    """The id of the earliest snapshot by its hint, at the same cost however many there are.

    None when there is no hint, or when it is not right: the snapshot is gone, or the one before it
    is there, as an expiry that was killed leaves it.
    """
    hinted = read_hint(files, layout.earliest_hint)
    if hinted is None or files.exists(layout.snapshot(hinted - 1)):
        return None
    return hinted if files.exists(layout.snapshot(hinted)) else None


@dataclass(frozen=True)
class FileSnapshotPointer:
    """Decides a table's snapshots by who first writes ``snapshot-<n>``, as Paimon does on files.

    For external tables, whose catalog does not decide. It pickles.

    Attributes:
        files: Access to the table's files; its `write_if_absent` decides.
        layout: Their locations.
    """

    files: FileAccess
    layout: TableLayout

    def of_branch(self, branch: str) -> FileSnapshotPointer:
        """The pointer of another branch of the table."""
        return replace(self, layout=replace(self.layout, branch=branch))

    def latest(self) -> Snapshot | None:
        """The latest snapshot; None for a table without snapshots."""
        hinted = read_hint(self.files, self.layout.latest_hint)
        if hinted is not None:
            snapshot = read_snapshot_file(self.files, self.layout, hinted)
            if snapshot is not None and not self.files.exists(self.layout.snapshot(hinted + 1)):
                return snapshot
        for number in reversed(snapshot_file_ids(self.files, self.layout)):
            snapshot = read_snapshot_file(self.files, self.layout, number)
            if snapshot is not None:
                return snapshot
        return None

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        """Make `snapshot` the latest if `base` still is; one whose file is there was taken."""
        try:
            now = self.latest()
        except Unavailable as error:
            return CommitAnswer.not_sent(error)
        if now is not None and snapshot.uuid is not None and now.uuid == snapshot.uuid:
            return CommitAnswer.of(True)
        if (now is None) != (base is None):
            return CommitAnswer.of(False)
        if now is not None and base is not None and not now.is_same_commit(base):
            return CommitAnswer.of(False)
        data = snapshot.to_json().encode()
        try:
            if not self.files.write_if_absent(self.layout.snapshot(snapshot.id), data):
                return CommitAnswer.of(False)
        except Unavailable as error:
            return CommitAnswer.unknown(error)
        # The file decided. A reader that finds an old hint, or none, looks for the files.
        with suppress(HeadwaterError):
            write_latest_hint(self.files, self.layout, snapshot.id)
            if base is None:
                write_earliest_hint(self.files, self.layout, snapshot.id)
        return CommitAnswer.of(True)

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        """By the file of its id; NotFound (SNAPSHOT) when that has expired."""
        latest = self.latest()
        if latest is None or latest.id < snapshot.id:
            return None
        present = read_snapshot_file(self.files, self.layout, snapshot.id)
        if present is None:
            raise NotFound(
                f"{self.layout.snapshot(snapshot.id)} has expired",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(snapshot.id),
            )
        return snapshot.is_same_commit(present)
