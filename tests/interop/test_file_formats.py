"""Tables of Avro and ORC files, and of several formats, shared with Paimon's Java and pypaimon."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.formats.avro_schema import avro_schema
from headwater.storage.formats.system_columns import data_file_fields
from headwater.storage.schema.change import AddColumn, RenameColumn, SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

from .conftest import JAVA, PYPAIMON, TOKEN, Client, Service
from .java_client import JavaClient
from .test_shared_tables import KEYS, create, expected, orders, same

AnyClient = Client | JavaClient
FORMATS = pytest.mark.parametrize("file_format", ["avro", "orc"])


@pytest.fixture(params=[PYPAIMON, *JAVA])
def client(
    request: pytest.FixtureRequest,
    service: Service,
    tmp_path: Path,
    java_gateways: Callable[[str], object],
) -> AnyClient:
    maker, _, version = request.param.rpartition("-")
    if maker == JavaClient.maker:
        return JavaClient(java_gateways(version), version, service.uri, TOKEN, tmp_path)
    return Client(request.param, service, tmp_path)


def extensions(table: Table) -> set[str]:
    return {file.name.rpartition(".")[2] for file in table.files()}


@FORMATS
@pytest.mark.parametrize("maker", ["client", "headwater"])
def test_primary_key_tables(lake: Lake, client: AnyClient, maker: str, file_format: str) -> None:
    options = {"bucket": "2", "file.format": file_format}
    name = create(lake, client, f"{file_format}_pk", maker, **{**KEYS, "options": options})
    table = lake.table(name)
    first, second, third = orders(range(150)), orders(range(100, 250), 1), orders(range(50, 200), 2)
    client.write(name, first)
    same(first, table.scan().to_arrow())
    table.write(second)
    same(expected(first, second), client.read(name))
    same(
        expected(first, second).select(["note", "day", "id"]),
        client.read(name, ["note", "day", "id"]),
    )
    client.write(name, third)
    everything = expected(first, second, third)
    same(everything, table.scan().to_arrow())
    table.compact()
    same(everything, client.read(name))
    assert extensions(table) == {file_format}


@pytest.mark.parametrize(("file_format", "codec"), [("avro", "deflate"), ("orc", "zlib")])
def test_append_tables(lake: Lake, client: AnyClient, file_format: str, codec: str) -> None:
    options = {"file.format": file_format, "file.compression": codec}
    name = create(lake, client, f"{file_format}_append", "headwater", options=options)
    table = lake.table(name)
    client.write(name, orders(range(50)))
    table.write(orders(range(50, 120)))
    same(orders(range(120)), client.read(name))
    same(orders(range(120)), table.scan().to_arrow())
    table.compact()
    same(orders(range(120)), client.read(name))
    assert extensions(table) == {file_format}


@FORMATS
def test_formats_may_change_and_schemas_evolve(
    lake: Lake, client: AnyClient, file_format: str
) -> None:
    name = create(lake, client, f"{file_format}_mixed", "headwater", **KEYS)
    table = lake.table(name)
    table.write(orders(range(40)))
    table.alter(SetOption("file.format", file_format))
    table.refresh().write(orders(range(30, 60), 1))
    table.alter(AddColumn(("extra",), parse_type("BIGINT")), RenameColumn(("note",), "remark"))
    old = expected(orders(range(40)), orders(range(30, 60), 1))
    old = old.append_column("extra", pa.nulls(60, pa.int64())).rename_columns({"note": "remark"})
    same(old, client.read(name))
    new = orders(range(50, 80), 2).append_column("extra", pa.array(range(30), pa.int64()))
    new = new.rename_columns({"note": "remark"})
    client.write(name, new)
    same(expected(old, new), table.refresh().scan().to_arrow())
    same(expected(old, new), client.read(name))
    assert extensions(table.refresh()) == {file_format, "parquet"}


ROW: Json = {
    "type": "ROW",
    "fields": [
        {"id": 101, "name": "x", "type": "INT"},
        {"id": 102, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}},
        {"id": 103, "name": "t", "type": "TIMESTAMP(3)"},
    ],
}
COLUMNS: tuple[tuple[str, Json], ...] = (
    ("k", "INT NOT NULL"),
    ("flag", "BOOLEAN"),
    ("tiny", "TINYINT"),
    ("small", "SMALLINT"),
    ("big", "BIGINT"),
    ("real", "FLOAT"),
    ("wide", "DOUBLE"),
    ("d9", "DECIMAL(9, 2)"),
    ("d38", "DECIMAL(38, 10)"),
    ("c", "CHAR(3)"),
    ("s", "STRING"),
    ("raw", "BYTES"),
    ("day", "DATE"),
    ("clock", "TIME(3)"),
    ("t3", "TIMESTAMP(3)"),
    ("t6", "TIMESTAMP(6)"),
    ("z3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("z6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("numbers", {"type": "ARRAY", "element": "INT"}),
    ("texts", {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}),
    ("counts", {"type": "MAP", "key": "INT NOT NULL", "value": "BIGINT"}),
    ("bag", {"type": "MULTISET", "element": "STRING NOT NULL"}),
    ("nested", ROW),
    ("rows", {"type": "ARRAY", "element": ROW}),
)
KEY_AND_ALL = tuple(DataField(i, n, parse_type(t)) for i, (n, t) in enumerate(COLUMNS))


def all_types(moment: dt.datetime = dt.datetime(1960, 12, 31, 23, 59, 59, 999999)) -> pa.Table:
    row = {"x": 1, "y": ["a", None, ""], "t": dt.datetime(2024, 1, 2, 3, 4, 5, 678000)}
    full = [
        True, -128, 32767, -(2**63), 1.5, -0.1, Decimal("-1234567.89"),
        Decimal("9999999999999999999999999999.0123456789"), "abc", "naïve ☃", b"\x00\xff",
        dt.date(1, 1, 1), dt.time(23, 59, 59, 999000), moment.replace(microsecond=999000),
        moment, moment.replace(microsecond=1000, tzinfo=dt.UTC), moment.replace(tzinfo=dt.UTC),
        [1, None, -(2**31)], [("a", "b"), ("c", None)], [(-1, 2**62), (2, None)], [("x", 3)],
        row, [row, None, {"x": None, "y": [], "t": None}],
    ]  # fmt: skip
    empty: list[object] = [None] * len(full)
    small = [
        False, 0, 0, 0, 0.0, 0.0, Decimal("0.01"), Decimal("-0.0000000128"), "  x", "", b"",
        dt.date(1970, 1, 1), dt.time(0), *[dt.datetime(1970, 1, 1)] * 2,
        *[dt.datetime(1970, 1, 1, tzinfo=dt.UTC)] * 2, [], [], [], [],
        {"x": None, "y": None, "t": None}, [],
    ]  # fmt: skip
    rows = [[k, *values] for k, values in enumerate([full, empty, small] * 40)]
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in KEY_AND_ALL])
    return pa.table(
        [
            pa.array(column, item.type)
            for column, item in zip(zip(*rows, strict=True), schema, strict=True)
        ],
        schema=schema,
    )


def of_all_types(lake: Lake, name: str, *, keyed: bool, **options: str) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    plain = option_names(options)
    return lake.create_table(
        name,
        Schema(KEY_AND_ALL),
        primary_keys=["k"] if keyed else [],
        options={**plain, "bucket": "1", "bucket-key": "k"},
    )


def sorted_rows(table: Table) -> list[object]:
    return list(table.scan().to_arrow().sort_by("k").to_pylist())


@pytest.mark.interop_java
@FORMATS
@pytest.mark.parametrize("keyed", [False, True])
def test_java_copies_every_type_between_formats(
    lake: Lake,
    service: Service,
    java_gateway: object,
    java_version: str,
    tmp_path: Path,
    keyed: bool,
    file_format: str,
) -> None:
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    prefix = f"interop.types_{java.label}_{file_format}_{'pk' if keyed else 'append'}"
    data = all_types()
    # Fractions of a second before 1970 are refused where Headwater writes ORC.
    written = all_types(dt.datetime(1999, 12, 31, 23, 59, 59, 999999))
    if file_format != "orc":
        written = data
    ours = of_all_types(lake, f"{prefix}_ours", keyed=keyed, file__format=file_format)
    ours.write(written)
    # Another format on the way tells a mistake that both directions make.
    parquet = of_all_types(lake, f"{prefix}_parquet", keyed=keyed, file__format="parquet")
    java.copy(ours.name, parquet.name)
    assert sorted_rows(parquet.refresh()) == written.to_pylist()
    parquet.overwrite(data)
    theirs = of_all_types(lake, f"{prefix}_theirs", keyed=keyed, file__format=file_format)
    java.copy(parquet.name, theirs.name)
    assert sorted_rows(theirs.refresh()) == data.to_pylist()
    assert extensions(theirs.refresh()) == {file_format}
    if file_format != "avro":
        return
    headers = []
    for table in (ours, theirs):
        storage = table.storage
        (file,) = table.refresh().files()
        path = f"{storage.layout.location}/bucket-0/{file.name}"
        reader = fastavro.reader(io.BytesIO(storage.files.read(path)))
        headers.append(json.loads(reader.metadata["avro.schema"]))
    assert headers[0] == headers[1]
    assert headers[0] == avro_schema(data_file_fields(ours.storage.schema))


@pytest.mark.interop_java
@FORMATS
def test_changelog_files(
    lake: Lake,
    service: Service,
    java_gateway: object,
    java_version: str,
    tmp_path: Path,
    file_format: str,
) -> None:
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog-file.format": file_format,
        "file.format.per.level": f"0:{file_format},5:parquet",
    }
    name = create(lake, java, f"{file_format}_changes", "client", **{**KEYS, "options": options})
    java.write(name, orders(range(20)))
    java.write(name, orders(range(5)), "-D")
    changes = lake.table(name).changes(0).to_arrow()
    kinds = changes.column("_ROW_KIND").to_pylist()
    assert kinds.count("+I") == 20
    assert kinds.count("-D") == 5
    same(orders(range(20)), changes.slice(0, 20).drop_columns(["_ROW_KIND"]))
    lake.table(name).write(orders(range(3, 8), 1))
    everything = expected(orders(range(5, 20)), orders(range(3, 8), 1))
    same(everything, java.read(name))


@pytest.mark.interop_java
@pytest.mark.parametrize(
    ("zone", "legacy"),
    [("Asia/Shanghai", "true"), ("America/New_York", "true"), ("Asia/Shanghai", "false")],
)
def test_orc_files_from_other_time_zones(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    zone: str,
    legacy: str,
) -> None:
    gateway = java_gateways("2.0.0")
    java = JavaClient(gateway, "2.0.0", service.uri, TOKEN, tmp_path)
    data = all_types()
    name = f"interop.zones_{zone.partition('/')[2]}_{legacy}".lower()
    source = of_all_types(lake, f"{name}_source", keyed=False)
    source.write(data)
    option = "orc.timestamp-ltz.legacy.type"
    theirs = of_all_types(lake, name, keyed=False, file__format="orc", **{option: legacy})
    zones = gateway.jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        java.copy(source.name, theirs.name)
    finally:
        zones.setDefault(before)
    assert extensions(theirs.refresh()) == {"orc"}
    assert sorted_rows(theirs) == data.to_pylist()


@pytest.mark.interop
def test_pypaimon_rust_reads_orc_files(lake: Lake, rust: Client) -> None:
    for name, keys in (("orc_rust_pk", KEYS), ("orc_rust_append", {"options": {}})):
        options = {**keys["options"], "file.format": "orc"}  # type: ignore[dict-item]
        table = lake.table(create(lake, rust, name, "headwater", **{**keys, "options": options}))
        table.write(orders(range(100)))
        same(orders(range(100)), rust.read(table.name))
