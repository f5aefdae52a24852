"""The end of grants whose object is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.engine import Connection

from headwater.catalog.model.permissions import TargetType
from headwater.catalog.sql.database.models import GrantRow

__all__ = ["NO_OBJECT", "drop_grants", "drop_warehouse_grants"]

NO_OBJECT = ""
"""The object of grants on a warehouse itself, which has no row: no object has this id."""

# SQLite takes no more than some hundred parameters in a statement on old versions.
_AT_ONCE = 500


def drop_grants(connection: Connection, object_ids: Sequence[str]) -> None:
    """Forget the grants on databases, tables, views or functions that are deleted.

    To be called after their rows are: who grants holds such a row's lock, so that what was granted
    before is seen here, and what comes later finds nothing to grant on.
    """
    for start in range(0, len(object_ids), _AT_ONCE):
        some = object_ids[start : start + _AT_ONCE]
        connection.execute(delete(GrantRow).where(GrantRow.object_id.in_(some)))


def drop_warehouse_grants(connection: Connection, warehouse: str) -> None:
    """Forget the grants on a warehouse that is removed; what is in it has gone before."""
    connection.execute(
        delete(GrantRow).where(
            GrantRow.object_id == NO_OBJECT,
            GrantRow.resource_type.in_([TargetType.CATALOG.value, TargetType.CATALOG_ALL.value]),
            GrantRow.warehouse == warehouse,
        )
    )
