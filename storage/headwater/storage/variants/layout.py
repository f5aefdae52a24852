"""The numbers in the bytes of variants, and bytes cut out of many variants at once.

Source: ``VariantEncoding.md`` of the Parquet format, ``GenericVariantUtil.java``. Positions count
the bytes of one array that holds all values of a column end to end.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "Bytes",
    "Numbers",
    "byte_counts",
    "bytes_of",
    "check",
    "end_to_end",
    "joined",
    "numbers_at",
    "put_numbers",
    "runs",
    "slices",
]

Numbers: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]


def check(is_right: npt.NDArray[np.bool_], problem: str) -> None:
    """Raises ValueError with the problem if one of the values is wrong."""
    if not is_right.all():
        raise ValueError(problem)


def bytes_of(array: pa.Array) -> tuple[Bytes, Numbers]:
    """The bytes of a LARGE_BINARY array end to end, and where each value begins, plus the end."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    begins = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    return np.frombuffer(data, np.uint8), begins


def numbers_at(data: Bytes, at: Numbers, widths: Numbers) -> Numbers:
    """Unsigned little-endian numbers of 0 to 4 bytes; bytes behind the data's end count as 0."""
    found = np.zeros(len(at), np.int64)
    if not len(data):
        return found
    for byte in range(4):
        there = (widths > byte) & (at + byte < len(data))
        piece = data[np.where(there, at + byte, 0)].astype(np.int64)
        found |= np.where(there, piece, 0) << (8 * byte)
    return found


def put_numbers(data: Bytes, at: Numbers, numbers: Numbers, widths: Numbers) -> None:
    """Write unsigned little-endian numbers of 1 to 4 bytes."""
    for byte in range(4):
        there = widths > byte
        data[at[there] + byte] = (numbers[there] >> (8 * byte)) & 0xFF


def byte_counts(numbers: Numbers) -> Numbers:
    """The bytes, 1 to 4, that each number needs."""
    return 1 + (numbers > 0xFF) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)


def runs(counts: Numbers) -> tuple[Numbers, Numbers]:
    """For each of ``counts[i]`` items: i, and the item's number from 0."""
    owners = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    firsts = np.cumsum(counts) - counts
    return owners, np.arange(len(owners), dtype=np.int64) - firsts[owners]


def slices(data: Bytes, begins: Numbers, lengths: Numbers) -> pa.Array:
    """Parts of the data as LARGE_BINARY.

    Raises:
        ValueError: Two parts overlap, and are not the same.
    """
    if not len(begins):
        return pa.array([], pa.large_binary())
    ends = begins + lengths
    cuts = np.sort(np.concatenate([begins, ends]))
    # Not by `np.unique`, which hashes and then sorts.
    cuts = cuts[np.append(True, cuts[1:] != cuts[:-1])]
    index = np.searchsorted(cuts, begins)
    following = cuts[np.minimum(index + 1, len(cuts) - 1)]
    filled = lengths > 0
    check(following[filled] == ends[filled], "two parts of it overlap")
    between = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    )
    return pc.fill_null(between.take(pa.array(index, mask=~filled)), b"")


def end_to_end(data: Bytes, lengths: Numbers) -> pa.Array:
    """The data as LARGE_BINARY: its first ``lengths[0]`` bytes, the next ``lengths[1]``, …"""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def joined(items: pa.Array, counts: Numbers) -> pa.Array:
    """The first ``counts[0]`` items as one value, then the next ``counts[1]``, and so on."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), items)
    return pc.binary_join(lists, pa.scalar(b"", pa.large_binary()))
