"""Index manifests: the forms of all releases are read, what is damaged is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_container import read_avro, read_blocks, write_avro
from headwater.storage.index.index_file import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    GlobalIndex,
    IndexFileMeta,
    IndexManifestEntry,
)
from headwater.storage.index.manifest import (
    INDEX_MANIFEST_SCHEMA,
    combined,
    read_index_manifest,
    write_index_manifest,
)
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.rows.binary_row import EMPTY_ROW

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "INT")]
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
VECTORS = st.lists(
    st.builds(DeletionVectorRange, st.text(), INTS, INTS, st.none() | LONGS),
    unique_by=lambda each: each.data_file,
)
GLOBAL = st.builds(
    GlobalIndex,
    LONGS,
    LONGS,
    INTS,
    st.none() | st.lists(INTS).map(tuple),
    st.none() | st.binary(),
    st.none() | st.binary(),
)
FILES = st.builds(
    IndexFileMeta,
    st.sampled_from([DELETION_VECTORS, HASH, "btree"]),
    st.text(),
    LONGS,
    LONGS,
    st.none() | VECTORS.map(tuple),
    st.none() | st.text(),
    st.none() | GLOBAL,
)


def file(name: str, index_type: str = HASH, *vectors: DeletionVectorRange) -> IndexFileMeta:
    return IndexFileMeta(index_type, name, 8, 2, vectors or None)


def added(file: IndexFileMeta, bucket: int = 0, partition: bytes = EMPTY_ROW) -> IndexManifestEntry:
    return IndexManifestEntry(FileKind.ADD, partition, bucket, file)


@pytest.fixture
def table(new_table: NewTable) -> StoredTable:
    return new_table(COLUMNS, options={"manifest.compression": "null"})


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.builds(IndexManifestEntry, st.just(FileKind.ADD), st.binary(), INTS, FILES)))
def test_what_is_written_is_read(table: StoredTable, entries: list[IndexManifestEntry]) -> None:
    assert read_index_manifest(table.storage, write_index_manifest(table.storage, entries)) == (
        entries
    )


@pytest.mark.parametrize(
    "missing", [{"_GLOBAL_INDEX"}, {"_GLOBAL_INDEX", "_EXTERNAL_PATH", "_CARDINALITY"}]
)
def test_lists_of_older_releases_are_read(table: StoredTable, missing: set[str]) -> None:
    """1.3.1 knew no global indexes; 0.9 neither external paths nor cardinalities."""
    vectors = (DeletionVectorRange("data-1", 1, 22, 3),)
    name = write_index_manifest(table.storage, [added(file("i", DELETION_VECTORS, *vectors))])
    path = table.storage.layout.manifest(name)

    def without(schema: object) -> object:
        if isinstance(schema, list):
            return [without(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        inner = {key: without(value) for key, value in schema.items() if key != "fields"}
        kept = [each for each in schema.get("fields", []) if each["name"] not in missing]
        return (
            {**inner, "fields": [without(each) for each in kept]} if "fields" in schema else inner
        )

    schema = without(INDEX_MANIFEST_SCHEMA)
    assert isinstance(schema, dict)
    records = read_avro(table.storage.files.read(path), path)
    table.storage.files.write(path, write_avro(schema, records, "null"))
    (entry,) = read_index_manifest(table.storage, name)
    counted = 3 if "_CARDINALITY" not in missing else None
    assert entry.index_file.vectors == (replace(vectors[0], cardinality=counted),)
    assert entry.index_file.external_path is None
    assert entry.index_file.global_index is None


def test_a_damaged_index_manifest_is_named(table: StoredTable) -> None:
    files, layout = table.storage.files, table.storage.layout
    name = write_index_manifest(table.storage, [added(file("i"))])
    path = layout.manifest(name)
    whole = files.read(path)
    for size in range(len(whole)):
        files.write(path, whole[:size])
        with pytest.raises(CorruptData, match=name):
            read_index_manifest(table.storage, name)
    files.delete(path)
    with pytest.raises(CorruptData, match=name):
        read_index_manifest(table.storage, name)
    (record,) = read_avro(whole, path)
    for field, value, error in (
        ("_VERSION", 2, Unsupported),
        ("_KIND", 1, CorruptData),
        ("_KIND", 7, CorruptData),
    ):
        files.write(path, write_avro(INDEX_MANIFEST_SCHEMA, [{**record, field: value}], "null"))
        with pytest.raises(error, match=name):
            read_index_manifest(table.storage, name)


def test_an_index_manifest_that_ends_between_two_blocks_is_damaged(table: StoredTable) -> None:
    """Avro tells of no such cut."""
    files, layout = table.storage.files, table.storage.layout
    name = write_index_manifest(table.storage, [added(file(f"i{n}"), n) for n in range(2_000)])
    path = layout.manifest(name)
    whole = files.read(path)
    blocks = [block.block for block in read_blocks(whole, path)]
    assert len(blocks) > 1
    files.write(path, whole[: whole.index(blocks[-2].data) + len(blocks[-2].data) + 16])
    rows = 2_000 - blocks[-1].row_count
    with pytest.raises(CorruptData, match=rf"{name} cannot be read: it has {rows} of 2000 rows"):
        read_index_manifest(table.storage, name)


def test_a_bucket_has_one_file_of_a_type(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    one, two, other = added(file("a")), added(file("b")), added(file("c"), 1)
    vector = added(file("v", DELETION_VECTORS))
    foreign = [added(file("x", "btree")), added(file("y", "btree"))]
    result = combined(table.storage, [one, vector, *foreign], [two, other, foreign[0].deleted()])
    assert sorted(entry.index_file.file_name for entry in result) == ["b", "c", "v", "y"]


def test_without_buckets_deletion_vectors_lie_in_many_files(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    one, two, three = (added(file(name, DELETION_VECTORS)) for name in "abc")
    assert combined(table.storage, [one, two], [two.deleted(), three]) == [one, three]
