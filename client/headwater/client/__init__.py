"""Access to a catalog: `connect` to a folder, a SQL database or a server."""

from headwater.client.connect import connect
from headwater.client.lake import Lake
from headwater.client.rest import RestCatalog

__all__ = ["Lake", "RestCatalog", "connect"]
