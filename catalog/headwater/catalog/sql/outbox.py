"""The outbox: what storage has yet to follow, and how it does.

The database decides, in one transaction that also leaves a row here. Settling the row makes the
files agree: always under the branch row's lock and in the order of the decisions, so that no file
is written for a decision that was taken back meanwhile, and none deleted that a later one made.
Every step can be repeated, so whoever comes by after a crash finishes it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.lookup import lock_branch
from headwater.catalog.sql.models import OutboxRow, SchemaRow, SnapshotRow, TableRow
from headwater.storage.errors import CorruptData, HeadwaterError
from headwater.storage.file_access import FileAccess, FileStatus
from headwater.storage.layout import TableLayout
from headwater.storage.tag import read_tag_file

__all__ = ["Action", "Outbox", "RepairReport", "numbered_files", "tag_names"]

_LOG = logging.getLogger(__name__)


class Action(StrEnum):
    """What storage has to do."""

    SCHEMA = "schema"
    SNAPSHOT = "snapshot"
    ROLLBACK = "rollback"
    DROP = "drop"


@dataclass(frozen=True)
class RepairReport:
    """What a repair did.

    Attributes:
        settled: How many left-over decisions storage follows now.
        failures: Those it could not follow, each as a sentence.
    """

    settled: int
    failures: tuple[str, ...]


class Outbox:
    """Makes storage follow the database.

    Args:
        context: Where and with what.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._files = context.files

    def add(
        self,
        connection: Connection,
        action: Action,
        table_id: str,
        branch: str,
        *,
        number: int = 0,
        path: str = "",
    ) -> None:
        """Leave a row for a decision, in the decision's own transaction."""
        row = {
            "warehouse": self._context.warehouse,
            "table_id": table_id,
            "branch": branch,
            "action": action.value,
            "number": number,
            "path": path,
            "created_at": self._context.runtime.now_millis(),
        }
        connection.execute(insert(OutboxRow), row)

    def settle(self, table_id: str, branch: str) -> int:
        """Follow every open decision about a table and branch, oldest first.

        Returns:
            How many there were.

        Raises:
            CorruptData: Storage holds another file where one should be written; nothing is
                overwritten, and the decision stays open.
        """
        settled, more = 0, True
        while more:
            done, more = self._context.database.write(
                lambda connection: self._settle_one(connection, table_id, branch)
            )
            settled += done
        return settled

    def repair(self) -> RepairReport:
        """Settle whatever a crash left open in this warehouse.

        One table's failure does not keep the others from being repaired; each is logged.
        """
        with self._context.database.read() as connection:
            places = connection.execute(
                select(OutboxRow.table_id, OutboxRow.branch)
                .where(OutboxRow.warehouse == self._context.warehouse)
                .distinct()
            ).all()
        settled = 0
        failures: list[str] = []
        for table_id, branch in places:
            try:
                settled += self.settle(table_id, branch)
            except HeadwaterError as error:
                _LOG.warning("table %s, branch %s: %s", table_id, branch, error)
                failures.append(f"table {table_id}, branch {branch}: {error}")
        return RepairReport(settled, tuple(failures))

    def _settle_one(self, connection: Connection, table_id: str, branch: str) -> tuple[bool, bool]:
        """Settle the oldest row, if any; and say whether there are more."""
        lock_branch(connection, table_id, branch)
        rows = connection.execute(
            select(OutboxRow.id, OutboxRow.action, OutboxRow.number, OutboxRow.path)
            .where(OutboxRow.table_id == table_id, OutboxRow.branch == branch)
            .order_by(OutboxRow.id)
            .limit(2)
        ).all()
        if not rows:
            return False, False
        row = rows[0]
        action = Action(row.action)
        if action is Action.DROP:
            self._files.delete_tree(row.path)
        else:
            path = connection.execute(
                select(TableRow.path).where(TableRow.id == table_id)
            ).scalar_one()
            layout = TableLayout(path, branch)
            match action:
                case Action.SCHEMA:
                    self._write_schema(connection, table_id, layout, row.number)
                case Action.SNAPSHOT:
                    self._write_snapshot(connection, table_id, layout, row.number)
                case Action.ROLLBACK:
                    self._roll_back(connection, table_id, layout, row.number)
        connection.execute(delete(OutboxRow).where(OutboxRow.id == row.id))
        return True, len(rows) > 1

    def _write_schema(
        self, connection: Connection, table_id: str, layout: TableLayout, number: int
    ) -> None:
        document = connection.execute(
            select(SchemaRow.document).where(
                SchemaRow.table_id == table_id,
                SchemaRow.branch == layout.branch,
                SchemaRow.schema_id == number,
            )
        ).scalar_one()
        self._put(layout.schema(number), document)

    def _write_snapshot(
        self, connection: Connection, table_id: str, layout: TableLayout, number: int
    ) -> None:
        self._put(layout.snapshot(number), _snapshot_document(connection, table_id, layout, number))
        self._files.write(layout.latest_hint, str(number).encode())
        if number == 1:
            self._files.write(layout.earliest_hint, b"1")

    def _roll_back(
        self, connection: Connection, table_id: str, layout: TableLayout, number: int
    ) -> None:
        # RollbackHelper.java: the hint first, then snapshots from the newest, changelogs, tags.
        files = self._files
        document = _snapshot_document(connection, table_id, layout, number)
        ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
        if number not in ids:
            # The snapshot expired and only a tag kept it.
            self._put(layout.snapshot(number), document)
            files.write(layout.earliest_hint, str(number).encode())
        files.write(layout.latest_hint, str(number).encode())
        for later in sorted((i for i in ids if i > number), reverse=True):
            files.delete(layout.snapshot(later))
        changelogs = f"{layout.branch_location}/changelog"
        for later in numbered_files(files.list(changelogs), "changelog-"):
            if later > number:
                files.delete(f"{changelogs}/changelog-{later}")
                files.delete(f"{changelogs}/LATEST")  # readers list the files without it
        for name in tag_names(files, layout):
            self._delete_later_tag(layout, name, number)
        # Once more: putting a file makes the deletions beside it durable too.
        files.write(layout.latest_hint, str(number).encode())

    def _delete_later_tag(self, layout: TableLayout, name: str, number: int) -> None:
        try:
            tag = read_tag_file(self._files, layout, name)
        except CorruptData as error:
            _LOG.warning("a rollback leaves an unreadable tag: %s", error)
            return
        if tag is not None and tag.snapshot.id > number:
            self._files.delete(layout.tag(name))

    def _put(self, path: str, document: str) -> None:
        if self._files.write_if_absent(path, document.encode()):
            return
        found = self._files.read(path)
        if found != document.encode() and not _same_json(found, document):
            raise CorruptData(
                f"{path} is not the file that the catalog decided on: something else wrote it. "
                "Compare it with the catalog's database, move it away, and retry"
            )


def numbered_files(statuses: list[FileStatus], prefix: str) -> list[int]:
    """The numbers of files named `prefix` and a number, ascending."""
    texts = (s.name.removeprefix(prefix) for s in statuses if s.name.startswith(prefix))
    return sorted(int(text) for text in texts if text.isascii() and text.isdigit())


def tag_names(files: FileAccess, layout: TableLayout) -> list[str]:
    """The names of a table's tags, in order."""
    prefix = "tag-"
    return sorted(
        status.name.removeprefix(prefix)
        for status in files.list(layout.tag_directory)
        if status.name.startswith(prefix)
    )


def _same_json(found: bytes, document: str) -> bool:
    try:
        return bool(json.loads(found) == json.loads(document))
    except ValueError:
        return False


def _snapshot_document(
    connection: Connection, table_id: str, layout: TableLayout, number: int
) -> str:
    return connection.execute(
        select(SnapshotRow.document).where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == layout.branch,
            SnapshotRow.snapshot_id == number,
        )
    ).scalar_one()
