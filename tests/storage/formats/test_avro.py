"""Avro data files: the schema that Paimon gives them, and bytes that another library reads."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.formats.avro import AVRO, AvroReader
from headwater.storage.formats.avro_blocks import block, varint
from headwater.storage.formats.avro_schema import avro_schema
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

_FILES = LocalFileAccess()
_NAMESPACE = "org.apache.paimon.avro.generated"
_CODECS = ("zstd", "zstandard", "null", "none", "deflate", "snappy", "bzip2", "xz")


def _field(number: int, name: str, document: Json) -> DataField:
    return DataField(number, name, parse_type(document))


_ROW: Json = {
    "type": "ROW NOT NULL",
    "fields": [
        {"id": 10, "name": "x", "type": "INT"},
        {"id": 11, "name": "y", "type": "DECIMAL(20, 3) NOT NULL"},
    ],
}
_FIELDS = (
    _field(0, "k", "BIGINT NOT NULL"),
    _field(1, "small", "TINYINT"),
    _field(2, "t", "TIMESTAMP(3)"),
    _field(3, "z", "TIMESTAMP(6) WITH LOCAL TIME ZONE NOT NULL"),
    _field(4, "day", "DATE"),
    _field(5, "clock", "TIME(0)"),
    _field(6, "row", _ROW),
    _field(7, "rows", {"type": "ARRAY", "element": _ROW}),
    _field(8, "texts", {"type": "MAP", "key": "STRING NOT NULL", "value": _ROW}),
    _field(9, "numbers", {"type": "MAP", "key": "INT", "value": "BYTES NOT NULL"}),
    _field(12, "bag", {"type": "MULTISET", "element": "DATE NOT NULL"}),
)


def _nullable(bare: Json) -> Json:
    return ["null", bare]


def _record(name: str) -> Json:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "x", "type": ["null", "int"], "default": None},
            {
                "name": "y",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
            },
        ],
    }


def _pairs(name: str, key: Json, value: Json, *, default: bool) -> Json:
    second: dict[str, Json] = {"name": "value", "type": value}
    if default:
        second["default"] = None
    fields: list[Json] = [{"name": "key", "type": key}, second]
    entries: Json = {"type": "record", "name": name, "fields": fields}
    return {"type": "array", "items": entries, "logicalType": "map"}


def test_the_schema_is_paimons() -> None:
    date: Json = {"type": "int", "logicalType": "date"}
    expected: list[tuple[str, Json]] = [
        ("k", "long"),
        ("small", _nullable("int")),
        ("t", _nullable({"type": "long", "logicalType": "timestamp-millis"})),
        ("z", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("day", _nullable(date)),
        ("clock", _nullable({"type": "int", "logicalType": "time-millis"})),
        ("row", _record("record_row")),
        ("rows", _nullable({"type": "array", "items": _record("record_rows")})),
        ("texts", _nullable({"type": "map", "values": _record("record_texts")})),
        (
            "numbers",
            _nullable(_pairs("record_numbers", ["null", "int"], "bytes", default=False)),
        ),
        ("bag", _nullable(_pairs("record_bag", date, ["null", "int"], default=True))),
    ]
    found = avro_schema(_FIELDS)
    assert (found["name"], found["namespace"]) == ("record", _NAMESPACE)
    fields = found["fields"]
    assert isinstance(fields, list)
    for item, (name, kind) in zip(fields, expected, strict=True):
        wanted: dict[str, Json] = {"name": name, "type": kind}
        if isinstance(kind, list):
            wanted["default"] = None
        assert item == wanted


def test_records_have_names_of_their_own() -> None:
    inner: Json = {"type": "ROW", "fields": [{"id": 3, "name": "c", "type": _ROW}]}
    fields = (_field(0, "a", inner), _field(1, "a_c", _ROW))
    fastavro.parse_schema(avro_schema(fields))


_SECOND = dt.datetime(2024, 1, 2, 3, 4, 5, 678000)
_RECORD: dict[str, object] = {
    "k": 2**40,
    "small": -1,
    "t": _SECOND.replace(tzinfo=dt.UTC),
    "z": _SECOND.replace(microsecond=678901),
    "day": dt.date(1969, 12, 31),
    "clock": dt.time(1, 2, 3),
    "row": {"x": None, "y": Decimal("-1.280")},
    "rows": [{"x": 1, "y": Decimal("0.127")}, {"x": 2, "y": Decimal("0.128")}],
    "texts": {"a": {"x": 3, "y": Decimal("-99999999999999999.999")}},
    "numbers": [{"key": 1, "value": b""}, {"key": 2, "value": b"\x00"}],
    "bag": [{"key": dt.date(2024, 2, 29), "value": 2}],
}
_NULLS: dict[str, object] = {
    **dict.fromkeys(_RECORD),
    "k": 0,
    "z": dt.datetime(1, 1, 1),
    "row": {"x": None, "y": Decimal("0.000")},
}


def _table() -> pa.Table:
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in _FIELDS])
    values: dict[str, object] = {
        **_RECORD,
        "t": _SECOND,
        "z": _SECOND.replace(microsecond=678901, tzinfo=dt.UTC),
        "texts": [("a", {"x": 3, "y": Decimal("-99999999999999999.999")})],
        "numbers": [(1, b""), (2, b"\x00")],
        "bag": [(dt.date(2024, 2, 29), 2)],
    }
    nulls = {**_NULLS, "z": dt.datetime(1, 1, 1, tzinfo=dt.UTC)}
    return pa.Table.from_pylist([values, nulls] * 500, schema)


@pytest.mark.parametrize("codec", _CODECS)
def test_another_library_reads_what_is_written(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    with AVRO.writer(_FILES, local_uri(path), _FIELDS, compression=codec, zstd_level=9) as writer:
        writer.write(_table())
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    assert list(reader) == [_RECORD, _NULLS] * 500


@pytest.mark.parametrize("codec", ["zstandard", "null", "deflate", "snappy", "bzip2", "xz"])
@pytest.mark.parametrize("interval", [1, 1000, 10**6])
def test_what_another_library_writes_is_read(codec: str, interval: int, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    records = [_RECORD, _NULLS] * 500
    fastavro.writer(buffer, avro_schema(_FIELDS), records, codec=codec, sync_interval=interval)
    path = tmp_path / "f.avro"
    path.write_bytes(buffer.getvalue())
    reader = AvroReader(_FILES, local_uri(path), row_count=1000)
    table = pa.Table.from_batches(reader.batches(_FIELDS, batch_rows=300))
    expected = _table()
    for item in _FIELDS:
        found = table.column(item.name)
        assert found.to_pylist() == expected.column(item.name).to_pylist(), item.name


def test_schemas_of_other_writers_are_understood(tmp_path: Path) -> None:
    point: Json = {
        "type": "record",
        "name": "point",
        "fields": [{"name": "x", "type": ["null", "int"]}],
    }
    schema: dict[str, Json] = {
        "type": "record",
        "name": "r",
        "namespace": "other",
        "fields": [
            {"name": "p", "type": point},
            # A name instead of what it names, and null last.
            {"name": "q", "type": ["point", "null"]},
            {"name": "s", "type": [{"type": "string", "avro.java.string": "String"}, "null"]},
            # As fastavro is told to keep what is no local time.
            {"name": "z", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    moment = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    records = [
        {"p": {"x": 1}, "q": {"x": 2}, "s": "a", "z": moment},
        {"p": {"x": None}, "q": None, "s": None, "z": moment},
    ]
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records)
    (tmp_path / "f.avro").write_bytes(buffer.getvalue())
    row: Json = {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]}
    fields = (
        _field(0, "p", row),
        _field(1, "q", row),
        _field(2, "s", "STRING"),
        _field(3, "z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    )
    (batch,) = AvroReader(_FILES, local_uri(tmp_path / "f.avro")).batches(fields)
    assert batch.to_pylist() == records
    with pytest.raises(CorruptData, match=r"f\.avro: column 'p' is stored as record, .* not INT"):
        list(AvroReader(_FILES, local_uri(tmp_path / "f.avro")).batches([_field(0, "p", "INT")]))


@pytest.mark.parametrize(
    "schema",
    [
        "long",
        {"type": "record", "name": "r", "fields": [{"name": "f", "type": ["int", "string"]}]},
        {"type": "record", "name": "r", "fields": [{"name": "f", "type": ["null", "r"]}]},
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "f", "type": {"type": "fixed", "name": "x", "size": 4}}],
        },
    ],
)
def test_files_of_something_else_are_refused(schema: str | dict[str, Json], tmp_path: Path) -> None:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [])
    (tmp_path / "f.avro").write_bytes(buffer.getvalue())
    with pytest.raises(CorruptData, match=r"f\.avro cannot be read"):
        AvroReader(_FILES, local_uri(tmp_path / "f.avro"))


def test_it_has_no_statistics_and_says_so(tmp_path: Path) -> None:
    with AVRO.writer(_FILES, local_uri(tmp_path / "f.avro"), _FIELDS) as writer:
        writer.write(_table())
    reader = AVRO.reader(_FILES, local_uri(tmp_path / "f.avro"))
    assert list(reader.row_groups) == [0]
    assert [reader.statistics(0, item) for item in _FIELDS] == [None] * len(_FIELDS)


@pytest.mark.parametrize(
    ("rows", "data", "why"),
    [
        (2, b"\x02\x04ab", "rows are missing|cannot be read"),
        (1, b"\x02\x04ab\x00", "do not end where they should|cannot be read"),
        (1, b"\x02\x04", "cannot be read"),
        (1, b"\x02\x7f", "cannot be read"),
        (1, b"\x02\x04\xff\xfe", "cannot be read"),
    ],
)
def test_rows_must_be_the_whole_of_their_block(
    rows: int, data: bytes, why: str, tmp_path: Path
) -> None:
    fields = (_field(0, "s", "STRING"),)
    with AVRO.writer(_FILES, local_uri(tmp_path / "f.avro"), fields, compression="null") as writer:
        writer.write(pa.table({"s": pa.array([], pa.string())}))
    sync = (tmp_path / "f.avro").read_bytes()[-16:]
    with (tmp_path / "f.avro").open("ab") as file:
        file.write(block(rows, data, sync))
    with pytest.raises(CorruptData, match=why):
        list(AvroReader(_FILES, local_uri(tmp_path / "f.avro")).batches(fields))


def test_a_length_beyond_the_files_takes_no_memory(tmp_path: Path) -> None:
    with AVRO.writer(_FILES, local_uri(tmp_path / "f.avro"), _FIELDS[:1]) as writer:
        writer.write(_table().select(["k"]))
    with (tmp_path / "f.avro").open("ab") as file:
        file.write(varint(1) + varint(2**40))
    with pytest.raises(CorruptData, match=r"f\.avro cannot be read: a length of 1099511627776"):
        list(AvroReader(_FILES, local_uri(tmp_path / "f.avro")).batches(_FIELDS[:1]))


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
@pytest.mark.parametrize("codec", ["zstd", "null"])
def test_damage_is_found_or_does_no_more_than_change_values(
    codec: str, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "f.avro"
    with AVRO.writer(_FILES, local_uri(path), _FIELDS, compression=codec) as writer:
        writer.write(_table().slice(0, 40))
    damaged = bytearray(path.read_bytes())
    cut = data.draw(st.integers(0, len(damaged)))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: cut or None])
    rows, message = 40, "f.avro"
    try:
        reader = AvroReader(_FILES, local_uri(path), row_count=40)
        rows = sum(batch.num_rows for batch in reader.batches(_FIELDS))
    except (CorruptData, Unsupported) as error:
        message = str(error)
    assert rows == 40
    assert "f.avro" in message


def test_rows_that_may_be_null_are_read(tmp_path: Path) -> None:
    record: Json = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": ["null", "long"]}, {"name": "b", "type": "string"}],
    }
    fields = [_field(0, "a", "BIGINT"), _field(1, "b", "STRING NOT NULL")]
    values = [{"a": None if k % 3 == 0 else k, "b": f"b{k}"} for k in range(1000)]
    for rows, expected in ((values, values), ([*values, None], None)):
        buffer = io.BytesIO()
        fastavro.writer(buffer, ["null", record], rows)
        path = tmp_path / "rows.avro"
        path.write_bytes(buffer.getvalue())
        reader = AvroReader(_FILES, local_uri(path), row_count=len(rows))
        if expected is None:
            with pytest.raises(CorruptData, match="holds a row that is null"):
                pa.Table.from_batches(reader.batches(fields))
            continue
        assert pa.Table.from_batches(reader.batches(fields)).to_pylist() == expected
        assert pa.Table.from_batches(reader.batches(fields[1:])).to_pylist() == [
            {"b": row["b"]} for row in values
        ]
