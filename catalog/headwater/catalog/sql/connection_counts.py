"""How many connections to the database there are, whoever made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlalchemy import Engine, event
from sqlalchemy.pool import QueuePool

__all__ = ["Change", "ConnectionCounts"]

Change: TypeAlias = Callable[[int], None]
"""Told by how many connections there are more, or less."""


class ConnectionCounts:
    """Tells those who watch of the connections of a pool, and of those beside it."""

    def __init__(self) -> None:
        self._watches: list[tuple[Change, Change]] = []

    def watch(self, engine: Engine, opened: Change, used: Change) -> None:
        """Tell of a pool's connections that are open and in use, now and whenever that changes.

        Those beside the pool are told of from now on.
        """
        if isinstance(engine.pool, QueuePool):
            in_use = engine.pool.checkedout()
            opened(engine.pool.checkedin() + in_use)
            used(in_use)
        event.listen(engine, "connect", lambda *_: opened(1))
        event.listen(engine, "close", lambda *_: opened(-1))
        event.listen(engine, "checkout", lambda *_: used(1))
        event.listen(engine, "checkin", lambda *_: used(-1))
        self._watches.append((opened, used))

    def opened(self, change: int) -> None:
        """So many more connections beside the pool are open."""
        for opened, _ in self._watches:
            opened(change)

    def used(self, change: int) -> None:
        """So many more of them are in use."""
        for _, used in self._watches:
            used(change)
