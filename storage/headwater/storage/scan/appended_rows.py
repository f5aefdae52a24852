"""The rows that a commit to a table with data evolution added, among new values of older rows.

A file of some columns of older rows is neither an insert nor an update that a stream could tell row
by row. It is told from a file of new rows by its row ids: new rows have greater ones than all rows
before the commit. (Paimon's own streams give the rows of such files, too, with null in the columns
that did not change.)
"""

from __future__ import annotations

from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["first_new_row_id", "is_appended", "updates_columns"]


def first_new_row_id(storage: TableStorage, snapshot: Snapshot) -> int:
    """An id that no row before a commit has, and no row that it added is below.

    Args:
        storage: The table.
        snapshot: The snapshot of the commit.

    Raises:
        CorruptData: A manifest list or manifest is missing or malformed; the message names it.
    """
    size = snapshot.document.get("baseManifestListSize")
    greatest = -1
    for manifest in read_manifest_list(
        storage, snapshot.base_manifest_list, size=size if isinstance(size, int) else None
    ):
        if manifest.max_row_id is not None:
            greatest = max(greatest, manifest.max_row_id)
            continue
        # A row that was moved has an id in its file, and the file may have none.
        for entry in read_manifest(storage, manifest.file_name):
            if entry.file.first_row_id is not None:
                greatest = max(greatest, entry.file.first_row_id + entry.file.row_count - 1)
    return greatest + 1


def is_appended(entry: ManifestEntry, first_new: int) -> bool:
    """True for a file of rows that a commit added, by its `first_new_row_id`."""
    return entry.file.first_row_id is not None and entry.file.first_row_id >= first_new


def updates_columns(storage: TableStorage, snapshot: Snapshot) -> bool:
    """True if a commit gave columns of older rows new values; raises as `first_new_row_id`."""
    size = snapshot.document.get("deltaManifestListSize")
    first_new: int | None = None
    for manifest in read_manifest_list(
        storage, snapshot.delta_manifest_list, size=size if isinstance(size, int) else None
    ):
        for entry in read_manifest(storage, manifest.file_name):
            if entry.kind is not FileKind.ADD:
                continue
            if first_new is None:
                first_new = first_new_row_id(storage, snapshot)
            if not is_appended(entry, first_new):
                return True
    return False
