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

# A null or short value at the end of the log is gathered like any other, up to this many bytes.
PADDING = 64
# Arrow's string views address a buffer with 31 bits.
MAX_LOG_BYTES = 2**31 - 1 - PADDING


class LogBytes:
    """The bytes of some events, joined, and views that read a value at any of their offsets.

    Args:
        parts: The bytes, in order. They are copied once.

    Raises:
        Unsupported: There are 2 GiB of bytes or more.
    """

    def __init__(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join((*parts, bytes(PADDING)))
        self.size = len(data) - PADDING
        if self.size > MAX_LOG_BYTES:
            raise Unsupported(
                f"cannot decode {self.size} bytes at once: at most {MAX_LOG_BYTES} are supported; "
                "decode fewer events at once"
            )
        self._data = data
        self.buffer = pa.py_buffer(data)
        self._views: dict[str, npt.NDArray[Any]] = {}

    def gather(self, dtype: str, offsets: Offsets) -> npt.NDArray[Any]:
        """Read a value of a NumPy type at each offset, which need not be aligned.

        Raises:
            CorruptData: An offset is outside of the bytes.
        """
        view = self._views.get(dtype)
        if view is None:
            item = np.dtype(dtype)
            shape = (len(self._data) - item.itemsize + 1,)
            view = np.ndarray(shape=shape, dtype=item, buffer=self._data, strides=(1,))
            self._views[dtype] = view
        try:
            return view[offsets]
        except IndexError as error:
            raise CorruptData(
                f"cannot decode rows: a value lies outside of their {self.size} bytes; the table "
                "map does not describe these rows"
            ) from error


def unsigned_integers(
    log: LogBytes, offsets: Offsets, width: int, order: ByteOrder = "little"
) -> npt.NDArray[np.uint64]:
    """Read unsigned integers of 1 to 8 bytes as ``uint64``."""
    prefix = "<" if order == "little" else ">"
    if width in (1, 2, 4, 8):
        return log.gather(f"{prefix}u{width}", offsets).astype(np.uint64)
    words = log.gather(f"{prefix}u8", offsets)
    spare = np.uint64(8 * (8 - width))
    if order == "big":
        return np.asarray(words >> spare, np.uint64)
    return np.asarray(words & np.uint64((1 << 8 * width) - 1), np.uint64)


def signed_integers(
    log: LogBytes, offsets: Offsets, width: int, order: ByteOrder = "little"
) -> npt.NDArray[np.int64]:
    """Read integers of 1 to 8 bytes in two's complement as ``int64``."""
    prefix = "<" if order == "little" else ">"
    if width in (1, 2, 4, 8):
        return log.gather(f"{prefix}i{width}", offsets).astype(np.int64)
    spare = 8 * (8 - width)
    words = unsigned_integers(log, offsets, width, order) << np.uint64(spare)
    return words.view(np.int64) >> np.int64(spare)


def integer_column(
    log: LogBytes,
    offsets: Offsets,
    nulls: Nulls,
    width: int,
    *,
    signed: bool = True,
    order: ByteOrder = "little",
) -> pa.Array:
    """Gather integers of 1 to 8 bytes.

    Returns:
        An array of Arrow's smallest type of that signedness that has as many bytes: ``int32`` for
        three bytes.
    """
    size = next(size for size in (1, 2, 4, 8) if size >= width)
    values: npt.NDArray[Any]
    if size == width:
        prefix = "<" if order == "little" else ">"
        values = log.gather(f"{prefix}{'i' if signed else 'u'}{width}", offsets)
    elif signed:
        values = signed_integers(log, offsets, width, order)
    else:
        values = unsigned_integers(log, offsets, width, order)
    dtype = np.dtype(f"{'i' if signed else 'u'}{size}")
    return primitive_array(values.astype(dtype, copy=False), pa.from_numpy_dtype(dtype), nulls)


def float_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, width: int, order: ByteOrder = "little"
) -> pa.Array:
    """Gather IEEE floats of 4 or 8 bytes as ``float32`` or ``float64``."""
    prefix = "<" if order == "little" else ">"
    dtype = np.dtype(f"f{width}")
    values = log.gather(f"{prefix}f{width}", offsets).astype(dtype, copy=False)
    return primitive_array(values, pa.from_numpy_dtype(dtype), nulls)


def bit_flags(log: LogBytes, offsets: Offsets, index: int) -> npt.NDArray[np.bool_]:
    """Read one bit of a bitmap that begins at each offset, the lowest bit of a byte first."""
    flags: npt.NDArray[np.bool_] = (log.gather("u1", offsets + (index >> 3)) >> (index & 7)) & 1 > 0
    return flags


def primitive_array(values: npt.NDArray[Any], type_: pa.DataType, nulls: Nulls) -> pa.Array:
    """Make an Arrow array of a fixed-width type from NumPy's values."""
    assert sys.byteorder == "big" or values.dtype.byteorder in "=|<"
    buffer = pa.py_buffer(b"")
    if len(values):
        # A copy in Arrow's memory: that of NumPy would not be used again for anything else.
        buffer = pa.allocate_buffer(values.nbytes)
        np.frombuffer(buffer, values.dtype)[:] = values
    return pa.Array.from_buffers(type_, len(values), [validity_bitmap(nulls), buffer])


def validity_bitmap(nulls: Nulls) -> pa.Buffer | None:
    """Arrow's bitmap of rows that are not null; None where no row is null."""
    if nulls is None or not nulls.any():
        return None
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))
