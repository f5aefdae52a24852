"""Checks of a whole commit against the snapshot that it is about to follow."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.commit.attempt import Attempt
from headwater.storage.commit.checks import (
    bucket_counts_stay,
    buckets_are_unchanged,
    changed_files_fit,
    changes_between,
    columns_stay,
    files_are_new,
    history_stays,
    indexed_columns_stay,
    key_ranges_do_not_overlap,
    keys_stay,
    row_ranges_are_whole,
    schema_still_fits,
)
from headwater.storage.errors import Conflict
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.history import is_in_history
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage

__all__ = ["check_fit", "latest_schema"]


def latest_schema(storage: TableStorage, base: Snapshot | None) -> TableSchema:
    """The newest version of the schema, whether a snapshot or a file names it."""
    number = max(storage.schema.id, 0 if base is None else base.schema_id)
    while storage.files.exists(storage.layout.schema(number + 1)):
        number += 1
    return storage.schema_by_id(number)


def check_fit(
    storage: TableStorage,
    attempt: Attempt,
    base: Snapshot | None,
    delta: Sequence[ManifestEntry],
    schema: TableSchema,
) -> Sequence[ManifestEntry]:
    """Check that a commit fits; files of others that its writers may not have seen.

    Args:
        storage: The table.
        attempt: The commit.
        base: The latest snapshot.
        delta: The changes of the commit on top of it.
        schema: The schema in force.

    Raises:
        Conflict: Another commit changed what this one builds on, or a rollback took it away.
        Invalid: The changes contradict themselves.
    """
    for base_snapshot in attempt.builds_on:
        history_stays(storage, base_snapshot, base)
    schema_still_fits(storage, schema)
    attempt.indexes.check(base, delta)
    if base is None:
        changed_files_fit(storage, (), delta)
        bucket_counts_stay(storage, (), delta)
        return ()
    if attempt.unchanged_since is not None:
        changes = _changes_since(storage, attempt.unchanged_since, base)
        buckets = {(entry.partition, entry.bucket) for entry in delta}
        buckets_are_unchanged(storage, changes, buckets | attempt.indexes.hashed_buckets)
    for since in {message.searched_snapshot for message in attempt.messages}:
        if since is not None:
            keys_stay(storage, _changes_since(storage, since, base))
    for since in {message.columns_of for message in attempt.messages}:
        if since is not None:
            columns_stay(storage, _changes_since(storage, since, base), base, delta)
            indexed_columns_stay(storage, base, delta)
    if any(entry.kind is FileKind.DELETE for entry in delta):
        partitions = list({entry.partition for entry in delta})
        present = live_entries(storage, base, partitions=partitions)
        after = changed_files_fit(storage, present, delta)
        key_ranges_do_not_overlap(storage, after, delta)
        row_ranges_are_whole(storage, after, delta)
        if attempt.kind is not CommitKind.OVERWRITE:
            bucket_counts_stay(storage, present, delta)
        return ()
    unseen = _unseen(storage, attempt, base, delta)
    files_are_new(storage, unseen, delta)
    if attempt.kind is not CommitKind.OVERWRITE:
        bucket_counts_stay(storage, unseen, delta)
    return unseen


def _changes_since(
    storage: TableStorage, since: SnapshotIdentity, base: Snapshot
) -> list[tuple[Snapshot, list[ManifestEntry]]]:
    changes = changes_between(storage, since, base)
    if changes is None:
        raise Conflict(
            f"table {storage.name}: snapshot {since.id}, or one after it, has expired since the "
            "rows were read; read the table again and repeat the operation"
        )
    return changes


def _unseen(
    storage: TableStorage, attempt: Attempt, base: Snapshot, delta: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """Files in the changed partitions that came after the writers looked."""
    # Of a history that was rolled back the writers may have seen anything.
    seen = attempt.checked
    if seen and all(is_in_history(storage, one, base) for one in seen[1:]):
        changes = changes_between(storage, seen[0], base)
        if changes is not None:
            return [e for _, entries in changes for e in entries if e.kind is FileKind.ADD]
    partitions = list({entry.partition for entry in delta})
    return live_entries(storage, base, partitions=partitions) if partitions else []
