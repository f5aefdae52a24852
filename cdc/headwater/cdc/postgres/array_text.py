"""PostgreSQL's text form of arrays, split into their elements all at once.

``{1,2,NULL}``; an element with a delimiter, a brace, a quote, a backslash or a space, an empty one,
and one that reads NULL is in double quotes, within which a backslash stands before quotes and
backslashes. ``{{1},{2}}`` has two dimensions, and ``[0:1]={1,2}`` begins at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns.gather import validity_bitmap
from headwater.cdc.postgres.escaped_text import escape_positions

__all__ = ["ArrayParts", "split_arrays"]

_OPEN, _CLOSE, _QUOTE, _BOUNDS = (ord(character) for character in '{}"[')

_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ArrayParts:
    """The elements of arrays.

    Attributes:
        elements: The elements of all of them, one after the other, ``string``.
        offsets: Where the elements of each array begin, and where the last ones end; a null has
            none.
        is_bad: Which arrays have several dimensions, or do not begin at 1; their elements are not
            to be used.
    """

    elements: pa.Array
    offsets: npt.NDArray[np.int32]
    is_bad: _Flags


def split_arrays(text: pa.Array, delimiter: str = ",") -> ArrayParts:
    """Split arrays.

    Args:
        text: The arrays, ``string``.
        delimiter: What stands between elements.
    """
    rows = len(text)
    # Without nulls, whose bytes might be anything.
    filled = pc.fill_null(text, "{}")
    bounds, data = _contents(filled)
    is_quote, is_escape = _quotes(data)
    # Each value has an even number of quotes, so values can be counted through; to count modulo 256
    # is enough.
    is_outside = (np.cumsum(is_quote, dtype=np.uint8) & 1) == 0
    is_outside &= ~is_quote
    opens, closes = is_outside & (data == _OPEN), is_outside & (data == _CLOSE)
    depth = np.add.reduceat(opens.astype(np.int64), bounds[:-1]) if rows else np.zeros(0, np.int64)
    is_bad = (depth != 1) | (data[bounds[:-1]] == _BOUNDS) if rows else np.zeros(0, np.bool_)
    is_empty = opens[:-1] & closes[1:] if len(data) else opens
    separates = is_outside & (data == ord(delimiter))
    begins = np.flatnonzero(opens | separates) + 1
    ends = np.flatnonzero(closes | separates)
    if is_bad.any():
        # Braces within braces: what is bad is not used.
        nothing = pa.array([], pa.string())
        return ArrayParts(nothing, np.zeros(rows + 1, np.int32), is_bad)
    has_element = np.ones(len(begins), np.bool_)
    if is_empty.any():
        has_element[np.searchsorted(begins, np.flatnonzero(is_empty) + 1)] = False
    # Elements that begin before an array's end are of it or of arrays before.
    counts = np.concatenate([[0], np.cumsum(has_element)])
    offsets = counts[np.searchsorted(begins, bounds)].astype(np.int32)
    begins, ends = begins[has_element], ends[has_element]
    elements = _elements(data, begins, ends, is_quote | is_escape)
    return ArrayParts(elements, offsets, is_bad)


def _contents(text: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return np.zeros(len(text) + 1, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    contents = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return (bounds - bounds[0]).astype(np.int64), contents


def _quotes(data: npt.NDArray[np.uint8]) -> tuple[_Flags, _Flags]:
    """Which characters are quotes around elements, and which are backslashes before a character."""
    is_quote, is_escape = data == _QUOTE, np.zeros(len(data), np.bool_)
    escapes = escape_positions(data)
    is_escape[escapes] = True
    is_quote[escapes + 1] = False
    return is_quote, is_escape


def _elements(
    data: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    is_left_out: _Flags,
) -> pa.Array:
    """The text of elements, without quotes and what escapes characters."""
    # An element begins behind a brace or a delimiter, so the text has a character before it.
    steps = np.zeros(len(data) + 1, np.int8)
    steps[begins] += 1
    # Empty elements are quoted, so that none ends where it begins.
    steps[ends] -= 1
    is_kept = (np.cumsum(steps[:-1], dtype=np.int8) > 0) & ~is_left_out
    offsets = np.zeros(len(begins) + 1, np.int32)
    if len(begins):
        # What lies between elements is not kept.
        np.cumsum(np.add.reduceat(is_kept, begins, dtype=np.int32), out=offsets[1:])
    characters = np.ascontiguousarray(data[is_kept])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(characters)]
    text = pa.Array.from_buffers(pa.string(), len(begins), buffers)
    is_plain = data[begins] != _QUOTE if len(begins) else np.zeros(0, np.bool_)
    is_null = pc.equal(text, "NULL").to_numpy(zero_copy_only=False) & is_plain
    buffers[0] = validity_bitmap(is_null)
    return pa.Array.from_buffers(pa.string(), len(begins), buffers)
