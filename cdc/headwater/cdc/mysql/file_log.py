"""The log of a MySQL server without GTIDs: where it ends, and when its transactions can be seen."""

from __future__ import annotations

from threading import Lock
from time import sleep

from headwater.cdc.mysql.events import EventDecoder, EventType
from headwater.cdc.mysql.file_positions import FilePosition, another_file
from headwater.cdc.mysql.log_stream import FileStart, LogStream, reader_id
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.source.positions import READ_AGAIN
from headwater.storage.errors import Conflict, CorruptData, NotFound

__all__ = ["FileLog", "file_created", "outlast_second"]

_RETRY_SECONDS = 0.02


class FileLog:
    """A log whose positions are offsets in its files.

    Args:
        address: The server.
        checksums: Whether events have checksums before a file's description.
    """

    def __init__(self, address: Address, *, checksums: bool) -> None:
        self._address, self._checksums = address, checksums
        self._rotation = Lock()
        # Where a file was that was asked for, as that takes a connection.
        self._last: FilePosition | None = None

    def __reduce__(self) -> tuple[object, tuple[Address, bool]]:
        # In another process it asks by itself.
        return _file_log, (self._address, self._checksums)

    def end(self, server: MySQLServer) -> FilePosition:
        """The position that the server has reached.

        Args:
            server: A connection.

        Raises:
            Unavailable: The connection is lost.
        """
        while True:
            file, offset = _status(server)
            last = self._last
            if last is not None and last.file == file and last.offset <= offset:
                return last._replace(offset=offset)
            ((uuid, now),) = server.rows("SELECT @@server_uuid, UNIX_TIMESTAMP()")
            position = FilePosition(str(uuid), 0, file, offset)
            position = position._replace(created=self._created(position))
            ((first, *_), *_) = server.rows("SHOW BINARY LOGS")
            if now != position.created or file != first:
                self._last = position
                return position
            # Another log could begin with a file of this name in the same second.
            sleep(_RETRY_SECONDS)

    def check_holds(self, server: MySQLServer, position: FilePosition) -> None:
        """Check that the server has had a position, and has its log from there on.

        Args:
            server: A connection.
            position: The position.

        Raises:
            Conflict: It lacks transactions of the position.
            NotFound: Its log was purged.
        """
        self._check_server(server, position)
        sizes = {str(name): int(str(size)) for name, size, *_ in server.rows("SHOW BINARY LOGS")}
        file, offset = _status(server)
        present = position._replace(file=file, offset=offset)
        if position.file not in sizes:
            if position._replace(created=0).compare(present._replace(created=0)) != -1:
                raise self._lacks(position, f"its log ends in file {file}")
            raise NotFound(
                f"the source at {self._address} has purged its log up to file {next(iter(sizes))}, "
                f"and the pipeline is at '{position}'; {READ_AGAIN}, and keep the log for longer: "
                "binlog_expire_logs_seconds"
            )
        if sizes[position.file] < position.offset:
            raise self._lacks(position, f"file {position.file} has {sizes[position.file]} bytes")
        if not position.is_start:
            raise Conflict(
                f"the source at {self._address} cannot send its log from '{position}' on, where "
                f"the pipeline is: offsets of 4 GiB and more cannot be asked for; {READ_AGAIN}"
            )
        created = self._created(position)
        if created != position.created:
            raise another_file(f"the source at {self._address}", position, created)

    def file_before(self, server: MySQLServer, position: FilePosition) -> FilePosition:
        """The beginning of the file before a position's, or of its own if that is the first one."""
        files = [str(file) for file, *_ in server.rows("SHOW BINARY LOGS")]
        file = files[max(0, files.index(position.file) - 1)]
        start = position._replace(file=file, offset=FileStart(file).offset)
        return start._replace(created=self._created(start))

    def show(self, server: MySQLServer, after: FilePosition) -> None:
        """Let all transactions of a position be seen.

        The server begins another file of its log only when its engines have committed all
        transactions of the file before. If it has not begun one since the position, it is told to.
        Ends of prepared XA transactions are not among these.

        Args:
            server: A connection.
            after: The position.

        Raises:
            Conflict: The server has lost its log, or is another one.
            Forbidden: The user may not begin another file.
        """
        self._check_server(server, after)
        with self._rotation:
            if self._is_later(server, after):
                return
            if after.offset <= _head_bytes(server, after.file):
                # No transaction is in it yet.
                return
            server.rows("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
            if not self._is_later(server, after):
                raise self._lacks(after, f"its log ends in file {_status(server)[0]}")

    def _check_server(self, server: MySQLServer, position: FilePosition) -> None:
        ((uuid,),) = server.rows("SELECT @@server_uuid")
        if uuid != position.server:
            raise self._lacks(
                position, f"it is server {uuid}; positions in files are of one server"
            )

    @staticmethod
    def _is_later(server: MySQLServer, after: FilePosition) -> bool:
        """Whether the server writes a file after that of a position."""
        file, _ = _status(server)
        return after._replace(file=file).compare(after) == 1

    def _created(self, position: FilePosition) -> int:
        """When the file of a position was made, in seconds since 1970."""
        start = (
            FileStart(position.file, position.offset)
            if position.is_start
            else FileStart(position.file)
        )
        return file_created(self._address, start, checksums=self._checksums)

    def _lacks(self, position: FilePosition, reason: str) -> Conflict:
        return Conflict(
            f"the source at {self._address} lacks transactions of '{position}', where the pipeline "
            f"is: {reason}; connect to the server that was read before, or {READ_AGAIN}"
        )


def file_created(address: Address, start: FileStart, *, checksums: bool) -> int:
    """When a file of a server's log was made, in seconds since 1970.

    Args:
        address: The server.
        start: The file, and where an event of it begins.
        checksums: Whether events have checksums before a file's description.

    Raises:
        NotFound: The server does not have the file.
        Unavailable: It cannot be reached.
    """
    # The server sends the description of the file first, wherever a reader begins.
    with LogStream(address, start, server_id=reader_id(), waits=False) as stream:
        decoder = EventDecoder(f"the log of {address}", checksums=checksums)
        for chunk in stream.chunks():
            for event in decoder.frame(chunk.data, chunk.start, chunk.end, gap=chunk.gap):
                if event.type is EventType.FORMAT_DESCRIPTION:
                    return event.timestamp
    raise CorruptData(f"the log of {address} has no description of file {start.file}")


def outlast_second(server: MySQLServer, second: int) -> bool:
    """Wait until a server's clock shows another second than that in which a file was made.

    Until then the server could begin another log with a file of the same name and second.

    Args:
        server: A connection.
        second: The second, since 1970.

    Returns:
        Whether it had to wait.
    """
    has_waited = False
    while True:
        ((now,),) = server.rows("SELECT UNIX_TIMESTAMP()")
        if int(str(now)) != second:
            return has_waited
        has_waited = True
        sleep(_RETRY_SECONDS)


def _status(server: MySQLServer) -> tuple[str, int]:
    """The file that the server writes, and its length."""
    ((file, offset, *_),) = server.rows("SHOW BINARY LOG STATUS")
    return str(file), int(str(offset))


def _head_bytes(server: MySQLServer, file: str) -> int:
    """Where the transactions of a file begin."""
    rows = server.rows("SHOW BINLOG EVENTS IN %s LIMIT 2", [file])
    return int(str(rows[-1][4]))


def _file_log(address: Address, checksums: bool) -> FileLog:
    return FileLog(address, checksums=checksums)
