"""Arrow columns as the bytes of Avro rows, a column at a time.

The bytes that a column contributes to each row are an Arrow column of bytes themselves; those of a
row are what Arrow joins together. Source: ``FieldWriterFactory.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.formats.avro_schema import COUNT_TYPE, has_text_keys
from headwater.storage.types.arrow_numbers import (
    Integers,
    decimal_words,
    plain_numbers,
    shortest_decimals,
)
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from headwater.storage.types.nested_arrays import list_offsets, map_entries

__all__ = ["encode_rows", "zigzag_varints"]

Octets: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

_BYTES = pa.large_binary()
_NOTHING = b""
# The number of a union's branch; the end of a list.
_NULL, _VALUE, _END = b"\x00", b"\x02", b"\x00"
_FIXED = (Root.FLOAT, Root.DOUBLE)
_TEXTS = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY, Root.BLOB)


def encode_rows(rows: pa.RecordBatch, fields: Sequence[DataField]) -> pa.Array:
    """The bytes of each row.

    Args:
        rows: The columns of `fields`, in order, in the types' Arrow forms.
        fields: The columns.

    Returns:
        A ``large_binary`` column.

    Raises:
        Invalid: A part of a column that must not be null is.
    """
    parts: list[pa.Array | pa.Scalar] = []
    for column, item in zip(rows.columns, fields, strict=True):
        parts += _parts(column, item.type, item.name)
    return _joined(parts, rows.num_rows)


@cache
def _scalar(octets: bytes) -> pa.Scalar:
    """The same bytes in every row; made when asked for, as Arrow's first value imports pandas."""
    return pa.scalar(octets, _BYTES)


def _joined(parts: Sequence[pa.Array | pa.Scalar], count: int) -> pa.Array:
    """Columns that stand side by side, as one column."""
    if not any(isinstance(part, pa.Array) for part in parts):
        parts = [pa.repeat(_scalar(_NOTHING), count), *parts]
    return pc.binary_join_element_wise(*parts, _scalar(_NOTHING))


def _parts(array: pa.Array, data_type: DataType, column: str) -> list[pa.Array | pa.Scalar]:
    """The parts that a column contributes to each row, from left to right."""
    if not array.null_count:
        marks = [_scalar(_VALUE)] if data_type.nullable else []
        return [*marks, *_values(array, data_type, column)]
    if not data_type.nullable:
        raise Invalid(f"column '{column}' holds a null where its type {data_type} forbids it")
    valid = array.is_valid()
    mask: Mask = valid.to_numpy(zero_copy_only=False)
    values = _values(array.filter(valid), data_type, column)
    return [
        pc.if_else(valid, _scalar(_VALUE), _scalar(_NULL)),
        *(_spread(part, mask) for part in values),
    ]


def _spread(part: pa.Array | pa.Scalar, mask: Mask) -> pa.Array:
    """Values where the mask is true, and nothing where it is not."""
    if isinstance(part, pa.Scalar):
        return pc.if_else(pa.array(mask), part, _scalar(_NOTHING))
    lengths = np.zeros(len(mask), np.int64)
    lengths[mask] = np.diff(_offsets(part))
    return _binary(lengths, _content(part))


def _offsets(array: pa.Array) -> Integers:
    """The offsets of a ``large_binary`` column in its buffer."""
    return np.frombuffer(array.buffers()[1], np.int64, array.offset + len(array) + 1)[
        array.offset :
    ]


def _content(array: pa.Array) -> pa.Buffer | None:
    """The bytes of a ``large_binary`` column without nulls, end to end."""
    data = array.buffers()[2]
    if data is None:
        return None
    ends = _offsets(array)
    return data.slice(int(ends[0]), int(ends[-1] - ends[0]))


def _binary(lengths: Integers, data: Octets | pa.Buffer | None) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(b"" if data is None else data)
    return pa.Array.from_buffers(_BYTES, len(lengths), [None, pa.py_buffer(offsets), buffer])


def _values(array: pa.Array, data_type: DataType, column: str) -> list[pa.Array | pa.Scalar]:
    """The bytes of values none of which is null."""
    match data_type:
        case AtomicType():
            return _atomic(array, data_type)
        case VariantType():
            raise AssertionError(data_type)
        case RowType():
            found: list[pa.Array | pa.Scalar] = []
            for child, item in zip(array.flatten(), data_type.fields, strict=True):
                found += _parts(child, item.type, column)
            return found
        case ArrayType() | VectorType():
            values = array.flatten()
            return _listed(array, _parts(values, data_type.element, column), len(values))
        case MapType():
            return _mapped(array, data_type, data_type.key, data_type.value, column)
        case MultisetType():
            return _mapped(array, data_type, data_type.element, COUNT_TYPE, column)


def _mapped(
    array: pa.Array,
    data_type: MapType | MultisetType,
    key: DataType,
    value: DataType,
    column: str,
) -> list[pa.Array | pa.Scalar]:
    keys, values = map_entries(array)
    text = has_text_keys(data_type)
    key_parts = _values(keys, key, column) if text else _parts(keys, key, column)
    return _listed(array, [*key_parts, *_parts(values, value, column)], len(values))


def _listed(
    array: pa.Array, items: Sequence[pa.Array | pa.Scalar], count: int
) -> list[pa.Array | pa.Scalar]:
    """Lists: one block with all items, unless there are none, and the end."""
    bounds = list_offsets(array).to_numpy()
    counts = np.diff(bounds).astype(np.int64)
    holding = counts > 0
    joined = _joined(items, count)
    lengths = np.diff(_offsets(joined)[bounds])
    return [
        _spread(zigzag_varints(counts[holding]), holding),
        _binary(lengths, _content(joined)),
        _scalar(_END),
    ]


def _atomic(array: pa.Array, data_type: AtomicType) -> list[pa.Array | pa.Scalar]:
    root = data_type.root
    if root in _TEXTS:
        content = array.cast(_BYTES)
        lengths = pc.binary_length(content).to_numpy()
        return [zigzag_varints(lengths.astype(np.int64)), content]
    if root is Root.DECIMAL:
        digits = _decimals(array)
        return [zigzag_varints(np.diff(_offsets(digits))), digits]
    if root is Root.BOOLEAN:
        flags = array.cast(pa.uint8()).to_numpy()
        return [_binary(np.ones(len(array), np.int64), np.ascontiguousarray(flags))]
    numbers = plain_numbers(array)
    if root in _FIXED:
        width = numbers.dtype.itemsize
        data = np.ascontiguousarray(numbers).view(np.uint8)
        return [_binary(np.full(len(array), width, np.int64), data)]
    return [zigzag_varints(numbers.astype(np.int64))]


def zigzag_varints(numbers: Integers) -> pa.Array:
    """Whole numbers, seven bits a byte, the lowest first."""
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    lengths = np.ones(len(rest), np.int64)
    most = int(rest.max(initial=0))
    width = max(1, -(-most.bit_length() // 7))
    for at in range(1, width):
        lengths += rest >= np.uint64(1 << 7 * at)
    if width == 1:
        return _binary(lengths, rest.astype(np.uint8))
    places = np.arange(width)
    shifts = (7 * places).astype(np.uint64)
    octets = ((rest[:, None] >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    octets[places < lengths[:, None] - 1] |= 0x80
    return _binary(lengths, octets[places < lengths[:, None]])


def _decimals(array: pa.Array) -> pa.Array:
    """Unscaled numbers in two's complement, the highest byte first, as few bytes as will do."""
    sizes, first, last = shortest_decimals(*decimal_words(array))
    octets = np.stack([first, last], axis=1).view(np.uint8)
    lengths = sizes.astype(np.int64)
    return _binary(lengths, octets[np.arange(16) < lengths[:, None]])
