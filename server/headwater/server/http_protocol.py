"""HTTP as uvicorn speaks it, but each answer goes out at once.

uvicorn writes an answer's head and its body one after the other, and the event loop sends each by
itself: two calls into the kernel and two awakenings of the client, where one of each would do.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["WholeAnswers"]


class WholeAnswers(HttpToolsProtocol):
    """The protocol of one connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        self._joining = _Joining(transport)
        super().connection_made(self._joining)  # type: ignore[arg-type]

    def eof_received(self) -> None:
        """The client says no more; the connection closes when this returns, which sends no more."""
        self._joining.flush()


class _Joining:
    """A transport that sends what is written in one turn of the event loop together.

    Args:
        transport: What it is sent through, and what does all else.
    """

    __slots__ = ("_call_soon", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._call_soon = asyncio.get_running_loop().call_soon
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send some, when the event loop has done what it is at."""
        if not self._parts:
            self._call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        """Close when what was written is sent."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send what was written."""
        data, self._parts = b"".join(self._parts), []
        # The client may have gone meanwhile.
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
