"""Keep a table's manifests few: merge small ones, and drop what was added and deleted again.

Source: ``ManifestFileMerger.java``, ``ManifestFileLegacyMerger.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.storage.manifest.data_file import FileKind
from headwater.storage.manifest.entries import Entries, left_entries, merge_entries
from headwater.storage.manifest.manifest import ManifestFile, read_entries, write_manifests
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["merge_manifests"]


def merge_manifests(storage: TableStorage, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """The manifests of a new base list; those that are not among `manifests` were written now.

    When manifests that are small or hold deletes come to
    ``manifest.full-compaction-threshold-size``, all deletes are applied; else neighbours are
    merged up to ``manifest.target-file-size``, and the rest when they are at least
    ``manifest.merge-min-count``; of these, not the older ones that are greater than all newer.

    Args:
        storage: The table.
        manifests: Those of the latest snapshot, base and delta, in order.
    """
    options = storage.schema.table_options
    target = options.manifest_target_file_size
    wanting = [m for m in manifests if _wants_rewriting(m, target)]
    if sum(m.file_size for m in wanting) >= options.manifest_full_compaction_size:
        applied = _apply_deletes(storage, manifests, target)
        if applied is not None:
            return applied
    return _merge_neighbours(storage, manifests, target, options.manifest_merge_min_count)


def _wants_rewriting(manifest: ManifestFile, target: int) -> bool:
    return manifest.num_deleted_files > 0 or manifest.file_size < target


def _apply_deletes(
    storage: TableStorage, manifests: Sequence[ManifestFile], target: int
) -> list[ManifestFile] | None:
    """Apply every delete; None when there is nothing to gain."""
    types = [field.type for field in storage.schema.partition_fields]
    partitions = [deserialize_row(each, types) for each in _changed(storage, manifests)]
    touched: list[ManifestFile] = []
    kept: list[ManifestFile] = []
    for manifest in manifests:
        affected = _wants_rewriting(manifest, target) or _may_hold(storage, manifest, partitions)
        (touched if affected else kept).append(manifest)
    if len(touched) <= 1:
        return None
    parts = [read_entries(storage, [manifest]) for manifest in touched]
    entries = Entries.concat(parts)
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    left = left_entries(entries)
    counts = np.bincount(numbers[left], minlength=len(parts)).tolist()
    whole = [
        number
        for number, manifest in enumerate(touched)
        if not _wants_rewriting(manifest, target) and counts[number] == manifest.num_added_files
    ]
    rewritten = entries.where(left & ~np.isin(numbers, whole))
    return [
        *kept,
        *(touched[number] for number in whole),
        *write_manifests(storage, list(rewritten)),
    ]


def _changed(storage: TableStorage, manifests: Sequence[ManifestFile]) -> set[bytes]:
    """The partitions of which some manifest deletes a file."""
    changed: set[bytes] = set()
    for manifest in manifests:
        if manifest.num_deleted_files:
            entries = read_entries(storage, [manifest])
            partitions, codes = entries.partitions
            deleted = codes[entries.numbers("kind") == FileKind.DELETE]
            changed.update(partitions[code] for code in np.unique(deleted).tolist())
    return changed


def _may_hold(
    storage: TableStorage,
    manifest: ManifestFile,
    partitions: Sequence[tuple[StorageValue, ...]],
) -> bool:
    types = [field.type for field in storage.schema.partition_fields]
    if not types:
        return bool(partitions)
    low = deserialize_row(manifest.partition_stats.min_values, types)
    high = deserialize_row(manifest.partition_stats.max_values, types)
    return any(
        all(
            _may_be(value, least, most)
            for value, least, most in zip(values, low, high, strict=True)
        )
        for values in partitions
    )


def _may_be(value: StorageValue, least: StorageValue, most: StorageValue) -> bool:
    if value is None or least is None or most is None:
        return True
    return bool(least <= value <= most)  # type: ignore[operator]


def _merge_neighbours(
    storage: TableStorage, manifests: Sequence[ManifestFile], target: int, least: int
) -> list[ManifestFile]:
    result: list[ManifestFile] = []
    waiting: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        waiting.append(manifest)
        size += manifest.file_size
        if size >= target:
            result += _merged(storage, waiting)
            waiting, size = [], 0
    if len(waiting) < least:
        return [*result, *waiting]
    apart = _outweighing(waiting, least)
    return [*result, *waiting[:apart], *_merged(storage, waiting[apart:])]


def _outweighing(manifests: Sequence[ManifestFile], least: int) -> int:
    """The number of manifests at the front that are each greater than all after it.

    They are left alone, as long as fewer than `least` manifests remain: else a table of many files
    would write them all again every few commits.
    """
    after = sum(manifest.file_size for manifest in manifests)
    for number, manifest in enumerate(manifests):
        after -= manifest.file_size
        if manifest.file_size <= after:
            return number if number + 1 < least else 0
    return 0


def _merged(storage: TableStorage, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    if len(manifests) == 1:
        return list(manifests)
    return write_manifests(storage, list(merge_entries(read_entries(storage, manifests))))
