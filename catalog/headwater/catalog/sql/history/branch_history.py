"""The rows of a branch: copied from one branch to another, compared, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlalchemy import (
    ColumnElement,
    Select,
    SQLColumnExpression,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
)
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

__all__ = [
    "common_snapshot",
    "common_snapshots",
    "copy_rows",
    "delete_branch_rows",
    "forgotten_up_to",
]

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


def common_snapshots(
    connection: Connection, table_id: str, one: str, other: str, up_to: int
) -> Sequence[int]:
    """The snapshots, up to one, that two branches have in common."""
    mine = aliased(SnapshotRow)
    common = _in_common(mine, mine.snapshot_id, table_id, one, other)
    return connection.execute(common.where(mine.snapshot_id <= up_to)).scalars().all()


def common_snapshot(connection: Connection, table_id: str, one: str, other: str) -> int:
    """The last snapshot that two branches have in common; 0 for none."""
    mine = aliased(SnapshotRow)
    common = _in_common(mine, func.max(mine.snapshot_id), table_id, one, other)
    return connection.execute(common).scalar_one() or 0


def _in_common(
    mine: type[SnapshotRow], found: SQLColumnExpression[int], table_id: str, one: str, other: str
) -> Select[int]:
    theirs = aliased(SnapshotRow)
    return (
        select(found)
        .join(
            theirs,
            and_(
                theirs.table_id == mine.table_id,
                theirs.branch == other,
                theirs.snapshot_id == mine.snapshot_id,
            ),
        )
        .where(
            mine.table_id == table_id,
            mine.branch == one,
            or_(
                mine.uuid == theirs.uuid,
                and_(mine.uuid.is_(None), theirs.uuid.is_(None), mine.document == theirs.document),
            ),
        )
    )


def forgotten_up_to(connection: Connection, table_id: str, branch: str) -> int:
    """The snapshot up to which rows of a branch may be missing; 0 for none."""
    return connection.execute(
        select(BranchRow.forgotten_snapshot_id).where(
            BranchRow.table_id == table_id, BranchRow.branch == branch
        )
    ).scalar_one()
