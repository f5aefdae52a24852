"""File indexes, shared with Paimon's Java library: the same bytes, and used by either side."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.index.file_index.container import Bytes, IndexContainer
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.schema.change import RemoveOption, SetOption

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("long", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(12, 2)),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("clock", pa.time32("ms")),
        ("milli", pa.timestamp("ms")),
        ("micro", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", "UTC")),
        ("none", pa.int32()),
        ("tags", pa.map_(pa.string(), pa.int32())),
    ]
)
TEXTS = ["", "a", "ab", "abc", "abcd", "äöü𝄞", "\0", "x" * 33, "y" * 200, "né\tz", "a\u07ff"]
FLOATS = [0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 1e-40]
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
ATOMIC = [name for name in SCHEMA.names if name not in ("tags", "bytes")]
INDEXED = {
    "bloom-filter": [
        "tags[a]", *(name for name in SCHEMA.names if name not in ("flag", "money", "tags")),
    ],
    "bitmap": ["tags[a]", "tags[b]", *(name for name in ATOMIC if name != "money")],
    "range-bitmap": ["tags[b]", *ATOMIC],
    "bsi": ["tiny", "small", "whole", "long", "money", "day", "clock", "milli", "micro", "none"],
}  # fmt: skip


def _options(**more: str) -> dict[str, str]:
    options = {f"file-index.{kind}.columns": ",".join(INDEXED[kind]) for kind in INDEXED}
    for name in INDEXED["bloom-filter"]:
        options[f"file-index.bloom-filter.{name}.items"] = "500"
        options[f"file-index.bloom-filter.{name}.fpp"] = "0.02"
    options |= {
        "file-index.bitmap.whole.version": "1",
        "file-index.bitmap.text.version": "1",
        "file-index.bitmap.long.index-block-size": "100 b",
        "file-index.range-bitmap.long.chunk-size": "64 b",
        "file-index.range-bitmap.text.chunk-size": "300 b",
    }
    return options | more


def _rows(random: Random, count: int) -> pa.Table:
    def some(value: object) -> object:
        return None if random.random() < 0.1 else value

    def moment() -> dt.datetime:
        return MOMENT + dt.timedelta(microseconds=random.randint(-(10**7), 10**13))

    def tags() -> object:
        return [(key, some(random.randint(0, 3))) for key in "abc" if random.random() < 0.6]

    columns: Mapping[str, list[object]] = {
        "flag": [some(random.random() < 0.3) for _ in range(count)],
        "tiny": [some(random.randint(-128, 127)) for _ in range(count)],
        "small": [some(random.randint(-300, 300)) for _ in range(count)],
        "whole": [some(random.choice([7, -7, 2**31 - 1, -(2**31), 0])) for _ in range(count)],
        "long": [some(random.randint(-(2**62), 2**62)) for _ in range(count)],
        "single": [some(random.choice(FLOATS)) for _ in range(count)],
        "double": [some(random.choice(FLOATS)) for _ in range(count)],
        "money": [some(Decimal(random.randint(-999, 999)).scaleb(-2)) for _ in range(count)],
        "text": [some(random.choice(TEXTS) + str(random.randint(0, 9))) for _ in range(count)],
        "bytes": [some(random.randbytes(random.randint(0, 40))) for _ in range(count)],
        "day": [some(MOMENT.date() + dt.timedelta(random.randint(-9, 9))) for _ in range(count)],
        "clock": [some(dt.time(random.randint(0, 23), 1, 2, 3000)) for _ in range(count)],
        "milli": [
            some(moment().replace(microsecond=random.randint(0, 999) * 1000)) for _ in range(count)
        ],
        "micro": [some(moment()) for _ in range(count)],
        "zoned": [some(moment().replace(tzinfo=dt.UTC)) for _ in range(count)],
        "none": [None] * count,
        "tags": [some(tags()) for _ in range(count)],
    }
    return pa.table(columns, schema=SCHEMA)


def _table(lake: Lake, name: str, schema: pa.Schema, options: Mapping[str, str]) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, schema, options=options)


def _files(table: Table) -> list[tuple[str, DataFile]]:
    table.refresh()
    return [(s.directory, file) for s in table.scan().splits for file in s.files]


def _index(table: Table) -> bytes:
    """The indexes of the table's one file."""
    [(directory, file)] = _files(table)
    if file.embedded_file_index is not None:
        assert file.extra_files == ()
        return file.embedded_file_index
    assert file.extra_files == (f"{file.file_name}.index",)
    return Path(f"{directory}/{file.file_name}.index".removeprefix("file://")).read_bytes()


@pytest.mark.interop_java
def test_indexes_are_those_of_java_to_the_byte(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    # One row, and then enough for values to share places in Java's maps; in manifests and beside.
    for count, threshold in ((1, "100 mb"), (150, "0 b")):
        options = _options(**{"file-index.in-manifest-threshold": threshold})
        label = f"interop.indexed_{java_client.label}_{count}"
        names = [f"{label}_{whose}" for whose in ("ours", "theirs")]
        ours, theirs = (_table(lake, name, SCHEMA, options) for name in names)
        ours.write(_rows(Random(count), count))
        java_client.copy(*names)
        ours_bytes, expected = _index(ours), _index(theirs)
        bodies, others = (
            IndexContainer.open(Bytes(data), "an index").bodies() for data in (ours_bytes, expected)
        )
        differing = [
            (name, kind)
            for name, kinds in others.items()
            for kind, body in kinds.items()
            if bodies[name][kind] != body
        ]
        assert differing == []
        # The same order in the head, which differs by the checksums that Paimon reserves bytes for.
        assert [(name, list(kinds)) for name, kinds in bodies.items()] == [
            (name, list(kinds)) for name, kinds in others.items()
        ]
        assert ours_bytes.endswith(
            b"".join(body or b"" for k in others.values() for body in k.values())
        )


WHERE: Sequence[tuple[str, str, Sequence[object]]] = [
    ("n = 17", "equal", ["n", 17]),
    ("n = 170", "equal", ["n", 170]),
    ("n <> 17", "notEqual", ["n", 17]),
    ("n IN (3, 44, 170)", "in", ["n", 3, 44, 170]),
    ("n NOT IN (3, 44, 170)", "notIn", ["n", 3, 44, 170]),
    ("n IS NULL", "isNull", ["n"]),
    ("n IS NOT NULL", "isNotNull", ["n"]),
    ("d > 20.5", "greaterThan", ["d", 20.5]),
    ("d >= 0.0", "greaterOrEqual", ["d", 0.0]),
    ("d < 0.5", "lessThan", ["d", 0.5]),
    ("d <= -0.25", "lessOrEqual", ["d", -0.25]),
    ("t = 'text 5'", "equal", ["t", "text 5"]),
    ("t = 'text 500'", "equal", ["t", "text 500"]),
    ("t > 'text 7'", "greaterThan", ["t", "text 7"]),
]


@pytest.mark.interop_java
def test_indexes_of_either_side_exclude_the_same_files(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    schema = pa.schema([("n", pa.int32()), ("d", pa.float64()), ("t", pa.string())])
    options = {
        "file-index.bitmap.columns": "n",
        "file-index.range-bitmap.columns": "d,t",
        "file-index.bloom-filter.columns": "n,t",
        "file-index.bloom-filter.n.items": "20",
        "file-index.bloom-filter.t.items": "20",
        "file-index.in-manifest-threshold": "1 mb",
        # Statistics alone would leave out some of the files.
        "metadata.stats-mode": "none",
    }
    name = f"interop.excluding_{java_client.label}"
    table = _table(lake, name, schema, options)
    for part in range(6):
        numbers = [*range(part, 90, 6), None]
        texts = [None if n is None else f"text {n}" for n in numbers]
        floats = [None if n is None else (n - 20) / 4 for n in numbers]
        data = pa.table({"n": numbers, "d": floats, "t": texts}, schema=schema)
        if part % 2:
            table.write(data)
        else:
            java_client.write(name, data)
    _exclude_the_same(table, java_client, name)
    # The same files with indexes that were built later, under options of their own.
    table.alter(
        *(RemoveOption(f"file-index.{kind}.columns") for kind in ("bitmap", "range-bitmap")),
        SetOption("file-index.range-bitmap.columns", "n,d,t"),
    )
    assert table.rewrite_file_indexes() is not None
    _exclude_the_same(table, java_client, name)


def _exclude_the_same(table: Table, java_client: JavaClient, name: str) -> None:
    is_excluding = []
    for where, test, (column, *values) in WHERE:
        files, rows = java_client.read_where(name, str(column), test, *values)
        scan = table.scan(where=where)
        counted = scan.to_arrow()
        order = [("t", "ascending")]
        assert counted.sort_by(order).equals(rows.cast(counted.schema).sort_by(order)), where
        ours = sum(len(split.files) for split in scan.splits)
        assert ours <= files, where
        assert scan.plan is not None
        assert scan.plan.files_skipped_by_index == 6 - ours
        # A file with nulls alone is what Java's indexes do not tell from one that matches.
        if ours == files < 6:
            is_excluding.append(where)
    assert len(is_excluding) >= 6


@pytest.mark.parametrize("threshold", ["1 mb", "0 b"], ids=["embedded", "beside"])
def test_other_clients_read_and_write_tables_with_indexes(
    lake: Lake, client: Client | JavaClient, threshold: str
) -> None:
    schema = pa.schema([("n", pa.int32()), ("t", pa.string())])
    options = {
        "file-index.bitmap.columns": "n",
        "file-index.bloom-filter.columns": "t",
        "file-index.bloom-filter.t.items": "20",
        "file-index.in-manifest-threshold": threshold,
    }
    name = f"interop.indexed_by_{client.label}_{threshold[0]}"
    table = _table(lake, name, schema, options)
    first, second = (
        pa.table({"n": list(keys), "t": [f"text {k}" for k in keys]}, schema=schema)
        for keys in (range(10), range(10, 20))
    )
    table.write(first)
    client.write(name, second)
    everything = pa.concat_tables([first, second])
    assert client.read(name).cast(schema).sort_by("n").equals(everything)
    assert table.scan().to_arrow().sort_by("n").equals(everything)
    assert (
        table.scan(where="n = 13 OR t = 'text 3'")
        .to_arrow()
        .sort_by("n")
        .equals(everything.take([3, 13]))
    )
    table.compact()
    table.rewrite_file_indexes()
    assert client.read(name).cast(schema).sort_by("n").equals(everything)
    assert table.scan(where="n IN (3, 13)").to_arrow().num_rows == 2
