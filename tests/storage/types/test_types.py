from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root, VectorType
from headwater.storage.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    DataField,
    DataType,
    Json,
    MapType,
    MultisetType,
    RowType,
    arrow_field,
    from_arrow,
    parse_type,
    to_arrow,
    type_json,
)


def atomic_types() -> st.SearchStrategy[AtomicType]:
    nullable = st.booleans()
    plain = [
        Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT,
        Root.FLOAT, Root.DOUBLE, Root.DATE,
    ]  # fmt: skip
    sized = [Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY]
    timed = [Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ]
    decimals = st.integers(1, 38).flatmap(
        lambda p: st.builds(
            AtomicType,
            st.just(Root.DECIMAL),
            nullable,
            precision=st.just(p),
            scale=st.integers(0, p),
        )
    )
    lengths = st.one_of(st.integers(1, 300), st.just(MAX_LENGTH))
    return st.one_of(
        st.builds(AtomicType, st.sampled_from(plain), nullable),
        st.builds(AtomicType, st.sampled_from(sized), nullable, length=lengths),
        st.builds(AtomicType, st.sampled_from(timed), nullable, precision=st.integers(0, 9)),
        decimals,
    )


def types() -> st.SearchStrategy[DataType]:
    def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
        fields = st.lists(
            st.builds(DataField, st.integers(0, 99), st.text("ab `_", min_size=1), inner),
            min_size=1,
            max_size=3,
        ).map(tuple)
        return st.one_of(
            st.builds(ArrayType, inner, st.booleans()),
            st.builds(MultisetType, inner, st.booleans()),
            st.builds(MapType, inner, inner, st.booleans()),
            st.builds(RowType, fields, st.booleans()),
        )

    return st.recursive(atomic_types(), nested, max_leaves=5)


@given(types())
def test_a_type_survives_its_json_form(data_type: DataType) -> None:
    assert parse_type(type_json(data_type)) == data_type


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("int", "INT"),
        ("INTEGER NOT NULL", "INT NOT NULL"),
        ("STRING", "STRING"),
        ("VARCHAR(2147483647)", "STRING"),
        ("BYTES NOT NULL", "BYTES NOT NULL"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("NUMERIC(5,2)", "DECIMAL(5, 2)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        (
            "TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL",
            "TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL",
        ),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("CHAR", "CHAR(1)"),
        ("INT NULL", "INT"),
    ],
)
def test_paimons_spellings_are_understood(text: str, normal: str) -> None:
    assert type_json(parse_type(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "INT(3)", "DECIMAL(39)", "DECIMAL(5, 6)", "TIMESTAMP(10)", "VARCHAR(0)", "FOO", "",
        "INT WITH LOCAL TIME ZONE", "STRING(3)", "VARCHAR(1, 2)", "INT NOT",
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_type(text)


@pytest.mark.parametrize(
    "document",
    [
        "GEOMETRY(OGC:CRS84)",
        "GEOMETRY('4326') NOT NULL",
        "GEOMETRY('a ''b'', c')",
        "GEOGRAPHY(OGC:CRS84, spherical)",
        "GEOGRAPHY('EPSG 4326', vincenty) NOT NULL",
    ],
)
def test_types_of_other_engines_are_kept_and_not_read(document: Json) -> None:
    kept = parse_type(document)
    assert type_json(kept) == document
    assert parse_type(type_json(kept)) == kept
    assert DataField.from_json(DataField(1, "c", kept).to_json()).type == kept
    with pytest.raises(Unsupported, match="does not read or write"):
        to_arrow(kept)
    with pytest.raises(Unsupported, match=r"column .c. is of type .*does not read or write"):
        arrow_field(DataField(1, "c", kept))


def test_blobs_are_large_binary() -> None:
    blob = parse_type("BLOB NOT NULL")
    assert arrow_field(DataField(1, "c", blob)) == pa.field("c", pa.large_binary(), False)
    assert type_json(blob) == "BLOB NOT NULL"
    for inner in (ArrayType(blob), MapType(parse_type("INT"), blob)):
        with pytest.raises(Unsupported, match=r"column .c. is of type .* BLOB inside another type"):
            arrow_field(DataField(1, "c", inner))


@pytest.mark.parametrize(
    "document",
    [
        {"type": "VECTOR", "element": "FLOAT", "length": 3},
        {"type": "VECTOR NOT NULL", "element": "TINYINT NOT NULL", "length": 2147483647},
    ],
)
def test_vectors_are_lists_of_a_fixed_size(document: Json) -> None:
    vector = parse_type(document)
    assert type_json(vector) == document
    assert isinstance(vector, VectorType)
    arrow = arrow_field(DataField(1, "c", vector))
    assert (arrow.type.list_size, arrow.nullable) == (vector.length, vector.nullable)
    assert from_arrow(arrow.type, arrow.nullable) == vector
    inner = DataField(1, "c", ArrayType(vector))
    assert parse_type(type_json(inner.type)) == inner.type
    with pytest.raises(Unsupported, match=r"column .c. is of type .* VECTOR inside another type"):
        arrow_field(inner)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("GEOMETRY", "GEOMETRY(OGC:CRS84)"),
        ("geometry ( `srid:1` ) not null", "GEOMETRY(srid:1) NOT NULL"),
        ("GEOGRAPHY(EPSG:4326)", "GEOGRAPHY(EPSG:4326, spherical)"),
        ("GEOGRAPHY( 'EPSG:4326', KARNEY )", "GEOGRAPHY(EPSG:4326, karney)"),
        ("VECTOR<FLOAT, 3>", {"type": "VECTOR", "element": "FLOAT", "length": 3}),
        (
            "VECTOR<INT NOT NULL,12> NOT NULL",
            {"type": "VECTOR NOT NULL", "element": "INT NOT NULL", "length": 12},
        ),
        (
            {"type": "VECTOR<FLOAT, 3> NOT NULL", "element": "FLOAT", "length": 3},
            {"type": "VECTOR NOT NULL", "element": "FLOAT", "length": 3},
        ),
        ("INT NOT NULL ARRAY", {"type": "ARRAY", "element": "INT NOT NULL"}),
        (
            "DECIMAL(5, 2) MULTISET NOT NULL",
            {"type": "MULTISET NOT NULL", "element": "DECIMAL(5, 2)"},
        ),
    ],
)
def test_types_are_written_as_paimon_writes_them(written: Json, kept: Json) -> None:
    assert type_json(parse_type(written)) == kept


@pytest.mark.parametrize(
    "document",
    [
        "GEOMETRY()", "GEOMETRY('')", "GEOMETRY(4326)", "GEOMETRY(a, b)", "GEOMETRY(a",
        "GEOGRAPHY(a, straight)", "GEOGRAPHY(a, karney, b)", "VECTOR", "VECTOR(3)", "VECTOR<INT>",
        "VECTOR<STRING, 3>", "VECTOR<INT, 0>", "ARRAY", "INT ARRAY ARRAY",
        {"type": "VECTOR", "element": "FLOAT"},
        {"type": "VECTOR", "element": "FLOAT", "length": 0},
        {"type": "VECTOR", "element": "FLOAT", "length": 2**31},
        {"type": "VECTOR", "element": "FLOAT", "length": "3"},
        {"type": "VECTOR", "element": "DATE", "length": 3},
        {"type": "VECTOR", "element": {"type": "ARRAY", "element": "INT"}, "length": 3},
    ],
)  # fmt: skip
def test_what_is_no_type_of_other_engines_is_refused(document: Json) -> None:
    with pytest.raises(Invalid):
        parse_type(document)


def test_heads_that_repeat_their_parts_are_read() -> None:
    """As pypaimon 2.0 writes them."""
    inner: Json = {"type": "MAP<INT, STRING>", "key": "INT", "value": "STRING", "nullable": False}
    outer: dict[str, Json] = {
        "type": "ARRAY<MAP<INT, STRING> NOT NULL>",
        "element": inner,
        "nullable": True,
    }
    plain: Json = {"type": "MAP NOT NULL", "key": "INT", "value": "STRING"}
    assert parse_type(outer) == parse_type({"type": "ARRAY", "element": plain})
    assert parse_type({**outer, "type": "ARRAY<INT> NOT NULL"}) == parse_type(
        {"type": "ARRAY NOT NULL", "element": plain}
    )


@pytest.mark.parametrize(
    "document", [{"type": "ARRAY"}, {"type": "MAP", "key": "INT"}, {"type": 3}, 7, {"type": "X"}]
)
def test_malformed_nested_types_are_refused(document: object) -> None:
    with pytest.raises(Invalid):
        parse_type(document)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("TINYINT", pa.int8()),
        ("DECIMAL(20, 3)", pa.decimal128(20, 3)),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP(6)", pa.timestamp("us")),
        ("TIMESTAMP(7)", pa.timestamp("ns")),
        ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", tz="UTC")),
        ("CHAR(3)", pa.string()),
        ("TIME(3)", pa.time32("ms")),
        ("DATE", pa.date32()),
    ],
)
def test_arrow_forms(text: str, arrow: pa.DataType) -> None:
    assert to_arrow(parse_type(text)) == arrow


@given(types())
def test_arrow_and_back_gives_the_same_arrow_type(data_type: DataType) -> None:
    arrow = to_arrow(data_type)
    again = from_arrow(arrow, data_type.nullable)
    assert to_arrow(again) == arrow
    assert again.nullable == data_type.nullable


def test_nested_arrow_fields_get_ids() -> None:
    arrow = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    data_type = from_arrow(arrow)
    assert isinstance(data_type, RowType)
    inner = data_type.fields[1].type
    assert isinstance(inner, ArrayType)
    assert isinstance(inner.element, RowType)
    assert [f.id for f in data_type.fields] + [inner.element.fields[0].id] == [0, 1, 2]


def test_arrow_types_without_a_home_are_refused() -> None:
    for arrow in (pa.uint64(), pa.month_day_nano_interval(), pa.decimal128(5, -2)):
        with pytest.raises(Unsupported, match="cast"):
            from_arrow(arrow)
