"""The one door for commits.

One transaction decides (see ``docs/decisions/0001-commit-protocol.md``); then storage follows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum, auto

from sqlalchemy import ColumnElement, bindparam, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.identifier import Identifier
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.lookup import TableRecord, find_table, table_not_found
from headwater.catalog.sql.models import BranchRow, SnapshotRow
from headwater.catalog.sql.outbox import Action, Outbox
from headwater.catalog.sql.prepared import Prepared
from headwater.catalog.sql.statistics import Sizes, apply_statistics
from headwater.catalog.sql.stream_counts import COUNT_COLUMNS, StreamCounts
from headwater.storage.errors import HeadwaterError, Invalid, OutcomeUnknown, Unavailable
from headwater.storage.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

__all__ = ["Commits"]

_UNKNOWN_OUTCOMES = 3


class _Outcome(Enum):
    DONE = auto()
    CONFLICT = auto()
    SETTLE_FIRST = auto()


def _moving(*conditions: ColumnElement[bool]) -> Prepared:
    return Prepared(
        update(BranchRow)
        .where(
            BranchRow.table_id == bindparam("table"),
            BranchRow.branch == bindparam("branch"),
            BranchRow.snapshot_id == bindparam("before"),
            # A rollback of the schema at the same time must not take away what this names.
            BranchRow.schema_id >= bindparam("schema"),
            *conditions,
        )
        .values(snapshot_id=bindparam("number"), snapshot_uuid=bindparam("uuid"))
    )


_MOVE_FROM_BASE = _moving(BranchRow.snapshot_uuid == bindparam("base"))
_MOVE_FROM_NOTHING = _moving(BranchRow.snapshot_uuid.is_(None))
_MOVE_BY_NUMBER = _moving()


def _move(base_uuid: str | None, snapshot: Snapshot) -> Prepared:
    """How the branch's head moves, if it does."""
    if base_uuid is not None:
        return _MOVE_FROM_BASE
    if snapshot.uuid is not None:
        return _MOVE_FROM_NOTHING
    # A client from before uuids: the number alone decides, or one commit of a newer client would
    # lock it out for ever.
    return _MOVE_BY_NUMBER


_AS_OF = Prepared(
    select(
        SnapshotRow.record_count,
        SnapshotRow.file_size_in_bytes,
        SnapshotRow.file_count,
        SnapshotRow.last_file_creation_time,
        *COUNT_COLUMNS,
    ).where(
        SnapshotRow.table_id == bindparam("table"),
        SnapshotRow.branch == bindparam("branch"),
        SnapshotRow.snapshot_id == bindparam("number"),
    )
)
_INSERT = Prepared(
    insert(SnapshotRow)
    .inline()
    .values({column.name: bindparam(column.name) for column in SnapshotRow.__table__.columns})
)


class Commits:
    """Commits snapshots of one warehouse's tables.

    Args:
        context: Where and with what.
        outbox: Writes the snapshot files.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox

    def commit(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
        also: Callable[[Connection, TableRecord], None] | None = None,
    ) -> bool:
        """Make a snapshot the latest; see `Catalog.commit_snapshot`.

        Args:
            identifier: The table and branch.
            table_id: Its id, if the caller knows it.
            snapshot: The snapshot.
            base_uuid: The uuid of the one before it.
            statistics: What it changes.
            also: Changes more in the same transaction, or raises and so takes it back. It is
                called again when an answer was lost.
        """

        def work(connection: Connection) -> tuple[_Outcome, TableRecord]:
            record = find_table(connection, self._context, identifier)
            if table_id is not None and record.id != table_id:
                raise table_not_found(identifier)
            record.require_snapshots()
            if record.is_pending:
                return _Outcome.SETTLE_FIRST, record
            outcome = self._decide(connection, record, snapshot, base_uuid, statistics)
            if outcome is _Outcome.DONE and also is not None:
                also(connection, record)
            return outcome, record

        unknown = 0
        while True:
            try:
                outcome, record = self._context.database.write(work)
            except OutcomeUnknown:
                # Offered again, a snapshot that was taken is found in the history.
                unknown += 1
                if unknown > _UNKNOWN_OUTCOMES:
                    raise
                continue
            except IntegrityError:
                # Two commits met at the unique key of the snapshot's number.
                return False
            if outcome is _Outcome.CONFLICT:
                return False
            try:
                self._outbox.settle(record.id, record.branch)
            except HeadwaterError as error:
                if outcome is _Outcome.SETTLE_FIRST:
                    raise
                # Decided, and not to be seen yet: any other error would pass for a refusal.
                raise Unavailable(
                    f"snapshot {snapshot.id} of table {identifier} is decided on but cannot be "
                    f"served until storage follows: {error.message}"
                ) from error
            if outcome is _Outcome.DONE:
                return True

    def _decide(
        self,
        connection: Connection,
        record: TableRecord,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> _Outcome:
        moved = _move(base_uuid, snapshot).run(
            connection,
            table=record.id,
            branch=record.branch,
            before=snapshot.id - 1,
            schema=snapshot.schema_id,
            base=base_uuid,
            number=snapshot.id,
            uuid=snapshot.uuid,
        )
        document = snapshot.to_json()
        if moved.rowcount != 1:
            if self._is_replay(connection, record, snapshot, document):
                return _Outcome.DONE
            if snapshot.schema_id > record.schema_id:
                raise Invalid(
                    f"table {record.identifier}: snapshot {snapshot.id} names schema "
                    f"{snapshot.schema_id}, but the latest is {record.schema_id}"
                )
            return _Outcome.CONFLICT
        sizes_before, counts_before = self._as_of(connection, record, snapshot.id - 1)
        sizes = sizes_before.plus(statistics)
        _INSERT.run(
            connection,
            table_id=record.id,
            branch=record.branch,
            snapshot_id=snapshot.id,
            uuid=snapshot.uuid,
            document=document,
            commit_user=snapshot.commit_user,
            commit_identifier=snapshot.commit_identifier,
            commit_kind=snapshot.commit_kind.value,
            record_count=sizes.record_count,
            file_size_in_bytes=sizes.file_size_in_bytes,
            file_count=sizes.file_count,
            last_file_creation_time=sizes.last_file_creation_time,
            statistics=json.dumps([change.to_json() for change in statistics]),
            **StreamCounts.following(counts_before, snapshot).columns(),
        )
        apply_statistics(connection, self._context, record, statistics)
        self._outbox.add(connection, Action.SNAPSHOT, record.id, record.branch, number=snapshot.id)
        return _Outcome.DONE

    def _is_replay(
        self, connection: Connection, record: TableRecord, snapshot: Snapshot, document: str
    ) -> bool:
        """Whether this very snapshot was committed before, be it the latest still or not.

        Answering False for one that is in the history would make its client write it again.
        """
        row = connection.execute(
            select(SnapshotRow.uuid, SnapshotRow.document).where(
                SnapshotRow.table_id == record.id,
                SnapshotRow.branch == record.branch,
                SnapshotRow.snapshot_id == snapshot.id,
            )
        ).one_or_none()
        if row is None:
            return False
        if snapshot.uuid is None:
            return bool(json.loads(row.document) == json.loads(document))
        return bool(row.uuid == snapshot.uuid)

    def _as_of(
        self, connection: Connection, record: TableRecord, snapshot_id: int
    ) -> tuple[Sizes, StreamCounts | None]:
        row = _AS_OF.run(
            connection, table=record.id, branch=record.branch, number=snapshot_id
        ).one_or_none()
        if row is None:
            return Sizes(), None
        records, size, files, newest, *counts = row
        return Sizes(records, size, files, newest), StreamCounts.of(*counts)
