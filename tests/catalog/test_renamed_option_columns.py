"""Options name columns: they follow them to other names, forwards and back in time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Conflict
from headwater.storage.schema.change import AddColumn, RenameColumn, SetOption
from headwater.storage.types.data_type import parse_type

COLUMNS = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), ("seq", pa.int32()), ("other", pa.int32())]
)


@pytest.fixture
def ordered(lake: Lake) -> Table:
    """A table whose row is the one with the greatest `seq`, which came first."""
    options = {"bucket": "1", "sequence.field": "seq"}
    table = lake.create_table("sales.ordered", COLUMNS, primary_keys=["k"], options=options)
    table.write({"k": [1], "seq": [10], "other": [1]})
    table.write({"k": [1], "seq": [5], "other": [99]})
    table.create_tag("kept")
    return table


THEN = [{"k": 1, "seq": 10, "other": 1}]


def test_time_travel_merges_by_the_column_of_then(ordered: Table) -> None:
    ordered.alter(RenameColumn(("seq",), "tmp"))
    assert ordered.scan(snapshot_id=2).to_arrow().to_pylist() == THEN
    ordered.alter(RenameColumn(("other",), "seq")).alter(RenameColumn(("tmp",), "other"))
    assert ordered.scan().to_arrow().to_pylist() == [{"k": 1, "other": 10, "seq": 1}]
    assert ordered.scan(snapshot_id=2).to_arrow().to_pylist() == THEN
    assert ordered.scan(tag="kept").to_arrow().to_pylist() == THEN
    changed = ordered.changes(0).to_arrow().select(["k", "other", "seq"]).to_pylist()
    assert changed == [{"k": 1, "other": 10, "seq": 1}, {"k": 1, "other": 5, "seq": 99}]
    ordered.compact()
    assert ordered.scan().to_arrow().to_pylist() == [{"k": 1, "other": 10, "seq": 1}]


def test_an_option_about_a_column_that_was_not_there_is_as_it_was(ordered: Table) -> None:
    ordered.alter(
        AddColumn(("late",), parse_type("INT")),
        SetOption("sequence.field", "late"),
        SetOption("fields.late.stats-mode", "none"),
    )
    assert ordered.scan(snapshot_id=2).to_arrow().to_pylist() == THEN


def test_a_bucket_key_prunes_by_the_name_of_then(lake: Lake) -> None:
    options = {"bucket": "4", "bucket-key": "a"}
    table = lake.create_table("sales.spread", pa.schema([("a", pa.int32())]), options=options)
    table.write({"a": list(range(100))})
    table.alter(RenameColumn(("a",), "z"))
    assert table.scan(snapshot_id=1).count() == 100
    assert table.scan(snapshot_id=1, where="a = 7").to_arrow().to_pylist() == [{"a": 7}]
    assert table.scan(where="z = 7").to_arrow().to_pylist() == [{"z": 7}]


def test_a_handle_from_before_a_rename_writes_on(lake: Lake) -> None:
    options = {"bucket": "2", "bucket-key": "a, b"}
    columns = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    early = lake.create_table("sales.early", columns, options=options)
    late = lake.table("sales.early")
    late.alter(RenameColumn(("a",), "z"))
    early.write({"a": [1], "b": [2]})
    assert late.refresh().scan().to_arrow().to_pylist() == [{"z": 1, "b": 2}]
    late.alter(SetOption("bucket", "3"))
    with pytest.raises(Conflict, match="'bucket' changed from 2 to 3"):
        early.write({"a": [1], "b": [2]})
