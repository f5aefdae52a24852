"""Look-ups of credentials in the database, no more often than need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from anyio import CapacityLimiter, to_thread

from headwater.server.recent_answers import RecentAnswers
from headwater.storage.runtime import Runtime

__all__ = ["RememberedLookup"]

_MOST_KEPT = 1024
# Look-ups that may wait for the database at the same time; others wait for them.
_MOST_LOOKUPS = 4


class _Expiring(Protocol):
    def is_valid(self, now_millis: int) -> bool:
        """True if it opens the server at a moment."""
        ...


T = TypeVar("T", bound=_Expiring)


class RememberedLookup(Generic[T]):
    """Finds credentials and remembers them.

    Those that there are not are remembered apart from those that there are: whoever tries out many
    cannot push the good ones out.

    Args:
        find: Finds one in the database; None when there is no database.
        runtime: The clock.
    """

    def __init__(self, find: Callable[[str], T | None] | None, runtime: Runtime) -> None:
        self._find = find
        self._runtime = runtime
        self._known: RecentAnswers[T] = RecentAnswers(_MOST_KEPT)
        self._unknown: RecentAnswers[bool] = RecentAnswers(_MOST_KEPT)
        self._limiter: CapacityLimiter | None = None

    async def valid(self, key: str) -> T | None:
        """The credential that is found by a key, if it opens the server now.

        Raises:
            Unavailable: The database had to be asked and did not answer.
        """
        if self._find is None:
            return None
        # A clock that is set back must not make an answer young again.
        asked = self._runtime.monotonic()
        known = self._known.get(key, asked)
        if known is None:
            if self._unknown.get(key, asked):
                return None
            if self._limiter is None:
                self._limiter = CapacityLimiter(_MOST_LOOKUPS)
            known = await to_thread.run_sync(self._find, key, limiter=self._limiter)
            if known is None:
                self._unknown.put(key, True, asked)
                return None
            self._known.put(key, known, asked)
        return known if known.is_valid(self._runtime.latest_millis()) else None
