"""The changes of one key are read in the order in which they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import plan_changelog, plan_delta, plan_snapshot
from headwater.storage.scan.split import ScanPlan
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage, TableWriter


class _Table(Protocol):
    storage: TableStorage
    pointer: FileSnapshotPointer


_NewTable: TypeAlias = Callable[..., _Table]
_COLUMNS = [("k", "BIGINT NOT NULL"), ("v", "INT"), ("s", "STRING")]


def _commit(table: _Table, parts: list[pa.Table], buffer_bytes: int) -> None:
    writer = TableWriter(table.storage, max_sequence_numbers={}, buffer_bytes=buffer_bytes)
    for part in parts:
        writer.write(part)
    commit = TableCommit(table.storage, table.pointer, "writer")
    assert commit.commit(writer.finish()) is not None


def _changes(table: _Table, plan: ScanPlan, batch_rows: int) -> Iterator[tuple[int, int]]:
    for split in plan.splits:
        batches = read_split(
            table.storage, split, columns=["k", "v"], row_kinds=True, batch_rows=batch_rows
        )
        for batch in batches:
            yield from zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True)


def _rows(keys: list[int], first: int) -> pa.Table:
    count = len(keys)
    text = [f"{number * 7919 % 104729:050d}" for number in range(count)]
    values = pa.array(range(first, first + count), pa.int32())
    return pa.table({"k": keys, "v": values, "s": text}, schema=None).cast(
        pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int32()), ("s", pa.string())])
    )


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    producer=st.sampled_from(["none", "input"]),
    # Parts of many and of few rows, over few keys that a rolled file ends in, and over many.
    parts=st.lists(
        st.tuples(st.integers(1, 1500), st.sampled_from([1, 3, 40, 5000])), min_size=1, max_size=5
    ),
    target=st.sampled_from(["1 b", "20 kb", "128 mb"]),
    buffer_bytes=st.sampled_from([20_000, 70_000, 1_000_000]),
    batch_rows=st.sampled_from([1, 50, 400, 1000, 65536]),
)
def test_changes_of_a_key_keep_their_order(
    new_table: _NewTable,
    producer: str,
    parts: list[tuple[int, int]],
    target: str,
    buffer_bytes: int,
    batch_rows: int,
) -> None:
    table = new_table(
        _COLUMNS,
        primary_keys=["k"],
        options={"bucket": "2", "changelog-producer": producer, "target-file-size": target},
    )
    tables: list[pa.Table] = []
    written: dict[int, list[int]] = {}
    for count, keys in parts:
        first = sum(part.num_rows for part in tables)
        chosen = [(number * 31 + first) % keys for number in range(count)]
        tables.append(_rows(chosen, first))
        for at, key in enumerate(chosen):
            written.setdefault(key, []).append(first + at)
    _commit(table, tables, buffer_bytes)
    snapshot = table.pointer.latest()
    assert snapshot is not None
    planned = plan_changelog if producer == "input" else plan_delta
    seen: dict[int, list[int]] = {}
    for key, value in _changes(table, planned(table.storage, snapshot), batch_rows):
        seen.setdefault(key, []).append(value)
    if producer == "input":
        assert seen == written
    else:
        # Of the rows that were in the buffer together the newest is written alone.
        assert all(values == sorted(values) for values in seen.values())
    rows = dict(_changes(table, plan_snapshot(table.storage, snapshot), batch_rows))
    assert {key: values[-1] for key, values in seen.items()} == rows


def test_a_key_that_several_changelog_files_hold(new_table: _NewTable) -> None:
    table = new_table(
        _COLUMNS,
        primary_keys=["k"],
        options={"bucket": "1", "changelog-producer": "input", "target-file-size": "1 b"},
    )
    # Sorted by key, the second file holds the later rows of key 2, and the oldest row of all.
    keys = [3, *([2] * 300)]
    _commit(table, [_rows(keys, 0)], 1 << 20)
    snapshot = table.pointer.latest()
    assert snapshot is not None
    plan = plan_changelog(table.storage, snapshot)
    assert len(plan.splits[0].files) == 2
    seen = [value for key, value in _changes(table, plan, 65536) if key == 2]
    assert seen == list(range(1, 301))


@pytest.mark.parametrize("sizes", [(100, 900), (100, 100, 900, 100)])
def test_small_batches_before_large_ones(new_table: _NewTable, sizes: tuple[int, ...]) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    messages: list[CommitMessage] = []
    first = 0
    for count in sizes:
        writer = TableWriter(table.storage, max_sequence_numbers=lambda *_, at=first: at - 1)
        writer.write(_rows(list(range(count)), first))
        messages += writer.finish()
        first += count
    snapshot = TableCommit(table.storage, table.pointer, "writer").commit(messages)
    assert snapshot is not None
    values = [v for k, v in _changes(table, plan_delta(table.storage, snapshot), 1000) if k == 7]
    assert len(values) == len(sizes)
    assert values == sorted(values)
