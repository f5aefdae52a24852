"""The owners of bearer tokens, asked of the database no more often than need be."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.server.credentials import Credential, Parent, ParentKind
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
        find_by_id: Finds a token or access key in the database by its record's id.
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
        find_by_id: FindToken | None = None,
    ) -> None:
        self._managers = tuple(token_hash(token) for token in managers)
        self._configured = tuple(token_hash(token) for token in configured)
        self._signed = signed
        self._enforces_permissions = enforces_permissions
        self._tokens: RememberedLookup[TokenInfo] = RememberedLookup(find, runtime)
        self._records: RememberedLookup[TokenInfo] = RememberedLookup(find_by_id, runtime)

    async def principal(self, token: str) -> Principal | None:
        """The owner of a token; None when it opens nothing; errors are those of `credential`."""
        found = await self.credential(token)
        return None if found is None else found.principal

    async def credential(self, token: str) -> Credential | None:
        """A token's credential; None when it opens nothing.

        Raises:
            Unavailable: The database, or the issuer, had to be asked and did not answer.
        """
        offered = token_hash(token)
        found = self._of_the_settings(offered)
        if found is not None:
            return found
        if self._signed is not None and looks_signed(token):
            return await self._of_the_issuer(token)
        return self._of_a_record(await self._tokens.valid(offered))

    async def again(self, parent: Parent) -> Credential | None:
        """The credential that a temporary key was made of, if it is good still.

        Raises:
            Unavailable: As for `credential`.
        """
        match parent.kind:
            case ParentKind.CONFIGURED:
                return self._of_the_settings(parent.value)
            case ParentKind.SIGNED:
                return await self._of_the_issuer(parent.value)
            case ParentKind.RECORD:
                return self._of_a_record(await self._records.valid(parent.value))

    def of_access_key(self, info: TokenInfo) -> Credential:
        """The credential of an access key that has signed a request."""
        return Credential(self._asking(info.principal), info.expires_at, _record(info))

    def _of_the_settings(self, offered: str) -> Credential | None:
        parent = Parent(ParentKind.CONFIGURED, offered)
        if _is_among(offered, self._managers):
            return Credential(_MANAGER, None, parent)
        if _is_among(offered, self._configured):
            return Credential(_OPERATOR, None, parent)
        return None

    async def _of_the_issuer(self, token: str) -> Credential | None:
        found = None if self._signed is None else await self._signed.verified(token)
        if found is None:
            return None
        end = int(found.expires_at * 1000)
        return Credential(self._asking(found.principal), end, Parent(ParentKind.SIGNED, token))

    def _of_a_record(self, info: TokenInfo | None) -> Credential | None:
        if info is None:
            return None
        return Credential(self._asking(info.principal), info.expires_at, _record(info))

    def _asking(self, principal: Principal) -> Principal:
        if self._enforces_permissions:
            return principal
        return replace(principal, asks_permission=False)


def _record(info: TokenInfo) -> Parent | None:
    return Parent(ParentKind.RECORD, info.id) if info.id else None


def _is_among(offered: str, hashes: Sequence[str]) -> bool:
    # Every one is compared, in constant time: how long it takes tells nothing.
    matches = [hmac.compare_digest(offered, each) for each in hashes]
    return any(matches)
