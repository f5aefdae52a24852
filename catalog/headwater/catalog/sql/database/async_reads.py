"""Look-ups in a PostgreSQL database by an event loop, without a thread between.

A server that answers thousands of look-ups in a second spends more on handing each to a thread, and
back, than the look-up takes. What fails here is to be read again the ordinary way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import finalize

from sqlalchemy import Engine

from headwater.catalog.sql.database.connection_counts import ConnectionCounts
from headwater.catalog.sql.database.drivers import PLANNING, PREPARED_STATEMENTS, network_limits
from headwater.catalog.sql.database.prepared import Prepared
from headwater.storage.errors import Unavailable

__all__ = ["MOST_CONNECTIONS", "AsyncReads"]

MOST_CONNECTIONS = 16
"""The connections of an event loop at most; further look-ups wait for one."""

# A database that takes longer than this to look something up is left to those who can wait.
_SECONDS = 5


class AsyncReads:
    """The connections of one event loop, as many as there are look-ups at the same time.

    Args:
        engine: To a PostgreSQL database.
        counts: The counts of connections.
    """

    def __init__(self, engine: Engine, counts: ConnectionCounts) -> None:
        self._engine = engine
        self._counts = counts
        self._idle: list[_Connection] = []
        self._places = asyncio.Semaphore(MOST_CONNECTIONS)
        self._is_closed = False

    async def rows(
        self, statement: Prepared, **values: str | int | None
    ) -> Sequence[tuple[Any, ...]]:
        """The rows of a statement, which sees what is committed as it begins.

        Raises:
            Unavailable: The database did not answer in time.
        """
        from psycopg import Error

        text, parameters = statement.for_driver(self._engine.dialect, values)
        async with self._places:
            connection: _Connection | None = None
            self._counts.used(1)
            try:
                connection = self._idle.pop() if self._idle else await self._connect()
                cursor = await connection.driver.execute(text, parameters)
                found: Sequence[tuple[Any, ...]] = await cursor.fetchall()
            except (Error, OSError, TimeoutError) as error:
                # The others are as old as the one that failed.
                self._give_back_idle()
                reason = str(error)
                raise Unavailable(
                    f"the catalog's database did not answer: {reason}; retry", private=reason
                ) from error
            else:
                if not self._is_closed:
                    self._idle.append(connection)
                    connection = None
            finally:
                # Unless all went well: it failed, or the caller no longer waits.
                if connection is not None:
                    connection.give_back()
                self._counts.used(-1)
            return found

    async def _connect(self) -> _Connection:
        from psycopg import AsyncConnection, AsyncRawCursor

        _, arguments = self._engine.dialect.create_connect_args(self._engine.url)
        # The server gives up a statement by itself, and the network a server that is gone.
        limits = {**network_limits(_SECONDS), "connect_timeout": _SECONDS}
        made = await AsyncConnection.connect(**{**limits, **arguments}, autocommit=True)
        connection = _Connection(made, self._counts)
        settings = [
            f"statement_timeout = {_SECONDS * 1000}",
            *PLANNING,
            # Look-ups are by keys: a plan that was made for one value is good for all.
            "plan_cache_mode = force_generic_plan",
            # Tables are joined as the statement says: a planner that knows nothing yet of a table
            # that grows fast would read all of a table's snapshots to find the latest.
            "join_collapse_limit = 1",
        ]
        await made.execute("; ".join(f"SET {setting}" for setting in settings).encode())
        made.cursor_factory = AsyncRawCursor
        made.prepared_max = PREPARED_STATEMENTS
        return connection

    def close(self) -> None:
        """Give back the connections: those in use as soon as they are not."""
        self._is_closed = True
        self._give_back_idle()

    def _give_back_idle(self) -> None:
        while self._idle:
            self._idle.pop().give_back()


class _Connection:
    """A connection that is returned when nothing refers to it any more.

    Also when its event loop is gone, where nothing can be awaited.
    """

    def __init__(self, driver: Any, counts: ConnectionCounts) -> None:
        self.driver = driver
        counts.opened(1)
        self.give_back = finalize(self, _finish, driver.pgconn, counts)


def _finish(connection: Any, counts: ConnectionCounts) -> None:
    connection.finish()
    counts.opened(-1)
