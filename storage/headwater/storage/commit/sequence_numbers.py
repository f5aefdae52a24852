"""Sequence numbers that a commit tells of its rows, where options ask for more than files say.

Source: ``FileStoreCommitImpl.stampSequenceWithSnapshotId``, ``SequenceSnapshotProperties.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.storage.errors import CorruptData
from headwater.storage.manifest.data_file import FileKind, FileSource, ManifestEntry
from headwater.storage.options import TableOptions
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["numbered_by_snapshot", "with_greatest_number"]

_GREATEST = "sequence.generation.max-sequence-number"


def numbered_by_snapshot(
    options: TableOptions, base: Snapshot | None, kind: CommitKind, delta: Sequence[ManifestEntry]
) -> Sequence[ManifestEntry]:
    """The entries of a commit, new rows with the snapshot's id as their number if that orders rows.

    Rows of files that are moved, or that a compaction wrote, keep the numbers that they have.

    Args:
        options: The table's options.
        base: The snapshot that the commit builds on.
        kind: The reason for the commit.
        delta: Its entries.
    """
    if not options.orders_by_snapshot or kind is CommitKind.COMPACT:
        return delta
    number = 1 if base is None else base.id + 1
    moved = {entry.file.file_name for entry in delta if entry.kind is FileKind.DELETE}

    def numbered(entry: ManifestEntry) -> ManifestEntry:
        file = entry.file
        is_new = entry.kind is FileKind.ADD and file.file_name not in moved
        if not is_new or file.file_source is FileSource.COMPACT:
            return entry
        return replace(
            entry, file=replace(file, min_sequence_number=number, max_sequence_number=number)
        )

    return [numbered(entry) for entry in delta]


def with_greatest_number(
    storage: TableStorage,
    properties: Mapping[str, str],
    base: Snapshot | None,
    delta: Sequence[ManifestEntry],
) -> Mapping[str, str]:
    """The properties of a snapshot, with the table's greatest number if writers look for it there.

    Args:
        storage: The table.
        properties: Its other properties.
        base: The snapshot that it follows.
        delta: Its changes.

    Raises:
        CorruptData: The property of the snapshot before is no number.
    """
    if not storage.schema.table_options.tells_greatest_sequence:
        return properties
    numbers = [entry.file.max_sequence_number for entry in delta if entry.kind is FileKind.ADD]
    if base is not None:
        told = _told(storage, base)
        numbers += (
            [entry.file.max_sequence_number for entry in live_entries(storage, base)]
            if told is None
            else [told]
        )
    return {**properties, _GREATEST: str(max(numbers))} if numbers else properties


def _told(storage: TableStorage, snapshot: Snapshot) -> int | None:
    """The greatest number that a snapshot tells, if it does."""
    text = snapshot.properties.get(_GREATEST)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise CorruptData(
            f"table {storage.name}: property '{_GREATEST}' of snapshot {snapshot.id} is no number, "
            f"but '{text}'"
        ) from None
