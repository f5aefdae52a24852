"""What changed between two snapshots, through the table handle."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import RenameColumn

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())])


def make(lake: Lake, name: str, *, keyed: bool = True, **options: str) -> Table:
    if keyed:
        options["bucket"] = "1"
    plain = {key.replace("_", "-"): value for key, value in options.items()}
    keys = ["id"] if keyed else []
    return lake.create_table(f"sales.{name}", COLUMNS, primary_keys=keys, options=plain)


def changes(table: Table, since: int, until: int | None = None) -> list[tuple[object, ...]]:
    result = table.changes(since, until).to_arrow()
    assert result.column_names == ["id", "v", "_ROW_KIND"]
    return [tuple(row.values()) for row in result.to_pylist()]


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
    result = table.changes(0, skip_overwrites=True).to_arrow()
    assert result.column("id").to_pylist() == [1, 2, 3]
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


UNRESERVED = [
    "_FILE_NAME", "_COMMIT_TIMESTAMP", "_INDEX_SCORE", "_ROW_NUMBER", "_SIDE", "_metadata",
]  # fmt: skip


@pytest.mark.parametrize("keyed", [True, False])
def test_columns_with_names_like_system_columns_are_ordinary(lake: Lake, keyed: bool) -> None:
    columns = pa.schema([COLUMNS.field("id"), *((name, pa.string()) for name in UNRESERVED)])
    options = {"bucket": "1", "deletion-vectors.enabled": "true"} if keyed else {}
    table = lake.create_table(
        "sales.named", columns, primary_keys=["id"] if keyed else [], options=options
    )
    before = {"id": [1, 2], **{name: [name, name] for name in UNRESERVED}}
    table.write(before)
    table.update({"_FILE_NAME": "new", "_ROW_NUMBER": "new"}, where="id = 2 AND _SIDE = '_SIDE'")
    after = {**before, "_FILE_NAME": ["_FILE_NAME", "new"], "_ROW_NUMBER": ["_ROW_NUMBER", "new"]}
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("id").to_pydict() == after
    assert table.changes(0, 1).to_arrow().to_pydict() == {**before, "_ROW_KIND": ["+I", "+I"]}
    if keyed:
        result = table.changes(1, mode="diff", columns=["_FILE_NAME", "_SIDE"]).to_arrow()
        assert result.to_pylist()[-1] == {"_FILE_NAME": "new", "_SIDE": "_SIDE", "_ROW_KIND": "+U"}


def test_a_column_with_the_name_of_the_row_kinds_is_not_hidden(lake: Lake, tmp_path: Path) -> None:
    """Only another engine makes such a table."""
    made = make(lake, "made")
    location = local_path(made.storage.layout.location)
    written = Path(location, "schema", "schema-0")
    written.write_text(written.read_text().replace('"v"', '"_ROW_KIND"'))
    other = connect(tmp_path / "other")
    other.create_database("sales")
    table = other.register_table("sales.theirs", location)
    table.write({"id": [1], "_ROW_KIND": pa.array([7], pa.int32())})
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "_ROW_KIND": 7}]
    assert table.changes(0, row_kinds=False).to_arrow().to_pylist() == [{"id": 1, "_ROW_KIND": 7}]
    assert table.changes(0, columns=["id"]).to_arrow().to_pylist() == [{"id": 1, "_ROW_KIND": "+I"}]
    for read in (lambda: table.changes(0), lambda: other.system_table("sales.theirs$audit_log")):
        with pytest.raises(Unsupported, match="own column '_ROW_KIND' has the name of theirs"):
            read().to_arrow()
    renamed = table.alter(RenameColumn(("_ROW_KIND",), "v"))
    assert changes(renamed, 0) == [(1, 7, "+I")]
