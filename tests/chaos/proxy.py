"""A TCP proxy that delays, resets, or loses the answers of what goes through it."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Any

__all__ = ["Mode", "Proxy"]

_PIECE = 65_536


class Mode(StrEnum):
    """What becomes of what goes through.

    Attributes:
        PASS: It goes through.
        DELAY: Nothing goes through until the mode is another; then all of it does.
        RESET: Connections are reset, and new ones too.
        LOSE_ANSWERS: What clients send goes through, answers do not; connections are reset at the
            end.
    """

    PASS = "pass"
    DELAY = "delay"
    RESET = "reset"
    LOSE_ANSWERS = "lose answers"


class Proxy:
    """Listens on a loopback port for a server that listens on another.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._mode = Mode.PASS
        self._loop = asyncio.new_event_loop()
        self._passing = asyncio.Event()
        self._passing.set()
        self._connections: set[asyncio.StreamWriter] = set()
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, sock=listener))

    def set(self, mode: Mode) -> None:
        """Change the mode."""
        self._run(self._set(mode))

    def close(self) -> None:
        """Reset everything and listen no more."""
        self._run(self._set(Mode.RESET))
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _set(self, mode: Mode) -> None:
        lost, self._mode = self._mode is Mode.LOSE_ANSWERS, mode
        if mode is Mode.RESET or lost:
            for writer in list(self._connections):
                _reset(writer)
        if mode is Mode.DELAY:
            self._passing.clear()
        else:
            self._passing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.RESET:
            _reset(writer)
            return
        try:
            await self._passing.wait()
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        both = {writer, ours}
        self._connections |= both
        pumps = [
            asyncio.ensure_future(self._pump(reader, ours, is_answer=False)),
            asyncio.ensure_future(self._pump(theirs, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._connections -= both
            for each in both:
                each.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._passing.wait()
                if is_answer and self._mode is Mode.LOSE_ANSWERS:
                    continue
                writer.write(piece)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side sees a reset."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport = writer.transport
    transport.abort()
