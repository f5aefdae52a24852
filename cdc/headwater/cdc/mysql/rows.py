"""Rows events of a table, decoded to Arrow columns.

A row has no length, so where a row begins follows from the one before it. The events of a batch are
walked in lock step instead: the i-th row of every event is one NumPy step. Once the rows' offsets
are known, each column of all rows is one gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import LogBytes, Nulls, Offsets
from headwater.cdc.columns.gather import MAX_CELL_BYTES
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

_LENGTHS = {1: "u1", 2: "<u2", 3: "<u4", 4: "<u4"}
# How many rows of each event are fetched together, and the longest that are.
_FETCHED_ROWS, _MAX_FETCHED_BYTES = 8, 512
_CACHE_LINE_BYTES = 64


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
        left_out: How many rows before updates were left out.
    """

    shape: TableShape
    rows: pa.Table
    kinds: pa.Array
    column_sets: tuple[tuple[str, ...], ...]
    column_set: pa.Array | None
    left_out: int = 0


def decode_rows(
    shape: TableShape,
    slab: RowsSlab,
    options: DecodeOptions | None = None,
    keys: Sequence[str] = (),
) -> RowBatch:
    """Decode rows of one table.

    Args:
        shape: The table when these rows were written.
        slab: The rows, in the order of the log.
        options: How values without an equal in Arrow are decoded.
        keys: Leave out the row before an update if it has the values of these columns in common
            with the row after it, unless the log has parts of them; none leaves no row out.

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
    log = LogBytes(slab.data)
    pieces: list[_Piece] = []
    for images, heads in groups.items():
        chosen = slab.ends > slab.starts
        if len(groups) > 1:
            chosen &= np.isin(slab.heads, heads)
        events = np.flatnonzero(chosen)
        if len(events):
            pieces += _decode_group(shape, slab, log, events, images, options, keys)
    return _assemble(shape, pieces, options)


class _Section(NamedTuple):
    """Columns of fixed width, and the length of a variable column after them.

    Args:
        widths: Of each byte of the null bitmap that has some of them: its index, and for each of
            its values the bytes that these columns take.
        length: The bytes of the length; 0 without a variable column.
        distance: How many bytes of the row before the length are in every row: those of columns
            that are never null, and of their lengths.
        not_null: Where the variable column may be null: the index of its byte of the null bitmap,
            and for each of its values 1 or, if the column is null, 0.
    """

    widths: tuple[tuple[int, npt.NDArray[np.int64]], ...]
    length: int
    distance: int
    not_null: tuple[int, npt.NDArray[np.int64]] | None


class _Image:
    """The layout of rows that have some columns of a table."""

    def __init__(self, shape: TableShape, bitmap: bytes) -> None:
        self.bitmap = bitmap
        self.indexes = [
            index for index in range(len(shape.columns)) if bitmap[index >> 3] >> (index & 7) & 1
        ]
        self.columns = [shape.columns[index] for index in self.indexes]
        self.lengths = [length_width(column) for column in self.columns]
        self.widths = [
            length or fixed_width(column)
            for length, column in zip(self.lengths, self.columns, strict=True)
        ]
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
        self.sections = list(self._sections())
        nullable = {index >> 3 for index, column in enumerate(self.columns) if column.nullable}
        self.nullable_bytes = sorted(nullable)

    def _sections(self) -> Iterator[_Section]:
        distance, widths = self.null_bytes, dict[int, npt.NDArray[np.int64]]()
        for index, (column, length) in enumerate(zip(self.columns, self.lengths, strict=True)):
            byte = index >> 3
            not_null = (_BYTES >> (index & 7) & 1) ^ 1
            if length:
                nullable = (byte, not_null) if column.nullable else None
                yield _Section(tuple(widths.items()), length, distance, nullable)
                widths = {}
            if not column.nullable:
                distance += self.widths[index]
            elif not length:
                widths[byte] = widths.get(byte, 0) + self.widths[index] * not_null
        yield _Section(tuple(widths.items()), 0, distance, None)

    def run(self, first: int, nulls: Sequence[Nulls]) -> tuple[int, int]:
        """Columns of fixed width whose bytes lie at constant distances from those of a first one.

        Args:
            first: The first column.
            nulls: Which rows of each column are null.

        Returns:
            The column after these, and how many bytes they take.
        """
        used = 0
        for index in range(first, len(self.columns)):
            if self.lengths[index] or used + self.widths[index] > MAX_CELL_BYTES:
                return index, used
            used += self.widths[index]
            if nulls[index] is not None:
                return index + 1, used
        return len(self.columns), used


_BYTES = np.arange(256)


class _Piece(NamedTuple):
    """Rows of one layout: their kinds, where each begins, and how many others are left out."""

    table: pa.Table
    image: _Image
    kinds: npt.NDArray[np.int8]
    offsets: Offsets
    left_out: int = 0


@lru_cache(maxsize=1024)
def _image(shape: TableShape, bitmap: bytes) -> _Image:
    return _Image(shape, bitmap)


def _decode_group(
    shape: TableShape,
    slab: RowsSlab,
    log: LogBytes,
    events: npt.NDArray[np.int64],
    bitmaps: tuple[bytes, ...],
    options: DecodeOptions,
    keys: Sequence[str],
) -> Iterator[_Piece]:
    """Decode the rows of events of one layout."""
    images = [_image(shape, bitmap) for bitmap in bitmaps]
    offsets, counts = _row_offsets(log, slab.starts[events], slab.ends[events], images, shape)
    heads = slab.heads[events]
    if (counts % np.array([len(head.images) for head in slab.known])[heads]).any():
        raise _wrong_shape(shape, "an update has one image only")
    kinds = np.repeat(np.array([head.kind for head in slab.known], np.int8)[heads], counts)
    is_update = kinds == RowKind.UPDATE_BEFORE
    if is_update.any():
        numbers = np.arange(len(offsets)) - np.repeat(np.cumsum(counts) - counts, counts)
        kinds += is_update & (numbers % 2 == 1)
        if keys and len(images) == 1:
            needed = _needed_rows(log, offsets, kinds, images[0], shape, options, keys)
            left_out = len(kinds) - int(np.count_nonzero(needed))
            offsets, kinds = offsets[needed], kinds[needed]
            table = _decode_image(log, offsets, images[0], shape, options)
            yield _Piece(table, images[0], kinds, offsets, left_out)
            return
    # If there are two images, all events are updates, and have them in turns.
    for position, image in enumerate(images):
        chosen = slice(position, None, len(images))
        table = _decode_image(log, offsets[chosen], image, shape, options)
        yield _Piece(table, image, kinds[chosen], offsets[chosen])


def _needed_rows(
    log: LogBytes,
    offsets: Offsets,
    kinds: npt.NDArray[np.int8],
    image: _Image,
    shape: TableShape,
    options: DecodeOptions,
    keys: Sequence[str],
) -> npt.NDArray[np.bool_]:
    """Which rows are needed: all but those before updates whose key stays."""
    needed = np.ones(len(kinds), np.bool_)
    wanted = [at for at, column in enumerate(image.columns) if column.name in keys]
    if len(wanted) < len(keys):
        return needed
    (before,) = np.nonzero(kinds == RowKind.UPDATE_BEFORE)
    for first in range(0, len(before), CHUNK_ROWS):
        rows = before[first : first + CHUNK_ROWS]
        old = _decode_columns(log, offsets[rows], image, shape, options, wanted)
        new = _decode_columns(log, offsets[rows + 1], image, shape, options, wanted)
        moved = np.zeros(len(rows), np.bool_)
        for one, other in zip(old, new, strict=True):
            moved |= np.asarray(pc.fill_null(pc.not_equal(one, other), True))
        needed[rows] = moved
    return needed


def _row_offsets(
    log: LogBytes, starts: Offsets, ends: Offsets, images: list[_Image], shape: TableShape
) -> tuple[Offsets, npt.NDArray[np.int64]]:
    """Where each row begins, in the order of the log, and how many rows each event has."""
    steps: list[tuple[npt.NDArray[np.int64] | None, Offsets]] = []
    counts = np.zeros(len(starts), np.int64)
    # Events that have more rows; None is all.
    active: npt.NDArray[np.int64] | None = None
    while len(starts):
        steps.append((active, starts))
        try:
            following = _next_rows(log, starts, images[(len(steps) - 1) % len(images)])
        except IndexError as error:
            raise log.outside() from error
        more = following < ends
        if not more.all():
            last = ~more
            if (following[last] != ends[last]).any():
                raise _wrong_shape(shape, "a row ends after its event")
            if active is None:
                active = np.arange(len(starts))
            counts[active[last]] = len(steps)
            active, following, ends = active[more], following[more], ends[more]
            starts = starts[more]
        if len(steps) % _FETCHED_ROWS == 1 and len(starts):
            _fetch(log, following, int((following - starts).mean()))
        starts = following
    first = np.cumsum(counts) - counts
    offsets = np.empty(int(counts.sum()), np.int64)
    for number, (active, starts) in enumerate(steps):
        offsets[(first if active is None else first[active]) + number] = starts
    return offsets, counts


def _fetch(log: LogBytes, starts: Offsets, row_bytes: int) -> None:
    """Have the next rows of each event in the processor's cache.

    Events lie far apart: a processor that meets their rows one by one waits for each of them, one
    that reads many at once waits once.
    """
    if row_bytes <= _MAX_FETCHED_BYTES:
        lines = np.arange(0, _FETCHED_ROWS * row_bytes, _CACHE_LINE_BYTES)
        log.view("u1").take(starts[:, np.newaxis] + lines, mode="clip")


def _next_rows(log: LogBytes, starts: Offsets, image: _Image) -> Offsets:
    """Where the row after each row begins."""
    bits = {byte: log.view("u1", byte).take(starts) for byte in image.nullable_bytes}
    ends = starts.copy()
    for section in image.sections:
        for byte, widths in section.widths:
            ends += widths.take(bits[byte])
        if not section.length:
            ends += section.distance
            break
        sizes = _lengths_of_few(log, ends, section.distance, section.length)
        if section.not_null is not None:
            byte, not_null = section.not_null
            sizes = np.add(sizes, section.length, dtype=np.int64)
            sizes *= not_null.take(bits[byte])
        ends += sizes
    return ends


def _lengths_of_few(
    log: LogBytes, offsets: Offsets, distance: int, width: int
) -> npt.NDArray[np.integer[Any]]:
    """Read lengths as `_lengths`, faster for a few hundred offsets."""
    if width != 2:
        return _lengths(log, offsets, distance, width)
    low = log.view("u1", distance).take(offsets)
    high = log.view("u1", distance + 1).take(offsets)
    return low + high * np.int64(256) if np.count_nonzero(high) else low


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
    log: LogBytes,
    rows: Offsets,
    image: _Image,
    shape: TableShape,
    options: DecodeOptions,
    wanted: Sequence[int] | None = None,
) -> list[pa.Array]:
    """The columns of an image, or some of them, in its order."""
    wanted = range(len(image.columns)) if wanted is None else wanted
    nulls = _null_flags(log, rows, image, shape)
    # The columns up to one are in cells, which begin at a distance from a position in each row.
    covered, cells, cells_at = 0, None, 0
    position, distance = rows, image.null_bytes
    arrays = []
    for index, column in enumerate(image.columns[: max(wanted, default=-1) + 1]):
        is_null, length = nulls[index], image.lengths[index]
        if length:
            sizes = _lengths(log, position, distance, length)
            if is_null is not None:
                sizes *= ~is_null
            begin = position + (distance + length)
            if index in wanted:
                arrays.append(decode_variable(column, log, begin, is_null, sizes))
            position, distance, covered = begin + sizes, 0, index + 1
            if is_null is not None:
                position -= length * is_null
            continue
        if index == covered:
            covered, width = image.run(index, nulls)
            cells, cells_at = log.cells(position, width, distance), distance
        assert cells is not None
        if index in wanted:
            field = cells.at(distance - cells_at)
            arrays.append(decode_fixed(column, field, is_null, options))
        distance += image.widths[index]
        if is_null is not None:
            position, distance = position + distance, 0
            position -= image.widths[index] * is_null
    return arrays


def _lengths(log: LogBytes, offsets: Offsets, distance: int, width: int) -> Offsets:
    """Read lengths of `width` bytes at a distance from each offset."""
    sizes: Offsets = log.gather(_LENGTHS[width], offsets, distance).astype(np.int64)
    if width == 3:
        sizes &= 0xFFFFFF
    return sizes


def _null_flags(log: LogBytes, rows: Offsets, image: _Image, shape: TableShape) -> list[Nulls]:
    """Which rows of each column are null; None where none is."""
    flags: list[Nulls] = [None] * len(image.columns)
    for byte in range(image.null_bytes):
        bits = log.gather("u1", rows, byte)
        any_null = int(np.bitwise_or.reduce(bits))
        if any_null & image.not_null[byte]:
            raise _wrong_shape(shape, "a column that is not nullable is null")
        for index in range(8 * byte, min(8 * byte + 8, len(flags))):
            bit = 1 << (index & 7)
            if any_null & bit:
                flags[index] = bits & bit != 0
    return flags


def _assemble(shape: TableShape, pieces: list[_Piece], options: DecodeOptions) -> RowBatch:
    """Put the rows of all layouts into the order of the log."""
    if not pieces:
        return RowBatch(
            shape, _schema(shape, options).empty_table(), pa.array([], pa.int8()), (), None
        )
    rows = pa.concat_tables(piece.table for piece in pieces)
    kinds = np.concatenate([piece.kinds for piece in pieces])
    bitmaps = list(dict.fromkeys(piece.image.bitmap for piece in pieces))
    sets = [
        np.full(len(piece.kinds), bitmaps.index(piece.image.bitmap), np.int32) for piece in pieces
    ]
    column_set = None
    if not all(piece.image.is_complete for piece in pieces):
        column_set = np.concatenate(sets)
    if len({piece.image for piece in pieces}) > 1:
        order = np.argsort(np.concatenate([piece.offsets for piece in pieces]))
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
        sum(piece.left_out for piece in pieces),
    )
