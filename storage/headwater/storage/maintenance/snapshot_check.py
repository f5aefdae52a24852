"""The files that a snapshot needs, compared with what storage has.

A snapshot is whole if its manifest lists, manifests, data files and index files are there, each
with the size that was written down. What is in data and index files is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.storage.errors import CorruptData
from headwater.storage.index.index_file import index_file_path
from headwater.storage.index.manifest import index_entries
from headwater.storage.maintenance.listed_sizes import ListedSizes
from headwater.storage.maintenance.reachable import delta_entries
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["first_damage", "missing_of_entries", "missing_of_snapshot"]


def first_damage(storage: TableStorage, snapshot: Snapshot) -> str | None:
    """A sentence about the first file of a snapshot that is missing; None for a whole one."""
    return next(missing_of_snapshot(storage, snapshot, ListedSizes(storage.files)), None)


def missing_of_snapshot(
    storage: TableStorage, snapshot: Snapshot, sizes: ListedSizes
) -> Iterator[str]:
    """A sentence about each file that a snapshot needs and storage does not have as it was.

    Args:
        storage: The table.
        snapshot: The snapshot.
        sizes: Looks at files.
    """
    try:
        entries = live_entries(storage, snapshot, anew=True)
    except CorruptData as error:
        yield error.message
    else:
        yield from missing_of_entries(storage, entries, sizes)
    if snapshot.changelog_manifest_list is not None:
        try:
            changes = delta_entries(storage, snapshot.changelog_manifest_list)
        except CorruptData as error:
            yield error.message
        else:
            if changes is None:
                yield f"a manifest of snapshot {snapshot.id}'s changelog does not exist"
            else:
                yield from missing_of_entries(storage, changes, sizes)
    try:
        indexes = index_entries(storage, snapshot)
    except CorruptData as error:
        yield error.message
        return
    for index in indexes:
        file = index.index_file
        path = index_file_path(storage, index.partition, index.bucket, file)
        yield from _missing(path, file.file_size, sizes)


def missing_of_entries(
    storage: TableStorage, entries: Iterable[ManifestEntry], sizes: ListedSizes
) -> Iterator[str]:
    """A sentence about each file that entries add and that is not there, or of another size."""
    for entry in entries:
        if entry.kind is FileKind.DELETE:
            continue
        directory = bucket_directory(storage, entry.partition, entry.bucket)
        path, *belonging = entry.file.paths(directory)
        yield from _missing(path, entry.file.file_size, sizes)
        for other in belonging:
            yield from _missing(other, None, sizes)


def _missing(path: str, expected: int | None, sizes: ListedSizes) -> Iterator[str]:
    found = sizes.size(path)
    if found is None:
        yield f"{path} does not exist"
    elif expected is not None and found != expected:
        yield f"{path} has {found} bytes where {expected} were written"
