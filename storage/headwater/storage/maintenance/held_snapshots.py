"""Snapshots whose files stay, though something deletes files at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.storage.errors import CorruptData
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.expiry_notes import first_whole_snapshot, is_expiring
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files, tag_names

__all__ = ["is_held", "while_nothing_expires"]

Result = TypeVar("Result")


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


def while_nothing_expires(
    files: FileAccess, layout: TableLayout, work: Callable[[], Result]
) -> Result:
    """Do work that reads snapshots and tags of a branch; again, as some went meanwhile.

    Raises:
        CorruptData: A file cannot be read, and what was there at the beginning is there still.
    """
    while True:
        before = _line(files, layout)
        try:
            return work()
        except CorruptData:
            if _line(files, layout) == before:
                raise


def _line(files: FileAccess, layout: TableLayout) -> tuple[int, list[str]]:
    """The earliest snapshot that stays, and the tags."""
    return first_whole_snapshot(files, layout), tag_names(files, layout)
