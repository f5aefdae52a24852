"""Tokens: secrets with a name, limits and, if so wished, an end.

A bearer token is sent with each request; an access key's secret signs requests and is never sent.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from headwater.catalog.model.principal import Principal, Scope

__all__ = ["AccessKey", "NewToken", "TokenInfo", "TokenKind", "token_hash"]


class TokenKind(StrEnum):
    """The ways in which a token proves who calls.

    Attributes:
        BEARER: The token itself is sent.
        DLF: An access key, whose secret signs each request as Paimon's DLF clients do.
    """

    BEARER = "bearer"
    DLF = "dlf"


@dataclass(frozen=True)
class TokenInfo:
    """A token without its secret; times are milliseconds since the epoch.

    Attributes:
        name: Whom it was given to: what logs call the caller, and what permissions are granted to.
        created_at: The time of its creation, milliseconds since the epoch.
        expires_at: From when on it opens nothing; None is never.
        scopes: The kinds of request that it is good for.
        warehouses: The only warehouses that it is good for; None means all.
        groups: The groups that its holder belongs to.
        access_key_id: The id that signed requests name; None for a bearer token.
        id: The id of its record, which no other token ever has; empty if there is no record.
    """

    name: str
    created_at: int
    expires_at: int | None = None
    scopes: frozenset[Scope] = frozenset({Scope.WRITE})
    warehouses: frozenset[str] | None = None
    groups: frozenset[str] = frozenset()
    access_key_id: str | None = None
    id: str = ""

    @property
    def kind(self) -> TokenKind:
        """The way in which it proves who calls."""
        return TokenKind.BEARER if self.access_key_id is None else TokenKind.DLF

    def is_valid(self, now_millis: int) -> bool:
        """True if it opens the server at a moment."""
        return self.expires_at is None or now_millis < self.expires_at

    @cached_property
    def principal(self) -> Principal:
        """Its holder, who asks permission unless the token is for administration."""
        asks_permission = Scope.ADMINISTER not in self.scopes
        return Principal(self.name, self.groups, self.scopes, self.warehouses, asks_permission)


@dataclass(frozen=True)
class NewToken:
    """A token that was just made: the only time its secret is to be seen."""

    info: TokenInfo
    secret: str = field(repr=False)


@dataclass(frozen=True)
class AccessKey:
    """A token of kind DLF with the secret that its holder's requests are signed with."""

    info: TokenInfo
    secret: str = field(repr=False)

    def is_valid(self, now_millis: int) -> bool:
        """True if it opens the server at a moment."""
        return self.info.is_valid(now_millis)


def token_hash(secret: str) -> str:
    """The stored form of a token: its SHA-256 in hexadecimal digits.

    A plain hash is enough: a token has 244 random bits, so there is nothing to guess that salt or
    slowness would protect.
    """
    return hashlib.sha256(secret.encode("latin-1", "replace")).hexdigest()
