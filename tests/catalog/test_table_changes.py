"""What changed between two snapshots, through the table handle."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())])


def make(lake: Lake, name: str, *, keyed: bool = True, **options: str) -> Table:
    if keyed:
        options["bucket"] = "1"
    plain = {key.replace("_", "-"): value for key, value in options.items()}
    keys = ["id"] if keyed else []
    return lake.create_table(f"sales.{name}", COLUMNS, primary_keys=keys, options=plain)


def changes(table: Table, since: int, until: int | None = None) -> list[tuple[object, ...]]:
    found = table.changes(since, until).to_arrow()
    assert found.column_names == ["id", "v", "_ROW_KIND"]
    return [tuple(row.values()) for row in found.to_pylist()]


def test_changes_are_what_was_written_between(lake: Lake) -> None:
    table = make(lake, "plain")
    table.write({"id": [1, 2], "v": [1, 2]})
    table.write({"id": [2, 3], "v": [20, 3], "_ROW_KIND": ["+U", "-D"]})
    table.compact()
    table.write({"id": [4], "v": [4]})
    assert changes(table, 0) == [
        (1, 1, "+I"),
        (2, 2, "+I"),
        (2, 20, "+U"),
        (3, 3, "-D"),
        (4, 4, "+I"),
    ]
    assert changes(table, 1, 2) == [(2, 20, "+U"), (3, 3, "-D")]
    assert changes(table, 2, 3) == []
    assert changes(table, 3) == [(4, 4, "+I")]
    assert changes(table, 4) == changes(table, 4, 4) == []
    with pytest.raises(Invalid, match="end with snapshot 2, before they start after snapshot 3"):
        changes(table, 3, 2)


def test_a_changelog_tells_more_than_what_stayed(lake: Lake) -> None:
    table = make(lake, "told", changelog_producer="input")
    table.write({"id": [1], "v": [1]})
    kinds = ["-U", "+U", "-U", "+U"]
    table.write({"id": [1, 1, 1, 1], "v": [1, 2, 2, 3], "_ROW_KIND": kinds})
    assert changes(table, 1) == [(1, 1, "-U"), (1, 2, "+U"), (1, 2, "-U"), (1, 3, "+U")]


def test_changes_can_be_narrowed_and_written_to_another_table(lake: Lake) -> None:
    source, target = make(lake, "source"), make(lake, "target")
    source.write({"id": [1, 2, 3], "v": [1, 2, 3]})
    source.delete("id = 2")
    source.write({"id": [3], "v": [30]})
    for step in range(3):
        target.write(source.changes(step, step + 1).to_arrow())
    assert sorted(target.scan().to_arrow().to_pylist(), key=str) == [
        {"id": 1, "v": 1},
        {"id": 3, "v": 30},
    ]
    some = source.changes(0, columns=["v"], where="id = 3")
    assert some.to_arrow().to_pylist() == [
        {"v": 3, "_ROW_KIND": "+I"},
        {"v": 30, "_ROW_KIND": "+I"},
    ]
    assert some.count() == 2


def test_an_overwrite_is_left_out_only_when_asked(lake: Lake) -> None:
    table = make(lake, "log", keyed=False)
    table.write({"id": [1, 2]})
    table.delete("id = 1")
    table.write({"id": [3]})
    with pytest.raises(Unsupported, match="snapshot 2 is an overwrite"):
        table.changes(0)
    found = table.changes(0, skip_overwrites=True).to_arrow()
    assert found.column("id").to_pylist() == [1, 2, 3]
    assert changes(table, 2) == [(3, None, "+I")]
    told = table.with_options({"streaming-read-append-overwrite": "true"})
    assert [row[0] for row in changes(told, 0)] == [1, 2, 2, 3]


def test_changes_end_where_history_does(lake: Lake) -> None:
    table = make(lake, "short").with_options({"write-only": "true"})
    assert changes(table, 0) == []
    for number in range(5):
        table.write({"id": [number]})
    with pytest.raises(NotFound) as error:
        table.changes(0, 9)
    assert error.value.resource_type is ResourceType.SNAPSHOT
    table.expire_snapshots(retain_max=2)
    assert len(changes(table, 3)) == 2
    with pytest.raises(NotFound, match="expired"):
        table.changes(2)
