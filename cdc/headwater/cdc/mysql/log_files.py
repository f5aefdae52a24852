"""Files of a server's log, by which a log that was begun again is told from the one before.

RESET BINARY LOGS and RESET MASTER let a server count its transactions and its files again. Once it
has as many transactions as before, a GTID does not tell the two logs apart. A file does: the second
one of a name was made at another time.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headwater.cdc.source.positions import READ_AGAIN
from headwater.storage.errors import Conflict, CorruptData

__all__ = ["LogFile", "log_was_reset"]

_TEXT = re.compile(r"(?P<server>[0-9]{1,10})/(?P<created>[0-9]{1,10})/(?P<name>.+\.[0-9]{1,18})")


class LogFile(NamedTuple):
    """A file of a server's log: ``1/1764377081/mysql-bin.000003``.

    Attributes:
        server: The server's id.
        created: When the file was made, in seconds since 1970.
        name: The file's name.
    """

    server: int
    created: int
    name: str

    @staticmethod
    def from_text(text: str) -> LogFile:
        """Parse ``server/created/name``; CorruptData."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise CorruptData(
                f"'{text[:120]}' is not a file of a log: expected server/created/name.number; use "
                "the version of Headwater that wrote it"
            )
        return LogFile(int(match["server"]), int(match["created"]), match["name"])

    def __str__(self) -> str:
        return f"{self.server}/{self.created}/{self.name}"

    def is_followed_by(self, other: LogFile) -> bool:
        """Whether the server's next file has the other one's name."""
        return self.is_before(other.name) and _number(other.name) == _number(self.name) + 1

    def is_before(self, name: str) -> bool:
        """Whether a file of a name was begun after this one, if both are of one log."""
        return _base(self.name) == _base(name) and _number(self.name) < _number(name)


def log_was_reset(source: str, file: str, reason: str) -> Conflict:
    """The error for a server that does not have a file any more, or has another one of its name."""
    return Conflict(
        f"{source} lacks transactions of file {file} of its log, which the pipeline has read: "
        f"{reason}, so that the log was reset, or the server restored; {READ_AGAIN}"
    )


def _base(name: str) -> str:
    return name.rpartition(".")[0]


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])
