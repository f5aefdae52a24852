"""The JSON about warehouses in the management API."""

from __future__ import annotations

from typing import Self

from pydantic import Field, JsonValue

from headwater.catalog.model.warehouses import WarehouseInfo
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import OwnRequest, Paged, WireModel

__all__ = [
    "AddWarehouseRequest",
    "ListWarehousesResponse",
    "ReadinessResponse",
    "SetWarehouseRequest",
    "WarehouseModel",
    "WarehouseReadiness",
]

_LAKE: dict[str, JsonValue] = {
    "name": "lake",
    "location": "s3://lake/main",
    "options": {
        "s3.access-key": "***",
        "s3.endpoint": "http://minio:9000",
        "s3.secret-key": "***",
    },
    "createdAt": 1767225600000,
    "updatedAt": 1767225600000,
}


class AddWarehouseRequest(OwnRequest):
    """A new warehouse."""

    model_config = example(
        {
            "name": "lake",
            "location": "s3://lake/main",
            "options": {
                "s3.endpoint": "http://minio:9000",
                "s3.access-key": "headwater",
                "s3.secret-key": "a-secret",
            },
        }
    )

    name: str
    location: str
    options: dict[str, str] = Field(default_factory=dict, repr=False)


class SetWarehouseRequest(OwnRequest):
    """Options to set, and names of options to remove."""

    model_config = example(
        {
            "updates": {"s3.region": "eu-west-1"},
            "removals": ["s3.endpoint"],
        }
    )

    updates: dict[str, str] = Field(default_factory=dict, repr=False)
    removals: list[str] = Field(default_factory=list)


class WarehouseModel(WireModel):
    """A warehouse; an option's value that may be a secret is ``***``."""

    model_config = example(_LAKE)

    name: str
    location: str
    options: dict[str, str]
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, info: WarehouseInfo) -> Self:
        """Without the secrets."""
        return cls(
            name=info.name,
            location=info.location,
            options=dict(info.shown_options),
            created_at=info.created_at,
            updated_at=info.updated_at,
        )


class ListWarehousesResponse(Paged):
    """A page of warehouses."""

    model_config = example({"warehouses": [_LAKE], "nextPageToken": None})

    warehouses: list[WarehouseModel]


class WarehouseReadiness(WireModel):
    """The state of a warehouse's storage.

    Attributes:
        ready: True if it answered when it was asked last, and the warehouse is there.
        message: The reason why it is not ready; null if it is.
    """

    model_config = example(
        {"name": "lake", "ready": False, "message": "the bucket of s3://lake/main does not exist"}
    )

    name: str
    ready: bool
    message: str | None = None


class ReadinessResponse(WireModel):
    """The state of what a server depends on.

    Attributes:
        ready: True if `/readyz` answers 200.
        failed: The names of what does not answer, as `/readyz` tells them.
    """

    model_config = example(
        {
            "ready": True,
            "failed": [],
            "warehouses": [
                {"name": "main", "ready": True, "message": None},
                {
                    "name": "lake",
                    "ready": False,
                    "message": "the bucket of s3://lake/main does not exist",
                },
            ],
        }
    )

    ready: bool
    failed: list[str]
    warehouses: list[WarehouseReadiness]
