"""Snapshots whose files stay, though something deletes files at the same time."""

from __future__ import annotations

from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.files import is_expiring
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files

__all__ = ["is_held"]


def is_held(
    files: FileAccess, layout: TableLayout, snapshot: Snapshot, *, beside: str | None = None
) -> bool:
    """True if a snapshot keeps its files.

    An expiry notes the earliest snapshot that stays, and a deletion of a tag deletes the tag,
    before they look for what else needs the files. So whoever makes something that needs them, such
    as a tag or a branch, asks this afterwards: either it was seen, or this is False and it has to
    be undone.

    Args:
        files: Access to the table's files.
        layout: The branch that the snapshot is of.
        snapshot: The snapshot.
        beside: A tag that was made just now, which holds nothing by itself.

    Raises:
        CorruptData: A tag cannot be read.
    """
    if not is_expiring(files, layout.snapshot(snapshot.id)):
        return True
    tags = list_tag_files(files, layout)
    return any(tag.name != beside and tag.snapshot.is_same_commit(snapshot) for tag in tags)
