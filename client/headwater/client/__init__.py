"""Access to a catalog: `connect` to a folder, a SQL database or a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.client.connect import connect
from headwater.client.lake import Lake

if TYPE_CHECKING:
    from headwater.client.rest import RestCatalog

__all__ = ["Lake", "RestCatalog", "connect"]


def __getattr__(name: str) -> object:
    """Import the REST catalog when it is asked for: an embedded catalog needs no HTTP."""
    if name == "RestCatalog":
        from headwater.client.rest import RestCatalog

        return RestCatalog
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
