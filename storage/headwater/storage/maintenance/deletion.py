"""Deletions: what goes from a branch's history, committed before any of its files is deleted.

A root is a file that refers to others: a snapshot, a tag, a changelog. A deletion takes roots away
and with them the files that nothing else refers to. It is planned from storage without any lock,
and committed by the catalog only if no reference of the table has changed since: then no tag,
branch, consumer or rollback can refer to what it removes. Its roots go first, so that storage never
has a snapshot without its files. The list of the other files is itself a file, which the catalog
names until the last of them is gone: the next deletion finishes one that was killed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.changelog import (
    changelog_file_ids,
    delete_changelog_hints,
    write_changelog_file,
    write_latest_changelog_hint,
)
from headwater.storage.snapshot.files import (
    read_hint,
    read_snapshot_file,
    snapshot_file_ids,
    write_earliest_hint,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import read_tag_file
from headwater.storage.types.data_type import Json

__all__ = [
    "Deletion",
    "OpenDeletion",
    "ReferenceAuthority",
    "References",
    "Removal",
    "delete_consumers",
    "delete_roots",
    "read_deletion_files",
    "write_deletion_files",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Removal:
    """The roots and consumers that a deletion takes from one branch.

    Attributes:
        snapshots_before: Snapshots with smaller ids go; 0 for none.
        changelogs_before: Changelogs with smaller ids go. A snapshot that goes and is not before it
            leaves its changelog.
        tags: The ids of the snapshots that the tags to delete name, by tag.
        consumers: When each consumer to delete was last moved, in ms since the epoch, by id.
    """

    snapshots_before: int = 0
    changelogs_before: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    consumers: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no root and no consumer goes."""
        return not (self.snapshots_before or self.changelogs_before or self.tags or self.consumers)

    def to_document(self) -> dict[str, Json]:
        """Its JSON object."""
        return {
            "snapshotsBefore": self.snapshots_before,
            "changelogsBefore": self.changelogs_before,
            "tags": dict(self.tags),
            "consumers": dict(self.consumers),
        }

    def to_json(self) -> str:
        """Its JSON string."""
        return json.dumps(self.to_document())

    @staticmethod
    def from_json(text: str) -> Removal:
        """Read what `to_json` writes."""
        document = json.loads(text)
        return Removal(
            document["snapshotsBefore"],
            document["changelogsBefore"],
            document["tags"],
            document["consumers"],
        )


@dataclass(frozen=True)
class Deletion:
    """A planned deletion.

    Attributes:
        id: A unique id.
        version: The version of the table's references that it was planned from.
        removal: The roots and consumers that go.
        has_files: Whether other files go, which `TableLayout.deletion` lists.
    """

    id: str
    version: int
    removal: Removal
    has_files: bool


@dataclass(frozen=True)
class OpenDeletion:
    """A committed deletion whose files are not all gone yet.

    Attributes:
        id: Its id.
        created_at: When it was committed, in ms since the epoch.
    """

    id: str
    created_at: int


@dataclass(frozen=True)
class References:
    """The state of a table's references.

    Attributes:
        version: Grows with every change of tags, branches, consumers and rollbacks, and with every
            committed deletion.
        open_deletion: The deletion that is to be finished before another is committed.
    """

    version: int
    open_deletion: OpenDeletion | None = None


class ReferenceAuthority(Protocol):
    """The catalog, as it serialises a table's references with the deletions of its files."""

    def state(self) -> References:
        """The version of the references; storage reflects every change up to it."""
        ...

    def commit_deletion(self, deletion: Deletion) -> bool:
        """Decide a deletion, and delete its roots.

        Returns:
            False, changing nothing, if references have changed since it was planned, or another
            deletion is open.
        """
        ...

    def finish_deletion(self, deletion_id: str) -> None:
        """Forget an open deletion whose files are gone; nothing happens when it is another's."""
        ...

    def create_tag(self, name: str, snapshot: Snapshot, retained_millis: int | None) -> bool:
        """Create a tag; False if there is one of that name, or the snapshot has gone.

        It has gone when it expired, or a rollback gave its number to another commit.
        """
        ...


def delete_roots(
    files: FileAccess,
    layout: TableLayout,
    removal: Removal,
    *,
    limit: int | None = None,
) -> bool:
    """Delete the roots of a committed deletion, the oldest first; it can be repeated.

    Args:
        files: Access to the table's files.
        layout: The branch.
        removal: What goes.
        limit: How many snapshots and changelogs go in this call at most.

    Returns:
        Whether all are gone.
    """
    end, changelogs_end = removal.snapshots_before, removal.changelogs_before
    if end and (read_hint(files, layout.earliest_hint) or 0) != end:
        write_earliest_hint(files, layout, end)
    going = [number for number in snapshot_file_ids(files, layout) if number < end]
    for number in going[:limit]:
        if number >= changelogs_end:
            # Before its snapshot goes: a stream always reads one of the two.
            _leave_changelog(files, layout, number)
        files.delete(layout.snapshot(number))
    if len(going) > len(going[:limit]):
        return False
    changelogs = [n for n in changelog_file_ids(files, layout) if n < changelogs_end]
    for number in changelogs[:limit]:
        files.delete(layout.changelog(number))
    if len(changelogs) > len(changelogs[:limit]):
        return False
    if end or changelogs_end:
        _write_changelog_hints(files, layout)
    for name, snapshot_id in removal.tags.items():
        tag = read_tag_file(files, layout, name)
        if tag is not None and tag.snapshot.id == snapshot_id:
            files.delete(layout.tag(name))
            files.delete(layout.tag_success_file(name))
    return True


def delete_consumers(files: FileAccess, layout: TableLayout, removal: Removal) -> None:
    """Delete the consumers of a committed deletion that have not moved since it was planned."""
    statuses = {status.name: status for status in files.list(layout.consumer_directory)}
    for consumer_id, updated_at in removal.consumers.items():
        status = statuses.get(f"consumer-{consumer_id}")
        if status is not None and status.modified_millis == updated_at:
            files.delete(status.path)


def _leave_changelog(files: FileAccess, layout: TableLayout, number: int) -> None:
    snapshot = read_snapshot_file(files, layout, number)
    if snapshot is not None:
        write_changelog_file(files, layout, snapshot)
        write_latest_changelog_hint(files, layout, number)


def _write_changelog_hints(files: FileAccess, layout: TableLayout) -> None:
    changelogs = changelog_file_ids(files, layout)
    if not changelogs:
        delete_changelog_hints(files, layout)
    elif read_hint(files, layout.earliest_changelog_hint) != changelogs[0]:
        files.write(layout.earliest_changelog_hint, str(changelogs[0]).encode())


def write_deletion_files(
    files: FileAccess, layout: TableLayout, deletion_id: str, paths: Iterable[str]
) -> None:
    """Write the list of the files that go with a deletion."""
    text = json.dumps(list(paths), ensure_ascii=False)
    files.write(layout.deletion(deletion_id), text.encode())


def read_deletion_files(files: FileAccess, layout: TableLayout, deletion_id: str) -> Sequence[str]:
    """The files that go with an open deletion.

    None if its list is gone: they were deleted, or are orphans by now. A list that cannot be read
    is logged, and its files stay as orphans.
    """
    path = layout.deletion(deletion_id)
    try:
        paths = json.loads(files.read(path))
        if not isinstance(paths, list) or not all(isinstance(each, str) for each in paths):
            raise CorruptData(f"{path} is not a list of files")
    except NotFound:
        return []
    except (ValueError, CorruptData) as error:
        _LOG.warning(
            "%s cannot be read (%s): the files that it lists stay until orphan files are removed",
            path,
            error,
        )
        return []
    return paths
