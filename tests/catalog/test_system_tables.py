"""System tables: a table's metadata and changes as tables to read."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.table.system_table import SYSTEM_TABLES
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.schema.change import AddColumn, RenameColumn
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

# Through a server, the tests with Paimon's Java library read them.
pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)

COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), False), pa.field("day", pa.date32(), False), ("v", pa.int32())]
)
DAY = dt.date(2026, 1, 2)


@pytest.fixture
def table(lake: Lake) -> Table:
    """Keys 1 to 3 of one day, of which 2 is changed and 3 deleted."""
    made = lake.create_table(
        "sales.t",
        COLUMNS,
        primary_keys=["k", "day"],
        partition_keys=["day"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    made.write({"k": [1, 2, 3], "day": [DAY] * 3, "v": [10, 20, None]})
    kinds = pa.array(["-U", "+U", "-D"])
    made.write({"k": [2, 2, 3], "day": [DAY] * 3, "v": [20, 21, None]}, kinds)
    return made


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=str)


def test_every_system_table_reads_by_its_name(lake: Lake, table: Table) -> None:
    for name in SYSTEM_TABLES.keys() - {"row_tracking"}:
        found = lake.system_table(f"{table.name}${name.upper()}")
        assert found.to_arrow().schema == found.schema, name
    assert "snapshots" in repr(table.inspect)


def test_snapshots_show_local_times(lake: Lake, table: Table, clock: Clock) -> None:
    found = table.inspect.snapshots()
    assert found["snapshot_id"].to_pylist() == [1, 2]
    assert found["commit_kind"].to_pylist() == ["APPEND", "APPEND"]
    assert found["total_record_count"].to_pylist() == [3, 5]
    times = [snapshot.time_millis for snapshot in reversed(table.snapshots())]
    zone = table.storage.runtime.time_zone()
    local = [dt.datetime.fromtimestamp(time / 1000, zone).replace(tzinfo=None) for time in times]
    assert found["commit_time"].to_pylist() == local


def test_columns_and_conditions_reach_a_system_table(lake: Lake, table: Table) -> None:
    snapshots = lake.system_table("sales.t$snapshots")
    found = snapshots.to_arrow(["commit_kind"], where="snapshot_id > 1")
    assert found.to_pydict() == {"commit_kind": ["APPEND"]}
    log = lake.system_table("sales.t$audit_log")
    assert log.to_arrow(["k"], where="rowkind = '-D'").to_pydict() == {"k": [3]}
    with pytest.raises(NotFound, match="column 'nothing'"):
        snapshots.to_arrow(["nothing"])


def test_files_show_keys_and_statistics_of_present_columns(table: Table) -> None:
    table.alter(RenameColumn(("v",), "w"), AddColumn(("x",), parse_type("INT")))
    files = table.inspect.files().sort_by("min_sequence_number")
    found = files.slice(0, 1).to_pylist()[0]
    assert found["partition"] == "{2026-01-02}"
    assert (found["min_key"], found["max_key"]) == ("[1]", "[3]")
    assert found["null_value_counts"] == "{day=0, k=0, w=1, x=3}"
    assert found["min_value_stats"] == "{day=20455, k=1, w=10, x=null}"
    assert found["file_path"].endswith(".parquet")
    ranges = table.inspect.file_key_ranges()
    assert ranges["max_key"].to_pylist() == ["[3]", "[3]"]
    assert set(ranges.schema.names) < set(files.schema.names)


def test_partitions_and_buckets_add_up(table: Table) -> None:
    partitions = table.inspect.partitions().to_pylist()
    assert [(row["partition"], row["record_count"], row["file_count"]) for row in partitions] == [
        ("day=2026-01-02", 5, 2)
    ]
    buckets = table.inspect.buckets().to_pylist()
    assert [(row["partition"], row["bucket"], row["record_count"]) for row in buckets] == [
        ("{2026-01-02}", 0, 5)
    ]
    assert buckets[0]["file_size_in_bytes"] == partitions[0]["file_size_in_bytes"]


def test_manifests_bound_their_partitions(table: Table) -> None:
    found = table.inspect.manifests().to_pylist()
    # Those of the rows of both commits, then that of the second one's changelog.
    assert [row["num_added_files"] for row in found] == [1, 1, 1]
    assert {row["min_partition_stats"] for row in found} == {"{2026-01-02}"}


def test_tags_branches_and_consumers(table: Table, clock: Clock) -> None:
    table.create_tag("kept", 1, retained=dt.timedelta(hours=25, seconds=1))
    table.create_tag("for-ever")
    table.create_branch("b", tag="kept")
    table.consumer("reader").reset(2)
    tags = table.inspect.tags().to_pylist()
    assert [(row["tag_name"], row["snapshot_id"], row["time_retained"]) for row in tags] == [
        ("for-ever", 2, None),
        ("kept", 1, "PT25H1S"),
    ]
    assert table.inspect.branches()["branch_name"].to_pylist() == ["b"]
    assert table.inspect.consumers().to_pylist() == [
        {"consumer_id": "reader", "next_snapshot_id": 2}
    ]
    assert table.branch("b").inspect.snapshots()["snapshot_id"].to_pylist() == [1]


def test_a_branch_has_system_tables(lake: Lake, table: Table) -> None:
    table.create_branch("b", snapshot_id=1)
    found = lake.system_table("sales.t$branch_b$snapshots").to_arrow()
    assert found["snapshot_id"].to_pylist() == [1]


def test_schemas_and_options(table: Table) -> None:
    table.alter(AddColumn(("x",), parse_type("INT"), comment="more"))
    schemas = table.inspect.schemas().to_pylist()
    assert [row["schema_id"] for row in schemas] == [0, 1]
    assert schemas[0]["primary_keys"] == '["k","day"]'
    assert '{"id":3,"name":"x","type":"INT","description":"more"}' in schemas[1]["fields"]
    assert {"key": "bucket", "value": "1"} in table.inspect.options().to_pylist()


def test_aggregation_fields_list_functions(lake: Lake) -> None:
    table = lake.create_table(
        "sales.sums",
        pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())]),
        primary_keys=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.v.ignore-retract": "true",
        },
    )
    assert table.inspect.aggregation_fields().to_pylist()[1] == {
        "field_name": "v",
        "field_type": "BIGINT",
        "function": "[sum, true]",
        "function_options": "[fields.v.aggregate-function, fields.v.ignore-retract]",
        "comment": None,
    }


def test_the_audit_log_keeps_rows_that_delete(table: Table) -> None:
    assert sorted_rows(table.inspect.audit_log().to_arrow()) == [
        ("+I", 1, DAY, 10),
        ("+U", 2, DAY, 21),
        ("-D", 3, DAY, None),
    ]
    changes = table.inspect.audit_log(["k", "v"], "k = 2", since=1).to_arrow()
    assert sorted_rows(changes) == [("+U", 2, 21), ("-U", 2, 20)]
    assert table.inspect.audit_log().count() == 3
    assert table.scan().count() == 2


def test_a_log_shows_sequence_numbers(table: Table) -> None:
    log = table.with_options({"table-read.sequence-number.enabled": "true"}).inspect.audit_log(
        ["k"]
    )
    assert log.schema.names == ["rowkind", "_SEQUENCE_NUMBER", "k"]
    assert sorted_rows(log.to_arrow()) == [("+I", 0, 1), ("+U", 4, 2), ("-D", 5, 3)]


def test_the_binlog_has_both_sides_of_an_update(table: Table) -> None:
    changes = table.inspect.binlog(["k", "v"], since=1).to_arrow()
    assert sorted_rows(changes) == [("+U", [2, 2], [20, 21]), ("-D", [3], [None])]
    now = table.inspect.binlog(["k"]).to_arrow()
    assert sorted_rows(now) == [("+I", [1]), ("+U", [2]), ("-D", [3])]
    # Rows of different keys, which only stand next to each other.
    table.write({"k": [1, 2], "day": [DAY] * 2, "v": [10, 22]}, pa.array(["-U", "+U"]))
    table.compact()
    now = table.inspect.binlog(["k"]).to_arrow()
    assert sorted_rows(now) == [("+U", [2])]
    table.write({"k": [1, 2], "day": [DAY] * 2, "v": [10, 22]}, pa.array(["-U", "+U"]))
    now = table.inspect.binlog(["k"]).to_arrow()
    assert sorted_rows(now) == [("+U", [2]), ("-U", [1])]


def test_logs_are_lazy_frames(table: Table) -> None:
    import polars as pl

    log = table.inspect.audit_log().lazy().filter(pl.col("rowkind") == "-D", pl.col("k") > 1)
    assert log.select("k").collect().to_dicts() == [{"k": 3}]
    # The values of a binlog are lists, which are never null.
    binlog = table.inspect.binlog().lazy().filter(pl.col("v").is_not_null())
    found = binlog.select("v").collect().rows()
    assert sorted(found, key=str) == [([10],), ([21],), ([None],)]


def test_an_update_is_packed_across_batches(table: Table) -> None:
    """Each batch of the log ends between the two sides of an update."""
    count = 40
    table.write(
        {"k": [k for key in range(count) for k in (key, key)], "day": [DAY] * 2 * count,
         "v": [v for key in range(count) for v in (key, key + 1)]},
        pa.array(["-U", "+U"] * count),
    )  # fmt: skip
    for rows in (1, 3, 7):
        found = pa.Table.from_batches(
            table.inspect.binlog(["k", "v"], since=2).to_batches(batch_rows=rows)
        )
        assert set(found["rowkind"].to_pylist()) == {"+U"}
        assert found["v"].to_pylist() == [[key, key + 1] for key in range(count)]


def test_read_optimized_rows_are_compacted(table: Table) -> None:
    assert table.inspect.ro().to_arrow().num_rows == 0
    table.with_options({"changelog-producer": "none"}).compact()
    table.write({"k": [9], "day": [DAY], "v": [90]})
    assert sorted(table.inspect.ro().to_arrow()["k"].to_pylist()) == [1, 2]
    assert table.inspect.ro(["v"], "k = 2").to_arrow().to_pydict() == {"v": [21]}


def test_a_table_without_snapshots_has_system_tables(lake: Lake) -> None:
    lake.create_table("sales.empty", COLUMNS, options={"row-tracking.enabled": "true"})
    for name in SYSTEM_TABLES:
        found = lake.system_table(f"sales.empty${name}").to_arrow()
        of_the_schema = name in ("schemas", "aggregation_fields", "options")
        assert bool(found.num_rows) is of_the_schema, name


def test_system_tables_of_the_warehouse(lake: Lake, table: Table) -> None:
    lake.create_table("sales.plain", COLUMNS)
    tables = lake.inspect.tables().to_pylist()
    shown = [
        (row["table_name"], row["partitioned"], row["primary_key"], row["record_count"])
        for row in tables
    ]
    assert shown == [("plain", False, False, None), ("t", True, True, 5)]
    partitions = lake.system_table("sys.partitions").to_arrow().to_pylist()
    assert [(row["table_name"], row["partition_name"]) for row in partitions] == [
        ("t", "day=20455")
    ]
    options = lake.inspect.all_table_options().to_pylist()
    assert {
        "database_name": "sales",
        "table_name": "t",
        "key": "bucket",
        "value": "1",
    } in options
    catalog = dict(zip(*lake.inspect.catalog_options().to_pydict().values(), strict=True))
    assert catalog["warehouse"] == lake.warehouse


def test_names_of_system_tables_are_told_apart(lake: Lake, table: Table) -> None:
    with pytest.raises(Invalid, match="which is only read"):
        lake.table("sales.t$snapshots")
    with pytest.raises(NotFound, match="there is no system table 'nothing'"):
        lake.system_table("sales.t$nothing")
    with pytest.raises(NotFound, match="there is no system table ''"):
        lake.system_table("sales.t")
    with pytest.raises(NotFound):
        lake.system_table("sales.other$snapshots")
    with pytest.raises(NotFound, match=r"sys\.tables"):
        lake.system_table("sys.nothing")
    with pytest.raises(Invalid, match=r"row-tracking\.enabled"):
        lake.system_table("sales.t$row_tracking").to_arrow()
    with pytest.raises(Invalid, match="one system table"):
        lake.system_table("sales.t$files$snapshots")
