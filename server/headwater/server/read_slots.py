"""The reads of tables that a server process does at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio import CapacityLimiter, Semaphore

from headwater.storage.errors import Unavailable

__all__ = ["ReadSlots"]


class ReadSlots:
    """Lets so many reads run; others wait for their turn, and not for ever.

    Args:
        most: The number of reads.
        wait_seconds: The longest time that one waits.
    """

    def __init__(self, most: int, wait_seconds: float) -> None:
        self._most = most
        self._wait_seconds = wait_seconds
        self._turns: Semaphore | None = None
        self._threads: CapacityLimiter | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, which ends with the block.

        Raises:
            Unavailable: There are too many reads.
        """
        # In the loop that uses them.
        if self._turns is None:
            self._turns = Semaphore(self._most)
        try:
            with anyio.fail_after(self._wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable(
                f"the server reads {self._most} tables already, which is its limit "
                "(HEADWATER_READ_CONCURRENCY); try again"
            ) from None
        try:
            yield
        finally:
            self._turns.release()

    @property
    def threads(self) -> CapacityLimiter:
        """The threads that read, apart from those that answer other requests."""
        if self._threads is None:
            self._threads = CapacityLimiter(self._most)
        return self._threads
