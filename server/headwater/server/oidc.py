"""Access tokens of an OpenID Connect issuer: signed claims about who calls."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from math import isfinite
from typing import TypeGuard

from anyio import CapacityLimiter, to_thread
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from headwater.catalog.model.principal import GROUP_PREFIX, Principal, Scope
from headwater.catalog.model.tokens import token_hash
from headwater.catalog.sql.admin.principal_names import check_principal_name
from headwater.server.issuer_keys import IssuerKeys
from headwater.server.recent_answers import RecentAnswers
from headwater.server.settings import SIGNING_ALGORITHMS
from headwater.storage.errors import Invalid
from headwater.storage.runtime import Runtime

__all__ = ["OidcCheck", "OidcRules", "looks_signed"]

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LONGEST_TOKEN = 16_384
_MOST_KEPT = 4096
_MOST_LOOKUPS = 4
_LONGEST_GROUP = 128 - len(GROUP_PREFIX)


@dataclass(frozen=True)
class OidcRules:
    """The tokens that are taken, and what their claims mean.

    Attributes:
        issuer: The issuer that they must be of.
        audience: The audience that they must be for.
        algorithms: The algorithms that they may be signed with.
        clock_skew: The difference between the issuer's clock and this one that is borne.
        principal_claim: The claim with the principal's name.
        groups_claim: The claim with the principal's groups.
        administrators: The principals, and groups as ``group:NAME``, that administer and manage.
    """

    issuer: str
    audience: str
    algorithms: Collection[str]
    clock_skew: timedelta
    principal_claim: str
    groups_claim: str
    administrators: Collection[str]


@dataclass(frozen=True)
class Verified:
    """A principal, and when its token ends, seconds since the epoch."""

    principal: Principal
    expires_at: float


class OidcCheck:
    """Checks tokens that an issuer signed.

    Args:
        rules: The tokens that are taken.
        keys: The issuer's keys.
        runtime: The clock.
        groups_of: Tells the groups of a principal that the catalog keeps, beside those in the
            token.
    """

    def __init__(
        self,
        rules: OidcRules,
        keys: IssuerKeys,
        runtime: Runtime,
        groups_of: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self._rules = rules
        self._keys = keys
        self._runtime = runtime
        self._groups_of = groups_of
        self._known: RecentAnswers[Verified] = RecentAnswers(_MOST_KEPT)
        self._limiters: tuple[CapacityLimiter, CapacityLimiter] | None = None

    async def verified(self, token: str) -> Verified | None:
        """The principal that a token speaks of; None if it is not one to be taken.

        Raises:
            Unavailable: The issuer, or the database, had to be asked and did not answer.
        """
        asked = self._runtime.monotonic()
        hash_ = token_hash(token)
        found = self._known.get(hash_, asked)
        if found is None:
            found = await to_thread.run_sync(
                self._verified, token, limiter=self._limiter_for(_header(token).get("kid"))
            )
            if found is None:
                return None
            self._known.put(hash_, found, asked)
        return None if self._is_over(found.expires_at) else found

    def _limiter_for(self, key_id: object) -> CapacityLimiter:
        """The queue of a token: one whose key is at hand does not wait behind made-up ones."""
        if self._limiters is None:
            self._limiters = CapacityLimiter(_MOST_LOOKUPS), CapacityLimiter(_MOST_LOOKUPS)
        is_known = isinstance(key_id, str) and self._keys.known(key_id) is not None
        return self._limiters[is_known]

    def _is_over(self, expires_at: float) -> bool:
        return self._runtime.latest_millis() / 1000 >= expires_at + self._skew

    @property
    def _skew(self) -> float:
        return self._rules.clock_skew.total_seconds()

    def _verified(self, token: str) -> Verified | None:
        header = _header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        type_ = header.get("typ", "JWT")
        if (
            not isinstance(algorithm, str)
            or algorithm not in self._rules.algorithms
            or algorithm not in SIGNING_ALGORITHMS
            or not isinstance(key_id, str)
            or not isinstance(type_, str)
            or type_.lower() not in _TYPES
            # Nothing that must be understood beyond the rest is.
            or "crit" in header
        ):
            return None
        key = self._keys.find(key_id)
        if key is None or not _is_for(key, algorithm):
            return None
        try:
            claims = jwt.decode(token, key, algorithms=[algorithm]).claims
        except (JoseError, ValueError, TypeError):
            return None
        expires_at = claims.get("exp")
        if not _is_time(expires_at) or not self._are_in_force(claims):
            return None
        principal = self._principal(claims)
        return None if principal is None else Verified(principal, float(expires_at))

    def _are_in_force(self, claims: dict[str, object]) -> bool:
        """True if claims are the issuer's, for this audience, and of this time."""
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self._rules.issuer or self._rules.audience not in audiences:
            return False
        expires_at = claims.get("exp")
        if not _is_time(expires_at) or self._is_over(expires_at):
            return False
        now = self._runtime.now_millis() / 1000
        for name in ("nbf", "iat"):
            begins = claims.get(name, 0)
            if not _is_time(begins) or now < begins - self._skew:
                return False
        return True

    def _principal(self, claims: dict[str, object]) -> Principal | None:
        name, listed = claims.get(self._rules.principal_claim), claims.get(self._rules.groups_claim)
        if not isinstance(name, str):
            return None
        try:
            check_principal_name(name, "principal's")
        except Invalid:
            return None
        listed = [listed] if isinstance(listed, str) else listed
        groups = {
            each
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, str) and 0 < len(each) <= _LONGEST_GROUP
        }
        if self._groups_of is not None:
            groups.update(self._groups_of(name))
        principal = Principal(
            name, frozenset(groups), frozenset({Scope.WRITE}), asks_permission=True
        )
        if principal.grantees.isdisjoint(self._rules.administrators):
            return principal
        scopes = frozenset({Scope.ADMINISTER, Scope.MANAGE})
        return replace(principal, scopes=scopes, asks_permission=False)


def looks_signed(token: str) -> bool:
    """True if a bearer token has the form of a signed one, whoever signed it."""
    return token.count(".") == 2 and len(token) <= _LONGEST_TOKEN and "alg" in _header(token)


def _header(token: str) -> dict[str, object]:
    """The header of a signed token, which anybody may have written; empty if there is none."""
    part = token.split(".", 1)[0]
    try:
        header = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _is_for(key: Key, algorithm: str) -> bool:
    """True if a key is one for an algorithm, and not for another alone."""
    return key.key_type == _KEY_TYPES[algorithm[:2]] and key.get("alg", algorithm) == algorithm


def _is_time(value: object) -> TypeGuard[float]:
    # Not a number would be neither before nor after any time.
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
