"""Tables whose data files have indexes: what is read, and what becomes of the indexes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.modes import essential

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnType,
)
from headwater.storage.snapshot.snapshot import CommitKind
from headwater.storage.types.data_type import parse_type
from headwater.storage.write.table_writer import CommitMessage

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), ("v", pa.int64()), ("t", pa.string()), ("x", pa.float64())]
)
EMBEDDED = {"file-index.in-manifest-threshold": "1 mb"}
BESIDE = {"file-index.in-manifest-threshold": "0 b"}


def _table(
    folder: Path, options: Mapping[str, str], primary_keys: Sequence[str] = (), name: str = "d.t"
) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    return lake.create_table(name, SCHEMA, primary_keys=primary_keys, options=options)


def _rows(keys: Sequence[int], values: Sequence[int | None]) -> pa.Table:
    texts = [None if value is None else f"text {value}" for value in values]
    floats = [None if value is None else value / 4 for value in values]
    return pa.table({"k": keys, "v": values, "t": texts, "x": floats}, schema=SCHEMA)


def _keys(table: Table, where: str) -> list[int]:
    keys = sorted(table.scan(columns=["k"], where=where).to_arrow()["k"].to_pylist())
    plain = table.with_options({"file-index.read.enabled": "false"})
    assert keys == sorted(plain.scan(columns=["k"], where=where).to_arrow()["k"].to_pylist())
    return keys


def _files(table: Table) -> list[DataFile]:
    return [file for split in table.scan().splits for file in split.files]


def _folder(table: Table) -> Path:
    return Path(table.info.path.removeprefix("file://"))


def _paths(table: Table, ending: str = ".index") -> list[Path]:
    return sorted(_folder(table).rglob(f"*{ending}"))


INDEXES = {
    "file-index.bloom-filter.columns": "k,t",
    "file-index.bloom-filter.k.items": "50",
    "file-index.bloom-filter.t.items": "50",
    "file-index.bitmap.columns": "v",
    "file-index.range-bitmap.columns": "x,t",
}


def test_a_lookup_reads_the_files_that_may_hold_it(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | EMBEDDED | {"file-index.bloom-filter.k.fpp": "0.001"})
    # The values of all files lie in the same range: statistics tell nothing.
    for part in range(10):
        table.write(_rows(range(part, 500, 10), [*range(part, 490, 10), None]))
    scan = table.scan(where="k = 123")
    assert scan.to_arrow()["k"].to_pylist() == [123]
    assert scan.plan is not None
    assert scan.plan.files_skipped_by_index == scan.plan.files_skipped == 9
    assert scan.plan.rows_skipped_by_index == 450
    assert sum(len(split.files) for split in scan.splits) == 1
    without = table.with_options({"file-index.read.enabled": "false"}).scan(where="k = 123")
    assert without.plan is not None
    assert (without.plan.files_skipped_by_index, len(without.splits[0].files)) == (0, 10)
    for where, files in {"v = 7": 1, "v IN (7, 8)": 2, "x = 2.0": 1, "t = 'text 7'": 1}.items():
        assert len(_keys(table, where)) == files
        assert sum(len(s.files) for s in table.scan(where=where).splits) == files
    assert _keys(table, "v IS NULL") == list(range(490, 500))
    assert len(_keys(table, "v <> 7")) == 489
    assert len(_keys(table, "NOT v IN (7, 17)")) == 488
    assert _keys(table, "x > 121.6 AND x <= 122") == [487, 488]
    assert _keys(table, "x > 121.9 OR k = 3") == [3, 488, 489]


@pytest.mark.parametrize("threshold", [EMBEDDED, BESIDE], ids=["embedded", "beside"])
def test_a_file_that_an_index_excludes_is_not_opened(
    tmp_path: Path, threshold: Mapping[str, str]
) -> None:
    table = _table(tmp_path, {**INDEXES, **threshold})
    table.write(_rows([1, 3], [1, 3]))
    [file] = _files(table)
    assert (file.embedded_file_index is None) is bool(file.extra_files)
    assert len(_paths(table)) == len(file.extra_files)
    for path in _paths(table, ".parquet"):
        path.unlink()
    assert table.scan(where="v = 2").to_arrow().num_rows == 0
    assert table.scan(where="x > 1 AND x < 2 AND v = 1").to_arrow().num_rows == 0
    with pytest.raises(CorruptData, match=r"data-.*\.parquet"):
        table.scan(where="v = 3").to_arrow()


def test_rows_of_a_file_are_chosen_by_position(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | BESIDE)
    random = Random(3)
    values = [random.randint(0, 400) for _ in range(70_000)]
    table.write(_rows(range(70_000), values))
    expected = [at for at, value in enumerate(values) if value == 7]
    assert _keys(table, "v = 7") == expected
    for batch_rows in (1000, 65_536):
        batches = table.scan(where="v = 7").to_batches(batch_rows=batch_rows)
        assert [key for batch in batches for key in batch["k"].to_pylist()] == expected
    assert table.scan(where="v = 7").count() == len(expected)


def test_a_damaged_or_missing_index_is_named(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | BESIDE)
    table.write(_rows([1, 2], [1, 2]))
    [path] = _paths(table)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(CorruptData, match=path.name):
        table.scan(where="v = 1").to_arrow()
    path.unlink()
    with pytest.raises(CorruptData, match=path.name):
        table.scan(where="v = 1").to_arrow()
    # Nothing needs it when nothing is asked of it.
    assert table.scan().to_arrow().num_rows == 2
    plain = table.with_options({"file-index.read.enabled": "false"})
    assert plain.scan(where="v = 1").to_arrow().num_rows == 1


@pytest.mark.parametrize("threshold", [EMBEDDED, BESIDE], ids=["embedded", "beside"])
def test_an_index_never_brings_an_old_row_to_light(
    tmp_path: Path, threshold: Mapping[str, str]
) -> None:
    table = _table(tmp_path, {"bucket": "1", **INDEXES, **threshold}, ["k"])
    table.write(_rows([1, 2, 3], [10, 20, 30]))
    table.write(_rows([1], [11]))
    assert _keys(table, "v = 10") == []
    assert _keys(table, "t = 'text 10'") == []
    assert _keys(table, "x = 2.5") == []
    assert _keys(table, "v = 11") == [1]
    # Keys may leave a file out: all versions of a row have one key.
    plan = table.scan(where="k = 5").plan
    assert plan is not None
    assert plan.files_skipped == 2
    plan = table.scan(where="k = 2").plan
    assert plan is not None
    assert plan.files_skipped == 1
    table.delete("k = 2")
    assert _keys(table, "v = 20") == []
    table.compact()
    assert [bool(f.extra_files) for f in _files(table)] == [threshold is BESIDE]
    for value, keys in {10: [], 11: [1], 20: [], 30: [3]}.items():
        assert _keys(table, f"v = {value}") == keys


def test_an_index_knows_a_column_by_its_id_and_type(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | EMBEDDED)
    table.write(_rows([1, 2], [256, 2]))
    table.alter(
        RemoveOption("file-index.bitmap.columns"),
        RenameColumn(("v",), "w"),
        SetOption("file-index.bitmap.columns", "w"),
        AddColumn(("v",), parse_type("BIGINT")),
    )
    plan = table.scan(where="w = 3").plan
    assert plan is not None
    assert plan.files_skipped_by_index == 1
    assert _keys(table, "w = 2") == [2]
    # Another column with the old name: null in the old file, whatever its index says.
    assert _keys(table, "v = 2") == []
    assert _keys(table, "v IS NULL") == [1, 2]
    table.alter(UpdateColumnType(("w",), parse_type("TINYINT")))
    # 256 is 0 as a TINYINT: the index of the file does not know it.
    assert _keys(table, "w = 0") == [1]
    assert _keys(table, "w <> 1") == [1, 2]


def test_a_column_with_an_index_stays(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES)
    for change in (RenameColumn(("v",), "w"), DropColumn(("v",))):
        with pytest.raises(Invalid, match="'v'"):
            table.alter(change)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"file-index.bitmap.columns": "absent"}, "'absent'"),
        ({"file-index.bitmap.columns": "v,"}, "without a name"),
        ({"file-index.bsi.columns": "t"}, "bsi cannot hold"),
        ({"file-index.bitmap.columns": "v[a]"}, "MAP"),
        ({"file-index.bloom-filter.v.fpp": "0.1"}, "does not name"),
        ({"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.fpp": "2"}, "between"),
        ({"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "x"}, "items"),
        ({"file-index.bitmap.columns": "v", "file-index.bitmap.v.version": "3"}, "version"),
    ],
)
def test_an_index_that_cannot_be_is_refused(
    tmp_path: Path, options: Mapping[str, str], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        _table(tmp_path, options)


def test_an_index_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="'lumina'"):
        _table(tmp_path, {"file-index.lumina.columns": "v"})


def test_index_files_go_with_their_data_files(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | BESIDE)
    for part in range(3):
        table.write(_rows([part], [part]))
    old = _paths(table)
    assert len(old) == 3
    # Nothing of a table is an orphan.
    assert table.remove_orphan_files(older_than=timedelta(0), dry_run=True).files == ()
    table.compact()
    assert len(_paths(table)) == 4
    table.delete("k = 1")
    assert _keys(table, "v >= 0") == [0, 2]
    assert len(_paths(table)) == 5
    table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0))
    [kept] = _files(table)
    assert [path.name for path in _paths(table)] == list(kept.extra_files)
    assert len(_paths(table, ".parquet")) == 1
    stray = _paths(table)[0].with_name("data-of-nobody.parquet.index")
    stray.write_bytes(b"")
    os.utime(stray, (1, 1))
    done = table.remove_orphan_files(older_than=timedelta(0))
    assert not stray.exists()
    assert len(done.files) == 1
    assert _keys(table, "v = 2") == [2]


@pytest.mark.parametrize("primary_keys", [[], ["k"]], ids=["append", "keyed"])
@pytest.mark.parametrize(
    "threshold", essential([EMBEDDED, BESIDE], [BESIDE]), ids=["embedded", "beside"]
)
def test_files_that_are_there_get_their_indexes(
    tmp_path: Path, threshold: Mapping[str, str], primary_keys: Sequence[str]
) -> None:
    table = _table(tmp_path, {"bucket": "1", "bucket-key": "k", "write-only": "true"}, primary_keys)
    for part in range(4):
        table.write(_rows(range(part, 40, 4), range(part, 40, 4)))
    assert table.rewrite_file_indexes() is None
    before = {file.file_name for file in _files(table)}
    rows = table.scan().to_arrow()
    options = {"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "20"}
    table.alter(*(SetOption(key, value) for key, value in {**options, **threshold}.items()))
    snapshot = table.rewrite_file_indexes()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert {file.file_name for file in _files(table)} == before
    assert len(_paths(table)) == (4 if threshold is BESIDE else 0)
    assert table.scan().to_arrow().equals(rows)
    plan = table.scan(where="k = 7").plan
    assert plan is not None
    if threshold is EMBEDDED:
        assert plan.files_skipped_by_index >= 2
    assert _keys(table, "k = 7") == [7]
    assert table.rewrite_file_indexes() is None
    # One more index, and later the first one is dropped; each time with other index files.
    table.alter(SetOption("file-index.bitmap.columns", "v"))
    table.write(_rows([50], [50]))
    earlier = {path: path.read_bytes() for path in _paths(table)}
    assert table.rewrite_file_indexes() is not None
    # What earlier snapshots need stays as it was.
    assert {path: path.read_bytes() for path in earlier} == earlier
    assert _keys(table, "v = 7") == [7]
    table.alter(*(RemoveOption(key) for key in options))
    assert table.rewrite_file_indexes() is not None
    for file in _files(table):
        assert b"bloom-filter" not in (file.embedded_file_index or b"")
    assert _keys(table, "v = 50") == [50]
    table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0))
    assert {path.name for path in _paths(table)} == {
        name for file in _files(table) for name in file.extra_files
    }
    assert len(_paths(table, ".parquet")) == 5
    assert _keys(table, "v = 7") == [7]
    table.alter(RemoveOption("file-index.bitmap.columns"))
    table.rewrite_file_indexes()
    assert all(f.extra_files == () and f.embedded_file_index is None for f in _files(table))


def test_old_files_get_indexes_under_the_names_of_their_columns(tmp_path: Path) -> None:
    table = _table(tmp_path, EMBEDDED)
    table.write(_rows([1, 2, 3], [256, 2, 9]))
    table.delete("v = 9")
    table.alter(
        RenameColumn(("v",), "w"),
        AddColumn(("v",), parse_type("BIGINT")),
        SetOption("file-index.bitmap.columns", "v,w"),
    )
    assert table.rewrite_file_indexes() is not None
    [file] = _files(table)
    assert file.embedded_file_index is not None
    plan = table.scan(where="w = 3").plan
    assert plan is not None
    assert plan.files_skipped_by_index == 1
    assert _keys(table, "w = 2") == [2]
    assert _keys(table, "v IS NULL") == [1, 2]
    assert table.rewrite_file_indexes() is None


def test_indexes_count_the_rows_that_a_deletion_vector_deletes(tmp_path: Path) -> None:
    table = _table(tmp_path, {"deletion-vectors.enabled": "true", **EMBEDDED})
    table.write(_rows(range(100), [number % 10 for number in range(100)]))
    table.delete("k < 50")
    table.alter(SetOption("file-index.bitmap.columns", "v"))
    assert table.rewrite_file_indexes() is not None
    assert _keys(table, "v = 3") == [53, 63, 73, 83, 93]
    assert _keys(table, "v = 11") == []


def test_only_the_files_of_a_partition_get_indexes(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema([("p", pa.string()), ("v", pa.int64())])
    table = lake.create_table("d.t", schema, partition_keys=["p"], options=EMBEDDED)
    table.write({"p": ["a", "b"], "v": [1, 2]})
    table.alter(SetOption("file-index.bitmap.columns", "v,p"))
    table.rewrite_file_indexes({"p": "a"})
    assert sorted(file.embedded_file_index is not None for file in _files(table)) == [False, True]
    assert table.scan(where="p = 'a' AND v = 1").to_arrow().num_rows == 1
    assert table.scan(where="p = 'b' AND v = 2").to_arrow().num_rows == 1


def test_keys_of_a_map_have_indexes_of_their_own(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    options = {"file-index.bitmap.columns": "m[a],m[b]", "file-index.bitmap.m.version": "1"}
    table = lake.create_table("d.t", schema, options=options)
    table.write(pa.table({"m": [[("a", 1)], None, [("b", 2), ("a", 3)]]}, schema=schema))
    assert table.scan(where="m IS NOT NULL").to_arrow().num_rows == 2
    [file] = _files(table)
    assert file.embedded_file_index is not None
    assert b"m[a]" in file.embedded_file_index
    with pytest.raises(Invalid, match="keys of text"):
        lake.create_table(
            "d.u",
            pa.schema([("m", pa.map_(pa.int64(), pa.int64()))]),
            options={"file-index.bitmap.columns": "m[1]"},
        )


def test_rows_that_a_deletion_vector_deletes_stay_deleted(tmp_path: Path) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", **INDEXES, **BESIDE}
    table = _table(tmp_path, options)
    table.write(_rows(range(1000), [number % 10 for number in range(1000)]))
    table.delete("k >= 100 AND k < 900")
    assert _keys(table, "v = 3") == [*range(3, 100, 10), *range(903, 1000, 10)]
    assert _keys(table, "v = 3 AND k = 203") == []


@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
def test_a_damaged_index_file_is_rebuilt(tmp_path: Path, damage: str) -> None:
    table = _table(tmp_path, INDEXES | BESIDE)
    table.write(_rows([1, 2, 3], [1, 2, None]))
    table.write(_rows([4], [4]))
    path = _paths(table)[0]
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-2] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    problems = [damage.problem for damage in table.check_files().damages]
    assert len(problems) == 1
    assert path.name in problems[0]
    snapshot = table.rewrite_file_indexes()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert table.rewrite_file_indexes() is None
    for value in (1, 2, 4):
        assert _keys(table, f"v = {value} AND t = 'text {value}'") == [value]
    assert _keys(table, "v IS NULL") == [3]
    # The files of the latest snapshot are checked, too, not only those of the first.
    (renewed,) = (name for file in _files(table) for name in file.extra_files if "parquet-" in name)
    (path,) = _paths(table, renewed)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert any(renewed in damage.problem for damage in table.check_files().damages)


def test_an_embedded_index_is_checked_and_rebuilt(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | EMBEDDED)
    table.write(_rows([1, 2], [1, 2]))
    (split,) = table.scan().splits
    (file,) = split.files
    index = file.embedded_file_index
    assert index is not None
    damaged = replace(file, embedded_file_index=index[:-1] + bytes([index[-1] ^ 1]))
    message = CommitMessage(
        split.partition, 0, -1, compact_before=(file,), compact_after=(damaged,)
    )
    table._new_commit().commit([message])
    with pytest.raises(CorruptData, match=r"checksum mismatch.*rewrite-file-indexes"):
        table.scan(where="k = 1 AND v = 1 AND x = 0.25 AND t = 'text 1'").to_arrow()
    (problem,) = (damage.problem for damage in table.check_files().damages)
    assert "in its manifest" in problem
    assert table.rewrite_file_indexes() is not None
    assert _keys(table, "v = 1 AND t = 'text 1' AND x = 0.25") == [1]
    assert [file.embedded_file_index for file in _files(table)] == [index]


def test_an_index_of_other_rows_is_found_by_a_deep_check(tmp_path: Path) -> None:
    table = _table(tmp_path, INDEXES | BESIDE)
    table.write(_rows([1, 2], [1, 2]))
    table.write(_rows([3, 4], [3, 4]))
    first, second = _paths(table)
    first.write_bytes(second.read_bytes())
    assert table.check_files().is_whole
    assert [first.name in damage.problem for damage in table.check_files(deep=True).damages] == [
        True
    ]
    assert table.rewrite_file_indexes() is None
    assert table.rewrite_file_indexes(rebuild=True) is not None
    for value in (1, 2, 3, 4):
        assert _keys(table, f"v = {value} AND t = 'text {value}'") == [value]
