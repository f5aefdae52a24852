"""Arguments of which Python would take a wrong one without a word: nothing is done for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headwater.catalog.table.consumer import Consumer
from headwater.catalog.table.inspect import Inspect
from headwater.catalog.table.scan import Rows
from headwater.catalog.table.system_table import SystemTable
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
    "a number": (lambda table: table.scan([0]), "columns is a list of names, and 0"),
    "on": (lambda table: table.merge(ROWS, on="kv"), "on is a list of names"),
    "upsert": (lambda table: table.upsert(ROWS, on="k"), "on is a list of names"),
    "analyze": (lambda table: table.analyze("kv"), "columns is a list of names"),
    "matched": (lambda table: table.merge(ROWS, ["k"], when_matched="DELETE"), "'DELETE'"),
    "not matched": (lambda table: table.merge(ROWS, ["k"], when_not_matched="skip"), "'skip'"),
    "an option": (lambda table: table.with_options({"write-buffer-size": 5}), "is the int 5"),
    "option": (lambda table: table.alter(SetOption("read.batch-size", 5)), "is the int 5"),  # type: ignore[arg-type]
    "position": (lambda table: table.consumer("c").reset(1.5), "whole number"),
    "batches": (lambda table: table.scan().to_batches(batch_rows=0), "1 row at least"),
    "a day": (lambda table: table.scan(timestamp=date(2026, 1, 1)), "a datetime with a time zone"),
    "no zone": (lambda table: table.scan(timestamp=datetime(2026, 1, 1)), "has no time zone"),
    "a tag": (lambda table: table.create_tag(5), "create_tag: name is the int 5: give text"),
    "a branch": (lambda table: table.create_branch(5), "name is the int 5: give text"),
    "no name": (lambda table: table.tag(None), "name is None: give text"),
    "a consumer": (lambda table: table.consumer(b"c"), "consumer_id is the bytes b'c'"),
    "properties": (lambda table: table.write(ROWS, properties={"a": 1}), "'a' is the int 1"),
    "one property": (lambda table: table.write(ROWS, properties="a"), "a mapping"),
    "true": (lambda table: table.rollback(snapshot_id=True), "the bool True: give a whole number"),
    "a part": (lambda table: table.create_tag("t", 1.0), "the float 1.0: give a whole number"),
    "one": (lambda table: table.remove_orphan_files(dry_run=1), "1: give True or False"),
    "days": (lambda table: table.create_tag("t", retained=5), "retained is the int 5: give a time"),
    "nanoseconds": (
        lambda table: table.remove_orphan_files(older_than=np.timedelta64(1, "ns")), "give a time",
    ),
    "one list": (lambda table: table.scan(5), "columns is the int 5: give a list of text or None"),
    "partition": (lambda table: table.drop_partitions({1: 2}), "has the int 1 for a name"),
    "partitions": (lambda table: table.drop_partitions("v"), "'v': give a mapping"),
    "changed": (lambda table: table.update({1: 1}), "has the int 1 for a name"),
    "lazy": (lambda table: table.scan().to_polars(lazy="no"), "lazy is the str 'no'"),
    "a file": (lambda table: table.files(snapshot_id="1"), "'1': give a whole number or None"),
    "log": (lambda table: table.inspect.audit_log("kv"), "columns is a list of names"),
}  # fmt: skip


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


@pytest.mark.parametrize("kind", [Lake, Table, Rows, Consumer, Inspect, SystemTable])
def test_no_public_method_takes_just_anything(kind: type) -> None:
    """Nothing is done either: there is no object to do it."""
    for name in dir(kind):
        method = getattr(kind, name)
        if name.startswith("_") or not callable(method):
            continue
        _, *parameters = signature(method).parameters.values()
        if not parameters or name in ("alter", "delete"):  # what they take has many forms
            continue
        if [parameter.name for parameter in parameters] == ["executor"]:  # of any class
            continue
        named = {one.name: object() for one in parameters if one.kind is one.KEYWORD_ONLY}
        others = [object() for one in parameters if one.kind is not one.KEYWORD_ONLY]
        with pytest.raises(Invalid, match=f"{name}: .* is the object"):
            method(None, *others, **named)


def test_scalars_of_numpy_and_paths_are_what_they_say(lake: Lake, table: Any) -> None:
    table.create_tag(np.str_("first"), np.int64(1), retained=timedelta(days=1))
    assert [(type(tag.name), tag.snapshot.id) for tag in table.tags()] == [(str, 1)]
    table.write(ROWS, properties={np.str_("a"): np.str_("b")})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties == {"a": "b"}
    assert table.scan(np.array(["v"]), snapshot_id=np.int32(1)).to_arrow().to_pydict() == {"v": [1]}
    assert table.remove_orphan_files(dry_run=np.bool_(True)).dry_run
    with pytest.raises(Invalid, match=r"sales\.db/t"):
        lake.register_table("sales.again", Path(table.info.path))


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
        ("bucket", "-1"),
        ("bucket", "-2"),
        ("bucket-key", "v"),
        ("bucket-function.type", "mod"),
        ("merge-engine", "aggregation"),
        ("rowkind.field", "v"),
        ("partition.default-name", "none"),
        ("primary-key", "v"),
        ("path", "elsewhere"),
        ("row-tracking.enabled", "true"),
    ],
)
def test_what_rows_are_and_where_is_the_tables_alone(table: Table, option: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"'{option}' cannot be laid"):
        table.with_options({option: value})
    same = {"bucket": "1", "merge-engine": "deduplicate", "primary-key": "k"}
    table.with_options(same).write({"k": [2]})
    assert table.scan().count() == 2


def test_no_handle_writes_outside_of_its_table(table: Table) -> None:
    with pytest.raises(Invalid, match="could lead out of the table"):
        table.with_options({"data-file.prefix": "../../other/"})


@pytest.mark.parametrize(
    "option",
    [
        "chain-table.enabled",
        "num-sorted-run.compaction-trigger",
        # Of tables whose rows a compaction shows, rows would be committed that nobody sees.
        "compaction.size-ratio",
        "compaction.offpeak-ratio",
        "compaction.small-file-ratio",
        "lookup-compact",
        "changelog-producer.row-deduplicate",
    ],
)
def test_nothing_is_done_with_options_that_say_nothing(table: Table, option: str) -> None:
    before = {file.path for file in table.storage.files.walk(table.storage.layout.location)}
    handle = table.with_options({option: "maybe"})
    calls: list[Callable[[], object]] = [
        lambda: handle.write({"k": [2]}),
        lambda: handle.overwrite({"k": [2]}),
    ]
    if option == "chain-table.enabled":
        calls.append(handle.analyze)
    else:
        calls += [lambda: handle.delete("k = 1"), lambda: handle.update({"v": 2})]
    for call in calls:
        with pytest.raises(Invalid, match=f"'{option}' must be .*, not 'maybe'"):
            call()
    after = {file.path for file in table.storage.files.walk(table.storage.layout.location)}
    assert after == before


def test_names_may_come_one_by_one(table: Table) -> None:
    assert table.scan(name for name in ("v", "k")).to_arrow().column_names == ["v", "k"]  # type: ignore[arg-type]


def test_times_of_numpy_and_pandas_are_set_or_refused(lake: Lake) -> None:
    schema = pa.schema([("day", pa.date32()), ("t", pa.timestamp("us"))])
    table = lake.create_table("sales.times", schema, partition_keys=["t"])
    moment = datetime(2026, 1, 2)
    table.write({"day": [date(2026, 1, 1)], "t": [moment]})
    table.update({"day": np.datetime64("2026-01-02")})
    assert table.scan().to_arrow().to_pylist() == [{"day": date(2026, 1, 2), "t": moment}]
    with pytest.raises(Invalid, match="NaT is not a value of type"):
        table.drop_partitions({"t": pd.NaT})


def test_the_partition_of_nan_is_dropped(lake: Lake) -> None:
    schema = pa.schema([("v", pa.int64()), ("f", pa.float64())])
    table = lake.create_table("sales.floats", schema, partition_keys=["f"])
    table.write({"v": [1, 2], "f": [float("nan"), 1.0]})
    table.drop_partitions({"f": float("nan")})
    assert table.scan().to_arrow().to_pylist() == [{"v": 2, "f": 1.0}]
