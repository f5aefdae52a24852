"""Tables whose first row of each key stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid, Unsupported

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])


def _table(folder: Path, options: Mapping[str, str] | None = None) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    given = {
        "bucket": "2", "merge-engine": "first-row", "changelog-producer": "lookup",
        "write-only": "true",
    }  # fmt: skip
    return lake.create_table(
        "d.t", SCHEMA, primary_keys=["k"], options={**given, **(options or {})}
    )


def _rows(table: Table) -> dict[int, str]:
    rows = table.scan().to_arrow()
    found = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 9), min_size=1, max_size=12),
            st.sampled_from(["compact", "due"]),
        ),
        max_size=9,
    ),
    st.sampled_from(
        [
            {},
            {"write-buffer-size": "64 b"},
            {"num-sorted-run.compaction-trigger": "2", "num-levels": "4"},
            {"compaction.max-size-amplification-percent": "1000000", "target-file-size": "1 b"},
        ]
    ),
)
def test_the_first_row_of_each_key_stays(
    tmp_path: Path, steps: list[list[int] | str], options: Mapping[str, str]
) -> None:
    table = _table(tmp_path, options)
    written: dict[int, str] = {}
    visible: dict[int, str] = {}
    for number, step in enumerate([*steps, "compact"]):
        if isinstance(step, str):
            table.compact(full=step == "compact")
            visible = dict(written)
        else:
            values = [f"{number}.{at}" for at in range(len(step))]
            table.write({"k": step, "v": values})
            for key, value in zip(step, values, strict=True):
                written.setdefault(key, value)
        # Rows are part of the table when they have been compacted, as in every Paimon engine.
        assert _rows(table) == visible
    changes = table.changes(0).to_arrow()
    assert set(changes["_ROW_KIND"].to_pylist()) <= {"+I"}
    assert changes.num_rows == len(written)
    assert dict(zip(changes["k"].to_pylist(), changes["v"].to_pylist(), strict=True)) == written


def test_a_write_makes_its_rows_part_of_the_table(tmp_path: Path) -> None:
    table = _table(tmp_path, {"write-only": "false"})
    table.write({"k": [1, 2], "v": ["a", "b"]})
    assert _rows(table) == {1: "a", 2: "b"}
    table.write({"k": [2, 3], "v": ["x", "c"]})
    assert _rows(table) == {1: "a", 2: "b", 3: "c"}
    changes = table.changes(0).to_arrow()
    assert changes["k"].to_pylist() == [1, 2, 3]
    table.overwrite({"k": [2, 3, 3], "v": ["x", "y", "z"]})
    assert _rows(table) == {2: "x", 3: "y"}


def test_retractions_are_refused_or_ignored(tmp_path: Path) -> None:
    table = _table(tmp_path)
    rows = {"k": [1, 2], "v": ["a", "b"], "_ROW_KIND": ["+I", "-D"]}
    with pytest.raises(Invalid, match="first-row"):
        table.write(rows)
    table.write({"k": [1], "v": ["a"]})
    table.compact()
    ignoring = table.with_options({"ignore-delete": "true"})
    ignoring.write({"k": [1, 3], "v": ["x", "c"], "_ROW_KIND": ["-D", "+U"]})
    ignoring.compact()
    assert _rows(table) == {1: "a", 3: "c"}
    assert table.changes(0).to_arrow()["_ROW_KIND"].to_pylist() == ["+I", "+I"]


def test_streams_need_a_changelog(tmp_path: Path) -> None:
    table = _table(tmp_path, {"changelog-producer": "none"})
    table.write({"k": [1, 1], "v": ["a", "b"]})
    table.compact()
    assert _rows(table) == {1: "a"}
    with pytest.raises(Unsupported, match="changelog-producer to lookup"):
        table.changes(0)


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "v"},
        {"changelog-producer": "input"},
        {"changelog-producer": "full-compaction"},
        {"deletion-vectors.enabled": "true"},
    ],
)
def test_options_that_do_not_go_with_it(tmp_path: Path, options: Mapping[str, str]) -> None:
    with pytest.raises(Invalid, match="first-row"):
        _table(tmp_path, options)


def test_an_overwrite_replaces_the_rows(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write({"k": [1, 2], "v": ["a", "b"]})
    table.compact()
    table.overwrite({"k": [2, 3, 3], "v": ["x", "y", "z"]})
    table.compact()
    assert _rows(table) == {2: "x", 3: "y"}
