"""Tables read together with another branch have the rows that Paimon's Java library reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.schema.change import SetOption

from .java_client import JavaClient

FRUITS = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        ("amount", pa.int64()),
    ]
)
KEYS = {"primary-key": "dt,name", "bucket": "2"}
OTHERS = {
    "append": {},
    "deduplicate": {**KEYS, "changelog-producer": "input"},
    "first-row": {**KEYS, "merge-engine": "first-row"},
}


def rows(*found: tuple[str, str, int]) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=FRUITS)


def values(found: pa.Table) -> list[tuple[object, ...]]:
    columns = [found[name].to_pylist() for name in FRUITS.names]
    return sorted(zip(*columns, strict=True), key=str)


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", OTHERS)
def test_java_reads_the_same_rows(lake: Lake, uncached_java: JavaClient, kind: str) -> None:
    name = f"interop.two_branches_{uncached_java.label}"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, FRUITS, partition_keys=["dt"])
    live = table.create_branch("live")
    if OTHERS[kind]:
        live.alter(*(SetOption(key, value) for key, value in OTHERS[kind].items()))
    table.alter(SetOption("scan.fallback-branch", "live"))
    uncached_java.write(f"{name}$branch_live", rows(("1", "a", 1), ("1", "b", 2), ("2", "c", 3)))
    table.branch("live").write(rows(("2", "d", 4), ("2", "c", 5), ("3", "e", 6)))

    def same(**options: str) -> None:
        ours = table.refresh().with_options(options).scan().to_arrow()
        assert values(ours) == values(uncached_java.read(name, options=options))

    same()
    table.write(rows(("1", "z", 9)))
    same()
    uncached_java.write(name, rows(("3", "y", 8)))
    same()
    for snapshot_id in ("1", "2"):
        same(**{"scan.snapshot-id": snapshot_id})
    for moment in _moments(table):
        same(**{"scan.timestamp-millis": str(moment)})
    if uncached_java.name.endswith("2.0.0"):
        _same_system_tables(lake, uncached_java, name)
    table.drop_partitions({"dt": "1"})
    same()
    # And the other way round: the table's partitions give way to the branch's.
    table.alter(SetOption("scan.fallback-branch", ""))
    if uncached_java.name.endswith("2.0.0"):
        table.alter(SetOption("scan.primary-branch", "live"))
        assert ("3", "e", 6) in values(table.scan().to_arrow())
        same()


def _moments(table: Table) -> list[int]:
    """Times of commits at which both branches had a snapshot: Java refuses others."""
    times = [
        [each.time_millis for each in one.snapshots()] for one in (table, table.branch("live"))
    ]
    least = max(map(min, times))
    return [moment for each in times for moment in each if moment >= least]


def _same_system_tables(lake: Lake, uncached_java: JavaClient, name: str) -> None:
    for system in ("ro", "audit_log"):
        ours = lake.system_table(f"{name}${system}").to_arrow()
        assert values(ours) == values(uncached_java.read(f"{name}${system}")), system
    for system, column in (("partitions", "partition"), ("files", "file_path")):
        ours = lake.system_table(f"{name}${system}").to_arrow([column])[column].to_pylist()
        theirs = uncached_java.read(f"{name}${system}")[column].to_pylist()
        assert sorted(map(_end, ours)) == sorted(map(_end, theirs)), system


def _end(path: object) -> str:
    return str(path).rpartition("/")[2]
