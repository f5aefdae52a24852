"""A table's history: the snapshots that lead to its latest one."""

from __future__ import annotations

from headwater.storage.errors import NotFound
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage

__all__ = ["is_in_history"]


def is_in_history(
    storage: TableStorage, one: SnapshotIdentity, latest: Snapshot | None
) -> bool | None:
    """True if a snapshot is part of the history that ends with the latest one.

    Args:
        storage: The table.
        one: The snapshot.
        latest: The latest snapshot.

    Returns:
        False when the table was rolled back: its id is free, or another's. None when it has
        expired, so that this cannot be told.
    """
    if one.id == 0:
        return True
    if latest is None or one.id > latest.id:
        return False
    try:
        present = latest if one.id == latest.id else storage.snapshot(one.id)
    except NotFound:
        return None
    return present.identity.is_same_commit(one)
