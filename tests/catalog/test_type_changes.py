"""Columns whose type changed: old files are read, filtered, merged and rewritten in the new one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.schema.change import UpdateColumnType
from headwater.storage.types.data_type import parse_type

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("at", pa.timestamp("us")),
        ("list", pa.list_(pa.int64())),
    ]
)
MOMENT = dt.datetime(2024, 2, 29, 10, 11, 12, 123456)
CUT_MOMENT = MOMENT.replace(microsecond=123400)
CHANGES = {
    ("n",): "TINYINT",
    ("s",): "DECIMAL(5, 1)",
    ("at",): "DATE",
    ("list", "element"): "STRING",
}


def _rows(ids: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "n": [383 + i for i in ids],
            "s": [f"{i}.25" for i in ids],
            "at": [MOMENT + dt.timedelta(days=i) for i in ids],
            "list": [[i, None] for i in ids],
        },
        schema=COLUMNS,
    )


def _changed_row(i: int) -> dict[str, object]:
    return {
        "id": i,
        "n": (383 + i + 128) % 256 - 128,
        "s": Decimal(f"{i}.3"),
        "at": (MOMENT + dt.timedelta(days=i)).date(),
        "list": [str(i), None],
    }


def _change(table: Table, **types: str) -> None:
    table.alter(*(UpdateColumnType((name,), parse_type(text)) for name, text in types.items()))


def _sorted(table: pa.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("keys", [["id"], []])
def test_old_files_are_merged_rewritten_and_followed_in_the_new_types(
    lake: Lake, keys: list[str]
) -> None:
    options = {"bucket": "1", "bucket-key": "id", "compaction.min.file-num": "2"}
    table = lake.create_table("sales.t", COLUMNS, primary_keys=keys, options=options)
    table.write(_rows([1, 2]))
    table.write(_rows([3]))
    table.alter(*(UpdateColumnType(path, parse_type(text)) for path, text in CHANGES.items()))
    expected = [_changed_row(i) for i in (1, 2, 3)]
    assert _sorted(table.scan().to_arrow()) == expected
    new = {**_changed_row(3 if keys else 4), "n": 5}
    table.write(pa.Table.from_pylist([new], schema=table.scan().to_arrow().schema))
    expected = [*expected[: 2 if keys else 3], new]
    assert _sorted(table.scan().to_arrow()) == expected
    changes = table.changes(0).to_arrow().drop_columns("_ROW_KIND").to_pylist()
    assert changes == [_changed_row(1), _changed_row(2), _changed_row(3), new]
    table.compact()
    assert _sorted(table.scan().to_arrow()) == expected
    assert _sorted(table.scan(where="n = 5 AND s >= 3.3").to_arrow()) == [new]


# The old type, the new one, old values, a condition on the new ones, and those that meet it.
FILTERS: list[tuple[str, str, list[object], str, list[object]]] = [
    ("INT", "TINYINT", [383, 500], "= 127", [127]),
    ("VARCHAR(9)", "VARCHAR(3)", ["abcdef", "b"], "= 'abc'", ["abc"]),
    ("VARCHAR(3)", "CHAR(5)", ["abc", "b"], "= 'abc  '", ["abc  "]),
    ("VARCHAR(9)", "STRING", ["abc", "b"], "= 'abc'", ["abc"]),
    ("STRING", "INT", ["9", "10"], "> 9", [10]),
    ("INT", "STRING", [9, 10], "> '2'", ["9"]),
    ("INT", "BIGINT", [9, 10], "> 9", [10]),
    ("DECIMAL(5, 2)", "DECIMAL(3, 1)", ["1.25", "3.00"], "= 1.3", [Decimal("1.3")]),
    ("DECIMAL(5, 2)", "DECIMAL(3, 1)", ["1.25", "99.99"], "IS NULL", [None]),
    ("BIGINT", "FLOAT", [16_777_217, 0], "= 16777216", [16_777_216.0]),
    ("TIMESTAMP(6)", "TIMESTAMP(4)", [MOMENT], f"< '{MOMENT}'", [CUT_MOMENT]),
    ("TIMESTAMP(6)", "DATE", [MOMENT], "= '2024-02-29'", [MOMENT.date()]),
    ("INT", "BOOLEAN", [7, 0], "= true", [True]),
]  # fmt: skip


@pytest.mark.parametrize("keys", [["id"], []])
def test_filters_judge_the_new_values_whatever_old_statistics_say(
    lake: Lake, keys: list[str]
) -> None:
    names = [f"c{at}" for at in range(len(FILTERS))]
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in names)])
    options = {"bucket": "1"} if keys else {}
    table = lake.create_table("sales.t", schema, primary_keys=keys, options=options)
    for name, (old, *_) in zip(names, FILTERS, strict=True):
        if old != "STRING":
            _change(table, **{name: old})
    rows: list[dict[str, object]] = [{"id": at} for at in range(2)]
    for name, (old, _, values, *_) in zip(names, FILTERS, strict=True):
        for at, each in enumerate(rows):
            value = values[min(at, len(values) - 1)]
            each[name] = Decimal(str(value)) if old.startswith("DECIMAL") else value
    # A file for each row, so that each has bounds of its own.
    for each in rows:
        table.write(pa.Table.from_pylist([each], schema=table.scan().to_arrow().schema))
    _change(table, **{name: new for name, (_, new, *_) in zip(names, FILTERS, strict=True)})
    for name, (_, _, values, condition, found) in zip(names, FILTERS, strict=True):
        got = _sorted(table.scan(["id", name], f"{name} {condition}").to_arrow())
        assert [each[name] for each in got] == found * (1 if len(values) > 1 else 2), name


def test_a_bucket_key_becomes_nothing_that_belongs_to_another_bucket(lake: Lake) -> None:
    """Compaction leaves rows in their bucket and forgets with which type they came there."""
    schema = pa.schema([("k", pa.int32()), ("s", pa.string())])
    options = {"bucket": "4", "bucket-key": "k, s", "compaction.min.file-num": "2"}
    table = lake.create_table("sales.t", schema, options=options)
    _change(table, s="VARCHAR(5)")
    for start in (0, 10):
        ids = list(range(start, start + 10))
        table.write({"k": pa.array(ids, pa.int32()), "s": [str(i) for i in ids]})
    for change in ({"k": "BIGINT"}, {"k": "STRING"}, {"s": "VARCHAR(1)"}, {"s": "CHAR(9)"}):
        with pytest.raises(Invalid, match="'bucket-key' names it"):
            _change(table, **change)
    _change(table, s="STRING")
    table.compact()
    for i in range(20):
        assert table.scan(where=f"k = {i} AND s = '{i}'").to_arrow().num_rows == 1


def test_a_value_without_a_counterpart_is_an_error_where_it_is_read(lake: Lake) -> None:
    table = lake.create_table("sales.t", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    table.write(_rows([1]).set_column(2, "s", [["abc"]]))
    _change(table, s="INT")
    with pytest.raises(Invalid, match=r"file .*data-.*parquet: column 's' .* 'abc' is no value"):
        table.scan().to_arrow()
    assert table.scan(columns=["n"]).to_arrow().to_pylist() == [{"n": 384}]
    _change(table, s="STRING")
    assert table.scan(columns=["s"]).to_arrow().to_pylist() == [{"s": "abc"}]


def test_a_handle_from_before_the_change_does_not_narrow_newer_values(lake: Lake) -> None:
    table = lake.create_table("sales.t", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    table.write(_rows([1]))
    stale = lake.table("sales.t")
    _change(table, n="BIGINT")
    table.write(_rows([2]).set_column(1, "n", pa.chunked_array([[5_000_000_000]], pa.int64())))
    with pytest.raises(Unsupported, match=r"column 'n' became BIGINT .* open the table again"):
        stale.changes(1).to_arrow()
    assert stale.refresh().scan(where="id = 2").to_arrow()["n"].to_pylist() == [5_000_000_000]
