"""Rules about columns that Headwater keeps for other engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from headwater.storage.errors import Invalid
from headwater.storage.schema.change import (
    AddColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnType,
)
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import DataField, Json, parse_type, type_json

BLOBS: Json = {"type": "ARRAY", "element": "BLOB"}
VECTOR: Json = {"type": "VECTOR", "element": "FLOAT", "length": 3}
EVOLUTION = {"data-evolution.enabled": "true", "row-tracking.enabled": "true"}


def _schema(
    columns: Mapping[str, Json],
    options: Mapping[str, str] | None = None,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
) -> TableSchema:
    fields = tuple(
        DataField(number, name, parse_type(written))
        for number, (name, written) in enumerate({"id": "INT", **columns}.items())
    )
    asked = Schema(fields, tuple(partition_keys), tuple(primary_keys), dict(options or {}))
    return new_table_schema(asked, 1)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"c": VECTOR}, {}),
        ({"c": VECTOR}, {"vector-field": "c"}),
        ({"c": VECTOR}, {"vector.file.format": "lance", **EVOLUTION}),
        ({"c": "GEOMETRY"}, {"file.format": "parquet", "file.format.per.level": "0:parquet"}),
        ({"c": {"type": "ARRAY", "element": "GEOGRAPHY"}}, {}),
        (
            {"c": "GEOGRAPHY"},
            {"metadata.iceberg.storage": "table-location", "metadata.iceberg.format-version": "3"},
        ),
        ({"c": "BLOB"}, EVOLUTION),
        ({"c": {"type": "MAP", "key": "STRING", "value": "BLOB"}}, EVOLUTION),
        ({"c": "VARIANT"}, {}),
    ],
)
def test_columns_of_every_type_are_kept(
    columns: Mapping[str, Json], options: Mapping[str, str]
) -> None:
    schema = _schema(columns, options)
    assert TableSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"c": "GEOMETRY"}, {"file.format": "orc"}, "'file.format' is 'orc'"),
        ({"c": "GEOMETRY"}, {"changelog-file.format": "avro"}, "changelog-file"),
        ({"c": "GEOGRAPHY"}, {"file.format.per.level": "0:avro,5:parquet"}, "level '0'"),
        ({"c": "GEOGRAPHY"}, {"clustering.columns": "id, c"}, "'clustering.columns'"),
        ({"c": "GEOGRAPHY"}, {"bucket": "1", "bucket-key": "c"}, "'bucket-key'"),
        ({"c": "GEOMETRY"}, {"metadata.iceberg.storage": "hadoop-catalog"}, "format-version"),
        ({"c": "GEOMETRY"}, {"metadata.iceberg.storage": "rest-catalog"}, "rest-catalog"),
        (
            {"c": "GEOGRAPHY('a,b')"},
            {"metadata.iceberg.storage": "table-location", "metadata.iceberg.format-version": "3"},
            "comma",
        ),
        ({"c": "INT"}, {"vector-field": "c"}, "'vector-field' names 'c'"),
        ({"c": VECTOR}, {"vector-field": "d"}, "'vector-field' names 'd'"),
        ({"c": VECTOR}, {"vector.file.format": "lance"}, "data-evolution"),
        ({"id": VECTOR, "c": VECTOR}, {"vector.file.format": "x", **EVOLUTION}, "no VECTOR"),
        ({"c": "BLOB"}, {}, "data-evolution"),
        ({"id": "BLOB", "c": "BLOB"}, EVOLUTION, "no BLOB"),
        ({"c": {"type": "MAP", "key": "BLOB", "value": "INT"}}, EVOLUTION, "stands by itself"),
        ({"c": "INT"}, {**EVOLUTION, "blob-field": "c"}, "'blob-field' names 'c'"),
        ({"c": "INT"}, {**EVOLUTION, "blob-view-field": "d"}, "'blob-view-field' names 'd'"),
        ({"c": BLOBS}, {**EVOLUTION, "blob-descriptor-field": "c"}, "in 'blob-field' alone"),
        (
            {"c": "BLOB"}, {**EVOLUTION, "blob-view-field": "c", "blob-descriptor-field": "c"},
            "in both 'blob-view-field' and 'blob-descriptor-field'",
        ),
    ],
)  # fmt: skip
def test_what_such_columns_cannot_have_is_refused(
    columns: Mapping[str, Json], options: Mapping[str, str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        _schema(columns, options)


@pytest.mark.parametrize("written", [VECTOR, "GEOMETRY", "GEOGRAPHY", "VARIANT"])
def test_such_columns_are_no_keys(written: Json) -> None:
    kind = "nested type" if written == VECTOR else f"type {parse_type(written)}".split("(")[0]
    for primary, partition in ((("c",), ()), ((), ("c",))):
        with pytest.raises(Invalid, match=f"must not be of (a )?{kind}"):
            _schema({"c": written}, {"bucket": "1"} if primary else {}, primary, partition)
    with pytest.raises(Invalid):
        _schema({"c": written}, {"bucket": "1", "sequence.field": "c", "bucket-key": "c"}, ("c",))


def test_such_columns_come_later_and_stay_as_they_are() -> None:
    base = _schema({"n": "INT", "g": "GEOMETRY"})
    added = apply_changes(
        base, [AddColumn(("v",), parse_type(VECTOR))], now_millis=2, has_snapshots=True
    )
    assert added.column("v").type == parse_type(VECTOR)
    longer = parse_type({"type": "VECTOR", "element": "FLOAT", "length": 4})
    for change in (
        UpdateColumnType(("v",), longer),
        UpdateColumnType(("v",), parse_type("STRING")),
        UpdateColumnType(("n",), parse_type(VECTOR)),
        UpdateColumnType(("g",), parse_type("GEOMETRY('4326')")),
        UpdateColumnType(("g",), parse_type("BYTES")),
        SetOption("file.format", "avro"),
    ):
        for has_snapshots in (True, False):
            with pytest.raises(Invalid):
                apply_changes(added, [change], now_millis=3, has_snapshots=has_snapshots)


def test_columns_of_blobs_keep_their_names() -> None:
    base = _schema({"b": BLOBS, "n": "INT"}, {"bucket": "1"}, ("id",))
    with pytest.raises(Invalid, match="bear its name"):
        apply_changes(base, [RenameColumn(("b",), "c")], now_millis=2, has_snapshots=True)
    renamed = apply_changes(base, [RenameColumn(("n",), "m")], now_millis=2, has_snapshots=True)
    assert list(renamed.field_by_name) == ["id", "b", "m"]


@pytest.mark.parametrize(
    ("options", "primary_keys", "message"),
    [
        ({"row-tracking.enabled": "true"}, ("id",), "without a primary key"),
        (
            {"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "id"}, (),
            "needs 'bucket' = '-1', not '2'",
        ),
        ({"data-evolution.enabled": "true"}, (), "needs option 'row-tracking.enabled'"),
        ({"data-evolution.enabled": "maybe"}, ("id",), "must be true or false, not 'maybe'"),
        ({"row-tracking.enabled": "maybe"}, (), "must be true or false, not 'maybe'"),
        ({"vector.target-file-size": "big"}, (), "'big' is not a quantity"),
        ({**EVOLUTION, "clustering.incremental": "true"}, (), "excludes 'clustering.incremental'"),
        ({"clustering.incremental": "true"}, ("id",), "without a primary key"),
    ],
)  # fmt: skip
def test_tracked_rows_are_those_of_a_table_without_keys_and_buckets(
    options: Mapping[str, str], primary_keys: Sequence[str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        _schema({}, options, primary_keys)
    base = _schema({}, {"row-tracking.enabled": "true", "clustering.incremental": "true"})
    evolution = SetOption("data-evolution.enabled", "true")
    with pytest.raises(Invalid, match=r"clustering\.incremental"):
        apply_changes(base, [evolution], now_millis=2, has_snapshots=False)
    alone = apply_changes(
        base, [evolution, RemoveOption("clustering.incremental")], now_millis=2, has_snapshots=False
    )
    assert alone.options == EVOLUTION


UPDATED = {"merge-engine": "partial-update", "fields.n.sequence-group": "b"}
SUMMED = {**UPDATED, "fields.b.aggregate-function": "listagg"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "aggregation"}, "'aggregation'"),
        ({"changelog-producer": "input"}, "'none', not 'input'"),
        ({"data-file.external-paths": "s3://b/x"}, "external-paths"),
        (
            {
                "pk-clustering-override": "true",
                "clustering.columns": "n",
                "deletion-vectors.enabled": "true",
            },
            "excludes option 'pk-clustering-override'",
        ),
        ({"sequence.field": "b"}, "column 'b' of BLOBs cannot be in 'sequence.field'"),
        (SUMMED, "'listagg', for retracting rows"),
        (
            {"merge-engine": "partial-update", "fields.n,b.sequence-group": "m"},
            "cannot order rows in 'fields.n,b.sequence-group'",
        ),
        (
            {"merge-engine": "partial-update", "fields.n.x.sequence-group": "m"},
            "column 'n.x', which does not exist",
        ),
        (
            {"merge-engine": "partial-update", "fields.sequence-group": "m"},
            "which does not exist",
        ),
    ],
)
def test_a_table_with_a_key_merges_blobs_in_some_ways_alone(
    options: Mapping[str, str], message: str
) -> None:
    columns: Mapping[str, Json] = {"b": "BLOB", "n": "INT", "m": "INT"}
    with pytest.raises(Invalid, match=message):
        _schema(columns, {"bucket": "1", **options}, ("id",))


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        UPDATED,
        {**UPDATED, "fields.b.aggregate-function": "last_value"},
        {**SUMMED, "fields.b.ignore-retract": "true"},
        {**SUMMED, "ignore-delete": "true"},
        {"merge-engine": "aggregation", "blob-descriptor-field": "b"},
        {"changelog-producer": "input", "blob-view-field": "b"},
    ],
)
def test_such_tables_have_blobs(options: Mapping[str, str]) -> None:
    asked = {"bucket": "1", **options}
    assert _schema({"b": "BLOB", "n": "INT"}, asked, ("id",)).options == asked


@pytest.mark.parametrize("written", ["GEOMETRY(ogc:crs84)", "GEOGRAPHY(ogc:crs84, karney)"])
def test_the_case_of_a_coordinate_reference_system_makes_no_difference(written: str) -> None:
    same, other = parse_type(written.replace("ogc", "OGC")), parse_type(written.replace("84", "83"))
    ours = parse_type(written)
    assert ours == same
    assert hash(ours) == hash(same)
    assert ours != other
    assert (str(ours), type_json(ours)) == (written, written)
    base = _schema({"g": written})
    after = apply_changes(base, [UpdateColumnType(("g",), same)], now_millis=2, has_snapshots=True)
    assert str(after.column("g").type) == str(same)
    with pytest.raises(Invalid):
        apply_changes(base, [UpdateColumnType(("g",), other)], now_millis=2, has_snapshots=True)
