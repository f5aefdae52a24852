"""Comparison of two sets of rows: each key that differs is reported, and no other one."""

from __future__ import annotations

import datetime as dt
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cdc.sink.comparison import Comparison, Difference, Differences
from headwater.storage.errors import Invalid

KEY = {"number": pa.int32(), "text": pa.string()}
MEMBERS = pa.struct([("name", pa.string()), ("ratio", pa.float64())])
VALUES: Mapping[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-3, 3)),
    "big": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "real": (pa.float32(), st.sampled_from([1.5, -1.5, float("inf"), float("nan")])),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "price": (pa.decimal128(20, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 100)),
    "label": (pa.string(), st.sampled_from(["", "a", "A", "a ", "ä"])),
    "payload": (pa.binary(), st.binary(max_size=3)),
    "day": (pa.date32(), st.dates()),
    "hour": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "local": (pa.timestamp("us"), st.integers(0, 1 << 50)),
    "instant": (pa.timestamp("ms", "UTC"), st.integers(0, 1 << 40)),
    "tags": (pa.list_(pa.string()), st.lists(st.sampled_from(["", "a", None]), max_size=2)),
    "prices": (
        pa.map_(pa.string(), pa.int32()),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)).map(lambda d: list(d.items())),
    ),
    "members": (
        pa.list_(MEMBERS),
        st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from([None, "", "x"]), "ratio": st.sampled_from([None, 0.5])}
            ),
            max_size=2,
        ),
    ),
}
SCHEMA = pa.schema([*KEY.items(), *((name, type_) for name, (type_, _) in VALUES.items())])

Key = tuple[int, str]
Rows = Mapping[Key, Sequence[Any]]

keys = st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "A", "a "]))
values = st.tuples(*(st.none() | strategy for _, strategy in VALUES.values()))
rows = st.dictionaries(keys, values, max_size=20)


def batches(contents: Rows, size: int = 7) -> Iterator[pa.RecordBatch]:
    columns = list(zip(*((*key, *row) for key, row in contents.items()), strict=True))
    if columns:
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        yield from pa.table(arrays, schema=SCHEMA).to_batches(max_chunksize=size)


def reported(differences: Differences) -> Counter[tuple[Key, str]]:
    return Counter(
        ((row["number"], row["text"]), row["difference"])
        for batch in differences.batches()
        for row in batch.to_pylist()
    )


def comparable(value: Any) -> Any:
    """A value whose equality is that of the comparison."""
    if isinstance(value, float):
        return "nan" if value != value else value
    return value


@settings(max_examples=200, deadline=None)
@given(
    source=rows,
    changes=st.dictionaries(keys, st.none() | values, max_size=5),
    edits=st.lists(st.tuples(keys, st.sampled_from(range(len(VALUES))), values), max_size=5),
    memory_bytes=st.sampled_from([4000, 1 << 20]),
)
def test_the_keys_of_all_changes_are_reported(
    source: dict[Key, tuple[Any, ...]],
    changes: Mapping[Key, tuple[Any, ...] | None],
    edits: Sequence[tuple[Key, int, tuple[Any, ...]]],
    memory_bytes: int,
) -> None:
    lake = dict(source)
    for key, row in changes.items():
        if row is None:
            lake.pop(key, None)
        else:
            lake[key] = row
    for key, column, row in edits:
        if key in lake:
            lake[key] = (*lake[key][:column], row[column], *lake[key][column + 1 :])
    expected = Counter(
        [(key, "missing in the lake") for key in source.keys() - lake.keys()]
        + [(key, "not in the source") for key in lake.keys() - source.keys()]
        + [
            (key, "different")
            for key in source.keys() & lake.keys()
            if list(map(comparable, source[key])) != list(map(comparable, lake[key]))
        ]
    )
    with Comparison(list(KEY), SCHEMA, memory_bytes=memory_bytes) as comparison:
        comparison.add_lake(batches(lake, size=3))
        comparison.add_source(batches(source))
        differences = comparison.differences()
        assert reported(differences) == expected
        assert (differences.source_rows, differences.lake_rows) == (len(source), len(lake))
        assert differences.counts == Counter(Difference(kind) for _, kind in expected)
        equal = len(source.keys() & lake.keys()) - differences.counts.get(Difference.DIFFERENT, 0)
        assert differences.equal_rows == equal


def is_equal(type_: pa.DataType, source: Any, lake: Any) -> bool:
    """Whether two rows of one key with these values, or columns, are equal."""
    schema = pa.schema([("id", pa.int32()), ("value", type_)])
    sides = [
        value if isinstance(value, pa.Array) else pa.array([value], type_)
        for value in (source, lake)
    ]
    source_row, lake_row = (
        pa.record_batch([pa.array([1], pa.int32()), side], schema=schema) for side in sides
    )
    with Comparison(["id"], schema) as comparison:
        comparison.add_source([source_row])
        comparison.add_lake([lake_row])
        return comparison.differences().equal_rows == 1


OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0]
FLOATS = pa.list_(pa.float64())


@pytest.mark.parametrize(
    ("type_", "source", "lake"),
    [
        (pa.float64(), float("nan"), -float("nan")),
        (pa.float64(), float("nan"), OTHER_NAN),
        (pa.float32(), 0.0, -0.0),
        (FLOATS, [0.0, float("nan")], [-0.0, OTHER_NAN]),
        (MEMBERS, {"name": "", "ratio": 0.0}, {"name": "", "ratio": -0.0}),
        (pa.decimal128(38, 2), Decimal(1), Decimal("1.00")),
        (
            MEMBERS,
            pa.StructArray.from_arrays(
                [pa.array(["behind"]), pa.array([1.0])],
                fields=list(MEMBERS),
                mask=pa.array([True]),
            ),
            None,
        ),
        (
            FLOATS,
            pa.ListArray.from_arrays(
                pa.array([0, 1], pa.int32()), pa.array([1.0]), FLOATS, mask=pa.array([True])
            ),
            None,
        ),
    ],
)
def test_equal_values(type_: pa.DataType, source: Any, lake: Any) -> None:
    assert is_equal(type_, source, lake)


@pytest.mark.parametrize(
    ("type_", "source", "lake"),
    [
        (pa.string(), "", None),
        (pa.string(), "a", "A"),
        (pa.binary(), b"", b"\0"),
        (pa.bool_(), False, None),
        (pa.float64(), 0.0, None),
        (pa.float64(), 1.0, float(np.nextafter(1, 2))),
        (pa.decimal128(38, 0), Decimal(10**37), Decimal(10**37 + 1)),
        (FLOATS, [], None),
        (FLOATS, [None], []),
        (pa.list_(pa.string()), ["a", "b"], ["a,b"]),
        (pa.list_(pa.list_(pa.string())), [["a"], []], [[], ["a"]]),
        (MEMBERS, {"name": None, "ratio": None}, None),
        (pa.map_(pa.string(), pa.int32()), [], None),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], [("a", None)]),
        (pa.list_(pa.float32(), 2), [1, 2], [2, 1]),
    ],
)
def test_different_values(type_: pa.DataType, source: Any, lake: Any) -> None:
    assert not is_equal(type_, source, lake)


NUMBERS = pa.schema([("id", pa.int64()), ("difference", pa.int64())])


def numbers(ids: Any, payload: int = 0) -> pa.RecordBatch:
    ids = np.asarray(ids, np.int64)
    return pa.record_batch([pa.array(ids), pa.array(ids * 0 + payload)], schema=NUMBERS)


@pytest.mark.parametrize("memory_bytes", [500_000, 2_000_000, 1 << 30])
def test_any_memory_gives_the_same_result(tmp_path: Path, memory_bytes: int) -> None:
    count = 50_000
    with Comparison(
        ["id"], NUMBERS, memory_bytes=memory_bytes, directory=str(tmp_path)
    ) as comparison:
        comparison.add_source(numbers(range(low, low + 5000)) for low in range(0, count, 5000))
        changed = [numbers(range(0, 100), payload=1), numbers(range(100, count - 10))]
        comparison.add_lake([*changed, numbers(range(count, count + 7))])
        (folder,) = tmp_path.iterdir()
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) == (0 if memory_bytes == 1 << 30 else 64)
        differences = comparison.differences()
        assert differences.counts == {
            Difference.DIFFERENT: 100,
            Difference.MISSING: 10,
            Difference.EXTRA: 7,
        }
        assert differences.equal_rows == count - 110
        for kind, expected in [
            (Difference.DIFFERENT, range(100)),
            (Difference.MISSING, range(count - 10, count)),
            (Difference.EXTRA, range(count, count + 7)),
        ]:
            ids = [batch.column(0) for batch in differences.batches(kind)]
            assert sorted(pa.chunked_array(ids).to_pylist()) == list(expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory_bytes", [100, 1 << 20])
def test_duplicated_keys_are_reported(memory_bytes: int) -> None:
    with Comparison(["id"], NUMBERS, memory_bytes=memory_bytes) as comparison:
        comparison.add_source([numbers([1, 2, 2, 3, 3, 5])])
        comparison.add_lake([numbers([1, 2, 3, 4, 4]), numbers([3], payload=7)])
        differences = comparison.differences()
        assert differences.equal_rows == 1
        differing = Counter(
            (number, kind)
            for batch in differences.batches()
            for number, kind in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
    assert differing == Counter(
        {
            (2, "duplicated in the source"): 1,
            (3, "duplicated in the source"): 1,
            (3, "duplicated in the lake"): 1,
            (3, "different"): 1,
            (4, "duplicated in the lake"): 1,
            (4, "not in the source"): 1,
            (5, "missing in the lake"): 1,
        }
    )


@pytest.mark.parametrize("sides", [(), ("source",), ("lake",)])
def test_empty_sides(sides: Sequence[str]) -> None:
    with Comparison(["id"], NUMBERS) as comparison:
        comparison.add_source([numbers(range(3))] if "source" in sides else [numbers([])])
        comparison.add_lake([numbers(range(3))] if "lake" in sides else [])
        differences = comparison.differences()
        kinds = {"source": Difference.MISSING, "lake": Difference.EXTRA}
        assert differences.counts == {kinds[side]: 3 for side in sides}
        assert sum(batch.num_rows for batch in differences.batches()) == 3 * len(sides)
        assert list(differences.batches(Difference.DIFFERENT)) == []


@pytest.mark.parametrize("memory_bytes", [2000, 1 << 20])
def test_keys_alone_show_what_the_source_lacks(memory_bytes: int) -> None:
    types: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
        "name": (pa.string(), ["a", "A", "a ", ""]),
        "at": (pa.timestamp("s"), [dt.datetime(2024, 1, day) for day in (1, 2, 3, 4)]),
        "price": (pa.decimal128(5, 2), [Decimal(n) for n in (1, 2, 3, 4)]),
        "raw": (pa.binary(), [b"", b"\0", b"a", b"b"]),
        "hour": (pa.time32("ms"), [dt.time(n) for n in (1, 2, 3, 4)]),
        "ratio": (pa.float64(), [0.0, 1.0, float("inf"), -1.0]),
    }
    schema = pa.schema([(name, type_) for name, (type_, _) in types.items()])
    lake = pa.record_batch([column for _, column in types.values()], schema=schema)
    with Comparison(schema.names, schema, memory_bytes=memory_bytes) as comparison:
        comparison.add_source([lake.slice(0, 2), lake.slice(3)])
        comparison.add_lake([lake])
        differences = comparison.differences()
        assert differences.equal_rows == 3
        (batch,) = differences.batches(Difference.EXTRA)
        assert batch.schema.names == [*schema.names, "difference"]
        assert batch.select(schema.names).equals(lake.slice(2, 1))


def test_a_key_may_have_the_name_of_the_result() -> None:
    with Comparison(["difference"], NUMBERS) as comparison:
        comparison.add_source([numbers([1], payload=7)])
        (batch,) = comparison.differences().batches()
        assert batch.schema.names == ["difference", "difference"]
        assert [column.to_pylist() for column in batch.columns] == [[7], ["missing in the lake"]]


def test_rows_with_other_columns_are_rejected() -> None:
    with pytest.raises(Invalid, match=r"the key \(id, no\): the columns are id, difference"):
        Comparison(["id", "no"], NUMBERS)
    with Comparison(["id"], NUMBERS) as comparison:
        batch = numbers([1])
        with pytest.raises(Invalid, match="rows of the source: column 'difference' is missing"):
            comparison.add_source([batch.select(["id"])])
        with pytest.raises(Invalid, match="rows of the lake: column 'more' is not known"):
            comparison.add_lake([batch.append_column("more", batch.column(0))])
        other = pa.record_batch({"difference": ["1"], "id": pa.array([1], pa.int64())})
        with pytest.raises(Invalid, match="column 'difference' is string, expected int64"):
            comparison.add_lake([other])
        twice = batch.append_column("id", batch.column(0))
        with pytest.raises(Invalid, match="two columns have the same name"):
            comparison.add_lake([twice])
        # Their order may be another one.
        comparison.add_source([batch.select(["difference", "id"])])
        comparison.add_lake([batch])
        assert comparison.differences().equal_rows == 1
        with pytest.raises(Invalid, match="cannot add rows of the lake: the rows were compared"):
            comparison.add_lake([batch])


MEMORY_PROGRAM = """
import sys
import numpy as np, pyarrow as pa
from headwater.cdc.sink.comparison import Comparison

rows, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
schema = pa.schema([("id", pa.int64()), ("name", pa.string())])

def batches():
    for low in range(0, rows, 50_000):
        ids = pa.array(np.arange(low, low + 50_000))
        yield pa.record_batch([ids, ids.cast(pa.string())], schema=schema)

with Comparison(["id"], schema, memory_bytes=memory_bytes) as comparison:
    comparison.add_source(batches())
    comparison.add_lake(batches())
    assert comparison.differences().equal_rows == rows
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(line.split()[1]) * 1024)
"""


def test_memory_is_bounded() -> None:
    def peak_bytes(rows: int, memory_bytes: int) -> int:
        command = [sys.executable, "-c", MEMORY_PROGRAM, str(rows), str(memory_bytes)]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    base = peak_bytes(50_000, 1 << 30)
    bound = 64 << 20
    assert peak_bytes(3_000_000, bound) - base < bound
    # Without a bound, the rows need more than twice as much.
    assert peak_bytes(3_000_000, 1 << 40) - base > 2 * bound
