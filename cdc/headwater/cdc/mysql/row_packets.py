"""The packets of a result's rows, cut out of what a connection receives.

Source: the pages "MySQL Packets" and "Protocol::EOF_Packet" of MySQL's client and server protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from pymysql.connections import Connection
from pymysql.err import MySQLError

from headwater.cdc.columns import LogBytes, Offsets
from headwater.cdc.mysql.server import Address, meaning
from headwater.storage.errors import Unavailable

__all__ = ["RowPackets"]

# The size of a packet in three bytes and its number, and the first byte of what it has.
_HEAD = struct.Struct("<IB")
_HEAD_BYTES = 4
_MAX_PACKET = (1 << 24) - 1
# Rows of so many bytes are decoded together: more do not stay in the processor's caches, and of
# fewer the calls cost more than the values.
_DECODED_BYTES = 2 << 20
_BUFFER_BYTES = 2 * _DECODED_BYTES
_END, _ERROR = 0xFE, 0xFF
_END_BYTES = 9


class RowPackets:
    """The rows of a result whose columns were read.

    Args:
        connection: A connection that nobody else uses meanwhile.
        address: The server, for messages.
    """

    def __init__(self, connection: Connection, address: Address) -> None:
        self._connection, self._address = connection, address
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        self._is_ahead = True

    def __iter__(self) -> Iterator[tuple[LogBytes, Offsets]]:
        """Read whole rows, some megabytes at a time.

        Yields:
            The bytes of some rows, and where each row begins in them.

        Raises:
            Invalid: The server ends the result with an error.
            Unavailable: The connection is lost.
        """
        starts: list[int] = []
        at, needed, ended = 0, _HEAD_BYTES, False
        while not ended:
            self._receive(needed)
            at, needed, ended = self._frame(starts, at)
            is_large = needed - at == _HEAD_BYTES + _MAX_PACKET
            if starts and (ended or is_large or at >= _DECODED_BYTES):
                yield LogBytes([memoryview(self._buffer)[:at]]), np.array(starts, np.int64)
                starts = []
            if not starts:
                self._drop(at)
                at, needed = 0, needed - at
            if is_large:
                yield self._large_row(), np.zeros(1, np.int64)
                at, needed = 0, _HEAD_BYTES

    def _receive(self, least: int) -> None:
        """Receive what there is, until the buffer has so many bytes at least."""
        if least > len(self._buffer):
            self._buffer.extend(bytes(least - len(self._buffer)))
        with memoryview(self._buffer) as buffer:
            while self._filled < least:
                with buffer[self._filled :] as room:
                    count = self._received(room)
                if not count:
                    raise Unavailable(
                        f"the source at {self._address} has ended the connection within a result"
                    )
                self._filled += count

    def _received(self, room: memoryview) -> int:
        try:
            if self._is_ahead:
                # What was received with the columns' definitions, and nothing else.
                self._is_ahead = False
                part = self._connection._rfile.read1(len(room))
                room[: len(part)] = part
                return len(part)
            return int(self._connection._sock.recv_into(room))
        except OSError as error:
            raise Unavailable(f"the source at {self._address} is lost: {error}") from error

    def _drop(self, count: int) -> None:
        """Forget the first bytes of the buffer."""
        self._buffer[: self._filled - count] = self._buffer[count : self._filled]
        self._filled -= count

    def _frame(self, starts: list[int], at: int) -> tuple[int, int, bool]:
        """Find the whole rows from an offset on.

        Returns:
            Where they end, where the packet after them ends, and whether the result is at its end.
        """
        data, size = self._buffer, self._filled
        head_at, append = _HEAD.unpack_from, starts.append
        while at + _HEAD_BYTES <= size:
            # Where a packet begins follows from the one before, so what is done for each is kept
            # to a minimum. A packet that is not surely a whole row is looked at below.
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
                return at, end, False
            kind = data[begin]
            if kind == _END and length < _END_BYTES:
                return at, end, True
            if kind == _ERROR:
                code = int.from_bytes(data[begin + 1 : begin + 3], "little")
                text = data[begin + _END_BYTES : end].decode(errors="replace")
                raise meaning(self._address, MySQLError(code, text))
            append(begin)
            at = end
        return at, at + _HEAD_BYTES, False

    def _large_row(self) -> LogBytes:
        """The row at the beginning of the buffer, which has several packets."""
        parts: list[bytes] = []
        length = _MAX_PACKET
        while length == _MAX_PACKET:
            self._receive(_HEAD_BYTES)
            length = int.from_bytes(self._buffer[:3], "little")
            end = _HEAD_BYTES + length
            self._receive(end)
            parts.append(bytes(memoryview(self._buffer)[_HEAD_BYTES:end]))
            self._drop(end)
        return LogBytes(parts)
