"""Changelogs that compactions make, shared with Paimon's Java library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Service
from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("s", pa.int64())])
KINDS = ("+I", "-U", "+U", "-D")
# One bucket, so that changes have one order; few runs, so that there are several levels.
OPTIONS = {"bucket": "1", "num-sorted-run.compaction-trigger": "4", "num-levels": "6"}
SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
GROUPS = {"merge-engine": "partial-update", "fields.s.sequence-group": "v"}
MODES: Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "deduplicate": ({}, KINDS),
    "without_same": ({"changelog-producer.row-deduplicate": "true"}, KINDS),
    "sequence": ({"sequence.field": "s"}, ("+I", "+U")),
    "sum": (SUMS, KINDS),
    "partial": ({"merge-engine": "partial-update"}, ("+I", "+U")),
    "groups": (GROUPS, KINDS),
}

Rows: TypeAlias = list[tuple[object, ...]]


def batch(random: Random, keys: int, kinds: tuple[str, ...]) -> tuple[pa.Table, list[str]]:
    rows = [
        (random.randrange(300), random.choice([1, 2, 3, None]), random.randrange(4))
        for _ in range(keys)
    ]
    columns = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    return pa.table(columns, schema=SCHEMA), [random.choice(kinds) for _ in rows]


def first_rows() -> tuple[pa.Table, list[str]]:
    numbers = pa.array(range(250), pa.int64())
    return pa.table([numbers, numbers, pa.array([1] * 250, pa.int64())], schema=SCHEMA), [
        "+I"
    ] * 250


def write(table: Table, rows: tuple[pa.Table, list[str]]) -> None:
    data, kinds = rows
    table.write(data, row_kinds=pa.array([KINDS.index(kind) for kind in kinds], pa.int8()))


def new_table(lake: Lake, name: str, options: Mapping[str, str]) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=["k"], options={**OPTIONS, **options})


def read(table: pa.Table) -> Rows:
    return sorted(zip(*table.select(SCHEMA.names).to_pydict().values(), strict=True), key=repr)


def streamed(client: JavaClient, table: Table) -> list[Rows]:
    """The changes that Java's stream gives, snapshot by snapshot, in its order."""
    plans = client.changes(str(table.identifier))
    return [list(zip(*plan.to_pydict().values(), strict=True)) for plan in plans]


def told(table: Table) -> Rows:
    changes = table.changes(0).to_arrow().select([*SCHEMA.names, "_ROW_KIND"])
    return list(zip(*changes.to_pydict().values(), strict=True))


def stored(table: Table) -> Rows:
    """The rows of the changelog files as they are stored, with sequence numbers and kinds."""
    folder = Path(urlsplit(table.storage.layout.location).path)
    files = [pq.read_table(path) for path in folder.rglob("changelog-*.parquet")]
    return sorted(zip(*pa.concat_tables(files).to_pydict().values(), strict=True), key=repr)


def counted(table: Table) -> list[tuple[str, int]]:
    """The kind of each commit, and the rows that its changelog is said to have."""
    return [
        (snapshot.commit_kind, snapshot.changelog_record_count or 0)
        for snapshot in sorted(table.snapshots(), key=lambda each: each.id)
    ]


@pytest.mark.interop_java
@pytest.mark.parametrize("mode", MODES)
def test_lookups_tell_what_java_tells(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    mode: str,
) -> None:
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options, kinds = MODES[mode]
    ours, theirs, shared = (
        new_table(
            lake,
            f"interop.lookup_{mode}_{client.label}_{whose}",
            # As Paimon picks, so that there are older rows in several levels.
            {"changelog-producer": "lookup", "compaction.size-ratio": "1", **options},
        )
        for whose in ("ours", "theirs", "shared")
    )
    random = Random(mode)
    for number in range(5):
        rows = first_rows() if number == 0 else batch(random, 15, kinds)
        write(ours, rows)
        client.write(str(theirs.identifier), *rows)
        # Each takes up what the other compacted.
        if number % 2:
            client.write(str(shared.identifier), *rows)
        else:
            write(shared, rows)
    expected = streamed(client, theirs)
    assert len(expected) == 5
    for table in (ours, shared):
        assert streamed(client, table) == expected
        assert told(table) == [row for plan in expected for row in plan]
        assert counted(table) == counted(theirs)
    assert told(theirs) == told(ours)
    assert len({file.level for file in shared.files()}) > 1
    final = read(client.read(str(theirs.identifier)))
    for table in (ours, theirs, shared):
        assert read(table.scan().to_arrow()) == final
        assert read(client.read(str(table.identifier))) == final
    # Compacted for good by either.
    shared.compact()
    client.compact(str(ours.identifier))
    for table in (ours, shared):
        assert read(table.scan().to_arrow()) == final == read(client.read(str(table.identifier)))
        assert told(table) == told(theirs)


@pytest.mark.interop_java
@pytest.mark.parametrize("mode", MODES)
def test_full_compactions_tell_what_java_tells(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    mode: str,
) -> None:
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options, kinds = MODES[mode]
    more = {"changelog-producer": "full-compaction", "num-sorted-run.compaction-trigger": "20"}
    ours, theirs = (
        new_table(lake, f"interop.full_{mode}_{client.label}_{whose}", {**more, **options})
        for whose in ("ours", "theirs")
    )
    random = Random(mode)
    for number in range(4):
        rows = first_rows() if number == 0 else batch(random, 15, kinds)
        write(ours, rows)
        client.write(str(theirs.identifier), *rows)
        if number != 2:
            ours.compact()
            client.compact(str(theirs.identifier))
    expected = streamed(client, theirs)
    assert len(expected) == 3
    assert streamed(client, ours) == expected
    assert told(ours) == told(theirs) == [row for plan in expected for row in plan]
    assert stored(ours) == stored(theirs)
    assert counted(ours) == counted(theirs)
    assert read(ours.scan().to_arrow()) == read(client.read(str(theirs.identifier)))


@pytest.mark.interop_java
def test_java_reads_and_streams_rows_that_were_changed_where_they_stand(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    name = f"interop.changed_{java_client.label}"
    table = new_table(lake, name, {**SUMS, "changelog-producer": "lookup"})
    write(table, (first_rows()[0].slice(0, 5), ["+I"] * 5))
    before = len(streamed(java_client, table))
    table.update({"v": 100}, where="k = 2")
    table.delete("k = 3")
    table.merge({"k": [4, 9], "v": [40, 90], "s": [7, 7]}, on=["k"])
    expected = [(0, 0, 1), (1, 1, 1), (2, 100, 1), (4, 40, 7), (9, 90, 7)]
    assert read(java_client.read(name)) == read(table.scan().to_arrow()) == expected
    told = [row for plan in streamed(java_client, table)[before:] for row in plan]
    assert told == [
        (2, 2, 1, "-U"),
        (2, 100, 1, "+U"),
        (3, 3, 1, "-D"),
        (4, 4, 1, "-U"),
        (4, 40, 7, "+U"),
        (9, 90, 7, "+I"),
    ]
    # What Java writes later is merged with the changed rows.
    java_client.write(name, pa.table([[2], [1], [0]], schema=SCHEMA))
    assert (2, 101, 1) in read(table.scan().to_arrow())
