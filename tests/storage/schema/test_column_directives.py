"""Comments of columns that ask for the types BLOB and VECTOR."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headwater.storage.errors import Invalid
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    Move,
    MoveKind,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
)
from headwater.storage.schema.column_directives import with_types_of_options
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField, Json, parse_type

EVOLUTION = {"data-evolution.enabled": "true", "row-tracking.enabled": "true"}
FLOATS: Json = {"type": "ARRAY", "element": "FLOAT"}
ROW: Json = {"type": "ROW", "fields": [{"id": 5, "name": "a", "type": "BYTES"}]}


def _map(value: Json) -> Json:
    return {"type": "MAP NOT NULL", "key": "INT", "value": value}


def _array(element: Json) -> Json:
    return {"type": "ARRAY NOT NULL", "element": element}


def _created(
    written: Json = "INT",
    comment: str | None = None,
    options: Mapping[str, str] = EVOLUTION,
    default: str | None = None,
) -> TableSchema:
    columns = (
        DataField(0, "id", parse_type("INT")),
        DataField(1, "c", parse_type(written), comment, default),
    )
    return new_table_schema(Schema(columns, options=options), 1)


def _changed(base: TableSchema, *changes: SchemaChange) -> TableSchema:
    return apply_changes(base, changes, now_millis=2, has_snapshots=True)


@pytest.mark.parametrize(
    ("written", "comment", "becomes", "kept", "option"),
    [
        ("BYTES", "__BLOB_FIELD; a picture", "BLOB", "a picture", "blob-field"),
        ("BINARY(3)", " __BLOB_FIELD\t", "BLOB", None, "blob-field"),
        ("BLOB", "__BLOB_FIELD; ", "BLOB", None, "blob-field"),
        ("BYTES", "__BLOB_DESCRIPTOR_FIELD;d", "BLOB", "d", "blob-descriptor-field"),
        ("BYTES", "__BLOB_VIEW_FIELD; v;w", "BLOB", "v;w", "blob-view-field"),
        (_array("BYTES NOT NULL"), "__BLOB_FIELD", _array("BLOB NOT NULL"), None, "blob-field"),
        (_map("VARBINARY(9)"), "__BLOB_FIELD", _map("BLOB"), None, "blob-field"),
        (
            FLOATS, "__VECTOR_FIELD; 128 ; of the title; and more",
            {"type": "VECTOR", "element": "FLOAT", "length": 128}, "of the title; and more",
            "vector-field",
        ),
        (
            _array("INT NOT NULL"), "__VECTOR_FIELD;+4;",
            {"type": "VECTOR NOT NULL", "element": "INT NOT NULL", "length": 4}, None,
            "vector-field",
        ),
    ],
)  # fmt: skip
def test_a_directive_gives_a_new_column_its_type(
    written: Json, comment: str, becomes: Json, kept: str | None, option: str
) -> None:
    created = _created(written, comment)
    column = created.column("c")
    assert (column.type, column.description) == (parse_type(becomes), kept)
    assert created.options == {**EVOLUTION, option: "c"}
    # So does one that is added, although the option of a table with data cannot be set.
    declared = parse_type(written)
    if not declared.nullable:
        return
    base = _created()
    first = AddColumn(("b",), declared, comment, Move("b", MoveKind.FIRST))
    added = _changed(base, first, AddColumn(("d",), declared, comment))
    assert list(added.field_by_name) == ["b", "id", "c", "d"]
    for name in ("b", "d"):
        column = added.column(name)
        assert (column.type, column.description) == (parse_type(becomes), kept)
    assert added.options == {**EVOLUTION, option: "b,d"}
    # It leaves the option with the column.
    fewer = _changed(added, DropColumn(("b",)))
    assert fewer.options == {**EVOLUTION, option: "d"}
    assert _changed(fewer, DropColumn(("d",))).options == EVOLUTION


@pytest.mark.parametrize(
    ("written", "comment", "message"),
    [
        ("BYTES", "__BLOB_FILE", "the directives are __BLOB_FIELD, __BLOB_DESCRIPTOR_FIELD"),
        ("BYTES", "__BLOB_FIELD comment", "begins like a directive"),
        (FLOATS, "__VECTORS", "the directives are __VECTOR_FIELD, alone"),
        (FLOATS, "__VECTOR_FIELD", "needs the vector's length"),
        (FLOATS, "__VECTOR_FIELD;many", "an integer, not 'many'"),
        (FLOATS, "__VECTOR_FIELD;" + "9" * 5000, "an integer"),
        (FLOATS, "__VECTOR_FIELD;0", "between 1 and"),
        (FLOATS, "__VECTOR_FIELD;9999999999", "between 1 and"),
        ("BYTES", "__VECTOR_FIELD;3", "must be an ARRAY of booleans or numbers, not BYTES"),
        ({"type": "ARRAY", "element": FLOATS}, "__VECTOR_FIELD;3", "must be an ARRAY of"),
        ({"type": "ARRAY", "element": "STRING"}, "__VECTOR_FIELD;3", "cannot hold STRING"),
        ("STRING", "__BLOB_FIELD", "BYTES, BINARY or BLOB, or an array or a map"),
        (FLOATS, "__BLOB_FIELD", "an array or a map of such values, not ARRAY<FLOAT>"),
        (_map("INT"), "__BLOB_FIELD", "an array or a map of such values, not MAP<INT, INT>"),
        ({"type": "MAP", "key": "BYTES", "value": "INT"}, "__BLOB_FIELD", "a map of such values"),
        (_array("BYTES"), "__BLOB_DESCRIPTOR_FIELD", "only '__BLOB_FIELD' takes arrays"),
        (_map("BYTES"), "__BLOB_VIEW_FIELD", "only '__BLOB_FIELD' takes arrays"),
    ],
)
def test_a_directive_that_cannot_be_obeyed_is_refused(
    written: Json, comment: str, message: str
) -> None:
    with pytest.raises(Invalid, match=f"column 'c'.*{message}|{message}"):
        _created(written, comment)


@pytest.mark.parametrize(
    ("written", "options", "message"),
    [
        ("FLOAT", {"vector-field": "c", "field.c.vector-dim": "3"}, "'vector-field' names must be"),
        (FLOATS, {"vector-field": "c"}, "set 'field.c.vector-dim'"),
        (FLOATS, {"vector-field": "c", "field.c.vector-dim": " "}, "set 'field.c.vector-dim'"),
        (FLOATS, {"vector-field": "c", "field.c.vector-dim": "abc"}, "an integer, not 'abc'"),
        ("STRING", {"blob-field": "b,c"}, "'blob-field' names must be of type BYTES"),
        (_array("BYTES"), {"blob-view-field": "c"}, "only 'blob-field' takes arrays"),
    ],
)
def test_an_option_that_names_no_column_of_its_type_is_refused(
    written: Json, options: Mapping[str, str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        with_types_of_options([DataField(0, "c", parse_type(written))], options)


def test_the_new_type_has_its_rules() -> None:
    with pytest.raises(Invalid, match=r"data-evolution\.enabled"):
        _created("BYTES", "__BLOB_FIELD", {})
    with pytest.raises(Invalid, match="takes no default"):
        _created("BYTES", "__BLOB_FIELD", EVOLUTION, "x")
    base = _created("BYTES", "__BLOB_FIELD")
    with pytest.raises(Invalid, match="bear its name"):
        _changed(base, RenameColumn(("c",), "d"))


def test_directives_are_for_new_columns_of_the_table_itself() -> None:
    base = _created(ROW)
    with pytest.raises(Invalid, match=r"'c\.b'.*nested column"):
        _changed(base, AddColumn(("c", "b"), parse_type("BYTES"), "__BLOB_FIELD"))
    for path in (("id",), ("c", "a")):
        with pytest.raises(Invalid, match="that is there keeps its type"):
            _changed(base, UpdateColumnComment(path, "__BLOB_FIELD; x"))
        with pytest.raises(Invalid, match="begins like a directive"):
            _changed(base, UpdateColumnComment(path, "__BLOB"))
    after = _changed(base, UpdateColumnComment(("id",), "no __BLOB_FIELD"))
    assert after.column("id").description == "no __BLOB_FIELD"
    # What is not made of Paimon's files has no use for them.
    files = {"type": "format-table", "file.format": "csv"}
    plain = _created("BYTES", "__BLOB_FIELD; x", files)
    assert (plain.column("c").description, plain.options) == ("__BLOB_FIELD; x", files)
    plain = _changed(plain, AddColumn(("d",), parse_type("BYTES"), "__BLOB_FIELD"))
    plain = _changed(plain, UpdateColumnComment(("id",), "__BLOB"))
    assert plain.options == files


def test_names_under_the_options_former_name_are_kept() -> None:
    former = {**EVOLUTION, "blob.stored-descriptor-fields": "c"}
    base = _created("BLOB", None, former)
    added = _changed(base, AddColumn(("d",), parse_type("BYTES"), "__BLOB_DESCRIPTOR_FIELD"))
    assert added.options == {**EVOLUTION, "blob-descriptor-field": "c,d"}
    with_another = _changed(base, AddColumn(("d",), parse_type("BYTES"), "__BLOB_FIELD"))
    assert _changed(with_another, DropColumn(("c",))).options == {**EVOLUTION, "blob-field": "d"}


def test_a_dropped_map_takes_the_options_of_its_layout_along() -> None:
    layout = {"fields.c.map.storage-layout": "default", "fields.id.ignore-retract": "true"}
    base = _created(_map("INT"), None, layout)
    assert _changed(base, DropColumn(("c",))).options == {"fields.id.ignore-retract": "true"}
