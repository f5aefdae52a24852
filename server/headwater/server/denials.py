"""Requests that were refused, for the change feed: however many, their events are bounded."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.server.request_counts import ANYTHING, OTHERS, NotedRequest, RequestCounts
from headwater.storage.runtime import Runtime

__all__ = ["DENIED", "MOST_CALLERS", "MOST_THINGS", "Denials"]

DENIED = "denied"
"""The key, in a connection's state, that says that a 404 hides what the caller may not see."""

MOST_CALLERS = 10
"""The callers of whom each turn tells; so many with a name, and so many addresses without."""

MOST_THINGS = 5
"""The things that it tells for each of them."""

MOST_KEPT = 1000
"""The events that wait for a database that is away."""


@dataclass
class _Budget:
    """The events that may be written at once, and those that follow in a minute."""

    most: float
    a_minute: float
    left: float
    filled_at: float

    def take(self, now: float) -> bool:
        """Use up one of them at a time by the monotonic clock; False if none is left."""
        more = (now - self.filled_at) / 60 * self.a_minute
        self.left, self.filled_at = min(self.left + more, self.most), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


_Caller = tuple[str | None, str | None]


class Denials(RequestCounts):
    """Refused requests that are yet to be written, however many: their number is bounded.

    Of each caller the first things are told that were refused to it, and of the first callers, as
    long as there is a budget of events, which grows with time. All that is beyond is added up.
    Callers that nobody knows have a budget of their own: they cannot crowd out those who have a
    name.

    Args:
        runtime: The clock.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._monotonic = runtime.monotonic
        now = runtime.monotonic()
        self._named, self._nameless = _Budget(100, 20, 100, now), _Budget(50, 5, 50, now)
        self._things: dict[_Caller, int] = {}

    def _begin_turn(self) -> None:
        self._things = {}

    def _told(self, noted: NotedRequest) -> NotedRequest:
        """The form in which something new is told."""
        is_named = noted.principal is not None
        caller = (noted.principal, None if is_named else noted.address)
        things = self._things.get(caller, 0)
        if things >= MOST_THINGS:
            return NotedRequest(*caller, "", ANYTHING, OTHERS, noted.status)
        budget = self._named if is_named else self._nameless
        callers = sum((principal is not None) == is_named for principal, _ in self._things)
        is_beyond = (not things and callers >= MOST_CALLERS) or len(self._counts) >= MOST_KEPT
        if is_beyond or not budget.take(self._monotonic()):
            return NotedRequest(None, None, "", ANYTHING, OTHERS, noted.status)
        self._things[caller] = things + 1
        return noted
