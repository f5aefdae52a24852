"""The lock of a warehouse that can be removed, for rows that are kept under its name alone.

A server goes on with what it knows of a warehouse for a while after another one removed it. Nearly
everything is kept in a database of the warehouse, and none is removed that has one.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import WarehouseRow
from headwater.storage.errors import Unavailable

__all__ = ["hold_warehouse"]


def hold_warehouse(connection: Connection, context: CatalogContext) -> None:
    """Keep the warehouse from being removed until the transaction ends.

    Raises:
        Unavailable: It was removed, or is another one now: a server that asks the database again
            knows that.
    """
    if not context.is_managed:
        return
    location = connection.execute(
        select(WarehouseRow.location)
        .where(WarehouseRow.name == context.warehouse)
        .with_for_update(read=True)
    ).scalar_one_or_none()
    if location != context.location:
        raise Unavailable(
            f"warehouse '{context.warehouse}' at {context.location} was removed by somebody; retry "
            "in some seconds"
        )
