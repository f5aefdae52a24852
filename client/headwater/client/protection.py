"""Protection over HTTP, by Headwater's own management API."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.management import ProtectionModel
from headwater.client.requests import Requests, table_path

__all__ = ["RestProtection"]

_SEGMENT = "protection"


class RestProtection:
    """Implements `headwater.catalog.model.protection.Protection`.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def is_database_protected(self, name: str) -> bool:
        """True if a database cannot be dropped; NotFound (DATABASE)."""
        return self._read("databases", name)

    def is_table_protected(self, identifier: Identifier) -> bool:
        """True if a table cannot be dropped; NotFound (TABLE)."""
        return self._read(*table_path(identifier))

    def protect_database(self, name: str, protected: bool = True) -> None:
        """Set a database's flag, or take it back; NotFound (DATABASE)."""
        self._write(protected, "databases", name)

    def protect_table(self, identifier: Identifier, protected: bool = True) -> None:
        """Set a table's flag, or take it back; NotFound (TABLE)."""
        self._write(protected, *table_path(identifier))

    def _read(self, *segments: str) -> bool:
        return self._requests.manage("GET", ProtectionModel, *segments, _SEGMENT).protected

    def _write(self, protected: bool, *segments: str) -> None:
        body = ProtectionModel(protected=protected)
        self._requests.manage("POST", ProtectionModel, *segments, _SEGMENT, body=body)
