"""The messages that a server sends while it copies its log to a replica, many in one call.

libpq hands them over one by one, which takes longer than to decode them. So once a connection is
open, its socket is read here. What libpq has to decrypt is asked of libpq.
Source: the page "Message Formats" of PostgreSQL's documentation.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import pq

from headwater.cdc.columns.gather import PADDING
from headwater.storage.errors import CorruptData

__all__ = [
    "CHUNK_BYTES",
    "HEAD_BYTES",
    "CopyMessages",
    "MessageChunk",
    "ServerFailure",
    "begin_copy",
    "message_ends",
    "result_failure",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ends: TypeAlias = npt.NDArray[np.int64]

# Before each message: the kind of what the server sends, and how long it is without the kind.
_HEAD = struct.Struct(">cI")
HEAD_BYTES = _HEAD.size
_KIND_BYTES = 1
_COPY_DATA = b"d"
_ANY_HEAD = _HEAD.pack(_COPY_DATA, 0)
# What messages begin with: the log's data, and signs that the server is there.
_DATA, _KEEPALIVE = b"wk"
CHUNK_BYTES = 2 << 20
# Bytes that are looked through together, which stay in the processor's caches.
_STEP = 1 << 17
_BLOCK_BYTES = _STEP + HEAD_BYTES
_PADDING = bytes(PADDING)
_COPY_BOTH = b"W"
# The end of the copy, or of the command, at which a server also ends that shuts down.
_ENDS = b"cC"
# They may come at any time: notices, settings, and notifications.
_PASSED_OVER = b"NSA"
_ERROR = b"E"
_KNOWN = _COPY_DATA + _COPY_BOTH + _ENDS + _PASSED_OVER + _ERROR
# The server's own limit for what it holds in memory.
_MAX_BYTES = 1 << 30
_STATE, _TEXT, _DETAIL = b"C", b"M", b"D"


class MessageChunk(NamedTuple):
    """Messages of a stream, one after the other, each after the `HEAD_BYTES` before it.

    Attributes:
        data: The bytes, and those that `LogBytes` needs after them.
        ends: Where each message ends.
    """

    data: bytes | memoryview
    ends: Ends


class ServerFailure(Exception):
    """An error that the server has sent, or the end of its connection.

    Args:
        state: The error's SQLSTATE; None if the connection was lost.
        text: Its text.
    """

    def __init__(self, state: str | None, text: str) -> None:
        super().__init__(text)
        self.state, self.text = state, text


class CopyMessages(Protocol):
    """The two directions of a copy.

    Attributes:
        ended: Whether the server has ended the copy.
    """

    ended: bool

    @property
    def has_more(self) -> bool:
        """Whether messages are there whose socket is not to be waited for."""
        ...

    def take(self) -> MessageChunk | None:
        """Take the messages that have come, up to a limit; None before a whole one has come.

        Raises:
            CorruptData: They are not messages.
            ServerFailure: The server has ended with an error, or the connection is lost.
        """
        ...

    def send(self, message: bytes) -> None:
        """Send a message, without waiting until the server takes it; ServerFailure."""
        ...

    def close(self) -> None:
        """Use the connection no more; it stays open."""
        ...


def begin_copy(connection: pq.abc.PGconn, command: str, source: str) -> CopyMessages:
    """Begin to copy.

    Args:
        connection: A connection without a command.
        command: Lets the server copy.
        source: The server's name in messages.

    Raises:
        ServerFailure: The server rejects the command or does not answer as PostgreSQL does, or the
            connection is lost.
    """
    if connection.ssl_in_use or _is_encrypted_by_kerberos(connection):
        return _LibpqMessages(connection, command)
    return SocketMessages(connection.socket, command, source)


def _is_encrypted_by_kerberos(connection: pq.abc.PGconn) -> bool:
    result = connection.exec_(
        b"SELECT 1 FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid() AND encrypted"
    )
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise result_failure(result)
    return result.ntuples > 0


def result_failure(result: pq.abc.PGresult) -> ServerFailure:
    """The error that a result of libpq has."""
    fields = pq.DiagnosticField
    text = result.error_field(fields.MESSAGE_PRIMARY) or result.error_message
    detail = result.error_field(fields.MESSAGE_DETAIL)
    return _failure(result.error_field(fields.SQLSTATE), text, detail)


def _failure(state: bytes | None, text: bytes, detail: bytes | None) -> ServerFailure:
    message = b": ".join(filter(None, (text, detail))).decode(errors="replace").strip()
    return ServerFailure(state.decode() if state else None, message)


class SocketMessages:
    """Messages that are read from the socket of a connection."""

    def __init__(self, number: int, command: str, source: str) -> None:
        self._socket, self._source = socket.socket(fileno=os.dup(number)), source
        self._buffer, self._size = _new_buffer(CHUNK_BYTES), 0
        self._unsent = b""
        self._lost = ""
        self.ended = False
        try:
            self._begin(command)
        except CorruptData as error:
            self.close()
            raise ServerFailure(None, str(error)) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _begin(self, command: str) -> None:
        text = command.encode() + b"\0"
        self._socket.setblocking(True)
        try:
            self._socket.sendall(_head(b"Q", text) + text)
        except OSError as error:
            raise ServerFailure(None, str(error)) from error
        self._socket.setblocking(False)
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            while (message := self._first()) is not None:
                kind, end = message
                if kind == _COPY_BOTH:
                    self._drop(end)
                    return
                self._handle_other(kind, end)
            self._check_connection()
            poll.poll()
            self._fill()

    @property
    def has_more(self) -> bool:
        return self._first() is not None

    def take(self) -> MessageChunk | None:
        self._flush()
        self._fill()
        while not self.ended and (message := self._first()) is not None:
            kind, end = message
            if kind == _COPY_DATA:
                return self._cut()
            self._handle_other(kind, end)
        if not self.ended:
            self._check_connection()
        return None

    def send(self, message: bytes) -> None:
        self._unsent += _head(_COPY_DATA, message) + message
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            # What the server has sent before is read first: it may say why.
            self._unsent, self._lost = b"", self._lost or str(error)

    def _fill(self) -> None:
        """Receive what has come, as far as the buffer holds it."""
        view = self._buffer.data[: len(self._buffer) - PADDING]
        try:
            while self._size < len(view):
                count = self._socket.recv_into(view[self._size :])
                if not count:
                    self._lost = "the server closed the connection unexpectedly"
                    return
                self._size += count
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost = str(error)

    def _check_connection(self) -> None:
        if self._lost:
            raise ServerFailure(None, self._lost)

    def _first(self) -> tuple[bytes, int] | None:
        """The kind of the first message and where it ends; None before all of it has come."""
        if self._size < HEAD_BYTES:
            return None
        kind, size = _HEAD.unpack_from(self._buffer.data)
        end = _KIND_BYTES + size
        if kind not in _KNOWN or not HEAD_BYTES <= end <= _MAX_BYTES:
            raise self._corrupt()
        if end + PADDING > len(self._buffer):
            self._move(0, end)
        return (kind, end) if end <= self._size else None

    def _cut(self) -> MessageChunk:
        """The messages of the copy that have come, of which the first is one."""
        ends = message_ends(self._buffer, self._size)
        end = int(ends[-1])
        view = self._buffer.data[: end + PADDING]
        if 2 * end < len(self._buffer):
            # It would keep much more memory than it has messages.
            data = bytes(view)
            self._drop(end)
            return MessageChunk(data, ends)
        self._move(end, CHUNK_BYTES)
        return MessageChunk(view, ends)

    def _drop(self, end: int) -> None:
        """Forget the bytes before a place."""
        if len(self._buffer) > CHUNK_BYTES + PADDING:
            self._move(end, CHUNK_BYTES)
            return
        rest = self._buffer[end : self._size].copy()
        self._size = len(rest)
        self._buffer[: len(rest)] = rest

    def _move(self, start: int, size: int) -> None:
        """Take another buffer, for what there is from a place on, and for as many bytes."""
        rest = self._buffer[start : self._size]
        self._buffer, self._size = _new_buffer(max(size, len(rest))), len(rest)
        self._buffer[: len(rest)] = rest

    def _handle_other(self, kind: bytes, end: int) -> None:
        """Take a message that is not of the copy."""
        if kind == _ERROR:
            fields = bytes(self._buffer[HEAD_BYTES:end]).split(b"\0")
            texts = {field[:1]: field[1:] for field in fields}
            raise _failure(texts.get(_STATE), texts.get(_TEXT, b""), texts.get(_DETAIL))
        self.ended = kind in _ENDS
        self._drop(end)

    def _corrupt(self) -> CorruptData:
        return CorruptData(
            f"{self._source} sent {bytes(self._buffer[:20]).hex(' ')} where a message of its log "
            "begins, which is not one of PostgreSQL's; read the log again"
        )


def _new_buffer(size: int) -> Bytes:
    return np.empty(size + PADDING, np.uint8)


def _head(kind: bytes, message: bytes) -> bytes:
    return _HEAD.pack(kind, len(message) + HEAD_BYTES - _KIND_BYTES)


def message_ends(data: Bytes, size: int) -> Ends:
    """Find where messages of a copy end that follow each other.

    Where each one begins follows from the one before it. So all places that look like the begin of
    a message are looked at together, and the few that are not one are left out.

    Args:
        data: Begins with a message of a copy that is there as a whole.
        size: How many of its bytes are there.
    """
    end = _KIND_BYTES + int.from_bytes(data[_KIND_BYTES:HEAD_BYTES].tobytes(), "big")
    starts = np.concatenate(
        [_places(data[at : min(at + _BLOCK_BYTES, size)]) + at for at in range(0, size, _STEP)]
    )
    sizes = np.ndarray(len(data) - HEAD_BYTES, ">u4", data, _KIND_BYTES, (1,))[starts]
    ends: Ends = starts + _KIND_BYTES + sizes.astype(np.int64)
    if not len(starts) or starts[0] or ends[0] != end:
        return np.array([end], np.int64)
    if (ends[:-1] != starts[1:]).any():
        ends = ends[_followed(starts, ends)]
    # The last one may not have come as a whole.
    return ends if ends[-1] <= size else ends[:-1]


def _places(data: Bytes) -> Ends:
    """Where messages may begin."""
    first, content = data[:-HEAD_BYTES], data[HEAD_BYTES:]
    looks_right = first == _COPY_DATA[0]
    looks_right &= (content == _DATA) | (content == _KEEPALIVE)
    return np.flatnonzero(looks_right)


def _followed(starts: Ends, ends: Ends) -> npt.NDArray[np.bool_]:
    """Which places are reached from the first one, each by the end of the one before it."""
    count = len(starts)
    following = np.searchsorted(starts, ends)
    is_start = np.append(starts, -1)[following] == ends
    # After the last one comes one that follows itself.
    jumps = np.append(np.where(is_start, following, count), count)
    is_reached = np.zeros(count + 1, np.bool_)
    is_reached[0] = True
    while True:
        reached = np.flatnonzero(is_reached)
        is_reached[jumps[reached]] = True
        if np.count_nonzero(is_reached) == len(reached):
            return is_reached[:-1]
        jumps = jumps[jumps]


class _LibpqMessages:
    """Messages that libpq hands over one by one."""

    def __init__(self, connection: pq.abc.PGconn, command: str) -> None:
        self._connection = connection
        self.ended = self.has_more = False
        result = connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise result_failure(result)
        connection.nonblocking = 1

    def close(self) -> None:
        """Nothing is to be closed."""

    def take(self) -> MessageChunk | None:
        pieces, sizes = list[bytes](), list[int]()
        try:
            self._take(pieces, sizes)
        except psycopg.OperationalError as error:
            raise self._lost() from error
        if not pieces:
            return None
        ends = np.cumsum(np.array(sizes, np.int64) + HEAD_BYTES)
        return MessageChunk(b"".join((*pieces, _PADDING)), ends)

    def _take(self, pieces: list[bytes], sizes: list[int]) -> None:
        get, append_size = self._connection.get_copy_data, sizes.append
        messages: list[bytes | memoryview] = [b""]
        append, received, is_drained = messages.append, 0, False
        while received < CHUNK_BYTES and not self.ended:
            size, message = get(1)
            while size > 0:
                append(message)
                append_size(size)
                size, message = get(1)
            if len(messages) > 1:
                # Many objects that stay for a while would be looked through by the collector.
                pieces.append(_ANY_HEAD.join(messages))
                received += len(pieces[-1])
                del messages[1:]
                is_drained = False
            if size < 0:
                self._end()
            elif is_drained:
                break
            else:
                self._connection.consume_input()
                is_drained = True
        self.has_more = received >= CHUNK_BYTES

    def _end(self) -> None:
        """Note the end of the copy, or raise the reason for it."""
        result = self._connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise result_failure(result)
        if self._connection.status != pq.ConnStatus.OK:
            raise self._lost()
        self.ended = True

    def send(self, message: bytes) -> None:
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except psycopg.OperationalError as error:
            raise self._lost() from error

    def _lost(self) -> ServerFailure:
        return ServerFailure(None, self._connection.error_message.decode(errors="replace").strip())
