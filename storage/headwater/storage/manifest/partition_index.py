"""The partitions of a manifest's blocks, told in its header.

Many entries are written partition by partition, so that those of one are in few blocks. The
manifest's header says which partitions each block holds, and a plan of few partitions decompresses
no others. Avro's readers pass over entries of a header that they do not know.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.storage.errors import CorruptData
from headwater.storage.formats.avro_blocks import Block, BlockReader, with_metadata
from headwater.storage.manifest.data_file import ManifestEntry

__all__ = ["PartitionIndex", "by_partition", "with_partition_index"]

_KEY = b"headwater.partitions"
# Of fewer entries, all are looked at.
_LEAST_ENTRIES = 500
Numbers: TypeAlias = npt.NDArray[np.int64]


def by_partition(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Entries in the order in which they are written.

    Many are put partition by partition, each as far to the front as its first. Those of one
    partition stay in order.
    """
    if len(entries) < _LEAST_ENTRIES:
        return list(entries)
    places: dict[bytes, int] = {}
    return sorted(entries, key=lambda entry: places.setdefault(entry.partition, len(places)))


def with_partition_index(data: bytes, entries: Sequence[ManifestEntry]) -> bytes:
    """A manifest's content with the index in its header, if it has many entries.

    Args:
        data: The content.
        entries: Its entries, `by_partition`.
    """
    if len(entries) < _LEAST_ENTRIES:
        return data
    reader = BlockReader(data, "")
    places, counts = _blocks(reader)
    partitions = list(dict.fromkeys(entry.partition for entry in entries))
    numbers = {partition: number for number, partition in enumerate(partitions)}
    codes = [numbers[entry.partition] for entry in entries]
    ends = np.cumsum(counts).tolist()
    document = {
        "partitions": [partition.hex() for partition in partitions],
        "sizes": np.diff([*places, len(data)]).tolist(),
        "counts": counts,
        "first": [
            numbers[entries[end - count].partition] for end, count in zip(ends, counts, strict=True)
        ],
        "last": [codes[end - 1] for end in ends],
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    # The compressed form has a checksum. Some readers take all entries of a header for text.
    return with_metadata(data, _KEY, base64.b64encode(zlib.compress(text)))


def _blocks(reader: BlockReader) -> tuple[list[int], list[int]]:
    """The places and the entries of a file's blocks."""
    places = [reader.start]
    counts: list[int] = []
    for found in reader.blocks():
        counts.append(found.row_count)
        places.append(reader.position)
    return places[:-1], counts


@dataclass(frozen=True)
class PartitionIndex:
    """The partitions of a manifest's blocks.

    Attributes:
        reader: The manifest.
        path: Its name, for errors.
        partitions: The serialised partitions of its entries.
        sizes: Of each block, its bytes.
        counts: Its entries.
        first: The place of its first entry's partition among `partitions`.
        last: Likewise of the last's; it holds all between.
    """

    reader: BlockReader
    path: str
    partitions: Sequence[bytes]
    sizes: Numbers
    counts: Numbers
    first: Numbers
    last: Numbers

    @staticmethod
    def of(reader: BlockReader, size: int, path: str) -> PartitionIndex | None:
        """The index of a manifest; None if it has none.

        Args:
            reader: The manifest.
            size: Its bytes.
            path: Its name, for errors.

        Raises:
            CorruptData: The index is malformed, or not of this file.
        """
        packed = reader.metadata.get(_KEY)
        if packed is None:
            return None
        try:
            document = json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
            partitions = [bytes.fromhex(text) for text in document["partitions"]]
            sizes, counts, first, last = (
                np.array(document[name], np.int64) for name in ("sizes", "counts", "first", "last")
            )
        except (zlib.error, ValueError, TypeError, KeyError, OverflowError) as error:
            raise CorruptData(f"{path} has a malformed index of partitions: {error!r}") from error
        if (
            not len(sizes) == len(counts) == len(first) == len(last)
            or reader.start + int(sizes.sum()) != size
            or not ((first >= 0) & (first <= last) & (last < len(partitions))).all()
        ):
            raise CorruptData(f"{path} has an index of partitions that is not its own")
        return PartitionIndex(reader, path, partitions, sizes, counts, first, last)

    @property
    def count(self) -> int:
        """The entries of the manifest."""
        return int(self.counts.sum())

    def blocks(self, wanted: Callable[[bytes], bool]) -> Iterator[Block]:
        """The blocks that hold wanted partitions, in order.

        Raises:
            CorruptData: A block is not where it should be.
        """
        before = np.cumsum([0, *(wanted(partition) for partition in self.partitions)])
        places = self.reader.start + np.cumsum(self.sizes) - self.sizes
        for number in np.flatnonzero(before[self.last + 1] > before[self.first]).tolist():
            found = self.reader.block_at(int(places[number]))
            if found.row_count != self.counts[number]:
                raise CorruptData(f"{self.path} has an index of partitions that is not its own")
            yield found
