"""Snapshots of the past that a read may start from, found by their files."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress

from headwater.storage.errors import NotFound
from headwater.storage.options import ChangelogProducer
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["earlier_ids", "first_snapshot_since", "latest_compacted"]

_DELTA_COMMITS = "full-compaction.delta-commits"
# The commit identifier of a batch job.
_BATCH = 2**63 - 1


def earlier_ids(storage: TableStorage, latest: Snapshot | None) -> list[int]:
    """The ids of the snapshots that still exist, ascending, the latest among them."""
    if latest is None:
        return []
    ids = snapshot_file_ids(storage.files, storage.layout)
    return [*(number for number in ids if number < latest.id), latest.id]


def latest_compacted(storage: TableStorage, latest: Snapshot | None) -> Snapshot | None:
    """The latest snapshot that a compaction made, else the latest; None without snapshots.

    With ``changelog-producer=full-compaction`` or ``full-compaction.delta-commits`` only the
    compactions count whose commit identifiers that many commits divide
    (``CompactedStartingScanner.java``, ``FullCompactedStartingScanner.java``).
    """
    options = storage.schema.table_options
    full = options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    commits = options.full_compaction_delta_commits or 1

    def counts(snapshot: Snapshot) -> bool:
        if snapshot.commit_kind is not CommitKind.COMPACT:
            return False
        if not full and _DELTA_COMMITS not in options.raw:
            return True
        return snapshot.commit_identifier % commits == 0 or snapshot.commit_identifier == _BATCH

    for number in reversed(earlier_ids(storage, latest)):
        assert latest is not None
        # One that has expired since the listing is no choice any more.
        with suppress(NotFound):
            found = latest if number == latest.id else storage.snapshot(number)
            if counts(found):
                return found
    return latest


def first_snapshot_since(
    storage: TableStorage, latest: Snapshot | None, millis: int
) -> Snapshot | None:
    """The first snapshot at or after a moment, if one before it proves that it is the first.

    Args:
        storage: The table.
        latest: Its latest snapshot.
        millis: Milliseconds since the epoch.
    """
    if latest is None:
        return None
    ids = earlier_ids(storage, latest)

    def committed(number: int) -> int:
        return (latest if number == latest.id else storage.snapshot(number)).time_millis

    at = bisect_left(ids, millis, key=committed)
    if at in (0, len(ids)):
        return None
    return latest if ids[at] == latest.id else storage.snapshot(ids[at])
