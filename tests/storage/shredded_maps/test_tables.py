"""Tables whose files hold MAP columns by their keys."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.client.lake import Lake
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.formats.arrow_metadata import SCHEMA_KEY, columns_metadata, schema_entry
from headwater.storage.formats.orc_tail import OrcTail
from headwater.storage.options import KeyPlacement
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnType,
)
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema
from headwater.storage.shredded_maps.layout import ColumnLayout, column_layout
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

FORMATS = ["parquet", "orc"]
PREFIX = b"paimon.map.shared-shredding."
MAP: Json = {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}
FIELDS = (
    DataField(0, "k", parse_type("INT NOT NULL")),
    DataField(1, "m", parse_type(MAP)),
    DataField(2, "v", parse_type("STRING")),
)
Maps = Sequence[Mapping[str, int | None] | None]


def shredded(columns: int = 3, column: str = "m") -> dict[str, str]:
    return {
        f"fields.{column}.map.storage-layout": "shared-shredding",
        f"fields.{column}.map.shared-shredding.max-columns": str(columns),
    }


def opened(room: Path) -> Lake:
    lake = connect(str(room))
    lake.create_database("d", ignore_if_exists=True)
    return lake


def create(
    room: Path,
    options: Mapping[str, str],
    *,
    keyed: bool = False,
    name: str = "t",
    fields: Sequence[DataField] = FIELDS,
) -> Table:
    fixed = {"bucket": "1", "bucket-key": "k"}
    return opened(room).create_table(
        f"d.{name}",
        Schema(tuple(fields)),
        primary_keys=["k"] if keyed else [],
        options={**fixed, **options},
    )


def change(room: Path, *changes: SchemaChange) -> Table:
    return opened(room).alter_table("d.t", *changes)


def rows(maps: Maps, first: int = 0) -> pa.Table:
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in FIELDS])
    made = [
        {"k": k, "m": None if each is None else list(each.items()), "v": f"row {k}"}
        for k, each in enumerate(maps, first)
    ]
    return pa.Table.from_pylist(made, schema)


def found(table: Table, column: str = "m", where: str | None = None) -> list[object]:
    """The maps of a table in the order of ``k``."""
    read = table.refresh().scan(columns=["k", column], where=where).to_arrow().sort_by("k")
    return [None if each is None else dict(each) for each in read[column].to_pylist()]


def random_maps(seed: int, count: int, keys: str = "abcdefghij") -> Maps:
    chosen = random.Random(seed)
    return [
        None
        if chosen.random() < 0.1
        else {
            key: chosen.choice([None, chosen.randrange(100)])
            for key in chosen.sample(keys, chosen.randint(0, 6))
        }
        for _ in range(count)
    ]


def data_files(table: Table) -> list[Path]:
    root = Path(local_path(table.refresh().storage.layout.location))
    return sorted(root.rglob("data-*"), key=lambda path: path.stat().st_mtime_ns)


def layout(path: Path, column: str = "m") -> ColumnLayout | None:
    if path.suffix == ".parquet":
        return column_layout(pq.read_schema(path).field(column).metadata, str(path))
    entry = OrcTail(pa.OSFile(str(path)), str(path)).entry(SCHEMA_KEY)
    return None if entry is None else column_layout(columns_metadata(entry)[column], str(path))


@pytest.mark.parametrize("policy", KeyPlacement)
@pytest.mark.parametrize("file_format", FORMATS)
def test_keys_are_placed_as_paimon_places_them(
    tmp_path: Path, file_format: str, policy: KeyPlacement
) -> None:
    option = "fields.m.map.shared-shredding.column-placement-policy"
    table = create(tmp_path, {**shredded(), "file.format": file_format, option: policy})
    maps: Maps = [
        {"b": 1, "a": 2, "c": None}, {}, None, {"c": 4, "a": 5}, {"d": 6},
        {"d": 10, "a": 7, "b": 8, "c": 9},
    ]  # fmt: skip
    table.write(rows(maps))
    assert found(table) == maps
    keys = {"b": 0, "a": 1, "c": 2, "d": 3}
    expected = {
        KeyPlacement.PLAIN: ({0: [0, 2], 1: [1], 2: [0, 2], 3: [0]}, {2}),
        KeyPlacement.SEQUENTIAL: ({0: [0], 1: [0, 1], 2: [1, 2], 3: [0]}, {3}),
        KeyPlacement.LRU: ({0: [0], 1: [1], 2: [2], 3: [0]}, {0}),
    }
    places, overflowing = expected[policy]
    (path,) = data_files(table)
    assert layout(path) == ColumnLayout(keys, 3, places, frozenset(overflowing), 4)


@pytest.mark.parametrize("columns", [1, 3, 256])
@pytest.mark.parametrize("file_format", FORMATS)
def test_maps_are_read_as_they_were_written(tmp_path: Path, file_format: str, columns: int) -> None:
    table = create(tmp_path, {**shredded(columns), "file.format": file_format})
    maps = random_maps(columns, 2000)
    table.write(rows(maps))
    assert found(table) == maps
    assert found(table, where="k BETWEEN 50 AND 60") == maps[50:61]
    assert found(table, where="m IS NULL") == [None] * maps.count(None)
    assert table.refresh().scan(columns=["v"]).to_arrow().num_rows == len(maps)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("maps", [[], [None, None], [{}], [{}, None, {"": None}]])
def test_maps_without_values(tmp_path: Path, file_format: str, maps: Maps) -> None:
    table = create(tmp_path, {**shredded(), "file.format": file_format})
    table.write(rows(maps))
    assert found(table) == maps


def test_of_equal_keys_the_last_counts(tmp_path: Path) -> None:
    table = create(tmp_path, shredded())
    repeated = [[("a", 1), ("b", 2), ("a", 3)], [("c", 1)], [("c", 1), ("c", None)]]
    data = rows([None] * 3)
    table.write(data.set_column(1, data.field(1), pa.array(repeated, data.field(1).type)))
    assert found(table) == [{"a": 3, "b": 2}, {"c": 1}, {"c": None}]
    (path,) = data_files(table)
    assert layout(path) == ColumnLayout(
        {"a": 0, "b": 1, "c": 2}, 3, {0: [0], 1: [1], 2: [2]}, frozenset(), 2
    )


NESTED: Mapping[str, Json] = {
    "rows": {
        "type": "ROW",
        "fields": [
            {"id": 90, "name": "a", "type": "INT NOT NULL"},
            {"id": 91, "name": "b", "type": {"type": "ARRAY", "element": "STRING"}},
        ],
    },
    "maps": {"type": "MAP", "key": "STRING NOT NULL", "value": "TIMESTAMP(9)"},
    "must": "INT NOT NULL",
    "time": "TIME(3)",
}


@pytest.mark.parametrize("file_format", FORMATS)
def test_values_of_nested_types(tmp_path: Path, file_format: str) -> None:
    fields = [DataField(0, "k", parse_type("INT NOT NULL"))]
    options = {"file.format": file_format}
    for at, (name, value) in enumerate(NESTED.items(), 1):
        kind = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": value})
        fields.append(DataField(at, name, kind))
        options |= shredded(2, name)
    values: Mapping[str, list[object]] = {
        "rows": [{"a": 1, "b": []}, {"a": 2, "b": ["x", None]}, None],
        "maps": [[], [("x", None)], None],
        "must": [1, 2, 3],
        "time": [None, 5, 86_399_999],
    }
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in fields])
    made = [
        {
            "k": k,
            **{name: list(zip("abc"[:k], each, strict=False)) for name, each in values.items()},
        }
        for k in range(4)
    ]
    made += [{"k": 4}]
    table = create(tmp_path, options, fields=fields)
    table.write(pa.Table.from_pylist(made, schema))
    read = table.refresh().scan().to_arrow().sort_by("k")
    assert read.equals(pa.Table.from_pylist(made, schema))


def test_nulls_in_not_null_values_are_refused(tmp_path: Path) -> None:
    kind = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT NOT NULL"})
    fields = (FIELDS[0], DataField(1, "m", kind), FIELDS[2])
    table = create(tmp_path, shredded(), fields=fields)
    table.write(rows([{"a": 1}, None]))
    with pytest.raises(Invalid, match="column 'm', value is NOT NULL"):
        table.write(rows([{"a": None}]))
    assert found(table) == [{"a": 1}, None]


@pytest.mark.parametrize("codec", ["snappy", "zlib", "none"])
def test_keys_have_the_codec_of_the_table(tmp_path: Path, codec: str) -> None:
    options = {"file.format": "orc", "orc.compress": codec, "file.compression": "lz4"}
    table = create(tmp_path, {**shredded(), **options})
    table.write(rows([{"a": 1}]))
    assert found(table) == [{"a": 1}]


def test_options_of_a_handle_are_followed(tmp_path: Path) -> None:
    table = create(tmp_path, {})
    table.with_options(shredded()).write(rows([{"a": 1}]))
    assert [each is not None for each in map(layout, data_files(table))] == [True]
    assert found(table) == [{"a": 1}]
    packed = {**shredded(), "file.compression": "snappy"}
    with pytest.raises(Invalid, match="need one of none, lz4, zstd"):
        table.refresh().with_options(packed).write(rows([{"a": 2}]))
    assert len(data_files(table)) == 1


def test_later_files_have_as_many_columns_as_rows_have_keys(tmp_path: Path) -> None:
    table = create(tmp_path, {**shredded(64), "target-file-size": "1 b"})
    maps: Maps = [dict.fromkeys("abc", k) for k in range(700)]
    table.write(rows(maps))
    columns = [found.columns for found in map(layout, data_files(table)) if found]
    assert columns[0] == 64
    assert set(columns[1:]) == {3}
    assert found(table) == maps


ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "thin": {"data-file.thin-mode": "true"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.m.aggregate-function": "merge_map"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full": {"changelog-producer": "full-compaction"},
}


# Those that every run goes through.
CHOSEN = [("deduplicate", "parquet"), ("aggregation", "orc"), ("lookup", "parquet")]


@pytest.mark.parametrize(
    ("engine", "file_format"),
    [
        pytest.param(*each, marks=[] if each in CHOSEN else pytest.mark.modes)
        for each in itertools.product(ENGINES, FORMATS)
    ],
)
def test_rows_are_merged_as_those_of_other_files(
    tmp_path: Path, engine: str, file_format: str
) -> None:
    same = {**ENGINES[engine], "file.format": file_format}
    by_key = create(tmp_path, {**same, **shredded()}, keyed=True)
    plain = create(tmp_path, same, keyed=True, name="plain")
    changes: list[list[tuple[object, ...]]] = []
    for table in (by_key, plain):
        for version in range(3):
            table.refresh().write(rows(random_maps(version, 100), 20 * version))
        if engine not in ("aggregation", "partial-update", "first-row"):
            table.refresh().delete("k > 110")
    assert found(by_key) == found(plain)
    for table in (by_key, plain):
        table.refresh().compact(full=True)
        if "changelog-producer" in same:
            told = table.refresh().changes(0).to_arrow().to_pylist()
            changes.append(
                [(r["_ROW_KIND"], r["k"], r["m"] and sorted(r["m"]), r["v"]) for r in told]
            )
    assert found(by_key) == found(plain)
    assert not changes or changes[0] == changes[1]
    assert all(layout(path) is not None for path in data_files(by_key))


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_are_read_each_in_its_own_form(tmp_path: Path, file_format: str) -> None:
    table = create(tmp_path, {"file.format": file_format})
    maps = random_maps(7, 50)
    steps: Sequence[Sequence[SchemaChange]] = [
        [],
        [SetOption(key, value) for key, value in shredded(2).items()],
        [SetOption("fields.m.map.shared-shredding.max-columns", "5")],
        [RenameColumn(("m",), "n"), RenameColumn(("n",), "m")],
        [SetOption("fields.m.map.storage-layout", "default")],
    ]
    for at, changes in enumerate(steps):
        if changes:
            table = change(tmp_path, *changes)
        table.write(rows(maps[10 * at : 10 * at + 10], 10 * at))
    assert found(table) == maps
    forms = [layout(path) for path in data_files(table)]
    assert [each and each.columns for each in forms] == [None, 2, 5, 5, None]
    table.refresh().compact(full=True)
    assert found(table) == maps


@pytest.mark.parametrize("file_format", FORMATS)
def test_columns_change(tmp_path: Path, file_format: str) -> None:
    narrow = parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"})
    fields = (FIELDS[0], DataField(1, "m", narrow), FIELDS[2])
    table = create(tmp_path, {**shredded(2), "file.format": file_format}, fields=fields)
    table.write(rows([{"a": 1, "b": 2, "c": 3}]))
    table = change(
        tmp_path,
        UpdateColumnType(("m", "value"), parse_type("BIGINT")),
        RenameColumn(("m",), "n"),
        AddColumn(("m",), parse_type(MAP)),
    )
    assert table.schema.options["fields.n.map.storage-layout"] == "shared-shredding"
    assert "fields.m.map.storage-layout" not in table.schema.options
    new = {"k": 1, "m": [("x", 1)], "n": [("a", 2**40)], "v": None}
    columns = [pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in table.schema.fields]
    table.write(pa.Table.from_pylist([new], pa.schema(columns)))
    assert found(table, "n") == [{"a": 1, "b": 2, "c": 3}, {"a": 2**40}]
    assert found(table, "m") == [None, {"x": 1}]
    table = change(tmp_path, DropColumn(("n",)))
    assert not [key for key in table.schema.options if key.startswith("fields.")]
    assert found(table, "m") == [None, {"x": 1}]


def test_columns_of_their_own_files(tmp_path: Path) -> None:
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "bucket": "-1"}
    table = opened(tmp_path).create_table("d.t", Schema(FIELDS), options={**shredded(), **evolving})
    maps = random_maps(3, 40)
    table.write(rows(maps))
    table.refresh().update({"m": None}, where="k < 5")
    assert found(table) == [None] * 5 + list(maps[5:])
    assert len(data_files(table)) == 2
    assert all(layout(path) is not None for path in data_files(table))


REFUSED: Mapping[str, tuple[Json, Mapping[str, str], str]] = {
    "no map": ("INT", {}, "column 'm' is of type INT, not a MAP"),
    "keys of numbers": (
        {"type": "MAP", "key": "INT NOT NULL", "value": "INT"}, {}, "keys of type STRING NOT NULL",
    ),
    "keys that may be null": (
        {"type": "MAP", "key": "STRING", "value": "INT"}, {}, "keys of type STRING NOT NULL",
    ),
    "blobs": (
        {"type": "MAP", "key": "STRING NOT NULL", "value": "BLOB"}, {}, "have BLOB in them",
    ),
    "multisets": (
        {
            "type": "MAP", "key": "STRING NOT NULL",
            "value": {"type": "MULTISET", "element": "INT"},
        }, {}, "excludes columns such as 'm'",
    ),
    "avro": (MAP, {"file.format": "avro"}, "option 'file.format', not 'avro'"),
    "avro at a level": (
        MAP, {"file.format.per.level": "5:avro"}, "'file.format.per.level.5', not 'avro'",
    ),
    "avro changelogs": (MAP, {"changelog-file.format": "avro"}, "'changelog-file.format'"),
    "snappy": (MAP, {"file.compression": "snappy"}, "allows none, lz4, zstd"),
    "snappy at a level": (MAP, {"file.compression.per.level": "0:snappy"}, "none, lz4, zstd"),
    "gzip changelogs": (MAP, {"changelog-file.compression": "gzip"}, "allows none, lz4, zstd"),
    "no columns": (
        MAP, {"fields.m.map.shared-shredding.max-columns": "0"}, "must be at least 1, not 0",
    ),
    "a policy": (
        MAP, {"fields.m.map.shared-shredding.column-placement-policy": "best"},
        "one of plain, sequential, lru; not 'best'",
    ),
    "a layout": (MAP, {"fields.m.map.storage-layout": "best"}, "not 'best'"),
    "postponed buckets": (MAP, {"bucket": "-2"}, "excludes 'bucket' = '-2'"),
    "an index": (MAP, {"file-index.bloom-filter.columns": "m[a]"}, "which have no index"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    kind, options, message = REFUSED[name]
    fields = (FIELDS[0], DataField(1, "m", parse_type(kind)))
    schema = Schema(fields, primary_keys=("k",), options={**shredded(), **options})
    with pytest.raises(Invalid, match=message):
        new_table_schema(schema, 0)


def rewritten(path: Path, array: pa.Array, metadata: Mapping[bytes, bytes]) -> None:
    """The file with another column ``m``."""
    schema = pq.read_schema(path)
    table = pq.read_table(path)
    field = pa.field("m", array.type, metadata=metadata)
    table = table.set_column(1, field, array)
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        entry = schema_entry(table.schema, {"m": metadata})
        writer.add_key_value_metadata({SCHEMA_KEY: entry})
    assert schema.names == table.column_names


def test_damaged_files_are_found_out(tmp_path: Path) -> None:
    table = create(tmp_path, shredded(2))
    table.write(rows([{"a": 1, "b": 2, "c": 3}, None]))
    (path,) = data_files(table)
    field = pq.read_schema(path).field("m")
    form = layout(path)
    assert form is not None
    good = pq.read_table(path)["m"].combine_chunks()

    def with_mapping(mapping: object) -> pa.Array:
        children = [pa.array([mapping, None], good.type[0].type), *good.flatten()[1:]]
        return pa.StructArray.from_arrays(children, fields=list(good.type), mask=good.is_null())

    for array, metadata, message in (
        (with_mapping([0]), form.metadata("zstd"), "has not 2 elements in each row"),
        (with_mapping([0, None]), form.metadata("zstd"), "has null in it"),
        (with_mapping(None), form.metadata("zstd"), "has not 2 elements in each row"),
        (with_mapping([0, 9]), form.metadata("zstd"), "names key 9"),
        (good, {}, "holds rows instead of maps"),
        (
            good,
            {**form.metadata("zstd"), PREFIX + b"num-columns": b"2000000000"},
            "has not 2000000000 elements in each row",
        ),
        (
            good,
            {**form.metadata("zstd"), PREFIX + b"num-columns": b""},
            "malformed",
        ),
        (good.field("__col_0"), form.metadata("zstd"), "has no field '__field_mapping'"),
    ):
        rewritten(path, array, metadata)
        with pytest.raises(CorruptData, match=f"{path.name}: column 'm'.*{message}"):
            found(table)
    rewritten(path, good, {**form.metadata("zstd"), PREFIX + b"version": b"7"})
    with pytest.raises(Unsupported, match=f"{path.name}: column 'm'.*version 7"):
        found(table)
    rewritten(path, good, field.metadata)
    assert found(table) == [{"a": 1, "b": 2, "c": 3}, None]
