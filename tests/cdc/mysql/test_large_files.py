"""Log files of more than 4 GiB, whose events have offsets of 32 bits.

A server writes such a file for one transaction that is as large. Here the events are a server's,
and their offsets are moved to the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cdc.source_logs import SourceServer

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.events import EventType
from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.log_chunks import LogChunks
from headwater.cdc.mysql.log_stream import LogChunk, LogPiece
from headwater.cdc.mysql.transactions import MySQLLogReader
from headwater.cdc.source.log_batches import BatchLimits
from headwater.storage.errors import CorruptData

pytestmark = pytest.mark.mysql

LIMIT = 1 << 32
SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MAGIC_BYTES, HEADER_BYTES = 4, 19
TRANSACTIONS = 6


class RecordedStream:
    """A stream of recorded events."""

    ended = False

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pieces(self) -> Iterator[LogPiece]:
        yield LogPiece(memoryview(self._data), 0, len(self._data))

    def cut(self, piece: LogPiece) -> Iterator[LogChunk]:
        yield LogChunk(*piece)
        self.ended = True

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        """Nothing is open."""


def events(path: Path) -> list[bytes]:
    """The events of a log file."""
    data, at, found = path.read_bytes(), MAGIC_BYTES, []
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + size])
        at += size
    return found


def moved(event: bytes, distance: int) -> bytes:
    """An event further on in its file, with the checksum that it then has."""
    end = (int.from_bytes(event[13:17], "little") + distance) % LIMIT
    body = event[:13] + end.to_bytes(4, "little") + event[17:-4]
    return body + zlib.crc32(body).to_bytes(4, "little")


class Recording:
    """A server's log of two files, the first one of which passes 4 GiB.

    Attributes:
        start: Where the first transaction begins.
        ends: Where the transactions of the first file end.
        created: When the second file was made.
    """

    def __init__(self, server: SourceServer) -> None:
        server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
        server.run("FLUSH BINARY LOGS")
        rows = (f"({number}, REPEAT('x', 80))" for number in range(TRANSACTIONS))
        server.run(*(f"INSERT INTO t VALUES {row}" for row in rows))
        *_, first = server.log_files()
        server.run(f"INSERT INTO t VALUES ({TRANSACTIONS}, 'next')")
        *_, second = server.log_files()
        description, previous, *rest = events(first)
        assert previous[4] == EventType.PREVIOUS_GTIDS
        begin = int.from_bytes(previous[13:17], "little")
        ends = [
            int.from_bytes(event[13:17], "little") for event in rest if event[4] == EventType.XID
        ]
        # The third transaction goes over the limit.
        distance = LIMIT - (ends[1] + ends[2]) // 2
        self.database = server.database
        self._created = int.from_bytes(description[:4], "little")
        self._data = description + b"".join(moved(event, distance) for event in rest)
        self._data += b"".join(events(second))
        self.created = int.from_bytes(events(second)[0][:4], "little")
        self.second = second.name
        self._file = first.name
        self.start = self.at(begin + distance)
        self.ends = [self.at(end + distance) for end in ends]

    def at(self, offset: int) -> FilePosition:
        return FilePosition(SERVER, self._created, self._file, offset)

    def reader(self, start: FilePosition) -> MySQLLogReader:
        chunks = LogChunks(RecordedStream(self._data), "the log")  # type: ignore[arg-type]
        reader = MySQLLogReader(
            chunks, start, is_selected=lambda _: True, checksums=True, mariadb=False
        )
        reader.follow({TableName(self.database, "t"): None})
        return reader


@pytest.fixture
def recording(mysql_files: SourceServer) -> Recording:
    """A log with a file that passes 4 GiB."""
    return Recording(mysql_files)


def test_batches_end_where_a_server_can_begin(recording: Recording) -> None:
    """Nobody can ask a server for its log from 4 GiB on: such a batch goes on to the next file."""
    with closing(recording.reader(recording.start)) as reader:
        batches = [reader.read_batch(BatchLimits(60, bytes=1)) for _ in range(4)]
    first, second, third, _ = batches
    assert [first.end, second.end] == recording.ends[:2]
    assert isinstance(third.end, FilePosition)
    assert third.end.file == recording.second
    assert third.end.created == recording.created
    assert third.end.is_start
    # The rest of the first file, a session that ends it, and the beginning of the second one.
    assert third.transactions == TRANSACTIONS - 2 + 2
    assert all(batch.rows for batch in batches)


def test_a_batch_is_read_again_up_to_a_position_beyond(recording: Recording) -> None:
    assert [end.offset >= LIMIT for end in recording.ends[:3]] == [False, False, True]
    for count, end in enumerate(recording.ends, 1):
        with closing(recording.reader(recording.start)) as reader:
            batch = reader.read_until(end)
        # Each session of the test creates its database before.
        assert (batch.end, batch.transactions) == (end, count + 1)
        assert isinstance(batch.end, FilePosition)
        assert batch.end.offset == end.offset


def test_offsets_that_do_not_fit_are_an_error(recording: Recording) -> None:
    start = recording.start._replace(offset=recording.start.offset - 1)
    with (
        closing(recording.reader(start)) as reader,
        pytest.raises(CorruptData, match=r"expected offset .* \(modulo 4 GiB\)"),
    ):
        reader.read_batch(BatchLimits(60, bytes=1))
