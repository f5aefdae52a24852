"""Tags: they live on storage alone, where every engine makes and deletes them."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import Detail, EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.snapshot_reads import (
    SnapshotReads,
    readable_table,
    refuse_expiring,
    settled_table,
    snapshot_not_found,
)
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.listing import name_page
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch
from headwater.catalog.sql.queries.names import check_page
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound, ResourceType
from headwater.storage.snapshot.tag import (
    Tag,
    check_tag_name,
    delete_tag_file,
    read_tag_file,
    tag_names,
    write_tag_file,
)

__all__ = ["SqlTags"]


class SqlTags:
    """Implements `headwater.catalog.model.tags.Tags`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Settles open decisions before anything is shown.
        snapshots: Says which snapshots exist.
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
    ) -> None:
        """Name a snapshot; NotFound (SNAPSHOT), AlreadyExists (TAG)."""
        check_tag_name(tag)
        if retained_millis is not None and retained_millis < 1:
            raise Invalid(f"tag '{tag}': it must be kept for at least 1 ms")
        record = settled_table(self._context, self._outbox, identifier)
        wanted = record.snapshot_id if snapshot_id is None else snapshot_id
        snapshot = self._snapshots.kept(record, wanted)
        if snapshot is None and snapshot_id is None and wanted == 0:
            raise NotFound(
                f"table {identifier} has no snapshot yet that tag '{tag}' could name",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(wanted),
            )
        if snapshot is None:
            raise snapshot_not_found(identifier, str(wanted))
        if retained_millis is None:
            with self._context.database.read() as connection:
                options = read_schema(connection, record).table_options
            retained_millis = options.tag_time_retained
        created_at = self._context.runtime.now_millis()
        wanted_tag = Tag(tag, snapshot, created_at, retained_millis)

        is_written = False

        def work(connection: Connection) -> bool:
            nonlocal is_written
            # Under the lock, so that no rollback takes the snapshot away at the same time.
            lock_branch(connection, record.id, record.branch)
            now = find_table(connection, self._context, identifier)
            row = connection.execute(
                select(SnapshotRow.uuid).where(
                    SnapshotRow.table_id == now.id,
                    SnapshotRow.branch == now.branch,
                    SnapshotRow.snapshot_id == snapshot.id,
                )
            ).one_or_none()
            is_same = now.id == record.id and now.snapshot_id >= snapshot.id
            if not is_same or (row is not None and row.uuid != snapshot.uuid):
                raise Conflict(f"table {identifier} was rolled back meanwhile; look, then retry")
            # It may be called again, and finds its own file then.
            if not is_written and not write_tag_file(self._files, record.layout, wanted_tag):
                return False
            is_written = True
            try:
                refuse_expiring(self._files, record, snapshot, beside=tag)
            except NotFound:
                delete_tag_file(self._files, record.layout, tag)
                raise
            self._recorded(connection, record, EventType.CREATE_TAG, wanted_tag)
            return True

        if not self._context.database.write(work):
            raise AlreadyExists(
                f"table {identifier} has a tag '{tag}' already",
                resource_type=ResourceType.TAG,
                resource_name=tag,
            )

    def get(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        record = readable_table(self._context, self._outbox, identifier)
        found = None
        if tag and "/" not in tag:
            found = read_tag_file(self._files, record.layout, tag)
        if found is None:
            raise _tag_not_found(identifier, tag)
        return TagInfo(tag, found.snapshot, found.created_at, found.retained_millis)

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

    def delete(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""
        record = settled_table(self._context, self._outbox, identifier)
        if not tag or "/" in tag or not self._files.exists(record.layout.tag(tag)):
            raise _tag_not_found(identifier, tag)

        def work(connection: Connection) -> None:
            lock_branch(connection, record.id, record.branch)
            delete_tag_file(self._files, record.layout, tag)
            self._recorded(connection, record, EventType.DELETE_TAG, tag)

        self._context.database.write(work)

    def _recorded(
        self, connection: Connection, record: TableRecord, type_: EventType, tag: str | Tag
    ) -> None:
        name = tag if isinstance(tag, str) else tag.name
        details: dict[str, Detail] = {"tag": name, **of_branch(record.branch)}
        if isinstance(tag, Tag):
            details["snapshot"] = tag.snapshot.id
            if tag.retained_millis is not None:
                details["retained"] = tag.retained_millis
        subject = Subject.table(record.identifier, record.id)
        record_event(connection, self._context, type_, subject, details)


def _tag_not_found(identifier: Identifier, name: str) -> NotFound:
    return NotFound(
        f"table {identifier} has no tag '{name}'",
        resource_type=ResourceType.TAG,
        resource_name=name,
    )
