"""The packets of a result's rows, cut out of what a connection receives.

Source: the pages "MySQL Packets" and "Protocol::EOF_Packet" of MySQL's client and server protocol.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator
from ssl import SSLSocket

import numpy as np
import numpy.typing as npt
from pymysql.connections import Connection
from pymysql.err import MySQLError

from headwater.cdc.columns import LogBytes, Offsets
from headwater.cdc.mysql.server import Address, meaning
from headwater.storage.errors import Unavailable

__all__ = ["RowPackets"]

# A packet's head is its length in three bytes, and its number, which wraps. One byte more tells
# whether the packet is a row.
_HEAD_BYTES = 4
_HEAD = struct.Struct("<IB")
_MAX_PACKET = (1 << 24) - 1
# Rows of so many bytes are decoded together: more do not stay in the processor's caches, and of
# fewer the calls cost more than the values.
_DECODED_BYTES = 2 << 20
_BUFFER_BYTES = 2 * _DECODED_BYTES
_END, _ERROR = 0xFE, 0xFF
_END_BYTES = 9
_END_LENGTH = b"\x05\x00\x00"
_WAIT_MILLISECONDS = 20
# Packets are walked from so many offsets at once, near the beginning of each lane of the bytes. A
# head must be followed by so many others to be believed.
_LANES = 128
_SEARCHED_BYTES = 512
_MIN_WALKED_BYTES = 4 * _LANES * _SEARCHED_BYTES
_FOLLOWING_HEADS = 3
# With fewer, a step of all of them takes longer than one step after the other.
_MIN_LANES = 32
_STEPS_AT_ONCE = 8


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
        self._poll = select.poll()
        self._poll.register(connection._sock, select.POLLIN)

    def __iter__(self) -> Iterator[tuple[LogBytes, Offsets]]:
        """Read whole rows, some megabytes at a time.

        Yields:
            The bytes of some rows, and where each row begins in them.

        Raises:
            Invalid: The server ends the result with an error.
            Unavailable: The connection is lost.
        """
        starts: list[Offsets] = []
        at, needed, ended = 0, _HEAD_BYTES, False
        while not ended:
            self._receive(needed)
            while self._filled - at < _DECODED_BYTES and self._has_more():
                self._receive(self._filled + 1)
            if self._filled - at >= _MIN_WALKED_BYTES:
                more = _walk(self._buffer, at, self._filled)
                if len(more):
                    starts.append(more)
                    at = int(more[-1]) + self._length(int(more[-1]) - _HEAD_BYTES)
            begins, at, needed, ended = self._frame(at)
            if begins:
                starts.append(np.array(begins, np.int64))
            is_large = needed - at == _HEAD_BYTES + _MAX_PACKET
            if starts and (ended or is_large or at >= _DECODED_BYTES):
                yield LogBytes.joined([memoryview(self._buffer)[:at]]), np.concatenate(starts)
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

    def _has_more(self) -> bool:
        """Whether more of the result comes soon: packets are walked faster when there are many."""
        tail = self._buffer[max(0, self._filled - _END_BYTES) : self._filled]
        if tail.startswith(_END_LENGTH) and tail.endswith(bytes([_END]), 0, _HEAD_BYTES + 1):
            return False
        socket = self._connection._sock
        # What TLS has decrypted is not seen by the system.
        is_pending = isinstance(socket, SSLSocket) and socket.pending() > 0
        return is_pending or bool(self._poll.poll(_WAIT_MILLISECONDS))

    def _drop(self, count: int) -> None:
        """Forget the first bytes of the buffer."""
        self._buffer[: self._filled - count] = self._buffer[count : self._filled]
        self._filled -= count

    def _length(self, at: int) -> int:
        """The length of what follows the head of a packet."""
        return int.from_bytes(self._buffer[at : at + 3], "little")

    def _frame(self, at: int) -> tuple[list[int], int, int, bool]:
        """Find the whole rows from an offset on.

        Returns:
            Where they begin and end, where the packet after them ends, and whether the result is at
            its end.
        """
        data, size = self._buffer, self._filled
        starts: list[int] = []
        head_at, append = _HEAD.unpack_from, starts.append
        while at + _HEAD_BYTES <= size:
            # For what is received in small pieces. A packet that is not surely a whole row is
            # looked at below.
            while at + _HEAD.size <= size:
                head, kind = head_at(data, at)
                end = at + _HEAD_BYTES + (head & _MAX_PACKET)
                if end > size or kind >= _END or end - at > _MAX_PACKET:
                    break
                append(at + _HEAD_BYTES)
                at = end
            if at + _HEAD_BYTES > size:
                break
            length = self._length(at)
            begin, end = at + _HEAD_BYTES, at + _HEAD_BYTES + length
            if end > size or length == _MAX_PACKET:
                return starts, at, end, False
            kind = data[begin]
            if kind == _END and length < _END_BYTES:
                return starts, at, end, True
            if kind == _ERROR:
                code = int.from_bytes(data[begin + 1 : begin + 3], "little")
                text = data[begin + _END_BYTES : end].decode(errors="replace")
                raise meaning(self._address, MySQLError(code, text))
            starts.append(begin)
            at = end
        return starts, at, at + _HEAD_BYTES, False

    def _large_row(self) -> LogBytes:
        """The row at the beginning of the buffer, which has several packets."""
        parts: list[bytes] = []
        length = _MAX_PACKET
        while length == _MAX_PACKET:
            self._receive(_HEAD_BYTES)
            length = self._length(0)
            end = _HEAD_BYTES + length
            self._receive(end)
            parts.append(bytes(memoryview(self._buffer)[_HEAD_BYTES:end]))
            self._drop(end)
        return LogBytes.joined(parts)


def _walk(buffer: bytearray, at: int, size: int) -> Offsets:
    """Find whole rows from an offset on, in lock step from several offsets.

    Where a packet begins follows from the one before. So that not each takes a step of its own, the
    bytes are divided into lanes, and a packet is looked for at the beginning of each. Such a guess
    is right if the packets of the lane before end exactly there.

    Args:
        buffer: The bytes.
        at: Where a packet begins.
        size: The end of the bytes.

    Returns:
        Where rows begin, from the first one on. Others may follow.
    """
    # Eight bytes at each offset, as NumPy's indexes have eight.
    heads = np.ndarray((size - 2 * _HEAD_BYTES,), "<i8", buffer, strides=(1,))
    lanes = np.append(at, _guesses(buffer, heads, at))
    if len(lanes) < _MIN_LANES:
        return lanes[:0]
    last = len(heads) - 1
    ends = np.append(lanes[1:], last)
    steps, begins = [lanes], lanes
    while len(steps) % _STEPS_AT_ONCE or (begins[:-1] < ends[:-1]).any():
        after = heads[np.minimum(begins, last)]
        after &= _MAX_PACKET
        after += begins
        after += _HEAD_BYTES
        begins = after
        steps.append(begins)
    walked = np.stack(steps, axis=1)
    # What follows a lane whose packets do not end where the next one begins is not known.
    wrong = np.flatnonzero(~(walked[:-1] == ends[:-1, None]).any(axis=1))
    count = int(wrong[0]) + 1 if len(wrong) else len(lanes)
    starts = walked[:count][walked[:count] < ends[:count, None]]
    # Of these packets, only the last one may end later.
    length = int(heads[starts[-1]]) & _MAX_PACKET
    if length == _MAX_PACKET or starts[-1] + _HEAD_BYTES + length > size:
        starts = starts[:-1]
    begins = starts + _HEAD_BYTES
    is_row = np.frombuffer(buffer, np.uint8)[begins] < _END
    return begins if is_row.all() else begins[: int(np.argmin(is_row))]


def _guesses(buffer: bytearray, heads: npt.NDArray[np.int64], at: int) -> Offsets:
    """Where packets may begin, at most one near the beginning of each lane but the first."""
    size = (len(heads) - at) // _LANES
    windows = np.ndarray(
        (_LANES - 1, _SEARCHED_BYTES), "<u4", buffer, offset=at + size, strides=(size, 1)
    )
    lane, within = np.nonzero(windows & _MAX_PACKET < size)
    candidates = begins = at + (lane + 1) * size + within
    for _ in range(_FOLLOWING_HEADS):
        head = heads[begins]
        after = begins + _HEAD_BYTES + (head & _MAX_PACKET)
        is_inside = after < len(heads)
        follows = heads[np.where(is_inside, after, 0)]
        is_next = ((follows >> 24) - (head >> 24)) & 0xFF == 1
        kept = is_inside & is_next & (follows & _MAX_PACKET < size)
        candidates, begins, lane = candidates[kept], after[kept], lane[kept]
    return candidates[np.diff(lane, prepend=-1) > 0]
