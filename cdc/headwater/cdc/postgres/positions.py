"""Positions in the write-ahead log of a PostgreSQL server.

A position is where the server may begin to send again: a transaction whose commit record begins
before it was read, and one whose commit record begins there or later was not. So decides the
server, too, when it is asked to start at a position (``SnapBuildXactNeedsSkip`` in ``snapbuild.c``
compares where commit records begin). The end of a commit record is such a position, and so is the
end of what the server has decoded where it has nothing to send.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.cdc.source.positions import Position, of_different_servers
from headwater.storage.errors import Invalid

__all__ = ["LogPosition", "lsn_text", "parse_lsn", "record_end"]

# Of a page of the log, and of the first page of a file.
_PAGE_HEADERS = (24, 40)

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_POSITION = re.compile(r"([0-9]+)/([0-9]+)/([0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8})")


def lsn_text(lsn: int) -> str:
    """A byte position in the log as PostgreSQL writes it: ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Read a byte position as PostgreSQL writes it; Invalid."""
    match = _LSN.fullmatch(text)
    if match is None:
        raise Invalid(
            f"'{text}' is not a position in a log of PostgreSQL; expected one as 0/16B3748"
        )
    return int(match[1], 16) << 32 | int(match[2], 16)


def record_end(lsn: int, block_size: int) -> int:
    """Where the last record ends, if the next one goes to a place in the log.

    The next record goes behind the header of a page, and the one before it ends at the page.

    Args:
        lsn: Where the server writes next.
        block_size: The server's ``wal_block_size``, in bytes.
    """
    return lsn - lsn % block_size if lsn % block_size in _PAGE_HEADERS else lsn


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The transactions of a server that were read: always whole ones.

    As text it is such as ``7431118262741853/1/0/16B3748``.

    Attributes:
        system: The identifier of the server's data, which its physical replicas share.
        timeline: Counts how often a replica was promoted, or a backup was recovered.
        lsn: A byte position in the log: the end of a transaction, or of other records after it.
    """

    system: int
    timeline: int
    lsn: int

    @staticmethod
    def from_text(text: str) -> LogPosition:
        """Read a position as it writes itself; Invalid."""
        match = _POSITION.fullmatch(text)
        if match is None:
            raise Invalid(
                f"'{text}' is not a position of a PostgreSQL server; expected a system identifier, "
                "a timeline and a place in the log, such as 7431118262741853/1/0/16B3748"
            )
        return LogPosition(int(match[1]), int(match[2]), parse_lsn(match[3]))

    def __str__(self) -> str:
        return f"{self.system}/{self.timeline}/{lsn_text(self.lsn)}"

    def at(self, lsn: int) -> LogPosition:
        """Another position of the same server."""
        return LogPosition(self.system, self.timeline, lsn)

    def is_same_log(self, other: LogPosition) -> bool:
        """Whether both positions are of one log, so that one of them is the later one."""
        return (self.system, self.timeline) == (other.system, other.timeline)

    def contains(self, other: Position) -> bool:
        """Whether all transactions of the other position are in this one.

        False for a position of another log.
        """
        return isinstance(other, LogPosition) and self.is_same_log(other) and self.lsn >= other.lsn

    def union(self, other: Position) -> LogPosition:
        """The transactions of both positions.

        Raises:
            Invalid: They are of different logs.
        """
        if not isinstance(other, LogPosition) or not self.is_same_log(other):
            raise of_different_servers(self, other)
        return self if self.lsn >= other.lsn else other
