"""Rows picked from several batches, in a chosen order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.types.arrow_numbers import arrow_mask, arrow_values

__all__ = ["gather", "kept_rows", "take_rows"]

# Text columns of one Arrow batch end at 2 GiB.
_MOST_BYTES = 1 << 30
# From so great a share of rows on, taking those that stay is faster than leaving out the others.
_MOST_SHARE = 4


def gather(
    batches: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Rows of several batches in an order.

    Args:
        batches: At least one, of one schema.
        order: The rows' numbers, counted across the batches, each at most once.

    Returns:
        One batch, or several when it would be too large for Arrow's text.
    """
    if sum(batch.nbytes for batch in batches) <= _MOST_BYTES or len(order) <= 1:
        yield take_rows(batches, order)
        return
    half = len(order) // 2
    for part in (order[:half], order[half:]):
        yield from gather(*_select(batches, part))


def take_rows(batches: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows of several batches in an order, as `gather`, in one batch of less than 2 GiB."""
    if len(batches) == 1:
        return batches[0].take(arrow_values(order))
    if len(order) * 2 < sum(batch.num_rows for batch in batches):
        # Only what is wanted is put together.
        batches, order = _select(batches, order)
    return pa.concat_batches(batches).take(arrow_values(order))


def kept_rows(batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows of a batch for which a mask is true: the batch itself, uncopied, where all are."""
    left_out = len(keep) - int(np.count_nonzero(keep))
    if not left_out:
        return batch
    mask = arrow_mask(keep)
    if left_out > len(keep) // _MOST_SHARE or not batch.num_columns:
        return batch.filter(mask)
    # Runs of rows that stay are copied as such here; a batch's filter takes row by row.
    arrays = [column.filter(mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _select(
    batches: Sequence[pa.RecordBatch], order: npt.NDArray[np.int64]
) -> tuple[list[pa.RecordBatch], npt.NDArray[np.int64]]:
    """The rows of each batch that are wanted, and the order renumbered to them."""
    bounds = np.cumsum([0, *(batch.num_rows for batch in batches)])
    batch_of = np.searchsorted(bounds[1:], order, side="right")
    # Small numbers are sorted in one pass each byte.
    small = np.uint16 if len(batches) <= 1 << 16 else np.int64
    by_batch = np.argsort(batch_of.astype(small), kind="stable")
    ends = np.cumsum([0, *np.bincount(batch_of, minlength=len(batches))])
    chosen = [
        batch.take(arrow_values(order[by_batch[start:end]] - first))
        for batch, first, (start, end) in zip(batches, bounds[:-1], pairwise(ends), strict=True)
    ]
    places = np.empty_like(order)
    places[by_batch] = np.arange(len(order))
    return chosen, places
