"""Snapshots that a reader wants and expiry has taken, or their changes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["expired", "is_complete", "lost_its_changes"]


def expired(storage: TableStorage, snapshot_id: int, earliest: int | None = None) -> NotFound:
    """The error of a reader whose snapshot, or its changes, expired.

    Args:
        storage: The table.
        snapshot_id: The snapshot.
        earliest: The earliest one there is, if known.
    """
    there = "" if earliest is None else f" The earliest snapshot is {earliest}."
    return NotFound(
        f"table {storage.name}: snapshot {snapshot_id} has expired, so its changes can no longer "
        f"be read.{there} Start again from a full read, or let snapshots or changelogs (option "
        "changelog.time-retained) live longer; a consumer "
        "holds back expiry as long as it does not expire itself",
        resource_type=ResourceType.SNAPSHOT,
        resource_name=str(snapshot_id),
    )


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
    """True if all files of splits are there."""
    return all(
        storage.files.exists(path)
        for split in splits
        for file in split.files
        for path in file.paths(split.directory)
    )
