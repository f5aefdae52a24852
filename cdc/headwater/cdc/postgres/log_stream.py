"""The log of a server as it sends it to a logical replica.

psycopg's wrapper of libpq connects and begins, although psycopg has no replication of its own.
Sources: the pages "Streaming Replication Protocol" and "Logical Streaming Replication Protocol" of
PostgreSQL's documentation, ``walsender.c``, ``logical.c``.
"""

from __future__ import annotations

import fcntl
import select
import struct
import termios
import time
from array import array
from time import monotonic

import numpy as np
import psycopg
from psycopg import conninfo, pq

from headwater.cdc.postgres.copy_messages import (
    CHUNK_BYTES,
    HEAD_BYTES,
    CopyMessages,
    MessageChunk,
    ServerFailure,
    begin_copy,
    result_failure,
)
from headwater.cdc.postgres.positions import LogPosition, lsn_text
from headwater.cdc.postgres.server import (
    NO_TRANSACTION_TIMEOUT,
    TIMEOUTS,
    TRANSACTION_TIMEOUT_VERSION,
    session_options,
)
from headwater.cdc.postgres.slots import LogSource, of_another_log
from headwater.cdc.source.positions import READ_AGAIN
from headwater.storage.errors import (
    Conflict,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    Unavailable,
)

__all__ = ["LogStream", "meaning"]

# A server that waits less for a sign of its replica ends connections that are well.
_DEFAULTS = "-c wal_sender_timeout=60s"
# More often than a server asks that waits for 30 s at least; one that waits less asks.
_STATUS_SECONDS = 5.0
# The server sends row by row, as fast as it decodes them. So long they gather, and so long is each
# pause, after which a socket of few bytes may be full.
_GATHER_SECONDS, _PAUSE_SECONDS = 0.02, 0.002
_KEEPALIVE_BYTES = 18
_KEEPALIVE = ord("k")
# The kind, what was written, flushed and applied, the time, and whether an answer is asked for.
_STATUS = struct.Struct(">cQQQqB")
_UNDEFINED_OBJECT = "42704"
_IN_USE = "55006"
_NOT_READY = "55000"
_NO_FILE = "58P01"
# Wrong passwords, users and databases, and rules of pg_hba.conf; missing privileges.
_FORBIDDEN = ("28", "42501")
# Lost connections, sessions that take too long, a lack of resources, a server that is shut down,
# and its operating system.
_UNAVAILABLE = ("08", "25P", "53", "57P", "58")
# In the text for a connection that is rejected, which has no code.
_REJECTIONS = (
    "password",
    "must be superuser",
    "pg_hba.conf",
    "does not exist",
    "permission denied",
    "authentication",
)


class LogStream:
    """The changes of a database from a position on, of tables in a publication.

    It is used by one thread.

    Args:
        source: The server, slot and publication.
        start: The position; the slot must not be past it.

    Raises:
        Conflict: The slot is in use, or the position is of another server.
        Forbidden: The user may not read the log.
        NotFound: The slot or the publication does not exist, or the log is gone.
        Unavailable: The server cannot be reached.
    """

    def __init__(self, source: LogSource, start: LogPosition) -> None:
        self._address, self._slot, self._start = source.address, source.slot, start
        # What the server is told: that the log until there was received, and that it may forget it.
        self._written, self._flushed = start.lsn, 0
        self._connection = self._connected(source.dsn)
        try:
            self._allow_time()
            self._check_log(source)
            self._messages = self._begin(source.publication)
        except ServerFailure as error:
            self._connection.finish()
            raise self._failure(error) from error
        except HeadwaterError:
            self._connection.finish()
            raise
        self._poll = select.poll()
        self._poll.register(self._connection.socket, select.POLLIN)
        self._reported, self._must_report = 0.0, True
        self._waiting = array("i", [0])

    def close(self) -> None:
        """End the connection; the slot is free when the server sees that."""
        self._messages.close()
        self._connection.finish()

    def __enter__(self) -> LogStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """Whether the server has ended its log, as it is shut down."""
        return self._messages.ended

    @property
    def server_process(self) -> int:
        """The number of the server's process that sends the log."""
        return self._connection.backend_pid

    # The request ------------------------------------------------------------------------------

    def _connected(self, dsn: str) -> pq.abc.PGconn:
        try:
            given = conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:
            # Its text may have the password.
            raise Invalid(
                f"the source at {self._address} cannot be reached: how to connect to it is not a "
                "URL or connection string as libpq reads it; correct it"
            ) from None
        options = f"{_DEFAULTS} {given.get('options') or ''} {session_options()}"
        ours = {"options": options, "replication": "database", "client_encoding": "UTF8"}
        text = conninfo.make_conninfo("", **{**TIMEOUTS, **given, **ours})
        connection: pq.abc.PGconn = pq.PGconn.connect(text.encode())
        if connection.status != pq.ConnStatus.OK:
            text = connection.error_message.decode(errors="replace").strip()
            connection.finish()
            raise meaning(self._address, None, text)
        return connection

    def _allow_time(self) -> None:
        """Let transactions take as long to be read as they take, whatever the user's role sets."""
        if self._connection.server_version // 10_000 < TRANSACTION_TIMEOUT_VERSION:
            return
        result = self._connection.exec_(NO_TRANSACTION_TIMEOUT.encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise result_failure(result)

    def _check_log(self, source: LogSource) -> None:
        """Check that the start is a position of this server's log."""
        result = self._connection.exec_(b"IDENTIFY_SYSTEM")
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise result_failure(result)
        system, timeline = (int(result.get_value(0, column) or b"") for column in (0, 1))
        if (system, timeline) != (self._start.system, self._start.timeline):
            raise of_another_log(source, self._start, system, timeline)

    def _begin(self, publication: str) -> CopyMessages:
        # The option is a list of identifiers, each of which may be quoted.
        names = _quoted(_quoted(publication, '"'), "'")
        command = (
            f"START_REPLICATION SLOT {_quoted(self._slot, chr(34))} LOGICAL "
            f"{lsn_text(self._start.lsn)} (proto_version '1', publication_names {names})"
        )
        return begin_copy(self._connection, command, f"the source at {self._address}")

    # The log ----------------------------------------------------------------------------------

    def receive(self, seconds: float) -> MessageChunk | None:
        """Messages that have come, as many as have; None if none comes in time.

        It also returns None at the end of the log, which `ended` says.

        Args:
            seconds: How long to wait for the first one.

        Raises:
            Forbidden: The server does not let the user read any more.
            NotFound: The log is gone, or the slot or the publication.
            Unavailable: The connection is lost.
        """
        deadline = monotonic() + seconds
        try:
            chunk = self._next(seconds)
            while chunk is None and not self.ended and monotonic() < deadline:
                chunk = self._next(deadline - monotonic())
        except ServerFailure as error:
            raise self._failure(error) from error
        # Set only: what another thread confirms meanwhile must be reported as well.
        if chunk is not None and _asks_for_status(chunk):
            self._must_report = True
        return chunk

    def _next(self, seconds: float) -> MessageChunk | None:
        if not self._messages.has_more and self._poll.poll(max(0.0, seconds) * 1000):
            self._gather()
        # Also where nothing has come: libpq may have decrypted more than it has handed over.
        return self._messages.take()

    def _gather(self) -> None:
        """Wait while the server sends messages, so that many are read at once."""
        until, last = monotonic() + _GATHER_SECONDS, -1
        while monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
            fcntl.ioctl(self._connection.socket, termios.FIONREAD, self._waiting)
            if not last < self._waiting[0] < CHUNK_BYTES:
                return
            last = self._waiting[0]

    # Status -----------------------------------------------------------------------------------

    def received(self, lsn: int) -> None:
        """Note that the log was read until there; the server is told with the next report."""
        self._written = max(self._written, lsn)

    def confirm(self, lsn: int) -> None:
        """Let the server forget the log until there: nothing of it will be read again."""
        if lsn > self._flushed:
            self._flushed = lsn
            self._must_report = True

    def report(self) -> None:
        """Tell the server what was read and confirmed, if it is time to.

        Raises:
            Unavailable: The connection is lost.
        """
        now = monotonic()
        is_due = self._must_report or now >= self._reported + _STATUS_SECONDS
        if self.ended or not is_due:
            return
        self._reported, self._must_report = now, False
        flushed = self._flushed
        # The server keeps the time for its statistics only.
        # It answers with how far it is, also when it has nothing to send.
        status = _STATUS.pack(b"r", max(self._written, flushed), flushed, flushed, 0, 1)
        try:
            self._messages.send(status)
        except ServerFailure as error:
            raise self._failure(error) from error

    # Errors -----------------------------------------------------------------------------------

    def _failure(self, failure: ServerFailure) -> HeadwaterError:
        """The error to raise for one of the server, or of the connection to it."""
        if failure.state is None:
            return Unavailable(
                f"the source at {self._address} is lost: {failure.text}; check that it runs"
            )
        return meaning(self._address, failure.state, failure.text, self._slot)


def meaning(source: str, state: str | None, text: str, slot: str = "") -> HeadwaterError:
    """The error to raise for one of a server.

    Args:
        source: The server's name in messages.
        state: The code of the error; None where no server answered with one.
        text: Its text.
        slot: The name of the slot that is read.
    """
    if state is None:
        state = _FORBIDDEN[0] if any(word in text for word in _REJECTIONS) else _UNAVAILABLE[0]
    if state == _IN_USE:
        return Conflict(
            f"replication slot '{slot}' of the source at {source} is in use: {text}; end the other "
            "process that reads it"
        )
    if state == _UNDEFINED_OBJECT:
        return NotFound(
            f"the source at {source} cannot send its log: {text}; create the publication before "
            f"the slot, or let Headwater create both, and {READ_AGAIN}"
        )
    if state == _NO_FILE:
        return NotFound(
            f"the source at {source} does not have its log any more: {text}; raise "
            f"max_slot_wal_keep_size, and {READ_AGAIN}"
        )
    if state.startswith(_FORBIDDEN):
        return Forbidden(
            f"the source at {source} rejects the connection: {text}; check the user, the password, "
            "pg_hba.conf, and that the user has the attribute REPLICATION"
        )
    if state.startswith(_UNAVAILABLE):
        return Unavailable(f"the source at {source} cannot be reached: {text}; check that it runs")
    if state == _NOT_READY:
        return Conflict(f"the source at {source} cannot send its log: {text}; {READ_AGAIN}")
    return Invalid(f"the source at {source} cannot send its log: error {state}, {text}")


def _asks_for_status(chunk: MessageChunk) -> bool:
    """Whether a message is a sign of the server that wants one of us."""
    ends = chunk.ends[np.diff(chunk.ends, prepend=0) == HEAD_BYTES + _KEEPALIVE_BYTES]
    data = np.frombuffer(chunk.data, np.uint8)
    is_keepalive = data[ends - _KEEPALIVE_BYTES] == _KEEPALIVE
    return bool((is_keepalive & (data[ends - 1] != 0)).any())


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark
