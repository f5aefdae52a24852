"""What every merge engine makes of sequence fields, row kinds and the rows that it ignores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid

ENGINES = ("deduplicate", "first-row", "aggregation", "partial-update")
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        ("s", pa.int64()),
        ("t", pa.string()),
        ("v", pa.int64()),
        ("kind", pa.string()),
    ]
)


def _table(folder: Path, engine: str, options: Mapping[str, str]) -> Table:
    given = {"bucket": "1", "merge-engine": engine, "write-only": "true", **options}
    with connect(folder) as lake:
        lake.create_database("d", ignore_if_exists=True)
        lake.drop_table("d.t", ignore_if_not_exists=True)
        return lake.create_table("d.t", SCHEMA, primary_keys=["k"], options=given)


def _read(table: Table, engine: str) -> dict[object, object]:
    if engine == "first-row":
        table.compact()  # Its rows are part of the table only then.
    found = table.scan(columns=["k", "v"]).to_arrow().to_pylist()
    return {row["k"]: row["v"] for row in found}


@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "in several"])
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "first-row"])
def test_the_row_with_the_newest_sequence_wins(
    tmp_path: Path, engine: str, descending: bool, together: bool
) -> None:
    order = "descending" if descending else "ascending"
    options = {"sequence.field": "s,t", "sequence.field.sort-order": order}
    # From the oldest to the newest, in ascending order; null is below everything.
    places = [(None, None), (None, "b"), (1, None), (1, "a"), (1, "b"), (2, None), (2, "a")]
    ranks = range(len(places))
    table = _table(tmp_path, engine, options)
    rows = [
        {"k": key, "s": places[rank][0], "t": places[rank][1], "v": rank}
        for key, ranking in enumerate(itertools.islice(itertools.permutations(ranks, 3), 0, 210, 7))
        for rank in ranking
    ]
    for batch in [rows] if together else [rows[at::3] for at in range(3)]:
        table.write(pa.Table.from_pylist(batch, SCHEMA))
    expected: dict[int, int] = {}
    for row in rows:
        key, rank = row["k"], row["v"]
        assert isinstance(key, int)
        assert isinstance(rank, int)
        held = expected.get(key, rank)
        expected[key] = _older(held, rank, places) if descending else max(held, rank)
    assert _read(table, engine) == expected
    table.compact()
    assert _read(table, engine) == expected


def _older(left: int, right: int, places: Sequence[tuple[int | None, str | None]]) -> int:
    """The newer of two rows where the least sequence is; null is below everything all the same."""

    def newness(rank: int) -> tuple[tuple[bool, int], tuple[bool, list[int]]]:
        number, text = places[rank]
        letters = [-ord(letter) for letter in text or ""]
        return (number is not None, -(number or 0)), (text is not None, letters)

    return max(left, right, key=newness)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_names_the_kind_of_each_row(tmp_path: Path, engine: str) -> None:
    table = _table(tmp_path, engine, {"rowkind.field": "kind", "ignore-delete": "true"})
    table.write({"k": [1, 2], "v": [1, 2], "kind": ["+I", "+I"]})
    table.write({"k": [1, 2, 3], "v": [5, 6, 7], "kind": ["-D", "-U", "-D"]})
    assert _read(table, engine) == {1: 1, 2: 2}
    with pytest.raises(Invalid, match="kind"):
        table.write({"k": [1], "v": [1], "kind": ["+X"]})
    with pytest.raises(Invalid, match=r"'rowkind\.field'"):
        table.write({"k": [1], "v": [1]})


@pytest.mark.parametrize(
    "alias",
    [
        "",
        *(pytest.param(f"{name}.", marks=pytest.mark.modes) for name in ENGINES if name[0] != "a"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_delete_are_dropped(tmp_path: Path, engine: str, alias: str) -> None:
    table = _table(tmp_path, engine, {f"{alias}ignore-delete": "true"})
    kinds = ["+I", "-D", "-U"]
    table.write({"k": [1, 1, 2], "v": [1, 2, 3], "_ROW_KIND": kinds})
    table.write({"k": [1, 3], "v": [4, 4], "_ROW_KIND": ["-U", "-D"]})
    assert _read(table, engine) == {1: 1}
    table.compact()
    assert _read(table, engine) == {1: 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_before_an_update_are_dropped_alone(tmp_path: Path, engine: str) -> None:
    options = {"ignore-update-before": "true"}
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    table = _table(tmp_path, engine, options)
    table.write({"k": [1, 2], "v": [1, 2]})
    table.write({"k": [1, 1], "v": [1, 3], "_ROW_KIND": ["-U", "+U"]})
    table.write({"k": [2], "v": [2], "_ROW_KIND": ["-U"]})
    after = {"deduplicate": 3, "first-row": 1, "aggregation": 4, "partial-update": 3}[engine]
    assert _read(table, engine) == {1: after, 2: 2}
    deletion = {"k": [2], "v": [2], "_ROW_KIND": ["-D"]}
    if engine in ("first-row", "partial-update"):
        with pytest.raises(Invalid, match="'ignore-delete'"):
            table.write(deletion)
        return
    table.write(deletion)
    assert _read(table, engine) == ({1: 3} if engine == "deduplicate" else {1: 4, 2: 0})


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "first-row"])
def test_retractions_of_other_writers_are_passed_over_where_they_are_ignored(
    tmp_path: Path, engine: str
) -> None:
    removing = {"partial-update.remove-record-on-delete": "true"}
    table = _table(tmp_path, engine, removing if engine == "partial-update" else {})
    table.write({"k": [1, 2], "v": [1, 2]})
    table.write({"k": [1], "v": [1], "_ROW_KIND": ["-D"]})
    ignoring = {"ignore-delete": "true", "partial-update.remove-record-on-delete": "false"}
    info = replace(table.info, schema=table.schema.with_options(ignoring))
    assert _read(Table(table.catalog, info), engine) == {1: 1, 2: 2}
