"""CHAR columns: the same values and rows from every format, whatever engine wrote the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.files.local import local_path
from headwater.storage.manifest.key_range import key_range
from headwater.storage.manifest.statistics import KEY_STATISTICS, column_statistics
from headwater.storage.predicate.filter import may_match, parse_predicate
from headwater.storage.predicate.tree import In
from headwater.storage.rows.binary_row import serialize_row
from headwater.storage.scan.column_ranges import value_ranges
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import SetOption, UpdateColumnDefaultValue, UpdateColumnType
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    MapType,
    RowType,
    parse_type,
)

FIELDS = (
    DataField(0, "c", parse_type("CHAR(4)")),
    DataField(1, "v", parse_type("INT")),
    DataField(2, "w", parse_type("STRING")),
)
FORMATS = ("parquet", "orc", "avro")
KEYED = {"bucket": "3"}
CHAR2, CHAR3 = parse_type("CHAR(2)"), parse_type("CHAR(3)")
NESTED = (
    DataField(0, "a", ArrayType(CHAR3)),
    DataField(1, "m", MapType(replace(CHAR2, nullable=False), CHAR3)),
    DataField(2, "r", RowType((DataField(3, "x", CHAR2), DataField(4, "y", ArrayType(CHAR2))))),
)
INDEXED = {"file-index.bitmap.columns": "c", "file-index.bloom-filter.columns": "c"}


def make(
    folder: Path,
    options: Mapping[str, str],
    keys: tuple[str, ...] = (),
    fields: tuple[DataField, ...] = FIELDS,
    partition_keys: tuple[str, ...] = (),
) -> Table:
    lake = connect(folder)
    lake.create_database("d")
    fields = tuple(
        replace(item, type=replace(item.type, nullable=item.name not in keys)) for item in fields
    )
    schema = Schema(fields, primary_keys=keys, partition_keys=partition_keys)
    return lake.create_table("d.t", schema, options=dict(options))


def of_another_engine(folder: Path, table: Table) -> Table:
    """A table whose STRING columns are CHAR(4), so that they hold what was written to them."""
    location = local_path(table.storage.layout.location)
    path = Path(location, "schema", "schema-0")
    document = json.loads(path.read_text())
    for field in document["fields"]:
        field["type"] = field["type"].replace("STRING", "CHAR(4)")
    path.write_text(json.dumps(document))
    lake = connect(folder)
    lake.create_database("d")
    return lake.register_table("d.t", location)


def unpadded(
    folder: Path, form: str, keys: tuple[str, ...] = (), options: Mapping[str, str] = {}
) -> Table:
    """A table of another engine, which did not pad its texts."""
    fields = (replace(FIELDS[0], type=parse_type("STRING")), FIELDS[1])
    made = make(folder / "theirs", {"file.format": form, **options}, keys, fields)
    made.write({"c": ["a", "b ", "abcd"], "v": pa.array([1, 2, 3], pa.int32())})
    return of_another_engine(folder / "ours", made)


def rows(table: Table, where: str | None = None) -> list[tuple[object, ...]]:
    result = table.scan(where=where).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in result.columns), strict=True))


def texts(table: Table, where: str | None = None) -> list[object]:
    return [row[0] for row in rows(table, where)]


CONDITIONS = {
    "c = 'b'": ["b   "],
    "c = 'b '": ["b   "],
    "c = 'b       '": ["b   "],
    "c = 'abcde'": [],
    "c <> 'b'": ["a   ", "abcd"],
    "c IN ('a', 'b  ', 'x')": ["a   ", "b   "],
    "c NOT IN ('a')": ["abcd", "b   "],
    "c >= 'b'": ["b   "],
    "c < 'b' AND c > 'a'": ["abcd"],
    "c LIKE 'b'": [],
    "NOT (c LIKE 'b')": ["a   ", "abcd", "b   "],
    "c LIKE 'b   '": ["b   "],
    "c LIKE 'a %'": ["a   "],
    "c LIKE 'a%'": ["a   ", "abcd"],
    "c = 'b' OR v = 1": ["a   ", "b   "],
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [{}, INDEXED, {"bucket": "4", "bucket-key": "c"}])
def test_values_and_conditions_are_those_of_every_format(
    tmp_path: Path, form: str, options: Mapping[str, str]
) -> None:
    """Each row in a file of its own, so that files are left out by each condition."""
    table = make(tmp_path / "padded", {"file.format": form, **options})
    for text, number in (("a   ", 1), ("b", 2), ("abcd", 3)):
        table.write({"c": [text], "v": pa.array([number], pa.int32())})
    theirs = unpadded(tmp_path, form, options=options)
    for item in (table, theirs):
        assert texts(item) == ["a   ", "abcd", "b   "]
        for condition, expected in CONDITIONS.items():
            assert texts(item, condition) == expected, condition
        assert item.scan(where="c = 'b'").count() == 1
        assert item.changes(0, where="c = 'b'").to_arrow()["c"].to_pylist() == ["b   "]
        lazy = item.scan().lazy()
        assert lazy.filter(pl.col("c") == "b").collect().height == 0
        assert lazy.filter(pl.col("c") == "b   ").collect().height == 1
        assert lazy.filter(pl.col("c") != "b").collect().height == 3
        assert lazy.filter(pl.col("c") > "b").collect().height == 1
    assert len(table.scan(where="c = 'b'").splits) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_values_within_nested_ones_are_padded(tmp_path: Path, form: str) -> None:
    table = make(tmp_path, {"file.format": form}, fields=NESTED)
    types = table.scan().schema
    given: dict[str, object] = {
        "a": ["x", None],
        "m": [("k", "y"), ("kk", None)],
        "r": {"x": "q", "y": ["z"]},
    }
    nothing: dict[str, object] = {"a": None, "m": [], "r": None}
    table.write(pa.Table.from_pylist([given, nothing], types))
    padded = {"a": ["x  ", None], "m": [("k ", "y  "), ("kk", None)], "r": {"x": "q ", "y": ["z "]}}
    assert table.scan().to_arrow().to_pylist() == [padded, nothing]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_another_format_changes_no_row(tmp_path: Path, form: str, other: str) -> None:
    table = make(tmp_path, {"file.format": form, **KEYED}, ("c",))
    table.write({"c": ["a", "b   "], "v": pa.array([1, 2], pa.int32())})
    table = table.alter(SetOption("file.format", other))
    table.write({"c": ["a  "], "v": pa.array([3], pa.int32())})
    for _ in range(2):
        assert rows(table) == [("a   ", 3, None), ("b   ", 2, None)]
        assert rows(table, "c = 'a'") == [("a   ", 3, None)]
        table.compact(full=True)
    table.delete("c = 'b'")
    assert texts(table) == ["a   "]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("theirs", [False, True])
@pytest.mark.parametrize(
    ("kind", "read", "condition", "found"),
    [
        ("STRING", ["a   ", "abcd", "b   "], "c = 'b   '", ["b   "]),
        ("VARCHAR(9)", ["a   ", "abcd", "b   "], "c = 'b'", []),
        ("VARCHAR(2)", ["a ", "ab", "b "], "c >= 'b '", ["b "]),
        ("CHAR(6)", ["a     ", "abcd  ", "b     "], "c = 'b'", ["b     "]),
        ("CHAR(1)", ["a", "a", "b"], "c = 'b'", ["b"]),
    ],
)
def test_another_type_is_that_of_padded_values(
    tmp_path: Path,
    form: str,
    theirs: bool,
    kind: str,
    read: list[str],
    condition: str,
    found: list[str],
) -> None:
    options = {"file.format": form, **INDEXED} if kind == "STRING" else {"file.format": form}
    if theirs:
        table = unpadded(tmp_path, form)
    else:
        options.pop("file-index.bitmap.columns", None)
        options.pop("file-index.bloom-filter.columns", None)
        table = make(tmp_path, options)
        table.write({"c": ["a", "b", "abcd"], "v": pa.array([1, 2, 3], pa.int32())})
    table = table.alter(UpdateColumnType(("c",), parse_type(kind)))
    assert texts(table) == read
    assert texts(table, condition) == found
    table.compact(full=True)
    assert texts(table, condition) == found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [KEYED, {**KEYED, "deletion-vectors.enabled": "true"}, {}])
def test_a_key_is_one_with_spaces_and_without(
    tmp_path: Path, form: str, options: Mapping[str, str]
) -> None:
    table = make(tmp_path, {"file.format": form, **options}, keys=("c",))
    table.write({"c": ["a   ", "b   "], "v": pa.array([1, 2], pa.int32()), "w": ["x", "y"]})
    table.write({"c": ["a"], "v": pa.array([3], pa.int32()), "w": ["z"]})
    assert rows(table) == [("a   ", 3, "z"), ("b   ", 2, "y")]
    assert rows(table, "c = 'b'") == [("b   ", 2, "y")]
    table.merge({"c": ["b  ", "d "], "v": pa.array([4, 5], pa.int32())}, on=["c"])
    assert rows(table) == [("a   ", 3, "z"), ("b   ", 4, "y"), ("d   ", 5, None)]
    table.update({"v": 7}, where="c = 'd'")
    table.delete("c = 'a'")
    assert rows(table) == [("b   ", 4, "y"), ("d   ", 7, None)]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_rows_of_other_engines_change_under_their_own_keys(tmp_path: Path, form: str) -> None:
    """For those engines a key with spaces is another."""
    table = unpadded(tmp_path, form, ("c",), {"bucket": "5"})
    table.update({"v": 7}, where="c = 'a'")
    table.merge({"c": ["b", "z"], "v": pa.array([8, 9], pa.int32())}, on=["c"])
    table.delete("c = 'abcd'")
    expected = [("a   ", 7), ("b   ", 8), ("z   ", 9)]
    assert rows(table) == expected
    table.compact(full=True)
    assert rows(table) == expected
    stored = {
        text
        for split in table.scan().splits
        for read in (table.scan(["c"]),)
        for text in _stored(read.storage, split)
    }
    assert stored == {"a", "b ", "z   "}


def _stored(storage: object, split: object) -> list[object]:
    from headwater.storage.read.split import read_split

    batches = read_split(storage, split, columns=["c"])  # type: ignore[arg-type]
    return [text for batch in batches for text in batch.column("c").to_pylist()]


@pytest.mark.parametrize("form", FORMATS)
def test_updates_pad_new_values(tmp_path: Path, form: str) -> None:
    table = make(tmp_path, {"file.format": form})
    table.write({"c": ["a"], "v": pa.array([1], pa.int32())})
    table.update({"c": "x"}, where="c = 'a'")
    assert rows(table, "c = 'x'") == [("x   ", 1, None)]


@pytest.mark.parametrize("form", FORMATS)
def test_defaults_are_padded(tmp_path: Path, form: str) -> None:
    table = make(tmp_path, {"file.format": form}).alter(UpdateColumnDefaultValue(("c",), "a"))
    table.write({"v": pa.array([1], pa.int32())})
    assert rows(table, "c = 'a'") == [("a   ", 1, None)]


@pytest.mark.parametrize("form", FORMATS)
def test_partitions_are_those_of_padded_values(tmp_path: Path, form: str) -> None:
    table = make(tmp_path, {"file.format": form}, partition_keys=("c",))
    table.write({"c": ["a", "b"], "v": pa.array([1, 2], pa.int32())})
    table.write({"c": ["a   "], "v": pa.array([3], pa.int32())})
    assert len(table.partitions()) == 2
    assert len(table.scan(where="c = 'a'").splits) == 1
    table.overwrite({"v": pa.array([4], pa.int32())}, partition={"c": "a"})
    assert rows(table) == [("a   ", 4, None), ("b   ", 2, None)]
    table.drop_partitions({"c": "b "})
    assert texts(table) == ["a   "]


def test_statistics_leave_out_no_text(tmp_path: Path) -> None:
    """Whether the texts that they are of have spaces or not."""
    table = make(tmp_path, {"file.format": "orc"})
    table.write({"c": ["a"]})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.storage, snapshot)
    for ends in (("a   ", "c   "), ("a", "c"), ("a\x01b", "c\x01"), ("a", "c\x01  ")):
        told = pa.table({"c": ends})
        statistics = column_statistics(told, FIELDS[:1], KEY_STATISTICS)
        file = replace(entry.file, value_stats=statistics, value_stats_cols=("c",))
        ranges = value_ranges(table.storage, file, [FIELDS[0]])
        for condition, may in (
            ("c = 'a   '", True),
            ("c = 'c   '", True),
            ("c >= 'c   '", True),
            ("c = 'd   '", False),
            ("c < 'Z   '", False),
        ):
            assert may_match(parse_predicate(condition, table.schema), ranges) is may


def test_keys_lie_where_flink_and_spark_would_put_them(tmp_path: Path) -> None:
    """They pad texts before Paimon hashes them."""
    keys = [f"k{number}" for number in range(40)]
    padded = [key.ljust(4) for key in keys]
    buckets: list[dict[str, int]] = []
    for form, given in ((form, given) for form in FORMATS for given in (keys, padded)):
        options = {"bucket": "7", "file.format": form}
        table = make(tmp_path / str(len(buckets)), options, keys=("c",))
        table.write({"c": given})
        places: dict[str, int] = {}
        for split in table.scan(["c"]).splits:
            for batch in table.scan(["c"]).read_split(split):
                places |= {str(text): split.bucket for text in batch[0].to_pylist()}
        buckets.append(places)
    assert set(buckets[0]) == set(padded)
    assert buckets == buckets[:1] * 6


def test_files_whose_keys_have_no_spaces_are_merged_with_others(tmp_path: Path) -> None:
    """As Paimon's Java library reads them from ORC files, and tells of them."""
    table = make(tmp_path, {"file.format": "orc", **KEYED}, keys=("c",))
    table.write({"c": ["b"]})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.storage, snapshot)
    padded = key_range(table.storage, entry.file)
    for least, greatest in (("b", "b"), ("b   ", "b   "), ("b", "b\x01")):
        low, high = (serialize_row([end], [FIELDS[0].type]) for end in (least, greatest))
        told = replace(entry.file, min_key=low, max_key=high)
        least_key, greatest_key = key_range(table.storage, told)
        assert least_key <= padded[0] <= padded[1] <= greatest_key


def test_predicates_may_have_any_number_of_spaces(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    table.write({"c": ["a", "b"]})
    assert table.scan(where=In("c", ("a", "b  "))).count() == 2
