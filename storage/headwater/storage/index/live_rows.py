"""The rows of a data file that are rows of the table, as a bitmap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LiveRows"]

_WORD = 64


@dataclass(frozen=True, eq=False)
class LiveRows:
    """The rows of a file that are rows of the table.

    Attributes:
        row_count: The rows of the file.
        words: A bit for each row, the first in the lowest bit of the first word: 1 if it is live.
            The bits after the last are 0.
    """

    row_count: int
    words: npt.NDArray[np.uint64]

    @staticmethod
    def of(mask: npt.NDArray[np.bool_]) -> LiveRows:
        """The rows of a mask of all rows of the file."""
        octets = np.zeros(-(-len(mask) // _WORD) * 8, np.uint8)
        packed = np.packbits(mask, bitorder="little")
        octets[: len(packed)] = packed
        return LiveRows(len(mask), octets.view("<u8").astype(np.uint64))

    @property
    def count(self) -> int:
        """The number of the rows."""
        return int(np.bitwise_count(self.words).sum())

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """The rows as a mask."""
        return self.between(0, self.row_count)

    def any_between(self, start: int, stop: int) -> bool:
        """True if a row from `start` to before `stop` is live."""
        return bool(self.between(start, stop).any())

    def between(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """A mask of the rows from `start` to before `stop`."""
        octets = self.words.astype("<u8", copy=False).view(np.uint8)[start // 8 : -(-stop // 8)]
        bits = np.unpackbits(octets, count=start % 8 + stop - start, bitorder="little")
        return bits[start % 8 :].view(np.bool_)
