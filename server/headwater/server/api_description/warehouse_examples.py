"""Examples of the bodies about warehouses, for the API's description."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from headwater.catalog.wire import warehouses as wire
from headwater.catalog.wire.tables import WireModel

__all__ = ["WAREHOUSE_EXAMPLES"]

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

WAREHOUSE_EXAMPLES: Mapping[type[WireModel], dict[str, JsonValue]] = {
    wire.WarehouseModel: _LAKE,
    wire.ListWarehousesResponse: {"warehouses": [_LAKE], "nextPageToken": None},
    wire.AddWarehouseRequest: {
        "name": "lake",
        "location": "s3://lake/main",
        "options": {
            "s3.endpoint": "http://minio:9000",
            "s3.access-key": "headwater",
            "s3.secret-key": "a-secret",
        },
    },
    wire.SetWarehouseRequest: {
        "updates": {"s3.region": "eu-west-1"},
        "removals": ["s3.endpoint"],
    },
}
