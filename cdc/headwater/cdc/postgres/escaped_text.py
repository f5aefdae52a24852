"""Backslashes that escape the character behind them, found in the text of all rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["escape_positions", "unescaped"]

_BACKSLASH = ord("\\")


def _escaped_characters() -> npt.NDArray[np.uint8]:
    characters = np.arange(256, dtype=np.uint8)
    for letter, character in zip("bfnrtv", "\b\f\n\r\t\v", strict=True):
        characters[ord(letter)] = ord(character)
    return characters


_ESCAPED = _escaped_characters()


def escape_positions(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Find the backslashes that escape a character, which may be a backslash itself.

    Args:
        data: Text of one value after the other, in each of which escapes are whole.
    """
    positions = np.flatnonzero(data == _BACKSLASH)
    # Of backslashes in a row the first, third, … begin an escape.
    index = np.arange(len(positions))
    is_first = np.ones(len(positions), np.bool_)
    is_first[1:] = np.diff(positions) != 1
    run_starts = np.maximum.accumulate(np.where(is_first, index, 0))
    escapes: npt.NDArray[np.int64] = positions[(index - run_starts) & 1 == 0]
    return escapes


def unescaped(values: pa.Array) -> pa.Array:
    """Replace escapes as ``COPY`` writes them by the characters that they mean.

    Args:
        values: The text, ``binary``, whose first value begins its buffers.
    """
    validity, offsets, contents = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(values) + 1]
    data = np.frombuffer(contents, np.uint8)[: bounds[-1]].copy()
    escapes = escape_positions(data)
    data[escapes + 1] = _ESCAPED[data[escapes + 1]]
    is_kept = np.ones(len(data), np.bool_)
    is_kept[escapes] = False
    removed = np.searchsorted(escapes, bounds)
    buffers = [validity, pa.py_buffer((bounds - removed).astype(np.int32))]
    return pa.Array.from_buffers(pa.binary(), len(values), [*buffers, pa.py_buffer(data[is_kept])])
