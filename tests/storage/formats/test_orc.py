"""What is particular to ORC files: stripes, their statistics, timestamps, codecs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.formats.orc import ORC
from headwater.storage.formats.protocol import FormatReader
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

_FILES = LocalFileAccess()
_FIELDS = (
    DataField(0, "n", parse_type("BIGINT")),
    DataField(1, "s", parse_type("STRING")),
    DataField(2, "b", parse_type("BOOLEAN")),
    DataField(3, "d", parse_type("DECIMAL(12, 3)")),
    DataField(4, "day", parse_type("DATE")),
    DataField(5, "clock", parse_type("TIME(3)")),
)
_SCHEMA = pa.schema([pa.field(f.name, to_arrow(f.type)) for f in _FIELDS])


def _field(document: Json) -> DataField:
    return DataField(0, "c", parse_type(document))


def _write(path: Path, data: pa.Table, *fields: DataField, stripe: int | None = None) -> str:
    uri = local_uri(path)
    with ORC.writer(_FILES, uri, fields, block_bytes=stripe) as writer:
        for batch in data.to_batches(max_chunksize=1000):
            writer.write(batch)
    return uri


def _read(reader: FormatReader, groups: list[int] | None = None) -> pa.Table:
    return pa.Table.from_batches(list(reader.batches(_FIELDS, groups)))


def _rows(numbers: range) -> pa.Table:
    rows = [
        {
            "n": n,
            "s": None if n % 10 == 0 else f"text {n:06} {n * 7919 % 104729}",
            "b": n >= 9000,
            "d": Decimal(n - 5000) / 1000,
            "day": dt.date(2020, 1, 1) + dt.timedelta(n),
            "clock": (dt.datetime(2020, 1, 1) + dt.timedelta(milliseconds=n)).time(),
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)


def test_stripes_are_read_for_themselves_and_have_statistics(tmp_path: Path) -> None:
    data = _rows(range(20_000))
    reader = ORC.reader(_FILES, _write(tmp_path / "f", data, *_FIELDS, stripe=10_000))
    assert len(reader.row_groups) > 3
    start = 0
    for group in reader.row_groups:
        part = _read(reader, [group])
        assert reader.row_group_starts[group] == start
        rows = data.slice(start, part.num_rows)
        start += part.num_rows
        assert part.column("n").equals(rows.column("n"))
        assert part.column("s").equals(rows.column("s"))
        for field in _FIELDS:
            result = reader.statistics(group, field)
            assert result is not None
            column = rows.column(field.name)
            ends = pc.min_max(column)
            low, high = ends["min"], ends["max"]
            if pa.types.is_date(column.type) or pa.types.is_time(column.type):
                low, high = low.cast(pa.int32()), high.cast(pa.int32())
            assert (result.minimum, result.maximum) == (low.as_py(), high.as_py())
            assert (result.null_count, result.row_count) == (column.null_count, part.num_rows)
    assert start == data.num_rows
    first, last = reader.row_groups[0], reader.row_groups[-1]
    some = _read(reader, [first, last]).column("n").to_pylist()
    assert (some[0], some[-1]) == (0, 19_999)
    assert len(some) < 20_000


@settings(max_examples=20, deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_statistics_bound_any_numbers(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int | None]
) -> None:
    field = _field("BIGINT")
    data = pa.table({"c": pa.array(numbers, pa.int64())})
    reader = ORC.reader(_FILES, _write(tmp_path_factory.mktemp("f") / "f", data, field))
    known = [number for number in numbers if number is not None]
    for group in reader.row_groups:
        result = reader.statistics(group, field)
        assert result is not None
        assert result.null_count == len(numbers) - len(known)
        if known and result.minimum is not None:
            assert (result.minimum, result.maximum) == (min(known), max(known))


def test_statistics_of_more_values_than_rows_are_none(tmp_path: Path) -> None:
    field = _field("BIGINT")
    uri = local_uri(tmp_path / "f")
    with ORC.writer(_FILES, uri, [field], compression="none") as writer:
        writer.write(pa.table({"c": pa.array([-3, 4, 5, 6, 7], pa.int64())}))
    whole = (tmp_path / "f").read_bytes()
    # The number of values, whether there are nulls (not), and the ends: -3 to 7, zigzag.
    counted = b"\x08\x05\x12"
    at = whole.rindex(counted, 0, whole.rindex(counted))
    for count, expected in ((5, (-3, 7, 0)), (4, (-3, 7, 1)), (6, None)):
        (tmp_path / "f").write_bytes(whole[: at + 1] + bytes([count]) + whole[at + 2 :])
        result = ORC.reader(_FILES, uri).statistics(0, field)
        ends = None if result is None else (result.minimum, result.maximum, result.null_count)
        assert ends == expected, count


@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back(tmp_path: Path, codec: str) -> None:
    data = _rows(range(3000))
    uri = local_uri(tmp_path / "f")
    with ORC.writer(
        _FILES, uri, _FIELDS, compression=codec, zstd_level=9, block_bytes=10_000
    ) as writer:
        for batch in data.to_batches(max_chunksize=500):
            writer.write(batch)
    reader = ORC.reader(_FILES, uri, row_count=3000)
    assert _read(reader).column("s").equals(data.column("s"))
    assert _read(reader, [reader.row_groups[-1]]).column("n").to_pylist()[-1] == 2999
    result = reader.statistics(0, _FIELDS[0])
    assert result is not None
    assert result.minimum == 0


def test_columns_have_the_ids_that_paimon_gives_them(tmp_path: Path) -> None:
    nested: Json = {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT"}}
    fields = (DataField(3, "m", parse_type(nested)), DataField(4, "t", parse_type("TIME(3)")))
    schema = pa.schema([pa.field(f.name, to_arrow(f.type)) for f in fields])
    _write(tmp_path / "f", schema.empty_table(), *fields)
    result = orc.ORCFile(tmp_path / "f").schema
    assert [item.metadata[b"paimon.id"] for item in result] == [b"3", b"4"]
    # SpecialFields.java: 536870911 is where ids of nested parts begin.
    base, step = (2**31 - 1) // 4, 3 * 1024
    m = result.field("m").type
    assert m.item_field.metadata[b"paimon.id"] == str(base + step + 1).encode()
    assert m.item_type.value_field.metadata[b"paimon.id"] == str(base + step + 2).encode()
    assert result.field("t").type == pa.int32()


_INSIDE: Json = {"type": "ARRAY", "element": {"type": "MAP", "key": "INT", "value": "TIMESTAMP(6)"}}


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ("TIMESTAMP(6)", dt.datetime(9999, 12, 31)),
        ("TIMESTAMP(3)", dt.datetime(1600, 1, 1)),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", dt.datetime(1969, 1, 1, 0, 0, 0, 1, dt.UTC)),
        (_INSIDE, [[(1, dt.datetime(1969, 12, 31, 23, 59, 59, 500000))]]),
        (
            {"type": "ROW", "fields": [{"id": 1, "name": "t", "type": "TIMESTAMP(0)"}]},
            {"t": dt.datetime(3000, 1, 1)},
        ),
    ],
)
def test_timestamps_that_would_be_written_wrong_are_refused(
    tmp_path: Path, document: Json, value: object
) -> None:
    field = _field(document)
    good = pa.array([None, None], to_arrow(field.type))
    bad = pa.array([value], to_arrow(field.type))
    writer = ORC.writer(_FILES, local_uri(tmp_path / "f"), [field])
    writer.write(pa.table({"c": good}))
    with pytest.raises(Unsupported, match=r"column 'c' holds a .*set the option 'file\.format'"):
        writer.write(pa.table({"c": bad}))
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", [0, 3, 6, 9])
@pytest.mark.parametrize("zone", ["", " WITH LOCAL TIME ZONE"])
def test_timestamps_come_back(tmp_path: Path, precision: int, zone: str) -> None:
    field = _field(f"TIMESTAMP({precision}){zone}")
    arrow = to_arrow(field.type)
    digits = {"ms": 10**3, "us": 10**6, "ns": 10**9}[arrow.unit]
    numbers = [0, 1, digits - 1, digits, 9_000_000_000 * digits + 7, -digits, -8 * 10**9 * digits]
    column = pa.array([*numbers, None], pa.int64()).cast(arrow)
    uri = _write(tmp_path / "f", pa.table({"c": column}), field)
    (batch,) = ORC.reader(_FILES, uri).batches([field])
    assert batch.column("c").equals(column)


def test_values_under_nulls_move_no_others(tmp_path: Path) -> None:
    leaf: Json = {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "INT"}]}
    rows: Json = {"type": "ROW", "fields": [{"id": 1, "name": "r", "type": leaf}]}
    field = _field(rows)
    arrow = to_arrow(field.type)
    numbers = pa.array([5, 6, 7], pa.int32())
    inner = pa.StructArray.from_arrays(
        [numbers], fields=list(arrow.field("r").type), mask=pa.array([True, False, False])
    )
    outer = pa.StructArray.from_arrays([inner], fields=list(arrow))
    for start, name in enumerate("fgh"):
        part = outer.slice(start)
        uri = _write(tmp_path / name, pa.table({"c": part}), field)
        (batch,) = ORC.reader(_FILES, uri).batches([field])
        assert batch.column("c").to_pylist() == part.to_pylist()
    assert part.to_pylist() == [{"r": {"x": 7}}]


def test_files_of_other_writers(tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(2024, 1, 1, 0, 0, 0, 123456), None], pa.timestamp("us"))
    data = pa.table({"c": ["ab ", "  "], "t": moments})
    orc.write_table(data, tmp_path / "f")
    reader = ORC.reader(_FILES, local_uri(tmp_path / "f"))
    fields = [
        DataField(0, "c", parse_type("CHAR(3)")),
        DataField(1, "t", parse_type("TIMESTAMP(3)")),
    ]
    (batch,) = reader.batches(fields)
    assert batch.column("c").to_pylist() == ["ab ", "   "]
    assert batch.column("t").to_pylist() == [dt.datetime(2024, 1, 1, 0, 0, 0, 123000), None]
    # Statistics of padded text, and of another type than the file's, bound nothing.
    for field in fields:
        result = reader.statistics(0, field)
        assert result is not None
        assert result.minimum is None
    late = pa.table({"t": pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("us"))})
    orc.write_table(late, tmp_path / "g")
    with pytest.raises(Unsupported, match=r"/g holds a timestamp outside the years 1677 to 2262"):
        list(ORC.reader(_FILES, local_uri(tmp_path / "g")).batches(fields[1:]))


def test_a_tail_that_is_damaged_anywhere_is_named_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "f"
    uri = _write(path, _rows(range(100)), *_FIELDS)
    good = path.read_bytes()
    tail = len(good) - 1 - good[-1]
    messages: list[str] = []
    for item in range(tail, len(good)):
        for change in (0x01, 0x80):
            path.write_bytes(good[:item] + bytes([good[item] ^ change]) + good[item + 1 :])
            try:
                result = _read(ORC.reader(_FILES, uri, row_count=100))
            except (CorruptData, Unsupported) as error:
                messages.append(str(error))
            else:
                assert result.num_rows == 100
    assert len(messages) > 10
    assert all("/f" in message for message in messages)


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    uri = _write(tmp_path / "f", _SCHEMA.empty_table(), *_FIELDS)
    reader = ORC.reader(_FILES, uri, row_count=0)
    assert list(reader.batches(_FIELDS)) == []
    with pytest.raises(CorruptData, match="lacks column 'q'"):
        list(reader.batches([DataField(9, "q", parse_type("INT"))]))


def test_a_file_that_cannot_be_written_does_not_end_the_process(tmp_path: Path) -> None:
    writer = ORC.writer(_FILES, local_uri(tmp_path / "f"), _FIELDS)
    writer.write(_rows(range(10)))
    with pytest.raises(Invalid):
        writer.write(pa.table({"q": [1]}))
    writer.abort()
    del writer
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_changed_bit_anywhere_changes_the_checksum(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "f"
    with ORC.writer(
        _FILES, local_uri(path), _FIELDS, compression=codec, block_bytes=10_000
    ) as writer:
        for start in range(0, 20_000, 1000):
            writer.write(_rows(range(start, start + 1000)))
    # Other readers pass over it.
    assert orc.ORCFile(path).read().column("n").to_pylist() == list(range(20_000))
    assert len(ORC.reader(_FILES, local_uri(path)).row_groups) > 3
    ORC.reader(_FILES, local_uri(path)).check()
    whole = path.read_bytes()
    assert b"headwater.crc32" in whole[-2000:]
    for item in range(3, len(whole), len(whole) // 60):
        path.write_bytes(whole[:item] + bytes([whole[item] ^ 1 << item % 8]) + whole[item + 1 :])
        with pytest.raises((CorruptData, Unsupported)):
            ORC.reader(_FILES, local_uri(path), row_count=20_000).check()


def test_a_file_of_another_writer_has_no_checksum_to_differ_from(tmp_path: Path) -> None:
    orc.write_table(_rows(range(100)).drop(["clock"]), tmp_path / "f", compression="zlib")
    ORC.reader(_FILES, local_uri(tmp_path / "f")).check()
