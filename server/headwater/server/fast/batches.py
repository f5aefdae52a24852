"""Batches: requests of several clients at the same moment are done together.

A request that comes while a batch is under way waits for the next one. So each batch begins after
the requests that it answers, and each answer is no older than its request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["MOST_UNDER_WAY", "Batch"]

K = TypeVar("K")
V = TypeVar("V")

_LOG = logging.getLogger(__name__)


MOST_UNDER_WAY = 8
"""The number of batches of a kind that are under way at most, where each takes long."""

# Far more than a batch takes, far less than anybody would wait for.
_PATIENCE_SECONDS = 0.25


class Batch(Generic[K, V]):
    """Collects what is asked for until it can be done together.

    One batch is under way at a time, unless it takes long: then others no longer wait for it, up to
    `MOST_UNDER_WAY` of them.

    Args:
        work: Does a batch; a result of None is left to others.
        most: The size of a batch.
        linger_seconds: The time for which a batch waits for clients that the one before it
            answered, where several ask.
        patience_seconds: The time for which the next batch waits for the one that is under way.
    """

    def __init__(
        self,
        work: Callable[[Sequence[K]], Awaitable[Sequence[V | None]]],
        *,
        most: int,
        linger_seconds: float = 0.0,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._work = work
        self._most = most
        self._linger_seconds = linger_seconds
        self._patience_seconds = patience_seconds
        self._waiting: list[tuple[K, asyncio.Future[V | None]]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._enough = 0
        # Each is there while it is waited for: those who may come again, the batch under way.
        self._linger: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None

    async def get(self, key: K) -> V | None:
        """Do one, with others; None when it is left to others."""
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._linger is None or len(self._waiting) >= self._enough:
            self._begin()
        return await future

    def _begin(self) -> None:
        """Begin a batch, if anything is asked for and nothing is to be waited for."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        is_full = len(self._under_way) >= MOST_UNDER_WAY
        if not self._waiting or self._patience is not None or is_full:
            return
        asked, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        loop = asyncio.get_running_loop()
        patience = loop.call_later(self._patience_seconds, self._lose_patience)
        self._patience = patience
        task = loop.create_task(self._do(asked))
        self._under_way.add(task)
        task.add_done_callback(lambda ended: self._end(ended, patience, len(asked)))

    async def _do(self, asked: Sequence[tuple[K, asyncio.Future[V | None]]]) -> None:
        results: Sequence[V | None] = [None] * len(asked)
        try:
            results = await self._work([key for key, _ in asked])
        finally:
            for (_, future), result in zip(asked, results, strict=True):
                if not future.done():  # its client may have gone
                    future.set_result(result)

    def _lose_patience(self) -> None:
        self._patience = None
        self._begin()

    def _end(self, ended: asyncio.Task[None], patience: asyncio.TimerHandle, asked: int) -> None:
        """Go on when a batch of so many has ended."""
        self._under_way.discard(ended)
        if not ended.cancelled() and (error := ended.exception()) is not None:
            _LOG.error("a batch failed; its requests are answered one by one", exc_info=error)
        if self._patience is not patience:
            self._begin()
            return
        patience.cancel()
        self._patience = None
        # Those who were answered may come again at once, and go with those who wait.
        self._enough = min(self._most, len(self._waiting) + asked)
        if self._linger_seconds > 0 and self._enough > 1:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(self._linger_seconds, self._begin)
        else:
            self._begin()
