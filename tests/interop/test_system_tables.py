"""System tables have the columns and the rows that Paimon's Java library gives them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.system_table import SYSTEM_TABLES
from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import from_arrow, parse_type

from .conftest import TOKEN, Service
from .java_client import JavaClient

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("day", pa.date32(), False),
        ("v", pa.int64()),
        ("name", pa.string()),
    ]
)
ROW_TABLES = ("ro", "audit_log", "binlog")
# Headwater shows URIs, and leaves out what Java puts among the options; Java's order of options is
# a hash table's.
OTHERWISE = {"file_path", "options"}


def rows(keys: range, day: int, version: int) -> pa.Table:
    count = len(keys)
    return pa.table(
        {
            "k": list(keys),
            "day": [dt.date(2026, 1, day)] * count,
            "v": [version * 1000 + k for k in keys],
            "name": [None if k % 7 == 0 else f"name {k}" for k in keys],
        },
        schema=SCHEMA,
    )


@pytest.fixture(params=["1.4.2", "2.0.0"])
def java_version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


@pytest.fixture
def java_client(
    service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> JavaClient:
    return JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)


def a_table(lake: Lake, client: JavaClient) -> Table:
    name = f"interop.system_tables_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name,
        SCHEMA,
        primary_keys=["k", "day"],
        partition_keys=["day"],
        options={"bucket": "2", "changelog-producer": "input", "fields.v.ignore-retract": "true"},
    )
    table.write(rows(range(30), 1, 1))
    table.alter(AddColumn(("added",), parse_type("INT")))
    more = rows(range(15, 45), 1, 2)
    client.write(name, more.append_column("added", pa.array(range(30), pa.int32())))
    table.create_tag("first", 1)
    table.create_branch("b", tag="first")
    table.consumer("reader").reset(2)
    table.write(rows(range(7), 2, 3))
    table.delete("k < 5")
    return table


def as_rows(table: pa.Table, columns: list[str]) -> list[tuple[object, ...]]:
    return sorted(
        zip(*table.select(columns).to_pydict().values(), strict=True),
        key=lambda row: [str(item) for item in row],
    )


@pytest.mark.interop_java
def test_system_tables_are_those_of_java(
    lake: Lake, java_client: JavaClient, java_version: str
) -> None:
    table = a_table(lake, java_client)
    for name in SYSTEM_TABLES.keys() - {"row_tracking"}:
        whole = f"{table.name}${name}"
        if name == "file_key_ranges" and java_version != "2.0.0":
            continue
        ours, theirs = lake.system_table(whole), java_client.columns(whole)
        names = [column for column, _ in theirs]
        if java_version == "2.0.0":
            assert [(f.name, sql_type(f)) for f in ours.schema] == theirs, name
        if name == "statistics":
            continue  # there are none
        common = [column for column in names if column in ours.schema.names]
        common = [column for column in common if column not in OTHERWISE]
        if name == "branches":
            common = ["branch_name"]
        if name == "binlog":
            common.remove("day")  # Java gives the number of the day in a list
        if name == "partitions" and java_version != "2.0.0":
            common.remove("partition")  # as {2026-01-01}
        assert as_rows(ours.to_arrow(), common) == as_rows(java_client.read(whole), common), name


MODES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "append": ((), {}),
    "append with vectors": ((), {"deletion-vectors.enabled": "true"}),
    "append in buckets": ((), {"bucket": "2", "bucket-key": "k"}),
    "dynamic buckets": (("k", "day"), {"bucket": "-1"}),
    "functions": (
        ("k", "day"),
        {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    ),
    "first row": (
        ("k", "day"),
        {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"},
    ),
}


@pytest.mark.interop_java
@pytest.mark.parametrize("mode", MODES)
def test_system_tables_of_other_kinds_of_tables_are_those_of_java(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], JavaGateway],
    tmp_path: Path,
    mode: str,
) -> None:
    java_client = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    keys, options = MODES[mode]
    name = f"interop.system_tables_{mode.replace(' ', '_')}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name, SCHEMA, primary_keys=keys, partition_keys=["day"], options=options
    )
    table.write(rows(range(30), 1, 1))
    java_client.write(name, rows(range(20, 40), 1, 2))
    java_client.write(name, rows(range(5), 2, 3))
    if not keys:
        table.delete("k < 3")
    table.compact()
    for system in SYSTEM_TABLES.keys() - {"row_tracking"}:
        whole = f"{table.name}${system}"
        if system == "statistics":
            continue  # there are none
        ours, theirs = lake.system_table(whole), java_client.columns(whole)
        assert [(f.name, sql_type(f)) for f in ours.schema] == theirs, system
        hidden = OTHERWISE | ({"day"} if system == "binlog" else set())
        # An address inside an index file is shown as a list of rows.
        hidden |= {"dv_ranges"} if system == "table_indexes" else set()
        common = [column for column, _ in theirs if column not in hidden]
        assert as_rows(ours.to_arrow(), common) == as_rows(
            java_client.read(whole, common), common
        ), system


@pytest.mark.interop_java
def test_every_system_table_of_java_is_shown(
    lake: Lake, java_gateways: Callable[[str], JavaGateway]
) -> None:
    loader = java_gateways("2.0.0").jvm.org.apache.paimon.table.system.SystemTableLoader
    assert {str(name) for name in loader.SYSTEM_TABLES} == set(SYSTEM_TABLES)
    for name in loader.GLOBAL_SYSTEM_TABLES:
        assert lake.system_table(f"sys.{name}").schema.names


@pytest.mark.interop_java
def test_paths_and_options_are_those_of_java(lake: Lake, java_client: JavaClient) -> None:
    table = a_table(lake, java_client)
    theirs = java_client.read(f"{table.name}$files")["file_path"].to_pylist()
    ours = table.inspect.files()["file_path"].to_pylist()
    assert sorted(ours) == sorted(theirs)
    found = java_client.read(f"{table.name}$options").to_pylist()
    assert sorted(found, key=str) == sorted(table.inspect.options().to_pylist(), key=str)


@pytest.mark.interop_java
def test_indexes_that_java_made_are_shown(lake: Lake, java_client: JavaClient) -> None:
    name = f"interop.indexes_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    java_client.create(name, SCHEMA, primary_keys=["k", "day"], options=options)
    # The second is too small to be compacted with the first, whose rows are marked as deleted.
    large = pa.array([random.Random(k).randbytes(5000).hex() for k in range(20)])
    java_client.write(name, rows(range(20), 1, 1).set_column(3, "name", large))
    java_client.write(name, rows(range(1), 1, 2))
    ours = lake.system_table(f"{name}$table_indexes")
    shown = {column for column, _ in java_client.columns(f"{name}$table_indexes")}
    common = [name for name in ours.schema.names if name in shown - {"dv_ranges"}]
    found = as_rows(ours.to_arrow(), common)
    assert found
    assert found == as_rows(java_client.read(f"{name}$table_indexes", common), common)
    vectors = ours.to_arrow()["dv_ranges"].to_pylist()[0]
    assert [(item["f0"].startswith("data-"), item["_CARDINALITY"]) for item in vectors]
    counted = lake.system_table(f"{name}$partitions").to_arrow(["deleted_record_count"])
    assert counted["deleted_record_count"].to_pylist() == [1]
    theirs = java_client.read(f"{name}$partitions")
    if "deleted_record_count" in theirs.column_names:
        assert theirs["deleted_record_count"].to_pylist() == [1]


@pytest.mark.interop_java
def test_system_tables_of_a_branch(lake: Lake, java_client: JavaClient) -> None:
    table = a_table(lake, java_client)
    name = f"{table.name}$branch_b$snapshots"
    ours = lake.system_table(name).to_arrow()
    assert ours["snapshot_id"].to_pylist() == [1]
    assert ours["commit_user"].to_pylist() == java_client.read(name)["commit_user"].to_pylist()


@pytest.mark.interop_java
def test_system_tables_of_the_warehouse(
    lake: Lake, java_client: JavaClient, java_version: str
) -> None:
    table = a_table(lake, java_client)
    if java_version != "2.0.0":
        return
    for name, own in (("tables", ("owner", "created_by", "updated_by")), ("partitions", ())):
        ours = lake.system_table(f"sys.{name}")
        theirs = java_client.columns(f"sys.{name}")
        assert [(f.name, sql_type(f)) for f in ours.schema] == theirs, name
        common = [column for column, _ in theirs if column not in own]
        found = as_rows(ours.to_arrow(where=f"table_name = '{table.identifier.name}'"), common)
        read = [
            row
            for row in as_rows(java_client.read(f"sys.{name}"), common)
            if row[1] == table.identifier.name
        ]
        assert found == read, name
    options = java_client.read("sys.all_table_options").to_pylist()
    ours = lake.system_table("sys.all_table_options").to_arrow()
    assert shown_options(ours.to_pylist()) <= shown_options(options)


def shown_options(found: list[Mapping[str, str]]) -> set[tuple[str, ...]]:
    return {
        tuple(path_of(text) if row["key"] == "path" else text for text in row.values())
        for row in found
    }


def path_of(uri: str) -> str:
    return urlsplit(uri).path


def sql_type(field: pa.Field) -> str:
    """Paimon's name of a column's type."""
    return str(from_arrow(field.type, field.nullable))


@pytest.mark.interop_java
def test_java_reads_the_statistics_of_an_analysis(lake: Lake, java_client: JavaClient) -> None:
    name = f"interop.analysed_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    schema = pa.schema(
        [
            ("flag", pa.bool_()),
            ("count", pa.int64()),
            ("share", pa.float64()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("moment", pa.timestamp("ms", "UTC")),
            ("name", pa.string()),
        ]
    )
    table = lake.create_table(name, schema)
    at = dt.datetime(2026, 1, 31, 12, 30, 15, 250000)
    rows: list[list[object]] = [
        [True, 7, 1.5, decimal.Decimal("2.50"), dt.date(2026, 1, 31), at, at, "one"],
        [None, -7, float("nan"), None, dt.date(1969, 12, 31), None, None, "twelve"],
    ]
    table.write(pa.table([list(each) for each in zip(*rows, strict=True)], schema=schema))
    table.analyze()
    whole = f"{name}$statistics"
    (ours,), (theirs,) = (
        lake.system_table(whole).to_arrow().to_pylist(),
        java_client.read(whole).to_pylist(),
    )
    # Java has parsed each value by its column's type, and gives it beside its text.
    assert json.loads(theirs.pop("colstat")).keys() == json.loads(ours["colstat"]).keys()
    assert theirs == {key: value for key, value in ours.items() if key != "colstat"}
    assert ours["mergedRecordCount"] == 2
    # Another engine's commit carries them on.
    carried = f"{name}_carried"
    lake.drop_table(carried, ignore_if_not_exists=True)
    table = lake.create_table(carried, pa.schema([("v", pa.int64())]))
    table.write({"v": [1]})
    table.analyze()
    java_client.write(carried, table.scan().to_arrow())
    assert table.inspect.statistics()["mergedRecordCount"].to_pylist() == [1]
    assert table.scan().count() == 2
