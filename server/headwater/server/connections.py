"""The connections that clients keep open, and what a server grants each."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Connection", "ConnectionLimits", "Connections", "allow_open_files"]

_LOG = logging.getLogger("headwater.server")

# For the database, storage and whatever else a process opens beside its clients' connections.
_OTHER_FILES = 512
_MOST_LINGERING = 100


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of one server process.

    Attributes:
        connections: The number of connections that may be open.
        per_client: The number of them that may come from one address.
        head_bytes: The largest head of a request: its first line and its headers.
        head_seconds: The longest time a head may take, and the longest pause in a body.
        idle_seconds: The longest time a connection stays open between two requests.
    """

    connections: int = 1000
    per_client: int = 250
    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 75.0


class Connection(Protocol):
    """A connection that can be closed while it has no request under way."""

    def give_way(self) -> None:
        """Close, so that another connection can be taken."""


class Connections:
    """The open connections of one server process.

    Where there is no room for another one, the connection that has been idle for longest makes
    way: clients that hold connections without asking anything keep nobody else out.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._clients: dict[Connection, str] = {}
        self._counts: Counter[str] = Counter()
        # In the order in which they became idle.
        self._idle: dict[Connection, None] = {}
        self._lingering: set[Connection] = set()

    def enter(self, connection: Connection, client: str) -> bool:
        """Take an idle connection from an address, if there is room for it or room is made."""
        while not (is_welcome := self._has_room(client)):
            if not self._make_room(client):
                break
        if is_welcome:
            self._clients[connection] = client
            self._counts[client] += 1
            self._idle[connection] = None
        return is_welcome

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed, or closes."""
        client = self._clients.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if self._counts[client] == 0:
                del self._counts[client]
        self._idle.pop(connection, None)
        self._lingering.discard(connection)

    def linger(self, connection: Connection) -> bool:
        """Let a connection stay, beside the limits, until its client has read the last answer.

        False if there are too many such already.
        """
        self.leave(connection)
        if len(self._lingering) >= _MOST_LINGERING:
            return False
        self._lingering.add(connection)
        return True

    def busy(self, connection: Connection) -> None:
        """Keep a connection open, which has a request under way."""
        self._idle.pop(connection, None)

    def idle(self, connection: Connection) -> None:
        """Let a connection make way, whose request is answered."""
        if connection in self._clients:
            self._idle[connection] = None

    def _has_room(self, client: str) -> bool:
        return (
            len(self._clients) < self.limits.connections
            and self._counts[client] < self.limits.per_client
        )

    def _make_room(self, client: str) -> bool:
        """Close the connection that has been idle for longest; False if none is idle."""
        is_client_full = self._counts[client] >= self.limits.per_client
        candidates = (
            connection
            for connection in self._idle
            if not is_client_full or self._clients[connection] == client
        )
        longest = next(candidates, None)
        if longest is None:
            return False
        self.leave(longest)
        longest.give_way()
        return True


def allow_open_files(connections: int) -> None:
    """Let this process, and those that it starts, open as many files as connections need."""
    if sys.platform == "win32":
        return
    import resource

    needed = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    if allowed < needed:
        _LOG.warning(
            "this process may open only %s files, too few for %s connections; raise the limit "
            "(ulimit -n), or lower HEADWATER_MAX_CONNECTIONS",
            allowed,
            connections,
        )
