"""Incremental clustering: append tables sorted a few files at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.clustering import clustering_key
from headwater.storage.errors import Invalid
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.manifest.statistics import EMPTY_STATS
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.split import read_split
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.rows.partition import partition_values
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.schema.rules import check_schema
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("a", "INT"), ("b", "INT"), ("p", "INT")]
CLUSTERED = {"bucket": "-1", "clustering.incremental": "true", "clustering.columns": "a"}
HERE = LocalExecutor()


def latest(table: StoredTable) -> Snapshot:
    found = table.pointer.latest()
    assert found is not None
    return found


def write(table: StoredTable, seed: int, count: int = 300, day: int = 0) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 10_000, (2, count), np.int32)
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(pa.table({"a": numbers[0], "b": numbers[1], "p": np.full(count, day, np.int32)}))
    TableCommit(table.storage, table.pointer, "me").commit(writer.finish())


def cluster(
    table: StoredTable, *, full: bool | None = None, partition: Mapping[str, object] | None = None
) -> Snapshot | None:
    return compact_table(table.storage, table.pointer, HERE, full=full, partition=partition)


def rows(table: StoredTable) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for split in plan_snapshot(table.storage, latest(table)).splits:
        for batch in read_split(table.storage, split):
            found += zip(*batch.to_pydict().values(), strict=True)
    return sorted(found)


def files(table: StoredTable) -> list[DataFile]:
    return [entry.file for entry in live_entries(table.storage, latest(table))]


def levels(table: StoredTable) -> list[int]:
    return sorted(file.level for file in files(table))


def ranges(table: StoredTable, level: int, column: int = 0) -> list[tuple[int, int]]:
    """The least and the greatest value of each file of a level, sorted."""
    types = [field.type for field in table.storage.schema.fields]
    found = []
    for file in files(table):
        if file.level == level:
            assert file.value_stats != EMPTY_STATS
            low = deserialize_row(file.value_stats.min_values, types)[column]
            high = deserialize_row(file.value_stats.max_values, types)[column]
            assert isinstance(low, int)
            assert isinstance(high, int)
            found.append((low, high))
    return sorted(found)


def overlap(found: Sequence[tuple[int, int]]) -> bool:
    return any(high > low for (_, high), (low, _) in pairwise(found))


def test_runs_are_sorted_together_as_they_become_too_many(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={**CLUSTERED, "target-file-size": "1 kb"})
    for number in range(4):
        write(table, number, 250)
    assert cluster(table) is None
    write(table, 4, 250)
    assert levels(table) == [0] * 5
    before = rows(table)
    snapshot = cluster(table)
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert set(levels(table)) == {5}
    assert len(files(table)) > 2
    assert not overlap(ranges(table, 5))
    assert rows(table) == before
    for number in range(3):
        write(table, number, 10)
    assert cluster(table) is None
    write(table, 9, 10)
    sorted_before = {file.file_name for file in files(table) if file.level == 5}
    before = rows(table)
    assert cluster(table) is not None
    # The new files alone: the run that is there is much larger.
    assert {file.file_name for file in files(table) if file.level == 5} == sorted_before
    assert set(levels(table)) == {4, 5}
    assert rows(table) == before


def test_a_full_clustering_is_done_once_for_the_same_columns(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={**CLUSTERED, "target-file-size": "1 kb"})
    write(table, 0)
    write(table, 1)
    assert cluster(table, full=True) is not None
    assert set(levels(table)) == {5}
    assert cluster(table, full=True) is None
    assert cluster(table, full=False) is None
    other = table.with_options(clustering__columns="b")
    # Not the option that is set now, but that of the schema that the files were written with.
    path = table.storage.layout.schema(1)
    schema = replace(other.storage.schema, id=1)
    other.storage.files.write(path, schema.to_json().encode())
    other = type(other)(other.storage.with_schema(schema), other.pointer, other.clock)
    before = rows(other)
    assert overlap(ranges(other, 5, 1))
    assert cluster(other, full=True) is not None
    assert rows(other) == before
    assert not overlap(ranges(other, 5, 1))


def test_partitions_at_rest_are_sorted_beside_those_asked_for(new_table: NewTable) -> None:
    options = {
        **CLUSTERED,
        "clustering.history-partition.idle-to-full-sort": "3 d",
        "clustering.history-partition.limit": "2",
    }
    table = new_table(COLUMNS, partition_keys=["p"], options=options)
    day = 86_400_000
    for partition in (3, 1, 2, 4):
        write(table, partition, day=partition)
        table.clock.millis += 1000
    table.clock.millis += 2 * day
    write(table, 5, day=5)
    table.clock.millis += 2 * day

    def sorted_partitions() -> set[object]:
        entries = live_entries(table.storage, latest(table))
        return {partition_values(table.storage, e.partition)[0] for e in entries if e.file.level}

    before = rows(table)
    assert cluster(table) is None
    # That which is asked for has nothing due; of the others the two that have waited longest.
    assert cluster(table, partition={"p": 4}) is not None
    assert sorted_partitions() == {3, 1}
    cluster(table, partition={"p": 5})
    assert sorted_partitions() == {3, 1, 2, 4}
    assert cluster(table, partition={"p": 5}) is None
    assert rows(table) == before


def test_files_may_be_sorted_by_themselves(new_table: NewTable) -> None:
    options = {
        **CLUSTERED,
        "clustering.incremental.mode": "local-sort",
        "source.split.target-size": "1 b",
        "clustering.columns": "a, b",
    }
    table = new_table(COLUMNS, options=options)
    for number in range(3):
        write(table, number)
    before = rows(table)
    assert cluster(table, full=True) is not None
    assert rows(table) == before
    assert levels(table) == [5, 5, 5]
    assert overlap(ranges(table, 5))


def test_deleted_rows_are_left_out(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={**CLUSTERED, "deletion-vectors.enabled": "true"})
    write(table, 0)
    write(table, 1)

    def delete(where: str) -> None:
        condition = parse_predicate(where, table.storage.schema)
        delete_from_table(table.storage, table.pointer, HERE, condition)

    delete("a < 5000")
    before = rows(table)
    cluster(table, full=True)
    assert rows(table) == before
    assert latest(table).total_record_count == len(before)
    delete("a < 6000")
    write(table, 2)
    before = rows(table)
    cluster(table, full=True)
    assert rows(table) == before
    assert all(
        not split.deletion_files for split in plan_snapshot(table.storage, latest(table)).splits
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"clustering.columns": ""}, "needs 'clustering.columns'"),
        ({"clustering.strategy": "spiral"}, "one of order, zorder, hilbert"),
        ({"clustering.strategy": "hilbert"}, "at least two columns"),
        ({"clustering.incremental.mode": "none"}, "global-sort or local-sort"),
        ({"num-levels": "1"}, "at least 2"),
        ({"bucket": "2", "bucket-key": "a"}, "order of writing"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    new_table: NewTable, changes: Mapping[str, str], problem: str
) -> None:
    table = new_table(COLUMNS, options={**CLUSTERED, **changes})
    write(table, 0)
    with pytest.raises(Invalid, match=problem):
        cluster(table, full=True)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bucket": "2", "bucket-key": "a"}, "'bucket-append-ordered' = 'false'"),
        (
            {
                "bucket": "2",
                "bucket-key": "a",
                "bucket-append-ordered": "false",
                "deletion-vectors.enabled": "true",
            },
            "excludes 'deletion-vectors.enabled'",
        ),
    ],
)
def test_schemas_that_cannot_be_clustered_are_refused(
    new_table: NewTable, changes: Mapping[str, str], problem: str
) -> None:
    table = new_table(COLUMNS, options={**CLUSTERED, **changes})
    with pytest.raises(Invalid, match=problem):
        check_schema(table.storage.schema)


def test_the_strategy_follows_the_number_of_columns(new_table: NewTable) -> None:
    names = [f"c{number}" for number in range(6)]
    for count, expected in ((1, "order"), (2, "zorder"), (4, "zorder"), (5, "hilbert")):
        options = {**CLUSTERED, "clustering.columns": ",".join(names[:count])}
        table = new_table([(name, "INT") for name in names], options=options)
        assert clustering_key(table.storage).strategy == expected
