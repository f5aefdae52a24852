"""Compressed events and values.

MySQL compresses transactions, MariaDB statements, rows and the values of some columns. The events
inside are the same as without compression, so everything else reads what comes from `expand`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from headwater.cdc.mysql.events import (
    HEADER,
    HEADER_BYTES,
    Event,
    EventDecoder,
    EventType,
    read_packed_integer,
)
from headwater.storage.errors import CorruptData, Unsupported

# Fields of a TRANSACTION_PAYLOAD event, and its compression types.
_END_OF_FIELDS, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NO_COMPRESSION = 0, 255
# How much of a transaction is inflated at a time; more where an event is larger.
_PIECE_BYTES = 4 << 20
# The first byte of a value of MariaDB: not compressed, or zlib with these bits.
_NOT_COMPRESSED, _ZLIB, _RAW_DEFLATE, _SIZE_BYTES = 0x00, 0x80, 0x08, 0x07

_MARIADB_TYPES: Mapping[int, EventType] = MappingProxyType(
    {
        EventType.MARIADB_QUERY_COMPRESSED: EventType.QUERY,
        EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
        EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
        EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
        EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
        EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
        EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
    }
)
_UPDATES = (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS)


def inflate_value(value: bytes, column: str) -> bytes:
    """Read a value of a column that MariaDB compresses (``field_comp.cc``).

    Args:
        value: The value in the log; it is not empty.
        column: The column's name.

    Raises:
        CorruptData: The compressed bytes cannot be read.
        Unsupported: The compression is unknown.
    """
    if value[0] == _NOT_COMPRESSED:
        return value[1:]
    return _inflate(
        memoryview(value),
        f"a value of column '{column}'",
        "MODIFY the column without COMPRESSED",
    )


def expand(
    event: Event, store: Callable[[memoryview], memoryview] = lambda data: data
) -> Iterator[Event]:
    """Yield an event without compression: all events of a compressed transaction, else one event.

    The events of a transaction are followed by none of their own end positions; the transaction
    ends where `event` does.

    Args:
        event: The event.
        store: Keeps inflated bytes, in memory or elsewhere.

    Raises:
        CorruptData: The compressed bytes cannot be read.
        Unsupported: The compression is unknown.
    """
    if event.type is EventType.TRANSACTION_PAYLOAD:
        decoder = EventDecoder("a compressed transaction")
        for events in _transaction_payload(event):
            yield from decoder.frame(store(memoryview(events)))
        return
    type_ = _MARIADB_TYPES.get(event.type)
    if type_ is None:
        yield event
        return
    start = _query_start(event.body) if type_ is EventType.QUERY else _rows_start(event, type_)
    body = bytes(event.body[:start]) + _inflate(event.body[start:])
    size = event.size - len(event.body) + len(body)
    yield event._replace(type=type_, body=store(memoryview(body)), size=size)


def _transaction_payload(event: Event) -> Iterator[bytes | memoryview]:
    """Yield the events of a compressed transaction, some at a time."""
    fields = {_COMPRESSION: _NO_COMPRESSION}
    offset = 0
    while True:
        field, offset = read_packed_integer(event.body, offset)
        if field == _END_OF_FIELDS:
            break
        size, offset = read_packed_integer(event.body, offset)
        fields[field], _ = read_packed_integer(event.body, offset)
        offset += size
    payload = event.body[offset:]
    if len(payload) != fields.get(_PAYLOAD_SIZE, len(payload)):
        raise CorruptData(
            f"cannot read a compressed transaction: expected {fields[_PAYLOAD_SIZE]} bytes, got "
            f"{len(payload)}; read the log again from its source"
        )
    if fields[_COMPRESSION] == _NO_COMPRESSION:
        yield payload
        return
    if fields[_COMPRESSION] != _ZSTD or _UNCOMPRESSED_SIZE not in fields:
        raise Unsupported(
            f"cannot read a compressed transaction: compression type {fields[_COMPRESSION]} is "
            "unknown; set the source's binlog_transaction_compression to OFF"
        )
    try:
        yield from _inflated_events(payload, fields[_UNCOMPRESSED_SIZE])
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptData(
            f"cannot read a compressed transaction: {error}; read the log again from its source"
        ) from error


def _inflated_events(payload: memoryview, size: int) -> Iterator[bytes]:
    """Inflate events, some at a time.

    Args:
        payload: The compressed events.
        size: How many bytes they have without compression.
    """
    stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(payload)), "zstd")
    rest, left = b"", size
    while left:
        wanted = max(_PIECE_BYTES, _next_size(rest) - len(rest))
        piece = stream.read(min(left, wanted))
        if not piece:
            break
        left -= len(piece)
        data = rest + piece
        end = _end_of_events(data) if left else len(data)
        rest = data[end:]
        if end:
            yield data[:end]
    if left or stream.read(1):
        raise CorruptData(
            f"cannot read a compressed transaction: expected {size} bytes, got "
            f"{f'{size - left}' if left else 'more'}; read the log again from its source"
        )


def _next_size(data: bytes, start: int = 0) -> int:
    """How many bytes the event has that begins at an offset; those of a header if not known."""
    if len(data) - start < HEADER_BYTES:
        return HEADER_BYTES
    # Smaller ones are corrupt, which their decoder says.
    return max(HEADER_BYTES, int(HEADER.unpack_from(data, start)[3]))


def _end_of_events(data: bytes) -> int:
    """Where the last whole event ends."""
    end = 0
    while end + (size := _next_size(data, end)) <= len(data):
        end += size
    return end


def _query_start(body: memoryview) -> int:
    """Where the statement of a QUERY event begins."""
    return 13 + int.from_bytes(body[11:13], "little") + body[8] + 1


def _rows_start(event: Event, type_: EventType) -> int:
    """Where the rows of a rows event begin."""
    start = 8
    if type_ in (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS):
        start += int.from_bytes(event.body[8:10], "little")
    column_count, start = read_packed_integer(event.body, start)
    bitmaps = 2 if type_ in _UPDATES else 1
    return start + bitmaps * ((column_count + 7) // 8)


def _inflate(
    data: memoryview,
    name: str = "a compressed event",
    remedy: str = "set the source's log_bin_compress to OFF",
) -> bytes:
    """Read MariaDB's compressed bytes: a header, the size in 1 to 4 bytes, and a deflate stream."""
    header = data[0] if len(data) else 0
    if header & ~(_RAW_DEFLATE | _SIZE_BYTES) != _ZLIB:
        raise Unsupported(
            f"cannot read {name}: compression header {header:#04x} is unknown; {remedy}"
        )
    start = 1 + (header & _SIZE_BYTES)
    size = int.from_bytes(data[1:start], "big")
    window = -zlib.MAX_WBITS if header & _RAW_DEFLATE else zlib.MAX_WBITS
    try:
        inflated = zlib.decompress(data[start:], window, bufsize=size)
    except zlib.error as error:
        raise CorruptData(
            f"cannot read {name}: {error}; read the log again from its source"
        ) from error
    if len(inflated) != size:
        raise CorruptData(
            f"cannot read {name}: expected {size} bytes, got {len(inflated)}; read the log again "
            "from its source"
        )
    return inflated
