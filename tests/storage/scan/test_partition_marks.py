"""Plans of few partitions, whatever the order of the entries in the manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_container import write_avro
from headwater.storage.manifest.manifest import (
    EntryFilter,
    read_entries,
    read_manifest_list,
    write_manifests,
)
from headwater.storage.manifest.records import MANIFEST_SCHEMA, entry_record
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.rows.binary_row import serialize_row
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.values import StorageValue
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

FILES = 4
SHORT, LONG = [f"p{n}" for n in range(60)], [f"a longer name {n}" for n in range(60)]


def filled(
    new_table: NewTable,
    columns: list[tuple[str, str]],
    partitions: list[tuple[StorageValue, ...]],
) -> tuple[StoredTable, Snapshot]:
    """A table with some files in each partition, those of one partition far from each other."""
    names = [name for name, _ in columns]
    table = new_table([*columns, ("v", "INT")], partition_keys=names)
    types = [field.type for field in table.storage.schema.partition_fields]
    writer = TableWriter(table.storage, max_sequence_numbers={})
    plain = table.storage.schema.arrow
    writer.write(pa.Table.from_pylist([dict.fromkeys(plain.names)], schema=plain))
    (made,) = writer.finish()
    messages = [
        replace(
            made,
            partition=serialize_row(values, types),
            new_files=(replace(made.new_files[0], file_name=f"data-{turn}-{at}.parquet"),),
        )
        for turn in range(FILES)
        for at, values in enumerate(partitions)
    ]
    snapshot = TableCommit(table.storage, table.pointer, "me").commit(messages)
    assert snapshot is not None
    return table, snapshot


@pytest.mark.parametrize(
    ("column", "values", "literals"),
    [
        ("STRING", SHORT, [f"'{value}'" for value in SHORT]),
        ("VARCHAR(40)", LONG, [f"'{value}'" for value in LONG]),
        ("STRING", ["", "ü", "\U0001f600"], ["''", "'ü'", "'\U0001f600'"]),
        ("INT", list(range(-20, 40)), [str(n) for n in range(-20, 40)]),
        pytest.param(
            "BIGINT",
            [1 << n for n in range(60)],
            [str(1 << n) for n in range(60)],
            marks=pytest.mark.modes,
        ),
        pytest.param(
            "SMALLINT", list(range(60)), [str(n) for n in range(60)], marks=pytest.mark.modes
        ),
        ("DATE", list(range(31)), [f"DATE '1970-01-{1 + n:02}'" for n in range(31)]),
        ("BOOLEAN", [True, False], ["true", "false"]),
        ("DOUBLE", [-0.5, 0.5, 2.0], ["-0.5", "0.5", "2"]),
    ],
)
def test_a_partition_s_files_are_found(
    new_table: NewTable, column: str, values: list[StorageValue], literals: list[str]
) -> None:
    table, snapshot = filled(new_table, [("p", column)], [(value,) for value in [*values, None]])
    for literal in literals:
        for where in (f"p = {literal}", f"p IN ({literal}, {literals[0]}) AND p = {literal}"):
            predicate = parse_predicate(where, table.storage.schema)
            plan = plan_snapshot(table.storage, snapshot, predicate=predicate)
            assert sum(len(split.files) for split in plan.splits) == FILES, where
            assert plan.files_skipped == FILES * len(values), where
    types = [field.type for field in table.storage.schema.partition_fields]
    for value in [*values[:3], None]:
        row = serialize_row([value], types)
        found = live_entries(table.storage, snapshot, partitions=[row])
        assert [entry.partition for entry in found] == [row] * FILES


def test_conditions_on_some_of_the_partition_columns(new_table: NewTable) -> None:
    partitions: list[tuple[StorageValue, ...]] = [(f"d{n % 9}", n) for n in range(60)]
    table, snapshot = filled(new_table, [("d", "STRING"), ("n", "INT")], [*partitions, (None, 7)])

    def files(where: str) -> int:
        predicate = parse_predicate(where, table.storage.schema)
        plan = plan_snapshot(table.storage, snapshot, predicate=predicate)
        return sum(len(split.files) for split in plan.splits) // FILES

    assert files("d = 'd4' AND n = 13") == 1
    assert files("d = 'd4'") == 7
    assert files("n = 7") == 2
    assert files("d IS NULL") == 1
    assert files("d = 'd4' OR n = 7") == 9
    assert files("n >= 50") == 10
    assert files("NOT d = 'd4'") == 53
    assert files("d = 'd4' AND n = 99999999999") == 0
    assert files("d = 'd4' AND v IS NULL") == 7
    assert files("d IN ('d1', 'd2')") == 14
    assert files(f"n IN ({', '.join(map(str, range(30)))})") == 31


def test_a_manifest_that_lacks_entries_is_noticed(new_table: NewTable) -> None:
    table, snapshot = filled(new_table, [("p", "STRING")], [(value,) for value in SHORT])
    (listed,) = read_manifest_list(table.storage, snapshot.delta_manifest_list)
    wrong = replace(listed, num_added_files=listed.num_added_files + 1)
    for mark, counted in ((b"p7", "adds 240 .* says 241"), (b"elsewhere", "has 240 entries")):
        only = EntryFilter([[mark]], lambda entries: np.ones(len(entries), np.bool_))
        with pytest.raises(CorruptData, match=counted):
            read_entries(table.storage, [wrong], only)


def test_entries_of_a_version_of_the_future_are_refused(new_table: NewTable) -> None:
    table, snapshot = filled(new_table, [("p", "STRING")], [("a",)])
    (entry, *_) = live_entries(table.storage, snapshot)
    (made,) = write_manifests(table.storage, [entry])
    record = {**entry_record(entry), "_VERSION": 3}
    data = write_avro(MANIFEST_SCHEMA, [record], "zstandard")
    table.storage.files.write(table.storage.layout.manifest(made.file_name), data)
    made = replace(made, file_size=len(data))
    only = EntryFilter([[b"elsewhere"]], lambda entries: np.ones(len(entries), np.bool_))
    with pytest.raises(Unsupported, match="version 3"):
        read_entries(table.storage, [made], only)
