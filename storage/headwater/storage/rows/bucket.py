"""The bucket of a row, by the function that the option ``bucket-function.type`` names.

Source: ``DefaultBucketFunction.java``, ``ModBucketFunction.java``, ``HiveBucketFunction.java``,
``MurmurHashUtils.java`` (32 bits, seed 42, words of 4 bytes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.options import BucketFunction
from headwater.storage.rows.binary_row import encode_columns, plain_array
from headwater.storage.rows.hive_hash import hive_hashes
from headwater.storage.schema.bucket_key import check_bucket_function
from headwater.storage.types.arrow_numbers import plain_numbers
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataType

__all__ = ["bucket_numbers", "hash_rows", "key_hashes"]

Hashes: TypeAlias = npt.NDArray[np.uint32]

_SEED = 42
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
# Rows hashed at once: their words and hashes stay in the processor's cache.
_CHUNK = 32_768
# Bytes of a row up to which all rows are hashed at once, word by word.
_LONG = 1024


def bucket_numbers(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    buckets: int | npt.NDArray[np.int32],
    function: BucketFunction = BucketFunction.DEFAULT,
) -> npt.NDArray[np.int32]:
    """The bucket of each row.

    Args:
        columns: The bucket-key columns in the order of the bucket key, all of one length.
        types: Their types.
        buckets: The number of buckets, of all rows or of each.
        function: The function that gives a bucket for a key.

    Returns:
        A number from 0 to one less than the number of buckets for each row.

    Raises:
        Invalid: A column is missing, a column is not of its type or of one that the function does
            not take, or `buckets` is not positive.
    """
    if np.min(buckets, initial=1) < 1:
        raise Invalid(f"rows cannot be spread over {buckets} buckets")
    whole = _whole(columns)
    if function is BucketFunction.MOD:
        return _remainders(whole, types, buckets)
    if function is BucketFunction.HIVE:
        positive = hive_hashes(whole, types) & np.uint32(0x7FFFFFFF)
        return (positive.astype(np.int64) % buckets).astype(np.int32)
    # Java's remainder keeps the sign of the hash, as fmod does.
    return np.abs(np.fmod(key_hashes(whole, types), np.asarray(buckets, np.int32)))


def key_hashes(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> npt.NDArray[np.int32]:
    """The hash of each row's key, ``BinaryRow.hashCode``.

    Raises:
        Invalid: Columns are missing, or a column is not of its type.
    """
    whole = _whole(columns)
    rows = len(whole[0])
    hashes = np.empty(rows, np.int32)
    for start in range(0, max(rows, 1), _CHUNK):
        data, offsets = encode_columns([c.slice(start, _CHUNK) for c in whole], types)
        hashes[start : start + _CHUNK] = hash_rows(data, offsets).view(np.int32)
    return hashes


def _whole(columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    if not columns:
        raise Invalid("a bucket key needs at least one column")
    return [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]


def _remainders(
    columns: Sequence[pa.Array],
    types: Sequence[DataType],
    buckets: int | npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """The remainder of the key, never negative; that of a null key is 0."""
    check_bucket_function(BucketFunction.MOD, types)
    key = types[0]
    assert isinstance(key, AtomicType)
    keys = plain_numbers(plain_array(columns[0], key))
    return np.mod(keys.astype(np.int64), buckets).astype(np.int32)


def hash_rows(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64] | None = None,
) -> Hashes:
    """The murmur3 hash of each row that `encode_columns` made.

    Args:
        data: The rows' bytes; each row's length is a multiple of 4.
        offsets: n + 1 offsets into them.
        lengths: The lengths that the hashes tell; None means those of the rows.
    """
    sizes = np.diff(offsets)
    if len(sizes) == 0:
        return np.zeros(0, np.uint32)
    told = sizes if lengths is None else lengths
    long = np.flatnonzero(sizes > _LONG)
    if not len(long):
        return _hash_by_position(data, offsets, told)
    # What a loop over positions takes, one row of a megabyte would make all rows of its chunk take.
    short = np.flatnonzero(sizes <= _LONG)
    hashes = np.empty(len(sizes), np.uint32)
    if len(short):
        chosen = _binary(data, offsets).take(pa.array(short))
        starts = np.frombuffer(chosen.buffers()[1], np.int64, len(short) + 1)
        inner = np.frombuffer(chosen.buffers()[2], np.uint8, int(starts[-1]))
        hashes[short] = _hash_by_position(inner, starts, told[short])
    hashes[long] = _hash_long(data, offsets, long, told[long])
    return hashes


def _binary(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _hash_long(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    told: npt.NDArray[np.int64],
) -> Hashes:
    """The hashes of some rows, each taken from its beginning to its end."""
    # Here, as few tables have such keys.
    import polars as pl
    import polars_hash

    frame = pl.DataFrame({"rows": pl.from_arrow(_binary(data, offsets).take(pa.array(rows)))})
    hashed = frame.select(polars_hash.col("rows").nchash.murmur32(seed=_SEED)).to_series()
    own = (offsets[rows + 1] - offsets[rows]).astype(np.uint32)
    return _finish(_unfinished(hashed.to_numpy()) ^ own ^ told.astype(np.uint32))


def _hash_by_position(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], told: npt.NDArray[np.int64]
) -> Hashes:
    words = data.view(np.uint32)
    sizes = np.diff(offsets)
    longest = int(sizes.max())
    if longest == sizes.min():
        hashes = np.full(len(sizes), _SEED, np.uint32)
        table = words.reshape(len(sizes), longest // 4)
        for position in range(longest // 4):
            _mix(hashes, table[:, position])
    else:
        # Longest first: the rows that still have a word at some position are a prefix.
        order = np.argsort(-sizes, kind="stable")
        begins = offsets[:-1][order] // 4
        counts = sizes[order] // 4
        sorted_hashes = np.full(len(sizes), _SEED, np.uint32)
        for position in range(longest // 4):
            alive = int(np.searchsorted(-counts, -position, side="left"))
            _mix(sorted_hashes[:alive], words[begins[:alive] + position])
        hashes = np.empty_like(sorted_hashes)
        hashes[order] = sorted_hashes
    return _finish(hashes ^ told.astype(np.uint32))


def _mix(hashes: Hashes, words: Hashes) -> None:
    """Take one word of each row into its hash, in place."""
    mixed = words * _C1
    mixed = (mixed << np.uint32(15)) | (mixed >> np.uint32(17))
    mixed *= _C2
    np.bitwise_xor(hashes, mixed, out=hashes)
    np.bitwise_or(hashes << np.uint32(13), hashes >> np.uint32(19), out=hashes)
    np.multiply(hashes, np.uint32(5), out=hashes)
    np.add(hashes, np.uint32(0xE6546B64), out=hashes)


def _finish(hashes: Hashes) -> Hashes:
    hashes = hashes ^ (hashes >> np.uint32(16))
    hashes = hashes * np.uint32(0x85EBCA6B)
    hashes = hashes ^ (hashes >> np.uint32(13))
    hashes = hashes * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _unfinished(hashes: Hashes) -> Hashes:
    """The inverse of `_finish`."""
    hashes = hashes ^ (hashes >> np.uint32(16))
    hashes = hashes * np.uint32(pow(0xC2B2AE35, -1, 1 << 32))
    hashes = hashes ^ (hashes >> np.uint32(13)) ^ (hashes >> np.uint32(26))
    hashes = hashes * np.uint32(pow(0x85EBCA6B, -1, 1 << 32))
    return hashes ^ (hashes >> np.uint32(16))
