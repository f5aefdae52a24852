"""Index manifests: the index files of a snapshot, in one Avro file.

A commit that changes indexes writes the whole list anew. Fields are taken by name, so that the
lists of older releases, without cardinalities or global indexes, read as those of today.

Source: ``IndexManifestEntry.java``, ``IndexManifestEntrySerializer.java``,
``IndexManifestFileHandler.java``, ``spec/manifest.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_container import Record, read_avro, write_avro
from headwater.storage.index.index_file import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    GlobalIndex,
    IndexFileMeta,
    IndexManifestEntry,
)
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.manifest.manifest import manifest_content
from headwater.storage.manifest.record_fields import (
    RECORD_NAME,
    array_schema,
    maybe,
    maybe_list,
    nullable_schema,
    record_schema,
    take,
)
from headwater.storage.manifest.records import converted
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "INDEX_MANIFEST_SCHEMA",
    "combined",
    "has_one_file_a_bucket",
    "index_entries",
    "read_index_manifest",
    "write_index_manifest",
]

_VERSION = 1
_VECTOR_SCHEMA = record_schema(
    f"{RECORD_NAME}__DELETIONS_VECTORS_RANGES",
    [("f0", "string"), ("f1", "int"), ("f2", "int"), ("_CARDINALITY", nullable_schema("long"))],
)
_GLOBAL_INDEX_SCHEMA = record_schema(
    f"{RECORD_NAME}__GLOBAL_INDEX",
    [
        ("_ROW_RANGE_START", "long"),
        ("_ROW_RANGE_END", "long"),
        ("_INDEX_FIELD_ID", "int"),
        ("_EXTRA_FIELD_IDS", nullable_schema(array_schema("int"))),
        ("_INDEX_META", nullable_schema("bytes")),
        ("_SOURCE_META", nullable_schema("bytes")),
    ],
)
INDEX_MANIFEST_SCHEMA = record_schema(
    RECORD_NAME,
    [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_INDEX_TYPE", "string"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        (
            "_DELETIONS_VECTORS_RANGES",
            nullable_schema(array_schema(nullable_schema(_VECTOR_SCHEMA))),
        ),
        ("_EXTERNAL_PATH", nullable_schema("string")),
        ("_GLOBAL_INDEX", nullable_schema(_GLOBAL_INDEX_SCHEMA)),
    ],
)


# Reading --------------------------------------------------------------------------------------


def index_entries(storage: TableStorage, snapshot: Snapshot | None) -> list[IndexManifestEntry]:
    """The index files of a snapshot; none without a snapshot, or when it has no indexes.

    Raises:
        CorruptData, Unsupported: As `read_index_manifest`.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return []
    return read_index_manifest(storage, snapshot.index_manifest)


def read_index_manifest(storage: TableStorage, name: str) -> list[IndexManifestEntry]:
    """The entries of an index manifest.

    Args:
        storage: The table.
        name: The index manifest's name in the manifest directory.

    Raises:
        CorruptData: It is missing, truncated or malformed; the message names its path.
        Unsupported: It has a format version of the future.
    """
    path = storage.layout.manifest(name)
    records = read_avro(manifest_content(storage, name, None), path, "_INDEX_TYPE")
    for record in records:
        if record.get("_VERSION") != _VERSION:
            raise Unsupported(
                f"{path} has format version {record.get('_VERSION')}; this Headwater reads version "
                f"{_VERSION} of index manifests"
            )
    entries = converted(records, _entry, path)
    for entry in entries:
        if entry.kind is not FileKind.ADD:
            raise CorruptData(
                f"{path} deletes index file {entry.index_file.file_name}, but an index manifest "
                "lists what there is"
            )
    return entries


def _entry(record: Record) -> IndexManifestEntry:
    return IndexManifestEntry(
        kind=FileKind(take(record, "_KIND", int)),
        partition=take(record, "_PARTITION", bytes),
        bucket=take(record, "_BUCKET", int),
        index_file=IndexFileMeta(
            index_type=take(record, "_INDEX_TYPE", str),
            file_name=take(record, "_FILE_NAME", str),
            file_size=take(record, "_FILE_SIZE", int),
            row_count=take(record, "_ROW_COUNT", int),
            vectors=_vectors(record),
            external_path=maybe(record, "_EXTERNAL_PATH", str),
            global_index=_global_index(maybe(record, "_GLOBAL_INDEX", dict)),
        ),
    )


def _vectors(record: Record) -> tuple[DeletionVectorRange, ...] | None:
    ranges = maybe_list(record, "_DELETIONS_VECTORS_RANGES", dict)
    if ranges is None:
        return None
    # One range for each data file, as Paimon reads them into a map: the last counts.
    found = {
        take(each, "f0", str): DeletionVectorRange(
            take(each, "f0", str),
            take(each, "f1", int),
            take(each, "f2", int),
            maybe(each, "_CARDINALITY", int),
        )
        for each in ranges
    }
    return tuple(found.values())


def _global_index(record: Record | None) -> GlobalIndex | None:
    if record is None:
        return None
    return GlobalIndex(
        take(record, "_ROW_RANGE_START", int),
        take(record, "_ROW_RANGE_END", int),
        take(record, "_INDEX_FIELD_ID", int),
        maybe_list(record, "_EXTRA_FIELD_IDS", int),
        maybe(record, "_INDEX_META", bytes),
        maybe(record, "_SOURCE_META", bytes),
    )


# Writing --------------------------------------------------------------------------------------


def write_index_manifest(storage: TableStorage, entries: Sequence[IndexManifestEntry]) -> str:
    """Write the index files of a snapshot to a new index manifest; its name."""
    name = f"index-manifest-{storage.runtime.new_uuid()}-0"
    codec = storage.schema.table_options.manifest_compression
    data = write_avro(INDEX_MANIFEST_SCHEMA, [_record(entry) for entry in entries], codec)
    storage.files.write(storage.layout.manifest(name), data)
    return name


def _record(entry: IndexManifestEntry) -> Record:
    file = entry.index_file
    vectors = None
    if file.vectors is not None:
        vectors = [
            {
                "f0": each.data_file,
                "f1": each.offset,
                "f2": each.length,
                "_CARDINALITY": each.cardinality,
            }
            for each in file.vectors
        ]
    covered = file.global_index
    global_index = None
    if covered is not None:
        extra = covered.extra_field_ids
        global_index = {
            "_ROW_RANGE_START": covered.row_range_start,
            "_ROW_RANGE_END": covered.row_range_end,
            "_INDEX_FIELD_ID": covered.field_id,
            "_EXTRA_FIELD_IDS": None if extra is None else list(extra),
            "_INDEX_META": covered.index_meta,
            "_SOURCE_META": covered.source_meta,
        }
    return {
        "_VERSION": _VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_DELETIONS_VECTORS_RANGES": vectors,
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": global_index,
    }


# Combining ------------------------------------------------------------------------------------


def has_one_file_a_bucket(storage: TableStorage, index_type: str) -> bool:
    """True if a bucket has one index file of a type at most, so that a new one replaces it.

    Deletion vectors of a table without buckets, and indexes of types that Headwater does not know,
    lie in any number of files.
    """
    if index_type == HASH:
        return True
    schema = storage.schema
    has_buckets = bool(schema.primary_keys) or schema.table_options.bucket != -1
    return index_type == DELETION_VECTORS and has_buckets


def combined(
    storage: TableStorage,
    present: Iterable[IndexManifestEntry],
    changes: Iterable[IndexManifestEntry],
) -> list[IndexManifestEntry]:
    """The index files of a snapshot on top of another (``IndexManifestFileHandler.java``).

    A new file replaces the one of its bucket and type where a bucket has one, and joins the others
    elsewhere. All deletions come before all additions.

    Args:
        storage: The table.
        present: The index files before.
        changes: Files added and deleted, in any order; `commit.index_changes` checks that they fit.
    """
    kept = {_place(storage, entry): entry for entry in present}
    every = list(changes)
    for entry in every:
        if entry.kind is FileKind.DELETE:
            kept.pop(_place(storage, entry), None)
    for entry in every:
        if entry.kind is FileKind.ADD:
            kept[_place(storage, entry)] = entry
    return list(kept.values())


def _place(storage: TableStorage, entry: IndexManifestEntry) -> object:
    if has_one_file_a_bucket(storage, entry.index_file.index_type):
        return entry.slot
    return entry.index_file.index_type, entry.index_file.file_name
