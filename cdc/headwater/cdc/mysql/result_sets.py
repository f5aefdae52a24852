"""Rows of a query, read a column at a time from the packets of a result.

A statement that is sent as text has its values as text. A prepared one has numbers of fixed width
and dates as bytes of their parts, which neither the server nor the reader formats.

Source: the pages "Text Resultset Row" and "Binary Protocol Resultset" of MySQL's client and server
protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pymysql.connections import Connection
from pymysql.constants import COMMAND, FIELD_TYPE, FLAG
from pymysql.protocol import FieldDescriptorPacket

from headwater.cdc.columns import LogBytes, Nulls, Offsets, binary_column
from headwater.cdc.mysql.row_packets import RowPackets
from headwater.cdc.mysql.server import Address, explained

__all__ = ["FIXED_WIDTHS", "ResultColumn", "prepared_columns", "text_columns"]

_PREPARED = struct.Struct("<BIHH")
# The statement, without a cursor, once.
_EXECUTE = struct.Struct("<IBI")
# A row of a prepared statement begins with a byte 0 and the nulls of its columns, from bit 2 on.
_NULLS_BIT = 2
FIXED_WIDTHS = {
    FIELD_TYPE.TINY: 1,
    FIELD_TYPE.SHORT: 2,
    FIELD_TYPE.YEAR: 2,
    FIELD_TYPE.LONG: 4,
    FIELD_TYPE.INT24: 4,
    FIELD_TYPE.LONGLONG: 8,
    FIELD_TYPE.FLOAT: 4,
    FIELD_TYPE.DOUBLE: 8,
}
"""How many bytes values of a prepared statement have; those of other types tell their length."""
# The first byte of a value: null, or how many bytes its length has.
_NULL, _TWO, _THREE, _EIGHT = 0xFB, 0xFC, 0xFD, 0xFE


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of some rows of a prepared statement's result.

    Attributes:
        log: The packets' bytes.
        type: The column's type in the result, one of PyMySQL's ``FIELD_TYPE``.
        is_unsigned: Whether it is an unsigned number.
        offsets: Where each value begins.
        lengths: How many bytes each value has; 0 where it is null.
        nulls: Which values are null; None where none is.
    """

    log: LogBytes
    type: int
    is_unsigned: bool
    offsets: Offsets
    lengths: npt.NDArray[np.int64]
    nulls: Nulls


def text_columns(
    connection: Connection, address: Address, statement: str
) -> Iterator[Sequence[pa.Array]]:
    """Run a query, and read its rows batch by batch.

    Args:
        connection: A connection that nobody else uses meanwhile.
        address: The server, for messages.
        statement: The query.

    Yields:
        The columns of some rows, each ``binary``: numbers and times are in their text form.

    Raises:
        Forbidden, Invalid: The server rejects the query.
        Unavailable: The connection is lost.
    """
    with explained(address):
        connection._execute_command(COMMAND.COM_QUERY, statement)
        columns = _definitions(connection)
    for log, starts in RowPackets(connection, address):
        arrays: list[pa.Array] = []
        position = starts
        for _ in columns:
            offsets, lengths, nulls = _measured(log, position)
            arrays.append(binary_column(log, offsets, nulls, lengths))
            position = offsets + lengths
        yield arrays


def prepared_columns(
    connection: Connection, address: Address, statement: str
) -> Iterator[Sequence[ResultColumn]]:
    """Prepare a query, run it, and read its rows batch by batch.

    Args:
        connection, address, statement: As for `text_columns`.

    Yields:
        The columns of some rows.

    Raises:
        Forbidden, Invalid, Unavailable: As for `text_columns`.
    """
    with explained(address):
        number = _prepare(connection, statement)
        connection._execute_command(COMMAND.COM_STMT_EXECUTE, _EXECUTE.pack(number, 0, 1))
        columns = _definitions(connection)
    for log, starts in RowPackets(connection, address):
        yield _values(log, starts, columns)
    with explained(address):
        connection._execute_command(COMMAND.COM_STMT_CLOSE, number.to_bytes(4, "little"))


class _Column(NamedTuple):
    type: int
    is_unsigned: bool


def _prepare(connection: Connection, statement: str) -> int:
    """The number of a new prepared statement, which has no parameters."""
    connection._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    head = connection._read_packet().get_all_data()
    number: int
    _, number, columns, _ = _PREPARED.unpack_from(head)
    for _ in range(columns + 1):
        connection._read_packet()  # definitions, which come with the rows, too, and their end
    return number


def _definitions(connection: Connection) -> list[_Column]:
    """The columns of the result that follows."""
    count = connection._read_packet().read_length_encoded_integer()
    fields = [connection._read_packet(FieldDescriptorPacket) for _ in range(count)]
    connection._read_packet()  # the end of them
    return [_Column(field.type_code, bool(field.flags & FLAG.UNSIGNED)) for field in fields]


def _values(log: LogBytes, starts: Offsets, columns: Sequence[_Column]) -> list[ResultColumn]:
    """The columns of the rows that begin at some offsets."""
    bitmap = starts + 1
    position = bitmap + (len(columns) + _NULLS_BIT + 7) // 8
    values: list[ResultColumn] = []
    for index, column in enumerate(columns):
        byte, bit = divmod(index + _NULLS_BIT, 8)
        flags = log.gather("u1", bitmap + byte) >> bit & 1 > 0
        nulls = flags if flags.any() else None
        width = FIXED_WIDTHS.get(column.type)
        if width is None:
            offsets, lengths, _ = _measured(log, position)
            if nulls is not None:
                # They have no byte at all.
                offsets, lengths = np.where(nulls, position, offsets), np.where(nulls, 0, lengths)
        else:
            offsets, lengths = position, np.full(len(position), width, np.int64)
            if nulls is not None:
                lengths[nulls] = 0
        values.append(ResultColumn(log, *column, offsets, lengths, nulls))
        position = offsets + lengths
    return values


def _measured(log: LogBytes, at: Offsets) -> tuple[Offsets, npt.NDArray[np.int64], Nulls]:
    """Where values begin that have their lengths before them, these lengths, and which are null."""
    first = log.gather("u1", at)
    offsets, lengths = at + 1, first.astype(np.int64)
    if first.max(initial=0) < _NULL:
        return offsets, lengths, None
    nulls = first == _NULL
    lengths[nulls] = 0
    for mark, size in ((_TWO, 2), (_THREE, 3), (_EIGHT, 8)):
        (rows,) = np.nonzero(first == mark)
        if len(rows):
            words = log.gather("<u8", at[rows] + 1)
            lengths[rows] = (words & np.uint64((1 << 8 * size) - 1)).astype(np.int64)
            offsets[rows] += size
    return offsets, lengths, nulls if nulls.any() else None
