"""Defaults of columns where rows are written, changed and taken back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.schema.change import UpdateColumnDefaultValue

_SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int32()), ("b", pa.string())]
)


def _table(path: Path, **options: str) -> Table:
    lake = connect(path)
    lake.create_database("d")
    table = lake.create_table(
        "d.t", _SCHEMA, primary_keys=["k"], options={"bucket": "1", **options}
    )
    table.write({"k": [1, 2], "a": pa.nulls(2, pa.int32()), "b": ["x", "y"]})
    table.alter(UpdateColumnDefaultValue(("a",), "5"))
    return table


def _rows(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def test_rows_that_are_written_anew_get_defaults_and_others_keep_their_nulls(
    tmp_path: Path,
) -> None:
    table = _table(tmp_path)
    table.write({"k": [3], "a": pa.nulls(1, pa.int32()), "b": ["z"]})
    table.merge({"k": [4], "b": ["w"]}, ["k"])
    table.update({"b": "u"}, where="k = 2")
    table.compact()
    assert _rows(table) == [(1, None, "x"), (2, 5, "u"), (3, 5, "z"), (4, 5, "w")]
    # Null matches no row, though it would be written as one that is there.
    table.merge(pa.table({"k": [9], "a": pa.nulls(1, pa.int32())}), ["a"])
    assert _rows(table)[-1] == (9, 5, None)


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_rows_that_are_deleted_are_taken_back_as_they_are(tmp_path: Path, engine: str) -> None:
    of_sums = {"fields.a.aggregate-function": "sum", "fields.b.ignore-retract": "true"}
    options = {"changelog-producer": "input", "merge-engine": engine}
    table = _table(tmp_path, **options, **(of_sums if engine == "aggregation" else {}))
    before = table.latest_snapshot()
    assert before is not None
    table.delete("k = 1")
    table.merge({"k": [2]}, ["k"], when_matched="delete")
    latest = table.latest_snapshot()
    assert latest is not None
    changes = table.changes(before.id, latest.id).to_arrow().to_pylist()
    assert [(row["_ROW_KIND"], row["k"], row["a"]) for row in changes] == [
        ("-D", 1, None), ("-D", 2, None),
    ]  # fmt: skip
