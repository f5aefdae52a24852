"""Compressed events and values.

MySQL compresses transactions, MariaDB statements, rows and the values of some columns. The events
inside are the same as without compression, so everything else reads what comes from `expand`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from headwater.cdc.mysql.events import Event, EventDecoder, EventType, read_packed_integer
from headwater.storage.errors import CorruptData, Unsupported

# Fields of a TRANSACTION_PAYLOAD event, and its compression types.
_END_OF_FIELDS, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NO_COMPRESSION = 0, 255
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


def expand(event: Event) -> Iterator[Event]:
    """Yield an event without compression: all events of a compressed transaction, else one event.

    The events of a transaction are followed by none of their own end positions; the transaction
    ends where `event` does.

    Raises:
        CorruptData: The compressed bytes cannot be read.
        Unsupported: The compression is unknown.
    """
    if event.type is EventType.TRANSACTION_PAYLOAD:
        payload = _transaction_payload(event)
        yield from EventDecoder(f"a transaction of {len(payload)} bytes").frame(payload)
        return
    type_ = _MARIADB_TYPES.get(event.type)
    if type_ is None:
        yield event
        return
    start = _query_start(event.body) if type_ is EventType.QUERY else _rows_start(event, type_)
    body = bytes(event.body[:start]) + _inflate(event.body[start:])
    size = event.size - len(event.body) + len(body)
    yield event._replace(type=type_, body=memoryview(body), size=size)


def _transaction_payload(event: Event) -> bytes:
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
        return bytes(payload)
    if fields[_COMPRESSION] != _ZSTD or _UNCOMPRESSED_SIZE not in fields:
        raise Unsupported(
            f"cannot read a compressed transaction: compression type {fields[_COMPRESSION]} is "
            "unknown; set the source's binlog_transaction_compression to OFF"
        )
    try:
        data = pa.Codec("zstd").decompress(payload, fields[_UNCOMPRESSED_SIZE], asbytes=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptData(
            f"cannot read a compressed transaction: {error}; read the log again from its source"
        ) from error
    return bytes(data)


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
