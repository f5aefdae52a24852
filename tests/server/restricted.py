"""A table of people of which principals see different parts, for tests of policies."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.policies import ColumnMask, Policy, RowFilter
from headwater.storage.types.data_type import Json

__all__ = [
    "HIDDEN",
    "PEOPLE",
    "SCHEMA",
    "concat",
    "filter_policy",
    "leaf",
    "mask_policy",
    "people",
    "reference",
]

PEOPLE = Identifier("sales", "people")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("region", pa.string()),
        ("phone", pa.string()),
        ("salary", pa.int32()),
    ]
)
HIDDEN = ("5550101", "5550102", "5550103", "5550104", "APAC-SECRET", "987654")
"""Values that whoever is restricted by the tests' policies must not see anywhere."""


def people() -> pa.Table:
    """Four rows: two of EMEA, one of a secret region, one of no region."""
    return pa.table(
        {
            "id": [1, 2, 3, 4],
            "region": ["EMEA", "APAC-SECRET", "EMEA", None],
            "phone": ["5550101", "5550102", "5550103", "5550104"],
            "salary": [10, 987654, 30, 40],
        },
        schema=SCHEMA,
    )


def reference(name: str) -> dict[str, Json]:
    """A column as an input of a transform."""
    return {"index": 99, "name": name, "type": "STRING"}


def leaf(function: str, column: str, *literals: Json) -> dict[str, Json]:
    """A comparison."""
    transform: dict[str, Json] = {"name": "FIELD_REF", "fieldRef": reference(column)}
    return {
        "kind": "LEAF",
        "transform": transform,
        "function": function,
        "literals": list(literals),
    }


def concat(*inputs: Json) -> dict[str, Json]:
    """Texts and columns, joined."""
    return {"name": "CONCAT", "inputs": list(inputs)}


def filter_policy(principal: str, document: Mapping[str, Json]) -> Policy:
    """A row filter."""
    return Policy(principal, RowFilter(json.dumps(document)))


def mask_policy(principal: str, column: str, document: Mapping[str, Json]) -> Policy:
    """A column mask."""
    return Policy(principal, ColumnMask(column, json.dumps(document)))
