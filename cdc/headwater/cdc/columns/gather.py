"""Fixed-width values gathered from raw bytes, and the Arrow arrays that they make."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported

ByteOrder: TypeAlias = Literal["little", "big"]
Offsets: TypeAlias = npt.NDArray[np.int64]
"""The offset of each row's value in the log, bytes."""
Nulls: TypeAlias = npt.NDArray[np.bool_] | None
"""Whether each row's value is null; None where none is."""
Words: TypeAlias = npt.NDArray[np.uint64]

# Columns that lie side by side are copied as one block, up to so many bytes of each row.
MAX_CELL_BYTES = 240
# Any integer may be read as eight bytes, of which it has the first or the last ones.
WORD_BYTES = 8
# A null or short value at the end of the log is gathered like any other, up to this many bytes.
PADDING = 64
# Arrow's offsets of text address a buffer with 31 bits.
MAX_LOG_BYTES = 2**31 - 1 - PADDING


class Cells:
    """Some bytes of each row, which lie at one distance from those of the row before.

    Args:
        block: The bytes.
        stride: The distance, bytes.
        offset: Where those of the first row begin.
    """

    __slots__ = ("_block", "_offset", "_stride", "rows")

    def __init__(self, block: npt.NDArray[Any], stride: int, offset: int = 0) -> None:
        self._block, self._stride, self._offset = block, stride, offset
        self.rows = len(block)

    def at(self, offset: int) -> Cells:
        """The bytes from an offset on."""
        return Cells(self._block, self._stride, self._offset + offset)

    def read(self, dtype: str, offset: int = 0, to: str | None = None) -> npt.NDArray[Any]:
        """Read a value of a NumPy type of each row, in memory of Arrow.

        Args:
            dtype: The type that is stored.
            offset: Where it is.
            to: The type that is returned, in the machine's byte order; None is the stored one.
        """
        stored = np.dtype(dtype)
        values = new_values(self.rows, stored.newbyteorder("=") if to is None else np.dtype(to))
        if self.rows:
            values[:] = np.ndarray(
                (self.rows,), stored, self._block, self._offset + offset, (self._stride,)
            )
        return values

    def byte_matrix(self, width: int) -> npt.NDArray[np.uint8]:
        """Some bytes of each row, a row each."""
        if not self.rows:
            return np.zeros((0, width), np.uint8)
        shape, strides = (self.rows, width), (self._stride, 1)
        return np.ndarray(shape, np.uint8, self._block, self._offset, strides).copy()


class LogBytes:
    """The bytes of some events, and views that read a value at any of their offsets.

    Args:
        data: The bytes, with `PADDING` bytes of any value after them.

    Raises:
        Unsupported: There are 2 GiB of bytes or more.
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.size = len(data) - PADDING
        if self.size > MAX_LOG_BYTES:
            raise Unsupported(
                f"cannot decode {self.size} bytes at once: at most {MAX_LOG_BYTES} are supported; "
                "decode fewer events at once"
            )
        self._data = data
        self.buffer = pa.py_buffer(data)
        self._views: dict[tuple[str, int], npt.NDArray[Any]] = {}

    @staticmethod
    def joined(parts: Iterable[bytes | bytearray | memoryview]) -> LogBytes:
        """The bytes of some parts, which are copied."""
        return LogBytes(b"".join((*parts, bytes(PADDING))))

    def view(self, dtype: str, distance: int = 0) -> npt.NDArray[Any]:
        """A value of a NumPy type at a distance from every offset; nothing is copied.

        The values need not be aligned.
        """
        view = self._views.get((dtype, distance))
        if view is None:
            item = np.dtype(dtype)
            count = max(0, len(self._data) - distance - item.itemsize + 1)
            view = np.ndarray((count,), item, self._data, distance if count else 0, (1,))
            self._views[dtype, distance] = view
        return view

    def gather(self, dtype: str, offsets: Offsets, distance: int = 0) -> npt.NDArray[Any]:
        """Read a value of a NumPy type at a distance from each offset.

        Raises:
            CorruptData: An offset is outside of the bytes.
        """
        view = self.view(dtype, distance)
        try:
            return view.take(offsets) if dtype == "u1" else view[offsets]
        except IndexError as error:
            raise self.outside() from error

    def check_bounds(self, bounds: npt.NDArray[np.int32]) -> None:
        """Check that values lie in the bytes, one after the other.

        Args:
            bounds: Where each value begins and ends.

        Raises:
            CorruptData: They do not.
        """
        is_inside = bounds[0] >= 0 and bounds[-1] <= len(self._data)
        if not is_inside or (bounds[1:] < bounds[:-1]).any():
            raise self.outside()

    def outside(self) -> CorruptData:
        """The error for an offset outside of the bytes."""
        return CorruptData(
            f"cannot decode rows: a value lies outside of their {self.size} bytes; the table "
            "map does not describe these rows"
        )

    def cells(self, offsets: Offsets, width: int, distance: int = 0) -> Cells:
        """Copy some bytes at a distance from each offset.

        Args:
            offsets: The offsets.
            width: How many bytes; `MAX_CELL_BYTES` at most.
            distance: Where they begin.

        Raises:
            CorruptData: An offset is outside of the bytes.
        """
        stride = 1 if width == 1 else width + WORD_BYTES
        block = self.gather("u1" if width == 1 else f"V{stride}", offsets, distance)
        return Cells(block, stride)


def unsigned_integers(cells: Cells, width: int, order: ByteOrder = "little") -> Words:
    """Read unsigned integers of 1 to 8 bytes as ``uint64``."""
    prefix = "<" if order == "little" else ">"
    if width in (1, 2, 4, 8):
        return cells.read(f"{prefix}u{width}", to="u8")
    words: Words = cells.read(f"{prefix}u8")
    if order == "big":
        words >>= np.uint64(8 * (8 - width))
    else:
        words &= np.uint64((1 << 8 * width) - 1)
    return words


def signed_integers(cells: Cells, width: int, order: ByteOrder = "little") -> npt.NDArray[np.int64]:
    """Read integers of 1 to 8 bytes in two's complement as ``int64``."""
    prefix = "<" if order == "little" else ">"
    if width in (1, 2, 4, 8):
        return cells.read(f"{prefix}i{width}", to="i8")
    spare = 8 * (8 - width)
    words = unsigned_integers(cells, width, order) << np.uint64(spare)
    return words.view(np.int64) >> np.int64(spare)


def integer_column(
    cells: Cells,
    nulls: Nulls,
    width: int,
    *,
    signed: bool = True,
    order: ByteOrder = "little",
    type_: pa.DataType | None = None,
) -> pa.Array:
    """Read integers of 1 to 8 bytes.

    Args:
        cells: The bytes of each value.
        nulls: Which of them are null.
        width: How many bytes a value has.
        signed: Whether they are in two's complement.
        order: The order of their bytes.
        type_: An integer type that holds all of them; None is Arrow's smallest of that signedness
            that has as many bytes: ``int32`` for three bytes.
    """
    kind = "i" if signed else "u"
    if type_ is None:
        size = next(size for size in (1, 2, 4, 8) if size >= width)
        type_ = pa.from_numpy_dtype(np.dtype(f"{kind}{size}"))
    dtype = np.dtype(type_.to_pandas_dtype())
    values: npt.NDArray[Any]
    if width in (1, 2, 4, 8):
        values = cells.read(f"{'<' if order == 'little' else '>'}{kind}{width}", to=dtype.str)
    elif signed:
        values = signed_integers(cells, width, order)
    else:
        values = unsigned_integers(cells, width, order)
    return primitive_array(values.astype(dtype, copy=False), type_, nulls)


def float_column(cells: Cells, nulls: Nulls, width: int, order: ByteOrder = "little") -> pa.Array:
    """Read IEEE floats of 4 or 8 bytes as ``float32`` or ``float64``."""
    values = cells.read(f"{'<' if order == 'little' else '>'}f{width}")
    return primitive_array(values, pa.from_numpy_dtype(values.dtype), nulls)


def new_values(rows: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Allocate uninitialised NumPy values in Arrow's memory, which Arrow reuses."""
    item = np.dtype(dtype)
    return (
        np.frombuffer(pa.allocate_buffer(rows * item.itemsize), item) if rows else np.empty(0, item)
    )


def primitive_array(values: npt.NDArray[Any], type_: pa.DataType, nulls: Nulls) -> pa.Array:
    """Make an Arrow array of a fixed-width type from NumPy's values."""
    assert sys.byteorder == "big" or values.dtype.byteorder in "=|<"
    owner = values.base
    if isinstance(owner, np.ndarray):
        owner = owner.base
    if len(values) and not isinstance(owner, pa.Buffer):
        copied = new_values(len(values), values.dtype)
        copied[:] = values
        values = copied
    return pa.Array.from_buffers(type_, len(values), [validity_bitmap(nulls), pa.py_buffer(values)])


def values_at_even_places(values: pa.Array) -> pa.Array:
    """The values at even places of an array of a fixed width of whole bytes.

    Args:
        values: Those at odd places are null.
    """
    if len(values) < 2:
        return values
    rows = (len(values) + 1) // 2
    validity, data = values.buffers()
    assert validity is not None
    assert data is not None
    assert not values.offset
    nulls: Nulls = None
    if values.null_count > len(values) - rows:
        bits = np.frombuffer(validity, np.uint8)
        nulls = np.unpackbits(bits, count=len(values), bitorder="little")[::2] == 0
    # Numbers of one, two, four or eight bytes, of which decimals have two.
    width = values.type.bit_width // 8
    item, per_value = min(width, 8), max(1, width // 8)
    numbers = np.frombuffer(data, f"i{item}", per_value * len(values)).reshape(-1, per_value)
    buffer = pa.allocate_buffer(rows * width)
    np.frombuffer(buffer, numbers.dtype).reshape(-1, per_value)[:] = numbers[::2]
    return pa.Array.from_buffers(values.type, rows, [validity_bitmap(nulls), buffer])


def validity_bitmap(nulls: Nulls) -> pa.Buffer | None:
    """Arrow's bitmap of rows that are not null; None where no row is null."""
    if nulls is None or not nulls.any():
        return None
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))
