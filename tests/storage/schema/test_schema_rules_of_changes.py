"""What a schema may become: options, defaults, positions, and names in options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from headwater.storage.errors import HeadwaterError, Invalid
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
    UpdateColumnDefaultValue,
    UpdateColumnType,
)
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import Json, parse_type

ARROW = pa.schema(
    [("id", pa.int64()), ("dt", pa.string()), ("amount", pa.int32()), ("note", pa.string())]
)

MARKED = {"deletion-vectors.enabled": "true"}


def _schema(
    options: Mapping[str, str] | None = None,
    primary_keys: Sequence[str] = ("dt", "id"),
    partition_keys: Sequence[str] = ("dt",),
) -> TableSchema:
    asked = Schema.from_arrow(
        ARROW,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options={"bucket": "2", **(options or {})},
    )
    return new_table_schema(asked, 1)


def _changed(base: TableSchema, *changes: SchemaChange, has_snapshots: bool = True) -> TableSchema:
    return apply_changes(base, changes, now_millis=2, has_snapshots=has_snapshots)


def _names(schema: TableSchema) -> list[str]:
    return [field.name for field in schema.fields]


def test_setting_an_option_to_what_it_is_changes_nothing() -> None:
    base = _schema()
    same = (
        SetOption("type", "TABLE"),
        SetOption("primary-key", " dt, id"),
        SetOption("partition", "dt"),
        SetOption("bucket", "2"),
        RemoveOption("merge-engine"),
    )
    after = _changed(base, *same)
    assert (after.options, after.primary_keys) == (base.options, base.primary_keys)


def test_an_empty_tables_keys_may_come_as_options() -> None:
    plain = _schema({"bucket-key": "id"}, (), ())
    after = _changed(
        plain,
        SetOption("primary-key", "id,dt"),
        SetOption("partition", "dt"),
        has_snapshots=False,
    )
    assert (after.primary_keys, after.partition_keys) == (("id", "dt"), ("dt",))
    assert after.options == {"bucket": "2", "bucket-key": "id"}
    assert not after.column("id").type.nullable
    replaced = _changed(
        _schema(), DropPrimaryKey(), SetOption("primary-key", "id,dt"), has_snapshots=False
    )
    assert replaced.primary_keys == ("id", "dt")
    for options in ({"primary-key": "dt"}, {"partition": "id"}):
        changes = [SetOption(*item) for item in options.items()]
        with pytest.raises(Invalid, match="not as both"):
            _changed(_schema(), *changes, has_snapshots=False)
        with pytest.raises(Invalid, match="once the table holds data"):
            _changed(_schema(), *changes)


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({}, SetOption("blob-view-field", "note"), "blob-view-field"),
        ({}, SetOption("pk-clustering-override", "true"), "pk-clustering-override"),
        (
            {
                "pk-clustering-override": "true", "clustering.columns": "note",
                "deletion-vectors.enabled": "true",
            },
            SetOption("clustering.columns", "amount"), "sorted by it",
        ),
        (
            {
                "pk-clustering-override": "true", "sink.clustering.by-columns": "note",
                "deletion-vectors.enabled": "true",
            },
            SetOption("sink.clustering.by-columns", "amount"), "sorted by it",
        ),
        (
            {"sink.clustering.by-columns": "note"}, DropColumn(("note",)),
            "'sink.clustering.by-columns' names it",
        ),
        ({}, SetOption("deletion-vectors.enabled", "true"), "deletion-vectors.modifiable"),
        ({"ignore-delete": "true"}, RemoveOption("ignore-delete"), "from true to false"),
        ({}, SetOption("fields.nothing.ignore-retract", "true"), "'nothing', which does not"),
        ({"type": "materialized-table"}, RemoveOption("type"), "another table"),
        ({**MARKED, "pk-btree.index.columns": "note"}, RenameColumn(("note",), "n"), "an index"),
        ({**MARKED, "pk-btree.index.columns": "note"}, DropColumn(("note",)), "index.columns"),
        (
            {**MARKED, "pk-bitmap.index.columns": "amount"},
            UpdateColumnType(("amount",), parse_type("BIGINT")), "an index",
        ),
        ({"sequence.field": "amount"}, DropColumn(("amount",)), "'sequence.field' names it"),
        (
            {"fields.amount.aggregate-function": "sum"}, DropColumn(("amount",)),
            "'fields.amount.aggregate-function' names it",
        ),
        (
            {"fields.amount.sequence-group": "note"}, DropColumn(("note",)),
            "'fields.amount.sequence-group' names it",
        ),
    ],
)  # fmt: skip
def test_refusals_say_which_option_forbids_a_change(
    options: Mapping[str, str], change: SchemaChange, message: str
) -> None:
    with pytest.raises(HeadwaterError, match=message):
        _changed(_schema(options), change)


def test_a_dropped_column_takes_nothing_with_it_once_no_option_names_it() -> None:
    base = _schema({"fields.amount.sequence-group": "note"})
    after = _changed(base, RemoveOption("fields.amount.sequence-group"), DropColumn(("note",)))
    assert _names(after) == ["id", "dt", "amount"]


def test_options_follow_a_column_to_its_new_name() -> None:
    base = _schema(
        {
            "fields.amount,note.sequence-group": "id, note",
            "fields.note.aggregate-function": "last_value",
            "fields.default-aggregate-function": "sum",
            "fields.amount.nested-key": "amount",
            "clustering.columns": "note",
            "sink.clustering.by-columns": "amount,note",
            "comment-of-note": "note",
        }
    )
    after = _changed(base, RenameColumn(("note",), "remark"), RenameColumn(("amount",), "sum"))
    assert after.options == {
        "bucket": "2",
        "fields.sum,remark.sequence-group": "id,remark",
        "fields.remark.aggregate-function": "last_value",
        "fields.default-aggregate-function": "sum",
        "fields.sum.nested-key": "sum",
        "clustering.columns": "remark",
        "sink.clustering.by-columns": "sum,remark",
        "comment-of-note": "note",
    }


def test_columns_may_be_added_before_the_partitions() -> None:
    base = _schema({"add-column-before-partition": "true"})
    new = AddColumn(("new",), parse_type("INT"))
    assert _names(_changed(base, new)) == ["id", "new", "dt", "amount", "note"]
    last = AddColumn(("new",), parse_type("INT"), None, Move("new", MoveKind.LAST))
    assert _names(_changed(base, last)) == ["id", "dt", "amount", "note", "new"]
    plain = _schema({"add-column-before-partition": "true"}, ("id",), ())
    assert _names(_changed(plain, new))[-1] == "new"


@pytest.mark.parametrize(
    ("data_type", "good", "bad"),
    [
        ("BOOLEAN", "true FALSE y 0", "maybe 2"),
        ("TINYINT", "-128 127 +5", "128 x 1e1"),
        ("INT", "2147483647 -1 '7' 1.5", "2147483648 ten"),
        ("BIGINT", "-9223372036854775808", "9223372036854775808"),
        ("DOUBLE", "1.5 -1e10 .5 3 1.0f NaN Infinity", "one 1_0"),
        ("DECIMAL(4, 2)", "99.99 -1 0.001", "100 NaN x"),
        ("DATE", "2026-01-31 2026-1-1 19000", "2026-02-30 today"),
        ("TIME", "12:30 12:30:59 12:30:59.123 1000", "24:00 noon"),
        ("TIMESTAMP(3)", "2026-01-31 2026-01-31T12:30:00.5 1700000000000", "2026-13-01 now"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2026-01-31T12:30:00", "1700000000000"),
        ("STRING", "anything 1", ""),
        ("CHAR(2)", "toolong", ""),
        ("BYTES", "abc", ""),
        ("ROW", "whatever", ""),
    ],
)
def test_a_default_is_a_value_of_its_column(data_type: str, good: str, bad: str) -> None:
    row = {"type": "ROW", "fields": [{"id": 9, "name": "a", "type": "INT"}]}
    of_type = parse_type(row) if data_type == "ROW" else parse_type(data_type)  # type: ignore[arg-type]
    base = _changed(_schema(), AddColumn(("x",), of_type))
    for text in good.split():
        after = _changed(base, UpdateColumnDefaultValue(("x",), text))
        assert after.column("x").default_value == text
        assert _changed(after, UpdateColumnDefaultValue(("x",), None)).column("x") == base.column(
            "x"
        )
    for text in bad.split():
        with pytest.raises(Invalid, match="value of"):
            _changed(base, UpdateColumnDefaultValue(("x",), text))


def test_a_default_is_checked_when_the_column_is_made() -> None:
    document = {
        "fields": [{"id": 0, "name": "a", "type": "INT", "defaultValue": "many"}],
        "options": {},
    }
    with pytest.raises(Invalid, match="column 'a': the default 'many'"):
        new_table_schema(Schema.from_json(document), 1)  # type: ignore[arg-type]


def test_a_default_must_fit_a_new_type() -> None:
    base = _changed(_schema(), UpdateColumnDefaultValue(("amount",), "1.5"))
    after = _changed(base, UpdateColumnType(("amount",), parse_type("BIGINT")))
    assert after.column("amount").default_value == "1.5"
    with pytest.raises(Invalid, match=r"the default '1\.5'"):
        _changed(base, UpdateColumnType(("amount",), parse_type("BOOLEAN")))


def test_columns_of_other_engines_types_are_kept() -> None:
    base = _changed(
        _schema(),
        AddColumn(("doc",), parse_type("VARIANT")),
        AddColumn(("image",), parse_type("BLOB")),
        AddColumn(("images",), parse_type({"type": "ARRAY", "element": "BLOB"})),
    )
    after = _changed(base, RenameColumn(("doc",), "document"), DropColumn(("image",)))
    assert str(after.column("document").type) == "VARIANT"
    assert TableSchema.from_json(after.to_json()) == after
    for change, message in (
        (RenameColumn(("image",), "picture"), "bear its name"),
        (UpdateColumnType(("image",), parse_type("BYTES")), "cannot be converted"),
        (UpdateColumnType(("images",), parse_type("STRING")), "in files of type BLOB"),
        (UpdateColumnType(("note",), parse_type("VARIANT")), "cannot be converted"),
        (UpdateColumnDefaultValue(("doc",), "x"), "no value of VARIANT"),
        (AddColumn(("place",), parse_type("VARIANT NOT NULL")), "NOT NULL"),
    ):
        with pytest.raises(Invalid, match=message):
            _changed(base, change)
    with pytest.raises(Invalid, match="must not be of type VARIANT"):
        _changed(
            _changed(
                _schema({"bucket-key": "id"}, (), ()), AddColumn(("doc",), parse_type("VARIANT"))
            ),
            SetOption("primary-key", "doc"),
            has_snapshots=False,
        )


ROW: Json = {"type": "ROW", "fields": [{"id": 9, "name": "a", "type": "INT"}]}
ARRAY: Json = {"type": "ARRAY", "element": "INT"}


@pytest.mark.parametrize(
    ("old", "new", "implicit"),
    [
        ("STRING", "BIGINT", False),
        ("BIGINT", "INT", False),
        ("BIGINT", "FLOAT", True),
        ("DECIMAL(10, 4)", "DECIMAL(4, 2)", True),
        ("TIMESTAMP(6)", "DATE", True),
        ("DATE", "TIMESTAMP(3)", False),
        ("STRING", "BYTES", False),
        ("STRING", "CHAR(3)", False),
        ("STRING", "VARCHAR(3)", True),
        ("BOOLEAN", "INT", False),
        ("INT", "BOOLEAN", False),
        ("BIGINT", "TIMESTAMP(3)", False),
        ("DOUBLE", "DECIMAL(10, 2)", True),
        ("DATE", "STRING", False),
        (ROW, "STRING", False),
        (ARRAY, "CHAR(5)", False),
    ],
)
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_every_cast_of_paimons_is_taken(
    old: Json, new: Json, implicit: bool, has_snapshots: bool
) -> None:
    base = _changed(_schema(), AddColumn(("x",), parse_type(old)))
    change = UpdateColumnType(("x",), parse_type(new))
    after = _changed(base, change, has_snapshots=has_snapshots)
    assert after.column("x").type == parse_type(new)
    strict = replace(base, options={**base.options, "disable-explicit-type-casting": "true"})
    if implicit:
        assert _changed(strict, change).column("x").type == parse_type(new)
    else:
        with pytest.raises(Invalid, match="'disable-explicit-type-casting' is true"):
            _changed(strict, change)


def test_types_inside_a_column_change_by_their_paths() -> None:
    nested: Json = {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": ROW}}
    base = _changed(_schema(), AddColumn(("x",), parse_type(nested)))
    path = ("x", "value", "element", "a")
    after = _changed(base, UpdateColumnType(path, parse_type("STRING")))
    assert str(after.column("x").type) == "MAP<STRING, ARRAY<ROW<`a` STRING>>>"
    listed = _changed(_schema(), AddColumn(("x",), parse_type(ARRAY)))
    after = _changed(listed, UpdateColumnType(("x", "element"), parse_type("TINYINT")))
    assert str(after.column("x").type) == "ARRAY<TINYINT>"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("BOOLEAN", "DATE", "no cast between"),
        ("BYTES", "INT", "no cast between"),
        ("DATE", "INT", "no cast between"),
        ("DATE", "TIME(0)", "no cast between"),
        ("BLOB", "STRING", "no cast between"),
        ("VARIANT", "STRING", "no cast between"),
        ("INT", "BYTES", "no cast between"),
        ("SMALLINT", "TIMESTAMP(3)", "no cast between"),
        ("TIMESTAMP(3)", "DECIMAL(20, 0)", "no cast between"),
        ("DOUBLE", "BOOLEAN", "no cast between"),
        ("STRING", ARRAY, "no cast between"),
        ({"type": "MULTISET", "element": "INT"}, "STRING", "no cast between"),
        ("TIME(0)", "TIME(3)", "another precision"),
        ("DATE", "VARCHAR(10)", "only to STRING that may be null"),
        ("TIMESTAMP(3)", "CHAR(23)", "only to STRING that may be null"),
        (ARRAY, {"type": "ARRAY", "element": "BIGINT"}, "by their paths"),
        (ROW, {"type": "ROW", "fields": [{"id": 9, "name": "a", "type": "STRING"}]}, "by their"),
    ],
)
def test_what_paimon_does_not_cast_is_refused(old: Json, new: Json, reason: str) -> None:
    base = _changed(_schema(), AddColumn(("x",), parse_type(old)))
    with pytest.raises(Invalid, match=rf"x\[.*\] cannot be converted to .*{reason}"):
        _changed(base, UpdateColumnType(("x",), parse_type(new)), has_snapshots=False)


def test_nothing_inside_a_multiset_changes() -> None:
    bag = parse_type({"type": "MULTISET", "element": "INT"})
    base = _changed(_schema(), AddColumn(("x",), bag))
    with pytest.raises(Invalid, match="has no part 'element'"):
        _changed(base, UpdateColumnType(("x", "element"), parse_type("BIGINT")))


def test_a_column_that_may_hold_nulls_stays_so_where_casts_are_restricted() -> None:
    options = {
        "disable-explicit-type-casting": "true",
        "alter-column-null-to-not-null.disabled": "false",
    }
    change = UpdateColumnType(("amount",), parse_type("BIGINT NOT NULL"))
    with pytest.raises(Invalid, match="it may hold nulls"):
        _changed(_schema(options), change)
    assert (
        not _changed(_schema({"alter-column-null-to-not-null.disabled": "false"}), change)
        .column("amount")
        .type.nullable
    )
    kept = replace(change, keep_nullability=True)
    assert _changed(_schema(options), kept).column("amount").type == parse_type("BIGINT")
