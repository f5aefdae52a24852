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
        """Whether a database cannot be dropped; NotFound (DATABASE)."""
        return self._read("databases", name)

    def is_table_protected(self, identifier: Identifier) -> bool:
        """Whether a table cannot be dropped; NotFound (TABLE)."""
        return self._read(*table_path(identifier), of=identifier)

    def protect_database(self, name: str, protected: bool = True) -> None:
        """Set a database's flag, or take it back; NotFound (DATABASE)."""
        self._write(protected, "databases", name)

    def protect_table(self, identifier: Identifier, protected: bool = True) -> None:
        """Set a table's flag, or take it back; NotFound (TABLE)."""
        self._write(protected, *table_path(identifier), of=identifier)

    def _read(self, *segments: str, of: Identifier | None = None) -> bool:
        path = (*segments, _SEGMENT)
        return self._requests.manage("GET", ProtectionModel, *path, of=of).protected

    def _write(self, protected: bool, *segments: str, of: Identifier | None = None) -> None:
        body, path = ProtectionModel(protected=protected), (*segments, _SEGMENT)
        self._requests.manage("POST", ProtectionModel, *path, body=body, of=of)
