"""Every type in every format, alone and inside of others: what other clients make of it, and back.

Rows that Headwater writes are read by each client column by column, so that a column which one of
them does not know tells nothing of the others. Java copies them to a table of each format, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, FieldIds, Json, parse_type, to_arrow

from .conftest import PYPAIMON, RUST, TOKEN, Client, Service
from .java_client import JavaClient

AnyClient = Client | JavaClient
MOMENT = dt.datetime(2038, 1, 19, 3, 14, 8, 123456)
TYPES: Mapping[str, tuple[Json, tuple[object, ...]]] = {
    "boolean": ("BOOLEAN", (True, False)),
    "tinyint": ("TINYINT", (-128, 127)),
    "smallint": ("SMALLINT", (-(2**15), 2**15 - 1)),
    "int": ("INT", (-(2**31), 2**31 - 1)),
    "bigint": ("BIGINT", (-(2**63), 2**63 - 1)),
    "float": ("FLOAT", (-1.5, 3.4028234663852886e38)),
    "double": ("DOUBLE", (-0.1, 1.7976931348623157e308)),
    "decimal9": ("DECIMAL(9, 2)", (Decimal("-1234567.89"), Decimal("0.01"))),
    "decimal18": ("DECIMAL(18, 4)", (Decimal("-12345678901234.5678"), Decimal("0.0001"))),
    "decimal38": ("DECIMAL(38, 10)", (Decimal("-1234567890123456789012345678.0123456789"),)),
    "char": ("CHAR(3)", ("abc", "  x")),
    "varchar": ("VARCHAR(20)", ("naïve ☃", "")),
    "string": ("STRING", ("x" * 500, "")),
    "binary": ("BINARY(4)", (b"\x00\x01\x02\xff",)),
    "varbinary": ("VARBINARY(9)", (b"\x00\xff", b"")),
    "bytes": ("BYTES", (b"\x00" * 300, b"")),
    "date": ("DATE", (dt.date(1, 1, 1), dt.date(9999, 12, 31))),
    "time0": ("TIME(0)", (dt.time(23, 59, 59), dt.time(0))),
    "time3": ("TIME(3)", (dt.time(23, 59, 59, 999000), dt.time(0))),
    "timestamp0": ("TIMESTAMP(0)", (MOMENT.replace(microsecond=0), dt.datetime(1970, 1, 1))),
    "timestamp3": ("TIMESTAMP(3)", (MOMENT.replace(microsecond=123000), dt.datetime(1970, 1, 1))),
    "timestamp6": ("TIMESTAMP(6)", (MOMENT, dt.datetime(1970, 1, 1))),
    "local3": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        (MOMENT.replace(microsecond=123000, tzinfo=dt.UTC),),
    ),
    "local6": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", (MOMENT.replace(tzinfo=dt.UTC),)),
}
FORMATS = ("parquet", "orc", "avro")
_NO_KEYS = ("float", "double", "boolean")


def _shapes(label: str, ids: FieldIds) -> dict[str, tuple[Json, list[object]]]:
    """Columns of a type: alone, and in each that may hold it; each with nulls where they may be."""
    name, values = TYPES[label]
    fields: list[Json] = [
        {"id": ids.take(), "name": "a", "type": name},
        {"id": ids.take(), "name": "b", "type": f"{name} NOT NULL"},
    ]
    row: Json = {"type": "ROW", "fields": fields}
    first = values[0]
    found: dict[str, tuple[Json, list[object]]] = {
        "plain": (name, [*values, None]),
        "strict": (f"{name} NOT NULL", [*values, first]),
        "array": ({"type": "ARRAY", "element": name}, [[*values, None], [], None]),
        "array_strict": ({"type": "ARRAY", "element": f"{name} NOT NULL"}, [[*values], [], None]),
        "map": (
            {"type": "MAP", "key": "STRING NOT NULL", "value": name},
            [[("k", first), ("n", None)], [], None],
        ),
        "row": (row, [{"a": first, "b": first}, {"a": None, "b": first}, None]),
        "rows": (
            {"type": "ARRAY", "element": row},
            [[{"a": None, "b": first}, None], [], None],
        ),
        "deep": (
            {
                "type": "MAP",
                "key": "INT NOT NULL",
                "value": {"type": "ARRAY", "element": {"type": "ARRAY", "element": name}},
            },
            [[(1, [[first, None], None, []]), (2, None)], [], None],
        ),
    }
    if label not in _NO_KEYS:
        found["keys"] = (
            {"type": "MAP", "key": f"{name} NOT NULL", "value": "INT"},
            [[(first, 1)], [], None],
        )
        found["multiset"] = (
            {"type": "MULTISET", "element": f"{name} NOT NULL"},
            [[(first, 2)], [], None],
        )
    return found


@dataclass(frozen=True)
class Matrix:
    """Columns, and their rows."""

    fields: tuple[DataField, ...]
    rows: pa.Table

    @staticmethod
    def of(is_wanted: Callable[[str, str], bool]) -> Matrix:
        """The columns of the types and shapes that are wanted, after a column ``k``."""
        ids = FieldIds()
        fields = [DataField(ids.take(), "k", parse_type("INT NOT NULL"))]
        columns: list[list[object]] = [[0, 1, 2]]
        for label in TYPES:
            for shape, (kind, values) in _shapes(label, ids).items():
                if is_wanted(label, shape):
                    fields.append(DataField(ids.take(), f"{label}_{shape}", parse_type(kind)))
                    columns.append((values * 3)[:3])
        schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in fields])
        arrays = [pa.array(each, item.type) for each, item in zip(columns, schema, strict=True)]
        return Matrix(tuple(fields), pa.table(arrays, schema=schema))

    def table(self, lake: Lake, name: str, file_format: str) -> Table:
        """An empty table for it."""
        return lake.create_table(
            f"interop.{name}",
            Schema(self.fields),
            options={"file.format": file_format, "bucket": "1", "bucket-key": "k"},
        )

    def differing(self, found: pa.Table) -> list[str]:
        """The columns that do not hold what was written."""
        rows = found.sort_by("k")
        return [
            name
            for name in found.column_names
            if _plain(rows.column(name).to_pylist()) != _plain(self.rows.column(name).to_pylist())
        ]


def _plain(value: object) -> object:
    """Without the order of maps' entries, which a map does not have."""
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        is_map = all(isinstance(item, tuple) for item in value)
        return sorted(items, key=repr) if is_map else items
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


# Paimon's Java writes no MULTISET to Avro files but those of text.
_IN_JAVA = Matrix.of(
    lambda label, shape: shape != "multiset" or label in ("char", "varchar", "string")
)
# The others open no table that has a MULTISET.
_IN_PYTHON = Matrix.of(lambda label, shape: shape != "multiset")


@pytest.mark.interop_java
@pytest.mark.parametrize("source", FORMATS)
def test_java_reads_and_writes_all(
    lake: Lake, service: Service, java_gateways: Callable[[str], Any], tmp_path: Path, source: str
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    ours = _IN_JAVA.table(lake, f"matrix_{source}", source)
    ours.write(_IN_JAVA.rows)
    assert not _IN_JAVA.differing(ours.refresh().scan().to_arrow())
    for target in FORMATS:
        theirs = _IN_JAVA.table(lake, f"matrix_{source}_{target}", target)
        java.copy(ours.name, theirs.name)
        assert not _IN_JAVA.differing(theirs.refresh().scan().to_arrow())


@pytest.mark.parametrize("client", [PYPAIMON, RUST], indirect=True)
@pytest.mark.parametrize("file_format", FORMATS)
def test_python_clients_read_what_they_know(lake: Lake, client: Client, file_format: str) -> None:
    ours = _IN_PYTHON.table(lake, f"matrix_{client.label}_{file_format}", file_format)
    ours.write(_IN_PYTHON.rows)
    found = client.read_each(ours.name, _IN_PYTHON.rows.column_names[1:])
    refused = {name for name, rows in found.items() if isinstance(rows, str)}
    # pypaimon casts what Arrow reads from ORC, which knows no NOT NULL, and cannot there.
    strict_rows = {name for name in found if name.endswith(("_row", "_rows"))}
    assert refused == (strict_rows if (client.name, file_format) == ("pypaimon", "orc") else set())
    for name, rows in found.items():
        assert isinstance(rows, str) or not _IN_PYTHON.differing(rows), name


@pytest.mark.interop
def test_pypaimon_rust_loses_rows_of_avro_files_that_begin_with_null(
    lake: Lake, rust: Client
) -> None:
    kind: Json = {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT"}]}
    fields = (DataField(0, "k", parse_type("INT")), DataField(1, "r", parse_type(kind)))
    found = []
    for values in ([{"x": 1}, None, {"x": 2}], [None, {"x": 1}, {"x": 2}]):
        name = "interop.avro_rows"
        lake.drop_table(name, ignore_if_not_exists=True)
        table = lake.create_table(name, Schema(fields), options={"file.format": "avro"})
        table.write({"k": range(3), "r": values})
        assert table.scan().to_arrow()["r"].to_pylist() == values
        found.append(rust.read(name)["r"].to_pylist())
    assert found == [[{"x": 1}, None, {"x": 2}], [None, {"x": None}, {"x": None}]]


@pytest.mark.interop_java
@pytest.mark.parametrize("client", ["pypaimon", "pypaimon-rust"], indirect=True)
def test_old_java_takes_nanoseconds_of_python_clients_for_milliseconds(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    client: Client,
    tmp_path: Path,
) -> None:
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    moment = dt.datetime(1970, 1, 1, microsecond=5)
    data = pa.table({"t": pa.array([moment], pa.timestamp("ns"))})
    ours, theirs = (f"interop.nanoseconds_{java.label}_{who}" for who in ("ours", client.label))
    for name in (ours, theirs):
        lake.drop_table(name, ignore_if_not_exists=True)
        lake.create_table(name, data.schema)
    lake.table(ours).write(data)
    client.write(theirs, data)
    assert lake.table(theirs).scan().to_arrow() == data
    assert java.read(ours)["t"].to_pylist() == [moment]
    read = moment if java_version == "2.0.0" else dt.datetime(1970, 1, 1, second=5)
    assert java.read(theirs)["t"].to_pylist() == [read]


@pytest.mark.interop
@pytest.mark.parametrize("client", [PYPAIMON, RUST], indirect=True)
def test_pypaimon_cuts_nanoseconds(lake: Lake, client: Client) -> None:
    moment = pa.timestamp("ns")
    keyed = pa.schema([pa.field("t", moment, nullable=False), ("u", moment), ("v", pa.int64())])

    def rows(version: int) -> pa.Table:
        moments = pa.array([1001, 2002, 3003, 4004], moment)
        return pa.table([moments, moments, pa.array([version] * 4)], schema=keyed)

    name = f"interop.nanoseconds_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, keyed, primary_keys=["t"], options={"bucket": "8"})
    table.write(rows(0))
    table.write(rows(1))
    read = client.read(name).sort_by("t").cast(keyed)
    cuts = client.name == "pypaimon"
    wanted = pa.array([1000, 2000, 3000, 4000], moment) if cuts else rows(1)["t"]
    assert read["t"].to_pylist() == read["u"].to_pylist() == wanted.to_pylist()
    client.write(name, rows(2))
    versions = table.refresh().scan().to_arrow()["v"].to_pylist()
    assert sorted(versions) == ([1, 1, 1, 1, 2, 2, 2, 2] if cuts else [2] * 4)


def test_negative_zero_is_a_key_of_its_own(lake: Lake, client: AnyClient) -> None:
    keyed = pa.schema([pa.field("k", pa.float64(), nullable=False), ("v", pa.int64())])
    both = pa.table([[0.0, -0.0], [1, 2]], schema=keyed)
    name = f"interop.zeros_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, keyed, primary_keys=["k"], options={"bucket": "1"})
    table.write(both)
    assert client.read(name).num_rows == table.scan().to_arrow().num_rows == 2
    table.truncate()
    client.write(name, both)
    takes_them_for_one = client.name in ("pypaimon", "paimon-java-1.3.1", "paimon-java-1.4.2")
    assert table.refresh().scan().to_arrow().num_rows == (1 if takes_them_for_one else 2)
