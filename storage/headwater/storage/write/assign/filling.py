"""Buckets that are filled one after another with new keys, up to a number of keys each.

With several classes of keys each class has buckets of its own, those whose number leaves the
class's own as the remainder: writers that each have all keys of some classes need not know of each
other.

Source: ``BucketAssigner.java``, ``PartitionIndex.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from headwater.storage.errors import Invalid
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.table_storage import TableStorage

__all__ = ["classes_of", "fill_buckets", "share_buckets"]

# Java's short, which Paimon keeps buckets in.
_MAX_BUCKETS = 32767


def classes_of(options: AssignmentOptions) -> int:
    """The number of classes that keys fall into by their hashes."""
    most = options.dynamic_most_buckets
    return min(options.dynamic_classes, most or _MAX_BUCKETS)


def fill_buckets(
    storage: TableStorage,
    counts: dict[int, int],
    classes: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.int32],
) -> npt.NDArray[np.int16]:
    """The buckets of new keys of one partition.

    Args:
        storage: The table.
        counts: The keys of each bucket, which these are added to.
        classes: The class of each key.
        hashes: The hash of each key.

    Raises:
        Invalid: The partition would have more buckets than Paimon can name.
    """
    options = AssignmentOptions(storage.schema.options)
    total = classes_of(options)
    buckets = np.empty(len(hashes), np.int16)
    for number in _present(classes, total):
        rows = np.flatnonzero(classes == number)
        at = 0
        for bucket, room in _room(options, counts, number, total):
            part = rows[at : at + room]
            buckets[part] = bucket
            counts[bucket] = counts.get(bucket, 0) + len(part)
            at += len(part)
            if at == len(rows):
                break
        if at < len(rows):
            rest = rows[at:]
            buckets[rest] = _overfull(storage, options, counts, number, total, hashes[rest])
    return buckets


def share_buckets(
    storage: TableStorage,
    counts: Mapping[int, int],
    classes: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.int32],
    rows: int,
) -> npt.NDArray[np.int16]:
    """The buckets of new keys of one partition, by their hashes alone.

    Several writers that know the same counts place a key alike, without knowing of each other. They
    share the buckets that would be filled by so many rows.

    Args:
        storage: The table.
        counts: The keys that each bucket had before.
        classes: The class of each key.
        hashes: The hash of each key.
        rows: How many rows all writers have, at most.

    Raises:
        Invalid: The partition would have more buckets than Paimon can name.
    """
    options = AssignmentOptions(storage.schema.options)
    total = classes_of(options)
    buckets = np.empty(len(hashes), np.int16)
    # Hashes are spread evenly, also those of one class in their upper bits.
    fractions = hashes.view(np.uint32) / 2.0**32
    for number in _present(classes, total):
        own = np.flatnonzero(classes == number)
        shared, shares, left = [], [], max(1, -(-rows // total))
        for bucket, room in _room(options, counts, number, total):
            shared.append(bucket)
            shares.append(min(room, left))
            left -= shares[-1]
            if left <= 0:
                break
        if not shared:
            known = dict(counts)
            buckets[own] = _overfull(storage, options, known, number, total, hashes[own])
            continue
        bounds = np.cumsum(shares) / sum(shares)
        places = np.searchsorted(bounds, fractions[own], side="right")
        buckets[own] = np.array(shared, np.int16)[np.minimum(places, len(shared) - 1)]
    return buckets


def _present(classes: npt.NDArray[np.int32], total: int) -> list[int]:
    """The classes that keys have."""
    return [0] if total == 1 else sorted_distinct(classes).tolist()


def _room(
    options: AssignmentOptions, counts: Mapping[int, int], number: int, classes: int
) -> Iterator[tuple[int, int]]:
    """The buckets of a class that may take keys, and how many each."""
    target = options.dynamic_target_rows
    for bucket, count in sorted(counts.items()):
        if bucket % classes == number and count < target:
            yield bucket, target - count
    for bucket in range(number, options.dynamic_most_buckets or _MAX_BUCKETS, classes):
        if bucket not in counts:
            yield bucket, target


def _overfull(
    storage: TableStorage,
    options: AssignmentOptions,
    counts: dict[int, int],
    number: int,
    classes: int,
    hashes: npt.NDArray[np.int32],
) -> npt.NDArray[np.int16]:
    """Full buckets of a class, evenly: there may be no more."""
    if options.dynamic_most_buckets is None:
        raise Invalid(
            f"table {storage.name}: a partition can have {_MAX_BUCKETS} buckets at most; "
            "raise 'dynamic-bucket.target-row-num'"
        )
    own = [bucket for bucket in sorted(counts) if bucket % classes == number]
    places = np.abs(hashes.astype(np.int64)) // classes % len(own)
    chosen: npt.NDArray[np.int16] = np.array(own, np.int16)[places]
    for bucket, count in zip(*np.unique(chosen, return_counts=True), strict=True):
        counts[int(bucket)] += int(count)
    return chosen
