"""Decisions of a database that was restored, which storage has overtaken.

A backup of the database holds the decisions that storage had yet to follow at that instant. It did,
and went on; to follow them once more would put an expired snapshot back as the latest, or delete
what was committed since. Such a decision shows by files that are newer than it.

A decision that deletes files has the marks of those that the database knows. As long as one of
them is left, whichever of the others were deleted, storage has not gone on: files are written under
these numbers only when all are gone, and have no mark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.models import BranchRow
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken, numbered_files
from headwater.catalog.sql.queries.lookup import find_snapshot_document
from headwater.storage.errors import NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout

__all__ = ["Decision", "StorageAhead", "marks", "marks_of_files", "refuse_overtaken"]


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
    def document(self) -> str | None:
        """The marks of the files that it deletes; None for a decision of an earlier version."""
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


def marks(documents: Iterable[tuple[int, str]]) -> str:
    """The marks of files that a decision deletes, by their numbers.

    Args:
        documents: The files' numbers and contents.
    """
    return json.dumps({str(number): _mark(document.encode()) for number, document in documents})


def marks_of_files(files: FileAccess, directory: str, prefix: str, number: int) -> str:
    """The marks of the files beyond a number, read from storage."""
    later = [each for each in numbered_files(files.list(directory), prefix) if each > number]
    contents = ((each, _read(files, f"{directory}/{prefix}{each}")) for each in later)
    return json.dumps({str(each): _mark(data) for each, data in contents if data is not None})


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
            pass
        case "schema-rollback":
            directory, prefix = layout.schema_directory, "schema-"
        case _:
            return
    later = [each for each in numbered_files(files.list(directory), prefix) if each > number]
    if decision.document is None or not later:
        return
    marked = json.loads(decision.document)
    contents = ((each, _read(files, f"{directory}/{prefix}{each}")) for each in later)
    first: tuple[int, bytes] | None = None
    for each, data in contents:
        # One without a mark may be beside them: a reconciled database knows the latest alone.
        if data is not None and marked.get(str(each)) == _mark(data):
            return
        if first is None and data is not None:
            first = each, data
    if first is None:
        return
    own = find_snapshot_document(connection, table_id, layout.branch, first[0])
    if decision.action == "forward" and own is not None and _mark(first[1]) == _mark(own.encode()):
        # What was to be deleted is, and what the other branch has is being put.
        last = connection.execute(
            select(BranchRow.snapshot_id).where(
                BranchRow.table_id == table_id, BranchRow.branch == layout.branch
            )
        ).scalar_one()
        if later[-1] <= last:
            return
    raise StorageAhead(f"{directory}/{prefix}{later[-1]}", what)


def _read(files: FileAccess, path: str) -> bytes | None:
    try:
        return files.read(path)
    except NotFound:
        return None


def _mark(data: bytes) -> str:
    """A digest of a file, whichever way its JSON is written."""
    with suppress(ValueError):  # what is not JSON is taken as it is
        data = json.dumps(json.loads(data), sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=8).hexdigest()
