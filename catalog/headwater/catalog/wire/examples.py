"""Examples that several models of the API share, and how a model carries its own."""

from __future__ import annotations

from pydantic import ConfigDict, JsonValue

__all__ = ["AUDIT", "ORDERS", "SCHEMA", "example"]


def example(document: dict[str, JsonValue]) -> ConfigDict:
    """The configuration of a model that is shown with an example in the API's description."""
    return ConfigDict(json_schema_extra={"examples": [document]})


AUDIT: dict[str, JsonValue] = {
    "owner": "",
    "createdAt": 1767225600000,
    "createdBy": "",
    "updatedAt": 1767225600000,
    "updatedBy": "",
}
SCHEMA: dict[str, JsonValue] = {
    "fields": [
        {"id": 0, "name": "order_id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "dt", "type": "STRING NOT NULL"},
        {"id": 2, "name": "amount", "type": "DECIMAL(10, 2)"},
    ],
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "order_id"],
    "options": {"bucket": "4"},
    "comment": "One row for each order.",
}
ORDERS: dict[str, JsonValue] = {"database": "sales", "object": "orders"}
