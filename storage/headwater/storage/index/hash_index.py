"""Hash index files: the hashes of the keys in one dynamic bucket.

A file is nothing but 4-byte numbers, most significant byte first, in any order and without
repetition. Source: ``HashIndexFile.java``, ``IntFileUtils.java``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.storage.errors import CorruptData, NotFound
from headwater.storage.index.index_file import (
    HASH,
    IndexFileMeta,
    IndexManifestEntry,
    index_file_path,
    new_index_file,
)
from headwater.storage.table_storage import TableStorage

__all__ = ["Hashes", "read_hash_index", "write_hash_index"]

Hashes: TypeAlias = npt.NDArray[np.int32]
"""The hashes of keys, ``BinaryRow.hashCode``."""


def read_hash_index(storage: TableStorage, entry: IndexManifestEntry) -> Hashes:
    """The hashes in a bucket's index file.

    Raises:
        CorruptData: The file is missing, or not of the size that the manifest says.
    """
    path = index_file_path(storage, entry.partition, entry.bucket, entry.index_file)
    try:
        data = storage.files.read(path)
    except NotFound as error:
        raise CorruptData(f"table {storage.name}: hash index {path} does not exist") from error
    if len(data) != 4 * entry.index_file.row_count:
        raise CorruptData(
            f"table {storage.name}: hash index {path} has {len(data)} bytes, but its "
            f"{entry.index_file.row_count} hashes take {4 * entry.index_file.row_count}"
        )
    return np.frombuffer(data, ">i4").astype(np.int32)


def write_hash_index(
    storage: TableStorage, partition: bytes, bucket: int, hashes: Hashes
) -> IndexFileMeta:
    """Write the hashes of a bucket's keys to a new index file."""
    name, path, external = new_index_file(storage, partition, bucket)
    data = hashes.astype(">i4").tobytes()
    storage.files.write(path, data)
    return IndexFileMeta(HASH, name, len(data), len(hashes), external_path=external)
