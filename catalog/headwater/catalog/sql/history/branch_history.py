"""The rows of a branch: copied from one branch to another, compared, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlalchemy import ColumnElement, Table, and_, delete, func, insert, literal, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import aliased

from headwater.catalog.sql.database.models import (
    BranchRow,
    ConsumerLeaseRow,
    OutboxRow,
    PartitionRow,
    SchemaRow,
    SnapshotRow,
)

__all__ = ["common_snapshot", "copy_rows", "delete_branch_rows"]

_OfABranch: TypeAlias = (
    type[BranchRow]
    | type[ConsumerLeaseRow]
    | type[OutboxRow]
    | type[PartitionRow]
    | type[SchemaRow]
    | type[SnapshotRow]
)


def copy_rows(
    connection: Connection,
    model: _OfABranch,
    table_id: str,
    source: str,
    destination: str,
    condition: ColumnElement[bool],
) -> None:
    """Copy a branch's rows, those for which `condition` holds, within the database."""
    table = model.__table__
    assert isinstance(table, Table)
    names = [column.name for column in table.columns]
    values = [
        literal(destination).label(name) if name == "branch" else table.columns[name]
        for name in names
    ]
    rows = select(*values).where(model.table_id == table_id, model.branch == source, condition)
    connection.execute(insert(table).from_select(names, rows))


def delete_branch_rows(
    connection: Connection, table_id: str, branch: str, models: Sequence[_OfABranch]
) -> None:
    """Delete all rows of a branch in some tables."""
    for model in models:
        connection.execute(delete(model).where(model.table_id == table_id, model.branch == branch))


def common_snapshot(connection: Connection, table_id: str, one: str, other: str) -> int:
    """The last snapshot that two branches have in common; 0 for none."""
    first, second = aliased(SnapshotRow), aliased(SnapshotRow)
    same = or_(
        first.uuid == second.uuid,
        and_(first.uuid.is_(None), second.uuid.is_(None), first.document == second.document),
    )
    found = connection.execute(
        select(func.max(first.snapshot_id))
        .join(
            second,
            and_(
                second.table_id == first.table_id,
                second.branch == other,
                second.snapshot_id == first.snapshot_id,
            ),
        )
        .where(first.table_id == table_id, first.branch == one, same)
    ).scalar_one()
    return int(found or 0)
