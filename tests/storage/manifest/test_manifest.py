from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.formats.avro_blocks import CODECS
from headwater.storage.manifest.data_file import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from headwater.storage.manifest.entries import Entries, merge_entries
from headwater.storage.manifest.manifest import (
    ManifestFile,
    read_manifest,
    read_manifest_list,
    write_manifest_list,
    write_manifests,
)
from headwater.storage.manifest.statistics import EMPTY_STATS
from headwater.storage.rows.binary_row import EMPTY_ROW, serialize_row
from headwater.storage.runtime import Runtime
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, Json, parse_type

DAY = parse_type("STRING")


def _storage(directory: Path, **options: str) -> TableStorage:
    schema = TableSchema(
        0,
        (DataField(0, "id", parse_type("BIGINT NOT NULL")), DataField(1, "dt", DAY)),
        1,
        ("dt",),
        (),
        {key.replace("_", "."): value for key, value in options.items()},
        None,
        0,
    )
    names = (f"uuid{n}" for n in range(1000))
    runtime = Runtime(lambda: 0, lambda: next(names), lambda seconds: None)
    layout = TableLayout(directory.as_uri())
    return TableStorage("db.t", layout, LocalFileAccess(), schema, runtime)


def _put(storage: TableStorage, name: str, data: bytes) -> None:
    storage.files.write(storage.layout.manifest(name), data)


def _file(name: str = "data-0.parquet") -> DataFile:
    return DataFile(
        file_name=name,
        file_size=10,
        row_count=20,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=19,
        schema_id=0,
        level=0,
        creation_time=1_700_000_000_123,
    )


def _entry(
    kind: FileKind = FileKind.ADD, day: str | None = "a", bucket: int = 0, name: str = "data-0"
) -> ManifestEntry:
    return ManifestEntry(kind, serialize_row([day], [DAY]), bucket, 4, _file(name))


# Reading what others wrote --------------------------------------------------------------------


def test_a_manifest_of_pypaimon_is_read(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    _put(storage, PYPAIMON_LIST_NAME, base64.b64decode(PYPAIMON_LIST))
    _put(storage, PYPAIMON_MANIFEST_NAME, base64.b64decode(PYPAIMON_MANIFEST))
    day = serialize_row(["2024-01-01"], [DAY])
    (line,) = read_manifest_list(storage, PYPAIMON_LIST_NAME, size=1359)
    assert line == ManifestFile(
        file_name=PYPAIMON_MANIFEST_NAME,
        file_size=2420,
        num_added_files=3,
        num_deleted_files=0,
        partition_stats=SimpleStats(day, day, (1,)),
        schema_id=0,
        min_bucket=0,
        max_bucket=1,
        min_level=0,
        max_level=0,
    )
    entries = read_manifest(storage, line.file_name, expected=line)
    assert [(e.kind, e.partition, e.bucket, e.total_buckets) for e in entries] == [
        (FileKind.ADD, day, 0, 2),
        (FileKind.ADD, serialize_row([None], [DAY]), 0, 2),
        (FileKind.ADD, day, 1, 2),
    ]
    assert entries[0].file == DataFile(
        file_name="data-6fac1852-292f-41ed-9435-9a6082a2f029-0.parquet",
        file_size=1122,
        row_count=1,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=1,
        max_sequence_number=1,
        schema_id=0,
        level=0,
        creation_time=1_795_233_157_763,
        delete_row_count=0,
        file_source=FileSource.APPEND,
        value_stats_cols=(),
    )
    # Written again, it says the same of itself.
    (again,) = write_manifests(storage, entries)
    assert replace(again, file_name="", file_size=0) == replace(line, file_name="", file_size=0)


def test_a_manifest_of_an_early_paimon_is_read(tmp_path: Path) -> None:
    # As Paimon Java 0.8 wrote it: every record in a union with null, fewer fields, snappy; and
    # with a field of the future.
    stats: Json = [
        "null",
        {
            "type": "record",
            "name": "org.apache.paimon.avro.generated.record__FILE__STATS",
            "fields": [
                {"name": "_MIN_VALUES", "type": "bytes"},
                {"name": "_MAX_VALUES", "type": "bytes"},
                {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": "long"}]},
            ],
        },
    ]
    plain = {
        "_FILE_NAME": "string",
        **dict.fromkeys(("_FILE_SIZE", "_ROW_COUNT"), "long"),
        **dict.fromkeys(("_MIN_KEY", "_MAX_KEY"), "bytes"),
        **dict.fromkeys(("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID"), "long"),
        "_LEVEL": "int",
    }
    again: Json = ["null", "org.apache.paimon.avro.generated.record__FILE__STATS"]
    file_fields: list[Json] = []
    for name, kind in plain.items():
        file_fields.append({"name": name, "type": kind})
    file_fields += [
        {"name": "_KEY_STATS", "type": stats},
        {"name": "_VALUE_STATS", "type": again},
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
        {"name": "_FROM_THE_FUTURE", "type": {"type": "map", "values": "string"}},
    ]
    file_record: Json = {
        "type": "record",
        "name": "org.apache.paimon.avro.generated.record__FILE",
        "fields": file_fields,
    }
    record: Json = {
        "type": "record",
        "name": "org.apache.paimon.avro.generated.record",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_TOTAL_BUCKETS", "type": "int"},
            {"name": "_FILE", "type": ["null", file_record]},
        ],
    }
    row = serialize_row(["x"], [DAY])
    line = {
        "_VERSION": 2,
        "_KIND": 1,
        "_PARTITION": row,
        "_BUCKET": 3,
        "_TOTAL_BUCKETS": 4,
        "_FILE": {
            "_FILE_NAME": "data-1.orc",
            "_FILE_SIZE": 1,
            "_ROW_COUNT": 2,
            "_MIN_KEY": EMPTY_ROW,
            "_MAX_KEY": EMPTY_ROW,
            "_KEY_STATS": {"_MIN_VALUES": row, "_MAX_VALUES": row, "_NULL_COUNTS": None},
            "_VALUE_STATS": {"_MIN_VALUES": row, "_MAX_VALUES": row, "_NULL_COUNTS": [7]},
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 1,
            "_SCHEMA_ID": 0,
            "_LEVEL": 5,
            "_EXTRA_FILES": ["data-1.index"],
            "_FROM_THE_FUTURE": {"a": "b"},
        },
    }
    buffer = io.BytesIO()
    fastavro.writer(buffer, ["null", record], [line], codec="snappy")
    storage = _storage(tmp_path)
    _put(storage, "manifest-old", buffer.getvalue())
    (entry,) = read_manifest(storage, "manifest-old")
    assert (entry.kind, entry.partition, entry.bucket) == (FileKind.DELETE, row, 3)
    assert entry.file.key_stats == SimpleStats(row, row, (None,))
    assert entry.file.value_stats == SimpleStats(row, row, (7,))
    assert entry.file.extra_files == ("data-1.index",)
    assert (entry.file.level, entry.file.delete_row_count, entry.file.creation_time) == (
        5,
        None,
        None,
    )


def test_the_files_carry_paimon_javas_schema(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    (manifest,) = write_manifests(storage, [_entry()])
    name, _ = write_manifest_list(storage, [manifest])
    names = {}
    for file in (manifest.file_name, name):
        with (tmp_path / "manifest" / file).open("rb") as stream:
            reader = fastavro.reader(stream)
            assert reader.codec == "zstandard"
            schema = reader.writer_schema
            assert isinstance(schema, dict)
            names[file] = _described(schema)
    assert names[manifest.file_name] == MANIFEST_FIELDS
    assert names[name] == LIST_FIELDS


def _described(schema: dict[str, object]) -> list[str]:
    """Field name and type of each field, records by their name."""
    lines: list[str] = []
    fields = schema["fields"]
    assert isinstance(fields, list)
    for field in fields:
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "record":
            lines.append(f"{field['name']} {kind['name']}")
            lines += [f"  {line}" for line in _described(kind)]
        else:
            lines.append(f"{field['name']} {_kind(kind)}")
            if isinstance(kind, list):
                assert field["default"] is None
    return lines


def _kind(kind: object) -> str:
    match kind:
        case ["null", inner]:
            return f"{_kind(inner)}?"
        case {"type": "array", "items": items}:
            return f"[{_kind(items)}]"
        case {"type": str(plain), "logicalType": logical}:
            return f"{plain}/{logical}"
    assert isinstance(kind, str)
    return kind


# Writing and reading --------------------------------------------------------------------------

_ints = st.integers(-(2**63), 2**63 - 1)
_texts = st.text(st.characters(codec="utf-8"), max_size=5)
_stats = st.builds(
    SimpleStats,
    st.just(EMPTY_ROW) | st.binary(min_size=4, max_size=8),
    st.binary(max_size=8),
    st.lists(st.none() | _ints, max_size=3).map(tuple),
)
_files = st.builds(
    DataFile,
    file_name=_texts,
    file_size=_ints,
    row_count=st.integers(0, 2**40),
    min_key=st.binary(max_size=8),
    max_key=st.binary(max_size=8),
    key_stats=_stats,
    value_stats=_stats,
    min_sequence_number=_ints,
    max_sequence_number=_ints,
    schema_id=st.integers(0, 2**40),
    level=st.integers(0, 6),
    extra_files=st.lists(_texts, max_size=2).map(tuple),
    creation_time=st.none() | st.integers(0, 253_402_300_799_999),
    delete_row_count=st.none() | _ints,
    embedded_file_index=st.none() | st.binary(max_size=5),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=st.none() | st.lists(_texts, max_size=2).map(tuple),
    external_path=st.none() | _texts,
    first_row_id=st.none() | st.integers(0, 2**40),
    write_cols=st.none() | st.lists(_texts, max_size=2).map(tuple),
    write_cols_sequences=st.none() | st.lists(_ints, max_size=2).map(tuple),
)
_entries = st.lists(
    st.builds(
        ManifestEntry,
        kind=st.sampled_from(FileKind),
        partition=(st.none() | _texts).map(lambda day: serialize_row([day], [DAY])),
        bucket=st.integers(0, 5),
        total_buckets=st.integers(-2, 6),
        file=_files,
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_entries, st.sampled_from([*sorted(CODECS.keys() - {"zstandard", "null"}), "zstd", "none"]))
def test_entries_are_read_as_they_were_written(
    tmp_path: Path, entries: list[ManifestEntry], codec: str
) -> None:
    storage = _storage(tmp_path, manifest_compression=codec)
    (manifest,) = write_manifests(storage, entries)
    assert read_manifest(storage, manifest.file_name, expected=manifest) == entries
    name, size = write_manifest_list(storage, [manifest, manifest])
    assert read_manifest_list(storage, name, size=size) == [manifest, manifest]


def test_a_manifest_knows_what_its_entries_span(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    entries = [
        _entry(day="b", bucket=2),
        _entry(FileKind.DELETE, day=None, bucket=0),
        _entry(day=None, bucket=1),
        _entry(day="a long day name", bucket=3),
    ]
    entries[1] = replace(entries[1], file=replace(entries[1].file, schema_id=7, level=5))
    (manifest,) = write_manifests(storage, entries)
    assert manifest == ManifestFile(
        file_name="manifest-uuid0-0",
        file_size=(tmp_path / "manifest" / "manifest-uuid0-0").stat().st_size,
        num_added_files=3,
        num_deleted_files=1,
        partition_stats=SimpleStats(
            serialize_row(["a long day name"], [DAY]), serialize_row(["b"], [DAY]), (2,)
        ),
        schema_id=7,
        min_bucket=0,
        max_bucket=3,
        min_level=0,
        max_level=5,
    )


def test_row_ids_are_spanned_when_every_file_has_them(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    first = replace(_entry(), file=replace(_file(), first_row_id=100, row_count=10))
    second = replace(_entry(), file=replace(_file(), first_row_id=50, row_count=5))
    (manifest,) = write_manifests(storage, [first, second])
    assert (manifest.min_row_id, manifest.max_row_id) == (50, 109)
    (manifest,) = write_manifests(storage, [first, _entry()])
    assert (manifest.min_row_id, manifest.max_row_id) == (None, None)


def test_many_entries_roll_to_several_manifests(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    entries = [_entry(bucket=n, name=f"data-{n * 7919}") for n in range(500)]
    whole = write_manifests(storage, entries)
    assert [manifest.file_name for manifest in whole] == ["manifest-uuid0-0"]
    limit = whole[0].file_size // 3
    small = storage.with_schema(
        storage.schema.with_options({"manifest.target-file-size": str(limit)})
    )
    parts = write_manifests(small, entries)
    assert [part.file_name for part in parts] == [f"manifest-uuid1-{n}" for n in range(len(parts))]
    assert len(parts) > 2
    assert [e for part in parts for e in read_manifest(small, part.file_name)] == entries
    single = storage.with_schema(storage.schema.with_options({"manifest.target-file-size": "0 b"}))
    assert len(write_manifests(single, entries[:3])) == 3
    assert write_manifests(small, []) == []


def test_an_empty_manifest_list_is_a_file(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    name, size = write_manifest_list(storage, [])
    assert name == "manifest-list-uuid0-0"
    assert read_manifest_list(storage, name, size=size) == []


def test_what_cannot_be_a_manifest_is_not_written(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    assert write_manifests(storage, []) == []
    with pytest.raises(Invalid, match="partition"):
        write_manifests(storage, [replace(_entry(), partition=EMPTY_ROW)])
    assert not (tmp_path / "manifest").exists()
    with pytest.raises(Unsupported, match="lzo"):
        write_manifests(_storage(tmp_path, manifest_compression="lzo"), [_entry()])


# Damage ---------------------------------------------------------------------------------------


def test_a_missing_manifest_is_corrupt_data(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    with pytest.raises(CorruptData, match="manifest/manifest-x"):
        read_manifest(storage, "manifest-x")
    with pytest.raises(CorruptData, match="manifest/manifest-list-x"):
        read_manifest_list(storage, "manifest-list-x")


@pytest.mark.parametrize("name", ["../../secret", "a/b", ""])
def test_a_manifest_lies_in_the_manifest_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptData, match="not the name"):
        read_manifest(_storage(tmp_path), name)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    storage = _storage(tmp_path, manifest_compression="none")
    # More than one Avro block: a cut between two leaves a valid, shorter file.
    (manifest,) = write_manifests(storage, [_entry(bucket=n) for n in range(200)])
    path = tmp_path / "manifest" / manifest.file_name
    data = path.read_bytes()
    for size in (*range(0, len(data), 97), len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptData, match=manifest.file_name):
            read_manifest(storage, manifest.file_name, expected=manifest)


def test_entries_that_are_missing_are_noticed(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    (manifest,) = write_manifests(storage, [_entry()])
    with pytest.raises(CorruptData, match=f"{manifest.file_name} adds 1"):
        read_manifest(storage, manifest.file_name, expected=replace(manifest, num_added_files=2))


def test_a_list_of_another_size_is_noticed(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    name, size = write_manifest_list(storage, [])
    with pytest.raises(CorruptData, match=f"{name} has {size} bytes where {size + 1}"):
        read_manifest_list(storage, name, size=size + 1)


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy", "deflate", "bzip2", "xz"])
def test_a_damaged_block_names_its_file(tmp_path: Path, codec: str) -> None:
    storage = _storage(tmp_path, manifest_compression=codec)
    (manifest,) = write_manifests(storage, [_entry(bucket=n, name=f"data-{n}") for n in range(3)])
    path = tmp_path / "manifest" / manifest.file_name
    data = path.read_bytes()
    errors = 0
    for at in range(len(data) - 250, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            read_manifest(storage, manifest.file_name)
        except CorruptData:
            errors += 1
    assert errors > 0


@settings(
    deadline=None,
    max_examples=examples(500),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_damage_is_corrupt_data_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(["zstd", "none", "snappy", "deflate"]))
    storage = _storage(tmp_path, manifest_compression=codec)
    (manifest,) = write_manifests(storage, [_entry(bucket=n, name=f"data-{n}") for n in range(3)])
    path = tmp_path / "manifest" / manifest.file_name
    damaged = bytearray(path.read_bytes())
    places = st.integers(0, len(damaged) - 1)
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=4)):
        damaged[at] = value
    path.write_bytes(bytes(damaged[: data.draw(places | st.just(len(damaged)))]))
    message = manifest.file_name
    try:
        read_manifest(storage, manifest.file_name)
    except (CorruptData, Unsupported) as error:
        message = error.message
    assert manifest.file_name in message


def test_another_format_version_is_unsupported(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "_VERSION", "type": "int"}]}
    fastavro.writer(buffer, schema, [{"_VERSION": 3}])
    _put(storage, "manifest-new", buffer.getvalue())
    with pytest.raises(Unsupported, match="manifest-new has format version 3"):
        read_manifest(storage, "manifest-new")


@pytest.mark.parametrize("schema", ["int", {"type": "record", "name": "r", "fields": []}])
def test_another_avro_file_is_refused(tmp_path: Path, schema: str | dict[str, Json]) -> None:
    storage = _storage(tmp_path)
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, [1 if schema == "int" else {}])
    _put(storage, "manifest-other", buffer.getvalue())
    with pytest.raises((CorruptData, Unsupported), match="manifest-other"):
        read_manifest(storage, "manifest-other")


# Merging --------------------------------------------------------------------------------------


def _merged(entries: Sequence[ManifestEntry]) -> list[tuple[FileKind, str]]:
    return [(entry.kind, entry.file.file_name) for entry in merge_entries(Entries(list(entries)))]


def test_a_delete_takes_its_add_away() -> None:
    add, delete = FileKind.ADD, FileKind.DELETE
    assert _merged([_entry(add, name="a"), _entry(add, name="b"), _entry(delete, name="a")]) == [
        (add, "b")
    ]
    # The add may lie in a manifest that was not read: the delete stays.
    assert _merged([_entry(delete, name="a"), _entry(add, name="b")]) == [(delete, "a"), (add, "b")]
    assert _merged([]) == []


def test_a_file_is_the_same_in_its_partition_bucket_and_level_only() -> None:
    upgraded = replace(_entry(), file=_file("data-0").at_level(5))
    entries = [
        _entry(),
        _entry(FileKind.DELETE, day="b"),
        _entry(FileKind.DELETE, bucket=1),
        upgraded,
    ]
    assert list(merge_entries(Entries(entries))) == entries


@pytest.mark.parametrize("kind", FileKind)
def test_a_file_is_not_added_or_deleted_twice(kind: FileKind) -> None:
    with pytest.raises(CorruptData, match="data-0"):
        merge_entries(Entries([_entry(kind), _entry(kind)]))


# Frozen ---------------------------------------------------------------------------------------

_STATS = ["_MIN_VALUES bytes", "_MAX_VALUES bytes", "_NULL_COUNTS [long?]?"]
_RECORD = "org.apache.paimon.avro.generated.record"
MANIFEST_FIELDS = [
    "_VERSION int",
    "_KIND int",
    "_PARTITION bytes",
    "_BUCKET int",
    "_TOTAL_BUCKETS int",
    f"_FILE {_RECORD}__FILE",
    *(
        f"  {line}"
        for line in [
            "_FILE_NAME string",
            "_FILE_SIZE long",
            "_ROW_COUNT long",
            "_MIN_KEY bytes",
            "_MAX_KEY bytes",
            f"_KEY_STATS {_RECORD}__FILE__KEY_STATS",
            *(f"  {line}" for line in _STATS),
            f"_VALUE_STATS {_RECORD}__FILE__VALUE_STATS",
            *(f"  {line}" for line in _STATS),
            "_MIN_SEQUENCE_NUMBER long",
            "_MAX_SEQUENCE_NUMBER long",
            "_SCHEMA_ID long",
            "_LEVEL int",
            "_EXTRA_FILES [string]",
            "_CREATION_TIME long/timestamp-millis?",
            "_DELETE_ROW_COUNT long?",
            "_EMBEDDED_FILE_INDEX bytes?",
            "_FILE_SOURCE int?",
            "_VALUE_STATS_COLS [string]?",
            "_EXTERNAL_PATH string?",
            "_FIRST_ROW_ID long?",
            "_WRITE_COLS [string]?",
            "_WRITE_COLS_SEQUENCES [long]?",
        ]
    ),
]
LIST_FIELDS = [
    "_VERSION int",
    "_FILE_NAME string",
    "_FILE_SIZE long",
    "_NUM_ADDED_FILES long",
    "_NUM_DELETED_FILES long",
    f"_PARTITION_STATS {_RECORD}__PARTITION_STATS",
    *(f"  {line}" for line in _STATS),
    "_SCHEMA_ID long",
    "_MIN_BUCKET int?",
    "_MAX_BUCKET int?",
    "_MIN_LEVEL int?",
    "_MAX_LEVEL int?",
    "_MIN_ROW_ID long?",
    "_MAX_ROW_ID long?",
]

# Written by pypaimon 2.1.0: an append table (id BIGINT NOT NULL, dt STRING, name STRING),
# partitioned by dt, two buckets by id, three rows in three files, one of them with a null dt.
PYPAIMON_LIST_NAME = "manifest-list-1744b1d0-d860-446c-b39d-8457ef750435-1"
PYPAIMON_LIST = """
T2JqAQQUYXZyby5jb2RlYxJ6c3RhbmRhcmQWYXZyby5zY2hlbWGyEnsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6
ICJNYW5pZmVzdEZpbGVNZXRhIiwgImZpZWxkcyI6IFt7Im5hbWUiOiAiX1ZFUlNJT04iLCAidHlwZSI6ICJpbnQi
fSwgeyJuYW1lIjogIl9GSUxFX05BTUUiLCAidHlwZSI6ICJzdHJpbmcifSwgeyJuYW1lIjogIl9GSUxFX1NJWkUi
LCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJfTlVNX0FEREVEX0ZJTEVTIiwgInR5cGUiOiAibG9uZyJ9LCB7
Im5hbWUiOiAiX05VTV9ERUxFVEVEX0ZJTEVTIiwgInR5cGUiOiAibG9uZyJ9LCB7Im5hbWUiOiAiX1BBUlRJVElP
Tl9TVEFUUyIsICJ0eXBlIjogeyJ0eXBlIjogInJlY29yZCIsICJuYW1lIjogInJlY29yZF9QQVJUSVRJT05fU1RB
VFMiLCAiZmllbGRzIjogW3sibmFtZSI6ICJfTUlOX1ZBTFVFUyIsICJ0eXBlIjogImJ5dGVzIn0sIHsibmFtZSI6
ICJfTUFYX1ZBTFVFUyIsICJ0eXBlIjogImJ5dGVzIn0sIHsibmFtZSI6ICJfTlVMTF9DT1VOVFMiLCAidHlwZSI6
IFsibnVsbCIsIHsidHlwZSI6ICJhcnJheSIsICJpdGVtcyI6IFsibnVsbCIsICJsb25nIl19XSwgImRlZmF1bHQi
OiBudWxsfV19fSwgeyJuYW1lIjogIl9TQ0hFTUFfSUQiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJfTUlO
X0JVQ0tFVCIsICJ0eXBlIjogWyJudWxsIiwgImludCJdLCAiZGVmYXVsdCI6IG51bGx9LCB7Im5hbWUiOiAiX01B
WF9CVUNLRVQiLCAidHlwZSI6IFsibnVsbCIsICJpbnQiXSwgImRlZmF1bHQiOiBudWxsfSwgeyJuYW1lIjogIl9N
SU5fTEVWRUwiLCAidHlwZSI6IFsibnVsbCIsICJpbnQiXSwgImRlZmF1bHQiOiBudWxsfSwgeyJuYW1lIjogIl9N
QVhfTEVWRUwiLCAidHlwZSI6IFsibnVsbCIsICJpbnQiXSwgImRlZmF1bHQiOiBudWxsfSwgeyJuYW1lIjogIl9N
SU5fUk9XX0lEIiwgInR5cGUiOiBbIm51bGwiLCAibG9uZyJdLCAiZGVmYXVsdCI6IG51bGx9LCB7Im5hbWUiOiAi
X01BWF9ST1dfSUQiLCAidHlwZSI6IFsibnVsbCIsICJsb25nIl0sICJkZWZhdWx0IjogbnVsbH0sIHsibmFtZSI6
ICJfVE9UQUxfQlVDS0VUUyIsICJ0eXBlIjogWyJudWxsIiwgImludCJdLCAiZGVmYXVsdCI6IG51bGx9LCB7Im5h
bWUiOiAiX0VYVFJBX0ZJTEVTIiwgInR5cGUiOiBbIm51bGwiLCB7InR5cGUiOiAiYXJyYXkiLCAiaXRlbXMiOiAi
c3RyaW5nIn1dLCAiZGVmYXVsdCI6IG51bGx9XX0AUDm4AZGhaDbZBCvR8jovNgLUASi1L/0gkg0DANKFFB6gJ+n/
////f6DYhBeENFH40huyl2RyYVZdPJbE3VIX+217M7PxitdjzvyCP/DxFwYMGtdEaiE0iDCzlwjqqXOaEgSbTCIk
ax3KWKiFUGTCUAIEACuBQepBcMNmYA9QObgBkaFoNtkEK9HyOi82
"""
PYPAIMON_MANIFEST_NAME = "manifest-bffd7c2c-15dc-44e0-95a0-aa191219fe9a-0"
PYPAIMON_MANIFEST = """
T2JqAQQUYXZyby5jb2RlYxJ6c3RhbmRhcmQWYXZyby5zY2hlbWGqIXsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6
ICJNYW5pZmVzdEVudHJ5IiwgImZpZWxkcyI6IFt7Im5hbWUiOiAiX1ZFUlNJT04iLCAidHlwZSI6ICJpbnQifSwg
eyJuYW1lIjogIl9LSU5EIiwgInR5cGUiOiAiaW50In0sIHsibmFtZSI6ICJfUEFSVElUSU9OIiwgInR5cGUiOiAi
Ynl0ZXMifSwgeyJuYW1lIjogIl9CVUNLRVQiLCAidHlwZSI6ICJpbnQifSwgeyJuYW1lIjogIl9UT1RBTF9CVUNL
RVRTIiwgInR5cGUiOiAiaW50In0sIHsibmFtZSI6ICJfRklMRSIsICJ0eXBlIjogeyJ0eXBlIjogInJlY29yZCIs
ICJuYW1lIjogIkRhdGFGaWxlTWV0YSIsICJmaWVsZHMiOiBbeyJuYW1lIjogIl9GSUxFX05BTUUiLCAidHlwZSI6
ICJzdHJpbmcifSwgeyJuYW1lIjogIl9GSUxFX1NJWkUiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJfUk9X
X0NPVU5UIiwgInR5cGUiOiAibG9uZyJ9LCB7Im5hbWUiOiAiX01JTl9LRVkiLCAidHlwZSI6ICJieXRlcyJ9LCB7
Im5hbWUiOiAiX01BWF9LRVkiLCAidHlwZSI6ICJieXRlcyJ9LCB7Im5hbWUiOiAiX0tFWV9TVEFUUyIsICJ0eXBl
IjogeyJ0eXBlIjogInJlY29yZCIsICJuYW1lIjogInJlY29yZF9LRVlfU1RBVFMiLCAiZmllbGRzIjogW3sibmFt
ZSI6ICJfTUlOX1ZBTFVFUyIsICJ0eXBlIjogImJ5dGVzIn0sIHsibmFtZSI6ICJfTUFYX1ZBTFVFUyIsICJ0eXBl
IjogImJ5dGVzIn0sIHsibmFtZSI6ICJfTlVMTF9DT1VOVFMiLCAidHlwZSI6IFsibnVsbCIsIHsidHlwZSI6ICJh
cnJheSIsICJpdGVtcyI6IFsibnVsbCIsICJsb25nIl19XSwgImRlZmF1bHQiOiBudWxsfV19fSwgeyJuYW1lIjog
Il9WQUxVRV9TVEFUUyIsICJ0eXBlIjogeyJ0eXBlIjogInJlY29yZCIsICJuYW1lIjogInJlY29yZF9WQUxVRV9T
VEFUUyIsICJmaWVsZHMiOiBbeyJuYW1lIjogIl9NSU5fVkFMVUVTIiwgInR5cGUiOiAiYnl0ZXMifSwgeyJuYW1l
IjogIl9NQVhfVkFMVUVTIiwgInR5cGUiOiAiYnl0ZXMifSwgeyJuYW1lIjogIl9OVUxMX0NPVU5UUyIsICJ0eXBl
IjogWyJudWxsIiwgeyJ0eXBlIjogImFycmF5IiwgIml0ZW1zIjogWyJudWxsIiwgImxvbmciXX1dLCAiZGVmYXVs
dCI6IG51bGx9XX19LCB7Im5hbWUiOiAiX01JTl9TRVFVRU5DRV9OVU1CRVIiLCAidHlwZSI6ICJsb25nIn0sIHsi
bmFtZSI6ICJfTUFYX1NFUVVFTkNFX05VTUJFUiIsICJ0eXBlIjogImxvbmcifSwgeyJuYW1lIjogIl9TQ0hFTUFf
SUQiLCAidHlwZSI6ICJsb25nIn0sIHsibmFtZSI6ICJfTEVWRUwiLCAidHlwZSI6ICJpbnQifSwgeyJuYW1lIjog
Il9FWFRSQV9GSUxFUyIsICJ0eXBlIjogeyJ0eXBlIjogImFycmF5IiwgIml0ZW1zIjogInN0cmluZyJ9fSwgeyJu
YW1lIjogIl9DUkVBVElPTl9USU1FIiwgInR5cGUiOiBbIm51bGwiLCB7InR5cGUiOiAibG9uZyIsICJsb2dpY2Fs
VHlwZSI6ICJ0aW1lc3RhbXAtbWlsbGlzIn1dLCAiZGVmYXVsdCI6IG51bGx9LCB7Im5hbWUiOiAiX0RFTEVURV9S
T1dfQ09VTlQiLCAidHlwZSI6IFsibnVsbCIsICJsb25nIl0sICJkZWZhdWx0IjogbnVsbH0sIHsibmFtZSI6ICJf
RU1CRURERURfRklMRV9JTkRFWCIsICJ0eXBlIjogWyJudWxsIiwgImJ5dGVzIl0sICJkZWZhdWx0IjogbnVsbH0s
IHsibmFtZSI6ICJfRklMRV9TT1VSQ0UiLCAidHlwZSI6IFsibnVsbCIsICJpbnQiXSwgImRlZmF1bHQiOiBudWxs
fSwgeyJuYW1lIjogIl9WQUxVRV9TVEFUU19DT0xTIiwgInR5cGUiOiBbIm51bGwiLCB7InR5cGUiOiAiYXJyYXki
LCAiaXRlbXMiOiAic3RyaW5nIn1dLCAiZGVmYXVsdCI6IG51bGx9LCB7Im5hbWUiOiAiX0VYVEVSTkFMX1BBVEgi
LCAidHlwZSI6IFsibnVsbCIsICJzdHJpbmciXSwgImRlZmF1bHQiOiBudWxsfSwgeyJuYW1lIjogIl9GSVJTVF9S
T1dfSUQiLCAidHlwZSI6IFsibnVsbCIsICJsb25nIl0sICJkZWZhdWx0IjogbnVsbH0sIHsibmFtZSI6ICJfV1JJ
VEVfQ09MUyIsICJ0eXBlIjogWyJudWxsIiwgeyJ0eXBlIjogImFycmF5IiwgIml0ZW1zIjogInN0cmluZyJ9XSwg
ImRlZmF1bHQiOiBudWxsfSwgeyJuYW1lIjogIl9XUklURV9DT0xTX1NFUVVFTkNFUyIsICJ0eXBlIjogWyJudWxs
IiwgeyJ0eXBlIjogImFycmF5IiwgIml0ZW1zIjogImxvbmcifV0sICJkZWZhdWx0IjogbnVsbH1dfX1dfQCqcAhT
fWXze4pPY9Lqv8LnBqYDKLUv/WBLAU0GAIILJiegJ+k/+IsLiP//tm1d3Gf2v6SUbb5fgzfZm2wiSynWVXcTFnI2
SQEMigbVkp2kLDU55q6rtui6u1wdpbqNYbwImMhsqPJOWZI7Um1HS9FvpXRtmEpK6yAwYgwcHiQiFoxtY2yMB4wA
REMVEBLYQcF94S0yXC6xdSVB66kHfXHhUVkOg206a7BcxOd+7ggPbStsA/iwvTASFAAAEQYmHjAP2RUuEAAPtCyB
1AiQeMZZTgfMZZob0ACaQmUqFDALUBBhgEMG4qpwCFN9ZfN7ik9j0uq/wuc=
"""
