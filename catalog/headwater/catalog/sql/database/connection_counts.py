"""The number of connections to the database, from all pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakSet

from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

__all__ = ["Change", "ConnectionCounts"]

Change: TypeAlias = Callable[[int], None]
"""Told by how many connections there are more, or less."""


class ConnectionCounts:
    """Tells those who watch of the connections of a pool, and of those beside it.

    Args:
        engine: The engine of the pool; it has yet to connect.
    """

    def __init__(self, engine: Engine) -> None:
        self._watches: list[tuple[Change, Change]] = []
        self._open = _follow(engine, "connect", "close", self.opened)
        self._in_use = _follow(engine, "checkout", "checkin", self.used)

    def watch(self, opened: Change, used: Change) -> None:
        """Tell of the connections that are open and in use, now and whenever that changes.

        Those beside the pool are told of from now on.
        """
        opened(len(self._open))
        used(len(self._in_use))
        self._watches.append((opened, used))

    def opened(self, change: int) -> None:
        """So many more connections are open."""
        for opened, _ in self._watches:
            opened(change)

    def used(self, change: int) -> None:
        """So many more of them are in use."""
        for _, used in self._watches:
            used(change)


def _follow(engine: Engine, begin: str, end: str, tell: Change) -> WeakSet[ConnectionPoolEntry]:
    """The places of a pool between two of its events.

    The second may come alone: SQLAlchemy gives back a place that it could not connect anew and so
    did not lend, and closes a connection that it could not prepare and so did not count as made.
    """
    found: WeakSet[ConnectionPoolEntry] = WeakSet()

    def begins(_: object, place: ConnectionPoolEntry, *others: object) -> None:
        found.add(place)
        tell(1)

    def ends(_: object, place: ConnectionPoolEntry) -> None:
        if place in found:
            found.remove(place)
            tell(-1)

    event.listen(engine, begin, begins)
    event.listen(engine, end, ends)
    return found
