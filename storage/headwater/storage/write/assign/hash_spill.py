"""Rows on local disk, by ranges of hashes, to be had back some ranges at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

__all__ = ["HASH_RANGES", "HashSpill"]

HASH_RANGES = 1024
"""Ranges of equal width that hashes are divided into."""
_RANGE_BITS = 22
_WRITING = ipc.IpcWriteOptions(compression="lz4")


@dataclass
class HashSpill:
    """Files of rows; each has a record batch for each range of hashes that has rows.

    Attributes:
        folder: An empty folder for the files, which whoever made it deletes.
        sizes: The bytes in memory of each range's rows.
    """

    folder: Path
    sizes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(HASH_RANGES, np.int64))
    _files: list[tuple[Path, npt.NDArray[np.int64]]] = field(default_factory=list)

    def add(self, rows: pa.Table, hashes: npt.NDArray[np.int32]) -> None:
        """Write rows to a file of their own.

        Args:
            rows: Always of one schema; about as many as memory is meant for.
            hashes: The hash of each.
        """
        ranges = (hashes.view(np.uint32) >> np.uint32(_RANGE_BITS)).astype(np.uint16)
        order = np.argsort(ranges, kind="stable")
        counts = np.bincount(ranges, minlength=HASH_RANGES)
        path = self.folder / f"{len(self._files)}.arrow"
        # The place of each range's batch in the file.
        places = np.full(HASH_RANGES, -1, np.int64)
        with ipc.new_file(path, rows.schema, options=_WRITING) as file:
            begin = 0
            for place, number in enumerate(np.flatnonzero(counts).tolist()):
                end = begin + int(counts[number])
                part = rows.take(pa.array(order[begin:end])).combine_chunks()
                batches = part.to_batches()
                assert len(batches) == 1
                file.write_batch(batches[0])
                self.sizes[number] += batches[0].nbytes
                places[number], begin = place, end
        self._files.append((path, places))

    def read(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges from `first` to before `end`; those of one hash in their order."""
        for path, places in self._files:
            wanted = places[first:end]
            with ipc.open_file(path) as file:
                for place in wanted[wanted >= 0].tolist():
                    yield file.get_batch(place)
