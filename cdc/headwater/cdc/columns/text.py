"""Text and bytes of variable length, which Arrow takes out of the log."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns.gather import Cells, LogBytes, Nulls, Offsets, validity_bitmap
from headwater.storage.errors import CorruptData


@dataclass(frozen=True, slots=True)
class Charset:
    """How bytes of text are decoded.

    Args:
        name: The source's name for it, for error messages.
        codec: Python's codec.
        unit: How many bytes a code unit takes: 1, 2 or 4.
        ascii: Whether bytes below 0x80 outside of multibyte characters are ASCII.
        table: The character of each byte, for a charset of one byte; it replaces the codec.
        replacements: What replaces characters that the codec returns, as for ``str.translate``.
    """

    name: str
    codec: str
    unit: int = 1
    ascii: bool = True
    table: str | None = None
    replacements: Mapping[int, str | int] | None = None

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes are UTF-8 as they are."""
        return self.codec == "utf-8"

    def decode(self, data: bytes | memoryview) -> str:
        """Decode one string.

        Raises:
            CorruptData: The bytes are not of this charset.
        """
        try:
            if self.table is not None:
                return codecs.charmap_decode(data, "strict", self.table)[0]
            text = str(data, self.codec)
            return text if self.replacements is None else text.translate(self.replacements)
        except UnicodeDecodeError as error:
            wrong = bytes(error.object[error.start : error.end + 3])
            raise CorruptData(
                f"cannot decode text as {self.name}: bytes {wrong.hex(' ')} at {error.start} are "
                f"not valid ({error.reason}); correct the value in the source"
            ) from error


def binary_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, lengths: npt.NDArray[np.int64]
) -> pa.Array:
    """Copy byte strings out of the log.

    Args:
        log: The bytes.
        offsets: Where each string begins; none begins before the end of the one before it.
        nulls: Which of them are null.
        lengths: How many bytes each string has; 0 where it is null.

    Returns:
        An array of ``binary``.

    Raises:
        CorruptData: A string lies outside of the bytes, or begins too early.
    """
    rows = len(offsets)
    if not rows:
        return pa.array([], pa.binary())
    spaced = _with_gaps(log, offsets, lengths, None)
    values = spaced.take(pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32)))
    if nulls is None:
        return values
    _, *buffers = values.buffers()
    return pa.Array.from_buffers(pa.binary(), rows, [validity_bitmap(nulls), *buffers])


def spaced_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, lengths: npt.NDArray[np.int64]
) -> pa.Array:
    """Find byte strings in the log, which are not copied.

    Args:
        log, offsets, nulls, lengths: As for `binary_column`.

    Returns:
        An array of ``binary`` with the strings at even places and nulls between them, see
        `values_at_even_places`.

    Raises:
        CorruptData: A string lies outside of the bytes, or begins too early.
    """
    if not len(offsets):
        return pa.array([], pa.binary())
    are_null = np.ones(2 * len(offsets) - 1, np.bool_)
    are_null[::2] = False if nulls is None else nulls
    return _with_gaps(log, offsets, lengths, validity_bitmap(are_null))


def _with_gaps(
    log: LogBytes,
    offsets: Offsets,
    lengths: npt.NDArray[np.int64],
    validity: pa.Buffer | None,
) -> pa.Array:
    """The log as one array of strings: those of a column, and what lies between them."""
    bounds = np.empty(2 * len(offsets), np.int32)
    bounds[::2] = offsets
    np.add(offsets, lengths, out=bounds[1::2], casting="unsafe")
    log.check_bounds(bounds)
    buffers = [validity, pa.py_buffer(bounds), log.buffer]
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


def cell_bytes_column(cells: Cells, nulls: Nulls, width: int) -> pa.Array:
    """Read byte strings of one width, as an array of ``binary``; nulls have no bytes."""
    data = cells.byte_matrix(width)
    bounds = np.zeros(cells.rows + 1, np.int32)
    if nulls is None:
        bounds[1:] = np.arange(1, cells.rows + 1) * width
    else:
        data = data[~nulls]
        bounds[1:] = np.cumsum(~nulls) * width
    buffers = [validity_bitmap(nulls), pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), cells.rows, buffers)


def fixed_binary_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, lengths: npt.NDArray[np.int64], width: int
) -> pa.Array:
    """Copy byte strings of one width, of which a log leaves out the zeros at the end.

    Returns:
        An array of ``binary``, each value with `width` bytes.
    """
    values = binary_column(log, offsets, nulls, lengths)
    if bool((lengths == width).all()):
        return values
    padded = pc.binary_join_element_wise(values, bytes(width), b"")
    return pc.binary_slice(padded, 0, width)


def text_column(
    log: LogBytes,
    offsets: Offsets,
    nulls: Nulls,
    lengths: npt.NDArray[np.int64],
    charset: Charset,
) -> pa.Array:
    """Copy text out of the log, as an array of ``string``.

    Raises:
        CorruptData: A value is not of this charset.
    """
    return decode_text(binary_column(log, offsets, nulls, lengths), charset)


def decode_text(values: pa.Array, charset: Charset) -> pa.Array:
    """Decode ``binary`` values to ``string``.

    Raises:
        CorruptData: A value is not of this charset.
    """
    if charset.ascii and _is_ascii(values):
        return _as_string(values)
    if not charset.is_utf8:
        return transcode(values, charset)
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptData(
            f"cannot decode text as {charset.name}: a value is not valid UTF-8; correct it in the "
            "source"
        ) from error


def _is_ascii(values: pa.Array) -> bool:
    _, data = _contents(values)
    return not len(data) or bool(data.max() < 0x80)


def _as_string(values: pa.Array) -> pa.Array:
    """Text whose bytes are UTF-8, without a copy."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)


def transcode(values: pa.Array, charset: Charset) -> pa.Array:
    """Decode ``binary`` values of a charset to ``string``, all of them with one call of its codec.

    A NUL ends each value in the bytes that the codec reads, and in the UTF-8 that comes back. Which
    NULs end a value is counted in the source's bytes, so values may contain them. No multibyte
    charset has the byte 0 within a character; where code units are wider, units are counted.
    """
    unit = charset.unit
    bounds, source = _contents(pc.binary_join_element_wise(values.fill_null(b""), bytes(unit), b""))
    if (bounds % unit).any():
        raise CorruptData(
            f"cannot decode text as {charset.name}: a value's bytes are not a multiple of {unit}; "
            "correct it in the source"
        )
    nul_counts = np.cumsum(source.view(f"u{unit}") == 0)
    decoded = np.frombuffer(charset.decode(source.tobytes()).encode(), np.uint8)
    ends = np.flatnonzero(decoded == 0)[nul_counts[bounds[1:] // unit - 1] - 1]
    text = np.ones(len(decoded), np.bool_)
    text[ends] = False
    text_bounds = np.zeros(len(values) + 1, np.int32)
    text_bounds[1:] = ends - np.arange(len(values))
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    buffers = [validity_bitmap(nulls), pa.py_buffer(text_bounds), pa.py_buffer(decoded[text])]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _contents(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The bounds of each value in the bytes of all values, and these bytes."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(len(values) + 1, np.int32), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return bounds - bounds[0], np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
