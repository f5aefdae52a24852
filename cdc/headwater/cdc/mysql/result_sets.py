"""Rows of a query, read a column at a time from the packets of the text protocol.

Source: the page "Text Resultset Row" of MySQL's client and server protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pymysql.connections import Connection
from pymysql.constants import COMMAND
from pymysql.err import MySQLError

from headwater.cdc.mysql.server import Address, explained, meaning
from headwater.storage.errors import Unavailable

__all__ = ["text_columns"]

# The size of a packet in three bytes and its number, and the first byte of what it has.
_HEAD = struct.Struct("<IB")
_HEAD_BYTES = 4
_MAX_PACKET = (1 << 24) - 1
_READ_BYTES = 4 << 20
# A short text lies within its view, of which twelve bytes are gathered.
_INLINE_BYTES = 12
_NULL, _TWO, _THREE, _EIGHT = 0xFB, 0xFC, 0xFD, 0xFE
_END, _ERROR = 0xFE, 0xFF
_END_BYTES = 9

Offsets = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def text_columns(
    connection: Connection, address: Address, statement: str
) -> Iterator[Sequence[pa.Array]]:
    """Run a query, and read its rows batch by batch.

    Args:
        connection: A connection that nobody else uses meanwhile.
        address: The server, for messages.
        statement: The query.

    Yields:
        The columns of some rows, each ``binary_view``: numbers and times are in their text form.
        They refer to the packets' bytes.

    Raises:
        Forbidden, Invalid: The server rejects the query.
        Unavailable: The connection is lost.
    """
    with explained(address):
        connection._execute_command(COMMAND.COM_QUERY, statement)
        columns = connection._read_packet().read_length_encoded_integer()
        for _ in range(columns + 1):
            connection._read_packet()  # each column's definition, and the end of them
    data, needed = b"", _HEAD_BYTES
    while True:
        data += _received(connection, address, needed - len(data))
        starts, at, needed, ended = _frame(data, address)
        if starts:
            yield _columns(data[:at], np.array(starts, np.int64), columns)
        if ended:
            return
        data = data[at:]
        needed -= at
        if needed == _HEAD_BYTES + _MAX_PACKET:
            row, data = _large_row(connection, address, data, needed)
            yield _columns(row, np.zeros(1, np.int64), columns)
            needed = 0


def _received(connection: Connection, address: Address, least: int) -> bytes:
    """The next bytes of a result, at least so many."""
    parts: list[bytes] = []
    while least > 0:
        try:
            part = connection._rfile.read1(max(least, _READ_BYTES))
        except OSError as error:
            raise Unavailable(f"the source at {address} is lost: {error}") from error
        if not part:
            raise Unavailable(f"the source at {address} has ended the connection within a result")
        parts.append(part)
        least -= len(part)
    return b"".join(parts)


def _frame(data: bytes, address: Address) -> tuple[list[int], int, int, bool]:
    """The places of whole rows, their end, that of the next packet, and whether it is the last."""
    starts: list[int] = []
    at, size = 0, len(data)
    head_at, append = _HEAD.unpack_from, starts.append
    while at + _HEAD_BYTES <= size:
        # A packet's place follows from the one before, so what is done for each is kept to a
        # minimum. A packet that is not surely a whole row is looked at below.
        while at + _HEAD.size <= size:
            head, kind = head_at(data, at)
            end = at + _HEAD_BYTES + (head & _MAX_PACKET)
            if end > size or kind >= _END or end - at > _MAX_PACKET:
                break
            append(at + _HEAD_BYTES)
            at = end
        if at + _HEAD_BYTES > size:
            break
        length = int.from_bytes(data[at : at + 3], "little")
        begin, end = at + _HEAD_BYTES, at + _HEAD_BYTES + length
        if end > size or length == _MAX_PACKET:
            return starts, at, end, False
        kind = data[begin]
        if kind == _END and length < _END_BYTES:
            return starts, at, end, True
        if kind == _ERROR:
            code = int.from_bytes(data[begin + 1 : begin + 3], "little")
            text = data[begin + _END_BYTES : end].decode(errors="replace")
            raise meaning(address, MySQLError(code, text))
        append(begin)
        at = end
    return starts, at, at + _HEAD_BYTES, False


def _large_row(
    connection: Connection, address: Address, data: bytes, end: int
) -> tuple[bytes, bytes]:
    """A row of several packets, the first of which ends there, and what follows it."""
    parts: list[bytes] = []
    length, begin = _MAX_PACKET, _HEAD_BYTES
    while True:
        data += _received(connection, address, end - len(data))
        parts.append(data[begin:end])
        data = data[end:]
        if length < _MAX_PACKET:
            return b"".join(parts), data
        data += _received(connection, address, _HEAD_BYTES - len(data))
        length = int.from_bytes(data[:3], "little")
        end = begin + length


def _columns(data: bytes, starts: Offsets, count: int) -> Sequence[pa.Array]:
    """The columns of the rows that begin at some places."""
    padded = np.frombuffer(data + bytes(_INLINE_BYTES), np.uint8)
    buffer = pa.py_buffer(padded)
    columns: list[pa.Array] = []
    at = starts
    for _ in range(count):
        offsets, lengths, is_null = _lengths(padded, at)
        columns.append(_views(padded, buffer, offsets, lengths, is_null))
        at = offsets + lengths
    return columns


def _lengths(data: Bytes, at: Offsets) -> tuple[Offsets, Offsets, npt.NDArray[np.bool_]]:
    """The places and lengths in bytes of values with their lengths before them."""
    first = data[at]
    is_null = first == _NULL
    offsets, lengths = at + 1, first.astype(np.int64)
    lengths[is_null] = 0
    for mark, size in ((_TWO, 2), (_THREE, 3), (_EIGHT, 8)):
        (rows,) = np.nonzero(first == mark)
        if len(rows):
            number = np.zeros(len(rows), np.int64)
            for index in range(size):
                number |= data[at[rows] + 1 + index].astype(np.int64) << (8 * index)
            lengths[rows] = number
            offsets[rows] += size
    return offsets, lengths, is_null


def _views(
    data: Bytes,
    buffer: pa.Buffer,
    offsets: Offsets,
    lengths: Offsets,
    is_null: npt.NDArray[np.bool_],
) -> pa.Array:
    """Values as views of the data."""
    views = np.zeros((len(offsets), 4), np.int32)
    views[:, 0] = lengths
    words = np.ndarray(
        (len(data) - _INLINE_BYTES + 1, 3), "<i4", buffer=data, strides=(1, 4)
    )  # at each byte
    inline = words[offsets]
    is_long = lengths > _INLINE_BYTES
    kept = np.clip(lengths[:, None] - np.array([0, 4, 8]), 0, 4)
    masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32).view(np.int32)
    views[:, 1:] = inline & masks[kept]
    views[is_long, 1] = inline[is_long, 0]
    views[is_long, 2] = 0
    views[is_long, 3] = offsets[is_long]
    validity = None
    if is_null.any():
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary_view(), len(offsets), [validity, pa.py_buffer(views), buffer]
    )
