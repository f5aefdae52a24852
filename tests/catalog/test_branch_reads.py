"""Tables read together with another branch: the partitions that one lacks are the other's."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.schema.change import AddColumn, SetOption, UpdateColumnNullability
from headwater.storage.types.data_type import parse_type

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

FRUITS = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        ("amount", pa.int64()),
    ]
)
Row = tuple[str, str, int]


def rows(*found: Row) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=FRUITS)


def read(table: Table, **scan: object) -> list[Row]:
    found = table.scan(**scan).to_arrow()  # type: ignore[arg-type]
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture
def corrected(lake: Lake, clock: Clock) -> Table:
    """Corrected rows in the table, upserts of a stream in its branch ``live``."""
    table = lake.create_table("sales.fruits", FRUITS, partition_keys=["dt"])
    live = table.create_branch("live")
    live.alter(
        SetOption("primary-key", "dt,name"),
        SetOption("bucket", "2"),
        SetOption("changelog-producer", "input"),
    )
    table.alter(SetOption("scan.fallback-branch", "live"))
    live.refresh()
    live.write(rows(("1", "apple", 4), ("1", "peach", 10), ("2", "cherry", 3), ("2", "pear", 5)))
    clock.turn(seconds=1)
    live.write(rows(("2", "pear", 6)))
    clock.turn(seconds=1)
    table.write(rows(("1", "apple", 5), ("1", "banana", 7)))
    return table.refresh()


TODAY = [("2", "cherry", 3), ("2", "pear", 6)]
CORRECTED = [("1", "apple", 5), ("1", "banana", 7)]


def test_partitions_that_the_table_lacks_are_the_other_branch_s(corrected: Table) -> None:
    assert read(corrected) == [*CORRECTED, *TODAY]
    assert corrected.scan().count() == 4
    assert corrected.scan(where="amount >= 6").count() == 2
    # A partition is the table's, whatever of its rows a condition wants.
    assert read(corrected, where="name = 'peach'") == []
    assert read(corrected, where="dt = '2' AND name = 'pear'") == [("2", "pear", 6)]
    assert corrected.scan(["amount"], "dt = '1'").to_arrow()["amount"].to_pylist() == [5, 7]
    frame = corrected.scan().to_polars(lazy=True).filter(amount=6).collect()
    assert frame["name"].to_list() == ["pear"]
    alone = corrected.with_options({"scan.fallback-branch": ""})
    assert read(alone) == CORRECTED
    assert [partition.name for partition in corrected.partitions()] == ["dt=1", "dt=2"]
    assert [partition.name for partition in alone.partitions()] == ["dt=1"]
    # As soon as the table has the partition, the other's rows of it are no more.
    corrected.write(rows(("2", "fig", 1)))
    assert read(corrected) == [*CORRECTED, ("2", "fig", 1)]


def test_a_primary_branch_goes_before_the_table(corrected: Table) -> None:
    live = corrected.branch("live")
    live.alter(SetOption("scan.primary-branch", "main"))
    corrected.alter(SetOption("scan.fallback-branch", ""))
    assert read(live) == [*CORRECTED, *TODAY]
    assert live.scan().snapshot == live.latest_snapshot()


def test_a_table_without_snapshots_is_all_the_other_branch_s(lake: Lake) -> None:
    table = lake.create_table("sales.empty", FRUITS)
    table.create_branch("b").write(rows(("1", "apple", 4)))
    table.alter(SetOption("scan.fallback-branch", "b"))
    assert read(table) == [("1", "apple", 4)]
    # Without partition keys there is one partition.
    table.write(rows(("2", "pear", 5)))
    assert read(table) == [("2", "pear", 5)]
    table.truncate()
    assert read(table) == [("1", "apple", 4)]


def test_both_branches_are_read_as_of_one_moment(corrected: Table) -> None:
    live = corrected.branch("live")
    first, second = reversed(live.snapshots())
    assert read(corrected, timestamp=second.time_millis) == [
        ("1", "apple", 4), ("1", "peach", 10), *TODAY
    ]  # fmt: skip
    assert read(corrected, timestamp=first.time_millis)[-1] == ("2", "pear", 5)
    with pytest.raises(NotFound, match="no snapshot"):
        read(corrected, timestamp=first.time_millis - 1)
    # An id is the table's own; the other branch had both of its snapshots by then.
    assert read(corrected, snapshot_id=1) == [*CORRECTED, *TODAY]
    corrected.create_tag("v1")
    assert read(corrected, tag="v1") == [*CORRECTED, *TODAY]
    live.create_tag("v1", 1)
    assert read(corrected, tag="v1") == [*CORRECTED, ("2", "cherry", 3), ("2", "pear", 5)]
    assert read(corrected, version="v1") == read(corrected, tag="v1")
    named = corrected.with_options({"scan.tag-name": "v1"})
    assert read(named) == read(corrected, tag="v1")
    with pytest.raises(Invalid, match="file-creation-time"):
        corrected.with_options({"scan.file-creation-time-millis": "1"}).scan()


def test_a_snapshot_from_before_the_other_branch_shows_none_of_it(lake: Lake, clock: Clock) -> None:
    table = lake.create_table("sales.early", FRUITS, partition_keys=["dt"])
    table.write(rows(("1", "apple", 4)))
    clock.turn(seconds=1)
    table.create_branch("b").write(rows(("2", "pear", 5)))
    table.alter(SetOption("scan.fallback-branch", "b"))
    assert read(table, snapshot_id=1) == [("1", "apple", 4)]
    assert read(table) == [("1", "apple", 4), ("2", "pear", 5)]


def test_a_split_knows_its_branch(corrected: Table) -> None:
    scan = corrected.scan(["name", "amount"])
    splits = pickle.loads(pickle.dumps(scan.splits))
    assert {split.branch for split in splits} == {"main", "live"}
    read = pa.Table.from_batches(batch for split in splits for batch in scan.read_split(split))
    assert sorted(read["name"].to_pylist()) == ["apple", "banana", "cherry", "pear"]


def test_system_tables_show_what_is_read(lake: Lake, corrected: Table) -> None:
    log = lake.system_table("sales.fruits$audit_log").to_arrow(["rowkind", "name"])
    assert sorted(log["name"].to_pylist()) == ["apple", "banana", "cherry", "pear"]
    optimized = lake.system_table("sales.fruits$ro")
    # Nothing of the branch is compacted.
    assert sorted(optimized.to_arrow()["name"].to_pylist()) == ["apple", "banana"]
    corrected.branch("live").compact()
    assert lake.system_table("sales.fruits$ro").to_arrow().num_rows == 4
    live = corrected.branch("live")
    live.alter(SetOption("scan.fallback-branch", "main"))
    live.refresh().write(rows(("1", "fig", 1)))
    live.drop_partitions({"dt": "1"})
    live.write(rows(("1", "fig", 1)))
    # What needs a merge is no partition of the first.
    found = lake.system_table("sales.fruits$branch_live$ro").to_arrow()["name"].to_pylist()
    assert sorted(found) == ["apple", "banana", "cherry", "pear"]
    partitions = lake.system_table("sales.fruits$partitions").to_arrow()
    assert partitions["partition"].to_pylist() == ["dt=1", "dt=2"]


def test_streams_and_changes_are_of_the_table_alone(corrected: Table) -> None:
    assert corrected.changes(0).to_arrow()["name"].to_pylist() == ["apple", "banana"]


def test_rows_of_two_branches_are_not_changed_as_one(corrected: Table) -> None:
    source = rows(("2", "pear", 9))
    refused = r"scan\.fallback-branch=live .* would stay"
    with pytest.raises(Unsupported, match=refused):
        corrected.delete("dt = '2'")
    with pytest.raises(Unsupported, match=refused):
        corrected.update({"amount": 0})
    with pytest.raises(Unsupported, match=refused):
        corrected.merge(source, ["dt", "name"])
    alone = corrected.with_options({"scan.fallback-branch": ""})
    alone.delete("name = 'apple'")
    assert read(corrected) == [("1", "banana", 7), *TODAY]


def test_columns_may_be_null_that_are_in_either_branch(lake: Lake) -> None:
    table = lake.create_table("sales.nulls", FRUITS, partition_keys=["dt"])
    branch = table.create_branch("b")
    table.write(rows(("1", "apple", 4)))
    table.alter(SetOption("scan.fallback-branch", "b"))
    assert not table.scan().schema.field("name").nullable
    branch.alter(UpdateColumnNullability(("name",), True))
    branch.write({"dt": ["2"], "name": [None], "amount": [1]})
    found = table.scan().to_arrow()
    assert found.schema.field("name").nullable
    assert sorted(found["name"].to_pylist(), key=str) == [None, "apple"]


def test_a_branch_that_names_itself_is_read_alone(corrected: Table) -> None:
    live = corrected.branch("live")
    live.alter(SetOption("scan.fallback-branch", "live"))
    assert read(live) == [("1", "apple", 4), ("1", "peach", 10), *TODAY]


def test_branches_that_do_not_fit_are_refused(lake: Lake, corrected: Table) -> None:
    corrected.branch("live").alter(AddColumn(("more",), parse_type("INT")))
    with pytest.raises(Invalid, match=r"live, by one of .* different columns: .*more INT"):
        corrected.scan()
    with pytest.raises(Invalid, match="no branch 'nope'"):
        corrected.alter(SetOption("scan.fallback-branch", "nope"))
    with pytest.raises(Invalid, match=r"both scan\.fallback-branch and scan\.primary-branch"):
        corrected.alter(SetOption("scan.primary-branch", "live"))
    with pytest.raises(NotFound, match="nope"):
        corrected.with_options({"scan.fallback-branch": "nope"}).scan()
