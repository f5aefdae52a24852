"""Upkeep of a warehouse: sweeps, the backlog and health checks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.database.models import OutboxRow
from headwater.catalog.sql.history.expired_history import ExpiredHistory
from headwater.catalog.sql.outbox.outbox import Outbox, RepairReport
from headwater.catalog.sql.tables.dropped_tables import SqlDroppedTables

__all__ = ["Backlog", "Operation", "SweepReport"]


@dataclass(frozen=True)
class SweepReport:
    """The result of a sweep.

    Attributes:
        repaired: The repair of decisions that storage had yet to follow.
        purged: The number of dropped tables it deleted because their retention had ended.
        forgotten: The number of rows of snapshots that it deleted for the same reason.
    """

    repaired: RepairReport
    purged: int
    forgotten: int


@dataclass(frozen=True)
class Backlog:
    """The decisions that storage has yet to follow in a warehouse.

    Attributes:
        decisions: The number of decisions.
        oldest_millis: The age of the oldest, milliseconds; 0 when there is none.
    """

    decisions: int
    oldest_millis: int


class Operation:
    """Runs one warehouse.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Follows decisions on storage.
        dropped: Keeps dropped tables.
        history: Deletes rows of expired snapshots.
    """

    def __init__(
        self,
        context: CatalogContext,
        outbox: Outbox,
        dropped: SqlDroppedTables,
        history: ExpiredHistory,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._dropped = dropped
        self._history = history

    @property
    def database(self) -> SqlDatabase:
        """The connections to the database."""
        return self._context.database

    def sweep(self) -> SweepReport:
        """Do what is to be done now and then: repair, and delete what is kept long enough.

        Any number of servers may do it at the same time.
        """
        repaired = self._outbox.repair()
        return SweepReport(repaired, self._dropped.purge_expired(), self._history.forget())

    def backlog(self) -> Backlog:
        """Count the decisions that storage has yet to follow; raises Unavailable."""
        with self._context.database.read() as connection:
            count, oldest = connection.execute(
                select(func.count(), func.min(OutboxRow.created_at)).where(
                    OutboxRow.warehouse == self._context.warehouse
                )
            ).one()
        age = 0 if oldest is None else self._context.runtime.now_millis() - oldest
        return Backlog(count, max(age, 0))

    def check_database(self) -> None:
        """Ask the database for something; raises Unavailable."""
        with self._context.database.read() as connection:
            connection.execute(select(1)).scalar_one()

    def check_storage(self) -> None:
        """Raise Unavailable or Forbidden unless the warehouse is there and files can be written."""
        self._context.files.check_directory(self._context.location)
        self._outbox.marker.check()
