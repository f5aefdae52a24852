"""Temporary keys: access keys with an end, made from another credential."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from headwater.catalog.model.principal import Scope

__all__ = ["TemporaryKey", "TemporaryKeys", "expiration_text"]

_DATE_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class TemporaryKey:
    """An access key that is good only together with its security token, and until its end.

    Attributes:
        access_key_id: The id that requests signed with it name.
        secret: The secret that they are signed with, which is never sent.
        security_token: The text that is sent and signed with each of them.
        expires_at: The end, milliseconds since the epoch, a whole second.
    """

    access_key_id: str
    secret: str = field(repr=False)
    security_token: str = field(repr=False)
    expires_at: int

    def document(self) -> dict[str, str]:
        """The document that Paimon's clients read from ``dlf.token-path`` (``DLFToken``)."""
        return {
            "AccessKeyId": self.access_key_id,
            "AccessKeySecret": self.secret,
            "SecurityToken": self.security_token,
            "Expiration": expiration_text(self.expires_at),
        }


class TemporaryKeys(Protocol):
    """Makes temporary keys of the caller's own credential."""

    def create(
        self,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] | None = None,
        warehouses: Collection[str] | None = None,
    ) -> TemporaryKey:
        """Make a key that can do no more than the credential of this connection, and ends with it.

        Args:
            lifetime: The time until it ends, unless the credential ends sooner; None is the longest
                that the server gives.
            scopes: The kinds of request that it shall be good for; None is those of the credential
                without `Scope.MANAGE`.
            warehouses: The only warehouses that it shall be good for; None is those of the
                credential.

        Raises:
            Invalid: The lifetime is longer than the server gives, or nothing.
            Forbidden: The credential has not these scopes or warehouses, or is a temporary key
                itself.
            Unsupported: The catalog gives out none.
            Unavailable: The server or its database did not answer.
        """
        ...


def expiration_text(millis: int) -> str:
    """An end as Paimon's clients read it: a second in UTC, not later than the moment."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime(_DATE_FORMAT)
