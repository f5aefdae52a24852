"""The end of grants and labels whose object is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.engine import Connection

from headwater.catalog.model.permissions import TargetType
from headwater.catalog.sql.database.models import GrantRow, LabelRow

__all__ = ["NO_OBJECT", "drop_attached", "drop_warehouse_grants"]

NO_OBJECT = ""
"""The object of grants on a warehouse itself, which has no row: no object has this id."""

# SQLite takes no more than some hundred parameters in a statement on old versions.
_AT_ONCE = 500


def drop_attached(connection: Connection, object_ids: Sequence[str]) -> None:
    """Forget the grants and labels on databases, tables, views or functions that are deleted.

    To be called after their rows are: who grants or labels holds such a row's lock, so that what
    was attached before is seen here, and what comes later finds nothing to attach to.
    """
    for start in range(0, len(object_ids), _AT_ONCE):
        some = object_ids[start : start + _AT_ONCE]
        for row in (GrantRow, LabelRow):
            connection.execute(delete(row).where(row.object_id.in_(some)))


def drop_warehouse_grants(connection: Connection, warehouse: str) -> None:
    """Forget the grants on a warehouse that is removed; what is in it has gone before."""
    connection.execute(
        delete(GrantRow).where(
            GrantRow.object_id == NO_OBJECT,
            GrantRow.resource_type.in_([TargetType.CATALOG.value, TargetType.CATALOG_ALL.value]),
            GrantRow.warehouse == warehouse,
        )
    )
