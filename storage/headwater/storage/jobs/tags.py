"""Tags that are made of themselves after commits, and those that go for them.

Nothing is remembered between commits: the tags say how far it is. Whoever commits makes the tags
that are due, and a tag that another has made meanwhile is left as it is, so that they may race and
die at any point.

Source: ``TagAutoCreation.java``, ``TagBatchCreation.java``, ``SuccessFileTagCallback.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.files.location import check_file_label
from headwater.storage.jobs.expire import delete_tag_data
from headwater.storage.maintenance.held_snapshots import is_held
from headwater.storage.maintenance.partition_done import delete_success_file, write_success_file
from headwater.storage.maintenance.tag_periods import TagPeriods, tag_time
from headwater.storage.options.lifecycle_options import LifecycleOptions, TagCreation
from headwater.storage.snapshot.files import read_snapshot_file, snapshot_file_ids
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import (
    HOLD_PREFIX,
    Tag,
    delete_tag_file,
    list_tag_files,
    read_tag_file,
    tag_names,
    write_tag_file,
)
from headwater.storage.table_storage import TableStorage

__all__ = [
    "TagEnds",
    "create_due_tags",
    "delete_tag",
    "rename_tag",
    "replace_tag",
    "restore_tag",
    "tell_of_tag",
]

_MILLISECOND = timedelta(milliseconds=1)


def create_due_tags(storage: TableStorage, latest: Snapshot | None) -> list[str]:
    """Make the tags that are due by ``tag.automatic-creation``.

    Args:
        storage: The table.
        latest: Its latest snapshot.

    Returns:
        The names of the tags made.

    Raises:
        Invalid: An option has a value that it cannot have.
        CorruptData: A tag or a snapshot cannot be read.
    """
    options = LifecycleOptions(storage.schema.options)
    if latest is None or options.tag_creation is TagCreation.NONE:
        return []
    if options.tag_creation is TagCreation.BATCH:
        return _tag_batch(storage, options, latest)
    return _tag_periods(storage, options, latest)


def tell_of_tag(storage: TableStorage, name: str) -> None:
    """Write the success file of a tag that was made, where ``tag.create-success-file`` asks for it.

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


def delete_tag(storage: TableStorage, name: str, latest: Snapshot | None) -> None:
    """Delete a tag, its success file, and the files that it alone kept.

    Nothing happens when there is no such tag.

    Raises:
        CorruptData: A tag, a branch or a manifest cannot be read.
    """
    tag = read_tag_file(storage.files, storage.layout, name)
    if tag is None:
        return
    delete_tag_file(storage.files, storage.layout, name)
    delete_success_file(storage.files, storage.layout.tag_success_file(name))
    delete_tag_data(storage, tag.snapshot, latest)


def rename_tag(storage: TableStorage, name: str, new_name: str) -> None:
    """Give a tag another name; one that is killed leaves the tag under both.

    Raises:
        AlreadyExists: There is a tag of the new name.
        CorruptData: The tag cannot be read.
        Invalid: The new name cannot be one of a tag.
        NotFound: There is no such tag.
    """
    tag = _existing(storage, name)
    if not write_tag_file(storage.files, storage.layout, replace(tag, name=new_name)):
        raise AlreadyExists(
            f"table {storage.name} has a tag '{new_name}' already",
            resource_type=ResourceType.TAG,
            resource_name=new_name,
        )
    if not is_held(storage.files, storage.layout, tag.snapshot, beside=new_name):
        # Somebody deleted it meanwhile, with what it kept.
        delete_tag_file(storage.files, storage.layout, new_name)
        raise _no_such_tag(storage, name)
    tell_of_tag(storage, new_name)
    delete_tag_file(storage.files, storage.layout, name)
    delete_success_file(storage.files, storage.layout.tag_success_file(name))


def replace_tag(
    storage: TableStorage, name: str, snapshot: Snapshot, retained_millis: int | None
) -> Tag:
    """Let a tag name another snapshot; the tag as it was.

    Args:
        storage: The table.
        name: The tag.
        snapshot: The snapshot.
        retained_millis: The time for which the tag is kept from now on, milliseconds; None takes
            the table's ``tag.default-time-retained``.

    Raises:
        CorruptData: The tag cannot be read.
        NotFound: There is no such tag.
    """
    before = _existing(storage, name)
    if retained_millis is None:
        retained_millis = storage.schema.table_options.tag_time_retained
    tag = Tag(name, snapshot, storage.runtime.now_millis(), retained_millis)
    storage.files.write(storage.layout.tag(name), tag.to_json().encode())
    tell_of_tag(storage, name)
    return before


def restore_tag(storage: TableStorage, tag: Tag) -> None:
    """Make a tag again what it was before `replace_tag`."""
    storage.files.write(storage.layout.tag(tag.name), tag.to_json().encode())


def _existing(storage: TableStorage, name: str) -> Tag:
    check_file_label(name, "tag", is_new=False)
    tag = read_tag_file(storage.files, storage.layout, name)
    if tag is None:
        raise _no_such_tag(storage, name)
    return tag


def _no_such_tag(storage: TableStorage, name: str) -> NotFound:
    return NotFound(
        f"table {storage.name} has no tag '{name}'",
        resource_type=ResourceType.TAG,
        resource_name=name,
    )


def _tag_periods(storage: TableStorage, options: LifecycleOptions, latest: Snapshot) -> list[str]:
    """Make the tags of periods that have ended: each names the first snapshot after its period."""
    periods = TagPeriods.of(options)
    progress = _Progress.of(storage, periods)
    made: list[str] = []
    newest = tag_time(storage, options, latest)
    if newest is None or not _is_due(progress, options, periods, newest):
        # Times follow ids: it was not due before.
        return made
    for snapshot in _from(storage, progress.next_snapshot, latest):
        time = tag_time(storage, options, snapshot)
        if time is None or not _is_due(progress, options, periods, time):
            continue
        due = progress.next_tag
        start = due if options.completes_tags and due is not None else periods.before(time)
        name = periods.name(start)
        if _make(storage, options, name, snapshot):
            made.append(name)
            _keep_latest(storage, options, periods, latest)
        progress.next_tag = start + periods.length
    return made


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
    def of(storage: TableStorage, periods: TagPeriods) -> _Progress:
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
            found = read_snapshot_file(storage.files, storage.layout, number)
            if found is not None:
                yield found
    yield latest


def _make(storage: TableStorage, options: LifecycleOptions, name: str, snapshot: Snapshot) -> bool:
    retained = options.tag_time_retained
    created = None if retained is None else storage.runtime.now_millis()
    files, layout = storage.files, storage.layout
    made = write_tag_file(files, layout, Tag(name, snapshot, created, retained))
    if made and not is_held(files, layout, snapshot, beside=name):
        # It expires, as if it had done so before.
        delete_tag_file(files, layout, name)
        made = False
    if made:
        tell_of_tag(storage, name)
    return made


def _keep_latest(
    storage: TableStorage, options: LifecycleOptions, periods: TagPeriods, latest: Snapshot
) -> None:
    """Delete the oldest automatic tags, beyond ``tag.num-retained-max``."""
    most = options.tags_retained_max
    if most is None:
        return
    tags = [
        tag
        for tag in list_tag_files(storage.files, storage.layout)
        if periods.time(tag.name) is not None
    ]
    tags.sort(key=lambda tag: (tag.snapshot.id, tag.name))
    for tag in tags[: max(len(tags) - most, 0)]:
        delete_tag(storage, tag.name, latest)


def _tag_batch(storage: TableStorage, options: LifecycleOptions, latest: Snapshot) -> list[str]:
    """Make the tag of a batch write, in the place of one of the same name."""
    name = options.batch_tag_name
    if name is None:
        time = tag_time(storage, options, latest)
        assert time is not None
        name = f"batch-write-{time:%Y-%m-%d}"
    delete_tag(storage, name, latest)
    made = _make(storage, options, name, latest)
    most = options.tags_retained_max
    if most is not None:
        statuses = storage.files.list(storage.layout.tag_directory)
        changed = {status.name.removeprefix("tag-"): status.modified_millis for status in statuses}
        every = list_tag_files(storage.files, storage.layout)
        tags = [tag for tag in every if not tag.name.startswith(HOLD_PREFIX)]
        # Those of one snapshot in the order in which they were made.
        tags.sort(key=lambda tag: (tag.snapshot.id, changed.get(tag.name, 0), tag.name))
        for tag in tags[: max(len(tags) - most, 0)]:
            delete_tag(storage, tag.name, latest)
    return [name] if made else []
