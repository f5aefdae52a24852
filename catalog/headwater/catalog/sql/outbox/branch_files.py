"""Storage following decisions about branches; each function can be repeated from any point.

A branch's schemas and snapshots are in the database, word for word as they stand in its files.
Its tags and consumers are files alone: they are copied. The caller holds the branch row's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import SchemaRow, SnapshotRow
from headwater.catalog.sql.outbox.mirror_files import (
    delete_later_tags,
    delete_snapshots_after,
    lower_changelog_hint,
    numbered_files,
    put,
)
from headwater.catalog.sql.queries.index_hint import along
from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.snapshot.tag import tag_names

__all__ = ["follow_fork", "follow_forward", "follow_move"]

_ROWS_AT_ONCE = 200


def follow_fork(
    connection: Connection,
    files: FileAccess,
    table_id: str,
    layout: TableLayout,
    snapshot_id: int,
    tag_path: str,
) -> None:
    """Write a new branch's files: its schemas, its first snapshot and the tag it came from.

    Args:
        connection: The transaction.
        files: The storage.
        table_id: The table.
        layout: The branch.
        snapshot_id: Its first snapshot; 0 for none.
        tag_path: The tag's file; empty for none. One that was deleted meanwhile is not copied.
    """
    for schema_id, document in _schemas(connection, table_id, layout.branch):
        put(files, layout.schema(schema_id), document)
    if snapshot_id:
        for number, document in _snapshots(connection, table_id, layout.branch, snapshot_id - 1):
            put(files, layout.snapshot(number), document)
            files.write(layout.earliest_hint, str(number).encode())
            files.write(layout.latest_hint, str(number).encode())
    if tag_path:
        name = tag_path.rsplit("/", 1)[-1]
        _copy(files, tag_path, f"{layout.tag_directory}/{name}")


def follow_move(files: FileAccess, layout: TableLayout, source: str) -> None:
    """Bring a renamed branch's files to their new directory, then delete the old one.

    Args:
        files: The storage.
        layout: The branch under its new name.
        source: Its old directory.
    """
    for status in list(files.walk(source)):
        path = f"{layout.branch_location}/{status.path.removeprefix(source).lstrip('/')}"
        _copy(files, status.path, path)
    files.delete_tree(source)


def follow_forward(
    connection: Connection,
    files: FileAccess,
    table_id: str,
    layout: TableLayout,
    common: int,
    source: str,
) -> None:
    """Make a branch's files those of another branch.

    Args:
        connection: The transaction.
        files: The storage.
        table_id: The table.
        layout: The branch that is forwarded.
        common: The last snapshot that both have in common; 0 for none.
        source: The other branch's directory, for its tags.
    """
    # FileSystemBranchManager.java: what goes, then schemas, snapshots and tags. The hint of the
    # latest is deleted first, so that readers look for what is there.
    files.delete(layout.latest_hint)
    following = _first_after(connection, table_id, layout.branch, common)
    lower_changelog_hint(files, layout, common)
    delete_snapshots_after(files, layout, common)
    if following is not None and following != common + 1:
        # The other branch's snapshots between have expired: ids must not have gaps.
        delete_snapshots_after(files, layout, 0)
    # Where nothing in common is known, tags from before the branch began stay.
    delete_later_tags(files, layout, common or max(following or 0, 1) - 1)
    _replace_schemas(connection, files, table_id, layout)
    ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
    start = common if following is not None or common in ids else common - 1
    for number, document in _snapshots(connection, table_id, layout.branch, start):
        put(files, layout.snapshot(number), document)
        ids.append(number)
    for name in tag_names(files, TableLayout(layout.location, _branch_of(source))):
        with suppress(NotFound):  # another engine deleted it
            files.write(layout.tag(name), files.read(f"{source}/tag/tag-{name}"))
    if ids:
        files.write(layout.earliest_hint, str(min(ids)).encode())
        files.write(layout.latest_hint, str(max(ids)).encode())


def _branch_of(directory: str) -> str:
    return directory.rsplit("/branch-", 1)[-1]


def _replace_schemas(
    connection: Connection, files: FileAccess, table_id: str, layout: TableLayout
) -> None:
    documents = dict(_schemas(connection, table_id, layout.branch))
    there = numbered_files(files.list(layout.schema_directory), "schema-")
    for number in sorted(there, reverse=True):
        if number not in documents:
            files.delete(layout.schema(number))
    for number, document in documents.items():
        if number not in there or files.read(layout.schema(number)) != document.encode():
            files.write(layout.schema(number), document.encode())


def _schemas(connection: Connection, table_id: str, branch: str) -> list[tuple[int, str]]:
    rows = connection.execute(
        select(SchemaRow.schema_id, SchemaRow.document)
        .where(SchemaRow.table_id == table_id, SchemaRow.branch == branch)
        .order_by(SchemaRow.schema_id)
    )
    return [(row.schema_id, row.document) for row in rows]


def _snapshots(
    connection: Connection, table_id: str, branch: str, after: int
) -> Iterator[tuple[int, str]]:
    while True:
        rows = connection.execute(
            along(
                select(SnapshotRow.snapshot_id, SnapshotRow.document),
                SnapshotRow.table_id,
                SnapshotRow.branch,
                SnapshotRow.snapshot_id,
            )
            .where(
                SnapshotRow.table_id == table_id,
                SnapshotRow.branch == branch,
                SnapshotRow.snapshot_id > after,
            )
            .order_by(SnapshotRow.snapshot_id)
            .limit(_ROWS_AT_ONCE)
        ).all()
        for row in rows:
            yield row.snapshot_id, row.document
        if len(rows) < _ROWS_AT_ONCE:
            return
        after = rows[-1].snapshot_id


def _first_after(connection: Connection, table_id: str, branch: str, after: int) -> int | None:
    return connection.execute(
        select(func.min(SnapshotRow.snapshot_id)).where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == branch,
            SnapshotRow.snapshot_id > after,
        )
    ).scalar_one()


def _copy(files: FileAccess, source: str, destination: str) -> None:
    try:
        data = files.read(source)
    except NotFound:
        return
    # A repetition finds its own copy, which others may have moved on meanwhile.
    files.write_if_absent(destination, data)
