"""The owners of bearer tokens, asked of the database no more often than need be."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread

from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.storage.runtime import Runtime

__all__ = ["CONFIGURED", "KEPT_MILLIS", "FindToken", "TokenCheck"]

CONFIGURED = "configured"
"""The name of the principal of a token that the settings name."""

# Whoever runs the server gave them out: they open every catalog.
_OPERATOR = Principal(CONFIGURED)
_MANAGER = Principal(CONFIGURED, scopes=frozenset({Scope.ADMINISTER, Scope.MANAGE}))

KEPT_MILLIS = 10_000
"""The time for which an answer of the database is believed: a revoked token still works for it."""

_MOST_KEPT = 1024
# Look-ups that may wait for the database at the same time; others wait for them.
_MOST_LOOKUPS = 4

FindToken = Callable[[str], TokenInfo | None]
T = TypeVar("T")


@dataclass(frozen=True)
class _Kept(Generic[T]):
    value: T
    until: float


class _Recent(Generic[T]):
    """A bounded store of answers that are young enough; the one used longest ago goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str, now: float) -> T | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if now >= kept.until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return kept.value

    def put(self, key: str, value: T, until: float) -> None:
        with self._lock:
            self._kept[key] = _Kept(value, until)
            self._kept.move_to_end(key)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)


class TokenCheck:
    """Checks tokens against the settings' and the database's.

    Tokens that open nothing are remembered apart from those that do: whoever tries out many cannot
    push the good ones out.

    Args:
        configured: The tokens that the settings name.
        find: Finds a token in the database by its hash; None when only the settings count.
        runtime: The clock.
        managers: The tokens of the settings that open the management API, too.
    """

    def __init__(
        self,
        configured: Iterable[str],
        find: FindToken | None,
        runtime: Runtime,
        *,
        managers: Iterable[str] = (),
    ) -> None:
        self._managers = tuple(token_hash(token) for token in managers)
        self._configured = tuple(token_hash(token) for token in configured)
        self._find = find
        self._runtime = runtime
        self._known: _Recent[TokenInfo] = _Recent()
        self._unknown: _Recent[bool] = _Recent()
        self._limiter: CapacityLimiter | None = None

    async def principal(self, token: str) -> Principal | None:
        """The owner of a token; None when it opens nothing.

        Raises:
            Unavailable: The database had to be asked and did not answer.
        """
        offered = token_hash(token)
        if _is_among(offered, self._managers):
            return _MANAGER
        if _is_among(offered, self._configured):
            return _OPERATOR
        known = await self._valid(offered)
        return None if known is None else known.principal

    async def _valid(self, offered: str) -> TokenInfo | None:
        """The database's token of a hash, if it opens the server now."""
        if self._find is None:
            return None
        # A clock that is set back must not make an answer young again.
        asked = self._runtime.monotonic()
        known = self._known.get(offered, asked)
        if known is None:
            if self._unknown.get(offered, asked):
                return None
            if self._limiter is None:
                self._limiter = CapacityLimiter(_MOST_LOOKUPS)
            known = await to_thread.run_sync(self._find, offered, limiter=self._limiter)
            if known is None:
                self._unknown.put(offered, True, asked + KEPT_MILLIS / 1000)
                return None
            self._known.put(offered, known, asked + KEPT_MILLIS / 1000)
        return known if known.is_valid(self._runtime.now_millis()) else None


def _is_among(offered: str, hashes: Sequence[str]) -> bool:
    # Every one is compared, in constant time: how long it takes tells nothing.
    matches = [hmac.compare_digest(offered, each) for each in hashes]
    return any(matches)
