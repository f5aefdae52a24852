"""References serialised with deletions: one version per table, and at most one open deletion.

Every change of references is decided in a transaction that raises the version from the one that
was read before storage was looked at (`reference_table`, `raise_version`). If it has changed,
nothing is decided, and the caller looks again. So what a decision is based on is what storage has
when it is made, without a lock while files are read. See ``docs/decisions/0030-references.md``.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import DeletionRow, OutboxRow, TableRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.snapshot_reads import settled_table
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch, table_busy
from headwater.storage.errors import Invalid
from headwater.storage.maintenance.deletion import Deletion, OpenDeletion, References

__all__ = ["MAX_ATTEMPTS", "SqlReferences", "raise_version", "reference_table"]

MAX_ATTEMPTS = 20
"""How often a change of references is tried while others change them."""

_MAX_ID_LENGTH = 36


def reference_table(context: CatalogContext, outbox: Outbox, identifier: Identifier) -> TableRecord:
    """A table whose references are to be changed; storage reflects all that was decided.

    Raises:
        NotFound, Unsupported, Conflict: As `settled_table`.
    """
    for _ in range(MAX_ATTEMPTS):
        # The version first: what is decided afterwards raises it.
        record = settled_table(context, outbox, identifier)
        with context.database.read() as connection:
            pending = connection.execute(
                select(OutboxRow.branch)
                .where(OutboxRow.table_id == record.id, OutboxRow.action != Action.SNAPSHOT.value)
                .distinct()
            ).scalars()
            branches = pending.all()
        if not branches:
            return record
        for branch in branches:
            outbox.settle(record.id, branch)
    raise table_busy(identifier)


def raise_version(connection: Connection, seen: TableRecord) -> bool:
    """Count a change of references, in its own transaction; False if others came before it.

    The caller holds the branches' locks, which are taken before the table's row.
    """
    raised = connection.execute(
        update(TableRow)
        .where(TableRow.id == seen.id, TableRow.references_version == seen.references_version)
        .values(references_version=seen.references_version + 1)
    )
    return raised.rowcount == 1


class SqlReferences:
    """Implements `headwater.catalog.model.references.TableReferences`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Applies decisions to storage.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox

    def state(self, identifier: Identifier) -> References:
        """The version of a table's references; storage reflects every change up to it."""
        record = reference_table(self._context, self._outbox, identifier)
        with self._context.database.read() as connection:
            row = connection.execute(
                select(DeletionRow.deletion_id, DeletionRow.created_at).where(
                    DeletionRow.table_id == record.id
                )
            ).one_or_none()
        open_deletion = None if row is None else OpenDeletion(row.deletion_id, row.created_at)
        return References(record.references_version, open_deletion)

    def commit_deletion(self, identifier: Identifier, deletion: Deletion) -> bool:
        """Decide a deletion, and delete its roots; False if references have changed."""
        if not 0 < len(deletion.id) <= _MAX_ID_LENGTH:
            raise Invalid(
                f"cannot delete from {identifier}: the id of a deletion has 1 to {_MAX_ID_LENGTH} "
                f"characters, not {len(deletion.id)}; use a UUID"
            )
        record = reference_table(self._context, self._outbox, identifier)

        def work(connection: Connection) -> bool:
            lock_branch(connection, record.id, record.branch)
            now = find_table(connection, self._context, identifier)
            open_id = connection.execute(
                select(DeletionRow.deletion_id).where(DeletionRow.table_id == now.id)
            ).scalar_one_or_none()
            if open_id == deletion.id:
                return True  # committed before: its response was lost
            if open_id is not None or now.id != record.id:
                return False
            if now.references_version != deletion.version or not raise_version(connection, now):
                return False
            self._decide(connection, now, deletion)
            return True

        if not self._context.database.write(work):
            return False
        done = f"files of table {identifier} are deleted"
        self._outbox.finish(record.id, record.branch, done)
        return True

    def _decide(self, connection: Connection, record: TableRecord, deletion: Deletion) -> None:
        removal = deletion.removal
        if record.snapshot_id < removal.snapshots_before:
            raise Invalid(
                f"cannot delete snapshots before {removal.snapshots_before} from "
                f"{record.identifier}: its latest is {record.snapshot_id}, and that stays"
            )
        if deletion.has_files:
            row = {
                "table_id": record.id,
                "deletion_id": deletion.id,
                "branch": record.branch,
                "created_at": self._context.runtime.now_millis(),
                "created_by": current_name(),
            }
            connection.execute(insert(DeletionRow), row)
        if not removal.is_empty:
            self._outbox.add(
                connection,
                Action.DELETE_ROOTS,
                record.id,
                record.branch,
                document=removal.to_json(),
            )
        subject = Subject.table(record.identifier, record.id)
        where = of_branch(record.branch)
        for name in removal.tags:
            details = {"tag": name, **where}
            record_event(connection, self._context, EventType.DELETE_TAG, subject, details)
        for consumer_id in removal.consumers:
            details = {"consumer": consumer_id, "next": None, **where}
            record_event(connection, self._context, EventType.RESET_CONSUMER, subject, details)

    def finish_deletion(self, identifier: Identifier, deletion_id: str) -> None:
        """Forget an open deletion whose files are gone; nothing happens when it is another's."""

        def work(connection: Connection) -> None:
            record = find_table(connection, self._context, identifier)
            connection.execute(
                delete(DeletionRow).where(
                    DeletionRow.table_id == record.id, DeletionRow.deletion_id == deletion_id
                )
            )

        self._context.database.write(work)
