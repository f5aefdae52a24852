"""Ports for servers that must be told theirs before they start, or start again at the same one."""

from __future__ import annotations

import socket

__all__ = ["free_port"]

_KEPT: list[socket.socket] = []


def free_port() -> int:
    """A loopback port at which nobody listens, and which is given to nobody else.

    It stays bound until this process ends, so that the system gives it to no one who asks for any
    port. A server that reuses addresses, as all that the suites start do, can listen at it all the
    same; while none does, connections are refused.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    port: int = kept.getsockname()[1]
    return port
