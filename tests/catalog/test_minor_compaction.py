"""Tables of which only what is due is compacted: the same rows, whatever the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("s", pa.int64())])
# Few runs, and never all of them because of their sizes alone.
MANY_LEVELS = {
    "bucket": "1",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "2",
    "num-levels": "5",
    "compaction.max-size-amplification-percent": "1000000",
}
SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
COLLECTED = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "product",
    "fields.s.aggregate-function": "sum",
}


def new_table(folder: Path, options: Mapping[str, str]) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table("d.t", SCHEMA, primary_keys=["k"], options={**MANY_LEVELS, **options})


def found(table: Table) -> dict[int, tuple[int, int]]:
    rows = table.scan().to_arrow()
    keys = rows["k"].to_pylist()
    assert len(set(keys)) == len(keys)
    pairs = zip(rows["v"].to_pylist(), rows["s"].to_pylist(), strict=True)
    return dict(zip(keys, pairs, strict=True))


def levels(table: Table) -> list[int]:
    return sorted(file.level for file in table.files())


def write(table: Table, rows: Sequence[tuple[int, int, int, str]]) -> None:
    k, v, s, kinds = zip(*rows, strict=True)
    table.write({"k": k, "v": v, "s": s, "_ROW_KIND": kinds})


Step = list[tuple[int, int, int, bool]] | str
STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(0, 3), st.booleans()),
            min_size=1,
            max_size=20,
        ),
        st.just("due"),
        st.just("due"),
        st.just("full"),
    ),
    max_size=14,
)


def played(table: Table, steps: Sequence[Step], engine: str) -> None:
    """Apply steps to a table and to a dictionary, and compare after each."""
    model: dict[int, tuple[int, int]] = {}
    for step in [*steps, "due", "full"]:
        if isinstance(step, str):
            table.compact(full=step == "full")
        else:
            rows: list[tuple[int, int, int, str]] = []
            for k, v, s, deletes in step:
                old = model.get(k)
                if deletes and engine != "sequence":
                    if old is None:
                        continue
                    if engine == "newest":
                        rows.append((k, v, s, "-D"))
                        del model[k]
                    elif engine == "sum":
                        rows.append((k, v, s, "-U"))
                        model[k] = (old[0] - v, old[1] - s)
                    else:
                        rows.append((k, 1, s, "-U"))
                        model[k] = (old[0], old[1] - s)
                    continue
                rows.append((k, v, s, "+I"))
                if engine == "newest" or old is None:
                    model[k] = (v, s)
                elif engine == "sequence":
                    model[k] = (v, s) if s >= old[1] else old
                elif engine == "sum":
                    model[k] = (old[0] + v, old[1] + s)
                else:
                    model[k] = (old[0] * v % 2**62, old[1] + s)
            if rows:
                write(table, rows)
        assert found(table) == model


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["newest", "sequence", "sum"]),
    STEPS,
    st.sampled_from([{}, {"target-file-size": "1 b"}, {"target-file-size": "2 kb"}]),
)
def test_rows_stay_the_same(
    tmp_path: Path, engine: str, steps: Sequence[Step], options: Mapping[str, str]
) -> None:
    of_engine: Mapping[str, Mapping[str, str]] = {
        "newest": {},
        "sequence": {"sequence.field": "s"},
        "sum": SUMS,
    }
    table = new_table(tmp_path, {**options, **of_engine[engine]})
    played(table, steps, engine)


def test_runs_climb_level_by_level(tmp_path: Path) -> None:
    table = new_table(tmp_path, {})
    table.write({"k": range(3000), "v": range(3000), "s": range(3000)})
    table.compact()
    assert levels(table) == [4]
    seen: set[int] = set()
    for step in range(12):
        table.write({"k": [step, step + 1], "v": [0, 0], "s": [step, step]})
        table.compact(full=False)
        assert len(levels(table)) <= 3
        seen.update(levels(table))
    assert seen > {3, 4}
    expected = {k: (0, min(k, 11)) if k <= 12 else (k, k) for k in range(3000)}
    assert found(table) == expected


def test_deletes_stay_until_nothing_older_is_below(tmp_path: Path) -> None:
    table = new_table(tmp_path, {})
    table.write({"k": range(3000), "v": range(3000), "s": range(3000)})
    table.compact()
    for k in (5, 6, 7):
        write(table, [(k, 0, 0, "-D")])
    snapshot = table.compact(full=False)
    assert snapshot is not None
    assert levels(table) == [3, 4]
    deletes = {file.level: file.delete_row_count for file in table.files()}
    assert deletes == {3: 3, 4: 0}
    assert set(range(3000)) - set(found(table)) == {5, 6, 7}
    table.compact()
    assert [file.row_count for file in table.files()] == [2997]


def test_a_large_file_moves_up_with_its_deletes(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"target-file-size": "1 b"})
    table.write({"k": range(2000), "v": range(2000), "s": range(2000)})
    table.compact()
    before = {file.name for file in table.files()}
    # Each file is large, and no other has its keys.
    write(table, [(5, 0, 0, "-D")])
    write(table, [(7, 0, 0, "-D"), (9, 1, 1, "+U")])
    added = {file.name for file in table.files()} - before
    table.compact(full=False)
    assert {file.name for file in table.files()} == before | added
    assert {file.level for file in table.files() if file.name in added} == {3}
    assert set(range(2000)) - set(found(table)) == {5, 7}
    table.compact()
    assert set(range(2000)) - set(found(table)) == {5, 7}
    assert sum(file.delete_row_count or 0 for file in table.files()) == 0


def test_retractions_meet_what_they_take_back(tmp_path: Path) -> None:
    """A product cannot be divided before there is one: the compaction takes the whole bucket."""
    table = new_table(tmp_path, COLLECTED)
    table.write({"k": range(3000), "v": [36] * 3000, "s": [1] * 3000})
    table.compact()
    for divisor in (2, 3):
        write(table, [(5, divisor, 1, "-U")])
    table.compact(full=False)
    assert levels(table) == [4]
    assert found(table)[5] == (6, -1)
    # Without them only what is new is merged.
    for factor in (2, 3):
        write(table, [(5, factor, 1, "+I")])
    table.compact(full=False)
    assert levels(table) == [3, 4]
    assert found(table)[5] == (36, 1)


def test_rows_that_come_while_a_compaction_runs_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path, {})
    table.write({"k": range(3000), "v": range(3000), "s": range(3000)})
    table.compact()
    for k in (1, 2):
        write(table, [(k, 0, 0, "-D"), (k + 10, 0, 0, "+U")])

    class Late:
        """Runs tasks after somebody else has written."""

        def run(self, work, tasks):  # type: ignore[no-untyped-def]
            done = [work(task) for task in tasks]
            write(table, [(1, 7, 7, "+I"), (12, 7, 7, "+U"), (20, 0, 0, "-D")])
            yield from done

    snapshot = table.compact(full=False, executor=Late())
    assert snapshot is not None
    assert levels(table) == [0, 3, 4]
    rows = found(table)
    assert (rows[1], rows[11], rows[12]) == ((7, 7), (0, 0), (7, 7))
    assert set(range(3000)) - set(rows) == {2, 20}


def test_a_bucket_of_an_append_table_is_compacted_when_it_has_small_files(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    options = {"bucket": "1", "bucket-key": "k", "write-only": "true"}
    table = lake.create_table("d.a", SCHEMA, options=options)
    most = 0
    for step in range(20):
        table.write({"k": [step], "v": [step], "s": [step]})
        table.compact(full=False)
        most = max(most, len(table.files()))
    assert most < 12
    rows = table.scan().to_arrow()
    assert rows["k"].to_pylist() == list(range(20))
    plain = lake.create_table("d.unbucketed", SCHEMA, options={"write-only": "true"})
    for step in range(6):
        plain.write({"k": [step], "v": [step], "s": [step]})
    assert plain.compact(full=False) is None
