"""A PostgreSQL server as a source: addresses, and what keeps it from being followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from tests.conftest import postgresql_server

from headwater.cdc.postgres.catalog import read_tables
from headwater.cdc.postgres.key_ranges import read_range
from headwater.cdc.postgres.key_rows import missing_keys
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.source.key_ranges import KeyRange
from headwater.storage.errors import Conflict, Forbidden, Invalid, Unavailable


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nonsense", "is not a URL"),
        ("mysql://u@h/d", "'mysql' is not PostgreSQL"),
        ("postgresql://u@/d", "the host is missing"),
        ("postgresql://h:5432/d", "the user is missing"),
        ("postgresql://u@h", "the database is missing"),
        ("postgresql://u@h:99999/d", "the port is 99999, and not between 1 and 65535"),
        ("postgresql://u@h/d?ssl=1", "the option 'ssl' is not known"),
        ("postgresql://u@h/d?sslmode=a&sslmode=b", "the option 'sslmode' is there twice"),
        ("postgresql://u@h/d?sslmode=on", "sslmode is 'on', and not one of disable, allow, pref"),
        ("postgresql://u@h/d?sslcert=c.pem", "sslcert and sslkey are needed together"),
        ("postgresql://u@h/d?sslmode=prefer&sslrootcert=c", "sslmode prefer verifies nothing"),
        ("postgresql://u@h/d?sslcert=c&sslkey=k", "sslmode prefer does not require TLS"),
    ],
)
def test_bad_addresses_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        Address.from_url(text)


def test_a_password_is_never_shown() -> None:
    address = Address.from_url("postgres://u:secret@h/shop")
    assert (address.host, address.port, address.database) == ("h", 5432, "shop")
    assert address.password == "secret"
    assert "secret" not in repr(address)
    for text in ("postgresql://u:secret@h", "oracle://u:secret@h", "postgresql://u:secret@/d"):
        with pytest.raises(Invalid) as error:
            Address.from_url(text)
        assert "secret" not in str(error.value)
    assert Address.from_url("postgresql://u@h/d", "given").password == "given"
    with pytest.raises(Invalid, match="the password is given twice"):
        Address.from_url("postgresql://u:secret@h/d", "given")


def test_a_connection_string_has_what_a_url_says() -> None:
    url = "postgresql://u:it's%20%5C@h:1/d%20b?sslmode=verify-full&sslrootcert=/a%20b.pem"
    text = Address.from_url(url).conninfo(replication="database")
    assert r"password='it\'s \\'" in text
    assert "dbname='d b'" in text
    assert "sslmode=verify-full" in text
    assert "sslrootcert='/a b.pem'" in text
    assert "replication=database" in text


@pytest.fixture
def url(new_postgresql_database: Callable[[], str]) -> str:
    return new_postgresql_database()


@pytest.fixture
def administrator(url: str) -> Iterator[PostgresServer]:
    with PostgresServer(Address.from_url(url)) as server:
        yield server


@pytest.mark.postgresql
def test_privileges_that_are_missing(administrator: PostgresServer, url: str) -> None:
    subjects = {finding.subject for finding in administrator.findings()}
    assert "privilege REPLICATION" not in subjects
    user = f"reader_{administrator.address.database}"
    administrator.rows(f"CREATE ROLE {user} LOGIN")
    with PostgresServer(Address.from_url(url.replace("headwater@", f"{user}@"))) as server:
        findings = {finding.subject: finding for finding in server.findings()}
        assert {"privilege REPLICATION", "privilege CREATE"} <= findings.keys()
        remedies = [findings[f"privilege {name}"].remedy for name in ("REPLICATION", "CREATE")]
        for remedy in remedies:
            administrator.rows(remedy.partition(" (")[0])
        subjects = {finding.subject for finding in server.findings()}
        assert not {"privilege REPLICATION", "privilege CREATE"} & subjects
    administrator.rows(
        f"REVOKE CREATE ON DATABASE {administrator.address.database} FROM {user}; DROP ROLE {user}"
    )


@pytest.mark.postgresql
def test_a_server_that_does_not_log_rows(administrator: PostgresServer) -> None:
    (finding,) = administrator.findings()
    assert str(finding) == (
        "setting wal_level: it is replica; ALTER SYSTEM SET wal_level = 'logical' (on Amazon RDS: "
        "rds.logical_replication = 1), and restart the server"
    )


@pytest.mark.postgresql
def test_a_server_without_room_for_a_reader_of_its_log() -> None:
    settings = ("wal_level=logical", "max_replication_slots=1", "max_wal_senders=0")
    with (
        postgresql_server(*settings) as server_url,
        PostgresServer(Address.from_url(f"{server_url}/postgres")) as server,
    ):
        senders = (
            "setting max_wal_senders: it is 0, and 0 are in use; ALTER SYSTEM SET max_wal_senders "
            "= 5, and restart the server"
        )
        assert [str(finding) for finding in server.findings()] == [senders]
        server.rows("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
        subjects = [finding.subject for finding in server.findings()]
        assert subjects == ["setting max_replication_slots", "setting max_wal_senders"]
        # A pipeline that has its slot needs no other one.
        assert [finding.subject for finding in server.findings("mine")] == subjects[1:]


@pytest.mark.postgresql
@pytest.mark.parametrize(("encoding", "text"), [("LATIN1", "äß"), ("EUC_JP", "日本")])
def test_text_of_another_encoding(postgresql_url: str, encoding: str, text: str) -> None:
    name = f"encoded_{encoding.lower()}"
    with PostgresServer(Address.from_url(f"{postgresql_url}/postgres")) as server:
        server.rows(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        with PostgresServer(Address.from_url(f"{postgresql_url}/{name}")) as encoded:
            encoded.rows("CREATE TABLE public.t (id text PRIMARY KEY)")
            encoded.rows("INSERT INTO public.t VALUES (%s)", [text])
            (table,) = read_tables(encoded).followed
            (batch,) = read_range(encoded, table, KeyRange(None, (text,)))
            assert batch.column("id").to_pylist() == [text]
            keys = batch.select(["id"])
            assert missing_keys(encoded, table, pa.Table.from_batches([keys])).num_rows == 0
        server.rows(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.postgresql
def test_values_have_one_form_whatever_the_database_sets(
    administrator: PostgresServer, url: str
) -> None:
    database = administrator.address.database
    for setting in (
        "DateStyle = 'German'",
        "TimeZone = 'Asia/Kolkata'",
        "IntervalStyle = 'sql_standard'",
        "extra_float_digits = -10",
        "bytea_output = 'escape'",
        "search_path = 'public'",
        "statement_timeout = '1ms'",
    ):
        administrator.rows(f"ALTER DATABASE {database} SET {setting}")
    with PostgresServer(Address.from_url(url)) as server:
        server.rows("CREATE TYPE public.t AS ENUM ()")
        (row,) = server.rows(
            "SELECT '2026-02-03 04:05:06+00'::timestamptz::text, '1 mon -2 days'::interval::text,"
            " '0.1'::float8::text, '\\x0a'::bytea::text, format_type('public.t'::regtype, NULL)"
            " FROM pg_sleep(0.01)"
        )
        assert row == ("2026-02-03 04:05:06+00", "1 mon -2 days", "0.1", "\\x0a", "public.t")


@pytest.mark.postgresql
def test_errors_name_the_server(administrator: PostgresServer, url: str) -> None:
    with pytest.raises(Conflict, match=r'127.0.0.1:\d+/test_.*relation "nothing" does not exist'):
        administrator.rows("SELECT 1 FROM nothing")
    with pytest.raises(Invalid, match="error 22012, division by zero"):
        administrator.rows("SELECT 1/0")
    with pytest.raises(Forbidden, match='role "nobody" does not exist'):
        PostgresServer(Address.from_url(url.replace("headwater@", "nobody@")))
    with pytest.raises(Forbidden, match='database "nowhere" does not exist'):
        PostgresServer(Address.from_url(url.rpartition("/")[0] + "/nowhere"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        PostgresServer(Address.from_url("postgresql://u@127.0.0.1:1/d"))
    with PostgresServer(Address.from_url(url)) as other:
        ((process,),) = other.rows("SELECT pg_backend_pid()")
        administrator.rows("SELECT pg_terminate_backend(%s, 10000)", [process])
        with pytest.raises(Unavailable):
            other.rows("SELECT 1")
