"""Checks that a commit still fits the table that it is about to change.

Each check names what must hold and raises Conflict when another commit broke it. Source:
``ConflictDetection.java``, ``PrimaryKeyConflictDetection.java``.
"""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from headwater.storage.errors import Conflict, CorruptData, NotFound, Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.formats.blob_file import BLOB_SUFFIX
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileKind, ManifestEntry
from headwater.storage.manifest.key_range import key_range
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.option_changes import options_at
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.vector_columns import is_vector_file
from headwater.storage.snapshot.history import is_in_history
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.bucket_state import describe_partition

__all__ = [
    "bucket_counts_stay",
    "buckets_are_unchanged",
    "changed_files_fit",
    "changes_between",
    "columns_stay",
    "files_are_new",
    "history_stays",
    "key_ranges_do_not_overlap",
    "keys_stay",
    "schema_still_fits",
]


def schema_still_fits(storage: TableStorage, latest: TableSchema) -> None:
    """Rows were spread over the buckets that the table still has.

    Raises:
        Conflict: The number of buckets, the bucket key or the bucket function was changed
            meanwhile.
    """
    if latest.id <= storage.schema.id:
        return
    # Of renamed columns the present names are compared.
    options = options_at(storage.schema, latest)
    for option in ("bucket", "bucket-key", "bucket-function.type"):
        was, now = options.get(option), latest.options.get(option)
        if was != now:
            raise Conflict(
                f"table {storage.name}: option '{option}' changed from {was} to {now} since the "
                "rows were written; load the table again and write them again"
            )


def history_stays(storage: TableStorage, one: SnapshotIdentity, latest: Snapshot | None) -> None:
    """The snapshot that a change was planned on is still part of the table's history.

    One that has expired passes: it cannot be told apart.

    Raises:
        Conflict: The table was rolled back, or its branch replaced.
    """
    if is_in_history(storage, one, latest) is False:
        raise Conflict(
            f"table {storage.name}: snapshot {one.id}, which this change builds on, is now no "
            "longer part of the table's history: it was rolled back or replaced meanwhile; read "
            "the table again and repeat the operation"
        )


def changes_between(
    storage: TableStorage, since: SnapshotIdentity, until: Snapshot, *, inclusive: bool = False
) -> list[tuple[Snapshot, list[ManifestEntry]]] | None:
    """The entries that each snapshot after `since`, up to `until`, changed, oldest first.

    Args:
        storage: The table.
        since: The snapshot before the first one.
        until: The last one.
        inclusive: Whether `since` is the first one itself.

    Returns:
        None when one of the snapshots is gone, `since` included, or when `since` is not part of
        the history of `until`.
    """
    if not is_in_history(storage, since, until):
        return None
    changes: list[tuple[Snapshot, list[ManifestEntry]]] = []
    try:
        for snapshot_id in range(since.id + (not inclusive), until.id + 1):
            snapshot = until if snapshot_id == until.id else storage.snapshot(snapshot_id)
            manifests = read_manifest_list(storage, snapshot.delta_manifest_list)
            entries = [
                entry
                for manifest in manifests
                for entry in read_manifest(storage, manifest.file_name, expected=manifest)
            ]
            changes.append((snapshot, entries))
    except (NotFound, CorruptData):
        # Expiry removes a snapshot's manifests before the snapshot itself.
        return None
    return changes


def bucket_counts_stay(
    storage: TableStorage, present: Iterable[ManifestEntry], delta: Sequence[ManifestEntry]
) -> None:
    """A partition keeps its number of buckets.

    Raises:
        Conflict: A file is added to a partition whose other files lie in more or fewer buckets.
    """
    totals: dict[bytes, int] = {}
    added = [entry for entry in delta if entry.kind is FileKind.ADD]
    partitions = {entry.partition for entry in added}
    for entry in itertools.chain(present, added):
        if entry.partition not in partitions or entry.total_buckets <= 0:
            continue
        total = totals.setdefault(entry.partition, entry.total_buckets)
        if total != entry.total_buckets:
            raise Conflict(
                f"table {storage.name}: {describe_partition(storage, entry.partition)} has files "
                f"in {total} and in {entry.total_buckets} buckets; write the rows again, or "
                "overwrite the partition"
            )


def files_are_new(
    storage: TableStorage, present: Iterable[ManifestEntry], delta: Iterable[ManifestEntry]
) -> None:
    """Files to be added are not there yet: nobody commits the same messages twice.

    Raises:
        Conflict: One is.
    """
    names = {entry.file.file_name for entry in present}
    for entry in delta:
        if entry.file.file_name in names:
            raise Conflict(
                f"table {storage.name}: file {entry.file.file_name} of bucket {entry.bucket} was "
                "committed already"
            )
        names.add(entry.file.file_name)


def changed_files_fit(
    storage: TableStorage, present: Sequence[ManifestEntry], delta: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """Files to be deleted are there, files to be added are not.

    Returns:
        The files that will be there.

    Raises:
        Conflict: A file was deleted or added by another commit meanwhile.
    """
    live = {entry.identity: entry for entry in present}
    for entry in delta:
        there = entry.identity in live
        if there != (entry.kind is FileKind.DELETE):
            done = "added already" if there else "deleted meanwhile"
            raise Conflict(
                f"table {storage.name}: file {entry.file.file_name} of bucket {entry.bucket} was "
                f"{done} by another commit; read the table again and repeat the operation"
            )
        if there:
            del live[entry.identity]
        else:
            live[entry.identity] = entry
    return list(live.values())


def row_ranges_are_whole(
    storage: TableStorage, after: Iterable[ManifestEntry], delta: Iterable[ManifestEntry]
) -> None:
    """Files of the same rows, with data evolution, have all the same rows.

    Source: ``ConflictDetection.checkRowIdRangeConflicts``.

    Raises:
        Conflict: Another commit gave columns of rows a file that this one joins with others.
    """
    if not storage.schema.table_options.evolves_columns:
        return
    touched = {entry.partition for entry in delta if entry.kind is FileKind.DELETE}
    ranges: dict[tuple[bytes, int], set[tuple[int, int]]] = {}
    for entry in after:
        name = entry.file.file_name
        if entry.partition in touched and not _is_part(name):
            ranges.setdefault((entry.partition, entry.bucket), set()).add(_ids(entry.file))
    for (partition, _), found in ranges.items():
        found.discard((0, 0))
        for (_, end), (start, _) in itertools.pairwise(sorted(found)):
            if start < end:
                raise Conflict(
                    f"table {storage.name}: another commit gave columns of the rows from id "
                    f"{start} on in {describe_partition(storage, partition)} a file, or joined "
                    "such files, meanwhile; read the table again and repeat the operation"
                )


def key_ranges_do_not_overlap(
    storage: TableStorage, after: Iterable[ManifestEntry], delta: Iterable[ManifestEntry]
) -> None:
    """The files of one level above 0 are one sorted run, where rows lie in the order of keys.

    Raises:
        Conflict: Another commit added a file with the same keys to the same level.
    """
    if not storage.schema.primary_keys or storage.schema.table_options.overrides_key_order:
        # Of two commits that bring a key there, both take it from the same file of level 0.
        return
    touched = {
        (entry.partition, entry.bucket, entry.file.level)
        for entry in delta
        if entry.kind is FileKind.ADD and entry.file.level > 0
    }
    levels: dict[tuple[bytes, int, int], list[DataFile]] = {}
    for entry in after:
        level = (entry.partition, entry.bucket, entry.file.level)
        if level in touched:
            levels.setdefault(level, []).append(entry.file)
    for (partition, bucket, number), files in levels.items():
        ranges = sorted((*key_range(storage, file), file.file_name) for file in files)
        for (_, last, one), (first, _, other) in itertools.pairwise(ranges):
            if last >= first:
                raise Conflict(
                    f"table {storage.name}: files {one} and {other} hold the same keys on level "
                    f"{number} of bucket {bucket} in {describe_partition(storage, partition)}: "
                    "another commit compacted it meanwhile; repeat the operation"
                )


def keys_stay(
    storage: TableStorage, changes: Sequence[tuple[Snapshot, Sequence[ManifestEntry]]]
) -> None:
    """No other commit may have brought a key to another partition, or given it its first one.

    Compactions leave each key where it is.

    Raises:
        Conflict: One may have.
    """
    for snapshot, entries in changes:
        if snapshot.commit_kind is not CommitKind.COMPACT and entries:
            raise Conflict(
                f"table {storage.name}: snapshot {snapshot.id} changed rows after the partitions "
                "of the written keys were looked up, and may have moved one of them; write the "
                "rows again"
            )


def _is_part(name: str) -> bool:
    """Whether a file may hold some of the rows of the files of other columns."""
    return name.endswith(BLOB_SUFFIX) or is_vector_file(name)


def columns_stay(
    storage: TableStorage,
    changes: Sequence[tuple[Snapshot, Sequence[ManifestEntry]]],
    base: Snapshot,
    delta: Sequence[ManifestEntry],
) -> None:
    """Rows whose columns get a file are in files of the same rows, and have the same values there.

    Other columns may have changed, and a compaction changes no values. Source:
    ``RowIdColumnConflictChecker.java``, ``ConflictDetection.checkRowIdExistence``.

    Args:
        storage: The table.
        changes: The entries of each snapshot since the rows were read.
        base: The latest snapshot.
        delta: The commit's entries, before new rows have ids.

    Raises:
        Conflict: Another commit changed one of the columns, or the files.
    """
    own = [
        entry
        for entry in delta
        if entry.file.first_row_id is not None and entry.kind is FileKind.ADD
    ]
    places: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for entry in own:
        for column in _columns(storage, entry.file):
            places.setdefault((entry.partition, column), []).append(_ids(entry.file))
    for starts in places.values():
        starts.sort()
    again = "read the table again and repeat the operation"
    for snapshot, entries in changes:
        if snapshot.commit_kind is CommitKind.COMPACT:
            continue
        for entry in entries:
            for column in _columns(storage, entry.file):
                if _overlap(places.get((entry.partition, column), ()), *_ids(entry.file)):
                    raise Conflict(
                        f"table {storage.name}: snapshot {snapshot.id} changed the same columns of "
                        f"the rows from id {entry.file.first_row_id} on in "
                        f"{describe_partition(storage, entry.partition)}; {again}"
                    )
    partitions = list({entry.partition for entry in delta})
    # BLOBs and vectors in files of their own may stay where they are while other columns move.
    present = [
        entry
        for entry in live_entries(storage, base, partitions=partitions)
        if not _is_part(entry.file.file_name)
    ]
    whole = {_rows(entry) for entry in present}
    ranges: dict[bytes, list[tuple[int, int]]] = {}
    for partition, first, count in whole:
        ranges.setdefault(partition, []).append((first or 0, (first or 0) + count))
    for starts in ranges.values():
        starts.sort()
    for entry in own:
        file = entry.file
        start, end = _ids(file)
        # A file of a BLOB column may hold some of the rows of the files of other columns.
        is_blob = _is_part(file.file_name)
        known = ranges.get(entry.partition, [])
        at = bisect_right(known, (start, sys.maxsize)) - 1
        if not (
            _rows(entry) in whole
            or (is_blob and at >= 0 and known[at][0] <= start and end <= known[at][1])
        ):
            raise Conflict(
                f"table {storage.name}: the rows from id {file.first_row_id} on are no longer in "
                f"files of the same {file.row_count} rows; {again}"
            )


def indexed_columns_stay(
    storage: TableStorage, base: Snapshot, delta: Sequence[ManifestEntry]
) -> None:
    """No column of rows gets new values that an index of row ids knows the old ones of.

    Source: ``MergeIntoPaimonDataEvolutionTable.checkUpdateResult``.

    Args:
        storage: The table.
        base: The latest snapshot.
        delta: The commit's entries, before new rows have ids.

    Raises:
        Unsupported: There is such an index, and the table's options do not let it be.
    """
    if base.index_manifest is None or storage.schema.table_options.lets_indexes_be:
        return
    changed: dict[bytes, set[int]] = {}
    for entry in delta:
        if entry.kind is FileKind.ADD and entry.file.first_row_id is not None:
            changed.setdefault(entry.partition, set()).update(_columns(storage, entry.file))
    for index in index_entries(storage, base):
        covered = index.index_file.global_index
        if covered is None:
            continue
        wrong = changed.get(index.partition, set()) & {
            covered.field_id,
            *(covered.extra_field_ids or ()),
        }
        for field in storage.schema.fields:
            if field.id in wrong:
                raise Unsupported(
                    f"table {storage.name}: column '{field.name}' has an index of type "
                    f"{index.index_file.index_type}, which would tell its old values, and which "
                    "Headwater does not write; drop the index with the engine that made it, or set "
                    "'global-index.column-update-action' = 'IGNORE'"
                )


def _ids(file: DataFile) -> tuple[int, int]:
    """The first id of a file's rows, and the one behind the last; none if they have none."""
    first = file.first_row_id
    return (0, 0) if first is None else (first, first + file.row_count)


def _overlap(ranges: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of some ranges, sorted and without a common id, has an id from start to end."""
    at = bisect_left(ranges, (end, 0)) - 1
    return start < end and at >= 0 and ranges[at][1] > start


def _rows(entry: ManifestEntry) -> tuple[bytes, int | None, int]:
    """The rows that a file holds columns of."""
    return entry.partition, entry.file.first_row_id, entry.file.row_count


def _columns(storage: TableStorage, file: DataFile) -> Iterable[int]:
    """The field ids of a file's columns."""
    fields = storage.schema_by_id(file.schema_id).fields
    return (f.id for f in fields if file.write_cols is None or f.name in file.write_cols)


def buckets_are_unchanged(
    storage: TableStorage,
    changes: Sequence[tuple[Snapshot, Sequence[ManifestEntry]]],
    buckets: Collection[Bucket],
) -> None:
    """No other commit changed the rows of the buckets that this one changes.

    A compaction changes files, not rows, but for those that waited for it (``bucket`` = -2): they
    become part of the table, on level 0 of their buckets.

    Raises:
        Conflict: One did.
    """
    keyed = bool(storage.schema.primary_keys)
    own = {bucket for bucket in buckets if bucket[1] != POSTPONE_BUCKET}
    for snapshot, entries in changes:
        for entry in entries:
            if snapshot.commit_kind is CommitKind.COMPACT and not (
                keyed and entry.kind is FileKind.ADD and entry.file.level == 0
            ):
                continue
            if (entry.partition, entry.bucket) in own:
                raise Conflict(
                    f"table {storage.name}: snapshot {snapshot.id} changed bucket {entry.bucket} "
                    f"in {describe_partition(storage, entry.partition)} after the rows were read; "
                    "read the table again and repeat the operation"
                )
