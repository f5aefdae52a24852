"""Row ids and versions, which the files of row-tracking tables get when they are committed.

Rows that are new get ids one after another, from the next one that the base snapshot tells; a
retry on another base gives them anew. Rows that were moved have theirs in the file. The version of
a row is the snapshot that made it: the commit's, unless the file tells another.

Source: ``RowTrackingCommitUtils.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.storage.errors import Invalid
from headwater.storage.formats.blob_file import BLOB_SUFFIX
from headwater.storage.manifest.data_file import DataFile, FileKind, FileSource, ManifestEntry
from headwater.storage.options import TableOptions
from headwater.storage.schema.vector_columns import is_vector_file
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["assign_row_ids"]


def assign_row_ids(
    options: TableOptions, base: Snapshot | None, delta: Sequence[ManifestEntry]
) -> tuple[Sequence[ManifestEntry], int | None]:
    """The entries of a commit with the ids and versions of their rows.

    Args:
        options: The table's options.
        base: The snapshot that the commit builds on.
        delta: Its entries.

    Returns:
        The entries, and the id that the next row will get; None where no row has ever had one.
    """
    next_id = None if base is None else base.next_row_id
    if not options.tracks_rows:
        return delta, next_id
    snapshot_id = 1 if base is None else base.id + 1
    start = next_id or 0
    # Files of a BLOB column, and of vectors, follow the file of the others, and have its ids.
    others, parts = start, dict[tuple[str, ...], int]()
    assigned: list[ManifestEntry] = []
    for entry in _by_partition(delta) if options.groups_row_ids else delta:
        if entry.kind is not FileKind.ADD:
            assigned.append(entry)
            continue
        file = entry.file
        if _is_new(file):
            first = start
            if file.file_name.endswith(BLOB_SUFFIX) or is_vector_file(file.file_name):
                columns = file.write_cols or ()
                first = parts.get(columns, others)
                if first + file.row_count > start:
                    raise Invalid(
                        f"file {file.file_name} of column '{', '.join(columns)}' has more rows "
                        "than the file of the other columns before it"
                    )
                parts[columns] = first + file.row_count
            else:
                others, parts = start, {}
                start += file.row_count
            # The numbers of a second file of one writer do not begin at 0 either.
            file = replace(
                file,
                first_row_id=first,
                min_sequence_number=snapshot_id,
                max_sequence_number=snapshot_id,
            )
        else:
            file = _versioned(file, snapshot_id)
        assigned.append(replace(entry, file=file))
    return assigned, start


def _is_new(file: DataFile) -> bool:
    """True if no row of a file has an id."""
    is_appended = file.file_source is FileSource.APPEND
    return is_appended and file.first_row_id is None and not file.stores_row_ids


def _versioned(file: DataFile, snapshot_id: int) -> DataFile:
    """A file of rows that were moved: a 0 stands for rows whose version is the commit's."""
    low = file.min_sequence_number or snapshot_id
    if not file.min_sequence_number or not file.max_sequence_number:
        return replace(file, min_sequence_number=low, max_sequence_number=snapshot_id)
    return file


def _by_partition(delta: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The entries, those of a partition one after another."""
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in delta:
        groups.setdefault(entry.partition, []).append(entry)
    return [entry for group in groups.values() for entry in group]
