"""Decisions of a database that was restored, which storage has overtaken.

A backup of the database holds the decisions that storage had yet to follow at that moment. It did,
and went on; to follow them once more would put an expired snapshot back as the latest, or delete
what was committed since. Such a decision is told by files that are newer than it.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import BranchRow
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken, numbered_files
from headwater.catalog.sql.queries.lookup import find_snapshot_document
from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout

__all__ = ["Decision", "StorageAhead", "mark_of_later", "refuse_overtaken"]

# The mark where there are no such files.
_NONE = "none"


class Decision(Protocol):
    """A row of the outbox."""

    @property
    def action(self) -> str:
        """The action, as `headwater.catalog.sql.outbox.outbox.Action` names it."""
        ...

    @property
    def number(self) -> int:
        """The snapshot or schema that it is about."""
        ...

    @property
    def path(self) -> str:
        """A path, and after a line's end the mark of the files that it has deleted."""
        ...


class StorageAhead(PlaceTaken):
    """Storage has gone on since a decision that the database still holds to be open.

    Args:
        path: The file that shows it.
        what: The decision.
    """

    def __init__(self, path: str, what: str) -> None:
        self.what = what
        super().__init__(
            path,
            f"{path} is newer than the open decision of the catalog's database ({what}): the "
            "database is older than storage, as after the restore of a backup. Run 'headwater "
            "reconcile' before anything else",
        )


def mark_of_later(files: FileAccess, directory: str, prefix: str, number: int) -> str:
    """The mark of the files beyond a number, which a decision is about to have deleted.

    It is that of the first of them: they are deleted from the last one on, so that it is there as
    long as any is, and whoever writes files of these numbers later writes another one.
    """
    later = [each for each in numbered_files(files.list(directory), prefix) if each > number]
    for each in later:
        mark = _mark(files, f"{directory}/{prefix}{each}", each)
        if mark is not None:
            return mark
    return _NONE


def refuse_overtaken(
    connection: Connection,
    files: FileAccess,
    table_id: str,
    layout: TableLayout,
    decision: Decision,
) -> None:
    """Refuse to follow a decision that storage has overtaken; raises StorageAhead.

    Args:
        connection: The transaction, which holds the branch's lock.
        files: The storage.
        table_id: The table.
        layout: The branch.
        decision: The decision.
    """
    number, what = decision.number, f"{decision.action} {decision.number}"
    directory, prefix = layout.snapshot_directory, "snapshot-"
    match decision.action:
        case "snapshot":
            if files.exists(layout.snapshot(number)):
                return
            ids = numbered_files(files.list(directory), prefix)
            if ids and ids[-1] > number:
                raise StorageAhead(layout.snapshot(ids[-1]), what)
            return
        case "rollback" | "forward":
            mark = decision.path.partition("\n")[2]
        case "schema-rollback":
            directory, prefix = layout.schema_directory, "schema-"
            mark = decision.path.partition("\n")[2]
        case _:
            return
    later = [each for each in numbered_files(files.list(directory), prefix) if each > number]
    if not mark or not later:
        return  # before marks were kept; or nothing is left to be deleted
    found = _mark(files, f"{directory}/{prefix}{later[0]}", later[0])
    if found in (mark, None):
        return
    if decision.action == "forward" and found == _own_mark(connection, table_id, layout, later[0]):
        # What was to be deleted is, and what the other branch has is being put.
        last = connection.execute(
            select(BranchRow.snapshot_id).where(
                BranchRow.table_id == table_id, BranchRow.branch == layout.branch
            )
        ).scalar_one()
        if later[-1] <= last:
            return
    raise StorageAhead(f"{directory}/{prefix}{later[-1]}", what)


def _own_mark(
    connection: Connection, table_id: str, layout: TableLayout, number: int
) -> str | None:
    document = find_snapshot_document(connection, table_id, layout.branch, number)
    return None if document is None else _mark_of_text(document.encode(), number)


def _mark(files: FileAccess, path: str, number: int) -> str | None:
    """The mark of a file; None when it is not there."""
    try:
        return _mark_of_text(files.read(path), number)
    except NotFound:
        return None


def _mark_of_text(text: bytes, number: int) -> str:
    return f"{number}:{hashlib.blake2b(text, digest_size=16).hexdigest()}"
