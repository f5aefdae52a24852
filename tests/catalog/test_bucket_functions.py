"""Tables whose buckets are computed by Paimon's other bucket functions, or that get new ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.schema.change import RemoveOption, SetOption

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
KEYS = range(-12, 13)


def _table(folder: Path, options: Mapping[str, str], *, keyed: bool = True) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    return lake.create_table("d.t", SCHEMA, primary_keys=["k"] if keyed else [], options=options)


def _found(table: Table, where: str | None = None) -> list[tuple[object, ...]]:
    rows = table.scan(where=where).to_arrow()
    return sorted(zip(*rows.to_pydict().values(), strict=True))


def _buckets(table: Table) -> dict[int, set[int]]:
    """The keys of each bucket."""
    scan = table.scan(columns=["k"])
    found: dict[int, set[int]] = {}
    for split in scan.splits:
        for batch in scan.read_split(split):
            found.setdefault(split.bucket, set()).update(batch["k"].to_pylist())
    return found


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_are_found_in_the_bucket_of_their_function(tmp_path: Path, keyed: bool) -> None:
    options = {"bucket": "4", "bucket-key": "k", "bucket-function.type": "mod"}
    table = _table(tmp_path, options, keyed=keyed)
    rows = [(key, f"v{key}") for key in KEYS]
    table.write(pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}))
    assert _buckets(table) == {b: {k for k in KEYS if k % 4 == b} for b in range(4)}
    for key in KEYS:
        # One bucket is looked into, and it is the right one.
        assert [split.bucket for split in table.scan(where=f"k = {key}").splits] == [key % 4]
        assert _found(table, f"k = {key}") == [(key, f"v{key}")]
    table.delete("k IN (-3, 8)")
    table.compact()
    assert _found(table) == [row for row in rows if row[0] not in (-3, 8)]


def test_hive_buckets_are_read_as_they_are_written(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema(
        [pa.field("t", pa.string(), False), pa.field("d", pa.decimal128(20, 3), False)]
    )
    options = {"bucket": "5", "bucket-function.type": "hive"}
    table = lake.create_table("d.t", schema, primary_keys=["t", "d"], options=options)
    rows = pa.table({"t": [f"t{k}" for k in KEYS], "d": [f"{k}.{k % 2}00" for k in KEYS]})
    table.write(rows.cast(schema))
    assert {file.bucket for file in table.files()} == set(range(5))
    for row in rows.to_pylist():
        scan = table.scan(where=f"t = '{row['t']}' AND d = {row['d']}")
        assert len({split.bucket for split in scan.splits}) == 1
        assert scan.to_arrow()["t"].to_pylist() == [row["t"]]


@pytest.mark.parametrize(
    ("options", "keys", "message"),
    [
        ({"bucket-function.type": "mod"}, ["k", "v"], "one INT or BIGINT column"),
        ({"bucket-function.type": "mod"}, ["v"], "one INT or BIGINT column"),
        ({"bucket-function.type": "hive"}, ["k", "t"], "no TIMESTAMP"),
        ({"bucket-function.type": "murmur"}, ["k"], "one of default, mod, hive"),
    ],
)
def test_a_function_that_does_not_fit_its_key_is_refused(
    tmp_path: Path, options: Mapping[str, str], keys: list[str], message: str
) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = SCHEMA.append(pa.field("t", pa.timestamp("us")))
    with pytest.raises(Invalid, match=message):
        lake.create_table("d.t", schema, primary_keys=keys, options={"bucket": "2", **options})


def test_the_function_of_a_table_with_rows_stays(tmp_path: Path) -> None:
    table = _table(tmp_path, {"bucket": "2", "bucket-function.type": "mod"})
    table.write({"k": [1], "v": ["a"]})
    for change in (SetOption("bucket-function.type", "hive"), RemoveOption("bucket-function.type")):
        with pytest.raises(Invalid, match=r"bucket-function\.type"):
            table.alter(change)


def _partitioned(folder: Path) -> Table:
    lake = connect(str(folder))
    lake.create_database("d")
    schema = SCHEMA.append(pa.field("p", pa.int32(), False))
    return lake.create_table(
        "d.t", schema, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "2"}
    )


def _rows(partition: int, keys: range) -> pa.Table:
    values = {"k": keys, "v": [f"{partition}.{key}" for key in keys], "p": [partition] * len(keys)}
    return pa.table({name: list(column) for name, column in values.items()})


def test_partitions_get_a_new_number_of_buckets_when_they_are_overwritten(tmp_path: Path) -> None:
    table = _partitioned(tmp_path)
    for partition in (1, 2):
        table.write(_rows(partition, range(40)))
    before = _found(table)
    table.alter(SetOption("bucket", "5"))
    # Partitions keep the number they have: rows are found, and none are added by another.
    assert _found(table) == before
    assert _found(table, "p = 1 AND k = 7") == [(7, "1.7", 1)]
    with pytest.raises(
        Invalid, match=r"partition p=1 has 2 buckets, but the option 'bucket' says 5"
    ):
        table.write(_rows(1, range(3)))
    with pytest.raises(Invalid, match="has 2 buckets"):
        table.delete("k = 3")
    table.write(_rows(3, range(40)))
    table.overwrite(table.scan(where="p = 1").to_arrow())
    assert _totals(table) == {1: 5, 2: 2, 3: 5}
    table.write(_rows(1, range(40, 50)))
    assert _found(table) == sorted([*before, *_tuples(1, range(40, 50)), *_tuples(3, range(40))])
    for key in range(0, 40, 4):
        for partition, found in ((1, 1), (2, 1), (3, 1)):
            assert len(_found(table, f"p = {partition} AND k = {key}")) == found
    table.compact()
    assert _found(table, "p = 1") == _tuples(1, range(50))
    assert _totals(table) == {1: 5, 2: 2, 3: 5}


def _tuples(partition: int, keys: range) -> list[tuple[object, ...]]:
    return sorted(zip(*_rows(partition, keys).to_pydict().values(), strict=True))


def _totals(table: Table) -> dict[object, int]:
    return {split.partition_values[0]: split.total_buckets for split in table.scan().splits}


def test_rows_spread_over_the_former_buckets_are_not_committed(tmp_path: Path) -> None:
    table = _partitioned(tmp_path)
    table.write(_rows(1, range(4)))
    slow = connect(str(tmp_path)).table("d.t")
    # A writer that began before the number changed.
    table.alter(SetOption("bucket", "5"))
    with pytest.raises(Conflict, match="option 'bucket' changed from 2 to 5"):
        slow.write(_rows(2, range(4)))
    assert _found(table) == _tuples(1, range(4))
    table.truncate()
    assert _found(table) == []
