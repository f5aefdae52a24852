"""Replication slots that a log can be read from, and those that it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.postgres.logs import SourceLog, as_text, contents, name, source_log
from tests.conftest import postgresql_server
from tests.ports import free_port

from headwater.cdc.postgres.log_stream import LogStream, meaning
from headwater.cdc.postgres.slots import (
    LogSource,
    await_slot,
    check_slot,
    create_slot,
    default_name,
    drop_slot,
    find_slot,
    log_position,
)
from headwater.cdc.postgres.transactions import open_log
from headwater.storage.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable

pytestmark = pytest.mark.postgresql


@pytest.fixture
def log(postgres: PostgresDatabase) -> SourceLog:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    return source_log(postgres)


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_each_pipeline_has_a_valid_name_of_its_own(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9_]{1,63}", default_name(one))
    assert (default_name(one) == default_name(other)) == (one == other)


def test_a_slot_begins_after_what_was_committed(postgres: PostgresDatabase) -> None:
    before = log_position(postgres.connection)
    start = create_slot(postgres.connection, "headwater_a_slot")
    assert start.contains(before)
    assert log_position(postgres.connection).contains(start)
    slot = find_slot(postgres.connection, "headwater_a_slot")
    assert slot is not None
    assert (slot.confirmed, slot.plugin, slot.database) == (start.lsn, "pgoutput", postgres.name)
    with pytest.raises(Conflict, match="it exists"):
        create_slot(postgres.connection, "headwater_a_slot")
    drop_slot(postgres.connection, "headwater_a_slot")
    assert find_slot(postgres.connection, "headwater_a_slot") is None
    drop_slot(postgres.connection, "headwater_a_slot")


def test_a_slot_that_is_read_is_not_dropped(log: SourceLog) -> None:
    with log.reader("t"), pytest.raises(Conflict, match="end the pipeline"):
        drop_slot(log.database.connection, log.source.slot)


def test_a_missing_slot_is_told(log: SourceLog) -> None:
    source = replace(log.source, slot="missing")
    with pytest.raises(NotFound, match=r"does not exist.*headwater cdc resnapshot --all"):
        check_slot(log.database.connection, source, log.start)
    with pytest.raises(NotFound, match='"missing" does not exist'):
        LogStream(source, log.start)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("pg_create_logical_replication_slot('{}', 'pgoutput', true)", "temporary"),
        ("pg_create_logical_replication_slot('{}', 'pgoutput', false, true)", "two_phase"),
        ("pg_create_physical_replication_slot('{}', true)", "with nothing and not with pgoutput"),
    ],
)
def test_slots_of_other_kinds_are_refused(log: SourceLog, function: str, reason: str) -> None:
    connection, slot = log.database.connection, f"{log.source.slot[:50]}_other"
    log.database.rows(f"SELECT {function.format(slot)}")
    with pytest.raises(Conflict, match=f"cannot be used.*{reason}"):
        check_slot(connection, replace(log.source, slot=slot), log_position(connection))
    drop_slot(connection, slot)


def test_a_slot_of_another_database_is_refused(log: SourceLog, logical_server: str) -> None:
    with (
        psycopg.connect(f"{logical_server}/postgres", autocommit=True) as connection,
        pytest.raises(Conflict, match=f"is of database '{log.database.name}' and not"),
    ):
        check_slot(connection, log.source, log.start)


def test_positions_of_another_server_are_refused(log: SourceLog) -> None:
    later = log_position(log.database.connection)
    for start, reason in (
        (replace(later, system=7), "another one: it was restored, or a replica was promoted"),
        (replace(later, timeline=2), "another one: it was restored, or a replica was promoted"),
        (later.at(later.lsn + (1 << 40)), "has lost transactions"),
    ):
        with pytest.raises(Conflict, match=f"{reason}.*resnapshot --all"):
            check_slot(log.database.connection, log.source, start)
    with pytest.raises(Conflict, match="of another one"):
        LogStream(log.source, replace(later, timeline=2))


def test_a_user_without_the_attribute_replication_is_refused(log: SourceLog) -> None:
    user = f"reader_{log.database.name}"
    url = log.database.url.replace("headwater@", f"{user}@")
    log.database.run(f"CREATE ROLE {user} LOGIN")
    try:
        with (
            psycopg.connect(url) as connection,
            pytest.raises(Forbidden, match=f"ALTER USER {user} REPLICATION"),
        ):
            create_slot(connection, "headwater_other")
        with pytest.raises(Forbidden, match="the attribute REPLICATION"):
            LogStream(replace(log.source, dsn=url), log.start)
    finally:
        log.database.run(f"DROP ROLE {user}")


def test_the_attribute_replication_is_enough(log: SourceLog) -> None:
    user = f"reader_{log.database.name}"
    url = log.database.url.replace("headwater@", f"{user}@")
    log.database.run(f"CREATE ROLE {user} LOGIN REPLICATION", "INSERT INTO t VALUES (1)")
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            slot = f"{log.source.slot[:50]}_other"
            source = replace(log.source, dsn=url, slot=slot)
            start = create_slot(connection, slot)
            log.database.run("INSERT INTO t VALUES (2)")
            reader = open_log(
                source, connection, start, is_selected=lambda _: True, convert=as_text
            )
            reader.follow({name("t"): None})
            batch = reader.read_until(log_position(connection))
            reader.close()
            assert [row["id"] for _, row in contents([batch], "t").rows] == ["2"]
            await_slot(connection, slot, 60)
            drop_slot(connection, slot)
    finally:
        log.database.run(f"DROP ROLE {user}")


def test_unknown_users_and_servers_are_told_apart(log: SourceLog) -> None:
    unknown = log.database.url.replace("headwater@", "nobody@")
    with pytest.raises(Forbidden, match='role "nobody" does not exist'):
        LogStream(replace(log.source, dsn=unknown), log.start)
    nowhere = f"postgresql://headwater@127.0.0.1:{free_port()}/x"
    with pytest.raises(Unavailable, match="the test's server cannot be reached"):
        LogStream(replace(log.source, dsn=nowhere), log.start)
    with pytest.raises(Invalid, match="is not a URL"):
        LogStream(replace(log.source, dsn="postgresql://[half"), log.start)


def test_a_missing_publication_is_told(log: SourceLog) -> None:
    if int(log.database.value("SHOW server_version_num")) >= 180_000:
        pytest.xfail("since 18 the server only warns in its own log; see PostgresSource.check_logs")
    source = replace(log.source, publication="no \"such\", 'one'")
    log.database.run("INSERT INTO t VALUES (1)")
    message = r'"no "such", \'one\'" does not exist.*before the slot'
    with LogStream(source, log.start) as stream, pytest.raises(NotFound, match=message):
        _receive_all(stream)


def _receive_all(stream: LogStream) -> None:
    while not stream.ended:
        stream.receive(60)


@pytest.mark.parametrize("whom", ["DATABASE {0.name}", "ROLE CURRENT_USER IN DATABASE {0.name}"])
def test_transactions_that_take_longer_to_read_than_sessions_may(log: SourceLog, whom: str) -> None:
    if int(log.database.value("SHOW server_version_num")) < 170_000:
        pytest.xfail("transaction_timeout is new in 17")
    log.database.run(
        f"ALTER {whom.format(log.database)} SET transaction_timeout = '20ms'",
        "INSERT INTO t SELECT generate_series(1, 200000), repeat('v', 100)",
    )
    with log.reader("t") as reader:
        assert sum(batch.rows[name("t")][0].size for batch in log.read(reader) if batch.rows) > 2e7


def test_an_end_of_the_reading_session_is_not_for_good() -> None:
    for state in ("25P03", "25P04", "57P05"):
        assert isinstance(meaning("the test's server", state, "timeout"), Unavailable)


@pytest.fixture
def forgetful() -> Iterator[str]:
    """The URL of a server that removes its log soon."""
    settings = ("wal_level=logical", "max_slot_wal_keep_size=1MB", "max_wal_size=32MB")
    with postgresql_server(*settings) as url:
        yield f"{url}/postgres"


def test_a_log_that_was_removed_is_told(forgetful: str) -> None:
    with psycopg.connect(forgetful, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int)")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        start = create_slot(connection, "s")
        source = LogSource(forgetful, "the test's server", "s", "p")
        check_slot(connection, source, start)
        for number in range(4):
            connection.execute("INSERT INTO t VALUES (%s)", [number])
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        with pytest.raises(NotFound, match=r"has lost its log.*max_slot_wal_keep_size"):
            check_slot(connection, source, start)
        with pytest.raises(Conflict, match=r"cannot send its log.*resnapshot --all"):
            LogStream(source, start)
