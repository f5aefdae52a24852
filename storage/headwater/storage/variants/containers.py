"""The objects and arrays among variants: taking them apart and putting them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.variants.layout import (
    Bytes,
    Numbers,
    byte_counts,
    bytes_of,
    check,
    end_to_end,
    joined,
    numbers_at,
    put_numbers,
    runs,
    slices,
)

__all__ = ["ARRAY", "OBJECT", "Parts", "arrays", "basic_types", "objects", "parts"]

PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
# By the number of a primitive type; strings and binaries say their length themselves.
_SIZES = np.full(64, -1, np.int64)
_SIZES[:21] = [1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5, 9, 9, 9, 17]
_BINARY, _STRING = 15, 16


@dataclass(frozen=True)
class Parts:
    """The fields of objects, or the elements of arrays.

    Attributes:
        owners: The value that each part is of, ascending.
        ids: The number of a field's name; 0 for elements.
        values: The parts, as LARGE_BINARY.
    """

    owners: Numbers
    ids: Numbers
    values: pa.Array


def basic_types(values: pa.Array) -> Numbers:
    """`PRIMITIVE`, `SHORT_STRING`, `OBJECT` or `ARRAY` of each value; -1 for nulls.

    Raises:
        ValueError: A value has no bytes.
    """
    data, places = bytes_of(values)
    found = np.full(len(values), -1, np.int64)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    begins = places[:-1][there]
    check(begins < places[1:][there], "a value has no bytes")
    found[there] = data[begins] & 3
    return found


def parts(values: pa.Array, basic_type: int) -> Parts:
    """The parts of those values that are objects, or arrays.

    Args:
        values: LARGE_BINARY.
        basic_type: `OBJECT` or `ARRAY`; values of other types have no parts.

    Raises:
        ValueError: The bytes are no variants.
    """
    chosen = np.flatnonzero(basic_types(values) == basic_type)
    data, places = bytes_of(values)
    begins, ends = places[:-1][chosen], places[1:][chosen]
    shape = _Shape.of(data, begins)
    check(shape.bodies <= ends, "an object or array is cut off")
    owners, numbers = runs(shape.counts)
    id_widths, widths = shape.id_widths[owners], shape.offset_widths[owners]
    ids = numbers_at(data, shape.ids[owners] + numbers * id_widths, id_widths)
    starts = shape.bodies[owners] + numbers_at(
        data, shape.offsets[owners] + numbers * widths, widths
    )
    lengths = _lengths(data, starts, ends[owners])
    return Parts(chosen[owners], ids, slices(data, starts, lengths))


@dataclass(frozen=True)
class _Shape:
    """The beginnings of the sections of objects and arrays."""

    counts: Numbers
    ids: Numbers
    id_widths: Numbers
    offsets: Numbers
    offset_widths: Numbers
    bodies: Numbers

    @staticmethod
    def of(data: Bytes, begins: Numbers) -> _Shape:
        header = data[begins].astype(np.int64) if len(begins) else begins
        is_object = header & 3 == OBJECT
        info = header >> 2
        is_large = np.where(is_object, info >> 4, info >> 2) & 1
        id_widths = np.where(is_object, ((info >> 2) & 3) + 1, 0)
        offset_widths = (info & 3) + 1
        count_widths = np.where(is_large == 1, 4, 1)
        counts = numbers_at(data, begins + 1, count_widths)
        # A count that cannot be is told before memory is asked for it.
        check(counts <= len(data), "an object or array is cut off")
        ids = begins + 1 + count_widths
        offsets = ids + counts * id_widths
        bodies = offsets + (counts + 1) * offset_widths
        return _Shape(counts, ids, id_widths, offsets, offset_widths, bodies)


def _lengths(data: Bytes, begins: Numbers, limits: Numbers) -> Numbers:
    """The bytes of the values that begin there.

    Raises:
        ValueError: One has an unknown type, or ends behind its limit.
    """
    check(begins < limits, "a part lies outside of its object or array")
    header = data[begins].astype(np.int64) if len(begins) else begins
    basic, info = header & 3, header >> 2
    lengths = np.where(basic == SHORT_STRING, 1 + info, _SIZES[info])
    is_long = (basic == PRIMITIVE) & ((info == _BINARY) | (info == _STRING))
    lengths[is_long] += numbers_at(data, begins[is_long] + 1, np.full(is_long.sum(), 4))
    nested = basic >= OBJECT
    shape = _Shape.of(data, begins[nested])
    last = shape.offsets + shape.counts * shape.offset_widths
    ends = shape.bodies + numbers_at(data, last, shape.offset_widths)
    lengths[nested] = ends - begins[nested]
    check(lengths > 0, "a part has a type that is not known")
    check(begins + lengths <= limits, "a part lies outside of its object or array")
    return lengths


def objects(count: int, fields: Parts, ranks: Numbers) -> pa.Array:
    """Objects of fields.

    Args:
        count: The number of objects; one without fields is empty.
        fields: Their fields, in any order.
        ranks: Numbers that order the names of the fields.

    Returns:
        LARGE_BINARY.

    Raises:
        ValueError: An object has two fields of one name.
    """
    order = np.lexsort((ranks, fields.owners))
    owners, ranks = fields.owners[order], ranks[order]
    twice = (owners[1:] == owners[:-1]) & (ranks[1:] == ranks[:-1])
    check(~twice, "an object has two fields of one name")
    counts = np.bincount(owners, minlength=count).astype(np.int64)
    return _containers(counts, fields.values.take(pa.array(order)), fields.ids[order])


def arrays(counts: Numbers, elements: pa.Array) -> pa.Array:
    """Arrays of the first ``counts[0]`` elements, the next ``counts[1]``, and so on."""
    return _containers(counts, elements, None)


def _containers(counts: Numbers, items: pa.Array, ids: Numbers | None) -> pa.Array:
    firsts = np.cumsum(counts) - counts
    ends = np.zeros(len(items) + 1, np.int64)
    np.cumsum(pc.binary_length(items).to_numpy(zero_copy_only=False), out=ends[1:])
    sizes = ends[firsts + counts] - ends[firsts]
    check(sizes < 1 << 31, "an object or array has more than 2 GiB")
    is_large = counts > 0xFF
    count_widths = np.where(is_large, 4, 1)
    widths = byte_counts(sizes)
    id_widths = np.zeros(len(counts), np.int64)
    if ids is not None:
        greatest = np.zeros(len(counts), np.int64)
        if len(ids):
            greatest[counts > 0] = np.maximum.reduceat(ids, firsts[counts > 0])
        id_widths = byte_counts(greatest)
    lengths = 1 + count_widths + counts * id_widths + (counts + 1) * widths
    begins = np.cumsum(lengths) - lengths
    heads = np.zeros(int(lengths.sum()), np.uint8)
    if ids is None:
        heads[begins] = (is_large.astype(np.int64) << 4) | ((widths - 1) << 2) | ARRAY
    else:
        info = (is_large.astype(np.int64) << 4) | ((id_widths - 1) << 2) | (widths - 1)
        heads[begins] = (info << 2) | OBJECT
    put_numbers(heads, begins + 1, counts, count_widths)
    owners, numbers = runs(counts)
    id_places = begins + 1 + count_widths
    if ids is not None:
        put_numbers(heads, id_places[owners] + numbers * id_widths[owners], ids, id_widths[owners])
    places = id_places + counts * id_widths
    offsets = ends[:-1] - ends[firsts[owners]]
    put_numbers(heads, places[owners] + numbers * widths[owners], offsets, widths[owners])
    put_numbers(heads, places + counts * widths, sizes, widths)
    bodies = joined(items, counts)
    return pc.binary_join_element_wise(
        end_to_end(heads, lengths), bodies, pa.scalar(b"", pa.large_binary())
    )
