"""The log of a server as it sends it to a replica.

The stream is handed on as it comes, cut after whole events. Sources: the pages
"Replication protocol" and "COM_BINLOG_DUMP" of MySQL's and MariaDB's internals.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from pymysql.err import MySQLError

from headwater.cdc.columns.gather import PADDING
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer, connected, explained, meaning
from headwater.storage.errors import CorruptData, NotFound, Unavailable

__all__ = ["FileStart", "GtidStart", "LogChunk", "LogPiece", "LogStream", "reader_id"]

_BINLOG_DUMP, _BINLOG_DUMP_GTID = 0x12, 0x1E
_DO_NOT_WAIT, _THROUGH_GTID = 0x01, 0x04
# Without it MariaDB leaves GTID events out, and sends errors (1236) for some logs.
_MARIADB_CAPABILITY = 4
_HEAD_BYTES = 4
# The length of a packet in three bytes, its number, its status, and the size of the event in it.
_EVENT_PACKET = struct.Struct("<IB9xI")
_BEFORE_EVENT = _HEAD_BYTES + 1
_SIZE_AT = 10
_MAX_PACKET = (1 << 24) - 1
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_LOG_IS_GONE = 1236
_PIECE_BYTES = 1 << 20
# Rows are decoded where they were received, as many as are in a buffer: fewer take longer.
_BUFFER_BYTES = 8 << 20
# Free bytes before those that are received, for a packet that begins in the buffer before.
_HEADROOM = 1 << 16
_FIRST_OFFSET = 4
# Other replicas of the server must not have the reader's number; theirs are small as a rule.
_READER_IDS = (1 << 31, (1 << 32) - 1)
# The server says that it is there when it has nothing else to say.
_HEARTBEAT_SECONDS = 5
_SILENT_SECONDS = 30


@dataclass(frozen=True)
class FileStart:
    """A place in the log by its file.

    Attributes:
        file: The file's name.
        offset: Bytes from its beginning; an event begins there.
    """

    file: str
    offset: int = _FIRST_OFFSET

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


@dataclass(frozen=True)
class GtidStart:
    """A place in the log by the transactions before it.

    Attributes:
        text: The set of GTIDs as the server writes it.
        encoded: The same as the dump command of MySQL takes it; empty for MariaDB.
    """

    text: str
    encoded: bytes = b""

    def __str__(self) -> str:
        return self.text or "its beginning"


class LogPiece(NamedTuple):
    """Bytes of the protocol as they come.

    Attributes:
        buffer: Has the bytes, and `PADDING` bytes after its last piece. A piece begins where the
            one before it ends, if that is in the same buffer.
        start: Where the piece begins. What is before the first piece of a buffer is free.
        end: Where it ends.
    """

    buffer: memoryview
    start: int
    end: int


class LogChunk(NamedTuple):
    """Whole events of a log.

    Attributes:
        data: Has the events' bytes, perhaps with others.
        start: Where they begin.
        end: Where they end.
        gap: How many bytes of the protocol are before each event.
    """

    data: memoryview
    start: int
    end: int
    gap: int = 0


def reader_id() -> int:
    """A number for a reader among the server's replicas."""
    low, high = _READER_IDS
    return low + secrets.randbelow(high - low)


class LogStream:
    """The events of a log from a place on.

    Args:
        address: The server.
        start: Where to begin.
        server_id: The number that the reader has among the server's replicas: another one with the
            same number ends this one.
        waits: Whether to wait for what follows at the end of the log.
        flavour: Whether the server is MySQL or MariaDB; None asks it.

    Attributes:
        ended: Whether the log has ended.

    Raises:
        Forbidden: The user may not read the log.
        NotFound: The server does not have the log from there on any more.
        Unavailable: It cannot be reached.
    """

    def __init__(
        self,
        address: Address,
        start: FileStart | GtidStart,
        *,
        server_id: int,
        waits: bool = True,
        flavour: Flavour | None = None,
    ) -> None:
        self._address, self._start, self._waits = address, start, waits
        if flavour is None:
            with MySQLServer(address) as server:
                flavour = server.flavour
        self._flavour = flavour
        with explained(address):
            self._connection = connected(address, read_timeout=_SILENT_SECONDS)
            self._prepare()
            self._ask(server_id)
        self.ended = False
        # The received parts of an incomplete packet, their bytes, and those of the packet.
        self._pieces: list[memoryview] = []
        self._pending, self._needed = 0, 0
        # The buffer that holds its first part.
        self._buffer = memoryview(b"")
        # Of an event that is larger than a packet.
        self._parts: list[memoryview] = []

    def interrupt(self) -> None:
        """Wake a thread that waits for more, with an error; the connection is closed after it.

        A thread that reads a closed connection has the number of a file that may be another one by
        then: with TLS it writes an alert there.
        """
        with suppress(MySQLError, OSError):
            # Not that of TLS, which would take the thread's session away.
            socket.socket.shutdown(self._connection._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; no thread reads it any more."""
        # A dump is not ended by a command: the server sees that the reader is gone.
        self.interrupt()
        with suppress(MySQLError, OSError):
            self._connection._force_close()

    def __enter__(self) -> LogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[LogChunk]:
        """Whole events, as many as have come; it ends at the end of the log unless it waits.

        Raises:
            NotFound: The log was purged meanwhile.
            CorruptData: The server breaks off within an event.
            Unavailable: The connection is lost, or nothing came for half a minute.
        """
        for piece in self.pieces():
            yield from self.cut(piece)
            if self.ended:
                return

    # The request ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        settings = {
            "master_binlog_checksum": "@@global.binlog_checksum",
            "source_binlog_checksum": "@@global.binlog_checksum",
            "master_heartbeat_period": str(_HEARTBEAT_SECONDS * 1_000_000_000),
            "source_heartbeat_period": str(_HEARTBEAT_SECONDS * 1_000_000_000),
        }
        if self._flavour is Flavour.MARIADB:
            settings["mariadb_slave_capability"] = str(_MARIADB_CAPABILITY)
        with self._connection.cursor() as cursor:
            for name, value in settings.items():
                cursor.execute(f"SET @{name} = {value}")
            if self._flavour is Flavour.MARIADB and isinstance(self._start, GtidStart):
                cursor.execute("SET @slave_gtid_strict_mode = 0")
                cursor.execute("SET @slave_connect_state = %s", [self._start.text])

    def _ask(self, server_id: int) -> None:
        flags = 0 if self._waits else _DO_NOT_WAIT
        start = self._start
        if isinstance(start, FileStart):
            body = struct.pack("<BIHI", _BINLOG_DUMP, start.offset, flags, server_id)
            body += start.file.encode()
        elif self._flavour is Flavour.MARIADB:
            body = struct.pack("<BIHI", _BINLOG_DUMP, _FIRST_OFFSET, flags, server_id)
        else:
            # The file's name is empty: the set alone says where to begin.
            body = struct.pack("<BHIIQ", _BINLOG_DUMP_GTID, flags | _THROUGH_GTID, server_id, 0, 4)
            body += struct.pack("<I", len(start.encoded)) + start.encoded
        self._connection._write_bytes(struct.pack("<I", len(body)) + body)

    # The answer -------------------------------------------------------------------------------

    def pieces(self) -> Iterator[LogPiece]:
        """The server's bytes as they come, for `cut`; a thread may wait for them.

        Raises:
            Unavailable: The connection is lost, or nothing came for half a minute.
        """
        buffer, start = memoryview(b""), 0
        while True:
            if start + PADDING >= len(buffer):
                buffer, start = np.empty(_BUFFER_BYTES + PADDING, np.uint8).data, _HEADROOM
            place = buffer[start : min(start + _PIECE_BYTES, len(buffer) - PADDING)]
            try:
                count = self._connection._sock.recv_into(place)
            except TimeoutError as error:
                raise Unavailable(
                    f"the source at {self._address} has sent nothing for {_SILENT_SECONDS} s, not "
                    "even that it is there; check the network"
                ) from error
            except OSError as error:
                raise Unavailable(f"the source at {self._address} is lost: {error}") from error
            if not count:
                raise Unavailable(f"the source at {self._address} has ended the connection")
            yield LogPiece(buffer, start, start + count)
            start += count

    def cut(self, piece: LogPiece) -> Iterator[LogChunk]:
        """The whole events that have come with a piece.

        Raises:
            NotFound, CorruptData: As `chunks`.
        """
        buffer, _, end = piece
        at = self._with_pending(piece)
        while self._pending and not self.ended:
            # A packet that began in another buffer. It alone is put together: buffers are large.
            part = buffer[at : min(end, at + self._needed - self._pending)]
            self._pieces.append(part)
            self._pending += len(part)
            at += len(part)
            if self._pending < self._needed:
                return
            packet = memoryview(b"".join(self._pieces))
            self._pieces, self._pending = [], 0
            yield from self._cut_whole(packet, 0, len(packet))
        if not self.ended:
            yield from self._cut_whole(buffer, at, end)

    def _with_pending(self, piece: LogPiece) -> int:
        """Where a piece begins with what came before of its first packet, if that is next to it."""
        buffer, start, _ = piece
        if len(self._pieces) != 1:
            return start
        (rest,) = self._pieces
        if self._buffer is not buffer:
            if len(rest) > start:
                return start
            buffer[start - len(rest) : start] = rest
        self._pieces, self._pending = [], 0
        return start - len(rest)

    def _cut_whole(self, data: memoryview, at: int, filled: int) -> Iterator[LogChunk]:
        """The whole events between two offsets; what comes after them is pending."""
        parts, unpack = self._parts, _EVENT_PACKET.unpack_from
        last = filled - _EVENT_PACKET.size
        start = at
        self._needed = _HEAD_BYTES
        while at + _HEAD_BYTES <= filled:
            if at <= last:
                head, status, size = unpack(data, at)
            else:
                # Too short for an event.
                head, status, size = int.from_bytes(data[at : at + _HEAD_BYTES], "little"), 0, 0
            length = head & _MAX_PACKET
            end = at + _HEAD_BYTES + length
            if end > filled:
                self._needed = end - at
                break
            # After a packet of the largest size another one follows, perhaps without bytes.
            if status or size + 1 != length or length == _MAX_PACKET or parts:
                if at > start:
                    yield LogChunk(data, start, at, _BEFORE_EVENT)
                event = self._other_packet(data[at + _HEAD_BYTES : end])
                if self.ended:
                    return
                if event:
                    yield LogChunk(event, 0, len(event))
                start = end
            at = end
        if at > start:
            yield LogChunk(data, start, at, _BEFORE_EVENT)
        if at < filled:
            self._pieces, self._pending = [data[at:filled]], filled - at
            self._buffer = data

    def _other_packet(self, payload: memoryview) -> memoryview:
        """The event that ends with a packet which does not have a whole one; empty if none does."""
        length = len(payload)
        if length == _MAX_PACKET or self._parts:
            self._parts.append(payload)
            if length == _MAX_PACKET:
                return memoryview(b"")
            payload = memoryview(b"".join(self._parts))
            self._parts.clear()
        self.ended = self._is_end(payload)
        size = int.from_bytes(payload[_SIZE_AT : _SIZE_AT + 4], "little")
        if not self.ended and size + 1 != len(payload):
            raise CorruptData(
                f"the source at {self._address} sent an event of {size} bytes in "
                f"{len(payload) - 1} bytes; end the pipeline and start it again"
            )
        return payload[1:]

    def _is_end(self, payload: memoryview) -> bool:
        """Whether a packet says that the log has ended; raises what it says went wrong."""
        kind = payload[0] if len(payload) else None
        if kind == _OK:
            return False
        if kind == _END:
            return True
        if kind != _ERROR:
            raise CorruptData(
                f"the source at {self._address} sent a packet of {len(payload)} bytes that is not "
                "an event; end the pipeline and start it again"
            )
        code = int.from_bytes(payload[1:3], "little")
        # Five bytes of a state precede the text.
        text = bytes(payload[9:]).decode(errors="replace")
        if code == _LOG_IS_GONE:
            raise NotFound(
                f"the source at {self._address} does not have its log from {self._start} on: "
                f"{text} Read the tables again (headwater cdc resnapshot --all), and keep the log "
                "for longer: binlog_expire_logs_seconds"
            )
        raise meaning(self._address, MySQLError(code, text))
