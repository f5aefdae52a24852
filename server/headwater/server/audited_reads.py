"""The reads that leave events in the change feed, as the settings say."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["AuditedReads"]

_DATA = frozenset({"readTable", "authTableQuery", "getTableToken", "signTableRequests"})
_TABLES = _DATA | {"getTable", "getTableById", "listTableDetails"}


class AuditedReads(StrEnum):
    """The reads that leave events.

    Attributes:
        NONE: None.
        DATA: Those that give out rows of a table, or what its rows can be read with: credentials,
            signed requests, the conditions of a query.
        TABLES: Those, and the loading of tables.
    """

    NONE = "none"
    DATA = "data"
    TABLES = "tables"

    @property
    def operations(self) -> frozenset[str]:
        """The ids of the operations."""
        return {"none": frozenset[str](), "data": _DATA, "tables": _TABLES}[self.value]
