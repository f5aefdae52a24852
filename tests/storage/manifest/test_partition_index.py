"""Manifests of many blocks say in their headers which partitions each of them holds."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import fastavro
import pytest
from tests.storage.manifest.test_manifest import _entry, _storage

from headwater.storage.errors import CorruptData
from headwater.storage.formats.avro_blocks import BlockReader, with_metadata
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.manifest import (
    EntryFilter,
    ManifestFile,
    read_entries,
    read_manifest,
    write_manifests,
)
from headwater.storage.manifest.records import read_entry
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.rows.binary_row import serialize_row
from headwater.storage.scan.pruning import Pruner
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json, parse_type

DAYS = [f"2024-{month:02}-{day:02}" for month in range(1, 4) for day in range(1, 29)]
KEY = b"headwater.partitions"


@pytest.fixture
def storage(tmp_path: Path) -> TableStorage:
    return _storage(tmp_path)


@pytest.fixture
def manifest(storage: TableStorage) -> ManifestFile:
    """Some entries of each day, those of one day far from each other."""
    entries = [
        _entry(day=day, name=f"data-{turn}-{day}.parquet") for turn in range(20) for day in DAYS
    ]
    (manifest,) = write_manifests(storage, entries)
    return manifest


def _of(day: str, storage: TableStorage, where: str = "dt = '{}'") -> EntryFilter:
    column = storage.schema.partition_keys[0]
    text = where.format(day).replace("dt", column)
    only = Pruner(storage, parse_predicate(text, storage.schema)).entry_filter
    assert only is not None
    return only


def _rewrite(storage: TableStorage, manifest: ManifestFile, data: bytes) -> ManifestFile:
    name = f"manifest-{storage.runtime.new_uuid()}-0"
    storage.files.write(storage.layout.manifest(name), data)
    return ManifestFile(
        name, len(data), manifest.num_added_files, 0, manifest.partition_stats, schema_id=0
    )


def _content(storage: TableStorage, manifest: ManifestFile) -> bytes:
    return storage.files.read(storage.layout.manifest(manifest.file_name))


def test_entries_are_written_partition_by_partition(
    storage: TableStorage, manifest: ManifestFile
) -> None:
    entries = read_manifest(storage, manifest.file_name, expected=manifest)
    days = [serialize_row([day], [parse_type("STRING")]) for day in DAYS]
    assert [entry.partition for entry in entries] == [day for day in days for _ in range(20)]
    names = [entry.file.file_name for entry in entries if entry.partition == days[7]]
    assert names == [f"data-{turn}-{DAYS[7]}.parquet" for turn in range(20)]


def test_other_readers_pass_over_the_index(storage: TableStorage, manifest: ManifestFile) -> None:
    data = _content(storage, manifest)
    assert KEY in BlockReader(data, "x").metadata
    found: list[ManifestEntry] = []
    for record in fastavro.reader(io.BytesIO(data)):
        assert isinstance(record, Mapping)
        found.append(read_entry(record))
    assert found == read_manifest(storage, manifest.file_name, expected=manifest)


@pytest.mark.parametrize("where", ["dt = '{}'", "dt >= '{0}' AND dt <= '{0}'"])
def test_blocks_of_other_partitions_are_not_read(
    storage: TableStorage, manifest: ManifestFile, where: str
) -> None:
    data = _content(storage, manifest)
    middle = DAYS[len(DAYS) // 2]
    # The first blocks and the last ones are damaged.
    size = len(data) // 8
    start = BlockReader(data, "x").start
    damaged = data[:start] + bytes(size) + data[start + size : -size] + bytes(size)
    hurt = _rewrite(storage, manifest, damaged)
    with pytest.raises(CorruptData, match=hurt.file_name):
        read_entries(storage, [hurt])
    with pytest.raises(CorruptData, match=hurt.file_name):
        read_entries(storage, [hurt], _of(DAYS[0], storage, where))
    found = list(read_entries(storage, [hurt], _of(middle, storage, where)))
    whole = read_manifest(storage, manifest.file_name)
    day = serialize_row([middle], [parse_type("STRING")])
    assert found == [entry for entry in whole if entry.partition == day]


def test_each_partition_is_found(storage: TableStorage, manifest: ManifestFile) -> None:
    for day in DAYS:
        found = read_entries(storage, [manifest, manifest], _of(day, storage))
        names = [f"data-{turn}-{day}.parquet" for turn in range(20)]
        assert [entry.file.file_name for entry in found] == names * 2
    assert not list(read_entries(storage, [manifest], _of("2025-01-01", storage)))


def test_a_manifest_of_another_number_of_entries_is_noticed(
    storage: TableStorage, manifest: ManifestFile
) -> None:
    longer = ManifestFile(
        manifest.file_name,
        manifest.file_size,
        manifest.num_added_files + 1,
        0,
        manifest.partition_stats,
        0,
    )
    with pytest.raises(CorruptData, match="1680 entries"):
        read_entries(storage, [longer], _of(DAYS[3], storage))


@pytest.mark.parametrize("name", ["sizes", "counts", "first", "last", "partitions", "bytes"])
def test_an_index_that_is_not_right_is_noticed(
    storage: TableStorage, manifest: ManifestFile, name: str
) -> None:
    data = _content(storage, manifest)
    packed = base64.b64decode(BlockReader(data, "x").metadata[KEY])
    document: dict[str, list[Json]] = json.loads(zlib.decompress(packed))
    if name == "bytes":
        wrong = bytes([*packed[:-1], packed[-1] ^ 1])
    else:
        values = document[name]
        if name == "partitions":
            values.pop()
        else:
            values[0] = 10_000
        wrong = zlib.compress(json.dumps(document).encode())
    hurt = _rewrite(storage, manifest, with_metadata(data, KEY, base64.b64encode(wrong)))
    with pytest.raises(CorruptData, match=hurt.file_name):
        read_entries(storage, [hurt], _of(DAYS[0], storage))
