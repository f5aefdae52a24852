"""Tables with ``merge-engine=first-row``, shared with Paimon's Java library and pypaimon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
OPTIONS = {"bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup"}


def rows(keys: range, version: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [version * 1000 + k for k in keys]}, schema=SCHEMA)


def found(table: pa.Table) -> Mapping[int, int]:
    assert len(set(table["k"].to_pylist())) == table.num_rows
    return dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def first_of(*tables: pa.Table) -> Mapping[int, int]:
    kept: dict[int, int] = {}
    for table in tables:
        kept = {**found(table), **kept}
    return kept


def new_table(lake: Lake, client: Client | JavaClient) -> Table:
    name = f"interop.first_row_{client.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=["k"], options=OPTIONS)


@pytest.mark.interop_java
def test_first_rows_stay_whoever_wrote_them(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    table = new_table(lake, java_client)
    name = str(table.identifier)
    first, second, third = rows(range(100), 1), rows(range(50, 150), 2), rows(range(300), 3)
    # Java's writer compacts as it commits, so that its rows can be seen at once.
    java_client.write(name, first)
    assert found(table.scan().to_arrow()) == first_of(first)
    table.with_options({"write-only": "true"}).write(second)
    # Neither sees what has not been compacted.
    assert found(table.scan().to_arrow()) == first_of(first) == found(java_client.read(name))
    table.compact()
    assert found(java_client.read(name)) == first_of(first, second)
    java_client.write(name, third)
    expected = first_of(first, second, third)
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    # The changelog of both, each key once.
    changes = table.changes(0).to_arrow()
    assert found(changes.drop_columns("_ROW_KIND")) == expected
    assert set(changes["_ROW_KIND"].to_pylist()) == {"+I"}
    table.compact()
    assert found(table.scan().to_arrow()) == expected == found(java_client.read(name))
    assert table.changes(0).to_arrow().num_rows == len(expected)


@pytest.mark.interop_java
def test_the_changelog_is_what_java_writes(
    lake: Lake, service: Service, java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    java_client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    ours = new_table(lake, java_client)
    name = f"{ours.identifier}_of_java"
    lake.drop_table(name, ignore_if_not_exists=True)
    theirs = lake.create_table(name, SCHEMA, primary_keys=["k"], options=OPTIONS)
    # The third adds no key, so that its compaction has nothing to tell.
    for data in (rows(range(100), 1), rows(range(50, 150), 2), rows(range(120), 3)):
        java_client.write(name, data)
        # Followed by the compaction, too.
        ours.write(data)
    expected = streamed(java_client, theirs)
    assert [len(plan) for plan in expected] == [100, 50]
    assert streamed(java_client, ours) == expected
    assert stored_changelog(ours).equals(stored_changelog(theirs))
    assert counted(ours) == counted(theirs)


def streamed(client: JavaClient, table: Table) -> list[list[tuple[object, ...]]]:
    """The rows that Java's stream gives, snapshot by snapshot, with their kinds."""
    plans = client.changes(str(table.identifier))
    return [sorted(zip(*plan.to_pydict().values(), strict=True)) for plan in plans]


def stored_changelog(table: Table) -> pa.Table:
    """The rows of the changelog files as they are stored, with sequence numbers and kinds."""
    folder = Path(urlsplit(table.storage.layout.location).path)
    files = [pq.read_table(path) for path in sorted(folder.rglob("changelog-*.parquet"))]
    return pa.concat_tables(files).sort_by("k")


def counted(table: Table) -> list[tuple[str, int]]:
    """The kind of each commit, and the rows that its changelog is said to have."""
    return [
        (snapshot.commit_kind, snapshot.changelog_record_count or 0)
        for snapshot in sorted(table.snapshots(), key=lambda each: each.id)
    ]


@pytest.mark.interop
def test_pypaimon_reads_first_rows(lake: Lake, pypaimon: Client) -> None:
    table = new_table(lake, pypaimon)
    table.write(rows(range(100), 1))
    table.write(rows(range(50, 150), 2))
    table.compact()
    expected = first_of(rows(range(100), 1), rows(range(50, 150), 2))
    assert found(pypaimon.read(str(table.identifier))) == expected
    assert found(table.scan().to_arrow()) == expected
