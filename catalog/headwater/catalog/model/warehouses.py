"""Warehouses that are managed at run time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headwater.storage.errors import Invalid

__all__ = ["HIDDEN", "WarehouseInfo", "check_warehouse_name", "harmless_options"]

HIDDEN = "***"
"""The placeholder for an option's value that may be a secret."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# Whatever is not known to be harmless is taken for a secret.
_HARMLESS = re.compile(r"(.*[.-])?(endpoint|region|path[.-]style[.-]access)")


@dataclass(frozen=True)
class WarehouseInfo:
    """A warehouse of the catalog's database.

    Attributes:
        name: Its name, the `prefix` of its paths.
        location: Its URI.
        options: Options to reach it, credentials included: never shown or logged.
        created_at: Milliseconds since the epoch.
        updated_at: Milliseconds since the epoch.
    """

    name: str
    location: str
    options: Mapping[str, str] = field(repr=False)
    created_at: int
    updated_at: int

    @property
    def shown_options(self) -> Mapping[str, str]:
        """The options with every value hidden that may be a secret."""
        harmless = harmless_options(self.options)
        return MappingProxyType({key: harmless.get(key, HIDDEN) for key in sorted(self.options)})


def harmless_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """The storage options that anybody may see: endpoints, regions and the style of paths."""
    return {
        key: value
        for key, value in options.items()
        if _HARMLESS.fullmatch(key) and "@" not in value
    }


def check_warehouse_name(name: str) -> None:
    """Refuse a name that a warehouse must not have; raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:80]!r} is not a warehouse name: use letters, digits, dots, dashes and "
            "underscores, a letter or digit first, at most 200 of them"
        )
