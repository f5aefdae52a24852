"""The outbox: what storage has yet to follow, and how it does.

The database decides, in one transaction that also leaves a row here. Settling the row makes the
files agree: always under the branch row's lock and in the order of the decisions, so that no file
is written for a decision that was taken back meanwhile, and none deleted that a later one made.
Every step can be repeated, so the next caller after a crash finishes it. For the same reason a row
that is settled need not be flushed to the disk as such: it is settled again, or a later decision,
which is flushed, takes it along.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from sqlalchemy import bindparam, delete, insert, literal_column, or_, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import OutboxRow, TableRow
from headwater.catalog.sql.database.prepared import (
    Change,
    Prepared,
    keyed,
    numbered,
    padded,
    run_together,
)
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.branch_files import follow_fork, follow_forward, follow_move
from headwater.catalog.sql.outbox.data_files import delete_data_files
from headwater.catalog.sql.outbox.held_files import held_files
from headwater.catalog.sql.outbox.line_files import (
    roll_back,
    roll_schema_back,
    snapshot_document,
    write_schema,
)
from headwater.catalog.sql.outbox.mirror_files import is_cut_off, put_snapshot, take_back
from headwater.catalog.sql.outbox.reference_files import (
    delete_removed,
    rename_tag,
    write_tag,
)
from headwater.catalog.sql.outbox.stale import StorageAhead, refuse_overtaken
from headwater.catalog.sql.outbox.warehouse_marker import WarehouseMarker
from headwater.catalog.sql.queries.lookup import Head, lock_branch, lock_branches
from headwater.storage.errors import Conflict, HeadwaterError, OutcomeUnknown
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.location import Place
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.steps import in_this_step, step

__all__ = ["Committed", "Outbox", "RepairReport"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RepairReport:
    """The outcome of a repair.

    Attributes:
        settled: The number of left-over decisions that storage follows now.
        failures: Those it could not follow, each as a sentence.
    """

    settled: int
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Committed:
    """A snapshot that was decided on.

    Attributes:
        table_id: The table's id.
        layout: The locations of its branch's files.
        snapshot: The snapshot.
    """

    table_id: str
    layout: TableLayout
    snapshot: Snapshot


class _Row(NamedTuple):
    """A row to be added; see `Action`."""

    action: Action
    table_id: str
    branch: str
    number: int
    path: str = ""
    document: str | None = None


class _DroppedTree(NamedTuple):
    """The directory of a table that is gone, and the row of the decision to delete it."""

    row: int
    path: str


# A local disk is busy with a few; a store far away is waited for.
_PUTS_AT_ONCE = 4
_REMOTE_PUTS_AT_ONCE = 16
_MAX_PUTTERS = 128
_SNAPSHOT = Action.SNAPSHOT.value

_COLUMNS = (
    "warehouse", "table_id", "branch", "action", "number", "path", "created_at", "document",
)  # fmt: skip


@cache
def _adding(count: int) -> Prepared:
    return Prepared(
        insert(OutboxRow)
        .inline()
        .values(
            [{name: bindparam(f"{name}_{at}") for name in _COLUMNS} for at in range(count)],
        )
    )


@cache
def _removing(count: int) -> Prepared:
    return Prepared(delete(OutboxRow).where(or_(*keyed(count, row=OutboxRow.id))))


@cache
def _open(count: int) -> Prepared:
    """The open decisions about branches of different tables."""
    return Prepared(
        select(OutboxRow.id, OutboxRow.table_id, OutboxRow.action, OutboxRow.number)
        .where(or_(*keyed(count, table=OutboxRow.table_id, branch=OutboxRow.branch)))
        .order_by(OutboxRow.id)
    )


# One more than is settled, to know whether there is more.
_OLDEST = Prepared(
    select(
        OutboxRow.id,
        OutboxRow.action,
        OutboxRow.number,
        OutboxRow.path,
        OutboxRow.document,
    )
    .where(OutboxRow.table_id == bindparam("table"), OutboxRow.branch == bindparam("branch"))
    .order_by(OutboxRow.id)
    .limit(literal_column("2"))
)
_PATH = Prepared(select(TableRow.path).where(TableRow.id == bindparam("table")))


class Outbox:
    """Makes storage follow the database.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self.marker = WarehouseMarker(context)
        self._context = context
        self._files = context.files
        # Its threads are started when they are needed, and end with this object.
        self._putters = ThreadPoolExecutor(_MAX_PUTTERS, "headwater-put")

    def add(
        self,
        connection: Connection,
        action: Action,
        table_id: str,
        branch: str,
        *,
        number: int = 0,
        path: str = "",
        document: str | None = None,
    ) -> None:
        """Leave a row for a decision, in the decision's own transaction.

        Args:
            connection: The transaction.
            action: What storage has to do; the rest is as `Action` describes it.
            table_id: The table.
            branch: The branch.
            number: A number.
            path: A path or a name.
            document: A JSON string.
        """
        if action not in (Action.DROP, Action.DROP_DATA):  # which undo a creation
            self.marker.refuse()
        row = _Row(action, table_id, branch, number, path, document)
        run_together(connection, [self._adding([row])])

    def adding(self, committed: Sequence[Committed]) -> Change:
        """The statement that leaves a row for each of some snapshots."""
        return self._adding(
            [
                _Row(Action.SNAPSHOT, item.table_id, item.layout.branch, item.snapshot.id)
                for item in committed
            ]
        )

    def _adding(self, rows: Sequence[_Row]) -> Change:
        now = self._context.runtime.now_millis()
        values = [
            {"warehouse": self._context.warehouse, "created_at": now, **row._asdict()}
            for row in rows
        ]
        return Change(_adding(len(values)), numbered(values))

    def settle(self, table_id: str, branch: str) -> int:
        """Follow every open decision about a table and branch, oldest first, and count them.

        Raises:
            PlaceTaken: Storage holds another file where one should be written; nothing is
                overwritten, and the decision stays open.
        """
        self.marker.require()
        settled, more = 0, True
        doubtful: list[Committed] = []
        with step("outbox: settle", table_id=table_id, branch=branch):
            while more:
                done, more, tree = self._context.database.write(
                    lambda connection: self._settle_one(connection, table_id, branch, doubtful),
                    durable=False,
                    by_keys=True,
                )
                if tree is not None:
                    self._delete(tree)
                settled += done
        return settled

    def _delete(self, tree: _DroppedTree) -> None:
        """Delete a dropped table's directory, outside of any transaction.

        It takes as long as there are files, and no other table is ever in that directory.
        """
        self._files.delete_tree(tree.path)
        self._context.database.write(
            lambda connection: _remove(connection, [tree.row]), durable=False, by_keys=True
        )

    def follow(self, committed: Sequence[Committed]) -> Sequence[HeadwaterError | None]:
        """Follow snapshots of different tables that have just been committed.

        Their files are put side by side. What is open about one beside its snapshot is settled,
        too, in its order.

        Returns:
            For each the error with which storage did not follow.
        """
        failures: dict[int, HeadwaterError] = {}
        doubtful: list[Committed] = []
        try:
            self.marker.require()
            left, failures = self._context.database.write(
                lambda connection: self._follow(connection, committed, doubtful),
                durable=False,
                by_keys=True,
            )
        except HeadwaterError as error:
            return [error] * len(committed)
        for index in left:
            try:
                self.settle(committed[index].table_id, committed[index].layout.branch)
            except HeadwaterError as error:
                failures[index] = error
        return [failures.get(at) for at in range(len(committed))]

    def _follow(
        self, connection: Connection, committed: Sequence[Committed], doubtful: list[Committed]
    ) -> tuple[Sequence[int], dict[int, HeadwaterError]]:
        """The rows that were not plain enough; and the failures, by their place."""
        places = [(item.table_id, item.layout.branch) for item in committed]
        heads = lock_branches(connection, places)
        self._take_back(doubtful, heads)
        doubtful += committed
        names = [{"table": table_id, "branch": branch} for table_id, branch in padded(places)]
        rows: dict[str, list[tuple[int, str, int]]] = {}
        for row, table_id, action, number in _open(len(names)).run(connection, **numbered(names)):
            rows.setdefault(table_id, []).append((row, action, number))
        plain: dict[int, int] = {}
        for at, item in enumerate(committed):
            head, its = heads.get(item.table_id), rows.get(item.table_id, [])
            # By its uuid: another snapshot may have its number by now.
            is_head = head is not None and head.snapshot_uuid == item.snapshot.uuid is not None
            if is_head and [row[1:] for row in its] == [(_SNAPSHOT, item.snapshot.id)]:
                plain[at] = its[0][0]
        left = [at for at in range(len(committed)) if at not in plain]
        failures = self._put_all([(at, committed[at]) for at in plain])
        _remove(connection, [row for at, row in plain.items() if at not in failures])
        return left, failures

    def _take_back(self, doubtful: list[Committed], heads: Mapping[str, Head]) -> None:
        """Take back what a transaction that is run again put when its locks were lost already."""
        for item in doubtful:
            head = heads.get(item.table_id)
            if head is not None:
                number, document = item.snapshot.id, item.snapshot.to_json()
                take_back(self._files, item.layout, head.snapshot_id, number, document)
        doubtful.clear()

    def _put_all(self, items: Sequence[tuple[int, Committed]]) -> dict[int, HeadwaterError]:
        """Put snapshots' files side by side; the failures, by their place."""
        failures: dict[int, HeadwaterError] = {}
        left = deque(items)

        def put_some() -> None:
            with suppress(IndexError):
                while True:
                    at, item = left.popleft()
                    snapshot = item.snapshot
                    try:
                        put_snapshot(self._files, item.layout, snapshot.id, snapshot.to_json())
                    except HeadwaterError as error:
                        failures[at] = error

        is_local = all(item.layout.location.startswith("file:") for _, item in items)
        hands = _PUTS_AT_ONCE if is_local else _REMOTE_PUTS_AT_ONCE
        others = [
            self._putters.submit(in_this_step(put_some)) for _ in range(min(hands, len(items)) - 1)
        ]
        try:
            put_some()
        finally:
            # Whatever happens, none may go on once the locks are given back.
            wait(others)
        for other in others:
            other.result()
        return failures

    def _delete_all(self, files: FileAccess, paths: Sequence[str]) -> None:
        """Delete files, side by side where each is waited for."""
        if paths[0].startswith("file:"):
            for path in paths:
                files.delete(path)
        else:
            list(self._putters.map(files.delete, paths))

    def obstructed(
        self, offered: Mapping[int, tuple[TableLayout, int, str | None]]
    ) -> tuple[set[int], set[int]]:
        """The snapshots for which storage is not as the database says.

        It is a look ahead, and cheap: who writes the file finds out for certain. What cannot be
        looked at is left out.

        Args:
            offered: Branches, the numbers of their next snapshots, and the uuids of those before.

        Returns:
            Those in whose place there is a file already; and those whose predecessor has none, or
            another one's, or that are the first where there have been some.
        """

        def taken(layout: TableLayout, number: int, _: str | None) -> bool:
            return self._files.exists(layout.snapshot(number))

        def cut_off(layout: TableLayout, number: int, base_uuid: str | None) -> bool:
            return is_cut_off(self._files, layout, number, base_uuid)

        def is_so(look: Callable[[], bool]) -> bool:
            try:
                return look()
            except HeadwaterError:
                return False

        looks = [partial(look, *each) for each in offered.values() for look in (taken, cut_off)]
        is_local = all(layout.location.startswith("file:") for layout, _, _ in offered.values())
        answers = list(map(is_so, looks) if is_local else self._putters.map(is_so, looks))
        return (
            {at for at, found in zip(offered, answers[::2], strict=True) if found},
            {at for at, found in zip(offered, answers[1::2], strict=True) if found},
        )

    def stuck_snapshot(self, table_id: str, branch: str) -> int | None:
        """The number of the snapshot that is the oldest open decision; None if that is another."""
        with self._context.database.read() as connection:
            rows = _OLDEST.run(connection, table=table_id, branch=branch).all()
        return rows[0].number if rows and rows[0].action == _SNAPSHOT else None

    def forget_oldest(self, table_id: str, branch: str) -> None:
        """Forget the oldest open decision, if storage followed it long ago and has gone on since.

        Raises:
            Conflict: Storage has yet to follow it.
        """

        def work(connection: Connection) -> None:
            lock_branch(connection, table_id, branch)
            for row in _OLDEST.run(connection, table=table_id, branch=branch).all()[:1]:
                path = _PATH.run(connection, table=table_id).scalar_one()
                layout = TableLayout(path, branch)
                try:
                    refuse_overtaken(connection, self._files, table_id, layout, row)
                except StorageAhead:
                    _remove(connection, [row.id])
                else:
                    raise Conflict(f"branch '{branch}' of {path} is being changed; retry")

        self._context.database.write(work)

    def finish(self, table_id: str, branch: str, done: str) -> None:
        """Follow what has just been decided.

        Args:
            table_id: The table.
            branch: The branch.
            done: The decision, as a sentence without its end: ``table a.b is dropped``.

        Raises:
            OutcomeUnknown: Storage does not follow for now. Any other error would pass for a
                refusal, and a caller that tried again would be told that the thing exists already,
                or does not.
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

    def _settle_one(
        self, connection: Connection, table_id: str, branch: str, doubtful: list[Committed]
    ) -> tuple[bool, bool, _DroppedTree | None]:
        """Settle the oldest row, if any; say whether there are more, and what is left to delete."""
        self._take_back(doubtful, lock_branches(connection, [(table_id, branch)]))
        rows = _OLDEST.run(connection, table=table_id, branch=branch).all()
        if not rows:
            return False, False, None
        row = rows[0]
        action = Action(row.action)
        files = held_files(connection, self._files)
        if action is Action.DROP:
            if _PATH.run(connection, table=table_id).one_or_none() is None:
                return True, len(rows) > 1, _DroppedTree(row.id, row.path)
            # A branch's directory, which another branch of its name may have next.
            files.delete_tree(row.path)
        elif action is Action.DROP_DATA:
            place = Place(row.path)
            delete_data_files(connection, self._context, table_id, place, self._delete_all)
        else:
            path = _PATH.run(connection, table=table_id).scalar_one()
            layout = TableLayout(path, branch)
            refuse_overtaken(connection, files, table_id, layout, row)
            match action:
                case Action.SCHEMA:
                    write_schema(connection, files, table_id, layout, row.number)
                case Action.SNAPSHOT:
                    document = snapshot_document(connection, table_id, layout, row.number)
                    snapshot = Snapshot.from_json(document, f"snapshot {row.number}")
                    doubtful.append(Committed(table_id, layout, snapshot))
                    put_snapshot(files, layout, row.number, document)
                case Action.ROLLBACK:
                    roll_back(connection, files, table_id, layout, row.number)
                case Action.TAG:
                    write_tag(files, layout, row.path, row.document, is_new=row.number == 0)
                case Action.RENAME_TAG:
                    rename_tag(files, layout, row.path, row.document)
                case Action.CONSUMER:
                    files.write(layout.consumer(row.path), row.document.encode())
                case Action.DELETE_ROOTS:
                    if not delete_removed(connection, files, table_id, layout, row.document):
                        return True, True, None
                case Action.SCHEMA_ROLLBACK:
                    roll_schema_back(files, layout, row.number)
                case Action.FORK:
                    follow_fork(connection, files, table_id, layout, row.number, row.path)
                case Action.MOVE:
                    follow_move(files, layout, row.path)
                case Action.FORWARD:
                    # Earlier versions wrote more behind the end of a line.
                    source = row.path.partition("\n")[0]
                    follow_forward(connection, files, table_id, layout, row.number, source)
        _remove(connection, [row.id])
        return True, len(rows) > 1, None


def _remove(connection: Connection, rows: Sequence[int]) -> None:
    if rows:
        named = [{"row": row} for row in padded(rows)]
        _removing(len(named)).run(connection, **numbered(named))
