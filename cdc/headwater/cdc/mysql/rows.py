"""Rows events of a table, decoded to Arrow columns.

A row has no length, so where a row begins follows from the one before it. The events of a batch are
walked in lock step instead: the i-th row of every event is one NumPy step. Once the rows' offsets
are known, each column of all rows is one gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns import LogBytes, Offsets, unsigned_integers
from headwater.cdc.mysql.packed_rows import RowsSlab
from headwater.cdc.mysql.table_map import TableShape
from headwater.cdc.mysql.values import (
    DecodeOptions,
    arrow_type,
    decode_fixed,
    decode_variable,
    fixed_width,
    length_width,
)
from headwater.storage.errors import CorruptData
from headwater.storage.rows.kinds import RowKind

# Rows whose columns are gathered together: more do not stay in the processor's caches.
CHUNK_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Decoded rows of one table, in the order of the log.

    Args:
        shape: The table.
        rows: All of the table's columns, with the types of `arrow_type`. A column that a partial
            image does not have is null.
        kinds: The row kind of each row, as ``int8`` (`RowKind`).
        column_sets: The columns that rows have, by name, one set for each kind of partial image.
        column_set: The index in `column_sets` of each row, as ``int32``; None where every row has
            every column.
    """

    shape: TableShape
    rows: pa.Table
    kinds: pa.Array
    column_sets: tuple[tuple[str, ...], ...]
    column_set: pa.Array | None


def decode_rows(
    shape: TableShape, slab: RowsSlab, options: DecodeOptions | None = None
) -> RowBatch:
    """Decode rows of one table.

    Args:
        shape: The table when these rows were written.
        slab: The rows, in the order of the log.
        options: How values without an equal in Arrow are decoded.

    Raises:
        CorruptData: The rows are not of this shape.
        Invalid: The lake does not have a date, and `options` rejects it.
        Unsupported: A column's character set is not supported.
    """
    options = options or DecodeOptions()
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for index, head in enumerate(slab.known):
        if head.column_count != len(shape.columns):
            raise CorruptData(
                f"cannot decode rows of {shape.qualified_name}: expected {len(shape.columns)} "
                f"columns, got {head.column_count}; decode them with the TABLE_MAP before them"
            )
        # An update whose images have the same columns is two rows of one layout.
        images = head.images[:1] if len(set(head.images)) == 1 else head.images
        groups.setdefault(images, []).append(index)
    log = LogBytes([slab.data])
    starts = np.concatenate([np.zeros(1, np.int64), slab.ends[:-1]])
    pieces: list[_Piece] = []
    for images, heads in groups.items():
        chosen = (slab.ends > starts) & np.isin(slab.heads, heads)
        events = np.flatnonzero(chosen)
        if len(events):
            pieces += _decode_group(shape, slab, log, starts, events, images, options)
    return _assemble(shape, slab, pieces, options)


class _Image:
    """The layout of rows that have some columns of a table."""

    def __init__(self, shape: TableShape, bitmap: bytes) -> None:
        self.bitmap = bitmap
        self.indexes = [
            index for index in range(len(shape.columns)) if bitmap[index >> 3] >> (index & 7) & 1
        ]
        self.columns = [shape.columns[index] for index in self.indexes]
        self.lengths = [length_width(column) for column in self.columns]
        self.widths = [fixed_width(column) for column in self.columns]
        self.null_bytes = (len(self.columns) + 7) // 8
        self.is_complete = len(self.columns) == len(shape.columns)
        self.not_null = [
            sum(
                1 << bit
                for bit, column in enumerate(self.columns[8 * byte : 8 * byte + 8])
                if not column.nullable
            )
            for byte in range(self.null_bytes)
        ]


class _Piece(NamedTuple):
    """Rows of one layout, with the event of each row and its number in the event."""

    table: pa.Table
    image: _Image
    events: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


@lru_cache(maxsize=1024)
def _image(shape: TableShape, bitmap: bytes) -> _Image:
    return _Image(shape, bitmap)


def _decode_group(
    shape: TableShape,
    slab: RowsSlab,
    log: LogBytes,
    starts: Offsets,
    events: npt.NDArray[np.int64],
    bitmaps: tuple[bytes, ...],
    options: DecodeOptions,
) -> Iterator[_Piece]:
    """Decode the rows of events of one layout."""
    images = [_image(shape, bitmap) for bitmap in bitmaps]
    offsets, counts = _row_offsets(log, starts[events], slab.ends[events], images, shape)
    per_row = np.array([len(head.images) for head in slab.known])[slab.heads[events]]
    if (counts % per_row).any():
        raise _wrong_shape(shape, "an update has one image only")
    first = np.cumsum(counts) - counts
    numbers = np.arange(len(offsets)) - np.repeat(first, counts)
    row_events = np.repeat(events, counts)
    for position, image in enumerate(images):
        chosen: slice | npt.NDArray[np.int64] = slice(None)
        if len(images) > 1:
            chosen = np.flatnonzero(numbers % len(images) == position)
        table = _decode_image(log, offsets[chosen], image, shape, options)
        yield _Piece(table, image, row_events[chosen], numbers[chosen])


def _row_offsets(
    log: LogBytes, starts: Offsets, ends: Offsets, images: list[_Image], shape: TableShape
) -> tuple[Offsets, npt.NDArray[np.int64]]:
    """Where each row begins, in the order of the log, and how many rows each event has."""
    steps: list[tuple[npt.NDArray[np.int64], Offsets]] = []
    active = np.arange(len(starts))
    event_count = len(starts)
    while len(starts):
        steps.append((active, starts))
        starts = _next_rows(log, starts, images[(len(steps) - 1) % len(images)])
        if (starts > ends).any():
            raise _wrong_shape(shape, "a row ends after its event")
        more = starts < ends
        if not more.all():
            active, starts, ends = active[more], starts[more], ends[more]
    counts = np.zeros(event_count, np.int64)
    for active, _ in steps:
        counts[active] += 1
    first = np.cumsum(counts) - counts
    offsets = np.empty(int(counts.sum()), np.int64)
    for number, (active, starts) in enumerate(steps):
        offsets[first[active] + number] = starts
    return offsets, counts


def _next_rows(log: LogBytes, starts: Offsets, image: _Image) -> Offsets:
    """Where the row after each row begins."""
    ends = starts + image.null_bytes
    constant = 0
    bits = np.zeros(0, np.uint8)
    any_null = 0
    for index, (length, width) in enumerate(zip(image.lengths, image.widths, strict=True)):
        if not index & 7:
            bits = log.gather("u1", starts + (index >> 3))
            any_null = int(np.bitwise_or.reduce(bits))
        bit = 1 << (index & 7)
        if not length:
            if any_null & bit:
                ends = ends + np.where(bits & bit, 0, width)
            else:
                constant += width
            continue
        if constant:
            ends = ends + constant
            constant = 0
        size = _lengths(log, ends, length)
        size += length
        if any_null & bit:
            size[bits & bit != 0] = 0
        ends = ends + size
    return ends + constant


def _lengths(log: LogBytes, offsets: Offsets, width: int) -> npt.NDArray[np.int64]:
    return unsigned_integers(log, offsets, width).view(np.int64)


def _wrong_shape(shape: TableShape, why: str) -> CorruptData:
    return CorruptData(
        f"cannot decode rows of {shape.qualified_name}: {why}; decode them with the TABLE_MAP "
        "before them, and read the log again from its source"
    )


def _decode_image(
    log: LogBytes, offsets: Offsets, image: _Image, shape: TableShape, options: DecodeOptions
) -> pa.Table:
    schema = _schema(shape, options)
    batches = []
    for first in range(0, len(offsets), CHUNK_ROWS):
        rows = offsets[first : first + CHUNK_ROWS]
        arrays = _decode_columns(log, rows, image, shape, options)
        if not image.is_complete:
            present = dict(zip(image.indexes, arrays, strict=True))
            arrays = [
                present[index] if index in present else pa.nulls(len(rows), field.type)
                for index, field in enumerate(schema)
            ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


@lru_cache(maxsize=1024)
def _schema(shape: TableShape, options: DecodeOptions) -> pa.Schema:
    # A NOT NULL column may be null here: in a partial image, and for a date that does not exist.
    return pa.schema(
        [pa.field(column.name, arrow_type(column, options)) for column in shape.columns]
    )


def _decode_columns(
    log: LogBytes, rows: Offsets, image: _Image, shape: TableShape, options: DecodeOptions
) -> list[pa.Array]:
    position = rows + image.null_bytes
    constant = 0
    arrays = []
    bits = np.zeros(0, np.uint8)
    any_null = 0
    for index, column in enumerate(image.columns):
        if not index & 7:
            bits = log.gather("u1", rows + (index >> 3))
            any_null = int(np.bitwise_or.reduce(bits))
            if any_null & image.not_null[index >> 3]:
                raise _wrong_shape(shape, "a column that is not nullable is null")
        bit = 1 << (index & 7)
        nulls = bits & bit != 0 if any_null & bit else None
        offsets = position + constant if constant else position
        length = image.lengths[index]
        if length:
            sizes = _lengths(log, offsets, length)
            if nulls is not None:
                sizes[nulls] = 0
            arrays.append(decode_variable(column, log, offsets + length, nulls, sizes))
            sizes = sizes + length
            if nulls is not None:
                sizes[nulls] = 0
            position, constant = offsets + sizes, 0
            continue
        arrays.append(decode_fixed(column, log, offsets, nulls, options))
        if nulls is None:
            constant += image.widths[index]
        else:
            position, constant = offsets + np.where(nulls, 0, image.widths[index]), 0
    return arrays


def _assemble(
    shape: TableShape, slab: RowsSlab, pieces: list[_Piece], options: DecodeOptions
) -> RowBatch:
    """Put the rows of all layouts into the order of the log."""
    if not pieces:
        return RowBatch(
            shape, _schema(shape, options).empty_table(), pa.array([], pa.int8()), (), None
        )
    rows = pa.concat_tables(piece.table for piece in pieces)
    row_events = np.concatenate([piece.events for piece in pieces])
    numbers = np.concatenate([piece.numbers for piece in pieces])
    first_kinds = np.array([head.kind for head in slab.known], np.int8)
    kinds = first_kinds[slab.heads[row_events]]
    kinds += (kinds == RowKind.UPDATE_BEFORE) & (numbers % 2 == 1)
    bitmaps = list(dict.fromkeys(piece.image.bitmap for piece in pieces))
    sets = [
        np.full(len(piece.events), bitmaps.index(piece.image.bitmap), np.int32) for piece in pieces
    ]
    column_set = None
    if not all(piece.image.is_complete for piece in pieces):
        column_set = np.concatenate(sets)
    if len({piece.image for piece in pieces}) > 1:
        order = np.lexsort((numbers, row_events))
        rows, kinds = rows.take(pa.array(order)), kinds[order]
        column_set = None if column_set is None else column_set[order]
    column_sets = tuple(
        tuple(column.name for column in _image(shape, bitmap).columns) for bitmap in bitmaps
    )
    return RowBatch(
        shape,
        rows,
        pa.array(kinds),
        column_sets,
        None if column_set is None else pa.array(column_set),
    )
