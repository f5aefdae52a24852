"""Reading through the table handle: shapes, columns, filters, time travel."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import CorruptData, Invalid, NotFound, ResourceType
from headwater.storage.schema.change import AddColumn, RenameColumn
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32())])


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table(
        "sales.t",
        COLUMNS,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "2"},
    )
    made.write({"id": [1, 2, 3], "p": ["a", "a", "b"], "v": [10, 20, 30]})
    made.write({"id": [2, 4], "p": ["a", "b"], "v": [21, None]})
    return made


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("id").to_pylist())


def test_a_scan_gives_every_shape(table: Table) -> None:
    scan = table.scan(columns=["v", "id"], where="v > 10")
    expected = {(21, 2), (30, 3)}
    arrow = scan.to_arrow()
    assert arrow.column_names == ["v", "id"]
    assert {(row["v"], row["id"]) for row in arrow.to_pylist()} == expected
    assert set(scan.to_polars().rows()) == expected
    assert set(scan.to_pandas().itertuples(index=False, name=None)) == expected
    assert {
        row for batch in scan.to_batches() for row in zip(*batch.to_pydict().values(), strict=True)
    } == expected
    # Buckets are read side by side, and given in their order.
    assert pa.Table.from_batches(scan.to_reader()).equals(arrow)
    assert scan.count() == 2
    assert isinstance(scan.to_polars(), pl.DataFrame)


def test_counting_needs_no_columns(table: Table) -> None:
    assert table.scan().count() == 4
    assert table.scan(where="p = 'a'").count() == 2
    table.compact()
    assert table.scan().count() == 4


def test_a_scan_keeps_to_its_snapshot(table: Table) -> None:
    scan = table.scan()
    table.write({"id": [9], "p": ["a"], "v": [90]})
    assert ids(scan.to_arrow()) == [1, 2, 3, 4]
    assert scan.snapshot is not None
    assert scan.snapshot.id == 2


def test_splits_are_read_elsewhere(table: Table) -> None:
    scan = pickle.loads(pickle.dumps(table.scan(columns=["id"], where="v IS NOT NULL")))
    batches = [batch for split in scan.splits for batch in scan.read_split(split)]
    assert ids(pa.Table.from_batches(batches)) == [1, 2, 3]


def test_a_partition_filter_leaves_files_out(table: Table) -> None:
    plan = table.scan(where="p = 'b'").plan
    assert plan is not None
    assert {split.partition_values for split in plan.splits} == {("b",)}


def test_what_does_not_exist_is_said(table: Table) -> None:
    with pytest.raises(NotFound, match="'w' does not exist; the columns are id, p, v") as error:
        table.scan(columns=["w"])
    assert error.value.resource_type is ResourceType.COLUMN
    with pytest.raises(NotFound, match="'w'"):
        table.scan(where="w = 1")
    with pytest.raises(Invalid):
        table.scan(where="v > 'many'")
    for expression in (pl.col("v") > 1, pc.field("v") > 1, b"v > 1"):
        with pytest.raises(Invalid, match="a filter is a SQL condition"):
            table.scan(where=expression)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"truncate\(\) deletes all"):
        table.delete(None)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="at most one"):
        table.scan(snapshot_id=1, tag="x")
    with pytest.raises(NotFound) as error:
        table.scan(snapshot_id=7)
    assert error.value.resource_type is ResourceType.SNAPSHOT
    with pytest.raises(NotFound) as error:
        table.scan(tag="x")
    assert error.value.resource_type is ResourceType.TAG


def test_an_empty_table_has_columns_and_no_rows(lake: Lake) -> None:
    empty = lake.create_table("sales.empty", COLUMNS)
    scan = empty.scan(columns=["v"])
    assert scan.to_arrow() == pa.table({"v": pa.array([], pa.int32())})
    assert (scan.count(), scan.snapshot, scan.plan, scan.splits) == (0, None, None, ())


def test_a_snapshot_and_a_tag_are_read_as_they_were(table: Table) -> None:
    table.create_tag("before", 1)
    assert ids(table.scan(snapshot_id=1).to_arrow()) == [1, 2, 3]
    assert table.scan(["v"], "id = 2", tag="before").to_arrow().to_pylist() == [{"v": 20}]


def test_time_travel_finds_the_snapshot_of_the_moment(table: Table, clock: Clock) -> None:
    start = clock.millis
    for number in range(5, 12):
        clock.turn(minutes=10)
        table.write({"id": [number], "p": ["c"], "v": [number]})
    for number in range(5, 12):
        exact = start + (number - 4) * 600_000
        assert table.snapshot_at(exact).id == number - 2
        assert table.snapshot_at(exact + 599_999).id == number - 2
        assert table.snapshot_at(exact - 1).id == number - 3
    # The last of the snapshots of one millisecond.
    assert table.scan(timestamp=start).snapshot == table.snapshot(2)
    moment = dt.datetime.fromtimestamp((start + 600_000) / 1000, dt.UTC)
    assert ids(table.scan(timestamp=moment).to_arrow()) == [1, 2, 3, 4, 5]
    assert table.snapshot_at(moment.isoformat()).id == 3
    with pytest.raises(NotFound, match="no snapshot from before"):
        table.snapshot_at(start - 1)
    with pytest.raises(Invalid, match="no time zone"):
        table.snapshot_at(moment.replace(tzinfo=None))
    with pytest.raises(Invalid, match="is not a time"):
        table.snapshot_at("yesterday")


def test_time_travel_ends_where_history_expired(table: Table, clock: Clock) -> None:
    start = clock.millis
    table = table.with_options({"write-only": "true"})
    for _ in range(4):
        clock.turn(hours=1)
        table.write({"id": [1], "p": ["a"], "v": [0]})
    table.expire_snapshots(retain_min=2, retain=dt.timedelta(0))
    assert table.snapshot_at(start + 3 * 3_600_000).id == 5
    with pytest.raises(NotFound, match="no snapshot from before"):
        table.snapshot_at(start + 2 * 3_600_000)
    with pytest.raises(NotFound):
        table.scan(snapshot_id=4)


def test_a_past_snapshot_has_the_columns_of_its_time(table: Table) -> None:
    table.alter(RenameColumn(("v",), "amount"), AddColumn(("note",), parse_type("STRING")))
    table.write({"id": [1], "p": ["a"], "amount": [11], "note": ["x"]})
    now = table.scan().to_arrow()
    assert now.column_names == ["id", "p", "amount", "note"]
    then = table.scan(where="v = 10", snapshot_id=2)
    assert then.to_arrow().to_pylist() == [{"id": 1, "p": "a", "v": 10}]
    with pytest.raises(NotFound, match="'v'"):
        table.scan(["v"])


def test_a_missing_or_broken_file_is_named(lake: Lake) -> None:
    log = lake.create_table("sales.log", COLUMNS)
    log.write({"id": list(range(1000)), "p": ["x"] * 1000, "v": list(range(1000))})
    (file,) = log.files()
    path = f"{log.storage.layout.location}/bucket-0/{file.name}"
    data = log.storage.files.read(path)
    log.storage.files.write(path, data[: len(data) // 2])
    with pytest.raises(CorruptData, match=file.name):
        log.scan().to_arrow()
    log.storage.files.delete(path)
    with pytest.raises(CorruptData, match=file.name):
        log.scan().to_arrow()
    snapshot = log.latest_snapshot()
    assert snapshot is not None
    log.storage.files.delete(log.storage.layout.manifest(snapshot.delta_manifest_list))
    with pytest.raises(CorruptData, match=snapshot.delta_manifest_list):
        log.scan().to_arrow()


def test_files_are_listed(table: Table) -> None:
    files = table.files()
    assert {file.partition for file in files} == {"p=a", "p=b"}
    assert sum(file.row_count for file in files) == 5
    assert all(file.level == 0 and file.file_size > 0 and file.created_at for file in files)
    assert len(table.files(snapshot_id=1)) < len(files)


def test_rows_that_are_all_held_come_in_large_batches(lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int32()))])
    made = lake.create_table("sales.many", schema, options={"bucket": "-1"})
    numbers = range(150_000)
    rows = pa.table({"id": numbers, "l": [None] * len(numbers)}, schema)
    made.write(rows)
    held = made.scan(columns=["id"]).to_arrow()
    assert held.equals(rows.select(["id"]))
    assert held.column("id").num_chunks == 1
    # Few rows may pass a filter, and nested values may be too large for a batch of so many.
    for scan in (made.scan(columns=["id"], where="id >= 0"), made.scan()):
        data = scan.to_arrow()
        assert data.column("id").equals(rows.column("id"))
        assert max(len(chunk) for chunk in data.column("id").chunks) <= 65536
    assert max(batch.num_rows for batch in made.scan(columns=["id"]).to_batches()) <= 65536
