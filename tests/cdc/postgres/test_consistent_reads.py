"""Reads that see everything that was received from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.consistent_reads import LoggedTransactions, Snapshot, consistent_read
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.errors import Conflict, Unavailable

pytestmark = pytest.mark.postgresql

READS = 25
BUSY = "SELECT pg_sleep(3600)"
MODES = ("on", "off", "local", "remote_apply")


@pytest.fixture
def server(postgres: PostgresDatabase) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(postgres.url)) as connection:
        yield connection


@pytest.fixture
def table(postgres: PostgresDatabase, server: PostgresServer) -> SourceTable:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (0, 'a')")
    return known(server, "t")


def known(server: PostgresServer, name: str) -> SourceTable:
    (table,) = read_tables(server, {TableName("public", name)}).followed
    return table


def ids(
    server: PostgresServer,
    table: SourceTable,
    may_be_committed: Callable[[int], bool] = lambda _: True,
    seconds: float = 60,
) -> set[int]:
    with consistent_read(server, 0, may_be_committed, seconds=seconds) as read:
        read.check(table)
        batches = list(read.range(table, KeyRange()))
    return {number for batch in batches for number in batch.column("id").to_pylist()}


class Log:
    """The log of a table, whose transactions are received when this is asked."""

    def __init__(self, postgres: PostgresDatabase, *tables: str) -> None:
        postgres.run(f"CREATE PUBLICATION p FOR TABLE {', '.join(tables)}")
        self._session = psycopg.connect(postgres.url, autocommit=True)
        self._slot = f"s_{postgres.name}"
        self._session.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self._slot]
        )

    def received(self) -> tuple[set[int], set[int]]:
        """The numbers of transactions, and the ids of rows that they inserted."""
        rows = self._session.execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'p')",
            [self._slot],
        ).fetchall()
        messages: list[bytes] = [data for (data,) in rows]
        numbers = {int.from_bytes(data[17:21], "big") for data in messages if data[:1] == b"B"}
        inserted = {
            int(data[13 : 13 + int.from_bytes(data[9:13], "big")])
            for data in messages
            if data[:1] == b"I"
        }
        return numbers, inserted

    def close(self) -> None:
        self._session.close()


@contextmanager
def unanswered_commits(postgres: PostgresDatabase) -> Iterator[None]:
    """Commits are logged, and wait for a standby that does not exist; they end with this."""
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    try:
        postgres.rows("SELECT pg_reload_conf()")
        # A process of the server reads the setting for all the others.
        while not is_commit_waiting(postgres):
            pass
        yield
    finally:
        postgres.run("ALTER SYSTEM RESET synchronous_standby_names")
        postgres.rows("SELECT pg_reload_conf()")


def is_commit_waiting(postgres: PostgresDatabase) -> bool:
    """Whether a commit waits for a standby."""
    with psycopg.connect(postgres.url, autocommit=True) as session:
        session.execute("SET synchronous_commit = on")
        commit = "SELECT pg_logical_emit_message(true, '', '')"
        thread = Thread(target=session.execute, args=[commit])
        thread.start()
        waiting = f"pg_stat_activity WHERE pid = {session.info.backend_pid} AND "
        is_waiting = False
        while thread.is_alive() and not is_waiting:
            is_waiting = bool(postgres.rows(f"SELECT 1 FROM {waiting} wait_event = 'SyncRep'"))
        postgres.rows(f"SELECT pg_cancel_backend(pid) FROM {waiting} wait_event = 'SyncRep'")
        thread.join()
    return is_waiting


def test_a_commit_that_was_received_is_waited_for(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    log = Log(postgres, "t")
    logged = LoggedTransactions(server)
    writer = psycopg.connect(postgres.url, autocommit=True)
    writer.execute("SET synchronous_commit = on")
    with unanswered_commits(postgres):
        thread = Thread(target=writer.execute, args=["INSERT INTO t VALUES (1, 'b')"])
        thread.start()
        inserted: set[int] = set()
        while not inserted:
            numbers, inserted = log.received()
        assert inserted == {1}
        # The log has it, and others do not see it.
        assert postgres.value("SELECT count(*) FROM t") == 1
        # Its number is not known to have come yet: that is how to miss it.
        assert ids(server, table, logged.may_have, seconds=0) == {0}
        logged.add(numbers)
        for may_be_committed in (logged.may_have, lambda _: True):
            with pytest.raises(Unavailable, match=rf"transaction {min(numbers)} after 0 s, which"):
                ids(server, table, may_be_committed, seconds=0)
        # A pipeline that starts now does not know what its log had before.
        with pytest.raises(Unavailable):
            ids(server, table, LoggedTransactions(server).may_have, seconds=0)
        result: list[set[int]] = []
        read = Thread(target=lambda: result.append(ids(server, table, logged.may_have)))
        read.start()
    thread.join()
    read.join()
    assert result == [{0, 1}]
    log.close()
    writer.close()


@contextmanager
def running(*targets: Callable[[Event], None]) -> Iterator[None]:
    """Threads that are told to stop in the end."""
    stopped = Event()
    threads = [Thread(target=target, args=[stopped]) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_rows_of_concurrent_writers_are_seen_once_they_were_received(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    log = Log(postgres, "t")
    logged = LoggedTransactions(server)

    def writer(number: int) -> Callable[[Event], None]:
        def write(stopped: Event) -> None:
            with psycopg.connect(postgres.url, autocommit=True) as session:
                session.execute(f"SET synchronous_commit = {MODES[number]}".encode())
                identifier = number + 1
                while not stopped.is_set():
                    with suppress(psycopg.errors.QueryCanceled):
                        session.execute("INSERT INTO t VALUES (%s, 'w')", [identifier])
                    identifier += len(MODES)

        return write

    def answer(stopped: Event) -> None:
        # In place of a standby: commits end when their wait is cancelled.
        waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'"
        with psycopg.connect(postgres.url, autocommit=True) as session:
            while not stopped.is_set():
                session.execute(f"SELECT pg_cancel_backend(pid) FROM {waiting}".encode())

    received: set[int] = set()
    with running(answer), unanswered_commits(postgres), running(*map(writer, range(len(MODES)))):
        for _ in range(READS):
            numbers, inserted = log.received()
            logged.add(numbers)
            received |= inserted
            assert received <= ids(server, table, logged.may_have)
    assert received
    log.close()


@pytest.fixture
def busy(postgres: PostgresDatabase) -> Iterator[Any]:
    """Begins a transaction that runs a statement, and then another one until the test ends."""
    sessions: list[tuple[psycopg.Connection[Any], Thread]] = []

    def begin(statement: str = "INSERT INTO t VALUES (7, 'long')", then: str = BUSY) -> None:
        session = postgres.connect()
        session.execute(statement.encode())

        def run() -> None:
            with suppress(psycopg.errors.AdminShutdown):
                session.execute(then.encode())

        thread = Thread(target=run)
        thread.start()
        sessions.append((session, thread))
        process = session.info.backend_pid
        while not postgres.value(
            f"SELECT wait_event IN ('PgSleep', 'advisory') FROM pg_stat_activity "
            f"WHERE pid = {process}"
        ):
            pass

    yield begin
    for session, thread in sessions:
        postgres.rows(f"SELECT pg_terminate_backend({session.info.backend_pid})")
        thread.join()
        session.close()


def test_a_long_transaction_is_not_waited_for(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable, busy: Any
) -> None:
    logged = LoggedTransactions(server)
    busy()
    assert ids(server, table, logged.may_have, seconds=0) == {0}
    # Others have to wait for it, for all that they know.
    with pytest.raises(Unavailable, match=r"has changed table public\.t and may be in the log"):
        ids(server, table, seconds=0)
    # One that was there before the log was read is waited for; of another table, it is not.
    logged.add_running()
    with pytest.raises(Unavailable):
        ids(server, table, logged.may_have, seconds=0)
    postgres.run("CREATE TABLE other (id int PRIMARY KEY)")
    assert ids(server, known(server, "other"), seconds=0) == set()


def test_an_idle_transaction_is_not_waited_for(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    with postgres.connect() as session:
        session.execute("INSERT INTO t VALUES (7, 'idle')")
        assert ids(server, table, seconds=0) == {0}
    assert ids(server, table, seconds=0) == {0, 7}


def test_a_transaction_that_waits_for_a_lock_is_not_waited_for(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable, busy: Any
) -> None:
    postgres.run("SELECT pg_advisory_lock(1)")
    busy(then="SELECT pg_advisory_lock(1)")
    assert ids(server, table, seconds=0) == {0}


def test_a_writer_of_a_partition_is_waited_for(
    postgres: PostgresDatabase, server: PostgresServer, busy: Any
) -> None:
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE t1 PARTITION OF t DEFAULT PARTITION BY HASH (id)",
        "CREATE TABLE t2 PARTITION OF t1 FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    )
    table = known(server, "t")
    busy("INSERT INTO t2 VALUES (7)")
    with pytest.raises(Unavailable):
        ids(server, table, seconds=0)


def test_a_prepared_transaction(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    logged = LoggedTransactions(server)
    with postgres.connect() as session:
        session.execute("INSERT INTO t VALUES (7, 'prepared')")
        session.execute("PREPARE TRANSACTION 'x'")
    try:
        assert ids(server, table, logged.may_have, seconds=0) == {0}
        with pytest.raises(Unavailable):
            ids(server, table, seconds=0)
    finally:
        postgres.run("COMMIT PREPARED 'x'")
    assert ids(server, table, seconds=0) == {0, 7}


def test_numbers_of_transactions_that_have_ended_are_forgotten(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable, busy: Any
) -> None:
    busy()
    logged = LoggedTransactions(server)
    running = postgres.value(
        "SELECT transactionid::text::int FROM pg_locks WHERE locktype = 'transactionid' "
        "AND database IS NULL AND pid IN (SELECT pid FROM pg_locks WHERE relation = 't'::regclass)"
    )
    logged.add(range(1 << 30, (1 << 30) + 100_000))
    assert not logged.may_have(1 << 30)
    assert logged.may_have(running)


def test_what_is_seen_is_before_the_position(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    postgres.run("SET synchronous_commit = off", "INSERT INTO t VALUES (1, 'b')")
    with consistent_read(server, 0) as read:
        read.check(table)
        settled = read.settled()
        postgres.run("INSERT INTO t VALUES (2, 'c')")
        assert read.settled() == settled
        (batch,) = read.range(table, KeyRange())
        assert sorted(batch.column("id").to_pylist()) == [0, 1]
    end = "(pg_current_wal_insert_lsn() - '0/0')::bigint"
    assert settled < postgres.value(f"SELECT {end}")
    with consistent_read(server, 0) as read:
        assert read.settled() <= postgres.value(f"SELECT {end}")
    with (
        pytest.raises(Unavailable, match=f"and {1 << 60} was read before"),
        consistent_read(server, 1 << 60) as read,
    ):
        read.check(table)


def test_transactions_that_are_seen(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    seen = postgres.value("INSERT INTO t VALUES (1, 'b') RETURNING xmin::text::bigint")
    with postgres.connect() as early, consistent_read(server, 0) as read:
        statement = b"INSERT INTO t VALUES (2, 'c') RETURNING xmin::text::bigint"
        ((running,),) = early.execute(statement).fetchall()
        postgres.run("INSERT INTO t VALUES (3, 'd')")
        read.check(table)
        later = postgres.value("INSERT INTO t VALUES (4, 'e') RETURNING xmin::text::bigint")
        early.commit()
        assert read.snapshot is not None
        assert read.snapshot.sees(seen)
        assert not read.snapshot.sees(running)
        assert not read.snapshot.sees(later)
        (batch,) = read.range(table, KeyRange())
        assert sorted(batch.column("id").to_pylist()) == [0, 1, 3]


def test_numbers_of_transactions_have_32_bits() -> None:
    snapshot = Snapshot.from_text(f"{5 << 32}:{(5 << 32) + 10}:{5 << 32},{(5 << 32) + 7}")
    seen = [number for number in (0, 6, 7, 9, 10, 2**31 - 1) if snapshot.sees(number)]
    assert seen == [6, 9]
    assert snapshot.sees(2**32 - 1)
    assert Snapshot.from_text("10:10:").sees(9)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN w int",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t ALTER COLUMN v TYPE varchar(3)",
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN v text",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, v)",
        "DROP TABLE t",
        "ALTER TABLE t RENAME TO u; CREATE TABLE t (id int PRIMARY KEY, v text)",
    ],
)
def test_another_definition_is_noticed(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable, statement: str
) -> None:
    postgres.run(*statement.split(";"))
    with pytest.raises(Conflict, match=r"another|other columns"):
        ids(server, table)
    # The connection can be used for the next read.
    postgres.run("CREATE TABLE new (id int PRIMARY KEY)")
    assert ids(server, known(server, "new")) == set()


def test_a_definition_stays_while_a_table_is_read(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    for statement in ("TRUNCATE t", "ALTER TABLE t ALTER COLUMN v TYPE varchar", "DROP TABLE t"):
        with consistent_read(server, 0) as read:
            read.check(table)
            postgres.run("SET lock_timeout = '1ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                postgres.run(statement)
            (batch,) = read.range(table, KeyRange())
            assert batch.num_rows == 1


def test_a_table_is_not_seen_as_before_a_statement_that_rewrote_it(
    postgres: PostgresDatabase, server: PostgresServer, table: SourceTable
) -> None:
    with consistent_read(server, 0) as read:
        # The snapshot of a transaction is taken with the first table, after its lock.
        read.check(table)
        postgres.run("CREATE TABLE u AS SELECT id FROM t", "ALTER TABLE u ADD PRIMARY KEY (id)")
        other = known(PostgresServer(server.address), "u")
        postgres.run("ALTER TABLE u ALTER COLUMN id TYPE int USING id + 1")
        read.check(other)
        (batch,) = read.range(other, KeyRange())
        assert batch.column("id").to_pylist() == [1]


def test_a_table_that_is_locked(
    postgres: PostgresDatabase,
    server: PostgresServer,
    table: SourceTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.cdc.postgres.consistent_reads._LOCK_TIMEOUT", "1ms")
    with postgres.connect() as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Conflict, match="locked by another session"):
            ids(server, table)
    assert ids(server, table) == {0}
