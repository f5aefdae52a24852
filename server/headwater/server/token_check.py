"""The owners of bearer tokens, asked of the database no more often than need be."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.server.oidc import OidcCheck, looks_signed
from headwater.server.remembered_lookup import RememberedLookup
from headwater.storage.runtime import Runtime

__all__ = ["CONFIGURED", "FindToken", "TokenCheck"]

CONFIGURED = "configured"
"""The name of the principal of a token that the settings name."""

# Whoever runs the server gave them out: they open every catalog.
_OPERATOR = Principal(CONFIGURED)
_MANAGER = Principal(CONFIGURED, scopes=frozenset({Scope.ADMINISTER, Scope.MANAGE}))

FindToken = Callable[[str], TokenInfo | None]


class TokenCheck:
    """Checks tokens against the settings' and the database's.

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
        self._tokens: RememberedLookup[TokenInfo] = RememberedLookup(find, runtime)

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
            known = await self._tokens.valid(offered)
            found = None if known is None else known.principal
        if found is None or self._enforces_permissions:
            return found
        return replace(found, asks_permission=False)


def _is_among(offered: str, hashes: Sequence[str]) -> bool:
    # Every one is compared, in constant time: how long it takes tells nothing.
    matches = [hmac.compare_digest(offered, each) for each in hashes]
    return any(matches)
