"""The files that mirror decisions: finding them, putting them, taking them back."""

from __future__ import annotations

import json
import logging

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.files.access import FileAccess, FileStatus
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.changelog import changelog_file_ids
from headwater.storage.snapshot.files import read_hint
from headwater.storage.snapshot.tag import read_tag_file, tag_names

__all__ = [
    "PlaceTaken",
    "delete_later_tags",
    "delete_snapshots_after",
    "is_cut_off",
    "is_taken",
    "lower_changelog_hint",
    "numbered_files",
    "put",
    "put_snapshot",
    "take_back",
]

_LOG = logging.getLogger(__name__)


class PlaceTaken(CorruptData):
    """Something else has written a file where a decision of the catalog's is to be written.

    Args:
        path: The file.
        message: The sentence to say, if it is another.
    """

    def __init__(self, path: str, message: str | None = None) -> None:
        super().__init__(
            message
            or f"{path} is not the file that the catalog decided on: something else wrote it. "
            "Commit to the table through the catalog alone. Look at the file, move it away, and "
            "try again"
        )


def is_taken(files: FileAccess, path: str, document: str) -> bool:
    """Whether another file than the one to be written is there."""
    try:
        content = files.read(path)
    except NotFound:
        return False
    return content != document.encode() and not _same_json(content, document)


def is_cut_off(files: FileAccess, layout: TableLayout, number: int, base_uuid: str | None) -> bool:
    """Whether storage has another history than the one that a next snapshot builds on.

    Args:
        files: The storage.
        layout: The branch.
        number: The snapshot's number. Of the first one there must have been none.
        base_uuid: The uuid of the one before it; None takes any.
    """
    if number == 1:
        return files.exists(layout.latest_hint)
    try:
        previous = json.loads(files.read(layout.snapshot(number - 1)))
        return base_uuid is not None and bool(previous["uuid"] != base_uuid)
    except (NotFound, ValueError, KeyError, TypeError):
        return True


def put(files: FileAccess, path: str, document: str) -> None:
    """Write a file unless it is there; raises PlaceTaken when it is there and is another."""
    if files.write_if_absent(path, document.encode()):
        return
    if is_taken(files, path, document):
        raise PlaceTaken(path)


def put_snapshot(files: FileAccess, layout: TableLayout, number: int, document: str) -> None:
    """Write a snapshot and its hints; raises PlaceTaken when another one is there."""
    put(files, layout.snapshot(number), document)
    # A reader that finds an old hint, or none, looks for the files themselves.
    files.write(layout.latest_hint, str(number).encode(), durable=False)
    if number == 1:
        files.write(layout.earliest_hint, b"1")


def take_back(
    files: FileAccess, layout: TableLayout, latest: int, number: int, document: str
) -> None:
    """Delete a snapshot's file if it was put though the branch had gone back before it.

    A writer that is suspended just then loses the branch's lock and puts the file all the same.

    Args:
        files: The storage.
        layout: The branch, whose lock is held.
        latest: The number of its latest snapshot.
        number: The snapshot's number.
        document: Its text; another file is left.
    """
    path = layout.snapshot(number)
    if latest < number and files.exists(path) and not is_taken(files, path, document):
        # The hint first: who follows it to a file that is gone finds none.
        files.write(layout.latest_hint, str(latest).encode())
        files.delete(path)


def numbered_files(statuses: list[FileStatus], prefix: str) -> list[int]:
    """The numbers of files named `prefix` and a number, ascending."""
    texts = (s.name.removeprefix(prefix) for s in statuses if s.name.startswith(prefix))
    return sorted(int(text) for text in texts if text.isascii() and text.isdigit())


def lower_changelog_hint(files: FileAccess, layout: TableLayout, snapshot_id: int) -> None:
    """Delete the hint of the earliest changelog if it names one beyond a snapshot.

    Readers list the files then.
    """
    hinted = read_hint(files, layout.earliest_changelog_hint)
    if hinted is not None and hinted > snapshot_id:
        files.delete(layout.earliest_changelog_hint)


def delete_snapshots_after(files: FileAccess, layout: TableLayout, number: int) -> None:
    """Delete the snapshots, newest first, and the changelogs beyond a number."""
    ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
    for later in sorted((i for i in ids if i > number), reverse=True):
        files.delete(layout.snapshot(later))
    for later in changelog_file_ids(files, layout):
        if later > number:
            files.delete(layout.changelog(later))
            files.delete(layout.latest_changelog_hint)  # readers list the files without it


def delete_later_tags(files: FileAccess, layout: TableLayout, number: int) -> None:
    """Delete the tags of snapshots beyond a number; a file that is not a tag is left and logged."""
    for name in tag_names(files, layout):
        try:
            tag = read_tag_file(files, layout, name)
        except CorruptData as error:
            _LOG.warning("an unreadable tag is left: %s", error)
            continue
        if tag is not None and tag.snapshot.id > number:
            files.delete(layout.tag(name))


def _same_json(found: bytes, document: str) -> bool:
    try:
        return bool(json.loads(found) == json.loads(document))
    except ValueError:
        return False
