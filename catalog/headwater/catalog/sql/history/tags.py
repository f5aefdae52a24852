"""Tags: they live on storage alone, where every engine reads and writes them.

The catalog's own changes are decided in its database like every change of references, and applied
to storage by the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from sqlalchemy.engine import Connection

from headwater.catalog.model.events import Detail, EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.references import (
    MAX_ATTEMPTS,
    raise_version,
    reference_table,
)
from headwater.catalog.sql.history.snapshot_reads import (
    SnapshotReads,
    readable_table,
    snapshot_not_found,
)
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.listing import name_page
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch, table_busy
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.maintenance.deletion import Removal
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag, check_tag_name, read_tag_file, tag_names

__all__ = ["SqlTags"]

_Decide = Callable[[Connection, TableRecord], None]
T = TypeVar("T")


class SqlTags:
    """Implements `headwater.catalog.model.tags.Tags`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Applies open decisions before anything is shown.
        snapshots: Reads which snapshots exist.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox, snapshots: SnapshotReads) -> None:
        self._context = context
        self._files = context.files
        self._outbox = outbox
        self._snapshots = snapshots

    def create(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
        snapshot_uuid: str | None = None,
    ) -> None:
        """Name a snapshot; NotFound (SNAPSHOT), AlreadyExists (TAG)."""
        check_tag_name(tag)
        _check_retention(tag, retained_millis)

        def look(record: TableRecord) -> tuple[_Decide, Tag]:
            if self._read(record, tag) is not None:
                raise _tag_exists(identifier, tag)
            new_tag = self._tag(record, tag, snapshot_id, retained_millis)
            if snapshot_uuid not in (None, new_tag.snapshot.uuid):
                raise NotFound(
                    f"table {identifier}: snapshot {new_tag.snapshot.id} is another one than "
                    f"{snapshot_uuid}: the table was rolled back; look, then retry",
                    resource_type=ResourceType.SNAPSHOT,
                    resource_name=str(new_tag.snapshot.id),
                )
            return partial(self._write, tag=new_tag, type_=EventType.CREATE_TAG), new_tag

        record, new_tag = self._decide(identifier, look, f"tag '{tag}' is created")
        there = self._read(record, tag)
        if there is not None and not there.snapshot.is_same_commit(new_tag.snapshot):
            # Another engine wrote it on storage at the same time.
            raise _tag_exists(identifier, tag)

    def replace(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Let a tag name another snapshot; NotFound (TAG, SNAPSHOT)."""
        _check_retention(tag, retained_millis)

        def look(record: TableRecord) -> tuple[_Decide, None]:
            self._existing(record, tag)
            new_tag = self._tag(record, tag, snapshot_id, retained_millis)
            return partial(self._write, tag=new_tag, type_=EventType.REPLACE_TAG), None

        self._decide(identifier, look, f"tag '{tag}' is replaced")

    def rename(self, identifier: Identifier, tag: str, new_name: str) -> None:
        """Rename a tag; NotFound (TAG), AlreadyExists (TAG), Invalid."""
        check_tag_name(new_name)

        def look(record: TableRecord) -> tuple[_Decide, Tag]:
            existing = self._existing(record, tag)
            if self._read(record, new_name) is not None:
                raise _tag_exists(identifier, new_name)
            return partial(self._rename, tag=existing, new_name=new_name), existing

        record, existing = self._decide(identifier, look, f"tag '{tag}' is renamed")
        there = self._read(record, new_name)
        if there is not None and not there.snapshot.is_same_commit(existing.snapshot):
            raise _tag_exists(identifier, new_name)

    def delete(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""

        def look(record: TableRecord) -> tuple[_Decide, None]:
            return partial(self._delete, tag=self._existing(record, tag)), None

        self._decide(identifier, look, f"tag '{tag}' is deleted")

    def get(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        existing = self._existing(readable_table(self._context, self._outbox, identifier), tag)
        return TagInfo(tag, existing.snapshot, existing.created_at, existing.retained_millis)

    def list(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names in their order."""
        check_page(max_results)
        record = readable_table(self._context, self._outbox, identifier)
        names = tag_names(self._files, record.layout)
        if prefix:
            names = [name for name in names if name.startswith(prefix)]
        if page_token:
            names = [name for name in names if name > page_token]
        return name_page(names, max_results)

    # What a change is based on

    def _decide(
        self,
        identifier: Identifier,
        look: Callable[[TableRecord], tuple[_Decide, T]],
        done: str,
    ) -> tuple[TableRecord, T]:
        """Look at storage and decide, again and again until no reference changed in between."""
        for _ in range(MAX_ATTEMPTS):
            record = reference_table(self._context, self._outbox, identifier)
            decide, seen = look(record)
            if self._context.database.write(partial(self._unless_changed, record, decide)):
                self._outbox.finish(record.id, record.branch, done)
                return record, seen
        raise table_busy(identifier)

    def _unless_changed(self, seen: TableRecord, decide: _Decide, connection: Connection) -> bool:
        lock_branch(connection, seen.id, seen.branch)
        record = find_table(connection, self._context, seen.identifier)
        if record.id != seen.id or not raise_version(connection, seen):
            return False
        decide(connection, record)
        return True

    def _tag(
        self, record: TableRecord, tag: str, snapshot_id: int | None, retained_millis: int | None
    ) -> Tag:
        snapshot = self._tagged(record, tag, snapshot_id)
        if retained_millis is None:
            with self._context.database.read() as connection:
                options = read_schema(connection, record).table_options
            retained_millis = options.tag_time_retained
        return Tag(tag, snapshot, self._context.runtime.now_millis(), retained_millis)

    def _tagged(self, record: TableRecord, tag: str, snapshot_id: int | None) -> Snapshot:
        number = record.snapshot_id if snapshot_id is None else snapshot_id
        snapshot = self._snapshots.kept(record, number)
        if snapshot is not None:
            return snapshot
        if snapshot_id is None and number == 0:
            raise NotFound(
                f"table {record.identifier} has no snapshot yet that tag '{tag}' could name",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(number),
            )
        raise snapshot_not_found(record.identifier, str(number))

    def _read(self, record: TableRecord, tag: str) -> Tag | None:
        if not tag or "/" in tag:
            return None
        return read_tag_file(self._files, record.layout, tag)

    def _existing(self, record: TableRecord, tag: str) -> Tag:
        existing = self._read(record, tag)
        if existing is None:
            raise NotFound(
                f"table {record.identifier} has no tag '{tag}'",
                resource_type=ResourceType.TAG,
                resource_name=tag,
            )
        return existing

    # Decisions

    def _write(
        self, connection: Connection, record: TableRecord, *, tag: Tag, type_: EventType
    ) -> None:
        self._outbox.add(
            connection,
            Action.TAG,
            record.id,
            record.branch,
            number=0 if type_ is EventType.CREATE_TAG else 1,
            path=tag.name,
            document=tag.to_json(),
        )
        details: dict[str, Detail] = {"tag": tag.name, "snapshot": tag.snapshot.id}
        if tag.retained_millis is not None:
            details["retained"] = tag.retained_millis
        self._record(connection, record, type_, details)

    def _rename(
        self, connection: Connection, record: TableRecord, *, tag: Tag, new_name: str
    ) -> None:
        self._outbox.add(
            connection,
            Action.RENAME_TAG,
            record.id,
            record.branch,
            path=tag.name,
            document=new_name,
        )
        details = {"tag": tag.name, "to": new_name}
        self._record(connection, record, EventType.RENAME_TAG, details)

    def _delete(self, connection: Connection, record: TableRecord, *, tag: Tag) -> None:
        removal = Removal(tags={tag.name: tag.snapshot.id})
        self._outbox.add(
            connection,
            Action.DELETE_ROOTS,
            record.id,
            record.branch,
            document=removal.to_json(),
        )
        self._record(connection, record, EventType.DELETE_TAG, {"tag": tag.name})

    def _record(
        self,
        connection: Connection,
        record: TableRecord,
        type_: EventType,
        details: Mapping[str, Detail],
    ) -> None:
        subject = Subject.table(record.identifier, record.id)
        record_event(
            connection, self._context, type_, subject, {**details, **of_branch(record.branch)}
        )


def _check_retention(tag: str, retained_millis: int | None) -> None:
    if retained_millis is not None and retained_millis < 1:
        raise Invalid(f"tag '{tag}': it must be kept for at least 1 ms")


def _tag_exists(identifier: Identifier, tag: str) -> AlreadyExists:
    return AlreadyExists(
        f"table {identifier} has a tag '{tag}' already",
        resource_type=ResourceType.TAG,
        resource_name=tag,
    )
