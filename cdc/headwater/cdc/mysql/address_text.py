"""MariaDB's UUID, INET4 and INET6, whose values in the log are bytes, as the text of its SELECT.

Source: ``sql_type_uuid.h``, ``sql_type_inet.cc``.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns.value_text import (
    Characters,
    digit_characters,
    join_characters,
    null_flags,
    text_array,
)
from headwater.storage.errors import CorruptData

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_BYTES, _INET4_BYTES, _INET6_BYTES = 16, 4, 16
_UUID_HYPHENS = (4, 6, 8, 10)
_WORDS = 8
_MAPPED = 0xFFFF
# An address whose first words are zero ends with the text of an IPv4 address.
_COMPATIBLE_ZEROS, _MAPPED_ZEROS = 6, 5


def byte_matrix(values: pa.Array, width: int | None = None) -> npt.NDArray[np.uint8]:
    """The bytes of ``binary`` values of one length, zeros where a value is null.

    Args:
        values: The values.
        width: How many bytes each value has; None finds out.

    Raises:
        CorruptData: The values have other lengths.
    """
    if not len(values):
        return np.zeros((0, width or 1), np.uint8)
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    nulls = null_flags(values)
    lengths = np.diff(offsets) if nulls is None else np.diff(offsets)[~nulls]
    if width is None:
        width = int(lengths[0]) if len(lengths) else 1
    if (lengths != width).any():
        raise CorruptData(
            f"cannot decode values of {width} bytes: one has {int(lengths[lengths != width][0])} "
            "bytes; read the log again from its source"
        )
    matrix = np.zeros((len(values), width), np.uint8)
    if len(lengths):
        data = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        matrix[slice(None) if nulls is None else ~nulls] = data.reshape(-1, width)
    return matrix


def uuid_text(values: pa.Array) -> pa.Array:
    """Write UUIDs. Their bytes in the log have the order of their text, unlike those in a table."""
    hexadecimal = _hexadecimal(byte_matrix(values, _UUID_BYTES))
    bounds = [0, *_UUID_HYPHENS, _UUID_BYTES]
    parts: list[Characters | str] = []
    for first, last in pairwise(bounds):
        parts += ["-", hexadecimal[:, 2 * first : 2 * last]]
    return text_array(join_characters(parts[1:], len(values)), null_flags(values))


def inet4_text(values: pa.Array) -> pa.Array:
    """Write IPv4 addresses."""
    characters, shown = _dotted(byte_matrix(values, _INET4_BYTES))
    return text_array(characters, null_flags(values), shown)


def inet6_text(values: pa.Array) -> pa.Array:
    """Write IPv6 addresses: the first longest run of zero words, also of one, is left out."""
    data = byte_matrix(values, _INET6_BYTES)
    rows = len(data)
    words = data[:, ::2].astype(np.int64) << 8 | data[:, 1::2]
    start, length = _longest_zeros(words)
    is_dotted = (start == 0) & (
        (length == _COMPATIBLE_ZEROS) | ((length == _MAPPED_ZEROS) & (words[:, 5] == _MAPPED))
    )
    index = np.arange(_WORDS)
    is_gap = (index >= start[:, None]) & (index < (start + length)[:, None])
    is_word = ~is_gap & ~(is_dotted[:, None] & (index >= _WORDS - 2))
    # The first word left out keeps its colon, any other word unless it is the last one.
    is_colon = np.where(is_gap, index == start[:, None], is_word & (index < _WORDS - 1))
    digits = _hexadecimal(data).reshape(rows, _WORDS, 4)
    is_digit = words[:, :, None] >= np.array([0x1000, 0x100, 0x10, 0])
    shown_words = np.concatenate([is_digit & is_word[:, :, None], is_colon[:, :, None]], axis=2)
    colons = np.full((rows, _WORDS, 1), ord(":"), np.uint8)
    characters = np.concatenate([digits, colons], axis=2).reshape(rows, -1)
    dotted, shown_dotted = _dotted(data[:, _INET6_BYTES - _INET4_BYTES :])
    return text_array(
        join_characters([":", characters, dotted], rows),
        null_flags(values),
        np.hstack(
            [
                (start == 0)[:, None],
                shown_words.reshape(rows, -1),
                shown_dotted & is_dotted[:, None],
            ]
        ),
    )


def _longest_zeros(
    words: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The index and length of the first longest run of zeros in each row; -1 and 0 without one."""
    rows = len(words)
    start, length = np.full(rows, -1), np.zeros(rows, np.int64)
    run = np.zeros(rows, np.int64)
    for index in range(words.shape[1]):
        run = np.where(words[:, index] == 0, run + 1, 0)
        is_longer = run > length
        start = np.where(is_longer, index + 1 - run, start)
        length = np.where(is_longer, run, length)
    return start, length


def _dotted(data: npt.NDArray[np.uint8]) -> tuple[Characters, npt.NDArray[np.bool_]]:
    """The characters of IPv4 addresses, and which of them are part of their text."""
    parts: list[Characters | str] = []
    shown: list[npt.NDArray[np.bool_]] = []
    for index in range(_INET4_BYTES):
        number = data[:, index].astype(np.int64)
        parts += [".", digit_characters(number, 3)]
        is_digit = number[:, None] >= np.array([100, 10, 0])
        shown.append(np.hstack([np.full((len(data), 1), index > 0), is_digit]))
    return join_characters(parts, len(data)), np.hstack(shown)


def _hexadecimal(data: npt.NDArray[np.uint8]) -> Characters:
    digits = np.empty((len(data), 2 * data.shape[1]), np.uint8)
    digits[:, ::2] = _HEX[data >> 4]
    digits[:, 1::2] = _HEX[data & 15]
    return digits
