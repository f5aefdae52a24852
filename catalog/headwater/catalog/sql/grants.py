"""What becomes of grants when what they are on goes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete
from sqlalchemy.engine import Connection

from headwater.catalog.sql.models import GrantRow

__all__ = ["drop_grants"]

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
