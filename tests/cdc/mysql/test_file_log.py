"""The log of a MySQL server without GTIDs, and when its transactions can be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event, Thread

import pytest
from tests.cdc.source_logs import SourceServer
from tests.cdc.waiting import until

from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.source.log_batches import BatchLimits, LogBatch
from headwater.cdc.source.positions import Position

pytestmark = pytest.mark.mysql


@pytest.fixture
def server(mysql_files: SourceServer) -> Iterator[MySQLServer]:
    """A connection to the server, with an empty table ``t``."""
    database = mysql_files.database
    with MySQLServer(mysql_files.address) as server:
        for statement in (
            f"CREATE DATABASE IF NOT EXISTS {database}",
            f"USE {database}",
            "CREATE TABLE t (id INT PRIMARY KEY)",
        ):
            server.rows(statement)
        yield server
        server.rows(f"DROP DATABASE {database}")


@pytest.fixture
def source(server: MySQLServer) -> Iterator[MySQLSource]:
    """The server as a source."""
    with closing(MySQLSource(server.address)) as source:
        yield source


@pytest.fixture
def release(server: MySQLServer) -> Iterator[Callable[[], object]]:
    """Holds commits back between the log and the engine, until it is called."""
    server.rows("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    server.rows("SET GLOBAL rpl_semi_sync_source_timeout = 600000")
    server.rows("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    try:
        yield lambda: server.rows("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
    finally:
        server.rows("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        server.rows("UNINSTALL PLUGIN rpl_semi_sync_source")


def running(action: Callable[[], object]) -> Thread:
    thread = Thread(target=action, daemon=True)
    thread.start()
    return thread


def read_transaction(source: MySQLSource, after: Position) -> LogBatch:
    """Read what follows a position, once it has come."""
    with closing(source.open_log(after, 1 << 20, lambda _: True)) as log:
        while True:
            batch = log.read_batch(BatchLimits(0.1))
            if batch.transactions:
                return batch


def run(server: MySQLServer, statement: str) -> Thread:
    """Run a statement in another session."""

    def execute() -> None:
        with MySQLServer(server.address) as session:
            session.rows(f"USE {database}")
            session.rows(statement)

    ((database,),) = server.rows("SELECT DATABASE()")
    return running(execute)


def count(server: MySQLServer) -> int:
    ((rows,),) = server.rows("SELECT COUNT(*) FROM t")
    return int(str(rows))


def files(server: MySQLServer) -> list[str]:
    return [str(name) for name, *_ in server.rows("SHOW BINARY LOGS")]


def test_a_read_waits_for_what_the_log_has(
    server: MySQLServer, source: MySQLSource, release: Callable[[], object]
) -> None:
    start = source.position()
    writer = run(server, "INSERT INTO t VALUES (1)")
    batch = read_transaction(source, start)
    assert count(server) == 0
    order: list[object] = []
    ((database,),) = server.rows("SELECT DATABASE()")

    def read() -> None:
        with source.consistent_read(batch.end) as read:
            order.append(read.server.rows(f"SELECT id FROM {database}.t"))

    reader = running(read)
    flushing = "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'FLUSH%'"
    until(lambda: server.rows(flushing))
    order.append("released")
    release()
    for thread in (reader, writer):
        thread.join()
    assert order == ["released", ((1,),)]


@pytest.mark.parametrize("waiter", ["a batch that has the end", "a pipeline that begins after it"])
def test_xa_transactions_end_after_a_file_has(
    server: MySQLServer, source: MySQLSource, release: Callable[[], object], waiter: str
) -> None:
    """A server does not wait for them before it begins another file."""
    release()
    with MySQLServer(server.address) as session:
        ((database,),) = server.rows("SELECT DATABASE()")
        for statement in (
            "XA START 'one'",
            f"INSERT INTO {database}.t VALUES (1)",
            "XA END 'one'",
            "XA PREPARE 'one'",
        ):
            session.rows(statement)
    start = source.start()
    server.rows("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    writer = run(server, "XA COMMIT 'one'")
    batch = read_transaction(source, start)
    with source.consistent_read(batch.end) as read:
        assert read.server.rows(f"SELECT COUNT(*) FROM {database}.t") == ((0,),)
    ended = Event()

    def wait() -> None:
        if waiter == "a batch that has the end":
            source.await_ends(batch.xa)
        else:
            source.start()
        ended.set()

    def recoveries() -> int:
        ((_, number),) = server.rows("SHOW GLOBAL STATUS LIKE 'Com_xa_recover'")
        return int(str(number))

    before = recoveries()
    waiting = running(wait)
    until(lambda: ended.is_set() or recoveries() > before + 3)
    assert not ended.is_set()
    release()
    for thread in (waiting, writer):
        thread.join()
    assert count(server) == 1


def test_files_are_begun_only_where_they_are_needed(
    server: MySQLServer, source: MySQLSource
) -> None:
    server.rows("INSERT INTO t VALUES (1)")
    position, before = source.position(), files(server)
    for _ in range(3):
        with source.consistent_read(position):
            pass
    assert len(files(server)) == len(before) + 1
    # Nothing is in the new file.
    position = source.position()
    with source.consistent_read(position):
        pass
    # Another one was begun for another reason.
    server.rows("INSERT INTO t VALUES (2)")
    position = source.position()
    server.rows("FLUSH BINARY LOGS")
    with source.consistent_read(position):
        pass
    assert len(files(server)) == len(before) + 2


def test_a_position_names_the_server_and_its_file(server: MySQLServer, source: MySQLSource) -> None:
    ((uuid, now),) = server.rows("SELECT @@server_uuid, UNIX_TIMESTAMP()")
    position = source.position()
    assert isinstance(position, FilePosition)
    assert position.server == uuid
    assert 0 <= int(str(now)) - position.created < 24 * 3600
    assert (position.file, position.offset) == server.rows("SHOW BINARY LOG STATUS")[0][:2]
    assert source.parse(str(position)) == position
    server.rows("INSERT INTO t VALUES (1)")
    server.rows("FLUSH BINARY LOGS")
    server.rows("INSERT INTO t VALUES (2)")
    end = source.position()
    with closing(source.open_log(position, 1 << 20, lambda _: True)) as log:
        batch = log.read_until(end)
        log.follow({})
    assert batch.end == end
    # The beginning of a file counts as one.
    assert batch.transactions == 3


def test_positions_are_in_files_of_seconds_that_are_over(
    source: MySQLSource, server: MySQLServer
) -> None:
    """A log that is begun again has no file of a name that was made in the same second."""

    def is_over(position: Position) -> bool:
        assert isinstance(position, FilePosition)
        ((now,),) = server.rows("SELECT UNIX_TIMESTAMP()")
        return int(str(now)) > position.created

    for _ in range(3):
        server.rows("FLUSH BINARY LOGS")
        start = source.start()
        assert is_over(start)
        server.rows("FLUSH BINARY LOGS")
        end = read_transaction(source, start).end
        assert is_over(end)
        assert start != end
