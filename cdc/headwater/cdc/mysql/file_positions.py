"""Positions by the files of a log, for MySQL servers that do not number transactions by GTIDs.

Files of a server's log have numbers, and it begins another one whenever it starts. Only RESET
BINARY LOGS uses a number again: such files are told apart by the second in which they were made.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headwater.cdc.mysql.events import Event, EventType, parse_rotation
from headwater.cdc.source.positions import Position, of_different_servers
from headwater.storage.errors import Conflict, CorruptData, Invalid

__all__ = ["FilePosition", "LogFiles", "another_file"]

_TEXT = re.compile(
    r"(?P<server>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(?P<created>[0-9]{1,10})/"
    r"(?P<base>[^/]+)\.(?P<index>[0-9]{1,18}):(?P<offset>[0-9]{1,19})"
)
# Events, and the command that asks for the log, have offsets of 32 bits.
_EVENT_OFFSETS = 1 << 32


class FilePosition(NamedTuple):
    """An offset in a file of a server's log: ``3e11…/1764377081/mysql-bin.000003:154``.

    Attributes:
        server: The server's UUID.
        created: When the file was made, in seconds since 1970.
        file: The file's name.
        offset: Bytes from its beginning.
    """

    server: str
    created: int
    file: str
    offset: int

    @staticmethod
    def from_text(text: str) -> FilePosition:
        """Parse ``server/created/file:offset``.

        Raises:
            Invalid: The text is not such a position.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise Invalid(
                f"cannot read log position '{text[:120]}': expected server/created/file.number:"
                "offset; use the value as a pipeline records it"
            )
        file = f"{match['base']}.{match['index']}"
        return FilePosition(match["server"], int(match["created"]), file, int(match["offset"]))

    def __str__(self) -> str:
        return f"{self.server}/{self.created}/{self.file}:{self.offset}"

    def contains(self, other: Position) -> bool:
        """Whether this position is at or after the other one of the same log."""
        return isinstance(other, FilePosition) and self.compare(other) in (0, 1)

    def union(self, other: Position) -> FilePosition:
        """The later position.

        Raises:
            Invalid: They are of different logs.
        """
        order = self.compare(other) if isinstance(other, FilePosition) else None
        if not isinstance(other, FilePosition) or order is None:
            raise of_different_servers(self, other)
        return other if order < 0 else self

    def compare(self, other: FilePosition) -> int | None:
        """Return -1 if the other position is after this one, 0 if equal, 1 if before.

        Files are ordered by their numbers, of six digits or more. None if the positions are of
        different logs.
        """
        base, _, index = self.file.rpartition(".")
        other_base, _, other_index = other.file.rpartition(".")
        if (self.server, base) != (other.server, other_base):
            return None
        position, other_position = (int(index), self.offset), (int(other_index), other.offset)
        if position[0] == other_position[0] and self.created != other.created:
            return None
        return (position > other_position) - (position < other_position)

    @property
    def is_start(self) -> bool:
        """Whether a server can send its log from here on."""
        return self.offset < _EVENT_OFFSETS


class LogFiles:
    """Where the transactions of a stream end in the server's files.

    Args:
        source: The log's name in messages.
        start: The position that the stream begins after.
    """

    def __init__(self, source: str, start: FilePosition) -> None:
        self._source, self._start = source, start
        self._place = start

    def between(self, event: Event) -> FilePosition | None:
        """Take an event that is not of a transaction; the position at which a file begins.

        Raises:
            Conflict: The server has another file of the start's name.
        """
        if event.type is EventType.ROTATE:
            # A server sends one before each file, too.
            rotation = parse_rotation(event)
            self._place = self._place._replace(file=rotation.file, offset=rotation.position)
        elif event.type is EventType.FORMAT_DESCRIPTION:
            if self._place.file == self._start.file and event.timestamp != self._start.created:
                raise another_file(self._source, self._start, event.timestamp)
            self._place = self._place._replace(created=event.timestamp)
        elif event.type is EventType.PREVIOUS_GTIDS:
            self._place = self._place._replace(offset=event.end_position)
            return self._place
        return None

    def end_of(self, event: Event, length: int) -> FilePosition:
        """Where a transaction ends.

        Args:
            event: The event that begins it.
            length: How many bytes of the log it has.

        Raises:
            CorruptData: It does not begin where the one before ended.
        """
        self._check(self._place.offset, event.end_position - event.size)
        server, created, file, offset = self._place
        return FilePosition(server, created, file, offset + length)

    def ended(self, transaction: FilePosition, offset: int) -> None:
        """Note that a transaction was read whole.

        Args:
            transaction: Where it should end.
            offset: Where its last event ends, modulo 4 GiB.

        Raises:
            CorruptData: They differ.
        """
        self._check(transaction.offset, offset)
        self._place = transaction

    def _check(self, expected: int, offset: int) -> None:
        if (expected - offset) % _EVENT_OFFSETS:
            raise CorruptData(
                f"{self._source}: expected offset {expected} of {self._place.file}, got {offset} "
                "(modulo 4 GiB); read the tables again: headwater cdc resnapshot --all"
            )


def another_file(source: str, position: FilePosition, created: int) -> Conflict:
    """The error for a file that has the name of a position's, and was made at another time."""
    return Conflict(
        f"{source} lacks transactions of '{position}', where the pipeline is: its file "
        f"{position.file} was made at {created} (seconds since 1970), so that the log was reset, "
        "or the server restored; read the tables again: headwater cdc resnapshot --all"
    )
