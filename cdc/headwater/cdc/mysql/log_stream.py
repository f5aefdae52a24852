"""The log of a server as it sends it to a replica.

The stream is handed on as a log file has it: whole events, one after the other. Sources: the pages
"Replication protocol" and "COM_BINLOG_DUMP" of MySQL's and MariaDB's internals.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from pymysql.err import MySQLError

from headwater.cdc.mysql.server import Address, Flavour, MySQLServer, connected, explained, meaning
from headwater.storage.errors import CorruptData, NotFound, Unavailable

__all__ = ["FileStart", "GtidStart", "LogStream", "reader_id"]

_BINLOG_DUMP, _BINLOG_DUMP_GTID = 0x12, 0x1E
_DO_NOT_WAIT, _THROUGH_GTID = 0x01, 0x04
# Without it MariaDB leaves GTID events out, and sends errors (1236) for some logs.
_MARIADB_CAPABILITY = 4
_HEAD_BYTES = 4
_MAX_PACKET = (1 << 24) - 1
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_LOG_IS_GONE = 1236
_BUFFER_BYTES = 8 << 20
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


def reader_id() -> int:
    """A number for a reader among the server's replicas."""
    low, high = _READER_IDS
    return low + secrets.randbelow(high - low)


class LogStream:
    """The events of a log from a place on. It is read by one thread.

    Args:
        address: The server.
        start: Where to begin.
        server_id: The number that the reader has among the server's replicas: another one with the
            same number ends this one.
        waits: Whether to wait for what follows at the end of the log.

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
    ) -> None:
        self._address, self._start, self._waits = address, start, waits
        with MySQLServer(address) as server:
            self._flavour = server.flavour
        with explained(address):
            self._connection = connected(address, read_timeout=_SILENT_SECONDS)
            self._prepare()
            self._ask(server_id)
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        # Of an event that is larger than a packet.
        self._parts: list[bytes] = []

    def close(self) -> None:
        """End the connection."""
        with suppress(MySQLError, OSError):
            # A dump is not ended by a command: the server sees that the reader is gone. A thread
            # that waits for more wakes up.
            self._connection._sock.shutdown(socket.SHUT_RDWR)
        with suppress(MySQLError, OSError):
            self._connection._force_close()

    def __enter__(self) -> LogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(self) -> Iterator[bytes]:
        """Whole events, as many as have come; it ends at the end of the log unless it waits.

        Raises:
            NotFound: The log was purged meanwhile.
            CorruptData: The server breaks off within an event.
            Unavailable: The connection is lost, or nothing came for half a minute.
        """
        while True:
            self._receive()
            events, ended = self._events()
            if events:
                yield events
            if ended:
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

    def _receive(self) -> None:
        """Wait for more of the answer."""
        if self._filled == len(self._buffer):
            # A packet is larger than that.
            self._buffer = self._buffer + bytearray(len(self._buffer))
        try:
            count = self._connection._sock.recv_into(memoryview(self._buffer)[self._filled :])
        except TimeoutError as error:
            raise Unavailable(
                f"the source at {self._address} has sent nothing for {_SILENT_SECONDS} s, not even "
                "that it is there; check the network"
            ) from error
        except OSError as error:
            raise Unavailable(f"the source at {self._address} is lost: {error}") from error
        if count == 0:
            raise Unavailable(f"the source at {self._address} has ended the connection")
        self._filled += count

    def _events(self) -> tuple[bytes, bool]:
        """The whole events that have come, and whether the log has ended."""
        events: list[memoryview] = []
        view, at, ended = memoryview(self._buffer)[: self._filled], 0, False
        while at + _HEAD_BYTES <= self._filled and not ended:
            length = int.from_bytes(view[at : at + 3], "little")
            end = at + _HEAD_BYTES + length
            if end > self._filled:
                break
            payload, at = view[at + _HEAD_BYTES : end], end
            if length == _MAX_PACKET or self._parts:
                self._parts.append(bytes(payload))
                if length == _MAX_PACKET:
                    continue
                payload, self._parts = memoryview(b"".join(self._parts)), []
            ended = self._is_end(payload)
            if not ended:
                events.append(payload[1:])
        data, rest = b"".join(events), bytes(view[at:])
        self._buffer[: len(rest)] = rest
        self._filled = len(rest)
        return data, ended

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
