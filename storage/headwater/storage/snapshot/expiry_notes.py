"""The notes that an expiry leaves first: the earliest snapshot and changelog that stay.

They are the hints ``EARLIEST`` beside snapshots and changelogs. Whatever is before a note may lack
files, where an expiry was stopped, and goes with the next one. A note of what is not there counts
for nothing: Paimon's clients look at the files then, and so do we.

Source: ``HintFileUtils.java``, ``SnapshotManager.java``, ``ChangelogManager.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.files import read_hint, snapshot_file_ids, write_earliest_hint

__all__ = [
    "first_whole",
    "first_whole_changelog",
    "first_whole_snapshot",
    "is_expiring",
    "lower_changelog_note",
    "raise_changelog_note",
    "raise_snapshot_note",
]

_SNAPSHOT, _CHANGELOG = "snapshot", "changelog"


def first_whole(files: FileAccess, layout: TableLayout, ids: Sequence[int]) -> int:
    """The first of some snapshots, ascending, that no expiry has begun to take away.

    0 if there are none. Those before it may lack files, where an expiry was stopped.
    """
    hinted = read_hint(files, layout.earliest_hint)
    return hinted if hinted is not None and hinted in ids else min(ids, default=0)


def first_whole_snapshot(files: FileAccess, layout: TableLayout) -> int:
    """As `first_whole`, of a branch's snapshots, which are listed only where no note counts."""
    noted = _first_snapshot(files, layout.branch_location)
    return noted or min(snapshot_file_ids(files, layout), default=0)


def first_whole_changelog(files: FileAccess, layout: TableLayout) -> int:
    """The first snapshot whose changes no expiry has begun to take away; 0 where none is noted."""
    return _first_changelog(files, layout.branch_location)


def is_expiring(files: FileAccess, path: str) -> bool:
    """True if a file is a snapshot or a changelog that an expiry has begun to take away.

    Args:
        files: Access to the table's files.
        path: The file's URI.
    """
    directory, _, name = path.rpartition("/")
    branch, _, kind = directory.rpartition("/")
    number = name.removeprefix(f"{kind}-")
    if number == name or not number.isdecimal():
        return False
    if kind == _CHANGELOG:
        return int(number) < _first_changelog(files, branch)
    return kind == _SNAPSHOT and int(number) < _first_snapshot(files, branch)


def raise_snapshot_note(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Note the earliest snapshot that stays, unless a later one that is there is noted already."""
    if _first_snapshot(files, layout.branch_location) < snapshot_id:
        write_earliest_hint(files, layout, snapshot_id)


def raise_changelog_note(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Note the first snapshot whose changes stay, likewise."""
    if first_whole_changelog(files, layout) < snapshot_id:
        files.write(layout.earliest_changelog_hint, str(snapshot_id).encode())


def lower_changelog_note(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Set the note of changelogs back for a rollback, before what is beyond it is deleted.

    Args:
        files: Access to the table's files.
        layout: The branch.
        snapshot_id: The snapshot that becomes the latest again; 0 for none.
    """
    noted = read_hint(files, layout.earliest_changelog_hint)
    if noted is None or noted <= snapshot_id:
        return
    if snapshot_id and first_whole_changelog(files, layout) == noted:
        # What it left as a changelog is going; the snapshot that is there again goes before it.
        files.delete(layout.changelog(snapshot_id))
        files.write(layout.earliest_changelog_hint, str(snapshot_id).encode())
    else:
        files.delete(layout.earliest_changelog_hint)


def _first_snapshot(files: FileAccess, branch: str) -> int:
    """The earliest snapshot by its note; 0 where that does not count."""
    noted = read_hint(files, f"{branch}/{_SNAPSHOT}/EARLIEST")
    return noted if noted is not None and _has_snapshot(files, branch, noted) else 0


def _first_changelog(files: FileAccess, branch: str) -> int:
    """The earliest changelog by its note; 0 where that does not count.

    Where all changelogs go, it names the earliest snapshot that stays: one before it is going.
    """
    noted = read_hint(files, f"{branch}/{_CHANGELOG}/EARLIEST")
    if noted is None or files.exists(f"{branch}/{_CHANGELOG}/{_CHANGELOG}-{noted}"):
        return noted or 0
    counts = _has_snapshot(files, branch, noted) and (
        not _has_snapshot(files, branch, noted - 1) or noted <= _first_snapshot(files, branch)
    )
    return noted if counts else 0


def _has_snapshot(files: FileAccess, branch: str, number: int) -> bool:
    return files.exists(f"{branch}/{_SNAPSHOT}/{_SNAPSHOT}-{number}")
