"""The requests that each caller may send in a second."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil

from headwater.storage.runtime import Runtime

__all__ = ["BURST_SECONDS", "RequestRates"]

BURST_SECONDS = 10.0
"""The seconds whose requests a caller may send at once, after having sent none for as long."""

_MOST_KEPT = 10_000


class RequestRates:
    """A token bucket for each caller, of one server process.

    All that is kept of a caller is the moment at which its bucket is full again. It is not safe to
    use from several threads: the event loop alone does.

    Args:
        per_second: The rate at which buckets fill; 0 lets everything through.
        runtime: The clock.
        most_kept: The number of callers beyond which those are forgotten whose buckets are full,
            and if that is not enough, those who have been there for longest.
    """

    def __init__(self, per_second: float, runtime: Runtime, most_kept: int = _MOST_KEPT) -> None:
        self._seconds_each = 1 / per_second if per_second else 0.0
        # Even the slowest rate lets a single request through.
        self._burst_seconds = max(BURST_SECONDS, self._seconds_each)
        self._monotonic = runtime.monotonic
        self._most_kept = most_kept
        self._full_at: dict[Hashable, float] = {}

    def take(self, caller: Hashable) -> int | None:
        """Count a request; the seconds after which to try again if there are too many, else None.

        A request that is refused does not count.
        """
        if not self._seconds_each:
            return None
        now = self._monotonic()
        full_at = max(self._full_at.get(caller, now), now) + self._seconds_each
        # A little more, because the parts of a second do not add up exactly.
        missing = full_at - now - self._burst_seconds - 1e-6
        if missing > 0:
            return ceil(missing)
        self._full_at[caller] = full_at
        if len(self._full_at) > self._most_kept:
            self._forget(now)
        return None

    def _forget(self, now: float) -> None:
        left = [(caller, at) for caller, at in self._full_at.items() if at > now]
        # Half of them, so that this is not done for every request.
        self._full_at = dict(left[-(self._most_kept // 2) :])
