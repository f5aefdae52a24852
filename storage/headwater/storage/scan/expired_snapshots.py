"""Snapshots that a reader wants and expiry has taken, or their changes alone.

Readers look for nothing before they read. When a file cannot be read, this is the place that tells
a snapshot that has expired meanwhile from damage.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from headwater.storage.errors import CorruptData, NotFound, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.scan.split import Split, WantedSnapshot
from headwater.storage.snapshot.files import read_snapshot_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = [
    "changes_expired",
    "expired",
    "is_complete",
    "lost_its_changes",
    "naming_expired",
    "naming_wanted",
    "rows_expired",
]


def expired(storage: TableStorage, snapshot_id: int, earliest: int | None = None) -> NotFound:
    """The error of a reader whose snapshot, or its changes, expired.

    Args:
        storage: The table.
        snapshot_id: The snapshot.
        earliest: The earliest one there is, if known.

    Raises:
        NotFound: The table was dropped (TABLE).
    """
    storage.check_dropped()
    there = "" if earliest is None else f" The earliest snapshot is {earliest}."
    return _not_found(
        snapshot_id,
        f"table {storage.name}: snapshot {snapshot_id} has expired, so its changes can no longer "
        f"be read.{there} Start again from a full read, or let snapshots or changelogs (option "
        "changelog.time-retained) live longer; a consumer "
        "holds back expiry as long as it does not expire itself",
    )


def _expired_under(storage: TableStorage, snapshot_id: int) -> NotFound:
    """The error of a reader whose snapshot expired while it was read."""
    return _not_found(
        snapshot_id,
        f"table {storage.name}: snapshot {snapshot_id} expired while it was read, and with it "
        "files that it needs; read the latest snapshot, or one that a tag keeps, and let "
        "'snapshot.time-retained' be longer than any read",
    )


def _not_found(snapshot_id: int, message: str) -> NotFound:
    return NotFound(message, resource_type=ResourceType.SNAPSHOT, resource_name=str(snapshot_id))


@contextmanager
def naming_expired(
    storage: TableStorage, *snapshots: Snapshot, changes: bool = False
) -> Generator[None]:
    """As `naming_wanted`, of snapshots, or their changes alone."""
    wanted = (WantedSnapshot.of(storage, each, changes=changes) for each in snapshots)
    with naming_wanted(storage, wanted):
        yield


@contextmanager
def naming_wanted(storage: TableStorage, snapshots: Iterable[WantedSnapshot]) -> Generator[None]:
    """Say which snapshot has expired, where that is why files of it cannot be read.

    Args:
        storage: The table.
        snapshots: The snapshots that are read; looked at only if a file cannot be.

    Raises:
        NotFound: A file cannot be read, and one of the snapshots has expired, or the table was
            dropped.
        CorruptData: A file cannot be read, though the snapshots are there.
        Unavailable: The table's directory cannot be reached.
    """
    with storage.reporting_drop():
        try:
            yield
        except CorruptData as error:
            for wanted in snapshots:
                if _has_expired(storage, wanted):
                    raise _error(storage, wanted) from error
            raise


def _error(storage: TableStorage, wanted: WantedSnapshot) -> NotFound:
    number = wanted.identity.id
    return expired(storage, number) if wanted.changes else _expired_under(storage, number)


def _has_expired(storage: TableStorage, wanted: WantedSnapshot) -> bool:
    layout = replace(storage.layout, branch=wanted.branch)
    there = replace(storage, layout=layout)
    if wanted.changes:
        return changes_expired(there, wanted.identity.id)
    if not rows_expired(there, wanted.identity.id):
        present = read_snapshot_file(there.files, layout, wanted.identity.id)
        if present is not None and present.identity.is_same_commit(wanted.identity):
            return False
    try:
        tags = list_tag_files(there.files, layout)
    except CorruptData:
        return False
    return not any(tag.snapshot.identity.is_same_commit(wanted.identity) for tag in tags)


def rows_expired(storage: TableStorage, snapshot_id: int) -> bool:
    """Whether a snapshot is gone; its file goes before any that it needs."""
    return not storage.files.exists(storage.layout.snapshot(snapshot_id))


def changes_expired(storage: TableStorage, snapshot_id: int) -> bool:
    """Whether the changes of a snapshot are gone."""
    layout = storage.layout
    paths = (layout.snapshot(snapshot_id), layout.changelog(snapshot_id))
    return not any(storage.files.exists(path) for path in paths)


def lost_its_changes(storage: TableStorage, snapshot: Snapshot) -> bool:
    """True of a branch's first snapshot if its changes expired with the table's own snapshot.

    The tag that the branch was made of kept the snapshot's rows alone. What is left of its
    changelog, if anything, can be read.
    """
    layout, files = storage.layout, storage.files
    if layout.branch == MAIN_BRANCH or files.exists(layout.snapshot(snapshot.id - 1)):
        return False
    table = replace(layout, branch=MAIN_BRANCH)
    paths = (table.snapshot(snapshot.id), table.changelog(snapshot.id))
    return not any(files.exists(path) for path in paths)


def is_complete(storage: TableStorage, splits: Iterable[Split]) -> bool:
    """Whether all files of splits are there."""
    return all(
        storage.files.exists(path)
        for split in splits
        for file in split.files
        for path in file.paths(split.directory)
    )
