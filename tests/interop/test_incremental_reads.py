"""Changes between two points of a table's history are those that Paimon's Java library reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import after, starting_position
from headwater.storage.scan.stream_batches import plans_before
from headwater.storage.schema.read_start import ReadStart

from .conftest import TOKEN, Service
from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


@pytest.fixture(params=["1.4.2", "2.0.0"])
def java_version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


@pytest.fixture
def java_client(
    service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> JavaClient:
    return JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)


def a_table(lake: Lake, client: JavaClient, producer: str) -> Table:
    """Six snapshots of both writers, a compaction among them; three tags."""
    name = f"interop.incremental_{producer}_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name, SCHEMA, primary_keys=["k"], options={"bucket": "2", "changelog-producer": producer}
    )
    table.write(rows({k: k for k in range(10)}))
    client.write(name, rows({k: 100 + k for k in range(5, 15)}))
    table.create_tag("2026-01-01", 1)
    table.create_tag("2026-01-02")
    table.compact()
    table.write(rows({k: k for k in range(3)}), pa.array(["-D"] * 3))
    table.write(rows({20: 20}))
    table.create_tag("2026-01-03")
    return table


def rows(values: Mapping[int, int]) -> pa.Table:
    return pa.table({"k": list(values), "v": list(values.values())}, SCHEMA)


def read(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=str)


@pytest.mark.interop_java
@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_between_snapshots_are_those_of_java(
    lake: Lake, java_client: JavaClient, producer: str
) -> None:
    table = a_table(lake, java_client, producer)
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    last = max(times)
    for options in (
        {"incremental-between": f"1,{last}"},
        {"incremental-between": f"0,{last}", "incremental-between-scan-mode": "delta"},
        {"incremental-between": f"0,{last}", "incremental-between-scan-mode": "changelog"},
        {"incremental-between-timestamp": f"{times[1]},{times[last]}"},
        {"incremental-between-timestamp": f"0,{times[2]}"},
        {
            "incremental-between": "2026-01-01,2026-01-03",
            "incremental-between-tag-to-snapshot": "true",
        },
    ):
        ours = table.with_options(options).inspect.audit_log().to_arrow()
        theirs = java_client.read(f"{table.name}$audit_log", options=options)
        assert read(ours) == read(theirs), options


@pytest.mark.interop_java
def test_differences_of_snapshots_are_those_of_java(lake: Lake, java_client: JavaClient) -> None:
    table = a_table(lake, java_client, "none")
    last = max(snapshot.id for snapshot in table.snapshots())
    for options in (
        {"incremental-between": "2026-01-01,2026-01-03"},
        {"incremental-between": "2026-01-02,2026-01-03"},
        {"incremental-between": f"2,{last}", "incremental-between-scan-mode": "diff"},
        {"incremental-to-auto-tag": "2026-01-03"},
        {"incremental-to-auto-tag": "2026-01-01"},
    ):
        ours = table.with_options(options).inspect.audit_log().to_arrow()
        given = options
        if "incremental-to-auto-tag" in options:
            given = {**options, "scan.mode": "incremental"}
        theirs = java_client.read(f"{table.name}$audit_log", options=given)
        assert read(ours) == read(theirs), options


@pytest.mark.interop_java
def test_differences_of_tables_that_mark_rows_are_those_of_java(
    lake: Lake, java_client: JavaClient
) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    name = f"interop.incremental_marked_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)
    table.write(rows({k: k for k in range(1000)}))
    table.compact()
    points = [newest(table)]
    java_client.write(name, rows({k: 5000 + k for k in range(5, 15)}))
    points.append(newest(table))
    table.write(rows({7: 7777, 1000: 1}))
    points.append(newest(table))
    table.write(rows({k: k for k in range(3)}), pa.array(["-D"] * 3))
    points.append(newest(table))
    table.compact(full=True)
    points.append(newest(table))

    def both(since: int, until: int) -> list[list[tuple[object, ...]]]:
        between = {
            "incremental-between": f"{points[since]},{points[until]}",
            "incremental-between-scan-mode": "diff",
        }
        ours = table.with_options(between).inspect.audit_log().to_arrow()
        theirs = java_client.read(f"{name}$audit_log", options=between)
        return [read(ours), read(theirs)]

    for since, until in ((0, 1), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)):
        ours, theirs = both(since, until)
        assert ours == theirs, (since, until)
    # Java looks into no file that both snapshots have, and so misses what is only marked in it.
    ours, theirs = both(2, 3)
    assert (ours, theirs) == ([("-D", k, k) for k in range(3)], [])


@pytest.mark.interop_java
def test_differences_are_those_of_what_reads_show(lake: Lake, java_client: JavaClient) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    name = f"interop.incremental_waiting_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)
    table.write(rows({1: 1, 2: 2}))
    table.compact(full=True)
    between = {"incremental-between": "1,2", "incremental-between-scan-mode": "diff"}
    assert read(table.with_options({"scan.snapshot-id": "1"}).scan().to_arrow()) == []
    assert java_client.read(name, options={"scan.snapshot-id": "1"}).num_rows == 0
    ours = read(table.with_options(between).inspect.audit_log().to_arrow())
    theirs = read(java_client.read(f"{name}$audit_log", options=between))
    assert ours == [("+I", 1, 1), ("+I", 2, 2)]
    # From 2.0 on Java counts level 0 of both snapshots, which its reads of them leave out.
    assert theirs == ([] if java_client.name.endswith("2.0.0") else ours)
    # Before, it leaves level 0 out of what each snapshot added, too, and tells of no change.
    between = {"incremental-between": "0,2", "incremental-between-scan-mode": "delta"}
    assert read(table.with_options(between).inspect.audit_log().to_arrow()) == ours
    added = read(java_client.read(f"{name}$audit_log", options=between))
    assert added == (ours if java_client.name.endswith("2.0.0") else [])


@pytest.mark.interop_java
def test_changes_tell_of_rows_before_they_have_buckets(lake: Lake, java_client: JavaClient) -> None:
    name = f"interop.incremental_postponed_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, SCHEMA, primary_keys=["k"], options={"bucket": "-2"})
    java_client.write(name, rows({1: 1, 2: 2}))
    table.compact()
    between = {"incremental-between": f"0,{newest(table)}"}
    ours = read(table.with_options(between).inspect.audit_log().to_arrow())
    # Java's streams tell of them as well, but not its batch reads.
    assert ours == [("+I", 1, 1), ("+I", 2, 2)]
    assert read(java_client.read(f"{name}$audit_log", options=between)) == []


@pytest.mark.interop_java
def test_differences_of_rows_without_keys_are_those_of_java(
    lake: Lake, java_client: JavaClient
) -> None:
    name = f"interop.incremental_plain_{java_client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, SCHEMA, options={"deletion-vectors.enabled": "true"})
    table.write(rows({k: k for k in range(100)}))
    table.delete("k < 3")
    first = newest(table)
    java_client.write(name, rows({k: k for k in range(200, 210)}))
    table.write(rows({k: k for k in range(300, 310)}))
    table.delete("k IN (3, 205, 305)")
    between = {
        "incremental-between": f"{first},{newest(table)}",
        "incremental-between-scan-mode": "diff",
    }
    ours = read(table.with_options(between).inspect.audit_log().to_arrow())
    theirs = read(java_client.read(f"{name}$audit_log", options=between))
    assert len(theirs) == 18
    # Java looks into no file that both snapshots have, and so misses what is only marked in it.
    assert ours == sorted([*theirs, ("-D", 3, 3)], key=str)


def newest(table: Table) -> int:
    return max(snapshot.id for snapshot in table.snapshots())


@pytest.mark.interop_java
def test_the_past_is_that_of_java(lake: Lake, java_client: JavaClient) -> None:
    table = a_table(lake, java_client, "none")
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    for options in (
        {"scan.snapshot-id": "1"},
        {"scan.tag-name": "2026-01-02"},
        {"scan.timestamp-millis": str(times[2])},
        {"scan.version": "2026-01-02"},
        {"scan.version": "1"},
        {"scan.mode": "compacted-full"},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
        {"scan.file-creation-time-millis": str(times[2])},
        {"scan.creation-time-millis": str(times[2])},
    ):
        ours = table.with_options(options).scan().to_arrow()
        assert read(ours) == read(java_client.read(table.name, options=options)), options


@pytest.mark.interop_java
@pytest.mark.parametrize("producer", ["none", "input"])
def test_streams_start_where_java_starts_them(
    lake: Lake, java_client: JavaClient, producer: str
) -> None:
    table = a_table(lake, java_client, producer)
    times = {snapshot.id: snapshot.time_millis for snapshot in table.snapshots()}
    for options in (
        {"scan.mode": "latest-full"},
        {"scan.mode": "compacted-full"},
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": str(times[2])},
        {"scan.file-creation-time-millis": str(times[2])},
        {"scan.creation-time-millis": str(times[2])},
    ):
        theirs = pa.concat_tables(java_client.changes(table.name, options))
        assert streamed(table, options) == read(theirs), options


def streamed(table: Table, options: Mapping[str, str]) -> list[tuple[object, ...]]:
    newest = table.pointer.latest()
    assert newest is not None
    start = ReadStart.of(options)
    position = starting_position(table.storage, newest, start)
    plans = plans_before(table.storage, position, after(newest), newest)
    batches = [
        batch
        for plan in plans
        for split in plan.splits
        for batch in read_split(table.storage, split, row_kinds=True)
    ]
    return read(pa.Table.from_batches(batches))
