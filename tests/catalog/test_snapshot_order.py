"""Rows of one key of which the one in the later snapshot wins, whatever numbers writers gave.

As in ``PrimaryKeySimpleTableTest.java`` and ``SortMergeSnapshotOrderingTest.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.modes import essential
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.write.table_writer import CommitMessage, TableWriter

ORDERED = {"bucket": "1", "sequence.snapshot-ordering": "true", "write-only": "true"}
COLUMNS = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), ("a", pa.int64()), ("b", pa.int64())]
)

# One way to reach a catalog will do: the engine is the same behind both.
pytestmark = pytest.mark.parametrize("lake", ["embedded"], indirect=True)


def new_table(lake: Lake, **options: str) -> Table:
    plain = option_names(options)
    return lake.create_table(
        "sales.ordered", COLUMNS, primary_keys=["k"], options={**ORDERED, **plain}
    )


def written(table: Table, rows: Mapping[str, list[Any]], first: int = 0) -> list[CommitMessage]:
    """Rows as a writer writes them that knows of no others: their numbers begin at `first`."""
    with TableWriter(
        table.storage,
        max_sequence_numbers=lambda partition, bucket: first - 1,
        checked_snapshot=SnapshotIdentity.of(table.latest_snapshot()),
    ) as writer:
        writer.write(pa.table(rows))
        return writer.finish()


def commit(table: Table, messages: list[CommitMessage]) -> Snapshot | None:
    return TableCommit(table.storage, table.pointer, "job").commit(messages)


def add(table: Table, rows: Mapping[str, list[Any]], first: int = 0) -> None:
    commit(table, written(table, rows, first))


def rows(table: Table, **scan: Any) -> list[tuple[Any, ...]]:
    found = table.scan(**scan).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def numbers(table: Table) -> list[tuple[str, list[int]]]:
    """Each live file's origin, with the numbers of its rows as they stand there."""
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    found: list[tuple[str, list[int]]] = []
    for entry in live_entries(table.storage, snapshot):
        directory = bucket_directory(table.storage, entry.partition, entry.bucket)
        stored = pq.read_table(local_path(f"{directory}/{entry.file.file_name}"))
        assert entry.file.file_source is not None
        found.append((entry.file.file_source.name, stored["_SEQUENCE_NUMBER"].to_pylist()))
    return sorted(found)


def test_the_later_snapshot_wins(lake: Lake) -> None:
    table = new_table(lake)
    early = written(table, {"k": [1, 2], "a": [10, 20]})
    add(table, {"k": [2, 3], "a": [21, 31]}, first=1000)
    commit(table, early)
    assert rows(table, columns=["k", "a"]) == [(1, 10), (2, 20), (3, 31)]
    files = table.inspect.files()
    assert sorted(files["min_sequence_number"].to_pylist()) == [1, 2]
    assert files["min_sequence_number"].equals(files["max_sequence_number"])
    # Nothing was written anew: the numbers in the files are the writers'.
    assert numbers(table) == [("APPEND", [0, 1]), ("APPEND", [1000, 1001])]
    assert rows(table, columns=["k", "a"], snapshot_id=1) == [(2, 21), (3, 31)]


def test_compacted_rows_have_the_number_of_their_snapshot(lake: Lake) -> None:
    table = new_table(lake)
    add(table, {"k": [1, 2, 3], "a": [10, 20, 30]}, first=500)
    add(table, {"k": [2], "a": [21]}, first=700)
    table.compact()
    assert numbers(table) == [("COMPACT", [1, 2, 1])]
    add(table, {"k": [1, 3], "a": [12, 32], "_ROW_KIND": ["+I", "-D"]})
    assert rows(table, columns=["k", "a"]) == [(1, 12), (2, 21)]
    table.compact()
    assert rows(table, columns=["k", "a"]) == [(1, 12), (2, 21)]
    assert numbers(table) == [("COMPACT", [4, 2])]


def test_a_file_that_a_compaction_moves_keeps_its_snapshot(lake: Lake) -> None:
    table = new_table(lake)
    add(table, {"k": [1, 2], "a": [10, 20]}, first=500)
    table.compact()
    assert numbers(table) == [("APPEND", [500, 501])]
    add(table, {"k": [1], "a": [11]})
    assert rows(table, columns=["k", "a"]) == [(1, 11), (2, 20)]
    table.compact()
    assert numbers(table) == [("COMPACT", [3, 1])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"merge-engine": "partial-update"}, (1, 12, 21)),
        (
            {
                "merge-engine": "aggregation",
                "fields.a.aggregate-function": "last_value",
                "fields.b.aggregate-function": "first_value",
            },
            (1, 12, None),
        ),
        ({"deletion-vectors.enabled": "true"}, (1, 12, None)),
        ({"changelog-producer": "lookup"}, (1, 12, None)),
        ({"changelog-producer": "full-compaction"}, (1, 12, None)),
        ({"bucket": "-1"}, (1, 12, None)),
        ({"merge-engine": "first-row"}, (1, 10, None)),
        ({"file.format": "orc"}, (1, 12, None)),
        ({"file.format": "avro"}, (1, 12, None)),
    ],
    ids=str,
)
@pytest.mark.parametrize("compacts", essential([False, True], {True}))
def test_merge_engines_go_by_snapshots(
    lake: Lake, options: dict[str, str], expected: tuple[Any, ...], compacts: bool
) -> None:
    table = lake.create_table(
        "sales.ordered", COLUMNS, primary_keys=["k"], options={**ORDERED, **options}
    )
    for number, (a, b) in enumerate([(10, None), (11, 21), (12, None)]):
        if options.get("bucket") == "-1":
            table.write(pa.table({"k": [1], "a": [a], "b": [b]}, COLUMNS))
        else:
            add(table, {"k": [1], "a": [a], "b": [b]}, first=1000 - 10 * number)
        if compacts:
            table.compact()
    table.compact()
    assert rows(table) == [expected]


def test_changes_of_rows_are_the_newest(lake: Lake) -> None:
    table = new_table(lake, changelog_producer="lookup")
    add(table, {"k": [1, 2, 3], "a": [1, 2, 3]}, first=900)
    table.update({"a": 20}, where="k = 2")
    table.delete("k = 3")
    assert rows(table, columns=["k", "a"]) == [(1, 1), (2, 20)]
    table.compact()
    assert rows(table, columns=["k", "a"]) == [(1, 1), (2, 20)]
    table.overwrite({"k": [1], "a": [5]})
    add(table, {"k": [1], "a": [6]})
    assert rows(table, columns=["k", "a"]) == [(1, 6)]


def test_the_audit_log_tells_the_snapshots(lake: Lake) -> None:
    table = new_table(lake, table_read__sequence_number__enabled="true")
    add(table, {"k": [1, 2], "a": [1, 2]}, first=100)
    add(table, {"k": [1], "a": [3]})
    found = table.inspect.audit_log().to_arrow()
    seen = zip(found["k"].to_pylist(), found["_SEQUENCE_NUMBER"].to_pylist(), strict=True)
    assert dict(seen) == {1: 2, 2: 1}


def test_a_retried_commit_has_the_number_that_it_gets(lake: Lake) -> None:
    table = new_table(lake)

    messages = written(table, {"k": [1], "a": [1]})
    latest, overtaken = table.pointer.latest, False

    class Overtaken:
        """Another commit comes after the first look at the latest snapshot."""

        def __getattr__(self, name: str) -> Any:
            return getattr(table.pointer, name)

        def latest(self) -> Snapshot | None:
            nonlocal overtaken
            found = latest()
            if not overtaken:
                overtaken = True
                add(table, {"k": [1], "a": [2]}, first=50)
            return found

    TableCommit(table.storage, Overtaken(), "job").commit(messages)
    assert sorted(table.inspect.files()["max_sequence_number"].to_pylist()) == [1, 2]
    assert rows(table, columns=["k", "a"]) == [(1, 1)]


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        ((), {"bucket": "-1"}, "needs a primary key"),
        (("k",), {"sequence.field": "a"}, "exclude each other"),
        (("k",), {"write-only": "false"}, "write-only"),
    ],
)
def test_what_contradicts_it_is_refused(
    lake: Lake, keys: tuple[str, ...], options: dict[str, str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        lake.create_table(
            "sales.ordered", COLUMNS, primary_keys=keys, options={**ORDERED, **options}
        )


def test_a_file_of_unknown_origin_is_refused(lake: Lake) -> None:
    table = new_table(lake)
    (message,) = written(table, {"k": [1], "a": [1]})
    files = tuple(replace(file, file_source=None) for file in message.new_files)
    commit(table, [replace(message, new_files=files)])
    add(table, {"k": [1], "a": [2]})
    with pytest.raises(Unsupported, match="does not say if a compaction wrote it"):
        rows(table)


def test_keys_that_move_between_partitions_go_by_snapshots(lake: Lake) -> None:
    columns = COLUMNS.append(pa.field("p", pa.string(), nullable=False))
    table = lake.create_table(
        "sales.moved",
        columns,
        primary_keys=["k"],
        partition_keys=["p"],
        options={**ORDERED, "bucket": "-1"},
    )
    for number, partition in enumerate("aab"):
        table.write(pa.table({"k": [1], "a": [number], "b": [0], "p": [partition]}, columns))
    assert rows(table, columns=["k", "a", "p"]) == [(1, 2, "b")]
    table.compact()
    assert rows(table, columns=["k", "a", "p"]) == [(1, 2, "b")]


def test_rows_that_wait_for_buckets_are_refused(lake: Lake) -> None:
    with pytest.raises(Unsupported, match=r"sequence\.snapshot-ordering=true.*wait for buckets"):
        new_table(lake, bucket="-2")


def property_of(table: Table) -> str | None:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    properties = snapshot.document.get("properties")
    assert properties is None or isinstance(properties, dict)
    found = (properties or {}).get("sequence.generation.max-sequence-number")
    return None if found is None else str(found)


def test_snapshots_tell_the_greatest_number_where_writers_look_for_it(lake: Lake) -> None:
    table = lake.create_table(
        "sales.told", COLUMNS, primary_keys=["k"], options={"bucket": "1", "write-only": "true"}
    )
    add(table, {"k": [1, 2], "a": [1, 1]}, first=40)
    assert property_of(table) is None
    told = table.with_options({"write.sequence-number-init-mode": "snapshot"})
    # What nobody told is looked up once.
    add(told, {"k": [1], "a": [2]}, first=7)
    assert property_of(table) == "41"
    told.write({"k": [1], "a": [3]})
    assert property_of(table) == "42"
    told.compact()
    assert property_of(table) == "42"
    told.compact_manifests()
    assert property_of(table) == "42"
    told.overwrite({"k": [9], "a": [9]})
    assert property_of(table) == "42"
    told.delete("k = 9")
    assert property_of(table) == "42"
    table.write({"k": [1], "a": [4]})
    assert property_of(table) is None
    with pytest.raises(Invalid, match="sequence-number-init-mode"):
        table.alter(SetOption("write.sequence-number-init-mode", "guess"))
