"""Parquet data files: what Paimon's readers expect, and what a bad file leads to."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.formats.parquet import ParquetReader
from headwater.storage.formats.parquet_nulls import filled_below_nulls
from headwater.storage.formats.parquet_schema import parquet_schema
from headwater.storage.formats.parquet_writer import ParquetWriter
from headwater.storage.formats.system_columns import data_file_fields
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

_FILES = LocalFileAccess()


def _field(number: int, name: str, document: Json) -> DataField:
    return DataField(number, name, parse_type(document))


_ROW: Json = {
    "type": "ROW",
    "fields": [
        {"id": 31, "name": "x", "type": "INT"},
        {"id": 32, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}},
    ],
}
_MAP: Json = {"type": "MAP", "key": "STRING", "value": "INT"}
_FIELDS = (
    _field(0, "b", "BOOLEAN"),
    _field(1, "i8", "TINYINT NOT NULL"),
    _field(2, "i16", "SMALLINT"),
    _field(3, "i32", "INT"),
    _field(4, "i64", "BIGINT"),
    _field(5, "f32", "FLOAT"),
    _field(6, "f64", "DOUBLE"),
    _field(7, "d9", "DECIMAL(9, 2)"),
    _field(8, "d18", "DECIMAL(18, 2)"),
    _field(9, "d38", "DECIMAL(38, 2)"),
    _field(10, "c", "CHAR(3)"),
    _field(11, "s", "STRING"),
    _field(12, "bin", "BYTES"),
    _field(13, "day", "DATE"),
    _field(14, "clock", "TIME(3)"),
    _field(15, "t3", "TIMESTAMP(3)"),
    _field(16, "t6", "TIMESTAMP(6)"),
    _field(17, "z6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    _field(18, "list", {"type": "ARRAY", "element": "INT"}),
    _field(19, "map", _MAP),
    _field(20, "bag", {"type": "MULTISET", "element": "STRING"}),
    _field(30, "row", _ROW),
    _field(40, "deep", {"type": "ARRAY", "element": _MAP}),
)


def _write(path: Path, fields: tuple[DataField, ...], rows: list[dict[str, object]]) -> str:
    uri = local_uri(path)
    with ParquetWriter(_FILES, uri, fields) as writer:
        writer.write(pa.Table.from_pylist(rows, parquet_schema(fields)))
    return uri


# As `ParquetSchemaConverter.java` makes them: physical type, logical type, field id.
_PHYSICAL = """\
optional boolean field_id=0 b;
required int32 field_id=1 i8 (Int(bitWidth=8, isSigned=true));
optional int32 field_id=2 i16 (Int(bitWidth=16, isSigned=true));
optional int32 field_id=3 i32;
optional int64 field_id=4 i64;
optional float field_id=5 f32;
optional double field_id=6 f64;
optional int32 field_id=7 d9 (Decimal(precision=9, scale=2));
optional int64 field_id=8 d18 (Decimal(precision=18, scale=2));
optional fixed_len_byte_array(16) field_id=9 d38 (Decimal(precision=38, scale=2));
optional binary field_id=10 c (String);
optional binary field_id=11 s (String);
optional binary field_id=12 bin;
optional int32 field_id=13 day (Date);
optional int32 field_id=14 clock (Time(isAdjustedToUTC=true, timeUnit=milliseconds));
optional int64 field_id=15 t3 (Timestamp(isAdjustedToUTC=false, timeUnit=milliseconds
optional int64 field_id=16 t6 (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds
optional int64 field_id=17 z6 (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds
optional group field_id=18 list (List) {
repeated group field_id=-1 list {
optional int32 field_id=536889344 element;
optional group field_id=19 map (Map) {
repeated group field_id=-1 key_value {
required binary field_id=536851454 key (String);
optional int32 field_id=536890368 value;
optional group field_id=20 bag (Map) {
repeated group field_id=-1 key_value {
required binary field_id=536850430 key (String);
required int32 field_id=536891392 value;
optional group field_id=30 row {
optional int32 field_id=31 x;
optional group field_id=32 y (List) {
repeated group field_id=-1 list {
optional binary field_id=536903680 element (String);
optional group field_id=40 deep (List) {
repeated group field_id=-1 list {
optional group field_id=536911872 element (Map) {
repeated group field_id=-1 key_value {
required binary field_id=536829949 key (String);
optional int32 field_id=536911873 value;
"""


def test_physical_types_and_field_ids_are_paimons(tmp_path: Path) -> None:
    _write(tmp_path / "f.parquet", _FIELDS, [])
    shown = str(pq.ParquetFile(tmp_path / "f.parquet").schema)
    found = [line.strip() for line in shown.splitlines()[2:]]
    found = [line for line in found if line not in ("}", "")]
    expected = _PHYSICAL.splitlines()
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)
    assert pq.read_metadata(tmp_path / "f.parquet").metadata is None


def test_nanoseconds_are_int96(tmp_path: Path) -> None:
    fields = (_field(0, "t9", "TIMESTAMP(9)"), _field(1, "t3", "TIMESTAMP(3)"))
    uri = local_uri(tmp_path / "f.parquet")
    nanos = pa.array([1_700_000_000_123_456_789, -1, None], pa.timestamp("ns"))
    millis = pa.array([1_700_000_000_123, -1, 253_402_300_799_999], pa.timestamp("ms"))
    with ParquetWriter(_FILES, uri, fields) as writer:
        writer.write(pa.table([nanos, millis], ["t9", "t3"]))
    physical = pq.ParquetFile(tmp_path / "f.parquet").schema
    assert {physical.column(i).physical_type for i in (0, 1)} == {"INT96"}
    (batch,) = ParquetReader(_FILES, uri).batches(fields)
    assert batch.column(0).equals(nanos)
    # The year 9999 does not fit Arrow's nanoseconds; it must not wrap.
    assert batch.column(1).cast(pa.timestamp("ms")).equals(millis)


_OLD = dt.datetime(1500, 1, 1, 2, 3, 4, 567000)
_ROW_OF_TIMES: Json = {
    "type": "ROW",
    "fields": [
        {"id": 21, "name": "t9", "type": "TIMESTAMP(9)"},
        {"id": 22, "name": "t6", "type": "TIMESTAMP(6)"},
        {"id": 23, "name": "z3", "type": "TIMESTAMP(3) WITH LOCAL TIME ZONE"},
    ],
}


def test_int96_reaches_beyond_what_nanoseconds_do_inside_nested_types(tmp_path: Path) -> None:
    fields = (
        _field(0, "t9", "TIMESTAMP(9)"),
        _field(1, "list", {"type": "ARRAY", "element": "TIMESTAMP(6)"}),
        _field(2, "map", {"type": "MAP", "key": "TIMESTAMP(3)", "value": "TIMESTAMP(9)"}),
        _field(3, "bag", {"type": "MULTISET", "element": "TIMESTAMP(6)"}),
        _field(4, "row", _ROW_OF_TIMES),
        _field(5, "rows", {"type": "ARRAY", "element": _ROW_OF_TIMES}),
    )
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in fields])
    nanos = pa.scalar(1_700_000_000_123_456_789, pa.timestamp("ns"))
    row = {"t9": nanos, "t6": _OLD, "z3": _OLD.replace(tzinfo=dt.UTC)}
    full = [nanos, [_OLD, None], [(_OLD, nanos), (_OLD, None)], [(_OLD, 3)], row, [row, None]]
    empty: list[object] = [None, [], None, [], None, []]
    table = pa.table(
        [pa.array([a, b, a], item.type) for a, b, item in zip(full, empty, schema, strict=True)],
        schema=schema,
    )
    uri = local_uri(tmp_path / "f.parquet")
    with ParquetWriter(_FILES, uri, fields) as writer:
        writer.write(table)
    for chosen in (fields, fields[1:], fields[1:2], fields[4:5]):
        (batch,) = ParquetReader(_FILES, uri).batches(chosen)
        for item in chosen:
            found = batch.column(item.name).cast(to_arrow(item.type))
            assert found.equals(table.column(item.name).combine_chunks()), item.name


def test_a_moment_beyond_nanoseconds_is_refused_by_name(tmp_path: Path) -> None:
    # Java keeps the day and the nanosecond of the day, and so reaches further.
    written = (_field(0, "t", "TIMESTAMP(6)"), _field(1, "n", "TIMESTAMP(9)"))
    uri = local_uri(tmp_path / "f.parquet")
    with ParquetWriter(_FILES, uri, written) as writer:
        writer.write(
            pa.table(
                {
                    "t": pa.array([_OLD], pa.timestamp("us")),
                    "n": pa.array([0], pa.timestamp("ns")),
                }
            )
        )
    with pytest.raises(Unsupported, match=r"f\.parquet: column 't' holds a moment outside"):
        list(ParquetReader(_FILES, uri).batches([_field(0, "t", "TIMESTAMP(9)")]))


def test_statistics_are_those_of_the_column_not_of_a_path_that_reads_alike(tmp_path: Path) -> None:
    inner: Json = {"type": "ROW", "fields": [{"id": 9, "name": "b", "type": "INT"}]}
    fields = (
        _field(0, "a", inner),
        _field(1, "a.b", "INT"),
        _field(2, "m", _MAP),
        _field(3, "m.key_value.key", "STRING"),
    )
    uri = local_uri(tmp_path / "f.parquet")
    with ParquetWriter(_FILES, uri, fields) as writer:
        writer.write(
            pa.table(
                [
                    pa.array([{"b": 100}, {"b": 200}], to_arrow(fields[0].type)),
                    pa.array([10, 20], pa.int32()),
                    pa.array([[("x", 1)], [("y", 1)]], to_arrow(fields[2].type)),
                    pa.array(["p", "q"]),
                ],
                [field.name for field in fields],
            )
        )
    reader = ParquetReader(_FILES, uri)
    found = [reader.statistics(0, field) for field in fields]
    ends = [None if each is None else (each.minimum, each.maximum) for each in found]
    assert ends == [None, (10, 20), None, ("p", "q")]
    (batch,) = reader.batches([fields[1], fields[0]])
    assert batch.column(0).to_pylist() == [10, 20]
    assert batch.column(1).to_pylist() == [{"b": 100}, {"b": 200}]


def test_the_footer_has_no_range_of_floating_point_numbers(tmp_path: Path) -> None:
    """A range leaves NaN out, which Spark and Paimon take for the greatest number."""
    inner: Json = {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "DOUBLE"}]}
    fields = (
        _field(0, "n", "INT"),
        _field(1, "f", "FLOAT"),
        _field(2, "d", "DOUBLE"),
        _field(3, "r", inner),
        _field(4, "a", {"type": "ARRAY", "element": "FLOAT"}),
        _field(5, "v", "VARIANT"),
        _field(6, "m", _MAP),
    )
    nan = math.nan
    row = {"n": 1, "f": nan, "d": -1.5, "r": {"x": nan}, "a": [nan, 2.5], "m": [("k", 1)]}
    _write(tmp_path / "f.parquet", fields, [{**row, "v": {"value": b"\0", "metadata": b"\1\0\0"}}])
    group = pq.read_metadata(tmp_path / "f.parquet").row_group(0)
    leaves = [group.column(at) for at in range(group.num_columns)]
    assert [leaf.path_in_schema for leaf in leaves if leaf.statistics is None] == [
        "f",
        "d",
        "r.x",
        "a.list.element",
    ]
    assert len(leaves) == 9


@pytest.mark.parametrize("precision", [9, 18, 38])
def test_statistics_of_decimals_have_their_sign(tmp_path: Path, precision: int) -> None:
    fields = (_field(0, "d", f"DECIMAL({precision}, 2)"),)
    low, high = Decimal(f"-{'9' * (precision - 2)}.99"), Decimal("-0.01")
    uri = local_uri(tmp_path / "f.parquet")
    with ParquetWriter(_FILES, uri, fields) as writer:
        writer.write(pa.table({"d": pa.array([high, low], to_arrow(fields[0].type))}))
    found = ParquetReader(_FILES, uri).statistics(0, fields[0])
    assert found is not None
    assert (found.minimum, found.maximum) == (low, high)


def test_columns_of_a_primary_key_table_stand_in_paimons_order() -> None:
    arrow = pa.schema([pa.field("v", pa.string()), pa.field("k", pa.int64(), False)])
    fields = Schema.from_arrow(arrow).fields
    schema = TableSchema(0, fields, 1, (), ("k",), {}, None, 0)
    made = data_file_fields(schema)
    assert [item.name for item in made] == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "k"]
    assert [item.id for item in made] == [1073741824, 2147483646, 2147483645, 0, 1]
    thin = data_file_fields(schema, thin=True)
    assert [item.name for item in thin] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "k"]


def test_row_groups_are_bounded_and_pruned_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.storage.formats.parquet_writer._ROW_GROUP_ROWS", 100)
    fields = (_field(0, "n", "BIGINT"), _field(1, "s", "STRING"))
    uri = local_uri(tmp_path / "f.parquet")
    writer = ParquetWriter(_FILES, uri, fields)
    for start in range(0, 250, 50):
        writer.write(
            pa.table({"n": range(start, start + 50), "s": ["x"] * 50}, parquet_schema(fields))
        )
    written = writer.close()
    assert (written.row_count, written.size) == (250, (tmp_path / "f.parquet").stat().st_size)
    reader = ParquetReader(_FILES, uri, row_count=250)
    assert len(reader.row_groups) == 3
    found = reader.statistics(1, fields[0])
    assert found is not None
    assert (found.minimum, found.maximum, found.null_count, found.row_count) == (100, 199, 0, 100)
    numbers = [b.column(0).to_pylist() for b in reader.batches(fields[:1], [1], batch_rows=60)]
    assert [len(part) for part in numbers] == [60, 40]
    assert [n for part in numbers for n in part] == list(range(100, 200))
    assert sum(batch.num_rows for batch in reader.batches([], [0, 2])) == 150


def test_a_null_in_a_not_null_field_of_a_row_is_refused() -> None:
    row: Json = {"type": "ROW", "fields": [{"id": 1, "name": "x", "type": "INT NOT NULL"}]}
    data_type = parse_type(row)
    rows = pa.array([{"x": 1}, None], to_arrow(data_type))
    assert filled_below_nulls(rows, data_type, "r").to_pylist() == [{"x": 1}, None]
    with pytest.raises(Invalid, match="'r': its field 'x' is NOT NULL"):
        filled_below_nulls(pa.array([{"x": None}], to_arrow(data_type)), data_type, "r")


@pytest.mark.parametrize("row_group_rows", [7_000, 20_000])
def test_text_of_few_values_is_read_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_rows: int
) -> None:
    # A batch of the long values would hold a few of them only.
    monkeypatch.setattr("headwater.storage.formats.parquet_batches._MOST_TEXT_BYTES", 40_000)
    fields = (
        _field(0, "n", "BIGINT"),
        _field(1, "few", "STRING"),
        _field(2, "many", "STRING"),
        _field(3, "bytes", "BYTES"),
        _field(4, "none", "STRING"),
        _field(5, "long", "STRING"),
        _field(6, "later", "STRING"),
    )
    numbers = range(20_000)
    rows = pa.table(
        {
            "n": numbers,
            "few": [None if n % 11 == 0 else f"é{n % 7}" for n in numbers],
            "many": [f"value {n}" for n in numbers],
            "bytes": [b"\xff" * (n % 3) for n in numbers],
            "none": [None] * len(numbers),
            "long": ["y" * 30 if n % 5 else "z" * 900 for n in numbers],
            # Only the beginning is encoded: the dictionary is full.
            "later": ["a" if n < 19_000 else f"b{n}" for n in numbers],
        },
        parquet_schema(fields),
    )
    path = tmp_path / "f.parquet"
    pq.write_table(rows, path, row_group_size=row_group_rows, dictionary_pagesize_limit=4096)
    reader = ParquetReader(_FILES, local_uri(path), row_count=20_000)
    for wanted in (fields, fields[5:0:-1]):
        found = pa.Table.from_batches(reader.batches(wanted, batch_rows=4096))
        assert found.equals(rows.select([item.name for item in wanted]))
    chosen = list(reader.batches(fields[1:2], [0], batch_rows=1000, batch_bytes=3000))
    assert pa.Table.from_batches(chosen).equals(rows.select(["few"]).slice(0, row_group_rows))
    assert max(batch.nbytes for batch in chosen[1:]) < 6000, "bytes are those of the values"


def test_a_changed_footer_changes_its_checksum(tmp_path: Path) -> None:
    path, fields = tmp_path / "f", (_field(0, "n", "BIGINT"),)
    with ParquetWriter(_FILES, local_uri(path), fields) as writer:
        writer.write(pa.table({"n": pa.array(range(1000), pa.int64())}))
    whole = path.read_bytes()
    assert pq.read_table(path).column("n").to_pylist() == list(range(1000))
    ParquetReader(_FILES, local_uri(path)).check()
    # The greatest value of the column, by which a reader would leave the rows out.
    at = whole.rindex((999).to_bytes(8, "little"))
    path.write_bytes(whole[:at] + (9).to_bytes(8, "little") + whole[at + 8 :])
    with pytest.raises(CorruptData, match="the checksum of its footer"):
        ParquetReader(_FILES, local_uri(path)).check()
    pq.write_table(pa.table({"n": [1]}), path)
    ParquetReader(_FILES, local_uri(path)).check()
