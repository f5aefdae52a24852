"""Batches: requests of several clients at the same moment are done together.

A request that comes while a batch is under way waits for the next one. So each batch begins after
the requests that it answers, and each answer is no older than its request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headwater.storage.errors import Unavailable

__all__ = ["MOST_UNDER_WAY", "Batch"]

K = TypeVar("K")
V = TypeVar("V")

_LOG = logging.getLogger(__name__)


MOST_UNDER_WAY = 8
"""The number of batches of a kind that are under way at most, where each takes long."""

# Far more than a batch takes, far less than anybody would wait for.
_PATIENCE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _Asked(Generic[K, V]):
    """One that waits for its batch."""

    key: K
    future: asyncio.Future[V | None]
    begin: Callable[[], bool] | None


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
        longest_seconds: The time after which nobody waits for a batch any more; None for no bound.
    """

    def __init__(
        self,
        work: Callable[[Sequence[K]], Awaitable[Sequence[V | None]]],
        *,
        most: int,
        linger_seconds: float = 0.0,
        patience_seconds: float = _PATIENCE_SECONDS,
        longest_seconds: float | None = None,
    ) -> None:
        self._work = work
        self._most = most
        self._linger_seconds = linger_seconds
        self._patience_seconds = patience_seconds
        self._longest_seconds = longest_seconds
        self._waiting: list[_Asked[K, V]] = []
        # Each with the time at which it began, by the event loop's clock.
        self._under_way: dict[asyncio.Task[None], float] = {}
        self._enough = 0
        # Each is there while it is waited for: those who may come again, the batch under way.
        self._linger: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None

    async def get(self, key: K, begin: Callable[[], bool] | None = None) -> V | None:
        """Do one, with others; None when it is left to others.

        Args:
            key: The one.
            begin: Called when its batch begins; not done if this is False, or if nobody waits.

        Raises:
            Unavailable: All batches that may be under way have taken too long.
        """
        self._refuse_if_stuck()
        future: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(key, future, begin))
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
        asked = self._next()
        if not asked:
            return
        loop = asyncio.get_running_loop()
        patience = loop.call_later(self._patience_seconds, self._lose_patience)
        self._patience = patience
        task = loop.create_task(self._do(asked))
        self._under_way[task] = loop.time()
        task.add_done_callback(lambda ended: self._end(ended, patience, len(asked)))

    def _next(self) -> list[_Asked[K, V]]:
        """Take those of the next batch, without whoever waits no more."""
        asked: list[_Asked[K, V]] = []
        taken = 0
        for each in self._waiting:
            if len(asked) == self._most:
                break
            taken += 1
            if not each.future.done() and (each.begin is None or each.begin()):
                asked.append(each)
        del self._waiting[:taken]
        return asked

    def _refuse_if_stuck(self) -> None:
        if self._longest_seconds is None or len(self._under_way) < MOST_UNDER_WAY:
            return
        if (
            max(self._under_way.values()) + self._longest_seconds
            < asyncio.get_running_loop().time()
        ):
            raise Unavailable(
                f"{MOST_UNDER_WAY} batches wait for storage or the database, which do not answer; "
                "nothing was done, try again"
            )

    async def _do(self, asked: Sequence[_Asked[K, V]]) -> None:
        results: Sequence[V | None] = [None] * len(asked)
        try:
            results = await self._work([each.key for each in asked])
        finally:
            for each, result in zip(asked, results, strict=True):
                if not each.future.done():  # its client may have gone
                    each.future.set_result(result)

    def _lose_patience(self) -> None:
        self._patience = None
        self._begin()

    def _end(self, ended: asyncio.Task[None], patience: asyncio.TimerHandle, asked: int) -> None:
        """Go on when a batch of so many has ended."""
        self._under_way.pop(ended, None)
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
