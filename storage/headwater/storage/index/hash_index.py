"""Hash index files: the hashes of the keys in one dynamic bucket.

A file is nothing but 4-byte numbers, most significant byte first, in any order and without
repetition, so that it has no space for a checksum. Headwater puts the CRC-32 of the content into
the file's name, which is in the index manifest, and which other engines take as it is. Source:
``HashIndexFile.java``, ``IntFileUtils.java``.
"""

from __future__ import annotations

import re
import zlib
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
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.table_storage import TableStorage

__all__ = ["Hashes", "damaged_hash_index", "read_hash_index", "write_hash_index"]

Hashes: TypeAlias = npt.NDArray[np.int32]
"""The hashes of keys, ``BinaryRow.hashCode``."""


_CHECKSUM = re.compile(r"-crc32-([0-9a-f]{8})$")


def read_hash_index(storage: TableStorage, entry: IndexManifestEntry) -> Hashes:
    """The hashes in a bucket's index file.

    Raises:
        CorruptData: The file is missing, does not match the checksum in its name, or is not what
            the manifest describes.
    """
    file = entry.index_file
    path = index_file_path(storage, entry.partition, entry.bucket, file)
    try:
        data = storage.files.read(path)
    except NotFound as error:
        raise damaged_hash_index(storage, path, "does not exist") from error
    if len(data) != 4 * file.row_count:
        raise damaged_hash_index(
            storage,
            path,
            f"has {len(data)} bytes, but its {file.row_count} hashes take {4 * file.row_count}",
        )
    named = _CHECKSUM.search(file.file_name)
    if named is not None and (actual := f"{zlib.crc32(data):08x}") != named[1]:
        raise damaged_hash_index(
            storage, path, f"is changed: checksum mismatch: expected {named[1]}, got {actual}"
        )
    hashes = np.frombuffer(data, ">i4").astype(np.int32)
    if named is None and len(sorted_distinct(hashes)) < len(hashes):
        raise damaged_hash_index(storage, path, "holds a hash twice")
    return hashes


def damaged_hash_index(storage: TableStorage, path: str, why: str) -> CorruptData:
    """The error about a hash index, which says how to repair it."""
    return CorruptData(
        f"table {storage.name}: hash index {path} {why}; rebuild it with 'headwater table "
        f"rebuild-bucket-indexes {storage.name}'"
    )


def write_hash_index(
    storage: TableStorage, partition: bytes, bucket: int, hashes: Hashes
) -> IndexFileMeta:
    """Write the hashes of a bucket's keys to a new index file."""
    data = hashes.astype(">i4").tobytes()
    suffix = f"-crc32-{zlib.crc32(data):08x}"
    name, path, external = new_index_file(storage, partition, bucket, suffix)
    storage.files.write(path, data)
    return IndexFileMeta(HASH, name, len(data), len(hashes), external_path=external)
