"""MAP columns that files hold by their keys, shared with other clients."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.files.local import local_path
from headwater.storage.formats.arrow_metadata import columns_metadata
from headwater.storage.formats.orc_tail import OrcTail
from headwater.storage.options import KeyPlacement
from headwater.storage.schema.table_schema import Schema
from headwater.storage.shredded_maps.layout import ColumnLayout, column_layout
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

_DAY, _NOON = dt.date(1999, 12, 31), dt.datetime(2001, 2, 3, 4, 5, 6, 789000)
_MOMENT = _NOON.replace(tzinfo=dt.UTC)
ROW: Json = {
    "type": "ROW",
    "fields": [{"name": "a", "type": "INT NOT NULL"}, {"name": "b", "type": "STRING"}],
}
VALUES: Mapping[str, tuple[Json, Sequence[object]]] = {
    "boolean": ("BOOLEAN", [True, False]),
    "tinyint": ("TINYINT", [-128, 127]),
    "smallint": ("SMALLINT", [-5, 6]),
    "int": ("INT", [2**31 - 1, -1]),
    "bigint": ("BIGINT", [2**63 - 1, -1]),
    "must": ("BIGINT NOT NULL", [1, 2]),
    "float": ("FLOAT", [1.5, float("inf")]),
    "double": ("DOUBLE", [-2.5, 1e300]),
    "decimal": ("DECIMAL(9, 2)", [Decimal("1.25"), Decimal("-9999999.99")]),
    "wide": ("DECIMAL(38, 5)", [Decimal("1.25"), Decimal("-123456789012345678901234567.5")]),
    "char": ("CHAR(3)", ["abc", "xyz"]),
    "string": ("STRING", ["", "naïve ☃"]),
    "bytes": ("BYTES", [b"", b"\x00\xff"]),
    "date": ("DATE", [_DAY, dt.date(1969, 1, 1)]),
    "time": ("TIME(3)", [dt.time(1, 2, 3, 4000), dt.time(23, 59, 59)]),
    "timestamp": ("TIMESTAMP(6)", [_NOON, dt.datetime(1970, 1, 1)]),
    "local": ("TIMESTAMP_LTZ(3)", [_MOMENT, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
    "array": ({"type": "ARRAY", "element": "INT"}, [[], [1, None, 3]]),
    "map": (
        {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, [[], [("x", 1), ("y", None)]],
    ),
    "row": (ROW, [{"a": 1, "b": None}, {"a": -1, "b": "text"}]),
}  # fmt: skip
NOT_NULL = "must"
KEYS = ["a", "", "naïve", "☃", "a.b", '"quoted"']


def fields(values: Mapping[str, Json]) -> tuple[DataField, ...]:
    maps = [
        DataField(at, name, parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": each}))
        for at, (name, each) in enumerate(values.items(), 1)
    ]
    return (DataField(0, "k", parse_type("INT NOT NULL")), *maps)


def create(
    lake: Lake,
    name: str,
    values: Mapping[str, Json],
    options: Mapping[str, str] | None = None,
    *,
    keyed: bool = False,
) -> Table:
    return lake.create_table(
        f"interop.{name}",
        Schema(fields(values)),
        primary_keys=["k"] if keyed else [],
        options={"bucket": "1", "bucket-key": "k", **(options or {})},
    )


def shredding(values: Iterable[str], columns: int, policy: str = "lru") -> dict[str, str]:
    found = {}
    for name in values:
        found[f"fields.{name}.map.storage-layout"] = "shared-shredding"
        found[f"fields.{name}.map.shared-shredding.max-columns"] = str(columns)
        found[f"fields.{name}.map.shared-shredding.column-placement-policy"] = policy
    return found


def table_of(values: Mapping[str, Json], rows: Sequence[Mapping[str, object]]) -> pa.Table:
    columns = fields(values)
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in columns])
    return pa.Table.from_pylist([{"k": k, **row} for k, row in enumerate(rows)], schema)


def maps_of(name: str, values: Sequence[object]) -> list[object]:
    """Maps of every size up to that of `KEYS`, of some of these, and null."""
    nothing = [] if name == NOT_NULL else [None]
    found: list[object] = [None, []]
    for size in range(1, len(KEYS) + 1):
        for at, keys in enumerate(itertools.islice(itertools.permutations(KEYS, size), 0, 60, 7)):
            chosen = itertools.cycle([*values, *nothing])
            found.append(
                [
                    (key, value)
                    for key, value in zip(keys, itertools.islice(chosen, at, None), strict=False)
                ]
            )
    return found


def rows_of(values: Iterable[str]) -> list[dict[str, object]]:
    maps = {name: maps_of(name, VALUES[name][1]) for name in values}
    return [dict(zip(maps, row, strict=True)) for row in zip(*maps.values(), strict=True)]


def read(table: Table) -> list[dict[str, object]]:
    """The rows, the maps in no order."""
    rows = table.refresh().scan().to_arrow().sort_by("k").to_pylist()
    return [
        {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in row.items()}
        for row in rows
    ]


def layouts(table: Table) -> list[dict[str, ColumnLayout | None]]:
    """What the columns' files say of them, from the oldest file on."""
    root = Path(local_path(table.refresh().storage.layout.location))
    found = sorted((path for path in root.rglob("data-*")), key=lambda path: path.stat().st_mtime)
    return [
        {name: column_layout(each, str(path)) for name, each in metadata(path).items()}
        for path in found
    ]


def metadata(path: Path) -> Mapping[str, Mapping[bytes, bytes] | None]:
    if path.suffix == ".parquet":
        return {item.name: item.metadata for item in pq.read_schema(path)}
    entry = OrcTail(pa.OSFile(str(path)), str(path)).entry(b"ARROW:schema")
    assert entry is not None
    return columns_metadata(entry)


@pytest.fixture
def java(service: Service, java_gateways: Callable[[str], Any], tmp_path: Path) -> JavaClient:
    return JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)


@pytest.mark.interop_java
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_values_of_every_type(lake: Lake, java: JavaClient, file_format: str, codec: str) -> None:
    # Java gives rows without a key null in its column, and refuses that where values are NOT NULL.
    values = {name: each for name, (each, _) in VALUES.items() if name != NOT_NULL}
    label = f"{file_format}_{codec}"
    options = {"file.format": file_format, "file.compression": codec, **shredding(VALUES, 4)}
    theirs_options = {key: each for key, each in options.items() if f".{NOT_NULL}." not in key}
    plain = create(lake, f"maps_{label}", values)
    plain.write(table_of(values, rows_of(values)))
    theirs = create(lake, f"maps_theirs_{label}", values, theirs_options)
    java.copy(plain.name, theirs.name)
    assert read(theirs) == read(plain)
    all_values = {name: each for name, (each, _) in VALUES.items()}
    ours = create(lake, f"maps_ours_{label}", all_values, options)
    ours.write(table_of(all_values, rows_of(all_values)))
    back = create(lake, f"maps_back_{label}", all_values)
    java.copy(ours.name, back.name)
    assert read(back) == read(ours)
    assert [{**row, NOT_NULL: None} for row in read(ours)] == [
        {**row, NOT_NULL: None} for row in read(plain)
    ]
    (own,), (other,) = layouts(ours), layouts(theirs)
    assert {**own, NOT_NULL: None} == {**other, NOT_NULL: None}
    assert isinstance(own["map"], ColumnLayout)


COUNTS: Mapping[str, Json] = {"m": "BIGINT"}


def counts(seed: int, keys: range, *, names: int = 12) -> pa.Table:
    """Rows of these numbers with maps of random size, keys and values."""
    chosen = random.Random(seed)
    made: list[dict[str, object]] = []
    for _ in keys:
        picked = chosen.sample(range(names), chosen.randint(0, 6))
        values = [(f"key {key}", chosen.choice([None, chosen.randrange(99)])) for key in picked]
        made.append({"m": None if chosen.random() < 0.1 else values})
    data = table_of(COUNTS, made)
    return data.set_column(0, data.field(0), pa.array(keys, pa.int32()))


@pytest.mark.interop_java
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("policy", KeyPlacement)
def test_keys_get_the_columns_that_java_gives_them(
    lake: Lake, java: JavaClient, file_format: str, policy: KeyPlacement
) -> None:
    label = f"{file_format}_{policy}"
    plain = create(lake, f"keys_{label}", COUNTS)
    plain.write(counts(1, range(3000)))
    options = {"file.format": file_format, **shredding(COUNTS, 5, policy)}
    theirs = create(lake, f"keys_theirs_{label}", COUNTS, options)
    java.copy(plain.name, theirs.name)
    ours = create(lake, f"keys_ours_{label}", COUNTS, options)
    ours.write(counts(1, range(3000)))
    assert layouts(ours) == layouts(theirs)
    assert read(ours) == read(theirs) == read(plain)


ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "thin": {"data-file.thin-mode": "true"},
    "merge-map": {"merge-engine": "aggregation", "fields.m.aggregate-function": "merge_map"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "changelog": {"changelog-producer": "lookup"},
}


@pytest.mark.interop_java
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("engine", ENGINES)
def test_java_and_headwater_go_on_with_each_others_rows(
    lake: Lake, java: JavaClient, file_format: str, engine: str
) -> None:
    label = f"{file_format}_{engine}".replace("-", "_")
    options = {"file.format": file_format, **ENGINES[engine]}
    shared = create(
        lake, f"shared_{label}", COUNTS, {**options, **shredding(COUNTS, 4)}, keyed=True
    )
    model = create(lake, f"model_{label}", COUNTS, options, keyed=True)
    for version in range(4):
        data = counts(version, range(10 * version, 10 * version + 60))
        part = create(lake, f"part_{label}_{version}", COUNTS)
        part.write(data)
        model.refresh().write(data)
        if version % 2:
            java.copy(part.name, shared.name)
        else:
            shared.refresh().write(data)
        if version == 1:
            java.compact(shared.name)
        if version == 2:
            shared.refresh().compact(full=True)
    java.compact(shared.name)
    expected = read(model)
    assert read(shared) == expected
    copy = create(lake, f"copy_{label}", COUNTS, keyed=True)
    java.copy(shared.name, copy.name)
    assert read(copy) == expected
    if "changelog-producer" in options:
        # What streams are told, one change after the other, leads to the same rows.
        assert len(told(shared)) == len(expected)
    assert all(each["m"] is not None for each in layouts(shared))


def told(table: Table) -> dict[object, object]:
    """The rows that a table's changelog leads to."""
    found: dict[object, object] = {}
    for row in table.refresh().changes(0).to_arrow().to_pylist():
        if row["_ROW_KIND"] in ("+I", "+U"):
            found[row["k"]] = row["m"]
        else:
            del found[row["k"]]
    return found


def python_client_shares_maps(lake: Lake, client: Client) -> None:
    table = create(lake, f"maps_{client.label}", COUNTS, shredding(COUNTS, 4))
    plain = create(lake, f"maps_plain_{client.label}", COUNTS)
    first, second = counts(1, range(200)), counts(2, range(200, 400))
    table.write(first)
    client.write(table.name, second)
    plain.write(pa.concat_tables([first, second]))
    assert read(table) == read(plain)
    assert all(each["m"] is not None for each in layouts(table))
    create(lake, f"maps_read_{client.label}", COUNTS).write(client.read(table.name))
    assert read(lake.table(f"interop.maps_read_{client.label}")) == read(plain)


@pytest.mark.interop
def test_pypaimon_and_headwater_share_maps(lake: Lake, pypaimon: Client) -> None:
    python_client_shares_maps(lake, pypaimon)


@pytest.mark.interop
def test_paimon_rust_and_headwater_share_maps(lake: Lake, rust: Client) -> None:
    python_client_shares_maps(lake, rust)
