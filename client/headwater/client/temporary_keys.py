"""Temporary keys over HTTP, by Headwater's own management API."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.temporary_keys import TemporaryKey
from headwater.catalog.wire.temporary_keys import CreateTemporaryKeyRequest, TemporaryKeyModel
from headwater.client.requests import Requests

__all__ = ["RestTemporaryKeys"]


class RestTemporaryKeys:
    """Implements `headwater.catalog.model.temporary_keys.TemporaryKeys`.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def create(
        self,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] | None = None,
        warehouses: Collection[str] | None = None,
    ) -> TemporaryKey:
        """Make a key of the connection's token."""
        body = CreateTemporaryKeyRequest(
            lifetime_millis=None if lifetime is None else lifetime // timedelta(milliseconds=1),
            scopes=None if scopes is None else sorted(scope.value for scope in scopes),
            warehouses=None if warehouses is None else sorted(warehouses),
        )
        made = self._requests.manage_all(
            TemporaryKeyModel, "temporary-keys", method="POST", body=body
        )
        return made.key()
