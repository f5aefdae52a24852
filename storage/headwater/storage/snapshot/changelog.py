"""Changelogs that outlive their snapshots, each a file ``changelog/changelog-<n>``.

Expiry leaves one of a snapshot whose changes are to be read for longer than its rows. The file is
the snapshot's JSON; of what it names there are only the files with its changes: the changelog
files of a table that has a ``changelog-producer``, else the files that the commit added.

Source: ``Changelog.java``, ``ChangelogManager.java``.
"""

from __future__ import annotations

from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.files import check_id, expired_meanwhile
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = [
    "changelog_file_ids",
    "delete_changelog_hints",
    "read_changelog_file",
    "read_changelog_files",
    "write_changelog_file",
    "write_latest_changelog_hint",
]

_PREFIX = "changelog-"
_NOT_KEPT = ("indexManifest", "indexManifestSize", "statistics")


def changelog_file_ids(files: FileAccess, layout: TableLayout) -> list[int]:
    """The ids of the snapshots that have left a changelog, ascending."""
    names = (status.name for status in files.list(layout.changelog_directory))
    numbers = (name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
    return sorted(int(number) for number in numbers if number.isdecimal())


def read_changelog_file(
    files: FileAccess, layout: TableLayout, snapshot_id: int
) -> Snapshot | None:
    """A changelog as the snapshot that it was, without what is not kept; None if there is none.

    Raises:
        CorruptData: The file is not that changelog.
    """
    path = layout.changelog(snapshot_id)
    try:
        whole = Snapshot.from_json(files.read(path), path)
    except NotFound:
        return None
    check_id(whole, snapshot_id, path)
    return Snapshot({k: v for k, v in whole.document.items() if k not in _NOT_KEPT})


def read_changelog_files(files: FileAccess, layout: TableLayout) -> list[Snapshot]:
    """All changelogs, oldest first, to keep what they need.

    Raises:
        CorruptData: A file is not a changelog, or went since the listing.
    """
    changelogs: list[Snapshot] = []
    for number in changelog_file_ids(files, layout):
        changelog = read_changelog_file(files, layout, number)
        if changelog is None:
            raise expired_meanwhile(layout.changelog(number))
        changelogs.append(changelog)
    return changelogs


def write_changelog_file(files: FileAccess, layout: TableLayout, snapshot: Snapshot) -> None:
    """Leave a snapshot's changelog, in the place of one that a rolled back snapshot left."""
    files.write(layout.changelog(snapshot.id), snapshot.to_json().encode())


def write_latest_changelog_hint(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Note the latest changelog's id for readers in a hurry."""
    files.write(layout.latest_changelog_hint, str(snapshot_id).encode(), durable=False)


def delete_changelog_hints(files: FileAccess, layout: TableLayout) -> None:
    """Delete the notes of a branch whose last changelog is gone (``ChangelogManager.java``)."""
    files.delete(layout.earliest_changelog_hint)
    files.delete(layout.latest_changelog_hint)
