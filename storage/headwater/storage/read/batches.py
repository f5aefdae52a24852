"""Batches of rows on their way to who reads: filtered, with the names of kinds, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.predicate.filter import Predicate, filter_rows, to_expression
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import KIND_NAMES
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["coalesced", "filtered", "with_kind_names"]

_KINDS = tuple(KIND_NAMES.values())
# A batch of so many rows costs no more to pass on than to copy.
_ENOUGH_ROWS = 16384
_ENOUGH_BYTES = 16 * 1024**2


def with_kind_names(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of a batch, then ``_ROW_KIND``: ``+I`` where it has no ``_VALUE_KIND``."""
    at = batch.schema.get_field_index(KIND_FIELD.name)
    if at < 0:
        kinds = pa.repeat(_KINDS[0], batch.num_rows)
    else:
        kinds = pa.array(_KINDS).take(batch.column(at))
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in names), kinds], names=[*names, ROW_KIND_COLUMN]
    )


def filtered(
    rows: Iterable[pa.RecordBatch], schema: TableSchema, predicate: Predicate
) -> Iterator[pa.RecordBatch]:
    """The rows for which a predicate is true."""
    keep = to_expression(predicate, schema)
    for batch in rows:
        kept = filter_rows(batch, keep)
        if kept.num_rows:
            yield from kept.combine_chunks().to_batches()


def coalesced(rows: Iterable[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Small batches that follow each other put together, great ones parted; rows in their order."""
    waiting: list[pa.RecordBatch] = []
    held = size = 0
    enough = min(batch_rows // 4, _ENOUGH_ROWS)
    for batch in rows:
        if batch.num_rows == 0:
            continue
        large = batch.num_columns == 0 or batch.num_rows >= enough or batch.nbytes >= _ENOUGH_BYTES
        if waiting and (large or held * 2 >= batch_rows or size >= _ENOUGH_BYTES):
            yield pa.concat_batches(waiting)
            waiting, held, size = [], 0, 0
        if large and (parts := batch.num_rows // batch_rows) > 1:
            step = -(-batch.num_rows // parts)
            yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))
        elif large:
            yield batch
        else:
            waiting.append(batch)
            held += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)
