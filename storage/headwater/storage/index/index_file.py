"""The metadata of an index file in an index manifest (``IndexFileMeta.java``)."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.storage.manifest.data_file import FileKind
from headwater.storage.options.external_path_options import ExternalPathOptions
from headwater.storage.rows.external_paths import ExternalPaths
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.table_storage import TableStorage

__all__ = [
    "DELETION_VECTORS",
    "HASH",
    "DeletionVectorRange",
    "GlobalIndex",
    "IndexFileMeta",
    "IndexManifestEntry",
    "index_file_path",
    "new_index_file",
]

DELETION_VECTORS = "DELETION_VECTORS"
"""The type of files that hold the positions of deleted rows."""
HASH = "HASH"
"""The type of files that hold the hashes of a dynamic bucket's keys."""


@dataclass(frozen=True)
class DeletionVectorRange:
    """The place of one data file's deletion vector in an index file (``DeletionVectorMeta.java``).

    Attributes:
        data_file: The data file's name.
        offset: Bytes before the vector's size field.
        length: Bytes of the vector; its size field and its checksum are not counted in the 32-bit
            form, and are counted in the 64-bit form.
        cardinality: Deleted rows; None when the writer did not count them.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True)
class GlobalIndex:
    """The rows and columns that a global index covers (``GlobalIndexMeta.java``).

    Attributes:
        row_range_start: The first row id.
        row_range_end: The last row id.
        field_id: The indexed column.
        extra_field_ids: Further ones; None without any.
        index_meta: Metadata for readers of the index.
        source_meta: The mapping from the index's rows to its source.
    """

    row_range_start: int
    row_range_end: int
    field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True)
class IndexFileMeta:
    """An index file.

    Attributes:
        index_type: `DELETION_VECTORS`, `HASH`, or the name of another type, which is kept.
        file_name: The name in the directory of index files.
        file_size: Bytes.
        row_count: Data files with deletion vectors, or hashes.
        vectors: The deletion vectors in the file; None in a file of another type.
        external_path: The file's URI, when it is elsewhere.
        global_index: The rows and columns of a global index.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None


@dataclass(frozen=True)
class IndexManifestEntry:
    """One index file added to, or taken from, a bucket.

    Attributes:
        kind: Added or deleted; an index manifest itself holds added files alone.
        partition: Serialised BinaryRow of the partition values.
        bucket: The bucket's number.
        index_file: The file.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    index_file: IndexFileMeta

    @property
    def slot(self) -> tuple[bytes, int, str]:
        """The place that one file of a bucketed table takes: partition, bucket and type."""
        return self.partition, self.bucket, self.index_file.index_type

    def deleted(self) -> IndexManifestEntry:
        """The entry that takes the file away."""
        return IndexManifestEntry(FileKind.DELETE, self.partition, self.bucket, self.index_file)


def new_index_file(
    storage: TableStorage, partition: bytes, bucket: int, suffix: str = ""
) -> tuple[str, str, str | None]:
    """A new index file of a bucket; nobody else has the name.

    Source: ``FileStorePathFactory.indexFileFactory``.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket id.
        suffix: The end of the name; readers take any.

    Returns:
        Its name, its URI, and the URI once more if it lies outside the table's folder.

    Raises:
        Invalid: An option that names a place outside is malformed.
    """
    name = f"index-{storage.runtime.new_uuid()}-0{suffix}"
    if storage.schema.table_options.index_file_in_data_file_dir:
        directory, external = ExternalPaths(storage, partition, bucket).place(name)
        return name, f"{directory}/{name}", external
    root = ExternalPathOptions(storage.schema.options).index_root
    external = None if root is None else f"{root}/{name}"
    return name, external or storage.layout.index(name), external


def index_file_path(
    storage: TableStorage, partition: bytes, bucket: int, file: IndexFileMeta
) -> str:
    """The URI of an index file of a bucket, whose partition is serialised."""
    return file.external_path or _path(storage, partition, bucket, file.file_name)


def _path(storage: TableStorage, partition: bytes, bucket: int, name: str) -> str:
    if storage.schema.table_options.index_file_in_data_file_dir:
        return f"{bucket_directory(storage, partition, bucket)}/{name}"
    return storage.layout.index(name)
