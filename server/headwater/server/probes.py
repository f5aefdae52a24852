"""The probes behind `/readyz`, of what the server depends on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from sqlalchemy import select

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.server.readiness import Probe
from headwater.storage.errors import HeadwaterError

__all__ = ["probes_of"]

_LOG = logging.getLogger("headwater.server.readiness")


def probes_of(
    database: SqlDatabase, catalogs: Callable[[], Mapping[str, SqlCatalog]]
) -> Mapping[str, Probe]:
    """Probes of the database, which is one for all, and of the warehouses' storage.

    Of the storage one warehouse's must answer: every replica has the same warehouses, so that one
    that somebody described wrongly would otherwise take all others out of service.
    """

    def check_database() -> None:
        with database.read() as connection:
            connection.execute(select(1)).scalar_one()

    def check_storage() -> None:
        last: HeadwaterError | None = None
        for name, catalog in catalogs().items():
            try:
                catalog.operation.check_storage()
            except HeadwaterError as error:
                _LOG.warning("the storage of warehouse %s: %s", name, error)
                last = error
            else:
                return
        if last is not None:
            raise last

    return {"database": check_database, "storage": check_storage}
