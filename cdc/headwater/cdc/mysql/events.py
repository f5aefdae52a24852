"""Events of the binary log of MySQL and MariaDB: their headers, checksums and framing.

Nothing is skipped: every event is yielded, and an event that this version does not have is an error
unless the server marked it as ignorable.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

# Four times as fast as Python's own: of each event that is not followed it is half of the work.
from isal.isal_zlib import crc32

from headwater.storage.errors import CorruptData, Unsupported

HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = HEADER.size
_TYPE_OFFSET = 4
TABLE_NUMBER_BYTES = 6
# Of a rows event: its type, its size, and the number of its table.
_ROWS_HEADER = struct.Struct(f"<4xB4xI6x{TABLE_NUMBER_BYTES}s")
CHECKSUM_BYTES = 4
# The CRC-32 of any bytes that end with their CRC-32.
_CHECKED = 0x2144DF1C
FILE_MAGIC = b"\xfebin"
_ENCRYPTED_MAGIC = b"\xfdbin"
_FLAGS_OFFSET = 17

IN_USE_FLAG = 0x0001
"""The log file of a FORMAT_DESCRIPTION event is being written. Its checksum does not cover it."""
THREAD_SPECIFIC_FLAG = 0x0004
"""The statement of a QUERY event uses a temporary table of its session."""
IGNORABLE_FLAG = 0x0080
"""A reader that does not have the event's type may ignore it."""


class EventType(IntEnum):
    """The types of events; MariaDB's own begin at 160 (``log_event.h``)."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171


_RARE_TYPES = frozenset(
    {EventType.UNKNOWN, EventType.FORMAT_DESCRIPTION, EventType.MARIADB_START_ENCRYPTION}
)
# The type of each code; None of those that `EventDecoder` looks at more closely.
_TYPES: list[EventType | int | None] = [None] * 256
for _type in EventType:
    if _type not in _RARE_TYPES:
        _TYPES[_type] = _type


class Event(NamedTuple):
    """One event of a log.

    Args:
        type: What the event is; a plain number where this version does not have the type and the
            server marked the event as ignorable.
        timestamp: When the statement began, in seconds since 1970.
        server_id: The server that wrote the event first.
        end_position: Where the next event begins in the log file, modulo 4 GiB, bytes; 0 in events
            that no file has, and within a compressed transaction.
        flags: The header's flags.
        body: What follows the header, without the checksum.
        size: The size of the event with header and checksum, bytes.
    """

    type: EventType | int
    timestamp: int
    server_id: int
    end_position: int
    flags: int
    body: memoryview
    size: int


class FormatDescription(NamedTuple):
    """What a FORMAT_DESCRIPTION event has about the events that follow it.

    Args:
        server_version: The server's version, such as ``10.11.19-MariaDB-log``.
        checksums: Whether the events of the file end with a checksum.
    """

    server_version: str
    checksums: bool


class Rotation(NamedTuple):
    """The file and the position, in bytes, where the log goes on."""

    file: str
    position: int


class Query(NamedTuple):
    """A statement, which is DDL, BEGIN, COMMIT, or DML of a session in statement format.

    Args:
        thread_id: The connection that ran it.
        error_code: The error it ended with; 0 is success.
        database: The session's default database; empty without one.
        statement: The statement, in the character set of the session's client.
        status_variables: The session's settings, as the server packs them.
    """

    thread_id: int
    error_code: int
    database: str
    statement: bytes
    status_variables: bytes


class EventDecoder:
    """Cuts events out of bytes and verifies their checksums.

    Whether events have checksums changes with each FORMAT_DESCRIPTION event that is decoded.

    Args:
        source: The name of the log in error messages: a file, or a server.
        checksums: Whether events before the first FORMAT_DESCRIPTION event have checksums: a
            stream of events begins with others.
        is_file: Whether the bytes are a file's, where what follows a START_ENCRYPTION event is
            encrypted. A server sends it as plain events.

    Attributes:
        checksums: Whether the next events have checksums.
    """

    def __init__(self, source: str, *, checksums: bool = False, is_file: bool = False) -> None:
        self._source = source
        self.checksums = checksums
        self._is_file = is_file

    def decode(self, data: bytes | bytearray | memoryview) -> Event:
        """Decode one event, such as a packet of a replication stream without its first byte.

        Raises:
            CorruptData: The bytes are not one event, or the checksum does not match.
            Unsupported: This version does not have the event's type.
        """
        view = memoryview(data)
        events = list(self.frame(view))
        if len(events) != 1:
            raise CorruptData(
                f"cannot read {self._source}: expected 1 event in {len(view)} bytes, got "
                f"{len(events)}; read the log again"
            )
        return events[0]

    def frame(
        self,
        data: bytes | bytearray | memoryview,
        start: int = 0,
        end: int | None = None,
        *,
        position: int = 0,
        gap: int = 0,
    ) -> EventFrames:
        """Cut the events that follow each other in some bytes.

        Args:
            data: The events' bytes. They must not change while the events are in use.
            start: The offset of the first event in `data`.
            end: Where the last one ends; None is the end of `data`.
            position: The position of `data`'s first byte in the log, for error messages.
            gap: How many bytes are before each event.

        Raises:
            CorruptData: An event is cut off, or its checksum does not match.
            Unsupported: This version does not have an event's type.
        """
        view = data if isinstance(data, memoryview) else memoryview(data)
        return EventFrames(self, view, start, len(view) if end is None else end, position, gap)

    def verify(self, event: memoryview, code: int, flags: int, where: int) -> None:
        """Raise CorruptData unless the checksum is right, without the flag of a file in use."""
        covered = bytearray(event[:-CHECKSUM_BYTES])
        if code == EventType.FORMAT_DESCRIPTION:
            covered[_FLAGS_OFFSET] &= ~IN_USE_FLAG
        actual = crc32(covered)
        expected = int.from_bytes(event[-CHECKSUM_BYTES:], "little")
        if actual != expected:
            raise CorruptData(
                f"cannot read {self._source} at position {where}: checksum mismatch of an event of "
                f"type {_name(code)}: expected {expected:#010x}, got {actual:#010x}; read the log "
                "again from its source"
            )

    def rare_type(self, event: memoryview, code: int, flags: int, where: int) -> EventType | int:
        """The type of an event that changes how the next are read, or is unknown."""
        if code == EventType.FORMAT_DESCRIPTION:
            self.checksums = _has_checksums(event[HEADER_BYTES:], self._source)
            return EventType.FORMAT_DESCRIPTION
        if code == EventType.MARIADB_START_ENCRYPTION:
            if self._is_file:
                raise _encrypted(self._source)
            return EventType.MARIADB_START_ENCRYPTION
        if not flags & IGNORABLE_FLAG:
            raise Unsupported(
                f"cannot read {self._source} at position {where}: event type {code} is unknown and "
                "not marked as ignorable; update Headwater, or switch the source's new feature off"
            )
        return code

    def cut_off(self, view: memoryview, start: int, end: int, position: int) -> CorruptData:
        """The error for bytes that are not a whole event."""
        remaining = end - start
        size = HEADER_BYTES
        if remaining >= HEADER_BYTES:
            size = HEADER.unpack_from(view, start)[3]
        return CorruptData(
            f"cannot read {self._source} at position {start + position}: expected an event of "
            f"{size} bytes, got {remaining} bytes; read the log again from its source"
        )


class EventFrames:
    """The events that follow each other in some bytes, as `EventDecoder.frame` cuts them.

    Attributes:
        data: The bytes.
    """

    def __init__(
        self,
        decoder: EventDecoder,
        data: memoryview,
        start: int,
        end: int,
        position: int,
        gap: int,
    ) -> None:
        self.data = data
        self._decoder, self._position, self._gap = decoder, position, gap
        # Where the next event begins, with what is before it, and where the last one ends.
        self._start, self._end = start, end
        self._events = self._cut()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def _cut(self) -> Iterator[Event]:
        view, end, gap, decoder = self.data, self._end, self._gap, self._decoder
        start = self._start
        # Most logs have small events, so what is done for each of them is kept to a minimum.
        unpack, types, new = HEADER.unpack_from, _TYPES, tuple.__new__
        while end - start >= HEADER_BYTES + gap:
            start += gap
            timestamp, code, server_id, size, next_position, flags = unpack(view, start)
            stop = start + size
            if size < HEADER_BYTES or stop > end:
                break
            type_ = types[code]
            if type_ is None:
                where = start + self._position
                type_ = decoder.rare_type(view[start:stop], code, flags, where)
            covered = stop
            if decoder.checksums:
                covered -= CHECKSUM_BYTES
                if crc32(view[start:stop]) != _CHECKED:
                    decoder.verify(view[start:stop], code, flags, start + self._position)
            body = view[start + HEADER_BYTES : covered]
            self._start = stop
            yield new(Event, (type_, timestamp, server_id, next_position, flags, body, size))
            # Rows events may have been taken meanwhile.
            start = self._start
        if start < end:
            raise decoder.cut_off(view, start, end, self._position)

    def take_rows(self, event: Event, starts: list[int], ends: list[int]) -> int:
        """Take a rows event, which came last, and those of the same type and table that follow it.

        Args:
            event: The event.
            starts: Where each event's body begins in `data` is added to it.
            ends: Where each body ends is added to it.

        Returns:
            How many bytes all of them take, with their headers and checksums.
        """
        view, end, type_, size = self.data, self._end, event.type, event.size
        begin = self._start - size + HEADER_BYTES
        starts.append(begin)
        ends.append(begin + len(event.body))
        gap = self._gap
        start = self._start + gap
        if end - start < _ROWS_HEADER.size or view[start + _TYPE_OFFSET] != type_:
            return size
        number, unpack = event.body[:TABLE_NUMBER_BYTES].tobytes(), _ROWS_HEADER.unpack_from
        checksum_bytes = CHECKSUM_BYTES if self._decoder.checksums else 0
        while end - start >= _ROWS_HEADER.size:
            code, event_size, other_number = unpack(view, start)
            stop = start + event_size
            if code != type_ or other_number != number or stop > end:
                break
            # What is wrong is left to be found again.
            if event_size < _ROWS_HEADER.size + checksum_bytes or (
                checksum_bytes and crc32(view[start:stop]) != _CHECKED
            ):
                break
            starts.append(start + HEADER_BYTES)
            ends.append(stop - checksum_bytes)
            size += event_size
            self._start = stop
            start = stop + gap
        return size


def read_log_file(path: Path) -> Iterator[Event]:
    """Yield the events of a binary log file.

    Raises:
        CorruptData: The file is not a binary log, is cut off, or a checksum does not match.
        Unsupported: The file is encrypted, or has an event of an unknown type.
    """
    with path.open("rb") as file:
        is_empty = not path.stat().st_size
        data = memoryview(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    magic = bytes(data[: len(FILE_MAGIC)])
    if magic == _ENCRYPTED_MAGIC:
        raise _encrypted(str(path))
    if magic != FILE_MAGIC:
        raise CorruptData(
            f"cannot read {path}: expected {FILE_MAGIC.hex()} at the start of a binary log file, "
            f"got {magic.hex()}; name a file of the server's binary log"
        )
    yield from EventDecoder(str(path), is_file=True).frame(data, start=len(FILE_MAGIC))


def _encrypted(source: str) -> Unsupported:
    return Unsupported(
        f"cannot read {source}: the file is encrypted; read the log through a connection instead"
    )


def parse_format_description(event: Event) -> FormatDescription:
    """Parse a FORMAT_DESCRIPTION event."""
    version = bytes(event.body[2:52]).rstrip(b"\0").decode("ascii", "replace")
    has_checksum = len(event.body) + HEADER_BYTES < event.size
    return FormatDescription(version, has_checksum)


def parse_rotation(event: Event) -> Rotation:
    """Parse a ROTATE event."""
    return Rotation(bytes(event.body[8:]).decode(), int.from_bytes(event.body[:8], "little"))


def parse_query(event: Event) -> Query:
    """Parse a QUERY event that is not compressed."""
    thread_id, _, database_size, error_code, status_size = struct.unpack_from("<IIBHH", event.body)
    start = 13 + status_size
    database = bytes(event.body[start : start + database_size]).decode()
    statement = bytes(event.body[start + database_size + 1 :])
    return Query(thread_id, error_code, database, statement, bytes(event.body[13:start]))


def read_packed_integer(data: memoryview, offset: int) -> tuple[int, int]:
    """Read a length-encoded integer.

    Returns:
        The integer, and the offset of what follows it.
    """
    first = data[offset]
    if first < 251:
        return first, offset + 1
    width = {252: 2, 253: 3, 254: 8}.get(first)
    if width is None or offset + 1 + width > len(data):
        raise CorruptData(
            f"cannot read an event: no length-encoded integer at offset {offset} of its body of "
            f"{len(data)} bytes; read the log again from its source"
        )
    end = offset + 1 + width
    return int.from_bytes(data[offset + 1 : end], "little"), end


def _has_checksums(body: memoryview, source: str) -> bool:
    """Whether a FORMAT_DESCRIPTION event, of which this is all after the header, says so."""
    version = int.from_bytes(body[:2], "little")
    header_size = body[56] if len(body) > 56 else 0
    if version != 4 or header_size != HEADER_BYTES:
        raise Unsupported(
            f"cannot read {source}: expected binary log version 4 with event headers of "
            f"{HEADER_BYTES} bytes, got version {version} with {header_size} bytes; read a server "
            "of MySQL 8.4 or MariaDB 10.11 or newer"
        )
    algorithm = body[-CHECKSUM_BYTES - 1]
    if algorithm > 1:
        raise Unsupported(
            f"cannot read {source}: checksum algorithm {algorithm} is unknown; set the source's "
            "binlog_checksum to CRC32 or NONE"
        )
    return algorithm == 1


def _name(code: int) -> str:
    names = {type_.value: type_.name for type_ in EventType}
    return f"{names[code]} ({code})" if code in names else str(code)
