"""The rows of a table as a whole: locking them, deleting them."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.admin.attached import drop_attached
from headwater.catalog.sql.database.models import (
    BranchRow,
    ConsumerLeaseRow,
    DeletionRow,
    OutboxRow,
    PartitionRow,
    PolicyRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
)
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.claimed_places import Kind, data_claims, release
from headwater.storage.files.layout import MAIN_BRANCH

__all__ = ["drop_table_rows", "lock_all_branches", "lock_table"]


def lock_all_branches(connection: Connection, table_id: str) -> None:
    """Wait for commits and settlements that have begun to end, and keep others from beginning."""
    connection.execute(
        select(BranchRow.branch)
        .where(BranchRow.table_id == table_id)
        .order_by(BranchRow.branch)
        .with_for_update()
    ).all()


def lock_table(connection: Connection, table_id: str) -> None:
    """Lock a table's branches and then its own row.

    In this order, as a commit does: what it writes about a branch needs the table's row to stay.
    """
    lock_all_branches(connection, table_id)
    connection.execute(select(TableRow.id).where(TableRow.id == table_id).with_for_update()).all()


def drop_table_rows(connection: Connection, outbox: Outbox, table_id: str) -> None:
    """Delete what the database knows of a table, and leave word to delete its files.

    The branch rows go first: their locks make commits and settlements that have begun end.
    """
    row = connection.execute(
        select(TableRow.path, TableRow.is_external).where(TableRow.id == table_id)
    ).one_or_none()
    if row is None:
        return
    for model in (
        BranchRow,
        SchemaRow,
        SnapshotRow,
        PartitionRow,
        PolicyRow,
        ConsumerLeaseRow,
        DeletionRow,
        OutboxRow,
    ):
        connection.execute(delete(model).where(model.table_id == table_id))
    connection.execute(delete(TableRow).where(TableRow.id == table_id))
    drop_attached(connection, [table_id])
    if row.is_external:
        release(connection, Kind.EXTERNAL, table_id)
        release(connection, Kind.KEPT_DATA, table_id)
        return
    outbox.add(connection, Action.DROP, table_id, MAIN_BRANCH, path=row.path)
    for data in data_claims(connection, table_id):
        outbox.add(connection, Action.DROP_DATA, table_id, MAIN_BRANCH, path=data.place.key)
