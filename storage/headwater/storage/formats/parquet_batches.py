"""Batches as Arrow decodes them fastest, brought to the types and sizes that are passed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["aligned", "with_plain_text"]

# Text of one Arrow column ends at 2 GiB.
_MOST_TEXT_BYTES = 1 << 30


def aligned(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of streams that hold columns of the same rows, cut to the shortest.

    They end with the first stream that does.
    """
    waiting: list[pa.RecordBatch | None] = [None] * len(streams)
    while True:
        found: list[pa.RecordBatch] = []
        for stream, batch in zip(streams, waiting, strict=True):
            while batch is None or not batch.num_rows:
                batch = next(stream, None)
                if batch is None:
                    return
            found.append(batch)
        rows = min(batch.num_rows for batch in found)
        yield [batch if batch.num_rows == rows else batch.slice(0, rows) for batch in found]
        waiting = [None if batch.num_rows == rows else batch.slice(rows) for batch in found]


def with_plain_text(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches whose text and binary columns, read as numbers of values or as large ones, are plain.

    A batch is parted where such a column would reach 2 GiB.
    """
    for batch in batches:
        if all(_plain_type(field.type) is None for field in batch.schema):
            yield batch
            continue
        rows = max(1, min(map(_fitting_rows, batch.columns)))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            columns = [_plain(column) for column in part.columns]
            yield pa.RecordBatch.from_arrays(columns, names=part.schema.names)


def _plain_type(arrow: pa.DataType) -> pa.DataType | None:
    """The type that values are passed on in; None for that they have."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_large_string(arrow):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(arrow) else None


def _fitting_rows(column: pa.Array) -> int:
    """Rows of a column, one after another, whose text is certain to fit."""
    rows = len(column)
    if pa.types.is_dictionary(column.type):
        longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        return min(rows, _MOST_TEXT_BYTES // max(longest, 1))
    if _plain_type(column.type) is None or column.nbytes <= _MOST_TEXT_BYTES:
        return rows
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    return min(rows, _MOST_TEXT_BYTES // max(longest, 1))


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    plain = _plain_type(column.type)
    # Only the ends of values are copied, not the values.
    return column if plain is None else column.cast(plain)
