"""Tables with ``merge-engine=aggregation``, shared with Paimon's Java library."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Service
from .java_client import JavaClient

KINDS = ("+I", "-U", "+U", "-D")

TEXTS = ["a", "b", " ", "", "c;d"]
PARTS = ["a", "b;a", " ", "c;;b"]
# Of each function: the column's type, its values, and whether it takes values back.
FUNCTIONS: Mapping[str, tuple[str, pa.DataType, Callable[[Random], object], bool]] = {
    "sum_int": ("sum", pa.int32(), lambda random: random.randint(-9, 9), True),
    "sum_long": ("sum", pa.int64(), lambda random: random.randint(-(2**40), 2**40), True),
    "sum_double": ("sum", pa.float64(), lambda random: random.randint(-9, 9) / 4, True),
    "sum_money": (
        "sum", pa.decimal128(9, 2), lambda random: Decimal(random.randint(-999, 999)).scaleb(-2),
        True,
    ),
    "product_int": ("product", pa.int32(), lambda random: random.choice([-2, -1, 1, 2, 3]), True),
    "product_money": (
        "product", pa.decimal128(20, 2),
        lambda random: Decimal(random.choice(["0.5", "1", "-1", "2.5", "4"])), True,
    ),
    "max_text": ("max", pa.string(), lambda random: random.choice("abcé𝄞"), False),
    "min_date": (
        "min", pa.date32(), lambda random: dt.date(1960 + random.randint(0, 90), 1, 2), False,
    ),
    "max_time": (
        "max", pa.timestamp("us"), lambda random: dt.datetime(2020, 1, random.randint(1, 9)), False,
    ),
    "min_double": (
        "min", pa.float64(), lambda random: random.choice([-0.0, 0.0, 1.5, float("inf")]), False,
    ),
    "last": ("last_value", pa.int64(), lambda random: random.randint(0, 9), True),
    "last_there": ("last_non_null_value", pa.int64(), lambda random: random.randint(0, 9), True),
    "first": ("first_value", pa.string(), lambda random: random.choice("xyz"), False),
    "first_there": (
        "first_non_null_value", pa.string(), lambda random: random.choice("xyz"), False,
    ),
    "all": ("bool_and", pa.bool_(), lambda random: random.random() < 0.7, False),
    "any": ("bool_or", pa.bool_(), lambda random: random.random() < 0.3, False),
    "texts": ("listagg", pa.string(), lambda random: random.choice(TEXTS), False),
    "distinct": ("listagg", pa.string(), lambda random: random.choice(PARTS), False),
}  # fmt: skip
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), *((name, each[1]) for name, each in FUNCTIONS.items())]
)


def _options(removes: bool, *, is_new: bool) -> dict[str, str]:
    options = {"bucket": "2", "merge-engine": "aggregation", "write-only": "true"}
    for name, (function, *_, takes_back) in FUNCTIONS.items():
        options[f"fields.{name}.aggregate-function"] = function
        if not takes_back and not removes:
            options[f"fields.{name}.ignore-retract"] = "true"
    if is_new:
        options["fields.distinct.distinct"] = "true"
    for name in ("texts", "distinct"):
        options[f"fields.{name}.list-agg-delimiter"] = ";"
    return options | ({"aggregation.remove-record-on-delete": "true"} if removes else {})


def _batch(random: Random, removes: bool, *, is_new: bool) -> tuple[pa.Table, list[str]]:
    count = 60
    columns: dict[str, list[object]] = {"k": [random.randint(0, 25) for _ in range(count)]}
    for name, (_, _, value, _) in FUNCTIONS.items():
        columns[name] = [None if random.random() < 0.2 else value(random) for _ in range(count)]
    if not is_new:
        for name in ("texts", "distinct"):
            columns[name] = [
                text if text is None else str(text).strip() or "-" for text in columns[name]
            ]
    kinds = ["+I", "+U", "-D"] if removes else ["+I", "+I", "+U", "-U", "-D"]
    return pa.table(columns, schema=SCHEMA), [random.choice(kinds) for _ in range(count)]


def _values(table: pa.Table) -> set[tuple[int, str, str]]:
    """Each value with its key and column; as text, for -0.0 is not 0.0."""
    rows = table.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    assert len({row["k"] for row in rows}) == len(rows)
    return {(row["k"], name, str(value)) for row in rows for name, value in row.items()}


@pytest.mark.interop_java
@pytest.mark.parametrize("removes", [False, True], ids=["retracting", "removing"])
def test_functions_are_those_of_java(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    removes: bool,
) -> None:
    # Before release 2.0 listagg keeps blank texts and knows no ``distinct``.
    is_new = not java_version.startswith("1.")
    if removes and java_version.startswith("1.3."):
        pytest.skip("release 1.3 adds to nothing after a deletion, where later ones add to its row")
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options = _options(removes, is_new=is_new)
    ours, theirs = (
        _new_table(lake, f"interop.aggregated_{java_client.label}_{whose}", options)
        for whose in ("ours", "theirs")
    )
    random = Random(7)
    for _ in range(4):
        data, kinds = _batch(random, removes, is_new=is_new)
        ours.write(data, row_kinds=pa.array(map(KINDS.index, kinds), pa.int8()))
        java_client.write(str(theirs.identifier), data, kinds)
        expected = _values(java_client.read(str(theirs.identifier)))
        assert _values(theirs.scan().to_arrow()) ^ expected == set()
        assert _values(ours.scan().to_arrow()) ^ expected == set()
        assert _values(java_client.read(str(ours.identifier))) ^ expected == set()
    ours.compact()
    assert _values(ours.scan().to_arrow()) ^ expected == set()
    assert _values(java_client.read(str(ours.identifier))) ^ expected == set()
    # Our files with theirs on top, and the other way round.
    data, kinds = _batch(random, removes, is_new=is_new)
    java_client.write(str(ours.identifier), data, kinds)
    theirs.compact()
    theirs.write(data, row_kinds=pa.array(map(KINDS.index, kinds), pa.int8()))
    expected = _values(java_client.read(str(theirs.identifier)))
    for table in (ours, theirs):
        assert _values(table.scan().to_arrow()) ^ expected == set()
        assert _values(java_client.read(str(table.identifier))) ^ expected == set()


def _new_table(lake: Lake, name: str, options: Mapping[str, str]) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)
