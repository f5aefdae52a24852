"""The JSON about databases. See `…catalog.wire`."""

from __future__ import annotations

from pydantic import Field

from headwater.catalog.model.databases import DatabaseInfo
from headwater.catalog.wire.examples import AUDIT, example
from headwater.catalog.wire.tables import AuditedModel, Listed, WireModel, audit_fields

__all__ = [
    "AlterDatabaseRequest",
    "AlterDatabaseResponse",
    "CreateDatabaseRequest",
    "GetDatabaseResponse",
    "ListDatabasesResponse",
]


class CreateDatabaseRequest(WireModel):
    """``POST …/databases``."""

    model_config = example({"name": "sales", "options": {"owner": "billing"}})

    name: str
    options: dict[str, str | None] | None = None


class AlterDatabaseRequest(WireModel):
    """``POST …/databases/{database}``."""

    model_config = example({"removals": ["comment"], "updates": {"owner": "billing"}})

    removals: list[str] | None = None
    updates: dict[str, str | None] | None = None


class AlterDatabaseResponse(WireModel):
    """The options that were removed, set, or missing."""

    model_config = example({"removed": ["comment"], "updated": ["owner"], "missing": []})

    removed: list[str]
    updated: list[str]
    missing: list[str]


class GetDatabaseResponse(AuditedModel):
    """A database."""

    model_config = example(
        {
            "id": "7a3f4f0e-0c1b-4c39-8a57-54b2a9f0f6d3",
            "name": "sales",
            "location": "file:///lake/sales.db",
            "options": {"owner": "billing"},
            **AUDIT,
        }
    )

    id: str
    name: str
    location: str
    options: dict[str, str] | None = None

    @staticmethod
    def of(info: DatabaseInfo) -> GetDatabaseResponse:
        """The wire form."""
        return GetDatabaseResponse(
            id=info.id,
            name=info.name,
            location=info.location,
            options=dict(info.options),
            **audit_fields(info),
        )

    def info(self) -> DatabaseInfo:
        """The database."""
        return DatabaseInfo(
            id=self.id,
            name=self.name,
            location=self.location,
            options=self.options or {},
            **self.audit(),
        )


class ListDatabasesResponse(Listed[str]):
    """Database names."""

    model_config = example({"databases": ["sales"], "nextPageToken": None})

    items: list[str] | None = Field(default=None, alias="databases")
