"""The rows that a merge picks, told by their positions: the same as those that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.live_rows import merged_rows, picks_rows, unmarked_rows
from headwater.storage.read.raw_rows import without_deletes
from headwater.storage.read.row_group_count import count_row_groups
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("k", "STRING NOT NULL"), ("at", "INT"), ("v", "STRING")]
NAMES = [name for name, _ in COLUMNS]
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "ignore-delete": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "at"},
    "descending": {"sequence.field": "at", "sequence.field.sort-order": "descending"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "indexed": {"file-index.bitmap.columns": "at"},
}
CONDITIONS = ("at = 1", "v = '1'", "at IS NULL OR k = 'b'", "id > 5 AND at < 3")
Row = tuple[int, str, int | None, bool]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 12), st.sampled_from("ab"), st.none() | st.integers(0, 3), st.booleans()
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[:2],
)


def write(table: StoredTable, batch: Sequence[Row], number: int) -> None:
    states = BucketStates(table.storage, table.pointer.latest())
    writer = TableWriter(table.storage, max_sequence_numbers=states)
    writer.write(
        {
            "id": [row[0] for row in batch],
            "k": [row[1] for row in batch],
            "at": [row[2] for row in batch],
            "v": [f"{number}" for _ in batch],
            "_ROW_KIND": ["-D" if row[3] and number else "+I" for row in batch],
        }
    )
    TableCommit(table.storage, table.pointer, "me").commit(writer.finish())


def both_ways(table: StoredTable) -> tuple[list[object], list[object], int]:
    """The rows by a merge, those at the positions, and the number of files with positions."""
    merged: list[object] = []
    picked: list[object] = []
    bitmaps = 0
    latest = table.pointer.latest()
    assert latest is not None
    for split in plan_snapshot(table.storage, latest, all_levels=True).splits:
        for batch in read_split(table.storage, split):
            merged += batch.to_pylist()
        find = unmarked_rows if split.is_raw else merged_rows
        live = find(table.storage, split)
        bitmaps += len(live)
        files = BucketFiles(table.storage, split.directory, split.partition_values)
        for file in split.files:
            opened = files.open(file)
            batches = list(opened.rows([*NAMES, "_VALUE_KIND"], None, 1 << 16))
            (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
            if file.file_name in live:
                whole = whole.filter(pa.array(live[file.file_name].mask))
            if split.is_raw or file.file_name not in live:
                whole = without_deletes(whole)
            picked += whole.select(NAMES).to_pylist()
    return sorted(merged, key=repr), sorted(picked, key=repr), bitmaps


@pytest.mark.parametrize("engine", ENGINES)
@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(commits=st.lists(ROWS, min_size=2, max_size=4), compacted=st.integers(0, 4))
def test_positions_tell_the_rows_of_a_merge(
    new_table: NewTable, engine: str, commits: list[list[Row]], compacted: int
) -> None:
    options = {"bucket": "1", "write-only": "true", **ENGINES[engine]}
    table = new_table(COLUMNS, primary_keys=["id", "k"], options=options)
    assert picks_rows(table.storage)
    for number, batch in enumerate(commits):
        write(table, batch, number)
        if number == compacted:
            compact_table(table.storage, table.pointer, LocalExecutor())
        merged, picked, _ = both_ways(table)
        assert picked == merged


@pytest.mark.parametrize("engine", ENGINES)
@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    commits=st.lists(ROWS, min_size=2, max_size=4),
    compacted=st.integers(0, 4),
    condition=st.none() | st.sampled_from(CONDITIONS),
    columns=st.sampled_from([NAMES, ["v"], ["k", "at"], []]),
)
def test_a_split_whose_live_rows_are_known_is_read_without_its_merge(
    new_table: NewTable,
    engine: str,
    commits: list[list[Row]],
    compacted: int,
    condition: str | None,
    columns: list[str],
) -> None:
    options = {"bucket": "1", "write-only": "true", **ENGINES[engine]}
    table = new_table(COLUMNS, primary_keys=["id", "k"], options=options)
    storage = table.storage
    predicate = None if condition is None else parse_predicate(condition, storage.schema)
    for number, batch in enumerate(commits):
        write(table, batch, number)
        if number == compacted:
            compact_table(storage, table.pointer, LocalExecutor())
        latest = table.pointer.latest()
        assert latest is not None
        for split in plan_snapshot(storage, latest, all_levels=True).splits:
            if split.is_raw:
                continue
            known = replace(split, live_rows=merged_rows(storage, split))
            assert known.is_raw

            def rows(split: Split) -> list[str]:
                batches = list(read_split(storage, split, columns=columns, predicate=predicate))
                if not columns:
                    return [str(sum(batch.num_rows for batch in batches))]
                return sorted(
                    map(repr, pa.Table.from_batches(batches).to_pylist() if batches else [])
                )

            assert rows(known) == rows(split)


def test_what_no_live_row_can_match_is_not_read(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id", "k"], options={"bucket": "1"})
    table = table.with_options(**{"write-only": "true"})
    for number in range(2):
        write(table, [(1, "a", number, False), (2, "a", number, False)], number)
    latest = table.pointer.latest()
    assert latest is not None
    (split,) = plan_snapshot(table.storage, latest).splits
    known = replace(split, live_rows=merged_rows(table.storage, split))
    newest = parse_predicate("at = 1", table.storage.schema)
    counts = [
        count_row_groups(table.storage, [each], newest, most_files=9) for each in (split, known)
    ]
    assert [(each.wanted, each.total) for each in counts] == [(2, 2), (1, 2)]
    old = parse_predicate("at = 0", table.storage.schema)
    assert not list(read_split(table.storage, known, predicate=old))


def test_rows_that_an_index_finds_are_live(new_table: NewTable) -> None:
    options = {"bucket": "1", "write-only": "true", **ENGINES["indexed"]}
    table = new_table(COLUMNS, primary_keys=["id", "k"], options=options)
    write(table, [(1, "a", 1, False), (2, "a", 1, False), (3, "a", 0, False)], 0)
    write(table, [(1, "a", 2, False), (3, "a", 1, False)], 1)
    latest = table.pointer.latest()
    assert latest is not None
    (split,) = plan_snapshot(table.storage, latest).splits
    known = replace(split, live_rows=merged_rows(table.storage, split))
    found = parse_predicate("at = 1", table.storage.schema)
    for each in (split, known):
        batches = read_split(table.storage, each, columns=["id"], predicate=found)
        assert sorted(row["id"] for batch in batches for row in batch.to_pylist()) == [2, 3]


def test_files_that_share_keys_have_positions(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id", "k"], options={"bucket": "1"})
    table = table.with_options(**{"write-only": "true"})
    write(table, [(1, "a", 1, False), (2, "a", 1, False)], 0)
    write(table, [(2, "a", 2, False), (3, "a", 1, False)], 0)
    write(table, [(8, "a", 1, False), (9, "a", 1, True)], 1)
    merged, picked, bitmaps = both_ways(table)
    assert picked == merged
    assert [row["id"] for row in merged] == [1, 2, 3, 8]  # type: ignore[index]
    assert bitmaps == 2


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_engines_that_compute_rows_have_none(new_table: NewTable, engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    assert not picks_rows(new_table(COLUMNS, primary_keys=["id", "k"], options=options).storage)


@given(mask=st.lists(st.booleans(), max_size=200))
def test_a_bitmap_holds_its_mask(mask: list[bool]) -> None:
    rows = LiveRows.of(np.array(mask, np.bool_))
    assert rows.mask.tolist() == mask
    assert len(rows.words) == -(-len(mask) // 64)
    bits = [int(rows.words[at // 64]) >> at % 64 & 1 for at in range(len(rows.words) * 64)]
    assert bits == [*map(int, mask), *[0] * (len(bits) - len(mask))]
