"""Reading on a connection that may be lost: the statement is run again on another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine
from sqlalchemy.exc import DBAPIError

from headwater.catalog.sql.database.transient import is_lost

__all__ = ["RetriedReads"]

T = TypeVar("T")


class RetriedReads(Connection):
    """A connection for reading alone, whose statements outlive the connection they began on.

    A statement sees what is committed as it begins, whatever the connection read before: so one
    whose connection was lost is run again on another. The rows are all there once it has run, but
    for SQLite's, whose connections are not lost.

    Args:
        engine: The engine to connect with.
        may_repeat: Told how many attempts failed; whether there is to be another one, after a
            little waiting.
    """

    def __init__(self, engine: Engine, may_repeat: Callable[[int], bool]) -> None:
        self._may_repeat = may_repeat
        super().__init__(engine)

    def execute(self, *statement: Any, **options: Any) -> CursorResult[*tuple[Any, ...]]:
        """Run a statement; see `Connection.execute`."""
        run = super().execute
        return self.repeated(lambda: run(*statement, **options))

    def repeated(self, run: Callable[[], T]) -> T:
        """Run one statement, and run it again where its connection was lost."""
        failed = 0
        while True:
            try:
                if self.invalidated:
                    # Connects, so that a failure to do so is told from one of the statement.
                    _ = self.connection
                return run()
            except DBAPIError as error:
                failed += 1
                if not is_lost(error) or not self._may_repeat(failed):
                    raise
            self._forget()

    def _forget(self) -> None:
        """Take another connection for the next statement."""
        if not self.invalidated:
            self.invalidate()
        # What SQLAlchemy takes for a transaction went with the connection.
        if self.in_transaction():
            self.rollback()
