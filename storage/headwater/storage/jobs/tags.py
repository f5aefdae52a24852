"""Automatic tags: created after commits, with the oldest deleted for them.

Nothing is remembered between commits: the existing tags show the progress. Each writer creates the
tags that are due after its commit, and a tag that another writer has created meanwhile stays as it
is, so that they may race and die at any point.

Source: ``TagAutoCreation.java``, ``TagBatchCreation.java``, ``SuccessFileTagCallback.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headwater.storage.jobs.deletion import delete_tag
from headwater.storage.maintenance.deletion import ReferenceAuthority
from headwater.storage.maintenance.partition_done import write_success_file
from headwater.storage.maintenance.tag_periods import TagPeriods, tag_time
from headwater.storage.options.lifecycle_options import LifecycleOptions, TagCreation
from headwater.storage.snapshot.files import read_snapshot_file, snapshot_file_ids
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import (
    HOLD_PREFIX,
    list_tag_files,
    read_tag_file,
    tag_names,
)
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["AutomaticTags", "TagEnds", "tell_of_tag"]

_MILLISECOND = timedelta(milliseconds=1)


def tell_of_tag(storage: TableStorage, name: str) -> None:
    """Write the success file of a new tag, where ``tag.create-success-file`` asks for it.

    Raises:
        CorruptData: There is one, and it is malformed.
    """
    if LifecycleOptions(storage.schema.options).writes_tag_success_file:
        path = storage.layout.tag_success_file(name)
        write_success_file(storage.files, path, storage.runtime.now_millis())


class TagEnds:
    """The ends of tags' times, so that a tag is read once, and not after each commit."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int | None] = {}

    def expired(self, storage: TableStorage) -> list[str]:
        """The names of the tags whose time is over.

        Raises:
            CorruptData: A file is not a tag.
        """
        present: dict[tuple[str, int], int | None] = {}
        for status in storage.files.list(storage.layout.tag_directory):
            name = status.name.removeprefix("tag-")
            if name == status.name:
                continue
            key = (name, status.modified_millis)
            present[key] = self._ends[key] if key in self._ends else _end(storage, name)
        self._ends = present
        now = storage.runtime.earliest_millis()
        return [name for (name, _), end in present.items() if end is not None and end < now]


def _end(storage: TableStorage, name: str) -> int | None:
    tag = read_tag_file(storage.files, storage.layout, name)
    if tag is None or tag.created_at is None or tag.retained_millis is None:
        return None
    return tag.created_at + tag.retained_millis


def _is_due(
    progress: _Progress, options: LifecycleOptions, periods: TagPeriods, time: datetime
) -> bool:
    if progress.next_tag is None:
        return True
    return time - options.tag_delay * _MILLISECOND >= progress.next_tag + periods.length


@dataclass
class _Progress:
    """The progress of automatic tags.

    Attributes:
        next_snapshot: The first snapshot that no tag was made of.
        next_tag: The beginning of the next tag's period; None before the first tag.
    """

    next_snapshot: int
    next_tag: datetime | None = None

    @staticmethod
    def from_tags(storage: TableStorage, periods: TagPeriods) -> _Progress:
        """The progress by the tags that there are."""
        names = tag_names(storage.files, storage.layout)
        times = [(time, name) for name in names if (time := periods.time(name)) is not None]
        for time, name in sorted(times, reverse=True):
            tag = read_tag_file(storage.files, storage.layout, name)
            if tag is not None:
                return _Progress(tag.snapshot.id + 1, time + periods.length)
        return _Progress(1)


def _from(storage: TableStorage, first: int, latest: Snapshot) -> Iterable[Snapshot]:
    """The snapshots from one on that have not expired, the latest included."""
    if first > latest.id:
        return
    if first < latest.id:
        ids = snapshot_file_ids(storage.files, storage.layout)
        for number in (n for n in ids if first <= n < latest.id):
            snapshot = read_snapshot_file(storage.files, storage.layout, number)
            if snapshot is not None:
                yield snapshot
    yield latest


@dataclass(frozen=True)
class AutomaticTags:
    """Creates the tags that are due by ``tag.automatic-creation``.

    Attributes:
        storage: The table.
        pointer: The authority on its latest snapshot.
        authority: Serialises tags with deletions.
    """

    storage: TableStorage
    pointer: SnapshotPointer
    authority: ReferenceAuthority

    def create_due(self) -> list[str]:
        """Create the tags that are due, and delete the oldest beyond ``tag.num-retained-max``.

        Returns:
            The names of the tags created.

        Raises:
            Invalid: An option has a value that it cannot have.
            CorruptData: A tag or a snapshot cannot be read.
        """
        options = LifecycleOptions(self.storage.schema.options)
        latest = self.pointer.latest()
        if latest is None or options.tag_creation is TagCreation.NONE:
            return []
        if options.tag_creation is TagCreation.BATCH:
            return self._tag_batch(options, latest)
        return self._tag_periods(options, latest)

    def _tag_periods(self, options: LifecycleOptions, latest: Snapshot) -> list[str]:
        """Tag the first snapshot after each period that has ended."""
        periods = TagPeriods.of(options)
        progress = _Progress.from_tags(self.storage, periods)
        created: list[str] = []
        newest = tag_time(self.storage, options, latest)
        if newest is None or not _is_due(progress, options, periods, newest):
            # Times follow ids: it was not due before.
            return created
        for snapshot in _from(self.storage, progress.next_snapshot, latest):
            time = tag_time(self.storage, options, snapshot)
            if time is None or not _is_due(progress, options, periods, time):
                continue
            due = progress.next_tag
            start = due if options.completes_tags and due is not None else periods.before(time)
            name = periods.name(start)
            if self._create(options, name, snapshot):
                created.append(name)
                self._keep_latest(options, periods)
            progress.next_tag = start + periods.length
        return created

    def _create(self, options: LifecycleOptions, name: str, snapshot: Snapshot) -> bool:
        is_new = self.authority.create_tag(name, snapshot, options.tag_time_retained)
        if is_new:
            tell_of_tag(self.storage, name)
        return is_new

    def _keep_latest(self, options: LifecycleOptions, periods: TagPeriods) -> None:
        """Delete the oldest automatic tags, beyond ``tag.num-retained-max``."""
        limit = options.tags_retained_max
        if limit is None:
            return
        tags = [
            tag
            for tag in list_tag_files(self.storage.files, self.storage.layout)
            if periods.time(tag.name) is not None
        ]
        tags.sort(key=lambda tag: (tag.snapshot.id, tag.name))
        for tag in tags[: max(len(tags) - limit, 0)]:
            self._delete(tag.name)

    def _tag_batch(self, options: LifecycleOptions, latest: Snapshot) -> list[str]:
        """Create the tag of a batch write, in the place of one of the same name."""
        storage, name = self.storage, options.batch_tag_name
        if name is None:
            time = tag_time(storage, options, latest)
            assert time is not None
            name = f"batch-write-{time:%Y-%m-%d}"
        self._delete(name)
        is_new = self._create(options, name, latest)
        limit = options.tags_retained_max
        if limit is not None:
            statuses = storage.files.list(storage.layout.tag_directory)
            changed = {
                status.name.removeprefix("tag-"): status.modified_millis for status in statuses
            }
            every = list_tag_files(storage.files, storage.layout)
            tags = [tag for tag in every if not tag.name.startswith(HOLD_PREFIX)]
            # Those of one snapshot in the order in which they were created.
            tags.sort(key=lambda tag: (tag.snapshot.id, changed.get(tag.name, 0), tag.name))
            for tag in tags[: max(len(tags) - limit, 0)]:
                self._delete(tag.name)
        return [name] if is_new else []

    def _delete(self, name: str) -> None:
        delete_tag(self.storage, self.pointer, self.authority, name)
