"""Batches whose sizes tell nothing of the rows that were left out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

__all__ = ["even_batches"]

# Whoever waits for rows gives up after a minute without a byte, or longer.
_LONGEST_SILENCE_SECONDS = 5.0


def even_batches(
    batches: Iterator[pa.RecordBatch], rows: int, monotonic: Callable[[], float]
) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of the same size; the last one has the rest.

    An empty batch says that it goes on where none was full for some seconds.

    Args:
        batches: Batches of any sizes, each with a column.
        rows: Rows of a batch.
        monotonic: The monotonic clock, seconds.
    """
    kept: list[pa.RecordBatch] = []
    count = 0
    last = monotonic()
    for batch in batches:
        if batch.num_rows:
            kept.append(batch)
            count += batch.num_rows
        if count >= rows:
            whole = pa.concat_batches(kept)
            end = count - count % rows
            for start in range(0, end, rows):
                yield _copied(whole, start, start + rows)
            kept, count = ([whole.slice(end)] if end < count else []), count - end
            last = monotonic()
        elif monotonic() - last >= _LONGEST_SILENCE_SECONDS:
            yield batch.slice(0, 0)
            last = monotonic()
    if count:
        yield _copied(pa.concat_batches(kept), 0, count)


def _copied(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Some rows of a batch, without the others that a slice would be written with."""
    return batch.take(pa.array(np.arange(start, end, dtype=np.int64)))
