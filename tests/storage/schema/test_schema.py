from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.storage.errors import (
    AlreadyExists,
    CorruptData,
    HeadwaterError,
    Invalid,
    NotFound,
)
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    DropPrimaryKey,
    Move,
    MoveKind,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefaultValue,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    schema_change_from_json,
    schema_change_json,
)
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema, replacing_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField, RowType, parse_type

ARROW = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("day", pa.string()),
        pa.field("amount", pa.int32()),
        pa.field("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        pa.field("tags", pa.list_(pa.int32())),
    ]
)


def table_schema(
    options: Mapping[str, str] | None = None,
    primary_keys: Sequence[str] = ("day", "id"),
    partition_keys: Sequence[str] = ("day",),
) -> TableSchema:
    schema = Schema.from_arrow(
        ARROW,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options=options if options is not None else {"bucket": "2"},
    )
    return new_table_schema(schema, 17)


def changed(
    *changes: SchemaChange, base: TableSchema | None = None, has_snapshots: bool = True
) -> TableSchema:
    return apply_changes(
        base or table_schema(), changes, now_millis=18, has_snapshots=has_snapshots
    )


def test_keys_are_nullable_where_the_options_say_so() -> None:
    fields = (DataField(0, "id", parse_type("INT NOT NULL")), DataField(1, "n", parse_type("INT")))
    options = {"primary-key.nullable": "true", "bucket": "1"}
    made = new_table_schema(Schema(fields, primary_keys=("id",), options=options), 1)
    assert made.column("id").type == parse_type("INT")
    changed = apply_changes(made, [UpdateComment("x")], now_millis=2, has_snapshots=True)
    assert changed.column("id").type == parse_type("INT")
    with pytest.raises(Invalid, match=r"'primary-key\.nullable' must be true or false"):
        new_table_schema(
            Schema(fields, primary_keys=("id",), options={"primary-key.nullable": "yes"}), 1
        )
    with pytest.raises(Invalid, match="needs a primary key"):
        new_table_schema(Schema(fields, options={"primary-key.nullable": "true"}), 1)


def test_a_new_schema_numbers_fields_and_makes_keys_not_null() -> None:
    schema = table_schema()
    assert [f.id for f in schema.fields] == [0, 1, 2, 3, 6]
    assert schema.highest_field_id == 6
    assert [str(f.type) for f in schema.key_fields] == ["BIGINT NOT NULL"]
    assert not schema.column("day").type.nullable
    assert schema.column("amount").type.nullable
    assert [f.name for f in schema.bucket_key_fields] == ["id"]


def test_key_options_become_keys() -> None:
    schema = table_schema({"bucket": "2", "primary-key": "day, id", "partition": "day"}, (), ())
    assert schema.primary_keys == ("day", "id")
    assert schema.partition_keys == ("day",)
    assert schema.options == {"bucket": "2"}


def test_missing_or_repeated_field_ids_are_given_out_anew() -> None:
    document = {
        "fields": [
            {"id": 0, "name": "a", "type": "INT"},
            {
                "id": 0,
                "name": "b",
                "type": {"type": "ROW", "fields": [{"name": "c", "type": "INT"}]},
            },
        ]
    }
    schema = new_table_schema(Schema.from_json(document), 0)  # type: ignore[arg-type]
    inner = schema.fields[1].type
    assert isinstance(inner, RowType)
    assert [schema.fields[0].id, schema.fields[1].id, inner.fields[0].id] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "primary_keys", "partition_keys", "message"),
    [
        ({}, ("nope",), (), "'nope' is not among the columns"),
        ({}, ("place",), (), "nested"),
        ({}, ("day",), ("day",), "beside the partition"),
        ({}, ("id", "id"), (), "named twice"),
        ({"bucket": "0"}, ("id",), (), "positive"),
        ({"bucket": "x"}, ("id",), (), "integer"),
        ({"bucket": "2"}, (), (), "bucket-key"),
        ({"bucket-key": "id"}, (), (), "fixed number"),
        ({"bucket": "2", "bucket-key": "day"}, (), ("day",), "partition column"),
        ({"bucket": "2", "bucket-key": "amount"}, ("id",), (), "part of the primary key"),
        (
            {"bucket": "-1", "clustering.columns": "day, nope"},
            (),
            (),
            "clustering.columns column 'nope'",
        ),
        ({"bucket": "2", "sequence.field": "nope"}, ("id",), (), "sequence.field"),
        ({"bucket": "2", "sequence.field": "amount"}, ("id",), ("day",), "sequence.field"),
        ({"changelog-producer": "input"}, (), (), "without primary keys"),
        ({"merge-engine": "magic"}, ("id",), (), "one of deduplicate"),
        ({"target-file-size": "big"}, ("id",), (), "128 mb"),
        ({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "3"}, (), (), "greater"),
        ({"snapshot.num-retained.max": "1_0"}, (), (), "must be an integer"),
        ({"changelog.num-retained.max": "many"}, (), (), "must be an integer, not 'many'"),
        ({"changelog.num-retained.max": "3"}, (), (), "must not be greater"),
        ({"changelog.num-retained.min": "0"}, (), (), "must be at least 1"),
        ({"changelog.time-retained": "a while"}, (), (), "not a quantity"),
        ({"tag.automatic-creation": "always"}, (), (), "'tag.automatic-creation' must be one of"),
        ({"tag.creation-period": "weekly"}, (), (), "'tag.creation-period' must be one of"),
        ({"tag.creation-delay": "24 h"}, (), (), "must be shorter than the period"),
        ({"tag.creation-period-duration": "0 s"}, (), (), "must be shorter than the period"),
        ({"tag.num-retained-max": "9" * 5000}, (), (), "more than can be counted"),
        ({"sink.process-time-zone": "Mars/Olympus"}, (), (), "no time zone"),
        ({"partition.mark-done-action": "shout"}, (), (), "must name some of"),
        ({"partition.expiration-strategy": "luck"}, (), (), "must be one of"),
        ({"primary-key": "id"}, ("id",), (), "not as both"),
    ],
)
def test_schemas_that_break_a_rule_are_refused(
    options: dict[str, str], primary_keys: tuple[str, ...], partition_keys: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    with pytest.raises(Invalid, match=message):
        table_schema(options, primary_keys, partition_keys)


RESERVED = (
    "_KEY_x", "_VALUE_KIND", "_SEQUENCE_NUMBER", "_LEVEL", "_ROW_ID", "rowkind", "_ROW_KIND",
    "_row_kind", "__paimon_bucket", "__PAIMON_search_score", "_headwater_file",
)  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_no_column_gets_a_reserved_name(name: str) -> None:
    of_that_name = Schema.from_arrow(pa.schema([("id", pa.int32()), (name, pa.int32())]))
    old = new_table_schema(Schema.from_arrow(pa.schema([("id", pa.int32())])), 0)
    attempts: list[Callable[[], TableSchema]] = [
        lambda: new_table_schema(of_that_name, 0),
        lambda: replacing_schema(old, of_that_name, 0),
        lambda: changed(AddColumn((name,), parse_type("INT"))),
        lambda: changed(RenameColumn(("amount",), name)),
    ]
    for attempt in attempts:
        with pytest.raises(Invalid, match=f"'{name}' is reserved"):
            attempt()


def test_columns_with_reserved_names_stay_and_can_be_renamed() -> None:
    """Other engines check fewer names, or none."""
    made = table_schema()
    fields = tuple(
        replace(item, name="_ROW_KIND") if item.name == "amount" else item for item in made.fields
    )
    base = replace(made, fields=fields)
    assert "_ROW_KIND" in changed(UpdateComment("x"), base=base).field_by_name
    assert "a" in changed(RenameColumn(("_ROW_KIND",), "a"), base=base).field_by_name


def test_fields_of_rows_have_any_name() -> None:
    fields = pa.schema([("r", pa.struct([("_ROW_KIND", pa.int32()), ("rowkind", pa.int32())]))])
    assert len(new_table_schema(Schema.from_arrow(fields), 0).fields) == 1


def test_a_schema_file_survives_a_round_trip() -> None:
    schema = table_schema({"bucket": "2", "ümlaut": "ß"})
    assert TableSchema.from_json(schema.to_json()) == schema


def test_old_schema_files_get_the_defaults_of_their_time() -> None:
    document = json.loads(table_schema({}, (), ()).to_json())
    document["version"] = 1
    schema = TableSchema.from_json(json.dumps(document))
    assert schema.options == {"bucket": "1", "file.format": "orc"}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": 1, "fields": [{}]}'])
def test_a_corrupt_schema_file_is_named(text: str) -> None:
    with pytest.raises(CorruptData, match="schema-7"):
        TableSchema.from_json(text, "schema-7")


def test_added_columns_get_fresh_ids_and_places() -> None:
    schema = changed(
        AddColumn(("note",), parse_type("STRING"), "why"),
        AddColumn(("first",), parse_type("INT"), None, Move("first", MoveKind.FIRST)),
        AddColumn(("place", "street"), parse_type("STRING"), None,
                  Move("street", MoveKind.AFTER, "city")),
    )  # fmt: skip
    assert [f.name for f in schema.fields] == [
        "first",
        "id",
        "day",
        "amount",
        "place",
        "tags",
        "note",
    ]
    assert schema.column("note").id == 7
    assert schema.column("note").description == "why"
    assert schema.highest_field_id == 9
    place = schema.column("place").type
    assert isinstance(place, RowType)
    assert [(f.name, f.id) for f in place.fields] == [("city", 4), ("street", 9), ("zip", 5)]
    assert (schema.id, schema.time_millis) == (1, 18)


def test_a_dropped_columns_id_is_never_used_again() -> None:
    dropped = changed(DropColumn(("tags",)))
    schema = changed(AddColumn(("tags",), parse_type("INT")), base=dropped)
    assert schema.column("tags").id == 7


def test_renames_reach_keys_and_options() -> None:
    base = table_schema({"bucket": "2", "bucket-key": "id", "sequence.field": "amount",
                         "fields.amount.stats-mode": "none"})  # fmt: skip
    schema = changed(
        RenameColumn(("id",), "key"), RenameColumn(("amount",), "sum"),
        RenameColumn(("place", "zip"), "code"), base=base,
    )  # fmt: skip
    assert schema.primary_keys == ("day", "key")
    assert schema.options == {"bucket": "2", "bucket-key": "key", "sequence.field": "sum",
                              "fields.sum.stats-mode": "none"}  # fmt: skip
    assert schema.column("key").id == 0


def test_types_widen_also_inside_arrays_and_rows() -> None:
    schema = changed(
        UpdateColumnType(("amount",), parse_type("BIGINT")),
        UpdateColumnType(("tags", "element"), parse_type("BIGINT")),
        UpdateColumnType(("place", "zip"), parse_type("DECIMAL(12, 1)")),
    )
    assert str(schema.column("amount").type) == "BIGINT"
    assert str(schema.column("tags").type) == "ARRAY<BIGINT>"
    assert str(schema.column("place").type) == "ROW<`city` STRING, `zip` DECIMAL(12, 1)>"


def test_other_changes() -> None:
    schema = changed(
        UpdateComment("orders"),
        UpdateColumnComment(("amount",), "cents"),
        UpdateColumnDefaultValue(("amount",), "0"),
        UpdateColumnPosition(Move("tags", MoveKind.BEFORE, "day")),
        UpdateColumnNullability(("place", "zip"), True),
        SetOption("snapshot.time-retained", "2 h"),
        SetOption("bucket", "4"),
    )
    assert schema.comment == "orders"
    assert schema.column("amount").description == "cents"
    assert schema.column("amount").default_value == "0"
    assert [f.name for f in schema.fields] == ["id", "tags", "day", "amount", "place"]
    assert schema.options == {"bucket": "4", "snapshot.time-retained": "2 h"}
    assert changed(RemoveOption("snapshot.time-retained"), base=schema).options == {"bucket": "4"}
    assert (
        changed(DropPrimaryKey(), SetOption("bucket-key", "id"), has_snapshots=False).primary_keys
        == ()
    )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (AddColumn(("id",), parse_type("INT")), AlreadyExists, "'id' exists"),
        (AddColumn(("n",), parse_type("INT NOT NULL")), Invalid, "NOT NULL"),
        (AddColumn(("id", "n"), parse_type("INT")), Invalid, "nested row"),
        (
            AddColumn(("n",), parse_type("INT"), None, Move("n", MoveKind.AFTER, "zz")),
            NotFound,
            "'zz'",
        ),
        (AddColumn(("rowkind",), parse_type("INT")), Invalid, "reserved"),
        (RenameColumn(("nope",), "x"), NotFound, "'nope'"),
        (RenameColumn(("id",), "amount"), AlreadyExists, "'amount' exists"),
        (RenameColumn(("day",), "d"), Invalid, "partition column"),
        (DropColumn(("id",)), Invalid, "primary key: .id"),
        (DropColumn(("day",)), Invalid, "partition key .* .day"),
        (DropColumn(("nope",)), NotFound, "'nope'"),
        (UpdateColumnType(("id",), parse_type("STRING")), Invalid, "update primary key"),
        (UpdateColumnType(("amount",), parse_type("DATE")), Invalid, "no cast between"),
        (UpdateColumnType(("amount",), parse_type("BYTES")), Invalid, "no cast between"),
        (UpdateColumnType(("amount",), parse_type("BIGINT NOT NULL")), Invalid, "hold nulls"),
        (UpdateColumnNullability(("amount",), False), Invalid, "hold nulls"),
        (UpdateColumnNullability(("id",), True), Invalid, "nullability of primary key"),
        (UpdateColumnPosition(Move("id", MoveKind.AFTER, "id")), Invalid, "beside itself"),
        (SetOption("merge-engine", "aggregation"), Invalid, "merge-engine"),
        (SetOption("bucket", "-1"), Invalid, "-1"),
        (RemoveOption("bucket"), Invalid, "bucket"),
        (SetOption("type", "format-table"), Invalid, "type"),
        (DropPrimaryKey(), Invalid, "holds data"),
    ],
)
def test_changes_that_are_not_allowed(
    change: SchemaChange, error: type[HeadwaterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        changed(change)


def test_changes_survive_the_wire() -> None:
    changes: list[SchemaChange] = [
        SetOption("a", "b"), RemoveOption("a"), UpdateComment(None), UpdateComment("c"),
        AddColumn(("a", "b"), parse_type("INT"), "c",
                  Move("b", MoveKind.BEFORE, "z")),
        AddColumn(("a",), parse_type({"type": "ARRAY", "element": "INT"})),
        RenameColumn(("a",), "b"), DropColumn(("a",)),
        UpdateColumnType(("a",), parse_type("BIGINT"), True),
        UpdateColumnNullability(("a",), False), UpdateColumnComment(("a",), "x"),
        UpdateColumnDefaultValue(("a",), None),
        UpdateColumnPosition(Move("a", MoveKind.FIRST)), DropPrimaryKey(),
    ]  # fmt: skip
    for change in changes:
        text = json.dumps(schema_change_json(change))
        assert schema_change_from_json(json.loads(text)) == change


@pytest.mark.parametrize(
    "document",
    [
        None, {}, {"action": "explode"}, {"action": "setOption", "key": "a"},
        {"action": "addColumn", "fieldNames": [], "dataType": "INT"},
        {"action": "addColumn", "fieldNames": ["a"], "dataType": "FOO"},
        {"action": "updateColumnPosition", "move": {"fieldName": "a", "type": "UP"}},
        {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": "no"},
    ],
)  # fmt: skip
def test_malformed_changes_are_refused(document: object) -> None:
    with pytest.raises(HeadwaterError):
        schema_change_from_json(document)  # type: ignore[arg-type]
