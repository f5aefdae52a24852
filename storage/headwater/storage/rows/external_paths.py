"""The places outside a table's folder that its new files are put in.

Source: ``AbstractFileStore.createExternalPaths``, ``ExternalPathProvider.java`` and what implements
it.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from headwater.storage.options.external_path_options import (
    ExternalPathOptions,
    ExternalPathStrategy,
)
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.table_storage import TableStorage

__all__ = ["ExternalPaths"]

# The folders that spread files over the partitions of an object store: bits of a hash of the name.
_ENTROPY_BITS = 20
_ENTROPY_CUTS = ((0, 4), (4, 8), (8, 12), (12, 20))


class ExternalPaths:
    """Chooses the place of each new file of a bucket.

    Nothing is remembered from one bucket's writer to the next: each begins with another place, by
    the name of its first file.

    Args:
        storage: The table.
        partition: Serialised partition values.
        bucket: The bucket's number.

    Raises:
        Invalid: An option is malformed; the message names it.
    """

    def __init__(self, storage: TableStorage, partition: bytes, bucket: int) -> None:
        self._own = bucket_directory(storage, partition, bucket)
        options = ExternalPathOptions(storage.schema.options)
        self._directories = [
            bucket_directory(
                replace(storage, layout=replace(storage.layout, location=root)), partition, bucket
            )
            for root in options.roots
        ]
        self._spreads = options.strategy is ExternalPathStrategy.ENTROPY_INJECT
        self._weights = options.weights
        self._turn: int | None = None

    def place(self, name: str) -> tuple[str, str | None]:
        """The directory of a new file, and the file's URI if that is outside the table's folder."""
        if not self._directories:
            return self._own, None
        directory = self._directories[self._choice(name)]
        if self._spreads:
            directory += f"/{entropy(name)}"
        return directory, f"{directory}/{name}"

    def _choice(self, name: str) -> int:
        # The name holds a random part already, which serves for any choice.
        number = zlib.crc32(name.encode())
        if self._weights is not None:
            least = number / (1 << 32) * self._weights[-1]
            return next(at for at, bound in enumerate(self._weights) if least < bound)
        turn = number if self._turn is None else self._turn + 1
        self._turn = turn % len(self._directories)
        return self._turn


def entropy(name: str) -> str:
    """The folders of a file by its name, ``1001/0110/1010/01010011``."""
    bits = f"{_murmur3(name.encode()) | 1 << 31:032b}"[-_ENTROPY_BITS:]
    return "/".join(bits[start:end] for start, end in _ENTROPY_CUTS)


def _murmur3(data: bytes) -> int:
    """The 32-bit murmur3 hash of a short text, with seed 0."""
    mask, found = 0xFFFFFFFF, 0
    whole = len(data) & ~3
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        word = (word << 15 | word >> 17) * 0x1B873593 & mask
        found ^= word
        if at < whole:
            found = ((found << 13 | found >> 19) * 5 + 0xE6546B64) & mask
    found ^= len(data)
    found = (found ^ found >> 16) * 0x85EBCA6B & mask
    found = (found ^ found >> 13) * 0xC2B2AE35 & mask
    return found ^ found >> 16
