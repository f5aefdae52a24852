"""The JSON of ``/management/v1`` about what a warehouse holds. See `…catalog.wire`."""

from __future__ import annotations

from pydantic import JsonValue

from headwater.catalog.model.dropped_tables import DroppedTableInfo
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.examples import ORDERS, example
from headwater.catalog.wire.tables import IdentifierModel, OwnRequest, Paged, WireModel

__all__ = [
    "DroppedTableModel",
    "ListDroppedTablesResponse",
    "ProtectionModel",
    "RestoreTableRequest",
    "RestoreTableResponse",
]

_DROPPED_TABLE: dict[str, JsonValue] = {
    "id": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
    "identifier": ORDERS,
    "path": "file:///lake/sales.db/orders",
    "droppedAt": 1767225600000,
    "droppedBy": "nightly-spark",
    "keptUntil": 1767830400000,
}


class DroppedTableModel(WireModel):
    """A dropped table that can be restored.

    Attributes:
        id: Its UUID, by which it is restored or purged.
        identifier: The table's name when it was dropped.
        path: The URI of its files.
        dropped_at: Milliseconds since the epoch.
        dropped_by: The principal who dropped it.
        kept_until: The time of its purge, milliseconds since the epoch; null means the next sweep.
    """

    model_config = example(_DROPPED_TABLE)

    id: str
    identifier: IdentifierModel
    path: str
    dropped_at: int
    dropped_by: str | None = None
    kept_until: int | None = None

    @staticmethod
    def of(info: DroppedTableInfo) -> DroppedTableModel:
        """The model of what the catalog knows."""
        return DroppedTableModel(
            id=info.id,
            identifier=IdentifierModel.of(info.identifier),
            path=info.path,
            dropped_at=info.dropped_at,
            dropped_by=info.dropped_by,
            kept_until=info.kept_until,
        )

    def info(self) -> DroppedTableInfo:
        """The value."""
        return DroppedTableInfo(
            id=self.id,
            identifier=Identifier(self.identifier.database, self.identifier.object),
            path=self.path,
            dropped_at=self.dropped_at,
            dropped_by=self.dropped_by,
            kept_until=self.kept_until,
        )


class ListDroppedTablesResponse(Paged):
    """``GET …/dropped-tables``."""

    model_config = example(
        {
            "droppedTables": [_DROPPED_TABLE],
            "nextPageToken": None,
        }
    )

    dropped_tables: list[DroppedTableModel]


class RestoreTableRequest(OwnRequest):
    """``POST …/dropped-tables/{id}/restore``; without a destination it keeps its old name."""

    model_config = example({"destination": None})

    destination: IdentifierModel | None = None


class RestoreTableResponse(WireModel):
    """The table's present name."""

    model_config = example({"identifier": ORDERS})

    identifier: IdentifierModel


class ProtectionModel(WireModel):
    """The protection of a database or table against being dropped."""

    model_config = example({"protected": True})

    protected: bool
