"""Primary keys that hold nulls (``primary-key.nullable``): null equals null, and comes first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid
from headwater.storage.rows.binary_row import deserialize_row

Values: TypeAlias = tuple[pa.DataType, list[object]]
TYPES: Mapping[str, Values] = {
    "boolean": (pa.bool_(), [None, False, True]),
    "tinyint": (pa.int8(), [None, 0, -1, 1, 127]),
    "int": (pa.int32(), [None, 0, -(2**31), 5, 2**31 - 1]),
    "bigint": (pa.int64(), [None, 0, -(2**63), 5, 2**63 - 1]),
    "double": (pa.float64(), [None, 0.0, -1.5, 2.5, float("inf")]),
    "decimal": (pa.decimal128(38, 2), [None, Decimal("0.00"), Decimal("-7.25"), Decimal("9.50")]),
    "string": (pa.string(), [None, "", "a", "a\0", "b" * 100]),
    "bytes": (pa.binary(), [None, b"", b"\0", b"\xff"]),
    "date": (pa.date32(), [None, dt.date(1970, 1, 1), dt.date(1969, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [None, dt.datetime(1970, 1, 1), dt.datetime(2026, 1, 2)]),
}


def new_table(
    folder: Path, key: pa.DataType, options: Mapping[str, str], partitioned: bool = False
) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    schema = pa.schema([("p", pa.string()), ("k", key), ("n", pa.int32()), ("v", pa.int64())])
    given = {"primary-key.nullable": "true", "bucket": "2", "write-only": "true"}
    return lake.create_table(
        "d.t",
        schema,
        primary_keys=["p", "k", "n"],
        partition_keys=["p"] if partitioned else [],
        options={**given, **options},
    )


def found(table: Table, where: str | None = None) -> dict[tuple[object, ...], object]:
    rows = table.scan(where=where).to_arrow().to_pylist()
    result: dict[tuple[object, ...], object] = {
        (row["p"], row["k"], row["n"]): row["v"] for row in rows
    }
    assert len(result) == len(rows)
    return result


def histories(table: Table, kind: str, engine: str) -> None:
    """Some commits of random keys, compared with a dictionary after each."""
    arrow, values = TYPES[kind]
    rng = np.random.default_rng(7)
    truth: dict[tuple[object, ...], object] = {}
    for step in range(5):
        picks = rng.integers(0, len(values), 30)
        keys = [
            (p, values[at], n)
            for p, at, n in zip(
                rng.choice(np.array([None, "a"]), 30).tolist(),
                picks.tolist(),
                rng.choice(np.array([None, 1, 2]), 30).tolist(),
                strict=True,
            )
        ]
        numbers = [step * 100 + at for at in range(30)]
        table.write(
            {
                "p": pa.array([key[0] for key in keys], pa.string()),
                "k": pa.array([key[1] for key in keys], arrow),
                "n": pa.array([key[2] for key in keys], pa.int32()),
                "v": numbers,
            }
        )
        for key, number in zip(keys, numbers, strict=True):
            if engine == "first-row":
                truth.setdefault(key, number)
            elif engine == "aggregation":
                old = truth.get(key, 0)
                assert isinstance(old, int)
                truth[key] = old + number
            else:
                truth[key] = number
        if step in (1, 4) or engine == "first-row":
            table.compact(full=step != 1)
        assert found(table) == truth
        for where, chosen in (("k IS NULL", True), ("k IS NOT NULL", False)):
            assert found(table, where) == {
                key: value for key, value in truth.items() if (key[1] is None) is chosen
            }
        assert found(table, "n = 1 AND p IS NULL") == {
            key: value for key, value in truth.items() if key[2] == 1 and key[0] is None
        }


ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {"changelog-producer": "lookup"},
    "first-row": {"changelog-producer": "lookup"},
    "partial-update": {"deletion-vectors.enabled": "true", "write-only": "false"},
    "aggregation": {"fields.v.aggregate-function": "sum", "data-file.thin-mode": "true"},
}


@pytest.mark.modes
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_tables_of_every_key_type_agree_with_a_dictionary(
    tmp_path: Path, engine: str, kind: str
) -> None:
    # Each type meets each engine and each format.
    turn = list(ENGINES).index(engine) + list(TYPES).index(kind)
    options = {
        "merge-engine": engine,
        "file.format": ("parquet", "orc", "avro")[turn % 3],
        "target-file-size": "1 b",
        **ENGINES[engine],
    }
    histories(new_table(tmp_path, TYPES[kind][0], options), kind, engine)


@pytest.mark.modes
@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "-1", "dynamic-bucket.target-row-num": "7"},
        {"bucket": "3", "bucket-key": "k", "bucket-function.type": "mod"},
        {"bucket": "3", "bucket-key": "k,n", "bucket-function.type": "hive"},
        {"bucket": "3", "bucket-key": "n", "write-buffer-size": "64 b"},
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_keys_with_nulls_have_one_bucket(
    tmp_path: Path, options: Mapping[str, str], partitioned: bool
) -> None:
    histories(new_table(tmp_path, pa.int32(), options, partitioned), "int", "deduplicate")


def small_table(folder: Path) -> Table:
    table = new_table(folder, pa.int64(), {"bucket": "1"})
    rows = [("a", None, 1, 10), ("a", 7, None, 20), (None, None, None, 30)]
    table.write([dict(zip("pknv", row, strict=True)) for row in rows])
    return table


def test_rows_of_equal_keys_with_nulls_become_one(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    table.write([{"p": None, "k": None, "n": None, "v": 31}, {"p": "a", "k": 7, "n": 0, "v": 40}])
    assert found(table) == {
        ("a", None, 1): 10, ("a", 7, None): 20, (None, None, None): 31, ("a", 7, 0): 40,
    }  # fmt: skip


def test_keys_are_named_though_they_may_be_null(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    with pytest.raises(Invalid, match="lacks the primary-key column 'n'"):
        table.write({"p": ["a"], "k": [1], "v": [2]})


@pytest.mark.parametrize("keys", [["p", "k", "n"], ["k"]])
def test_merging_a_frame_matches_null_in_key_columns(tmp_path: Path, keys: list[str]) -> None:
    table = small_table(tmp_path)
    if keys == ["k"]:
        table.delete("p IS NULL")
    source = pl.DataFrame(
        {"p": ["a"], "k": [None], "n": [1], "v": [11]},
        schema={"p": pl.String, "k": pl.Int64, "n": pl.Int32, "v": pl.Int64},
    )
    table.merge(source, keys, when_matched="update", when_not_matched=None)
    assert found(table, "k IS NULL")["a", None, 1] == 11
    table.merge(source, keys, when_matched="delete", when_not_matched=None)
    assert ("a", None, 1) not in found(table)
    assert found(table)["a", 7, None] == 20


def test_a_column_beside_the_key_matches_no_null(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    table.write([{"p": "z", "k": 1, "n": 1, "v": None}])
    source = pa.table({"n": pa.array([1], pa.int32()), "v": pa.array([None], pa.int64())})
    table.merge(source, ["n", "v"], when_matched="delete", when_not_matched=None)
    assert found(table)["z", 1, 1] is None


def test_rows_are_changed_where_the_key_is_null(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    table.update({"v": 99}, where="k IS NULL AND p = 'a'")
    table.delete("n IS NULL AND p IS NULL")
    assert found(table) == {("a", None, 1): 99, ("a", 7, None): 20}


def test_nulls_come_first_in_files(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    rows = table.scan().to_arrow().select(["p", "k", "n"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (None, None, None), ("a", None, 1), ("a", 7, None),
    ]  # fmt: skip
    plan = table.scan()
    (file,) = [file for split in plan.splits for file in split.files]
    types = [item.type for item in table.schema.key_fields]
    assert deserialize_row(file.min_key, types) == (None, None, None)
    assert deserialize_row(file.max_key, types) == ("a", 7, None)
    assert deserialize_row(file.key_stats.min_values, types) == ("a", 7, 1)
    assert file.key_stats.null_counts == (1, 2, 2)
