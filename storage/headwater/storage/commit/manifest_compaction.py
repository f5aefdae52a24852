"""Compaction of manifests: the same files, listed once each and in the order of their partitions.

A plan that reads few partitions then reads few manifests. It changes no data: its commit is of kind
COMPACT and adds and deletes no file.

Source: ``FileStoreCommitImpl.compactManifest``, ``ManifestFileSorter.java``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from headwater.storage.capabilities import Operation
from headwater.storage.commit.fate import Patience, commit_snapshot
from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.commit.writer_version import writer_version
from headwater.storage.errors import Conflict, CorruptData, HeadwaterError, OutcomeUnknown
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.manifest import (
    ManifestFile,
    read_manifest_list,
    write_manifest_list,
    write_manifests,
)
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.invariants import check_invariants
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.types.data_type import Json
from headwater.storage.types.values import StorageValue

__all__ = ["compact_manifests", "unordered_manifests"]

# A little more than the size at which later commits would merge them again.
_ABOVE_TARGET = 1.1
_OF_ONE_COMMIT = ("changelogManifestList", "changelogManifestListSize", "changelogRecordCount")


def compact_manifests(storage: TableStorage, pointer: SnapshotPointer) -> Snapshot | None:
    """Write all manifests of the latest snapshot anew, sorted, as one commit.

    Args:
        storage: The table.
        pointer: Decides which snapshot is the latest.

    Returns:
        The snapshot made; None when the manifests are in order already.

    Raises:
        CorruptData: A manifest is missing or malformed; the message names it.
        Conflict: Other commits came first each time.
        OutcomeUnknown: The commit may have happened; its files are kept.
        Unsupported: The table has options that Headwater does not follow.
    """
    storage.refuse(Operation.COMPACT)
    user = storage.runtime.new_uuid()
    patience = Patience.with_others(storage)
    retries = 0
    while True:
        base = pointer.latest()
        if base is None:
            return None
        try:
            snapshot = _rewritten(storage, base, user)
        except CorruptData:
            if pointer.latest() == base:
                raise
            # The snapshot expired while it was being read.
            snapshot = None
        else:
            if snapshot is None:
                return None
            if _is_committed(storage, pointer, snapshot, base):
                return snapshot
        limit = storage.schema.table_options.commit_max_retries
        if retries >= limit or not patience.wait():
            raise Conflict(
                f"table {storage.name}: other commits came first {retries + 1} times in a row; try "
                "again later, or raise 'commit.max-retries' or 'commit.timeout'"
            )
        retries += 1


def unordered_manifests(storage: TableStorage, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, which a compaction writes anew; none when they are in order.

    Raises:
        CorruptData: A manifest list is missing or malformed; the message names it.
    """
    manifests = [
        *read_manifest_list(storage, snapshot.base_manifest_list),
        *read_manifest_list(storage, snapshot.delta_manifest_list),
    ]
    return [] if _are_in_order(storage, manifests) else manifests


def _is_committed(
    storage: TableStorage, pointer: SnapshotPointer, snapshot: Snapshot, base: Snapshot
) -> bool:
    try:
        taken = commit_snapshot(storage, pointer, snapshot, base, ())
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        _discard(storage, snapshot)
        raise
    if not taken:
        _discard(storage, snapshot)
    return taken


def _discard(storage: TableStorage, snapshot: Snapshot) -> None:
    """Delete the manifests of a commit that certainly did not happen."""
    # What cannot be deleted is an orphan that nothing refers to.
    with suppress(HeadwaterError):
        names = [
            manifest.file_name
            for manifest in read_manifest_list(storage, snapshot.base_manifest_list)
        ]
        for name in [*names, snapshot.base_manifest_list, snapshot.delta_manifest_list]:
            storage.files.delete(storage.layout.manifest(name))


def _rewritten(storage: TableStorage, base: Snapshot, user: str) -> Snapshot | None:
    """The snapshot with manifests in order; None when they are."""
    if not unordered_manifests(storage, base):
        return None
    entries = _sorted(storage, live_entries(storage, base, anew=True))
    base_list = write_manifest_list(
        storage, write_manifests(storage, entries, at_least=_ABOVE_TARGET)
    )
    delta_list = write_manifest_list(storage, [])
    fields: dict[str, Json] = {
        key: value for key, value in base.document.items() if key not in _OF_ONE_COMMIT
    }
    fields |= {
        "version": 3,
        "uuid": storage.runtime.new_uuid(),
        "id": base.id + 1,
        "baseManifestList": base_list[0],
        "baseManifestListSize": base_list[1],
        "deltaManifestList": delta_list[0],
        "deltaManifestListSize": delta_list[1],
        "commitUser": user,
        "writerVersion": writer_version(),
        "commitIdentifier": BATCH_IDENTIFIER,
        "commitKind": str(CommitKind.COMPACT),
        "timeMillis": max(storage.runtime.now_millis(), base.time_millis),
        "totalRecordCount": base.total_record_count,
        "deltaRecordCount": 0,
    }
    snapshot = Snapshot.from_document(fields)
    check_invariants(base, snapshot)
    return snapshot


def _sorted(storage: TableStorage, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Entries by partition and bucket; those of one bucket stay in their order."""
    types = [field.type for field in storage.schema.partition_fields]
    partitions = {entry.partition for entry in entries}
    keys = {each: _key(deserialize_row(each, types)) for each in partitions}
    places = {each: at for at, each in enumerate(sorted(keys, key=lambda each: keys[each]))}
    return sorted(entries, key=lambda entry: (places[entry.partition], entry.bucket))


def _key(values: Sequence[StorageValue]) -> tuple[tuple[bool, StorageValue], ...]:
    return tuple((value is not None, 0 if value is None else value) for value in values)


def _are_in_order(storage: TableStorage, manifests: Sequence[ManifestFile]) -> bool:
    """True if no manifest deletes files, none but the last is small, and partitions follow on."""
    target = storage.schema.table_options.manifest_target_file_size
    if any(manifest.num_deleted_files for manifest in manifests):
        return False
    size = sum(manifest.file_size for manifest in manifests)
    if len(manifests) > max(1, math.ceil(size / target)):
        return False
    types = [field.type for field in storage.schema.partition_fields]
    if not types:
        return True
    ranges = [
        (
            _key(deserialize_row(manifest.partition_stats.min_values, types)),
            _key(deserialize_row(manifest.partition_stats.max_values, types)),
            bool(manifest.partition_stats.null_counts[0]),
        )
        for manifest in manifests
    ]
    # Each column has a range of its own: of several columns the first tells. Nulls come first.
    return all(
        last[:1] <= first[:1] and not has_nulls
        for (_, last, _), (first, _, has_nulls) in pairwise(ranges)
    )
