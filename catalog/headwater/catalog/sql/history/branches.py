"""Branches: rows of their own for schemas, snapshots and partitions, files that follow.

A branch's name decides its directory, which a later branch of the name gets again. So whatever
empties a directory is waited for before one of that name begins: it holds the lock of the main
branch (a drop) or of the branch that the files went to (a rename), and its outbox row names the
directory. Locks are taken with the main branch first, then by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import delete, insert, select, true, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.branches import branch_of, check_branch_name
from headwater.catalog.model.events import Detail, EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.admin.column_permissions import follow_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    ConsumerLeaseRow,
    OutboxRow,
    PartitionRow,
    SchemaRow,
    SnapshotRow,
)
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.branch_fork import Fork, copy_fork, find_fork
from headwater.catalog.sql.history.branch_history import (
    common_snapshot,
    copy_rows,
    delete_branch_rows,
)
from headwater.catalog.sql.history.references import (
    MAX_ATTEMPTS,
    raise_version,
    reference_table,
)
from headwater.catalog.sql.history.snapshot_reads import SnapshotReads
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.outbox.stale import marks
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_table,
    lock_branch,
    read_table,
    table_busy,
)
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS
from headwater.storage.schema.other_branch import OTHER_BRANCH_OPTIONS
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["SqlBranches"]


class SqlBranches:
    """Implements `headwater.catalog.model.branches.Branches`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Makes storage follow.
        snapshots: Says which snapshots exist.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox, snapshots: SnapshotReads) -> None:
        self._context = context
        self._sql = context.database
        self._outbox = outbox
        self._snapshots = snapshots

    def list(self, identifier: Identifier) -> Sequence[str]:
        """The names, in their order, without ``main``."""
        with self._sql.read() as connection:
            record = find_table(connection, self._context, identifier)
            record.require_snapshots()
            names = connection.execute(
                select(BranchRow.branch)
                .where(BranchRow.table_id == record.id, BranchRow.branch != MAIN_BRANCH)
                .order_by(BranchRow.branch)
            )
            return names.scalars().all()

    def create(
        self,
        identifier: Identifier,
        branch: str,
        *,
        from_tag: str | None = None,
        from_snapshot: int | None = None,
    ) -> None:
        """Begin a branch; its files are on storage when this returns."""
        check_branch_name(branch)
        if from_tag is not None and from_snapshot is not None:
            raise Invalid(f"branch '{branch}': give a tag or a snapshot to begin with, not both")
        for _ in range(MAX_ATTEMPTS):
            record = reference_table(self._context, self._outbox, identifier)
            self._refuse_taken(record, branch)
            try:
                fork = find_fork(self._context, self._snapshots, record, from_tag, from_snapshot)
                created = self._sql.write(
                    partial(self._insert, seen=record, branch=branch, fork=fork)
                )
            except (Conflict, IntegrityError):
                continue  # something else came first, a branch of the name even: look again
            if created:
                self._outbox.finish(record.id, branch, f"branch '{branch}' is created")
                return
        raise table_busy(identifier)

    def rename(self, identifier: Identifier, branch: str, new_name: str) -> None:
        """Give a branch another name; its files have moved when this returns."""
        _refuse_main(branch, "renamed")
        check_branch_name(new_name)
        for _ in range(MAX_ATTEMPTS):
            record = self._branch(identifier, branch)
            self._refuse_taken(record, new_name)
            try:
                renamed = self._sql.write(partial(self._rename, seen=record, new_name=new_name))
            except IntegrityError:
                continue
            if renamed:
                self._outbox.finish(record.id, new_name, f"branch '{branch}' is renamed")
                return
        raise table_busy(identifier)

    def fast_forward(self, identifier: Identifier, branch: str) -> None:
        """Replace what follows the common history; storage has followed when this returns."""
        _refuse_main(branch, "what another branch is forwarded to")
        if branch == identifier.branch:
            raise Invalid(f"{identifier}: a branch cannot be forwarded to itself")
        for _ in range(MAX_ATTEMPTS):
            target = reference_table(self._context, self._outbox, identifier)
            source = self._branch(identifier, branch)
            existing = self._snapshots.existing(source)
            if not existing:
                return
            forwarded = self._sql.write(
                partial(self._forward, seen=target, other=source, first=existing[0])
            )
            if forwarded:
                self._outbox.finish(target.id, target.branch, f"{identifier} is forwarded")
                return
        raise table_busy(identifier)

    def drop(self, identifier: Identifier, branch: str) -> None:
        """Drop a branch; its files are gone when this returns."""
        _refuse_main(branch, "dropped")
        for _ in range(MAX_ATTEMPTS):
            record = reference_table(
                self._context, self._outbox, branch_of(identifier, MAIN_BRANCH)
            )
            self._settle_users(record.id, TableLayout(record.path, branch).branch_location)
            dropped = self._sql.write(partial(self._drop, seen=record, branch=branch))
            if dropped:
                self._outbox.finish(record.id, MAIN_BRANCH, f"branch '{branch}' is dropped")
                return
        raise table_busy(identifier)

    # What is looked at before a decision

    def _branch(self, identifier: Identifier, branch: str) -> TableRecord:
        """A branch without pending decisions; NotFound (TABLE) or (BRANCH)."""
        name = branch_of(identifier, branch)
        main = read_table(self._context, branch_of(identifier, MAIN_BRANCH))
        try:
            return reference_table(self._context, self._outbox, name)
        except NotFound as error:
            raise _branch_not_found(main.identifier, branch) from error

    def _refuse_taken(self, record: TableRecord, branch: str) -> None:
        """Refuse a name that a branch has, and one whose directory has files of somebody's."""
        directory = TableLayout(record.path, branch).branch_location
        table = branch_of(record.identifier, MAIN_BRANCH)
        seen: str | None = None
        for _ in range(MAX_ATTEMPTS):
            with self._sql.read() as connection:
                exists = _has_branch(connection, record.id, branch)
            if exists:
                raise AlreadyExists(
                    f"table {table} has a branch '{branch}' already",
                    resource_type=ResourceType.BRANCH,
                    resource_name=branch,
                )
            self._settle_users(record.id, directory)
            status = next(self._context.files.walk(directory), None)
            if status is None:
                return
            if status.path == seen:
                raise AlreadyExists(
                    f"table {record.identifier} has no branch '{branch}', but {status.path} is in "
                    "its directory; move the files there away, or choose another name",
                    resource_type=ResourceType.BRANCH,
                    resource_name=branch,
                )
            # A branch that was dropped just now may have left it: look again.
            seen = status.path
        raise table_busy(record.identifier)

    def _settle_users(self, table_id: str, directory: str) -> None:
        """Follow what was decided about the files in a directory."""
        with self._sql.read() as connection:
            branches = _users(connection, table_id, directory)
        for branch in branches:
            self._outbox.settle(table_id, branch)

    # Decisions: False when what was looked at has changed meanwhile

    def _insert(
        self, connection: Connection, seen: TableRecord, branch: str, fork: Fork | None
    ) -> bool:
        _lock(connection, seen.id, {MAIN_BRANCH, seen.branch})
        record = find_table(connection, self._context, seen.identifier)
        directory = TableLayout(record.path, branch).branch_location
        if record.id != seen.id or record.is_pending or _users(connection, record.id, directory):
            return False
        if not raise_version(connection, seen):
            return False
        snapshot = None if fork is None else fork.snapshot
        row = {
            "table_id": record.id,
            "branch": branch,
            "schema_id": record.schema_id if snapshot is None else snapshot.schema_id,
            "snapshot_id": 0 if snapshot is None else snapshot.id,
            "snapshot_uuid": None if snapshot is None else snapshot.uuid,
            "created_at": self._context.runtime.now_millis(),
        }
        connection.execute(insert(BranchRow), row)
        schema_id = int(str(row["schema_id"]))
        copy_rows(
            connection, SchemaRow, record.id, record.branch, branch,
            SchemaRow.schema_id <= schema_id,
        )  # fmt: skip
        if fork is not None and not copy_fork(connection, self._context, record, branch, fork):
            raise Conflict(f"table {record.identifier} was rolled back meanwhile; look, then retry")
        self._outbox.add(
            connection,
            Action.FORK,
            record.id,
            branch,
            number=0 if snapshot is None else snapshot.id,
            path="" if fork is None else fork.tag_path,
        )
        details: dict[str, Detail] = {"branch": branch, "from": record.branch}
        if snapshot is not None:
            details["snapshot"] = snapshot.id
        if fork is not None and fork.tag_path:
            # The branch has the tag, too.
            details["tag"] = fork.tag_path.removeprefix(record.layout.tag(""))
        self._recorded(connection, record, EventType.CREATE_BRANCH, details)
        return True

    def _rename(self, connection: Connection, seen: TableRecord, new_name: str) -> bool:
        _lock(connection, seen.id, {MAIN_BRANCH, seen.branch})
        record = find_table(connection, self._context, seen.identifier)
        new = TableLayout(record.path, new_name).branch_location
        old = record.layout.branch_location
        if record.id != seen.id or record.is_pending:
            return False
        if _users(connection, record.id, new) or _users(connection, record.id, old):
            return False
        if not raise_version(connection, seen):
            return False
        copy_rows(connection, BranchRow, record.id, record.branch, new_name, true())
        for model in (SchemaRow, SnapshotRow, PartitionRow, ConsumerLeaseRow):
            connection.execute(
                update(model)
                .where(model.table_id == record.id, model.branch == record.branch)
                .values(branch=new_name)
            )
        delete_branch_rows(connection, record.id, record.branch, (BranchRow,))
        self._outbox.add(connection, Action.MOVE, record.id, new_name, path=old)
        details: dict[str, Detail] = {"branch": record.branch, "to": new_name}
        self._recorded(connection, record, EventType.RENAME_BRANCH, details)
        return True

    def _forward(
        self, connection: Connection, seen: TableRecord, other: TableRecord, first: int
    ) -> bool:
        _lock(connection, seen.id, {seen.branch, other.branch})
        target = find_table(connection, self._context, seen.identifier)
        source = find_table(connection, self._context, other.identifier)
        # A branch's later commits would do no harm, but its own rollback might.
        if target.id != seen.id or target.is_pending or source != other:
            return False
        if not raise_version(connection, seen):
            return False
        common = common_snapshot(connection, target.id, target.branch, source.branch)
        own = (
            SnapshotRow.table_id == target.id,
            SnapshotRow.branch == target.branch,
            SnapshotRow.snapshot_id > common,
        )
        later = connection.execute(
            select(SnapshotRow.snapshot_id, SnapshotRow.document).where(*own)
        )
        removed = marks((number, document) for number, document in later)
        connection.execute(delete(SnapshotRow).where(*own))
        before = read_schema(connection, target)
        delete_branch_rows(connection, target.id, target.branch, (SchemaRow, PartitionRow))
        copy = (target.id, source.branch, target.branch)
        start = max(first, common + 1)
        following = SnapshotRow.snapshot_id >= start
        copy_rows(connection, SnapshotRow, *copy, following)
        copy_rows(connection, SchemaRow, *copy, true())
        copy_rows(connection, PartitionRow, *copy, true())
        here = update(BranchRow).where(
            BranchRow.table_id == target.id, BranchRow.branch == target.branch
        )
        connection.execute(
            here.values(
                schema_id=source.schema_id,
                snapshot_id=source.snapshot_id,
                snapshot_uuid=source.snapshot_uuid,
            )
        )
        if common + 1 < start <= source.snapshot_id:
            # The other branch's snapshots between have expired.
            connection.execute(here.values(forgotten_snapshot_id=start - 1))
        self._carry_access_over(connection, target, before, source.schema_id)
        self._outbox.add(
            connection,
            Action.FORWARD,
            target.id,
            target.branch,
            number=common,
            path=source.layout.branch_location,
            document=removed,
        )
        details: dict[str, Detail] = {
            **of_branch(target.branch),
            "from": source.branch,
            "snapshot": source.snapshot_id,
        }
        self._recorded(connection, target, EventType.FORWARD_BRANCH, details)
        return True

    def _carry_access_over(
        self, connection: Connection, target: TableRecord, before: TableSchema, schema_id: int
    ) -> None:
        if target.branch == MAIN_BRANCH:
            schema = read_schema(connection, replace(target, schema_id=schema_id))
            refuse_policies_broken_by(connection, target.id, target.identifier, schema)
            table = (target.id, target.identifier)
            # Columns that both branches added since they parted may have the same ids.
            follow_columns(connection, self._context, table, before, schema, is_successor=False)

    def _drop(self, connection: Connection, seen: TableRecord, branch: str) -> bool:
        _lock(connection, seen.id, {MAIN_BRANCH, branch})
        main = find_table(connection, self._context, seen.identifier)
        if main.id != seen.id or not raise_version(connection, seen):
            return False
        if not _has_branch(connection, main.id, branch):
            raise _branch_not_found(main.identifier, branch)
        options = read_schema(connection, main).options
        for option in OTHER_BRANCH_OPTIONS + CHAIN_BRANCH_OPTIONS:
            if options.get(option, "").strip() == branch:
                raise Invalid(
                    f"table {main.identifier}: its option '{option}' names branch '{branch}'; "
                    "remove the option first"
                )
        directory = TableLayout(main.path, branch).branch_location
        if _users(connection, main.id, directory):
            return False
        # Files of a rename that storage has not followed are still where they were.
        left = connection.execute(
            select(OutboxRow.path).where(
                OutboxRow.table_id == main.id,
                OutboxRow.branch == branch,
                OutboxRow.action == Action.MOVE.value,
            )
        ).scalars()
        for path in [*left, directory]:
            self._outbox.add(connection, Action.DROP, main.id, MAIN_BRANCH, path=path)
        models = (
            OutboxRow, SnapshotRow, SchemaRow, PartitionRow, ConsumerLeaseRow, BranchRow,
        )  # fmt: skip
        delete_branch_rows(connection, main.id, branch, models)
        self._recorded(connection, main, EventType.DROP_BRANCH, {"branch": branch})
        return True

    def _recorded(
        self,
        connection: Connection,
        record: TableRecord,
        type_: EventType,
        details: Mapping[str, Detail],
    ) -> None:
        subject = Subject.table(record.identifier, record.id)
        record_event(connection, self._context, type_, subject, details)


def _lock(connection: Connection, table_id: str, branches: set[str]) -> None:
    for branch in sorted(branches, key=lambda name: (name != MAIN_BRANCH, name)):
        lock_branch(connection, table_id, branch)


def _has_branch(connection: Connection, table_id: str, branch: str) -> bool:
    rows = connection.execute(
        select(BranchRow.branch).where(BranchRow.table_id == table_id, BranchRow.branch == branch)
    )
    return rows.one_or_none() is not None


def _users(connection: Connection, table_id: str, directory: str) -> Sequence[str]:
    """The branches with open decisions that read or empty a directory."""
    return (
        connection.execute(
            select(OutboxRow.branch)
            .where(OutboxRow.table_id == table_id, OutboxRow.path == directory)
            .distinct()
        )
        .scalars()
        .all()
    )


def _refuse_main(branch: str, what: str) -> None:
    if branch == MAIN_BRANCH:
        raise Invalid(f"the main branch cannot be {what}; name another branch")


def _branch_not_found(identifier: Identifier, branch: str) -> NotFound:
    return NotFound(
        f"table {identifier} has no branch '{branch}'",
        resource_type=ResourceType.BRANCH,
        resource_name=branch,
    )
