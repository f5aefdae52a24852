"""Rows of a query, read a column at a time from the text of COPY.

Values are in the form of their types' output functions, as in the log. Source: the page "COPY" of
PostgreSQL's documentation, "Text Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.errors import error_from_result

from headwater.cdc.columns import LogBytes, Nulls, Offsets, binary_column
from headwater.cdc.columns.gather import PADDING
from headwater.cdc.postgres.escaped_text import unescaped
from headwater.cdc.postgres.server import PostgresServer, explained

__all__ = ["copied_columns"]

# Of rows that are decoded at once: more of them do not fit into the processor's cache.
_CHUNK_BYTES = 1 << 22
_TAB, _NEWLINE, _BACKSLASH = (ord(character) for character in "\t\n\\")
_NULL = int.from_bytes(b"\\N", "little")
_NULL_BYTES = 2


def copied_columns(
    server: PostgresServer, query: str, columns: int
) -> Iterator[Sequence[pa.Array]]:
    """Run a query, and read its rows batch by batch.

    Args:
        server: A connection that nobody else uses meanwhile.
        query: The query, without parameters.
        columns: How many columns it has.

    Yields:
        The columns of some rows, each ``binary``: values in their text form, in UTF-8.

    Raises:
        Conflict: The tables have changed, or are locked.
        Forbidden, Invalid: The server rejects the query.
        Unavailable: The connection is lost.
    """
    connection = server.connection.pgconn
    with explained(server.address):
        result = connection.exec_(f"COPY ({query}) TO STDOUT".encode())
        if result.status != pq.ExecStatus.COPY_OUT:
            raise error_from_result(result)
    is_ended = False
    try:
        while not is_ended:
            with explained(server.address):
                rows, is_ended = _received(connection)
            if rows:
                rows += bytes(PADDING)
                yield _split(LogBytes(rows), columns)
    finally:
        if not is_ended:
            _end(connection)


def _received(connection: pq.abc.PGconn) -> tuple[bytearray, bool]:
    """Some rows, each with its line's end, and whether they are the last ones."""
    # A list of views would be gone through by Python's collector again and again.
    rows = bytearray()
    receive = connection.get_copy_data
    left = _CHUNK_BYTES
    while left > 0:
        size, row = receive(0)
        if size < 0:
            _check_end(connection)
            return rows, True
        rows += row
        left -= size
    return rows, False


def _check_end(connection: pq.abc.PGconn) -> None:
    while (result := connection.get_result()) is not None:
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise error_from_result(result)
    if connection.status != pq.ConnStatus.OK:
        raise psycopg.OperationalError(connection.get_error_message())


def _end(connection: pq.abc.PGconn) -> None:
    """Give the other rows up."""
    try:
        connection.get_cancel().cancel()
        while connection.get_copy_data(0)[0] >= 0:
            pass
        while connection.get_result() is not None:
            pass
    except psycopg.Error:
        # Its next use fails.
        connection.finish()


def _split(log: LogBytes, columns: int) -> Sequence[pa.Array]:
    """The columns of rows."""
    data = log.view("u1")[: log.size]
    # Others of both are escaped.
    ends = np.flatnonzero((data == _TAB) | (data == _NEWLINE))
    counts = np.zeros(columns, np.int64)
    is_backslash = data == _BACKSLASH
    if is_backslash.any():
        # How many backslashes each column has.
        fields = np.searchsorted(ends, np.flatnonzero(is_backslash)) % columns
        counts = np.bincount(fields, minlength=columns)
    table = ends.reshape(-1, columns)
    starts = np.empty(len(table), np.int64)
    starts[:1] = 0
    starts[1:] = table[:-1, -1] + 1
    arrays: list[pa.Array] = []
    for index in range(columns):
        field_ends = table[:, index]
        arrays.append(_column(log, starts, field_ends - starts, int(counts[index])))
        starts = field_ends + 1
    return arrays


def _column(
    log: LogBytes, starts: Offsets, lengths: npt.NDArray[np.int64], backslashes: int
) -> pa.Array:
    nulls: Nulls = None
    if backslashes:
        is_null = (lengths == _NULL_BYTES) & (log.gather("<u2", starts) == _NULL)
        count = int(np.count_nonzero(is_null))
        backslashes -= count
        if count:
            nulls, lengths = is_null, np.where(is_null, 0, lengths)
    values = binary_column(log, starts, nulls, lengths)
    return unescaped(values) if backslashes else values
