"""Tags: snapshots with a name, each a file ``tag/tag-<name>``.

A tag file is the snapshot's JSON; a tag that is kept for a limited time adds ``tagCreateTime``
(local wall clock, as an array) and ``tagTimeRetained`` (seconds). Source: ``Tag.java``,
``TagManager.java``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.location import check_file_label
from headwater.storage.printable import has_unprintable
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json

__all__ = [
    "HOLD_PREFIX",
    "Tag",
    "check_tag_name",
    "delete_tag_file",
    "expired_tags",
    "list_tag_files",
    "read_every_tag",
    "read_tag_file",
    "tag_names",
    "write_tag_file",
]

_CREATED = "tagCreateTime"
_RETAINED = "tagTimeRetained"
HOLD_PREFIX = "headwater-hold-"
"""How the names of tags begin that a job creates to keep files while it runs."""

_PREFIX = "tag-"


@dataclass(frozen=True)
class Tag:
    """A named snapshot.

    Attributes:
        name: The tag.
        snapshot: The snapshot that it names.
        created_at: Milliseconds since the epoch; None when the file does not say, which is the
            rule for a tag without `retained_millis` (readers before Paimon 0.8 need that).
        retained_millis: Milliseconds it is kept; None is for ever.
    """

    name: str
    snapshot: Snapshot
    created_at: int | None = None
    retained_millis: int | None = None

    def to_json(self) -> str:
        """The text of the tag file."""
        text = self.snapshot.to_json()
        if self.retained_millis is None:
            return text
        more: dict[str, Json] = {}
        if self.created_at is not None:
            more[_CREATED] = _local_time_array(self.created_at)
        more[_RETAINED] = self.retained_millis / 1000
        # Added to the snapshot's own text, whose values must not change.
        fields = "".join(f',\n  "{name}": {json.dumps(value)}' for name, value in more.items())
        return f"{text.rstrip().removesuffix('}').rstrip()}{fields}\n}}"

    @staticmethod
    def from_json(name: str, text: str | bytes, where: str = "a tag") -> Tag:
        """Read a tag file; raises CorruptData, naming `where`, when the text is not one."""
        snapshot = Snapshot.from_json(text, where)
        created = snapshot.document.get(_CREATED)
        retained = snapshot.document.get(_RETAINED)
        if _CREATED in snapshot.document or _RETAINED in snapshot.document:
            own = (_CREATED, _RETAINED)
            snapshot = Snapshot({k: v for k, v in snapshot.document.items() if k not in own})
        return Tag(
            name,
            snapshot,
            None if created is None else _millis_of_array(created, where),
            None if retained is None else _millis_of_seconds(retained, where),
        )

    def is_expired(self, now_millis: int) -> bool:
        """Whether it has been kept for long enough."""
        if self.created_at is None or self.retained_millis is None:
            return False
        return now_millis > self.created_at + self.retained_millis


def check_tag_name(name: str) -> None:
    """Refuse a name that cannot be a new tag's; raises Invalid."""
    check_file_label(name, "tag")
    if has_unprintable(name):
        raise Invalid(
            f"{name!r} is not a tag name: it must not contain a control, format or separator "
            "character"
        )


def read_tag_file(files: FileAccess, layout: TableLayout, name: str) -> Tag | None:
    """A tag from its file; None when it does not exist.

    Raises:
        CorruptData: The file is not a tag.
    """
    path = layout.tag(name)
    try:
        return Tag.from_json(name, files.read(path), path)
    except NotFound:
        return None


def tag_names(files: FileAccess, layout: TableLayout) -> list[str]:
    """The names of a table's and branch's tags, in order."""
    return sorted(
        status.name.removeprefix(_PREFIX)
        for status in files.list(layout.tag_directory)
        if status.name.startswith(_PREFIX)
    )


def list_tag_files(files: FileAccess, layout: TableLayout) -> list[Tag]:
    """All tags of a table and branch, by name.

    Raises:
        CorruptData: A file is not a tag.
    """
    names = tag_names(files, layout)
    # A tag deleted since the listing is not a tag any more.
    return [tag for name in names if (tag := read_tag_file(files, layout, name)) is not None]


def read_every_tag(files: FileAccess, layout: TableLayout) -> list[Tag]:
    """All tags of a table and branch, by name, to keep what they need.

    Raises:
        CorruptData: A file is not a tag, or went since the listing.
    """
    tags: list[Tag] = []
    for name in tag_names(files, layout):
        path = layout.tag(name)
        try:
            tags.append(Tag.from_json(name, files.read(path), path))
        except NotFound as error:
            raise CorruptData(f"{path} was deleted or renamed while tags were read") from error
    return tags


def expired_tags(storage: TableStorage, before_millis: int | None = None) -> list[str]:
    """The names of the tags whose time is over (``TagTimeExpire.java``).

    Args:
        storage: The table.
        before_millis: Tags made before that are meant, too, whatever they say. A tag that does
            not say when it was made is as old as its file.

    Raises:
        CorruptData: A file is not a tag.
    """
    statuses = storage.files.list(storage.layout.tag_directory)
    made = {status.name.removeprefix(_PREFIX): status.modified_millis for status in statuses}
    now = storage.runtime.earliest_millis()
    names: list[str] = []
    for tag in list_tag_files(storage.files, storage.layout):
        timed = tag.created_at is not None and tag.retained_millis is not None
        created = tag.created_at if timed else made.get(tag.name)
        is_old = before_millis is not None and created is not None and created < before_millis
        if tag.is_expired(now) or is_old:
            names.append(tag.name)
    return names


def write_tag_file(files: FileAccess, layout: TableLayout, tag: Tag) -> bool:
    """Create a tag's file; False, changing nothing, when the name is taken."""
    check_tag_name(tag.name)
    return files.write_if_absent(layout.tag(tag.name), tag.to_json().encode())


def delete_tag_file(files: FileAccess, layout: TableLayout, name: str) -> None:
    """Delete a tag's file; nothing happens when it does not exist."""
    check_file_label(name, "tag", is_new=False)
    files.delete(layout.tag(name))


def _local_time_array(millis: int) -> list[Json]:
    # Jackson leaves out trailing seconds and nanoseconds that are zero.
    at = datetime.fromtimestamp(millis // 1000)
    nanos = millis % 1000 * 1_000_000
    parts: list[Json] = [at.year, at.month, at.day, at.hour, at.minute]
    if at.second or nanos:
        parts.append(at.second)
    if nanos:
        parts.append(nanos)
    return parts


def _millis_of_array(value: Json, where: str) -> int:
    if not isinstance(value, list) or not 5 <= len(value) <= 7:
        raise CorruptData(f"{where}: '{_CREATED}' must be an array of 5 to 7 integers")
    parts = [item for item in value if isinstance(item, int) and not isinstance(item, bool)]
    if len(parts) != len(value):
        raise CorruptData(f"{where}: '{_CREATED}' must be an array of 5 to 7 integers")
    year, month, day, hour, minute = parts[:5]
    second = parts[5] if len(parts) > 5 else 0
    nanos = parts[6] if len(parts) > 6 else 0
    try:
        seconds = int(datetime(year, month, day, hour, minute, second).timestamp())
    except ValueError as error:
        raise CorruptData(f"{where}: '{_CREATED}' is not a time: {error}") from error
    return seconds * 1000 + nanos // 1_000_000


def _millis_of_seconds(value: Json, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptData(f"{where}: '{_RETAINED}' must be a number of seconds")
    return round(value * 1000)
