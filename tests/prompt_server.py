"""A server that stops when it is told to, not at its next look at the clock."""

from __future__ import annotations

import asyncio
import socket

import uvicorn


class PromptServer(uvicorn.Server):
    """uvicorn's server without the tenths of a second that it sleeps before it stops.

    The suites start one for nearly every test. How the product's own server stops is the business
    of `tests/server/test_shutdown.py`, which runs it as it is.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _told: asyncio.Event | None = None

    async def main_loop(self) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            try:
                await asyncio.wait_for(self._told.wait(), 0.1)
            except TimeoutError:
                continue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for sock in sockets or []:
            sock.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.001)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()

    def stop(self) -> None:
        """End the server; it may be called from any thread."""
        self.should_exit = True
        if self._loop is not None and self._told is not None:
            self._loop.call_soon_threadsafe(self._told.set)
