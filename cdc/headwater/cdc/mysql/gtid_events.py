"""GTID events: how a transaction begins in the logs of MySQL and MariaDB.

Sources: ``control_events.h`` and ``mysql/serialization`` of MySQL, ``Gtid_log_event`` of MariaDB.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headwater.cdc.ddl import AlterPhase
from headwater.cdc.mysql.events import Event, EventType, read_packed_integer
from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.gtid import Gtid, MariadbGtid, Source
from headwater.storage.errors import CorruptData

__all__ = ["Beginning", "TransactionId", "is_gtid_event", "parse_gtid_event", "transaction_length"]

TransactionId = Gtid | MariadbGtid | FilePosition
"""What tells a transaction from others: its GTID, or where it ends in the log."""

_GTID_EVENTS = frozenset(
    {EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID}
)
_MARIADB_HEAD = struct.Struct("<QIB")
_STANDALONE, _GROUP_COMMIT, _PREPARED_XA, _COMPLETED_XA = 0x01, 0x02, 0x40, 0x80
_XA_HEAD_BYTES = 6
_MULTI_ENGINE, _START_ALTER, _COMMIT_ALTER, _ROLLBACK_ALTER = 0x01, 0x02, 0x04, 0x08
_PHASES = {
    _START_ALTER: AlterPhase.START,
    _COMMIT_ALTER: AlterPhase.COMMIT,
    _ROLLBACK_ALTER: AlterPhase.ROLLBACK,
}
_ANY_PHASE = _START_ALTER | _COMMIT_ALTER | _ROLLBACK_ALTER
_UUID_BYTES = 16
# Flags, a UUID, a number, and logical timestamps precede the time of the commit, whose highest bit
# says that the time at another server follows. Then the length comes.
_TIME_OFFSET, _TIME_BYTES, _TWO_TIMES = 42, 7, 0x80
_LENGTH_FIELD = 8


class Beginning(NamedTuple):
    """How a transaction begins.

    Args:
        gtid: Its GTID, or its position where it has none.
        has_end: Whether an event ends it (MariaDB).
        phase: The part of a two-phase ALTER (MariaDB).
    """

    gtid: TransactionId
    has_end: bool = False
    phase: AlterPhase = AlterPhase.WHOLE


def is_gtid_event(event: Event) -> bool:
    """Whether a transaction begins, with a GTID or without one."""
    return event.type in _GTID_EVENTS


def parse_gtid_event(event: Event) -> Beginning:
    """Parse a GTID event of either server.

    Raises:
        CorruptData: It ends too early.
    """
    try:
        if event.type is EventType.MARIADB_GTID:
            return _mariadb(event)
        is_tagged = event.type is EventType.GTID_TAGGED
        return Beginning(_tagged(event.body)[0] if is_tagged else _plain(event.body))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _unreadable(event, error) from error


def transaction_length(event: Event) -> int:
    """How many bytes of MySQL's log a transaction has, from its GTID event on.

    Raises:
        CorruptData: The event does not have it.
    """
    body = event.body
    try:
        if event.type is EventType.GTID_TAGGED:
            _, offset = _tagged(body)
            field = length = 0
            while field < _LENGTH_FIELD:
                field, offset = _number(body, offset)
                length, offset = _number(body, offset)
            return length
        times = 2 if body[_TIME_OFFSET + _TIME_BYTES - 1] & _TWO_TIMES else 1
        return read_packed_integer(body, _TIME_OFFSET + times * _TIME_BYTES)[0]
    except (IndexError, UnicodeDecodeError) as error:
        raise _unreadable(event, error) from error


def _unreadable(event: Event, error: Exception) -> CorruptData:
    return CorruptData(
        f"cannot read a GTID event of {len(event.body)} bytes: {error}; read the log again from "
        "its source"
    )


def _plain(body: memoryview) -> Gtid:
    (number,) = struct.unpack_from("<q", body, 1 + _UUID_BYTES)
    return Gtid(Source(_uuid(bytes(body[1 : 1 + _UUID_BYTES]))), number)


def _tagged(body: memoryview) -> tuple[Gtid, int]:
    """The GTID in a message of fields, each with its number before it; where the rest begins."""
    offset = 0
    for _ in ("version", "size", "last field that must be understood"):
        _, offset = _number(body, offset)
    _, offset = _field(body, offset, 0)  # flags
    server = bytearray()
    offset = _begin(body, offset, 1)
    for _ in range(_UUID_BYTES):
        byte, offset = _number(body, offset)
        server.append(byte)
    signed, offset = _field(body, offset, 2)  # the sign is the lowest bit
    size, offset = _field(body, offset, 3)
    tag = bytes(body[offset : offset + size]).decode("ascii")
    return Gtid(Source(_uuid(bytes(server)), tag), signed >> 1), offset + size


def _field(body: memoryview, offset: int, expected: int) -> tuple[int, int]:
    return _number(body, _begin(body, offset, expected))


def _begin(body: memoryview, offset: int, expected: int) -> int:
    field, offset = _number(body, offset)
    if field != expected:
        raise IndexError(f"expected field {expected}, got {field}")
    return offset


def _number(body: memoryview, offset: int) -> tuple[int, int]:
    """A number, which says by the ones at the end of its first byte how many more bytes it has."""
    first = body[offset]
    more = (~first & (first + 1)).bit_length() - 1
    end = offset + 1 + more
    if end > len(body):
        raise IndexError("a number is cut off")
    if more == 8:
        return int.from_bytes(body[offset + 1 : end], "little"), end
    return int.from_bytes(body[offset:end], "little") >> (more + 1), end


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _mariadb(event: Event) -> Beginning:
    body = event.body
    sequence, domain, flags = _MARIADB_HEAD.unpack_from(body)
    gtid = tuple.__new__(MariadbGtid, (domain, event.server_id, sequence))
    offset = _MARIADB_HEAD.size
    if flags & _GROUP_COMMIT:
        offset += 8
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        offset += _XA_HEAD_BYTES + body[offset + 4] + body[offset + 5]
    extra = body[offset] if offset < len(body) else 0
    has_end = not flags & _STANDALONE
    if not extra & _ANY_PHASE:
        return tuple.__new__(Beginning, (gtid, has_end, AlterPhase.WHOLE))
    phase = next(phase for flag, phase in _PHASES.items() if extra & flag)
    return Beginning(gtid, has_end, phase)
