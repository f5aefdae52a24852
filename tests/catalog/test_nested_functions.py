"""Tables with functions over nested values and states: written, merged, compacted and read."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

from headwater.client import connect

ITEM = pa.struct(
    [pa.field("id", pa.int32(), False), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us"))]
)
STATE = pa.struct([("level", pa.int64()), ("at", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        ("items", pa.list_(ITEM)),
        ("parts", pa.list_(ITEM)),
        ("states", pa.map_(pa.string(), STATE)),
        ("all", pa.list_(ITEM)),
        ("users", pa.binary()),
        ("seq", pa.int64()),
    ]
)
FUNCTIONS = {
    "fields.items.aggregate-function": "nested_update",
    "fields.items.nested-key": "id",
    "fields.parts.aggregate-function": "nested_partial_update",
    "fields.parts.nested-key": "id",
    "fields.states.aggregate-function": "merge_map_with_keytime",
    "fields.states.ts-field": "at",
    "fields.all.aggregate-function": "collect",
    "fields.users.aggregate-function": "rbm32",
}
ENGINES: Mapping[str, Mapping[str, str]] = {
    "aggregation": {"merge-engine": "aggregation"},
    "partial-update": {
        "merge-engine": "partial-update",
        "fields.seq.sequence-group": "items,parts,states,all,users",
    },
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "in several"])
def test_nested_columns_become_what_their_functions_make_of_them(
    tmp_path: Path, engine: str, together: bool
) -> None:
    options = {"bucket": "1", "write-only": "true", **FUNCTIONS, **ENGINES[engine]}
    with connect(tmp_path) as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", SCHEMA, primary_keys=["k"], options=options)

    def item(number: int, price: str | None) -> dict[str, object]:
        return {"id": number, "price": None if price is None else Decimal(price), "at": None}

    rows = [
        {
            "k": 1, "items": [item(1, "1.00"), item(2, "2.00")], "parts": [item(1, "5.00")],
            "states": {"a": {"level": 1, "at": "09:00"}}, "all": [item(1, None)],
            "users": bytes(BitMap([1, 2]).serialize()), "seq": 1,
        },
        {"k": 2, "items": [item(7, None)], "seq": 1},
        {
            "k": 1, "items": [item(2, None)], "parts": [item(1, None), item(3, "1.00")],
            "states": {"a": {"level": 2, "at": "08:00"}, "b": {"level": 3, "at": "08:00"}},
            "all": [item(1, None)], "users": bytes(BitMap([2, 9]).serialize()), "seq": 2,
        },
        {"k": 1, "seq": 3},
    ]  # fmt: skip
    for batch in [rows] if together else [rows[:2], rows[2:3], rows[3:]]:
        table.write(pa.Table.from_pylist(batch, SCHEMA))
    for compacted in (False, True):
        if compacted:
            table.compact()
        one, two = table.scan().to_arrow().sort_by("k").to_pylist(maps_as_pydicts="strict")
        assert sorted(one["items"], key=str) == [item(1, "1.00"), item(2, None)]
        assert sorted(one["parts"], key=str) == [item(1, "5.00"), item(3, "1.00")]
        assert one["states"] == {
            "a": {"level": 1, "at": "09:00"}, "b": {"level": 3, "at": "08:00"}
        }  # fmt: skip
        assert one["all"] == [item(1, None)] * 2
        assert set(BitMap.deserialize(one["users"])) == {1, 2, 9}
        assert one["seq"] == 3
        assert two["items"] == [item(7, None)]
        assert two["users"] is None
