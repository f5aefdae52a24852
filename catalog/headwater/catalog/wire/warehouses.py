"""What the management API says of warehouses."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from headwater.catalog.model.warehouses import WarehouseInfo
from headwater.catalog.wire.tables import Paged, WireModel

__all__ = [
    "AddWarehouseRequest",
    "ListWarehousesResponse",
    "SetWarehouseRequest",
    "WarehouseModel",
]


class AddWarehouseRequest(WireModel):
    """A new warehouse."""

    name: str
    location: str
    options: dict[str, str] = Field(default_factory=dict, repr=False)


class SetWarehouseRequest(WireModel):
    """Options to set, and names of options to remove."""

    updates: dict[str, str] = Field(default_factory=dict, repr=False)
    removals: list[str] = Field(default_factory=list)


class WarehouseModel(WireModel):
    """A warehouse; an option's value that may be a secret is ``***``."""

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

    warehouses: list[WarehouseModel]
