"""The log of a MariaDB server, as it sends it to a replica."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from headwater.cdc.mysql.log_chunks import LogChunks
from headwater.cdc.mysql.log_stream import FileStart, GtidStart, LogChunk, LogPiece, LogStream
from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.storage.errors import Forbidden, NotFound, Unavailable

pytestmark = pytest.mark.mariadb

WRITE_ROWS, XID, ROTATE, FORMAT = 23, 16, 4, 15
MAX_PACKET = (1 << 24) - 1


def place(server: MySQLServer) -> tuple[FileStart, GtidStart]:
    """The end of the log, in both forms."""
    ((file, offset, *_),) = server.rows("SHOW MASTER STATUS")
    ((gtids,),) = server.rows("SELECT @@gtid_binlog_pos")
    return FileStart(str(file), int(str(offset))), GtidStart(str(gtids))


def kinds(chunk: LogChunk) -> Counter[int]:
    """The numbers of events by their types; they fill the chunk."""
    counts: Counter[int] = Counter()
    data, at = chunk.data, chunk.start
    while at < chunk.end:
        at += chunk.gap
        counts[data[at + 4]] += 1
        at += struct.unpack_from("<I", data, at + 9)[0]
    assert at == chunk.end
    return counts


def read_to_end(address: Address, start: FileStart | GtidStart) -> Counter[int]:
    with LogStream(address, start, server_id=77, waits=False) as stream:
        return sum((kinds(chunk) for chunk in stream.chunks()), Counter())


def test_events_from_a_place_to_the_end(shop: MySQLServer, shop_source: Address) -> None:
    starts = place(shop)
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY, b LONGBLOB)")
    for number in range(3):
        shop.rows("INSERT INTO shop.t VALUES (%s, 'x')", [number])
    # An event of three packets, between smaller ones.
    shop.rows("INSERT INTO shop.t VALUES (99, REPEAT('y', 40000000))")
    shop.rows("INSERT INTO shop.t VALUES (100, 'z')")
    for start in starts:
        counts = read_to_end(shop_source, start)
        assert (counts[WRITE_ROWS], counts[XID]) == (5, 5)
        assert counts[FORMAT] >= 1
    file, gtid = place(shop)
    for start in (file, gtid):
        counts = read_to_end(shop_source, start)
        assert (counts[WRITE_ROWS], counts[XID]) == (0, 0)


def logged_sizes(server: MySQLServer, start: FileStart) -> list[int]:
    """The sizes of events with inserted rows."""
    events = server.rows(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.offset}")
    return [
        int(str(end)) - int(str(begin))
        for _, begin, type_, _, end, _ in events
        if str(type_).startswith("Write_rows")
    ]


def test_events_that_fill_packets(shop: MySQLServer, shop_source: Address) -> None:
    """A packet of the largest size is followed by another one, perhaps an empty one."""
    start, _ = place(shop)
    shop.rows("CREATE TABLE shop.t (b LONGBLOB)")
    shop.rows("INSERT INTO shop.t VALUES ('y')")
    (smallest,) = logged_sizes(shop, start)
    # A status byte is before each event.
    sizes = [MAX_PACKET - 2, MAX_PACKET - 1, MAX_PACKET, 2 * MAX_PACKET - 1]
    for size in sizes:
        shop.rows("INSERT INTO shop.t VALUES (REPEAT('y', %s))", [size - smallest + 1])
    shop.rows("INSERT INTO shop.t VALUES ('z')")
    assert logged_sizes(shop, start) == [smallest, *sizes, smallest]
    counts = read_to_end(shop_source, start)
    assert (counts[WRITE_ROWS], counts[XID]) == (6, 6)


def pieces(sent: bytes, size: int, headroom: int | None) -> list[LogPiece]:
    """Pieces of some bytes, all in one buffer or each in its own after free bytes."""
    if headroom is None:
        buffer = memoryview(sent)
        ends = [*range(size, len(sent), size), len(sent)]
        return [
            LogPiece(buffer, start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
    parts = [sent[at : at + size] for at in range(0, len(sent), size)]
    return [
        LogPiece(memoryview(bytearray(headroom) + part), headroom, headroom + len(part))
        for part in parts
    ]


@pytest.mark.parametrize("headroom", [None, 0, 6, 1 << 16])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000])
def test_events_are_cut_wherever_pieces_end(
    shop: MySQLServer, shop_source: Address, size: int, headroom: int | None
) -> None:
    start, _ = place(shop)
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    for number in range(3):
        shop.rows("INSERT INTO shop.t VALUES (%s)", [number])
    sent = b""
    with LogStream(shop_source, start, server_id=77, waits=False) as stream:
        expected: Counter[int] = Counter()
        for piece in stream.pieces():
            sent += piece.buffer[piece.start : piece.end]
            expected += sum(map(kinds, stream.cut(piece)), Counter())
            if stream.ended:
                break
    assert (expected[WRITE_ROWS], expected[XID]) == (3, 3)
    with LogStream(shop_source, start, server_id=77, waits=False) as stream:
        chunks = [chunk for piece in pieces(sent, size, headroom) for chunk in stream.cut(piece)]
        assert stream.ended
    assert sum(map(kinds, chunks), Counter()) == expected


def test_events_are_read_over_the_end_of_a_file(shop: MySQLServer, shop_source: Address) -> None:
    start, _ = place(shop)
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    for number in range(3):
        shop.rows("INSERT INTO shop.t VALUES (%s)", [number])
        shop.rows("FLUSH BINARY LOGS")
    counts = read_to_end(shop_source, start)
    assert counts[WRITE_ROWS] == 3
    assert counts[ROTATE] >= 3


def test_a_stream_waits_for_what_follows(shop: MySQLServer, shop_source: Address) -> None:
    start, _ = place(shop)
    shop.rows("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    with LogStream(shop_source, start, server_id=78) as stream:
        chunks = stream.chunks()
        counts = kinds(next(chunks))
        inserting = threading.Thread(target=shop.rows, args=("INSERT INTO shop.t VALUES (1), (2)",))
        inserting.start()
        while not counts[XID]:
            counts += kinds(next(chunks))
        inserting.join()
        assert counts[WRITE_ROWS] == 1


@pytest.mark.parametrize(
    "start", [FileStart("log.999999"), FileStart("log.000001", 90_000_000), GtidStart("0-1-999999")]
)
def test_a_log_that_is_gone_is_named(
    shop: MySQLServer, shop_source: Address, start: FileStart | GtidStart
) -> None:
    with pytest.raises(NotFound, match="does not have its log from") as error:
        read_to_end(shop_source, start)
    assert str(start) in str(error.value)


def test_who_may_not_read_the_log_is_told_so(shop: MySQLServer, shop_source: Address) -> None:
    shop.rows("CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'x'")
    reader = Address(shop_source.host, shop_source.port, "reader", "x")
    with pytest.raises(Forbidden, match="REPLICATION SLAVE"):
        read_to_end(reader, FileStart("log.000001"))
    shop.rows("DROP USER reader@'%'")


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        LogStream(Address("127.0.0.1", 1, "u", ""), FileStart("log.000001"), server_id=77)


def test_a_connection_is_closed_after_its_reader(
    shop: MySQLServer, shop_source: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that gets the connection's number would get what its reader still writes."""
    stream = LogStream(shop_source, place(shop)[0], server_id=79)
    before, pieces, closed = set(threading.enumerate()), stream.pieces, threading.Event()

    def read() -> Iterator[LogPiece]:
        try:
            yield from pieces()
        finally:
            closed.wait(1)

    monkeypatch.setattr(stream, "pieces", read)
    chunks = LogChunks(stream, "the log")
    (reader,) = set(threading.enumerate()) - before
    force_close, is_read = stream._connection._force_close, list[bool]()

    def close() -> None:
        is_read.append(reader.is_alive())
        closed.set()
        force_close()

    monkeypatch.setattr(stream._connection, "_force_close", close)
    chunks.close()
    assert is_read == [False]
