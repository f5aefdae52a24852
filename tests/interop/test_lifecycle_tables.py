"""The upkeep of tables that Paimon's Java library and Headwater share."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.snapshot.changelog import changelog_file_ids
from headwater.storage.snapshot.snapshot import CommitKind

from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
KEPT = {
    "bucket": "1",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
    "changelog.num-retained.min": "6",
    "changelog.num-retained.max": "6",
}


def new_table(lake: Lake, name: str, options: Mapping[str, str]) -> Table:
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=["k"], options=options)


def rows(number: int) -> pa.Table:
    return pa.table({"k": [number, 100], "v": [number, number]}, schema=SCHEMA)


def told(*tables: pa.Table) -> list[tuple[object, ...]]:
    return [
        tuple(row.values())
        for table in tables
        for row in table.select(["k", "v", "_ROW_KIND"]).to_pylist()
    ]


@pytest.mark.interop_java
@pytest.mark.parametrize("producer", ["none", "input"])
def test_changelogs_outlive_snapshots_whoever_expires_them(
    lake: Lake, java: JavaClient, producer: str
) -> None:
    name = f"interop.changelogs_{producer}_{java.label}"
    table = new_table(lake, name, {**KEPT, "changelog-producer": producer})
    layout = table.storage.layout
    # Writers would expire what is due.
    writer = table.with_options({"write-only": "true"})
    for number in range(1, 6):
        writer.write(rows(number))
    expected = told(table.changes(0, skip_overwrites=True).to_arrow())
    assert len(expected) == 10
    assert table.expire_snapshots().expired == (1, 2, 3)
    assert changelog_file_ids(table.storage.files, layout) == [1, 2, 3]
    assert told(*java.changes(name)) == expected == told(table.changes(0).to_arrow())
    # Java's writer expires as it commits, and may compact.
    for number in range(6, 9):
        java.write(name, rows(number))
    left = changelog_file_ids(table.storage.files, layout)
    assert left[0] > 1
    assert [one.id for one in table.snapshots()] == [left[-1] + 2, left[-1] + 1]
    start = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(left[0])}
    changes = told(table.changes(left[0] - 1).to_arrow())
    assert changes == told(*java.changes(name, start))
    assert changes[-2:] == [(8, 8, "+I"), (100, 8, "+I")]
    # What Java has left, Headwater expires.
    writer.write(rows(9))
    done = table.expire_snapshots()
    assert done.expired == (left[-1] + 1,)
    assert done.expired_changelogs == (left[0],)
    later = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(left[1])}
    assert told(*java.changes(name, later)) == told(table.changes(left[0]).to_arrow())
    assert told(*java.changes(name, later))[-2:] == [(9, 9, "+I"), (100, 9, "+I")]
    expected_rows = {**dict(zip(range(1, 10), range(1, 10), strict=True)), 100: 9}
    found = java.read(name)
    assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected_rows
    assert table.scan().to_arrow().num_rows == 10


PARTITIONED = pa.schema([pa.field("k", pa.int64(), False), ("dt", pa.string()), ("h", pa.int32())])


@pytest.mark.interop_java
@pytest.mark.parametrize(
    ("days", "options"),
    [
        (
            ["2020-01-01", "2020-2-3", "2020-13-40", "2020-01-01 07:08:09", "soon", "2999-01-01"],
            {},
        ),
        (
            ["20200101", "20200231", "2020-01-01", "202001017", "29990101"],
            {"partition.timestamp-formatter": "yyyyMMdd"},
        ),
        (
            ["20200101", "29990101", "x"],
            {
                "partition.timestamp-formatter": "yyyyMMdd H",
                "partition.timestamp-pattern": "$dt $h",
                "partition.expiration-max-num": "2",
            },
        ),
    ],
)
def test_the_same_partitions_expire(
    lake: Lake, java: JavaClient, days: list[str], options: Mapping[str, str]
) -> None:
    name = f"interop.expiring_{java.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(
        name,
        PARTITIONED,
        partition_keys=["dt", "h"],
        options={"partition.expiration-time": "30 d", **options},
    )
    hours = [7, 12, 30]
    rows = [(day, hour) for day in days for hour in hours]
    columns = {
        "k": list(range(len(rows))),
        "dt": [day for day, _ in rows],
        "h": [hour for _, hour in rows],
    }
    # A writer would expire what is due.
    table.with_options({"write-only": "true"}).write(pa.table(columns, schema=PARTITIONED))
    ours = table.expire_partitions(dry_run=True)
    assert ours.dropped
    assert java.expire_partitions(name) == list(ours.dropped)
    kept = java.read(name)
    assert kept.num_rows == len(rows) - len(ours.dropped)
    assert table.scan().to_arrow().num_rows == kept.num_rows


@pytest.mark.interop_java
def test_java_reads_what_is_said_to_be_complete(lake: Lake, java: JavaClient) -> None:
    name = f"interop.complete_{java.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, PARTITIONED, partition_keys=["dt", "h"])
    table.write(pa.table({"k": [1], "dt": ["a b:c"], "h": [1]}, schema=PARTITIONED))
    assert table.mark_partitions_done({"dt": "a b:c", "h": 1}) == [{"dt": "a b:c", "h": "1"}]
    path = f"{table.storage.layout.location}/dt=a b%3Ac/h=1/_SUCCESS"
    text = table.storage.files.read(path).decode()
    times = json.loads(text)
    assert text == java.success_file(times["creationTime"], times["modificationTime"])


@pytest.mark.interop_java
def test_one_tag_for_a_period_whoever_commits(lake: Lake, java: JavaClient) -> None:
    options = {
        "bucket": "1",
        "tag.automatic-creation": "process-time",
        "tag.creation-period": "daily",
        "tag.default-time-retained": "90 d",
        "tag.num-retained-max": "3",
    }
    first = new_table(lake, f"interop.tagged_here_{java.label}", options)
    first.write(rows(1))
    java.write(str(first.identifier), rows(2))
    second = new_table(lake, f"interop.tagged_there_{java.label}", options)
    java.write(str(second.identifier), rows(1))
    second.write(rows(2))
    for table in (first, second):
        # Another one when midnight came in between.
        tags = table.tags()
        assert tags
        assert (tags[0].snapshot.id, tags[0].retained_millis) == (1, 90 * 86_400_000)
        assert len(tags) <= 2
        assert len(tags) == len({tag.snapshot.id for tag in tags})
    assert first.tags()[0].name <= second.tags()[0].name


@pytest.mark.interop_java
def test_manifests_are_compacted_by_both(lake: Lake, java: JavaClient) -> None:
    name = f"interop.manifests_{java.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    options = {"manifest.merge-min-count": "100", "write-only": "true"}
    table = lake.create_table(name, PARTITIONED, partition_keys=["dt", "h"], options=options)

    def fill(number: int) -> pa.Table:
        days = [f"2026-01-0{day}" for day in range(1, 5)]
        columns = {"k": [number] * 4, "dt": days, "h": [number % 2] * 4}
        return pa.table(columns, schema=PARTITIONED)

    for number in range(3):
        java.write(name, fill(number))
        table.write(fill(number))
    expected = sorted(table.scan().to_arrow()["k"].to_pylist())
    done = table.compact_manifests()
    assert done is not None
    assert sorted(java.read(name)["k"].to_pylist()) == expected
    java.write(name, fill(7))
    table.write(fill(8))
    java.compact_manifests(name)
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    assert table.compact_manifests() is None
    found = sorted(table.scan().to_arrow()["k"].to_pylist())
    assert found == sorted([*expected, *[7] * 4, *[8] * 4])


@pytest.mark.interop_java
def test_java_works_on_a_clone(lake: Lake, java: JavaClient) -> None:
    name = f"interop.cloned_{java.label}"
    source = new_table(lake, name, {"bucket": "2", "changelog-producer": "input"})
    java.write(name, rows(1))
    source.write(rows(2))
    copy = f"{name}_copy"
    lake.drop_table(copy, ignore_if_not_exists=True)
    clone = lake.clone_table(source, copy)
    lake.drop_table(name)
    assert sorted(java.read(copy)["k"].to_pylist()) == [1, 2, 100]
    java.write(copy, rows(3))
    clone.write(rows(4))
    assert sorted(java.read(copy)["k"].to_pylist()) == [1, 2, 3, 4, 100]
    assert clone.scan().to_arrow().num_rows == 5
