"""Arguments of which Python would take a wrong one without a word: nothing is done for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import Invalid
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
ROWS = {"k": [1], "v": [9]}

REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "columns": (lambda table: table.scan("kv"), "columns is a list of names"),
    "changes": (lambda table: table.changes(0, columns="kv"), "columns is a list of names"),
    "a number": (lambda table: table.scan([0]), "0 is none"),
    "on": (lambda table: table.merge(ROWS, on="kv"), "on is a list of names"),
    "upsert": (lambda table: table.upsert(ROWS, on="k"), "on is a list of names"),
    "analyze": (lambda table: table.analyze("kv"), "columns is a list of names"),
    "matched": (lambda table: table.merge(ROWS, ["k"], when_matched="DELETE"), "'DELETE'"),
    "not matched": (lambda table: table.merge(ROWS, ["k"], when_not_matched="skip"), "'skip'"),
    "laid over": (lambda table: table.with_options({"write-buffer-size": 5}), "is the int 5"),
    "option": (lambda table: table.alter(SetOption("read.batch-size", 5)), "is the int 5"),  # type: ignore[arg-type]
    "position": (lambda table: table.consumer("c").reset(1.5), "whole number"),
    "batches": (lambda table: table.scan().to_batches(batch_rows=0), "1 row at least"),
    "a day": (lambda table: table.scan(timestamp=date(2026, 1, 1)), "has no time zone"),
}


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    made.write({"k": [1], "v": [1]})
    return made


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_does_nothing(table: Table, name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(Invalid, match=words):
        call(table)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]
    assert len(table.snapshots()) == 1
    assert table.consumers() == []
    assert table.schema.options == {"bucket": "1"}


@pytest.mark.parametrize("schema", [SCHEMA, Schema.from_arrow(SCHEMA)])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"options": {"bucket": 1}}, "'bucket' is the int 1"),
        ({"options": {"deletion-vectors.enabled": True}}, "is the bool True"),
        ({"primary_keys": "kv"}, "primary_keys is a list"),
        ({"partition_keys": "v"}, "partition_keys is a list"),
    ],
)
def test_a_table_is_not_made_of_them(
    lake: Lake, schema: pa.Schema | Schema, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        lake.create_table("sales.t", schema, **arguments)
    assert "t" not in lake.list_tables("sales")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data-file.path-directory", "elsewhere"),
        ("bucket", "4"),
        ("bucket-key", "v"),
    ],
)
def test_a_handle_has_no_other_place_for_rows(table: Table, option: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"'{option}' cannot be laid over a table"):
        table.with_options({option: value})
    table.with_options({"bucket": "1"}).write({"k": [2]})
    assert table.scan().count() == 2


@pytest.mark.parametrize("option", ["chain-table.enabled", "num-sorted-run.compaction-trigger"])
def test_nothing_is_done_with_options_that_say_nothing(table: Table, option: str) -> None:
    before = {file.path for file in table.storage.files.walk(table.storage.layout.location)}
    handle = table.with_options({option: "maybe"})
    calls: list[Callable[[], object]] = [
        lambda: handle.write({"k": [2]}),
        lambda: handle.overwrite({"k": [2]}),
    ]
    if option == "chain-table.enabled":
        calls.append(handle.analyze)
    for call in calls:
        with pytest.raises(Invalid, match=f"'{option}' must be .*, not 'maybe'"):
            call()
    after = {file.path for file in table.storage.files.walk(table.storage.layout.location)}
    assert after == before


def test_names_may_come_one_by_one(table: Table) -> None:
    assert table.scan(name for name in ("v", "k")).to_arrow().column_names == ["v", "k"]  # type: ignore[arg-type]
