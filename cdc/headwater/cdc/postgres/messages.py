"""Messages of pgoutput, cut out of a stream: rows are left as they are, and found by their runs.

Source: the page "Logical Replication Message Formats" of PostgreSQL's documentation.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.cdc.columns.gather import PADDING
from headwater.cdc.postgres.copy_messages import HEAD_BYTES, MessageChunk
from headwater.storage.errors import CorruptData, Unsupported

__all__ = [
    "BODY_AT",
    "Begin",
    "Commit",
    "Kind",
    "Message",
    "RowRun",
    "frame",
    "parse_begin",
    "parse_commit",
    "parse_keepalive",
    "parse_truncate",
]

# Before pgoutput's message: the head, a byte "w", two positions and a time.
BODY_AT = HEAD_BYTES + 25
# Of eight bytes from there on: the kind, and the table's OID where the message has a row.
_HEAD_AT = BODY_AT - 3
_HEAD_MASK = np.uint64(int.from_bytes(bytes.fromhex("000000ffffffffff"), sys.byteorder))
_DATA, _KEEPALIVE = b"w", b"k"
_BEGIN = struct.Struct(">xQqI")
_COMMIT = struct.Struct(">xxQQq")
# The kind, how many tables there are, and options.
_TRUNCATE_HEAD = 6
_KEEPALIVE_BODY = struct.Struct(">xQqB")
# Milliseconds between 1970 and 2000, where PostgreSQL's time begins.
_EPOCH = 946_684_800_000


class Kind:
    """The first bytes of messages."""

    BEGIN = ord("B")
    COMMIT = ord("C")
    ORIGIN = ord("O")
    RELATION = ord("R")
    TYPE = ord("Y")
    INSERT = ord("I")
    UPDATE = ord("U")
    DELETE = ord("D")
    TRUNCATE = ord("T")
    MESSAGE = ord("M")
    STREAM_ABORT = ord("A")
    # Of the stream, not of pgoutput.
    KEEPALIVE = ord("k")


_KNOWN = frozenset(value for name, value in vars(Kind).items() if name.isupper())
_IS_ROW = np.zeros(256, np.bool_)
_IS_ROW[[Kind.INSERT, Kind.UPDATE, Kind.DELETE]] = True


class Message(NamedTuple):
    """A message that has no row.

    Attributes:
        kind: One of `Kind`.
        body: Its bytes; those of a keepalive have the byte before them, too.
    """

    kind: int
    body: memoryview


class RowRun(NamedTuple):
    """Messages with rows of one table, one after the other.

    Attributes:
        oid: The table's OID.
        data: Their bytes, each with those of the stream before it, and those that `LogBytes` needs
            after them.
        ends: Where each message ends, from where the first begins; None if there is one message.
    """

    oid: int
    data: memoryview
    ends: npt.NDArray[np.int64] | None

    @property
    def size(self) -> int:
        """The bytes of the messages."""
        return len(self.data) - PADDING


class Begin(NamedTuple):
    """The begin of a transaction.

    Attributes:
        lsn: Where its commit record begins.
        time: When it was committed, ms since 1970.
        number: The number of the transaction, of 32 bits.
    """

    lsn: int
    time: int
    number: int


class Commit(NamedTuple):
    """The end of a transaction.

    Attributes:
        lsn: Where its commit record begins.
        end: Where that ends.
    """

    lsn: int
    end: int


def frame(chunk: MessageChunk, source: str) -> Iterator[Message | RowRun]:
    """Find the messages of a stream, those with rows of one table together.

    Args:
        chunk: The messages.
        source: The stream's name in messages.

    Raises:
        CorruptData: A message is too short.
        Unsupported: There is a message of an unknown kind.
    """
    view = memoryview(chunk.data)
    data = np.frombuffer(view, np.uint8)
    ends = chunk.ends
    if not len(ends) or ends[-1] + PADDING > len(data):
        raise CorruptData(
            f"{source} sent messages of other lengths than announced; read the log again"
        )
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    kinds, is_data = data[starts + BODY_AT], data[starts + HEAD_BYTES] == _DATA[0]
    heads = np.ndarray(len(data) - 7, "u8", view, strides=(1,))[starts + _HEAD_AT] & _HEAD_MASK
    if _IS_ROW[kinds[0]] and is_data.all() and (heads == heads[0]).all():
        oid = int.from_bytes(view[BODY_AT + 1 : BODY_AT + 5], "big")
        yield RowRun(oid, view[: ends[-1] + PADDING], ends if len(ends) > 1 else None)
        return
    is_row = _IS_ROW[kinds] & is_data
    # Rows have their table's OID there, and each other message a number of its own.
    oids = np.ndarray(len(data) - 3, ">u4", view, strides=(1,))[starts + BODY_AT + 1]
    group = np.where(is_row, oids.astype(np.int64), -1 - np.arange(len(ends)))
    firsts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    lasts = np.append(firsts[1:], len(ends)) - 1
    bounds = zip(
        group[firsts].tolist(),
        firsts.tolist(),
        lasts.tolist(),
        starts[firsts].tolist(),
        ends[lasts].tolist(),
        strict=True,
    )
    for oid, first, last, start, end in bounds:
        if oid >= 0:
            run_ends = None if first == last else ends[first : last + 1] - start
            yield RowRun(oid, view[start : end + PADDING], run_ends)
        else:
            yield _message(view[start:end], source)


def _message(message: memoryview, source: str) -> Message:
    content = message[HEAD_BYTES:]
    if content[:1] == _KEEPALIVE:
        return Message(Kind.KEEPALIVE, content)
    if content[:1] != _DATA or len(message) <= BODY_AT:
        raise CorruptData(
            f"{source} sent a message of {len(content)} bytes that begins with "
            f"{bytes(content[:1])!r}, which is not one of its log; read the log again"
        )
    kind = message[BODY_AT]
    if kind not in _KNOWN or kind == Kind.KEEPALIVE:
        raise Unsupported(
            f"{source} has a message {chr(kind)!r} in its log, which is not known: nothing is "
            "passed over; update Headwater, or use a replication slot without two-phase commits"
        )
    return Message(kind, message[BODY_AT:])


def parse_begin(body: memoryview) -> Begin:
    """Read a Begin message; CorruptData."""
    lsn, time, number = _unpacked(_BEGIN, body)
    return Begin(lsn, time // 1000 + _EPOCH, number)


def parse_commit(body: memoryview) -> Commit:
    """Read a Commit message; CorruptData."""
    lsn, end, _ = _unpacked(_COMMIT, body)
    return Commit(lsn, end)


def parse_keepalive(body: memoryview) -> int:
    """Until where the server has sent what its log has; CorruptData."""
    lsn, _, _ = _unpacked(_KEEPALIVE_BODY, body)
    return lsn


def parse_truncate(body: memoryview) -> tuple[int, ...]:
    """The OIDs of the tables that a Truncate message empties; CorruptData."""
    # The options, CASCADE and RESTART IDENTITY, change no other rows: all tables are listed.
    count = int.from_bytes(body[1:5], "big")
    if len(body) != _TRUNCATE_HEAD + 4 * count:
        raise _wrong_length(body)
    oids: tuple[int, ...] = struct.unpack_from(f">{count}I", body, _TRUNCATE_HEAD)
    return oids


def _unpacked(layout: struct.Struct, body: memoryview) -> tuple[int, ...]:
    if len(body) != layout.size:
        raise _wrong_length(body)
    return layout.unpack(body)


def _wrong_length(body: memoryview) -> CorruptData:
    return CorruptData(
        f"cannot read a message of the log: it has {len(body)} bytes, which begin with "
        f"{bytes(body[:20]).hex(' ')}; read the log again"
    )
