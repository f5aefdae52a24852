"""The behaviour that every format of data files has."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.capabilities import FILE_FORMATS
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.formats.protocol import DataFileFormat
from headwater.storage.formats.registry import FORMATS, format_named, format_of_file
from headwater.storage.read.file_columns import evolve
from headwater.storage.types.atomic_type import AtomicType, Root, VectorType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    Json,
    parse_type,
    to_arrow,
)

FILES = LocalFileAccess()


def field(number: int, name: str, document: Json) -> DataField:
    return DataField(number, name, parse_type(document))


ROW: Json = {
    "type": "ROW",
    "fields": [
        {"id": 31, "name": "x", "type": "INT"},
        {"id": 32, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}},
        {"id": 33, "name": "z", "type": "DECIMAL(20, 3) NOT NULL"},
    ],
}
MAP: Json = {"type": "MAP", "key": "STRING", "value": "INT"}
FIELDS = (
    field(0, "b", "BOOLEAN"),
    field(1, "i8", "TINYINT NOT NULL"),
    field(2, "i16", "SMALLINT"),
    field(3, "i32", "INT"),
    field(4, "i64", "BIGINT"),
    field(5, "f32", "FLOAT"),
    field(6, "f64", "DOUBLE"),
    field(7, "d9", "DECIMAL(9, 2)"),
    field(8, "d18", "DECIMAL(18, 2)"),
    field(9, "d38", "DECIMAL(38, 2)"),
    field(10, "c", "CHAR(3)"),
    field(11, "s", "STRING"),
    field(12, "bin", "BYTES"),
    field(13, "day", "DATE"),
    field(14, "clock", "TIME(3)"),
    field(15, "t3", "TIMESTAMP(3)"),
    field(16, "t6", "TIMESTAMP(6)"),
    field(17, "z3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    field(18, "z6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    field(19, "list", {"type": "ARRAY", "element": "INT"}),
    field(20, "map", MAP),
    field(21, "numbers", {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": ROW}}),
    field(22, "bag", {"type": "MULTISET", "element": "STRING"}),
    field(23, "days", {"type": "MULTISET", "element": "DATE NOT NULL"}),
    field(24, "row", ROW),
    field(25, "deep", {"type": "ARRAY", "element": {"type": "ARRAY", "element": MAP}}),
    field(26, "rows", {"type": "MAP", "key": "STRING", "value": ROW}),
)
VECTORS = (
    field(0, "floats", {"type": "VECTOR", "element": "FLOAT", "length": 3}),
    field(1, "flags", {"type": "VECTOR NOT NULL", "element": "BOOLEAN NOT NULL", "length": 1}),
    field(2, "longs", {"type": "VECTOR", "element": "BIGINT NOT NULL", "length": 2}),
)
VALUES: Mapping[str, object] = {
    "b": True,
    "i8": -3,
    "i16": 300,
    "i32": -70000,
    "i64": -(2**63),
    "f32": 1.5,
    "f64": -2.25,
    "d9": Decimal("1234567.89"),
    "d18": Decimal("-12345678901234.56"),
    "d38": Decimal("-999999999999999999999999999999999999.99"),
    "c": "abc",
    "s": "naïve",
    "bin": b"\x00\xff",
    "day": dt.date(1, 1, 1),
    "clock": dt.time(12, 34, 56, 789000),
    "t3": dt.datetime(2024, 1, 2, 3, 4, 5, 678000),
    "t6": dt.datetime(1500, 1, 2, 3, 4, 5, 678901),
    "z3": dt.datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC),
    "z6": dt.datetime(9999, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
    "list": [1, None, 3],
    "map": [("a", 1), ("b", None)],
    "numbers": [(-5, [{"x": 1, "y": None, "z": Decimal("0.001")}, None]), (6, None), (7, [])],
    "bag": [("a", 2)],
    "days": [(dt.date(2024, 2, 29), 2)],
    "row": {"x": 1, "y": ["p", None], "z": Decimal("-0.128")},
    "deep": [[[("k", 1)], None], None, []],
    "rows": [("r", {"x": None, "y": [], "z": Decimal("-0.129")}), ("n", None)],
}
# What Arrow's library for ORC reaches: see docs/tables.md.
NEAR: Mapping[str, object] = {
    "t6": dt.datetime(1700, 1, 2, 3, 4, 5),
    "z6": dt.datetime(2262, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
}
EMPTY: Mapping[str, object] = {**dict.fromkeys(VALUES), "i8": 0}


@pytest.fixture(params=sorted(FORMATS))
def data_format(request: pytest.FixtureRequest) -> DataFileFormat:
    return FORMATS[request.param]


def schema_of(fields: Sequence[DataField]) -> pa.Schema:
    return pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in fields])


def write(
    data_format: DataFileFormat, folder: Path, table: pa.Table, fields: Sequence[DataField]
) -> str:
    uri = local_uri(folder / f"f.{data_format.name}")
    with data_format.writer(FILES, uri, fields) as writer:
        for batch in table.to_batches(max_chunksize=100):
            writer.write(batch)
    return uri


def read(data_format: DataFileFormat, uri: str, fields: Sequence[DataField]) -> pa.Table:
    schema = schema_of(fields)
    made = []
    for batch in data_format.reader(FILES, uri).batches(fields):
        # As the reader of a table does it.
        columns = [evolve(batch.column(item.name), item.type, item.type) for item in fields]
        made.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(made, schema)


def test_every_type_comes_back(data_format: DataFileFormat, tmp_path: Path) -> None:
    values = {**VALUES, **NEAR} if data_format.name == "orc" else VALUES
    for rows in ([values], [EMPTY], [EMPTY, values, EMPTY, values] * 40, []):
        table = pa.Table.from_pylist([dict(row) for row in rows], schema_of(FIELDS))
        uri = write(data_format, tmp_path, table, FIELDS)
        assert read(data_format, uri, FIELDS).equals(table)
        assert read(data_format, uri, FIELDS[::-2]).equals(
            table.select([f.name for f in FIELDS[::-2]])
        )


_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def _values(data_type: Json) -> st.SearchStrategy[object]:
    match data_type:
        case str() if data_type in _INTEGERS:
            bound = 2 ** _INTEGERS[data_type]
            return st.integers(-bound, bound - 1)
        case "STRING":
            return st.text(max_size=300)
        case "BYTES":
            return st.binary(max_size=20)
        case "BOOLEAN":
            return st.booleans()
        case "DOUBLE":
            return st.floats(allow_nan=False)
        case "DECIMAL(38, 5)":
            return st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-5"))
        case {"type": "ARRAY", "element": inner}:
            return st.lists(st.none() | _values(inner), max_size=4)
        case {"type": "MAP", "key": key, "value": value}:
            pairs = st.tuples(_values(key), st.none() | _values(value))
            return st.lists(pairs, max_size=3)
        case {"type": "ROW", "fields": list(fields)}:
            return st.fixed_dictionaries(
                {
                    item["name"]: st.none() | _values(item["type"])
                    for item in fields
                    if isinstance(item, dict) and isinstance(item["name"], str)
                }
            )
    raise AssertionError(data_type)


_LEAVES: Sequence[Json] = (*_INTEGERS, "STRING", "BYTES", "BOOLEAN", "DOUBLE", "DECIMAL(38, 5)")
_TYPES = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda t: {"type": "ARRAY", "element": t}),
        st.tuples(st.sampled_from(["STRING", "INT", "BYTES"]), inner).map(
            lambda pair: {"type": "MAP", "key": pair[0], "value": pair[1]}
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: {
                "type": "ROW",
                "fields": [
                    {"id": 10 + at, "name": f"f{at}", "type": t} for at, t in enumerate(types)
                ],
            }
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_any_rows_come_back(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    types = data.draw(st.lists(_TYPES, min_size=1, max_size=4))
    fields = tuple(field(at, f"c{at}", each) for at, each in enumerate(types))
    row = st.tuples(*(st.none() | _values(each) for each in types))
    rows = data.draw(st.lists(row, max_size=20))
    columns = [
        pa.array([each[at] for each in rows], to_arrow(item.type)) for at, item in enumerate(fields)
    ]
    table = pa.table(columns, schema=schema_of(fields))
    # Slices of larger arrays are rows like others.
    table = pa.concat_tables([table, table]).combine_chunks().slice(table.num_rows // 2)
    uri = write(FORMATS[name], tmp_path_factory.mktemp("files"), table, fields)
    found = read(FORMATS[name], uri, fields)
    assert found.to_pylist() == table.to_pylist()


def test_batches_are_of_the_wanted_size_and_may_lack_columns(
    data_format: DataFileFormat, tmp_path: Path
) -> None:
    fields = (field(0, "n", "BIGINT"), field(1, "s", "STRING"))
    table = pa.table({"n": range(250), "s": ["x"] * 250}, schema_of(fields))
    uri = write(data_format, tmp_path, table, fields)
    reader = data_format.reader(FILES, uri, row_count=250)
    sizes = [batch.num_rows for batch in reader.batches(fields[:1], batch_rows=60)]
    assert max(sizes) <= 60
    assert sum(sizes) == 250
    assert sum(batch.num_rows for batch in reader.batches([], batch_rows=60)) == 250
    assert list(reader.batches(fields, [])) == []
    assert [b.schema.names for b in reader.batches(fields[::-1])] == [["s", "n"]]


def test_an_aborted_file_does_not_appear(data_format: DataFileFormat, tmp_path: Path) -> None:
    fields = (field(0, "n", "BIGINT"),)
    uri = local_uri(tmp_path / "f")
    writer = data_format.writer(FILES, uri, fields)
    writer.write(pa.table({"n": [1]}, schema_of(fields)))
    writer.abort()
    with pytest.raises(Invalid), data_format.writer(FILES, uri, fields) as other:
        other.write(pa.table({"m": [1]}))
    assert list(tmp_path.iterdir()) == []


def test_nulls_and_strange_columns_are_refused(data_format: DataFileFormat, tmp_path: Path) -> None:
    fields = (field(0, "n", "BIGINT NOT NULL"),)
    uri = local_uri(tmp_path / "f")
    writer = data_format.writer(FILES, uri, fields)
    with pytest.raises(Invalid, match="'n' is NOT NULL"):
        writer.write(pa.table({"n": pa.array([1, None], pa.int64())}))
    with pytest.raises(Invalid, match="got m"):
        writer.write(pa.table({"m": [1]}))
    with pytest.raises(Invalid, match="do not fit"):
        writer.write(pa.table({"n": ["x"]}))
    writer.abort()
    with pytest.raises(Unsupported, match="lzo"):
        data_format.writer(FILES, uri, fields, compression="lzo")
    assert list(tmp_path.iterdir()) == []


def _row(inner: Json) -> Json:
    return {"type": "ROW NOT NULL", "fields": [{"id": 9, "name": "x", "type": inner}]}


STRICT: Mapping[str, tuple[Json, object]] = {
    "number": ("INT NOT NULL", 1),
    "flag": ("BOOLEAN NOT NULL", True),
    "text": ("STRING NOT NULL", "a"),
    "decimal": ("DECIMAL(20, 2) NOT NULL", Decimal("1.50")),
    "list": ({"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}, [1, 2]),
    "map": ({"type": "MAP NOT NULL", "key": "INT", "value": "STRING NOT NULL"}, [(1, "a")]),
    "row": (_row("STRING NOT NULL"), {"x": "a"}),
    "rows": (_row(_row("BIGINT NOT NULL")), {"x": {"x": 7}}),
}


@pytest.mark.parametrize(("inner", "value"), STRICT.values(), ids=STRICT)
def test_a_null_row_needs_no_values_of_not_null_fields(
    data_format: DataFileFormat, tmp_path: Path, inner: Json, value: object
) -> None:
    row: Json = {"type": "ROW", "fields": [{"id": 8, "name": "v", "type": inner}]}
    fields = (
        field(0, "r", row),
        field(1, "list", {"type": "ARRAY", "element": row}),
        field(2, "map", {"type": "MAP", "key": "STRING NOT NULL", "value": row}),
    )
    one = {"v": value}
    rows: list[dict[str, object]] = [
        {"r": None, "list": None, "map": None},
        {"r": one, "list": [None, one], "map": [("a", None), ("b", one)]},
        {"r": None, "list": [], "map": []},
    ]
    table = pa.Table.from_pylist(rows * 2, schema_of(fields)).slice(1)
    uri = write(data_format, tmp_path, table, fields)
    assert read(data_format, uri, fields).to_pylist() == table.to_pylist()


def test_a_closed_file_tells_its_size_and_rows(data_format: DataFileFormat, tmp_path: Path) -> None:
    fields = (field(0, "n", "BIGINT"),)
    writer = data_format.writer(FILES, local_uri(tmp_path / "f"), fields)
    for start in range(0, 300_000, 50_000):
        numbers = [n * 2654435761 % 2**40 for n in range(start, start + 50_000)]
        writer.write(pa.table({"n": numbers}, schema_of(fields)))
    estimate = writer.size_estimate
    written = writer.close()
    size = (tmp_path / "f").stat().st_size
    assert (written.row_count, written.size) == (300_000, size)
    assert size / 4 < estimate < size * 4
    assert writer.close() == written


def test_a_bad_file_is_named(data_format: DataFileFormat, tmp_path: Path) -> None:
    fields = (field(0, "n", "BIGINT"), field(1, "s", "STRING"))
    table = pa.table(
        {"n": range(50_000), "s": [f"value {i}" for i in range(50_000)]}, schema_of(fields)
    )
    uri = write(data_format, tmp_path, table, fields)
    path = tmp_path / f"f.{data_format.name}"
    good = path.read_bytes()
    named = rf"f\.{data_format.name}"

    def rows() -> int:
        reader = data_format.reader(FILES, uri, row_count=50_000)
        return sum(batch.num_rows for batch in reader.batches(fields))

    assert rows() == 50_000
    with pytest.raises(CorruptData, match=r"missing\.x is missing"):
        data_format.reader(FILES, local_uri(tmp_path / "missing.x"))
    with pytest.raises(CorruptData, match=rf"{named} holds 50000 rows.*says 49999"):
        list(data_format.reader(FILES, uri, row_count=49_999).batches(fields))
    with pytest.raises(CorruptData, match=rf"{named} lacks column 'q'"):
        list(data_format.reader(FILES, uri).batches([field(0, "q", "BIGINT")]))
    for length in (0, 3, 10, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(CorruptData, match=named):
            rows()
    # One bit is enough where a format has checksums, which ORC has not.
    middle = len(good) // 3
    for damage in (bytes(middle), bytes([good[middle] ^ 0x10])):
        path.write_bytes(good[:middle] + damage + good[middle + len(damage) :])
        if len(damage) > 1 or data_format.name != "orc":
            with pytest.raises(CorruptData, match=named):
                rows()


def test_a_file_cut_short_while_it_is_read_loses_no_row_silently(
    data_format: DataFileFormat, tmp_path: Path
) -> None:
    fields = (field(0, "n", "BIGINT"), field(1, "s", "STRING"))
    uri = local_uri(tmp_path / "f.x")
    with data_format.writer(FILES, uri, fields, block_bytes=1 << 16) as writer:
        for start in range(0, 50_000, 1000):
            numbers = [n * 2654435761 % 2**40 for n in range(start, start + 1000)]
            rows = {"n": numbers, "s": [f"value {number}" for number in numbers]}
            writer.write(pa.table(rows, schema_of(fields)))
    batches = data_format.reader(FILES, uri).batches(fields, batch_rows=1000)
    rows = next(batches).num_rows
    # Of a mapped file this is no error but the end of the process.
    os.truncate(tmp_path / "f.x", 4096)
    if data_format.name == "avro":
        # Read ahead as a whole.
        assert rows + sum(batch.num_rows for batch in batches) == 50_000
    else:
        with pytest.raises(CorruptData, match=r"f\.x"):
            list(batches)


def test_the_table_of_capabilities_names_every_format() -> None:
    assert set(FORMATS) == set(FILE_FORMATS)
    assert all(found.name == name for name, found in FORMATS.items())


def test_a_files_format_is_the_extension_of_its_name() -> None:
    assert format_of_file("file:///t/bucket-0/data-1.avro").name == "avro"
    assert format_of_file("s3://b/data-1.zstd.parquet").name == "parquet"
    assert format_named(" Avro ", "file.format").name == "avro"
    for name in ("data-1.lance", "data-1", "dir.avro/data-1"):
        with pytest.raises(Unsupported, match=name):
            format_of_file(f"file:///t/{name}")
    with pytest.raises(Unsupported, match=r"changelog-file\.format=lance"):
        format_named("lance", "changelog-file.format")


@pytest.mark.parametrize("name", ["parquet", "avro"])
def test_vectors_lie_as_lists(name: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "floats": [[1.5, float("inf"), -0.0], None, [0, 1, 2], None],
            "flags": [[True], [False], [True], [False]],
            "longs": [None, [1, 2], [3, 4], None],
        },
        schema=schema_of(VECTORS),
    ).slice(1)
    # What is below a null vector does not count.
    below = pa.array([[9, 9], [1, 2], [3, 4], [9, 9]], table.schema.field("longs").type)
    hidden = pa.FixedSizeListArray.from_arrays(
        below.flatten(), type=below.type, mask=pa.array([True, False, False, True])
    )
    table = table.set_column(2, table.schema.field("longs"), hidden.slice(1))
    uri = write(FORMATS[name], tmp_path, table, VECTORS)
    assert read(FORMATS[name], uri, VECTORS).to_pylist() == table.to_pylist()
    lists = tuple(
        replace(item, type=ArrayType(item.type.element, item.type.nullable))
        for item in VECTORS
        if isinstance(item.type, VectorType)
    )
    assert read(FORMATS[name], uri, lists).to_pylist() == table.to_pylist()
    longer = replace(VECTORS[0], type=VectorType(AtomicType(Root.FLOAT), 4))
    with pytest.raises(pa.ArrowInvalid, match="expected size"):
        read(FORMATS[name], uri, [longer])
    with pytest.raises(Unsupported, match=r"column 'floats' .* ORC files do not hold"):
        FORMATS["orc"].refuse(VECTORS)


def test_types_are_refused_by_the_column(tmp_path: Path) -> None:
    avro = FORMATS["avro"]
    row: Json = {"type": "ROW", "fields": [{"id": 1, "name": "t", "type": "TIMESTAMP(9)"}]}
    refused: list[tuple[DataType, str]] = [
        (parse_type("TIMESTAMP(7)"), "6 fractional digits"),
        (parse_type("TIMESTAMP(9) WITH LOCAL TIME ZONE"), "6 fractional digits"),
        (parse_type("TIME(6)"), "3 fractional digits"),
        (parse_type({"type": "ARRAY", "element": row}), "6 fractional digits"),
        (parse_type("VARIANT"), "VARIANT"),
    ]
    for data_type, why in refused:
        with pytest.raises(Unsupported, match=f"column 'c' .*{why}"):
            avro.refuse([DataField(0, "c", data_type)])
        with pytest.raises(Unsupported):
            avro.writer(FILES, local_uri(tmp_path / "f"), [DataField(0, "c", data_type)])
    for name in ("a.b", "a-b", "1a", "a b"):
        with pytest.raises(Unsupported, match="rename it"):
            avro.refuse([field(0, name, "INT")])
    avro.refuse([field(0, "größe_2", "INT")])
    FORMATS["parquet"].refuse([field(0, "a.b", "TIMESTAMP(9)")])
    assert list(tmp_path.iterdir()) == []
