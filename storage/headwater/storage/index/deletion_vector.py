"""Deletion vectors: the positions of a data file's deleted rows, and the bytes that hold them.

Two forms of bytes are read and written. The 32-bit form is a big-endian size, a magic number, a
Roaring bitmap and a checksum, where the size counts the magic number and the bitmap. The 64-bit
form (``deletion-vectors.bitmap64``) has another magic number, in little-endian order, and a 64-bit
Roaring bitmap.

Source: ``BitmapDeletionVector.java``, ``Bitmap64DeletionVector.java``, ``DeletionVector.java``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.rows.gather import kept_rows
from headwater.storage.rows.ordering import sorted_distinct

__all__ = ["DeletionVector"]

_MAGIC_32 = struct.pack(">i", 1581511376)
_MAGIC_64 = struct.pack("<i", 1681511377)
_MAX_NARROW = 2**31 - 1
_SIZE = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
# Around the bitmap and its magic number: the size before, the checksum after.
_FRAME = _SIZE.size + _CHECKSUM.size
# So few rows leave parts of a batch that are put together sooner than each row is looked at.
_FEW = 16


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """The deleted rows of a data file.

    Attributes:
        positions: Their positions in the file, from 0, ascending, each once.
    """

    positions: npt.NDArray[np.int64]

    @staticmethod
    def from_positions(positions: Sequence[int] | npt.NDArray[np.int64]) -> DeletionVector:
        """The vector of these positions, in any order."""
        return DeletionVector(sorted_distinct(np.asarray(positions, np.int64)))

    def __len__(self) -> int:
        """The number of deleted rows."""
        return len(self.positions)

    def merged(self, other: DeletionVector) -> DeletionVector:
        """The rows that are deleted by this vector or the other."""
        return DeletionVector(np.union1d(self.positions, other.positions))

    def kept(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Whether each row from `start` to before `stop` is not deleted."""
        first, last = np.searchsorted(self.positions, [start, stop])
        mask = np.ones(stop - start, np.bool_)
        mask[self.positions[first:last] - start] = False
        return mask

    def without(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """A batch, which begins at a position, without its deleted rows."""
        rows = batch.num_rows
        first, last = np.searchsorted(self.positions, [start, start + rows])
        deleted = int(last - first)
        if not deleted:
            return batch
        if not batch.num_columns:
            return batch.slice(0, rows - deleted)
        if deleted <= _FEW:
            at = [-1, *(self.positions[first:last] - start).tolist(), rows]
            return pa.concat_batches(
                [batch.slice(before + 1, after - before - 1) for before, after in pairwise(at)]
            )
        return kept_rows(batch, self.kept(start, start + rows))

    def encoded(self, *, wide: bool) -> tuple[bytes, int]:
        """The bytes in an index file, and their length as its metadata has it.

        Args:
            wide: Write the 64-bit form.

        Raises:
            Unsupported: A position is beyond the 32-bit form.
        """
        if wide:
            bitmap = BitMap64(self.positions.astype(np.uint64))
            bitmap.run_optimize()
            data = _MAGIC_64 + bitmap.serialize()
        else:
            if len(self) and self.positions[-1] > _MAX_NARROW:
                raise Unsupported(
                    f"row {self.positions[-1]} of a data file is beyond a 32-bit deletion vector; "
                    "set 'deletion-vectors.bitmap64'"
                )
            narrow = BitMap(self.positions.astype(np.uint32))
            narrow.run_optimize()
            data = _MAGIC_32 + narrow.serialize()
        framed = _SIZE.pack(len(data)) + data + _CHECKSUM.pack(zlib.crc32(data))
        return framed, len(framed) if wide else len(data)

    @staticmethod
    def stored_bytes(head: bytes, length: int) -> int:
        """The bytes that a vector takes in its file, the frame included.

        Args:
            head: Its first eight bytes.
            length: Its length according to the metadata.
        """
        return length if head[_SIZE.size :] == _MAGIC_64 else length + _FRAME

    @staticmethod
    def decoded(framed: bytes, length: int, where: str) -> DeletionVector:
        """The vector that bytes of an index file hold.

        Args:
            framed: The bytes from the size on; more may follow.
            length: Their length according to the metadata.
            where: The file and the place in it, for the error.

        Raises:
            CorruptData: The bytes are not a deletion vector of that length, or were damaged.
        """
        magic = framed[_SIZE.size : _SIZE.size + len(_MAGIC_32)]
        if magic not in (_MAGIC_32, _MAGIC_64):
            raise CorruptData(
                f"{where} is not a deletion vector: it begins with {framed[:8].hex()}"
            )
        wide = magic == _MAGIC_64
        size = length - _FRAME if wide else length
        (said,) = _SIZE.unpack_from(framed)
        if said != size or size < len(magic) or len(framed) < size + _FRAME:
            raise CorruptData(
                f"{where} has {min(said, len(framed) - _FRAME)} bytes of a deletion vector, but "
                f"the index manifest says {size}"
            )
        data = framed[_SIZE.size : _SIZE.size + size]
        (checksum,) = _CHECKSUM.unpack_from(framed, _SIZE.size + size)
        if zlib.crc32(data) != checksum:
            raise CorruptData(f"{where} is damaged: the checksum of its deletion vector is another")
        bits = data[len(magic) :]
        try:
            bitmap = BitMap64.deserialize(bits) if wide else BitMap.deserialize(bits)
        except (ValueError, IndexError) as error:
            raise CorruptData(f"{where} holds no Roaring bitmap: {error}") from error
        positions = np.frombuffer(bitmap.to_array(), np.uint64 if wide else np.uint32)
        return DeletionVector(positions.astype(np.int64))
