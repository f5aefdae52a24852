"""A PostgreSQL server whose log is decoded, and a database of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from tests.conftest import postgresql_server

# Small limits and short times, so that what happens beyond them is tested.
_SETTINGS = (
    *("wal_level=logical", "max_replication_slots=50", "max_wal_senders=50"),
    *("wal_sender_timeout=5s", "max_prepared_transactions=10", "logical_decoding_work_mem=1MB"),
    # What is committed is sent at once.
    "synchronous_commit=on",
)


@dataclass
class PostgresDatabase:
    """A database of a server with ``wal_level=logical``.

    Attributes:
        url: Its URL, as libpq takes it.
        name: Its name.
        connection: A session in it that commits each statement.
    """

    url: str
    name: str
    connection: psycopg.Connection[Any] = field(repr=False)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement.encode())

    def rows(self, statement: str) -> Sequence[Sequence[Any]]:
        """The rows of a query."""
        return self.connection.execute(statement.encode()).fetchall()

    def value(self, statement: str) -> Any:
        """The value of a query with one row and one column."""
        ((value,),) = self.rows(statement)
        return value

    def connect(self) -> psycopg.Connection[Any]:
        """Another session, whose statements are in transactions."""
        return psycopg.connect(self.url)

    def drop_slots(self) -> None:
        """Drop its replication slots, and end the connections that read them."""
        slots = f"pg_replication_slots WHERE database = '{self.name}'"
        self.rows(f"SELECT pg_terminate_backend(active_pid, 10000) FROM {slots}")
        self.rows(f"SELECT pg_drop_replication_slot(slot_name) FROM {slots}")


@pytest.fixture(scope="session")
def logical_server() -> Iterator[str]:
    """The URL of a PostgreSQL server with ``wal_level=logical``, without a database's name."""
    with postgresql_server(*_SETTINGS) as url:
        yield url


@pytest.fixture
def postgres(logical_server: str) -> Iterator[PostgresDatabase]:
    """An empty database of that server."""
    name = f"cdc_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{logical_server}/postgres", autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            url = f"{logical_server}/{name}"
            with psycopg.connect(url, autocommit=True) as connection:
                database = PostgresDatabase(url, name, connection)
                yield database
                database.drop_slots()
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
