"""Tables of each way to spread rows over buckets, shared with the other libraries of Paimon."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


def rows(keys: range, version: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [version * 1000 + k for k in keys]}, schema=SCHEMA)


def found(table: pa.Table) -> Mapping[int, int]:
    assert len(set(table["k"].to_pylist())) == table.num_rows
    return dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def last_of(*tables: pa.Table) -> Mapping[int, int]:
    kept: dict[int, int] = {}
    for table in tables:
        kept |= found(table)
    return kept


def new_table(
    lake: Lake, client: Client | JavaClient, mode: str, options: Mapping[str, str]
) -> Table:
    name = f"interop.buckets_{mode}_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)


@pytest.mark.interop_java
def test_mod_buckets_are_those_of_java(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    table = new_table(lake, java_client, "mod", {"bucket": "3", "bucket-function.type": "mod"})
    check_upserts(table, java_client)


def check_upserts(table: Table, java_client: JavaClient) -> None:
    """Each updates rows of the other: a key that both put in the same bucket is there once."""
    name = str(table.identifier)
    parts = [rows(range(-30, 30), 1), rows(range(-40, 20), 2), rows(range(-10, 50), 3)]
    table.write(parts[0])
    java_client.write(name, parts[1])
    table.write(parts[2])
    expected = last_of(*parts)
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    for key in (-40, -1, 0, 49):
        assert found(table.scan(where=f"k = {key}").to_arrow()) == {key: expected[key]}
    table.compact()
    assert found(java_client.read(name)) == expected


@pytest.mark.interop_java
def test_hive_buckets_are_those_of_java(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    if java_version == "1.3.1":
        pytest.skip("Paimon has this function since release 1.4")
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    name = f"interop.buckets_hive_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    schema = pa.schema(
        [
            pa.field("t", pa.string(), False),
            pa.field("d", pa.decimal128(24, 4), False),
            pa.field("f", pa.float64(), False),
            pa.field("day", pa.date32(), False),
            ("v", pa.int64()),
        ]
    )
    keys = ["t", "d", "f", "day"]
    options = {"bucket": "7", "bucket-function.type": "hive"}
    table = lake.create_table(name, schema, primary_keys=keys, options=options)

    def hive_rows(version: int) -> pa.Table:
        numbers = range(40)
        columns = {
            "t": [f"text {'é' * (n % 9)}{n}" for n in numbers],
            "d": [Decimal(n - 20).scaleb(n % 5 - 4) * 10 ** (n % 11) for n in numbers],
            "f": [(n - 20) / 8 for n in numbers],
            "day": pa.array([n - 20 for n in numbers], pa.int32()).cast(pa.date32()),
            "v": [version * 1000 + n for n in numbers],
        }
        return pa.table(columns).cast(schema)

    table.write(hive_rows(1))
    java_client.write(name, hive_rows(2))
    assert len({file.bucket for file in table.files()}) > 4
    expected = sorted(hive_rows(2).to_pylist(), key=lambda row: row["v"])
    for read in (table.scan().to_arrow(), java_client.read(name)):
        assert sorted(read.to_pylist(), key=lambda row: row["v"]) == expected


@pytest.mark.interop
def test_pypaimon_reads_mod_buckets(lake: Lake, pypaimon: Client) -> None:
    table = new_table(lake, pypaimon, "mod", {"bucket": "3", "bucket-function.type": "mod"})
    table.write(rows(range(-30, 30), 1))
    table.write(rows(range(-10, 50), 2))
    expected = last_of(rows(range(-30, 30), 1), rows(range(-10, 50), 2))
    assert found(pypaimon.read(str(table.identifier))) == expected


POSTPONING = {"postpone.batch-write-fixed-bucket": "false"}


@pytest.mark.interop_java
def test_postponed_rows_of_java_are_spread(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    table = new_table(lake, java_client, "postponed", options)
    name = str(table.identifier)
    # Java's library alone always leaves the rows for a compaction.
    java_client.write(name, rows(range(60), 1))
    java_client.write(name, rows(range(10), 2), "-D")
    table.with_options(POSTPONING).write(rows(range(50, 80), 3))
    assert found(table.scan().to_arrow()) == {} == found(java_client.read(name))
    assert sorted(waiting(table)) == sorted(
        row for plan in java_client.changes(name) for row in tuples(plan)
    )
    table.compact()
    expected = last_of(rows(range(10, 60), 1), rows(range(50, 80), 3))
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    assert {split.total_buckets for split in table.scan().splits} == {3}
    table.write(rows(range(70, 90), 4))
    java_client.write(name, rows(range(85, 100), 5))
    assert found(java_client.read(name)) == {**expected, **found(rows(range(70, 90), 4))}
    table.compact()
    later = last_of(rows(range(70, 90), 4), rows(range(85, 100), 5))
    expected = {**expected, **later}
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))


@pytest.mark.interop_java
@pytest.mark.parametrize("ours", [True, False])
def test_rows_that_wait_are_merged_as_java_merges_them(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    ours: bool,
) -> None:
    if java_version != "2.0.0":
        pytest.skip("Paimon merges them since release 2.0")
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    table = new_table(lake, java_client, "merged_on_read", {"bucket": "-2"})
    name = str(table.identifier)
    table.write(rows(range(50), 1))
    table.write(rows(range(40, 60), 2))
    kinds = ["-D" if key % 4 else "+U" for key in range(30, 70)]
    if ours:
        table.with_options(POSTPONING).write(rows(range(30, 70), 3), pa.array(kinds))
    else:
        java_client.write(name, rows(range(30, 70), 3), kinds)
    expected = {**found(rows(range(30), 1)), **found(rows(range(32, 70, 4), 3))}
    merging = table.with_options({"postpone.merge-on-read": "true"})
    assert found(merging.scan().to_arrow()) == expected
    assert found(java_client.read_with_postponed(name)) == expected
    table.compact()
    assert found(java_client.read(name)) == expected


def tuples(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*table.to_pydict().values(), strict=True))


def waiting(table: Table) -> list[tuple[object, ...]]:
    return tuples(table.changes(0).to_arrow())


@pytest.mark.interop
def test_postponed_buckets_are_shared_with_pypaimon(lake: Lake, pypaimon: Client) -> None:
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    table = new_table(lake, pypaimon, "postponed", options)
    name = str(table.identifier)
    table.write(rows(range(40), 1))
    pypaimon.write(name, rows(range(20, 60), 2))
    table.with_options(POSTPONING).write(rows(range(50, 80), 3))
    table.compact()
    expected = last_of(rows(range(40), 1), rows(range(20, 60), 2), rows(range(50, 80), 3))
    assert found(table.scan().to_arrow()) == expected == found(pypaimon.read(name))


DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}


@pytest.mark.interop_java
def test_dynamic_buckets_are_shared_with_java(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    table = new_table(lake, java_client, "dynamic", DYNAMIC)
    name = str(table.identifier)
    parts = [rows(range(25), 1), rows(range(15, 45), 2), rows(range(60), 3), rows(range(70), 4)]
    table.write(parts[0])
    java_client.write(name, parts[1])
    # Both fill the buckets in the same way.
    assert bucket_sizes(table) == {0: 10, 1: 10, 2: 10, 3: 10, 4: 5}
    table.write(parts[2])
    java_client.write(name, parts[3])
    expected = last_of(*parts)
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    assert bucket_sizes(table) == dict.fromkeys(range(7), 10)
    table.delete("k < 5")
    table.compact()
    java_client.write(name, rows(range(3), 5))
    table.overwrite(table.scan().to_arrow())
    java_client.write(name, rows(range(40, 75), 6))
    table.write(rows(range(72, 80), 7))
    expected = {key: value for key, value in expected.items() if key >= 5}
    later = last_of(rows(range(3), 5), rows(range(40, 75), 6), rows(range(72, 80), 7))
    expected = {**expected, **later}
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    assert len(expected) == sum(bucket_sizes(table).values())


PARTITIONED = pa.schema([pa.field("p", pa.string(), False), *SCHEMA])


def partitioned(partition: str, keys: range, version: int) -> pa.Table:
    plain = rows(keys, version)
    columns = [pa.repeat(partition, plain.num_rows), *plain.columns]
    return pa.Table.from_arrays(columns, schema=PARTITIONED)


def places(table: pa.Table) -> Mapping[int, tuple[str, int]]:
    rows = table.to_pylist()
    found = {row["k"]: (row["p"], row["v"]) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.interop_java
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
        {"changelog-producer": "lookup"},
    ],
    ids=lambda options: "-".join(options.values()) or "deduplicate",
)
def test_keys_across_partitions_are_shared_with_java(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    options: Mapping[str, str],
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    name = f"interop.keys_across_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name, PARTITIONED, primary_keys=["k"], partition_keys=["p"], options={**DYNAMIC, **options}
    )
    engine = options.get("merge-engine", "deduplicate")
    expected: dict[int, tuple[str, int]] = {}

    def write(ours: bool, partition: str, keys: range, version: int) -> None:
        part = partitioned(partition, keys, version)
        # Before release 2.0, the assigner needs RocksDB, which the library does not bring.
        if ours or java_version != "2.0.0":
            table.write(part)
        else:
            java_client.write(name, part)
            # Rows of the first key become part of the table, and changes known, by a compaction.
            table.compact(full=True)
        for k, (p, v) in places(part).items():
            old = expected.get(k)
            if old is None or engine == "deduplicate":
                expected[k] = (p, v)
            elif engine != "first-row":
                expected[k] = (old[0], v)
        assert places(table.scan().to_arrow()) == expected == places(java_client.read(name))

    write(True, "a", range(25), 1)
    write(False, "b", range(15, 45), 2)
    write(True, "c", range(20, 60), 3)
    write(False, "a", range(10, 50), 4)
    write(True, "b", range(5, 70), 5)
    if engine == "deduplicate":
        table.delete("k < 8")
        for key in range(8):
            del expected[key]
        write(False, "c", range(6, 12), 6)
    # Rows that an update brings to another partition are found there by either side.
    table.update({"p": "d"}, where="k >= 30 AND k < 40")
    expected |= {key: ("d", expected[key][1]) for key in range(30, 40)}
    write(False, "a", range(36, 44), 7)
    write(True, "b", range(32, 38), 8)
    table.compact(full=True)
    assert places(java_client.read(name)) == expected


def bucket_sizes(table: Table) -> Mapping[int, int]:
    """The keys of each bucket; rows of one key must not be in two."""
    sizes: dict[int, int] = {}
    for split in table.scan().splits:
        for batch in table.scan(columns=["k"]).read_split(split):
            sizes[split.bucket] = sizes.get(split.bucket, 0) + batch.num_rows
    return sizes


@pytest.mark.interop
def test_dynamic_buckets_are_shared_with_pypaimon(lake: Lake, pypaimon: Client) -> None:
    table = new_table(lake, pypaimon, "dynamic", DYNAMIC)
    name = str(table.identifier)
    parts = [rows(range(25), 1), rows(range(15, 45), 2), rows(range(60), 3)]
    table.write(parts[0])
    pypaimon.write(name, parts[1])
    table.write(parts[2])
    expected = last_of(*parts)
    assert found(table.scan().to_arrow()) == expected == found(pypaimon.read(name))
    assert bucket_sizes(table) == dict.fromkeys(range(6), 10)


@pytest.mark.interop
def test_pypaimon_rust_reads_every_kind_of_buckets(
    lake: Lake, service: Service, tmp_path: Path
) -> None:
    rust = Client("pypaimon-rust", service, tmp_path)
    for mode, options in (
        ("mod", {"bucket": "3", "bucket-function.type": "mod"}),
        ("postponed", {"bucket": "-2", "postpone.default-bucket-num": "3"}),
        ("dynamic", DYNAMIC),
    ):
        table = new_table(lake, rust, mode, options)
        table.write(rows(range(40), 1))
        table.write(rows(range(20, 60), 2))
        table.compact()
        expected = last_of(rows(range(40), 1), rows(range(20, 60), 2))
        assert found(rust.read(str(table.identifier))) == expected, mode


@pytest.mark.interop_java
@pytest.mark.parametrize("ordered", ["true", "false"])
def test_bucketed_append_tables_are_shared_with_java(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    ordered: str,
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    name = f"interop.buckets_append_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    options = {"bucket": "2", "bucket-key": "k", "bucket-append-ordered": ordered}
    table = lake.create_table(name, SCHEMA, options=options)
    for version in range(4):
        part = rows(range(10), version)
        if version % 2:
            java_client.write(name, part)
        else:
            table.write(part)
    table.compact()
    expected = sorted(row for version in range(4) for row in tuples(rows(range(10), version)))
    for read in (table.scan().to_arrow(), java_client.read(name)):
        assert sorted(tuples(read)) == expected
        if ordered == "true":
            # The rows of a key are in one bucket, in the order in which they were written.
            for key in range(10):
                assert [v for k, v in tuples(read) if k == key] == [
                    version * 1000 + key for version in range(4)
                ]
    of_seven = table.scan(where="k = 7").to_arrow()["v"].to_pylist()
    assert sorted(of_seven) == [7, 1007, 2007, 3007]
