"""The outbox: what storage has yet to follow, and how it does.

The database decides, in one transaction that also leaves a row here. Settling the row makes the
files agree: always under the branch row's lock and in the order of the decisions, so that no file
is written for a decision that was taken back meanwhile, and none deleted that a later one made.
Every step can be repeated, so whoever comes by after a crash finishes it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import bindparam, delete, insert, literal_column, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.branch_files import follow_fork, follow_forward, follow_move
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.lookup import lock_branch
from headwater.catalog.sql.models import OutboxRow, SchemaRow, SnapshotRow, TableRow
from headwater.catalog.sql.placed_files import (
    delete_later_tags,
    delete_snapshots_after,
    numbered_files,
    put,
)
from headwater.catalog.sql.prepared import Prepared
from headwater.storage.errors import HeadwaterError, OutcomeUnknown
from headwater.storage.layout import TableLayout

__all__ = ["SCHEMA_ACTIONS", "Action", "Outbox", "RepairReport"]

_LOG = logging.getLogger(__name__)


class Action(StrEnum):
    """What storage has to do.

    Attributes:
        SCHEMA: Write the schema file `number`.
        SNAPSHOT: Write the snapshot file `number` and its hints.
        ROLLBACK: Delete what came after snapshot `number`.
        SCHEMA_ROLLBACK: Delete the schema files after `number`.
        FORK: Write a new branch's files, from snapshot `number` and the tag's file `path`.
        MOVE: Bring a renamed branch's files from the directory `path`.
        FORWARD: Replace what came after snapshot `number` by what the branch at `path` has.
        DROP: Delete the directory `path`.
    """

    SCHEMA = "schema"
    SNAPSHOT = "snapshot"
    ROLLBACK = "rollback"
    SCHEMA_ROLLBACK = "schema-rollback"
    FORK = "fork"
    MOVE = "move"
    FORWARD = "forward"
    DROP = "drop"


SCHEMA_ACTIONS = tuple(
    action.value
    for action in (
        Action.SCHEMA,
        Action.SCHEMA_ROLLBACK,
        Action.FORK,
        Action.MOVE,
        Action.FORWARD,
    )
)
"""What a table's schema waits for; snapshots alone do not concern it."""


@dataclass(frozen=True)
class RepairReport:
    """What a repair did.

    Attributes:
        settled: How many left-over decisions storage follows now.
        failures: Those it could not follow, each as a sentence.
    """

    settled: int
    failures: tuple[str, ...]


_ADD = Prepared(
    insert(OutboxRow)
    .inline()
    .values(
        {
            name: bindparam(name)
            for name in (
                "warehouse",
                "table_id",
                "branch",
                "action",
                "number",
                "path",
                "created_at",
            )
        }
    )
)
# One more than is settled, to know whether there is more.
_OLDEST = Prepared(
    select(OutboxRow.id, OutboxRow.action, OutboxRow.number, OutboxRow.path)
    .where(OutboxRow.table_id == bindparam("table"), OutboxRow.branch == bindparam("branch"))
    .order_by(OutboxRow.id)
    .limit(literal_column("2"))
)
_PATH = Prepared(select(TableRow.path).where(TableRow.id == bindparam("table")))
_REMOVE = Prepared(delete(OutboxRow).where(OutboxRow.id == bindparam("row")))


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
        _ADD.run(
            connection,
            warehouse=self._context.warehouse,
            table_id=table_id,
            branch=branch,
            action=action.value,
            number=number,
            path=path,
            created_at=self._context.runtime.now_millis(),
        )

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

    def finish(self, table_id: str, branch: str, done: str) -> None:
        """Follow what has just been decided.

        Args:
            table_id: The table.
            branch: The branch.
            done: The decision, as a sentence without its end: ``table a.b is dropped``.

        Raises:
            OutcomeUnknown: Storage does not follow for now. Any other error would pass for a
                refusal, and whoever tried again would be told that the thing exists already, or
                does not.
        """
        try:
            self.settle(table_id, branch)
        except HeadwaterError as error:
            raise OutcomeUnknown(
                f"{done} in the catalog, but storage has yet to follow: {error.message}. Do not "
                "repeat it: the server goes on by itself"
            ) from error

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
        rows = _OLDEST.run(connection, table=table_id, branch=branch).all()
        if not rows:
            return False, False
        row = rows[0]
        action = Action(row.action)
        if action is Action.DROP:
            self._files.delete_tree(row.path)
        else:
            path = _PATH.run(connection, table=table_id).scalar_one()
            layout = TableLayout(path, branch)
            match action:
                case Action.SCHEMA:
                    self._write_schema(connection, table_id, layout, row.number)
                case Action.SNAPSHOT:
                    self._write_snapshot(connection, table_id, layout, row.number)
                case Action.ROLLBACK:
                    self._roll_back(connection, table_id, layout, row.number)
                case Action.SCHEMA_ROLLBACK:
                    self._roll_schema_back(layout, row.number)
                case Action.FORK:
                    follow_fork(connection, self._files, table_id, layout, row.number, row.path)
                case Action.MOVE:
                    follow_move(self._files, layout, row.path)
                case Action.FORWARD:
                    follow_forward(connection, self._files, table_id, layout, row.number, row.path)
        _REMOVE.run(connection, row=row.id)
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
        put(self._files, layout.schema(number), document)

    def _write_snapshot(
        self, connection: Connection, table_id: str, layout: TableLayout, number: int
    ) -> None:
        put(
            self._files,
            layout.snapshot(number),
            _snapshot_document(connection, table_id, layout, number),
        )
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
            put(files, layout.snapshot(number), document)
            files.write(layout.earliest_hint, str(number).encode())
        files.write(layout.latest_hint, str(number).encode())
        delete_snapshots_after(files, layout, number)
        delete_later_tags(files, layout, number)
        # Once more: putting a file makes the deletions beside it durable too.
        files.write(layout.latest_hint, str(number).encode())

    def _roll_schema_back(self, layout: TableLayout, number: int) -> None:
        # SchemaManager.java deletes the newest first, too.
        there = numbered_files(self._files.list(layout.schema_directory), "schema-")
        for later in sorted((i for i in there if i > number), reverse=True):
            self._files.delete(layout.schema(later))


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
