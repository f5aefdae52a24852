"""Index files of deletion vectors: reading the vectors of data files, writing and replacing them.

Source: ``DeletionVectorsIndexFile.java``, ``DeletionVectorIndexFileWriter.java``,
``DeletionFileWriter.java``, ``AppendDeleteFileMaintainer.java``, ``BucketedDvMaintainer.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headwater.storage.errors import CorruptData, HeadwaterError, NotFound
from headwater.storage.files.access import FileAccess
from headwater.storage.formats.protocol import readable
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.index_file import (
    DELETION_VECTORS,
    DeletionVectorRange,
    IndexFileMeta,
    IndexManifestEntry,
    index_file_path,
    new_index_file,
)
from headwater.storage.index.manifest import has_one_file_a_bucket
from headwater.storage.table_storage import TableStorage

__all__ = [
    "DeletionFile",
    "deletion_files_by_bucket",
    "read_deletion_vector",
    "read_deletion_vectors",
    "replaced_vectors",
    "write_deletion_vectors",
]

_VERSION = b"\x01"
_HEAD_BYTES = 8


@dataclass(frozen=True)
class DeletionFile:
    """The place of a data file's deletion vector (``DeletionFile.java``). It pickles.

    Attributes:
        path: The URI of the index file.
        offset: Bytes before the vector.
        length: Its bytes, as `DeletionVectorRange` has them.
        cardinality: Deleted rows; None when the writer did not count them.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None


def deletion_files_by_bucket(
    storage: TableStorage,
    entries: Iterable[IndexManifestEntry],
    buckets: Collection[tuple[bytes, int]],
) -> dict[tuple[bytes, int], dict[str, DeletionFile]]:
    """The places of all deletion vectors of some buckets, by the names of their data files."""
    found: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        if bucket not in buckets or entry.index_file.index_type != DELETION_VECTORS:
            continue
        path = index_file_path(storage, *bucket, entry.index_file)
        own = found.setdefault(bucket, {})
        for each in entry.index_file.vectors or ():
            own[each.data_file] = DeletionFile(path, each.offset, each.length, each.cardinality)
    return found


# Reading --------------------------------------------------------------------------------------


def read_deletion_vector(files: FileAccess, place: DeletionFile) -> DeletionVector:
    """The deletion vector at a place.

    Raises:
        CorruptData: The index file is missing, truncated or damaged; the message names it.
    """
    where = f"index file {place.path} at byte {place.offset}"
    with readable(place.path), files.open_input(place.path) as source:
        head = source.read_at(_HEAD_BYTES, place.offset)
        framed = source.read_at(DeletionVector.stored_bytes(head, place.length), place.offset)
    return _checked(DeletionVector.decoded(framed, place.length, where), place.cardinality, where)


def read_deletion_vectors(
    storage: TableStorage, partition: bytes, bucket: int, file: IndexFileMeta
) -> dict[str, DeletionVector]:
    """All deletion vectors of an index file, by the names of their data files.

    Raises:
        CorruptData: As `read_deletion_vector`; also when it is not of version 1.
    """
    path = index_file_path(storage, partition, bucket, file)
    try:
        data = storage.files.read(path)
    except NotFound as error:
        raise CorruptData(
            f"table {storage.name}: index file {path} does not exist, but the metadata lists it"
        ) from error
    if data[:1] != _VERSION:
        raise CorruptData(f"index file {path} holds no deletion vectors of version 1")
    found: dict[str, DeletionVector] = {}
    for each in file.vectors or ():
        where = f"index file {path} at byte {each.offset}"
        vector = DeletionVector.decoded(data[each.offset :], each.length, where)
        found[each.data_file] = _checked(vector, each.cardinality, where)
    return found


def _checked(vector: DeletionVector, cardinality: int | None, where: str) -> DeletionVector:
    if cardinality is not None and cardinality != len(vector):
        raise CorruptData(
            f"{where} deletes {len(vector)} rows, but the index manifest says {cardinality}"
        )
    return vector


# Writing --------------------------------------------------------------------------------------


def write_deletion_vectors(
    storage: TableStorage, partition: bytes, bucket: int, vectors: Mapping[str, DeletionVector]
) -> list[IndexFileMeta]:
    """Write deletion vectors of one bucket to new index files.

    Args:
        storage: The table; ``deletion-vectors.bitmap64`` says the form.
        partition: Serialised partition.
        bucket: The bucket's number.
        vectors: By the names of their data files; empty ones are left out.

    Returns:
        One file in a table with buckets, whatever its size; elsewhere a new one begins once
        ``deletion-vector.index-file.target-size`` is reached. None when there are no vectors.
    """
    options = storage.schema.table_options
    rolls = not has_one_file_a_bucket(storage, DELETION_VECTORS)
    written: list[IndexFileMeta] = []
    content, ranges = bytearray(_VERSION), list[DeletionVectorRange]()

    def finish() -> None:
        name, path, external = new_index_file(storage, partition, bucket)
        storage.files.write(path, bytes(content))
        written.append(
            IndexFileMeta(
                DELETION_VECTORS, name, len(content), len(ranges), tuple(ranges), external
            )
        )
        content[1:] = b""
        ranges.clear()

    try:
        for data_file, vector in vectors.items():
            if not len(vector):
                continue
            encoded, length = vector.encoded(wide=options.deletion_vectors_bitmap64)
            ranges.append(DeletionVectorRange(data_file, len(content), length, len(vector)))
            content += encoded
            if rolls and len(content) > options.deletion_vector_index_file_target_size:
                finish()
        if ranges:
            finish()
    except BaseException:
        for file in written:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                storage.files.delete(index_file_path(storage, partition, bucket, file))
        raise
    return written


def replaced_vectors(
    storage: TableStorage,
    entries: Iterable[IndexManifestEntry],
    partition: bytes,
    bucket: int,
    *,
    merge: Mapping[str, DeletionVector] | None = None,
    remove: Collection[str] = (),
) -> tuple[Sequence[IndexFileMeta], Sequence[IndexFileMeta]]:
    """Give data files of one bucket new deletion vectors, and take away those of others.

    Index files that are not touched stay; the vectors beside those that change move to new files.

    Args:
        storage: The table.
        entries: The index files of the snapshot that the commit builds on.
        partition: Serialised partition.
        bucket: The bucket's number.
        merge: Rows to delete, by data file; rows that were deleted before stay deleted.
        remove: Data files whose vectors go, for the files go.

    Returns:
        New index files and those that they replace, for a commit message; the caller deletes the
        new ones when it is not committed.

    Raises:
        CorruptData: An index file is missing or damaged; the message names it.
    """
    new = dict(merge or {})
    touched = {*new, *remove}
    one_file = has_one_file_a_bucket(storage, DELETION_VECTORS)
    kept: dict[str, DeletionVector] = {}
    deleted: list[IndexFileMeta] = []
    for entry in entries:
        file = entry.index_file
        if (entry.partition, entry.bucket, file.index_type) != (
            partition,
            bucket,
            DELETION_VECTORS,
        ):
            continue
        named = {each.data_file for each in file.vectors or ()}
        if not (named & touched or (one_file and new)):
            continue
        deleted.append(file)
        for data_file, vector in read_deletion_vectors(storage, partition, bucket, file).items():
            if data_file in new:
                new[data_file] = new[data_file].merged(vector)
            elif data_file not in remove:
                kept[data_file] = vector
    return write_deletion_vectors(storage, partition, bucket, {**kept, **new}), deleted
