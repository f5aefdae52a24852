"""Temporary keys of a catalog that a program opens itself, which gives out none."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.temporary_keys import TemporaryKey
from headwater.storage.errors import Unsupported

__all__ = ["NoTemporaryKeys"]


class NoTemporaryKeys:
    """Implements `headwater.catalog.model.temporary_keys.TemporaryKeys` by saying who does."""

    def create(
        self,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] | None = None,
        warehouses: Collection[str] | None = None,
    ) -> TemporaryKey:
        """Refuse; raises Unsupported."""
        raise Unsupported(
            "a temporary key is made of the credential that a caller shows to a server, and an "
            "embedded catalog asks for none: connect to the server with a token"
        )
