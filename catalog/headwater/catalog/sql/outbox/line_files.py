"""The files of a branch's line of schemas and snapshots, as decisions about them ask for."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import SchemaRow, SnapshotRow
from headwater.catalog.sql.outbox.mirror_files import (
    delete_later_tags,
    delete_snapshots_after,
    lower_changelog_hint,
    numbered_files,
    put,
)
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.files import read_hint

__all__ = ["roll_back", "roll_schema_back", "snapshot_document", "write_schema"]


def write_schema(
    connection: Connection, files: FileAccess, table_id: str, layout: TableLayout, number: int
) -> None:
    """Write a schema's file."""
    document = connection.execute(
        select(SchemaRow.document).where(
            SchemaRow.table_id == table_id,
            SchemaRow.branch == layout.branch,
            SchemaRow.schema_id == number,
        )
    ).scalar_one()
    put(files, layout.schema(number), document)


def roll_back(
    connection: Connection, files: FileAccess, table_id: str, layout: TableLayout, number: int
) -> None:
    """Make a snapshot the latest one that has a file."""
    # RollbackHelper.java: the hint first, then snapshots from the newest, changelogs, tags.
    document = snapshot_document(connection, table_id, layout, number)
    ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
    lower_changelog_hint(files, layout, number)
    if number not in ids:
        # The snapshot expired and only a tag kept it.
        put(files, layout.snapshot(number), document)
    hinted = read_hint(files, layout.earliest_hint)
    if number not in ids or (hinted is not None and hinted > number):
        # Those before it are gone.
        files.write(layout.earliest_hint, str(number).encode())
    files.write(layout.latest_hint, str(number).encode())
    delete_snapshots_after(files, layout, number)
    delete_later_tags(files, layout, number)
    # Once more: putting a file makes the deletions beside it durable too.
    files.write(layout.latest_hint, str(number).encode())


def roll_schema_back(files: FileAccess, layout: TableLayout, number: int) -> None:
    """Make a schema the latest one that has a file."""
    # SchemaManager.java deletes the newest first, too.
    there = numbered_files(files.list(layout.schema_directory), "schema-")
    for later in sorted((i for i in there if i > number), reverse=True):
        files.delete(layout.schema(later))


def snapshot_document(
    connection: Connection, table_id: str, layout: TableLayout, number: int
) -> str:
    """The text of a snapshot's file."""
    return connection.execute(
        select(SnapshotRow.document).where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == layout.branch,
            SnapshotRow.snapshot_id == number,
        )
    ).scalar_one()
