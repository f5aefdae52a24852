"""Consumers: saved positions in a table's history, each a file ``consumer/consumer-<id>``.

The file is ``{"nextSnapshot": n}``: the first snapshot that the consumer has not consumed.
Headwater adds ``lastSnapshotUuid``, by which it is noticed that the one before was rolled back, and
``fullRead`` while a reader still reads all rows of that snapshot, with which it began. Other
engines pass over both, and leave them out when they move the consumer.
Source: ``Consumer.java``, ``ConsumerManager.java``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.location import check_file_label
from headwater.storage.printable import has_unprintable
from headwater.storage.types.data_type import Json

__all__ = [
    "Consumer",
    "check_consumer",
    "check_consumer_file",
    "check_consumer_id",
    "consumer_statuses",
    "delete_consumer_file",
    "list_consumer_files",
    "read_consumer_file",
    "write_consumer_file",
]

_PREFIX = "consumer-"
# Java reads it as a long; what it cannot read, it takes for a broken file.
_LARGEST = 2**63 - 1
_REPAIR = (
    "until it is repaired, no snapshot of the table expires: set it with 'headwater consumer "
    "reset', or delete it with 'headwater consumer delete'"
)


@dataclass(frozen=True)
class Consumer:
    """A saved position.

    Attributes:
        consumer_id: The name readers use.
        next_snapshot: The first snapshot not yet consumed.
        updated_at: The last change of its file, milliseconds since the epoch; None if unknown.
        last_uuid: The uuid of the last snapshot that was consumed, or is read in full; None if
            unknown.
        full_read: Whether all rows of the next snapshot are read, not its changes.
    """

    consumer_id: str
    next_snapshot: int
    updated_at: int | None = None
    last_uuid: str | None = None
    full_read: bool = False

    @property
    def last_snapshot(self) -> int:
        """The snapshot whose uuid is `last_uuid`."""
        return self.next_snapshot if self.full_read else self.next_snapshot - 1

    def to_json(self) -> str:
        """The text of the consumer file."""
        document: dict[str, Json] = {"nextSnapshot": self.next_snapshot}
        if self.last_uuid is not None:
            document["lastSnapshotUuid"] = self.last_uuid
        if self.full_read:
            document["fullRead"] = True
        return json.dumps(document, indent=2)

    @staticmethod
    def from_json(
        consumer_id: str,
        text: str | bytes,
        where: str = "a consumer",
        updated_at: int | None = None,
    ) -> Consumer:
        """Read a consumer file; raises CorruptData, naming `where`, when the text is not one."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise CorruptData(f"{where} is not valid JSON: {error}; {_REPAIR}") from error
        following = document.get("nextSnapshot") if isinstance(document, dict) else None
        if not isinstance(following, int) or isinstance(following, bool):
            raise CorruptData(f"{where} lacks an integer 'nextSnapshot'; {_REPAIR}")
        last = document.get("lastSnapshotUuid")
        uuid = last if isinstance(last, str) else None
        full_read = document.get("fullRead") is True
        return Consumer(consumer_id, following, updated_at, uuid, full_read)


def check_consumer_id(consumer_id: str) -> None:
    """Reject an id that cannot name a file; raises Invalid."""
    check_file_label(consumer_id, "consumer")
    if has_unprintable(consumer_id):
        raise Invalid(
            f"{consumer_id!r} is not a consumer id: it must not contain a control, format or "
            "separator character"
        )


def read_consumer_file(files: FileAccess, layout: TableLayout, consumer_id: str) -> Consumer | None:
    """A consumer from its file, without its time; None when it does not exist.

    Raises:
        CorruptData: The file is not a consumer's.
    """
    path = layout.consumer(consumer_id)
    try:
        return Consumer.from_json(consumer_id, files.read(path), path)
    except NotFound:
        return None


def check_consumer_file(
    files: FileAccess, layout: TableLayout, consumer_id: str
) -> Consumer | None:
    """A consumer from its file, as `read_consumer_file`, if its position can be one.

    Raises:
        CorruptData: The file is not a consumer's, or its position is not the id of a snapshot.
    """
    consumer = read_consumer_file(files, layout, consumer_id)
    if consumer is not None and not 1 <= consumer.next_snapshot <= _LARGEST:
        raise CorruptData(
            f"{layout.consumer(consumer_id)} has 'nextSnapshot' {consumer.next_snapshot}, which "
            f"cannot be the id of a snapshot; {_REPAIR}"
        )
    return consumer


def consumer_statuses(files: FileAccess, layout: TableLayout) -> list[tuple[str, int]]:
    """The ids of all consumers of a table and branch, in order, and when each file changed.

    Times are milliseconds since the epoch.
    """
    statuses = files.list(layout.consumer_directory)
    return sorted(
        (status.name.removeprefix(_PREFIX), status.modified_millis)
        for status in statuses
        if status.name.startswith(_PREFIX)
    )


def list_consumer_files(files: FileAccess, layout: TableLayout) -> list[Consumer]:
    """All consumers of a table and branch, by id, each with the time its file changed.

    Raises:
        CorruptData: A file is not a consumer's.
    """
    consumers: list[Consumer] = []
    for status in files.list(layout.consumer_directory):
        if not status.name.startswith(_PREFIX):
            continue
        try:
            text = files.read(status.path)
        except NotFound:  # deleted since the listing
            continue
        consumer_id = status.name.removeprefix(_PREFIX)
        consumers.append(Consumer.from_json(consumer_id, text, status.path, status.modified_millis))
    return sorted(consumers, key=lambda consumer: consumer.consumer_id)


def check_consumer(consumer: Consumer) -> None:
    """Reject a position that cannot be saved; raises Invalid."""
    check_file_label(consumer.consumer_id, "consumer")
    if consumer.next_snapshot < 1:
        raise Invalid(
            f"consumer '{consumer.consumer_id}': snapshot ids start at 1, not "
            f"{consumer.next_snapshot}"
        )
    if consumer.next_snapshot > _LARGEST:
        raise Invalid(
            f"consumer '{consumer.consumer_id}': {consumer.next_snapshot} is more than a snapshot "
            "id can be"
        )


def write_consumer_file(files: FileAccess, layout: TableLayout, consumer: Consumer) -> None:
    """Create or move a consumer."""
    check_consumer(consumer)
    files.write(layout.consumer(consumer.consumer_id), consumer.to_json().encode())


def delete_consumer_file(files: FileAccess, layout: TableLayout, consumer_id: str) -> None:
    """Delete a consumer; nothing happens when it does not exist."""
    check_file_label(consumer_id, "consumer", is_new=False)
    files.delete(layout.consumer(consumer_id))
