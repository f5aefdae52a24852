"""CHAR columns in ORC files, which do not keep spaces at the end of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.manifest.key_range import key_range
from headwater.storage.manifest.statistics import KEY_STATISTICS, column_statistics
from headwater.storage.predicate.filter import may_match, parse_predicate
from headwater.storage.rows.binary_row import serialize_row
from headwater.storage.scan.column_ranges import value_ranges
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import UpdateColumnDefaultValue
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

FIELDS = (
    DataField(0, "c", parse_type("CHAR(4)")),
    DataField(1, "v", parse_type("INT")),
    DataField(2, "w", parse_type("STRING")),
)
KEYED = {"bucket": "3"}


def make(folder: Path, options: Mapping[str, str], keys: tuple[str, ...] = ()) -> Table:
    lake = connect(folder)
    lake.create_database("d")
    first = replace(FIELDS[0], type=parse_type("CHAR(4) NOT NULL")) if keys else FIELDS[0]
    schema = Schema((first, *FIELDS[1:]), primary_keys=keys)
    return lake.create_table("d.t", schema, options={"file.format": "orc", **options})


def rows(table: Table, where: str | None = None) -> list[tuple[object, ...]]:
    found = table.scan(where=where).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize(
    "options", [{}, {"file-index.bitmap.columns": "c"}, {"file.format": "avro"}]
)
def test_texts_are_found_as_they_are_read(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = make(tmp_path, options)
    table.write({"c": ["a   ", "b", "abcd"], "v": pa.array([1, 2, 3], pa.int32())})
    texts = [text for text, *_ in rows(table)]
    assert [str(text).rstrip() for text in texts] == ["a", "abcd", "b"]
    for text in texts:
        assert [row[0] for row in rows(table, f"c = '{text}'")] == [text]
        assert [row[0] for row in rows(table, f"c < '{text}' OR c >= '{text}'")] == texts


@pytest.mark.parametrize("options", [KEYED, {**KEYED, "deletion-vectors.enabled": "true"}, {}])
def test_a_key_is_one_with_spaces_and_without(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = make(tmp_path, options, keys=("c",))
    table.write({"c": ["a   ", "b   "], "v": pa.array([1, 2], pa.int32()), "w": ["x", "y"]})
    table.write({"c": ["a"], "v": pa.array([3], pa.int32()), "w": ["z"]})
    assert rows(table) == [("a", 3, "z"), ("b", 2, "y")]
    assert rows(table, "c = 'b'") == [("b", 2, "y")]
    table.merge({"c": ["b  ", "d "], "v": pa.array([4, 5], pa.int32())}, on=["c"])
    assert rows(table) == [("a", 3, "z"), ("b", 4, "y"), ("d", 5, None)]
    table.delete("c = 'a'")
    assert [key for key, *_ in rows(table)] == ["b", "d"]


def test_defaults_that_are_filled_up_are_like_other_texts(tmp_path: Path) -> None:
    table = make(tmp_path, {}).alter(UpdateColumnDefaultValue(("c",), "a"))
    table.write({"v": pa.array([1], pa.int32())})
    assert rows(table, "c = 'a'") == [("a", 1, None)]


def test_statistics_with_spaces_leave_out_no_text_without(tmp_path: Path) -> None:
    """As Paimon's Java library writes them."""
    table = make(tmp_path, {})
    table.write({"c": ["a"]})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.storage, snapshot)
    for least in ("a   ", "a\x01b "):
        told = pa.table({"c": [least, "c   "]})
        statistics = column_statistics(told, FIELDS[:1], KEY_STATISTICS)
        file = replace(entry.file, value_stats=statistics, value_stats_cols=("c",))
        ranges = value_ranges(table.storage, file, [FIELDS[0]])
        for condition, may in (
            ("c = 'a'", True),
            ("c = 'c'", True),
            ("c = 'd'", False),
            ("c < 'Z'", False),
        ):
            assert may_match(parse_predicate(condition, table.schema), ranges) is may


def test_keys_lie_where_flink_and_spark_would_put_them(tmp_path: Path) -> None:
    """They fill texts up before Paimon hashes them; Parquet files keep the spaces."""
    keys = [f"k{number}" for number in range(40)]
    padded = [key.ljust(4) for key in keys]
    buckets: list[dict[str, int]] = []
    for form, given in (("orc", keys), ("orc", padded), ("parquet", padded)):
        options = {"bucket": "7", "file.format": form}
        table = make(tmp_path / str(len(buckets)), options, keys=("c",))
        table.write({"c": given})
        places: dict[str, int] = {}
        for split in table.scan(["c"]).splits:
            for batch in table.scan(["c"]).read_split(split):
                places |= {str(text).rstrip(): split.bucket for text in batch[0].to_pylist()}
        buckets.append(places)
    assert len(buckets[0]) == 40
    assert buckets == buckets[:1] * 3


def test_files_whose_keys_are_told_with_spaces_are_merged_with_others(tmp_path: Path) -> None:
    """As Paimon's Java library tells of them; what it reads back has none."""
    table = make(tmp_path, KEYED, keys=("c",))
    table.write({"c": ["b"]})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.storage, snapshot)
    bare = key_range(table.storage, entry.file)
    for least in ("b   ", "b\x01  "):
        end = serialize_row([least], [FIELDS[0].type])
        told = replace(entry.file, min_key=end, max_key=end)
        low, high = key_range(table.storage, told)
        assert low <= bare[0] <= bare[1] <= high
