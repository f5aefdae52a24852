"""Entries of manifests as columns: the same as record by record."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.storage.manifest.test_manifest import _storage

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_blocks import BlockReader, block, header
from headwater.storage.formats.avro_container import read_blocks, write_avro
from headwater.storage.manifest.data_file import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from headwater.storage.manifest.entries import DataFiles, Entries, merge_entries
from headwater.storage.manifest.manifest import (
    ManifestFile,
    read_entries,
    read_manifest,
    write_manifests,
)
from headwater.storage.manifest.records import (
    MANIFEST_SCHEMA,
    converted,
    entry_record,
    read_entry,
)
from headwater.storage.rows.binary_row import EMPTY_ROW, serialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json, parse_type

ADD, DELETE = FileKind.ADD, FileKind.DELETE
MANY = 150
"""More entries than are decoded record by record."""


def _entry(number: int, kind: FileKind = ADD, **changed: object) -> ManifestEntry:
    """An entry that has each optional value, or has none of them."""
    row = serialize_row([f"2024-01-{number % 28 + 1:02}"], [parse_type("STRING")])
    file = DataFile(
        file_name=f"data-{number}.parquet",
        file_size=1000 + number,
        row_count=number,
        min_key=EMPTY_ROW,
        max_key=row,
        key_stats=SimpleStats(EMPTY_ROW, EMPTY_ROW, ()),
        value_stats=SimpleStats(row, row, (None if number % 3 else number,)),
        min_sequence_number=number,
        max_sequence_number=2**62 + number,
        schema_id=number % 2,
        level=number % 6,
    )
    if number % 2:
        file = replace(
            file,
            extra_files=(f"data-{number}.index", "ü.blob"),
            creation_time=1_700_000_000_123 + number,
            delete_row_count=number // 2,
            embedded_file_index=bytes([number % 256, 0, 255]),
            file_source=FileSource(number // 2 % 2),
            value_stats_cols=("a", "b") if number % 3 else (),
            external_path=f"s3://elsewhere/data-{number}.parquet",
            first_row_id=number * 1000,
            write_cols=("a",),
            write_cols_sequences=(number,),
        )
    return ManifestEntry(kind, row, number % 5, 5, replace(file, **changed))  # type: ignore[arg-type]


def _written(storage: TableStorage, entries: list[ManifestEntry]) -> ManifestFile:
    (manifest,) = write_manifests(storage, entries)
    return manifest


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy"])
def test_many_entries_are_read_as_they_were_written(tmp_path: Path, codec: str) -> None:
    storage = _storage(tmp_path, manifest_compression=codec)
    entries = [_entry(number) for number in range(MANY)]
    manifest = _written(storage, entries)
    assert read_manifest(storage, manifest.file_name, expected=manifest) == entries
    # Also those of several manifests, some of them small.
    others = [_entry(MANY + number) for number in range(3)]
    small = _written(storage, others)
    found = read_entries(storage, [manifest, small, manifest])
    assert list(found) == [*entries, *others, *entries]
    assert found.take(np.array([0, MANY])) == [entries[0], others[0]]


def test_many_entries_of_an_old_writer_are_read(tmp_path: Path) -> None:
    """Without fields that came later, and with fields of the future."""
    fields = [dict(item) for item in MANIFEST_SCHEMA["fields"]]  # type: ignore[union-attr, arg-type]
    file = next(item for item in fields if item["name"] == "_FILE")
    kept = [
        item
        for item in file["type"]["fields"]
        if item["name"] not in ("_FIRST_ROW_ID", "_WRITE_COLS", "_WRITE_COLS_SEQUENCES")
    ]
    future: dict[str, Json] = {
        "type": "record",
        "name": "future",
        "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": ["null", "long"]}],
    }
    kept.insert(3, {"name": "_FROM_THE_FUTURE", "type": ["null", future]})
    file["type"] = {**file["type"], "fields": kept}
    schema: dict[str, Json] = {**MANIFEST_SCHEMA, "fields": list[Json](fields)}
    entries = [
        _entry(number, first_row_id=None, write_cols=None, write_cols_sequences=None)
        for number in range(MANY)
    ]
    records = []
    for number, entry in enumerate(entries):
        record = dict(entry_record(entry))
        inner = {"x": f"text {number}", "y": number} if number % 2 else None
        record["_FILE"] = {**record["_FILE"], "_FROM_THE_FUTURE": inner}  # type: ignore[dict-item]
        records.append(record)
    storage = _storage(tmp_path)
    path = storage.layout.manifest("manifest-old")
    storage.files.write(path, write_avro(schema, records, "snappy"))
    assert read_manifest(storage, "manifest-old") == entries


def test_damage_is_noticed_as_it_is_record_by_record(tmp_path: Path) -> None:
    storage = _storage(tmp_path, manifest_compression="none")
    manifest = _written(storage, [_entry(number) for number in range(MANY)])
    path = tmp_path / "manifest" / manifest.file_name
    whole = path.read_bytes()
    entries = read_manifest(storage, manifest.file_name)
    chosen = random.Random(1)
    outcomes = set()
    for _ in range(25):
        at = chosen.randrange(1500, len(whole))
        damaged = whole[:at] + bytes([chosen.randrange(256)]) + whole[at + 1 :]
        path.write_bytes(damaged)
        try:
            expected: list[ManifestEntry] | None = [
                entry
                for block in read_blocks(damaged, "x")
                for entry in converted(block.records(), read_entry, "x")
            ]
        except CorruptData:
            expected = None
        message = manifest.file_name
        found = expected
        try:
            found = read_manifest(storage, manifest.file_name)
        except Unsupported as error:
            # A version is not part of an entry.
            message = error.message
        except CorruptData as error:
            message = error.message
            found = None
        assert manifest.file_name in message
        # In place of the number that says that a value is there, any other but 0 says so, too.
        assert found == expected or (expected is None and found == entries)
        outcomes.add(expected is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("_KIND", 2, CorruptData),
        ("_VERSION", 3, Unsupported),
        ("_FILE_SOURCE", 2, CorruptData),
        ("_NULL_COUNTS", None, CorruptData),
    ],
)
def test_an_odd_value_among_many_is_noticed(
    tmp_path: Path, field: str, value: object, error: type[Exception]
) -> None:
    storage = _storage(tmp_path)
    records = [dict(entry_record(_entry(number))) for number in range(MANY)]
    odd = dict(records[MANY // 2]["_FILE"])  # type: ignore[call-overload]
    if field in odd:
        odd[field] = value
    elif field == "_NULL_COUNTS":
        # As many as the row has fields, which is no row.
        odd["_VALUE_STATS"] = {**odd["_VALUE_STATS"], field: value, "_MIN_VALUES": b"abc"}
    else:
        records[MANY // 2][field] = value
    records[MANY // 2]["_FILE"] = odd
    data = write_avro(MANIFEST_SCHEMA, records, "zstandard")
    storage.files.write(storage.layout.manifest("manifest-odd"), data)
    with pytest.raises(error, match="manifest-odd"):
        read_manifest(storage, "manifest-odd")


@pytest.mark.parametrize("more", [-1, 1, 1 << 40])
def test_a_block_of_another_number_of_entries_is_noticed(tmp_path: Path, more: int) -> None:
    storage = _storage(tmp_path)
    manifest = _written(storage, [_entry(number) for number in range(MANY)])
    path = storage.layout.manifest(manifest.file_name)
    reader = BlockReader(storage.files.read(path), path)
    rows = [(found.row_count, reader.rows_of(found)) for found in reader.blocks()]
    head = header(MANIFEST_SCHEMA, "null", bytes(16))
    blocks = [block(count, data, bytes(16)) for count, data in rows]
    storage.files.write(storage.layout.manifest("manifest-right"), b"".join([head, *blocks]))
    assert len(read_manifest(storage, "manifest-right")) == MANY
    count, data = rows[-1]
    blocks[-1] = block(count + more, data, bytes(16))
    storage.files.write(storage.layout.manifest("manifest-wrong"), b"".join([head, *blocks]))
    # Memory is not taken for entries that are not there.
    with pytest.raises(CorruptData, match="manifest-wrong"):
        read_manifest(storage, "manifest-wrong")


# Merging --------------------------------------------------------------------------------------


def _by_hand(entries: list[ManifestEntry]) -> list[ManifestEntry] | None:
    left: dict[object, ManifestEntry] = {}
    for entry in entries:
        before = left.get(entry.identity)
        if before is None:
            left[entry.identity] = entry
        elif before.kind is ADD and entry.kind is DELETE:
            del left[entry.identity]
        else:
            return None
    return list(left.values())


@pytest.mark.parametrize("as_columns", [True, False])
def test_deletes_take_adds_away(tmp_path: Path, *, as_columns: bool) -> None:
    storage = _storage(tmp_path)
    chosen = random.Random(7)
    results = []
    for turn in range(6):
        entries = [_entry(number) for number in range(MANY)]
        gone = chosen.sample(entries, 60)
        entries += [replace(entry, kind=DELETE) for entry in gone]
        # Some come back, some are of another bucket, level, path, index or have other extra files.
        entries += chosen.sample(gone, 20)
        for entry in chosen.sample(entries[:MANY], 10):
            file = entry.file
            entries += [
                replace(entry, bucket=entry.bucket + 5, kind=DELETE),
                replace(entry, file=file.at_level(file.level + 6)),
                replace(entry, file=replace(file, external_path="s3://other")),
                replace(entry, file=replace(file, extra_files=("other",))),
                replace(entry, file=replace(file, embedded_file_index=b"other")),
                replace(entry, partition=EMPTY_ROW),
            ]
        if turn % 3 == 0:
            entries.append(replace(entries[0], kind=chosen.choice([ADD, DELETE])))
        expected = _by_hand(entries)
        results.append(expected is None)
        given = Entries(entries)
        if as_columns:
            # Any partition will do.
            manifest = _manifest_of(storage, entries)
            given = read_entries(storage, [manifest])
        if expected is None:
            with pytest.raises(CorruptData, match="and then"):
                merge_entries(given)
        else:
            assert list(merge_entries(given)) == expected
    assert set(results) == {True, False}


def _manifest_of(storage: TableStorage, entries: list[ManifestEntry]) -> ManifestFile:
    name = f"manifest-{storage.runtime.new_uuid()}-0"
    data = write_avro(MANIFEST_SCHEMA, [entry_record(entry) for entry in entries], "zstandard")
    storage.files.write(storage.layout.manifest(name), data)
    added = sum(entry.kind is ADD for entry in entries)
    return ManifestFile(
        name, len(data), added, len(entries) - added, SimpleStats(b"", b"", ()), schema_id=0
    )


# Files ----------------------------------------------------------------------------------------


def test_files_are_a_tuple_of_them(tmp_path: Path) -> None:
    storage = _storage(tmp_path)
    entries = [_entry(number) for number in range(MANY)]
    manifest = _written(storage, entries)
    found = read_entries(storage, [manifest])
    files = DataFiles(found, np.array([7, 3, 5]))
    expected = tuple(entries[number].file for number in (7, 3, 5))
    assert len(files) == 3
    assert files == expected
    assert expected == files
    assert files != expected[:2]
    assert files != list(expected)
    assert hash(files) == hash(expected)
    assert repr(files) == repr(expected)
    assert (files[0], files[-1], files[1:]) == (expected[0], expected[-1], expected[1:])
    assert (*files, *expected) == expected * 2
    assert pickle.loads(pickle.dumps(DataFiles(found, np.array([7, 3, 5])))) == expected
