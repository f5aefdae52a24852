"""Places on curves, and clustered tables, shared with Paimon's Java library."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.client.lake import Lake
from headwater.storage.compaction.clustering import plan_clustering
from headwater.storage.rows.hilbert import hilbert_order
from headwater.storage.rows.z_order import z_order
from headwater.storage.types.data_type import parse_type, to_arrow

from .conftest import TOKEN, Service
from .java_client import JavaClient, rest_options

_NEWEST = "2.0.0"
TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9, 2)",
    "DECIMAL(30, 4)", "STRING", "CHAR(3)", "BYTES", "BINARY(9)", "DATE", "TIME(3)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]  # fmt: skip
ROWS = 40


def _values(kind: str, random: Random) -> list[Any]:
    """Storage values, nulls and ends of the range among them; times as whole numbers."""

    def whole(bits: int) -> list[int]:
        ends = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
        return [
            *ends,
            *(random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for _ in range(ROWS)),
        ]

    def text() -> str:
        return "".join(random.choice("ab\0zü𝄞") for _ in range(random.randrange(20)))

    floats = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -2.25, 1e-40, 3.25e30]
    match kind.split("(")[0].split(" ")[0]:
        case "BOOLEAN":
            found: list[Any] = [True, False]
        case "TINYINT":
            found = whole(8)
        case "SMALLINT":
            found = whole(16)
        case "INT" | "DATE":
            found = whole(32)
        case "BIGINT":
            found = whole(64)
        case "TIMESTAMP" if "(9)" in kind:
            found = whole(60)
        case "TIMESTAMP":
            found = whole(45)
        case "TIME":
            found = [random.randrange(86_400_000) for _ in range(ROWS)]
        case "FLOAT":
            found = [
                *floats,
                *(struct.unpack("f", struct.pack("f", random.gauss(0, 9)))[0] for _ in range(ROWS)),
            ]
        case "DOUBLE":
            found = [*floats, *(random.gauss(0, 1e9) for _ in range(ROWS))]
        case "DECIMAL":
            digits = int(kind[8:].split(",")[0])
            scale = int(kind.split(",")[1].strip(" )"))
            found = [
                Decimal(random.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale)
                for _ in range(ROWS)
            ]
        case "STRING" | "CHAR":
            found = ["", "a", "abcdefgh", "abcdefghi", *(text() for _ in range(ROWS))]
        case _:
            found = [
                b"",
                b"\xff" * 9,
                *(random.randbytes(random.randrange(12)) for _ in range(ROWS)),
            ]
    return [None, *found]


def _arrow(kind: str, values: Sequence[Any]) -> pa.Array:
    arrow = to_arrow(parse_type(kind))
    if pa.types.is_temporal(arrow):
        plain = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.array(values, plain).cast(arrow)
    return pa.array(values, arrow)


class _Java:
    """Paimon's indexers."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._jvm: Any = gateway.jvm
        self._gateway = gateway

    def _set(self, fields: Any, at: int, kind: str, value: Any) -> None:
        data = self._jvm.org.apache.paimon.data
        match kind.split("(")[0].split(" ")[0]:
            case _ if value is None:
                # A timestamp of nanoseconds takes its place all the same.
                fields.setNullAt(at)
            case "STRING" | "CHAR":
                fields.writeString(at, data.BinaryString.fromString(value))
            case "BYTES" | "BINARY":
                fields.writeBinary(at, value, 0, len(value))
            case "DECIMAL":
                digits, scale = (int(number) for number in kind[8:-1].split(","))
                number = self._jvm.java.math.BigDecimal(str(value))
                decimal = data.Decimal.fromBigDecimal(number, digits, scale)
                fields.writeDecimal(at, decimal, digits)
            case "TIMESTAMP" if "(3)" in kind:
                fields.writeTimestamp(at, data.Timestamp.fromEpochMillis(value), 3)
            case "TIMESTAMP" if "(9)" in kind:
                moment = data.Timestamp.fromEpochMillis(value // 10**6, value % 10**6)
                fields.writeTimestamp(at, moment, 9)
            case "TIMESTAMP":
                fields.writeTimestamp(at, data.Timestamp.fromMicros(value), 6)
            case "DATE" | "TIME" | "INT":
                fields.writeInt(at, value)
            case name:
                written = {"TINYINT": "Byte", "SMALLINT": "Short", "BIGINT": "Long"}
                getattr(fields, f"write{written.get(name, name.capitalize())}")(at, value)

    def places(
        self, curve: str, kinds: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> list[bytes]:
        types = self._jvm.org.apache.paimon.types
        builder = types.RowType.builder()
        names = [f"c{at}" for at in range(len(kinds))]
        for name, kind in zip(names, kinds, strict=True):
            builder.field(name, _parsed(self._gateway, kind))
        row_type = builder.build()
        sort = self._jvm.org.apache.paimon.sort
        if curve == "zorder":
            indexer = sort.zorder.ZIndexer(row_type, names, 8)
        else:
            indexer = sort.hilbert.HilbertIndexer(row_type, names)
        indexer.open()
        data = self._jvm.org.apache.paimon.data
        row = data.BinaryRow(len(kinds))
        fields = data.BinaryRowWriter(row)
        found = []
        for values in zip(*columns, strict=True):
            fields.reset()
            for at, (kind, value) in enumerate(zip(kinds, values, strict=True)):
                self._set(fields, at, kind, value)
            fields.complete()
            found.append(bytes(indexer.index(row)))
        return found


def _parsed(gateway: JavaGateway, kind: str) -> Any:
    types = gateway.jvm.org.apache.paimon.types
    name, _, rest = kind.partition("(")
    numbers = [int(n) for n in rest.split(")")[0].split(",")] if rest else []
    if "LOCAL" in kind:
        return types.DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(*numbers)
    return getattr(types.DataTypes, name)(*numbers)


@pytest.mark.interop_java
def test_places_on_curves_are_those_of_java(java_gateway: JavaGateway, java_version: str) -> None:
    if java_version != _NEWEST:
        pytest.skip("one release is enough for classes that have not changed")
    java, random = _Java(java_gateway), Random(7)
    for kind in TYPES:
        own = _values(kind, random)
        other: list[Any] = [random.choice([None, random.randrange(-9, 10**6)]) for _ in own]
        kinds, columns = [kind, "INT"], [own, other]
        types = [parse_type(each) for each in kinds]
        arrays = [_arrow(each, values) for each, values in zip(kinds, columns, strict=True)]
        if not kind.startswith("DECIMAL"):
            found = [bytes(place) for place in z_order(arrays, types, 8)]
            assert found == java.places("zorder", kinds, columns), kind
        found = [bytes(place) for place in hilbert_order(arrays, types)]
        expected = [place.lstrip(b"\0") for place in java.places("hilbert", kinds, columns)]
        assert [place.lstrip(b"\0") for place in found] == expected, kind


class _Clustering:
    """Paimon's clustering of an append table, as Flink's and Spark's jobs do it."""

    def __init__(self, gateway: JavaGateway, uri: str, scratch: Path, table: str) -> None:
        self._jvm: Any = gateway.jvm
        self._gateway = gateway
        self._scratch = scratch
        catalogs = self._jvm.org.apache.paimon.catalog
        options = rest_options(gateway, uri, TOKEN)
        catalog = catalogs.CatalogFactory.createCatalog(catalogs.CatalogContext.create(options))
        self._table = catalog.getTable(catalogs.Identifier.fromString(table))

    def picks(self, *, full: bool) -> dict[frozenset[str], int]:
        """The level that files are sorted to, by their names."""
        return {
            frozenset(str(file.fileName()) for file in unit.files()): int(unit.outputLevel())
            for unit in self._units(full).values()
        }

    def _units(self, full: bool) -> Any:
        cluster = self._jvm.org.apache.paimon.append.cluster
        return cluster.IncrementalClusterManager(self._table).createCompactUnits(full)

    def run(self, *, full: bool) -> None:
        """Sort what is picked, and commit it."""
        paimon = self._jvm.org.apache.paimon
        write = self._table.store().newWrite("java")
        write.withIOManager(paimon.disk.IOManager.create(str(self._scratch)))
        messages = self._jvm.java.util.ArrayList()
        upgrade = paimon.append.cluster.IncrementalClusterManager.upgrade
        none = self._jvm.java.util.ArrayList()
        for partition, unit in self._units(full).items():
            after = write.clusterRewrite(partition, 0, unit.files())
            increment = paimon.io.CompactIncrement(
                unit.files(), upgrade(after, unit.outputLevel()), none
            )
            empty = paimon.io.DataIncrement.emptyIncrement()
            message = paimon.table.sink.CommitMessageImpl(partition, 0, -1, empty, increment)
            messages.add(message)
        commit = self._table.newCommit("java")
        commit.commit(messages)
        commit.close()
        write.close()


@pytest.mark.interop_java
@pytest.mark.parametrize("strategy", ["order", "zorder"])
def test_either_side_continues_what_the_other_clusters(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    strategy: str,
) -> None:
    if java_version != _NEWEST:
        pytest.skip("the older releases have no incremental clustering, or another one")
    name = f"interop.clustered_{strategy}"
    lake.drop_table(name, ignore_if_not_exists=True)
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.string())])
    options = {
        "clustering.incremental": "true",
        "clustering.columns": "a,b" if strategy == "zorder" else "a",
        "num-sorted-run.compaction-trigger": "3",
    }
    table = lake.create_table(name, schema, options=options)
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    theirs = _Clustering(java_gateway, service.uri, tmp_path, name)
    random = Random(3)
    expected: list[dict[str, Any]] = []

    def write(count: int) -> None:
        rows = [
            {"a": random.randrange(99), "b": random.randrange(99), "s": f"s{random.random()}"}
            for _ in range(count)
        ]
        expected.extend(rows)
        table.write(pa.Table.from_pylist(rows, schema))

    def found(rows: pa.Table) -> list[str]:
        return sorted(map(repr, rows.to_pylist()))

    def own_picks(*, full: bool) -> dict[frozenset[str], int]:
        latest = table.pointer.latest()
        assert latest is not None
        return {
            frozenset(file.file_name for file in task.files): task.output_level
            for task in plan_clustering(table.storage, latest, full=full)
        }

    sizes = [40, 30, 20, 5, 5, 5, 200, 1, 1, 1, 1]
    for turn, size in enumerate(sizes):
        write(size)
        full = turn == 8
        picks = theirs.picks(full=full)
        assert own_picks(full=full) == picks
        if turn % 3 == 2:
            continue
        if picks and turn % 2:
            theirs.run(full=full)
        else:
            assert (table.compact(full=full or None) is None) == (not picks)
        assert {file.level for file in table.files()} != set()
        assert found(table.scan().to_arrow()) == sorted(map(repr, expected))
        assert found(client.read(name)) == sorted(map(repr, expected))
    assert theirs.picks(full=True) == own_picks(full=True)
    theirs.run(full=True)
    table.refresh()
    assert {file.level for file in table.files()} == {3}
    assert own_picks(full=True) == theirs.picks(full=True) == {}
    assert found(table.scan().to_arrow()) == sorted(map(repr, expected))
    table.delete("a < 50")
    kept = [row for row in expected if row["a"] >= 50]
    assert found(client.read(name)) == sorted(map(repr, kept))


@pytest.mark.interop_java
def test_the_same_files_are_picked_whatever_their_sizes(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    if java_version != _NEWEST:
        pytest.skip("the older releases have no incremental clustering, or another one")
    name, schema = "interop.picked", pa.schema([("a", pa.int64())])
    options = {
        "clustering.incremental": "true",
        "clustering.columns": "a",
        "num-sorted-run.compaction-trigger": "3",
        "compaction.max-size-amplification-percent": "1000000",
    }
    table = lake.create_table(name, schema, options=options)
    theirs = _Clustering(java_gateway, service.uri, tmp_path, name)
    random, seen = Random(5), set()
    for turn in range(14):
        rows = [random.randrange(2**60) for _ in range(random.choice([10, 100, 1000, 4000]))]
        table.write(pa.table({"a": rows}))
        latest = table.pointer.latest()
        assert latest is not None
        own = {
            frozenset(file.file_name for file in task.files): task.output_level
            for task in plan_clustering(table.storage, latest)
        }
        assert own == theirs.picks(full=False), turn
        seen |= set(own.values())
        if turn % 3 == 2:
            table.compact()
    assert len(seen) > 1


@pytest.mark.interop_java
def test_sorted_tables_are_read_by_java(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.string())])
    options = {"target-file-size": "1 kb", "deletion-vectors.enabled": "true"}
    table = lake.create_table(f"interop.sorted_{client.label}", schema, options=options)
    numbers = [(n * 37 % 1000, n * 91 % 1000) for n in range(2000)]
    rows = [{"a": a, "b": b, "s": f"s{a}"} for a, b in numbers]
    table.write(pa.Table.from_pylist(rows, schema))
    table.delete("a = 5")
    table.compact(order_strategy="hilbert", order_by=["a", "b"])
    expected = sorted(repr(row) for row in rows if row["a"] != 5)
    assert sorted(map(repr, client.read(table.name).to_pylist())) == expected
    files, found = client.read_where(table.name, "b", "equal", 91)
    assert sorted(map(repr, found.to_pylist())) == sorted(
        repr(row) for row in rows if row["b"] == 91 and row["a"] != 5
    )
    assert files < len(table.files())


@pytest.mark.interop_java
def test_buckets_clustered_by_either_side_are_read_by_both(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    if java_version != _NEWEST:
        pytest.skip("the older releases do not cluster buckets")
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    options = {
        "bucket": "1",
        "bucket-key": "a",
        "bucket-append-ordered": "false",
        "clustering.incremental": "true",
        "clustering.columns": "b",
        "num-sorted-run.compaction-trigger": "3",
    }
    table = lake.create_table("interop.clustered_buckets", schema, options=options)
    expected: list[dict[str, int]] = []
    for turn in range(7):
        rows = [{"a": n, "b": n * 37 % 101} for n in range(turn * 10, turn * 10 + 10)]
        expected += rows
        if turn % 3 == 2:
            client.write(table.name, pa.Table.from_pylist(rows, schema))
        else:
            table.write(pa.Table.from_pylist(rows, schema))
        table.refresh()
        assert sorted(map(repr, table.scan().to_arrow().to_pylist())) == sorted(map(repr, expected))
        found = client.read(table.name).to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert {file.level for file in table.files()} - {0}
    client.compact(table.name)
    table.refresh()
    assert {file.level for file in table.files()} == {3}
    assert [row["b"] for row in table.scan().to_arrow().to_pylist()] == sorted(
        row["b"] for row in expected
    )
    assert table.compact(full=True) is None
