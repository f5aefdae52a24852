"""The owners of bearer tokens, asked of the database no more often than need be."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from anyio import CapacityLimiter, to_thread

from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.server.oidc import OidcCheck, looks_signed
from headwater.server.recent_answers import RecentAnswers
from headwater.storage.runtime import Runtime

__all__ = ["CONFIGURED", "FindToken", "TokenCheck"]

CONFIGURED = "configured"
"""The name of the principal of a token that the settings name."""

# Whoever runs the server gave them out: they open every catalog.
_OPERATOR = Principal(CONFIGURED)
_MANAGER = Principal(CONFIGURED, scopes=frozenset({Scope.ADMINISTER, Scope.MANAGE}))

_MOST_KEPT = 1024
# Look-ups that may wait for the database at the same time; others wait for them.
_MOST_LOOKUPS = 4

FindToken = Callable[[str], TokenInfo | None]


class TokenCheck:
    """Checks tokens against the settings' and the database's.

    Tokens that open nothing are remembered apart from those that do: whoever tries out many cannot
    push the good ones out.

    Args:
        configured: The tokens that the settings name.
        find: Finds a token in the database by its hash; None when only the settings count.
        runtime: The clock.
        managers: The tokens of the settings that open the management API, too.
        enforces_permissions: False if nobody has to ask permission.
        signed: Checks tokens that an issuer signed.
    """

    def __init__(
        self,
        configured: Iterable[str],
        find: FindToken | None,
        runtime: Runtime,
        *,
        managers: Iterable[str] = (),
        enforces_permissions: bool = True,
        signed: OidcCheck | None = None,
    ) -> None:
        self._managers = tuple(token_hash(token) for token in managers)
        self._configured = tuple(token_hash(token) for token in configured)
        self._signed = signed
        self._enforces_permissions = enforces_permissions
        self._find = find
        self._runtime = runtime
        self._known: RecentAnswers[TokenInfo] = RecentAnswers(_MOST_KEPT)
        self._unknown: RecentAnswers[bool] = RecentAnswers(_MOST_KEPT)
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
        if self._signed is not None and looks_signed(token):
            found = await self._signed.principal(token)
        else:
            known = await self._valid(offered)
            found = None if known is None else known.principal
        if found is None or self._enforces_permissions:
            return found
        return replace(found, asks_permission=False)

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
                self._unknown.put(offered, True, asked)
                return None
            self._known.put(offered, known, asked)
        return known if known.is_valid(self._runtime.now_millis()) else None


def _is_among(offered: str, hashes: Sequence[str]) -> bool:
    # Every one is compared, in constant time: how long it takes tells nothing.
    matches = [hmac.compare_digest(offered, each) for each in hashes]
    return any(matches)
