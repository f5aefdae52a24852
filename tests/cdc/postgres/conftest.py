"""A PostgreSQL server, a database of its own for each test, and a pipeline that follows it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cdc.postgres.certificates import encrypted_postgresql_server
from tests.cdc.task_executors import chosen_executor, with_small_tasks
from tests.conftest import postgresql_server

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import BatchPlan, PipelineState, TablePhase, TableState
from headwater.cdc.postgres.server import Address
from headwater.cdc.postgres.source import PostgresSource
from headwater.cdc.service.verify import verify
from headwater.client import Lake, connect

_HERE = Path(__file__).parent
# Small limits and short times, so that what happens beyond them is tested.
_SETTINGS = (
    *("wal_level=logical", "max_replication_slots=50", "max_wal_senders=50"),
    *("wal_sender_timeout=5s", "max_prepared_transactions=10", "logical_decoding_work_mem=1MB"),
    # What is committed is sent at once.
    "synchronous_commit=on",
)


@pytest.hookimpl(tryfirst=True)  # before markers are chosen by
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a target of its own run what needs this server."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("postgresql"):
            item.add_marker(pytest.mark.cdc_postgresql)


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


class ReadTables(ProgressLog):
    """Notes the tables that are read, besides their log."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: set[str] = set()

    def states(self, states: Mapping[TableName, TableState]) -> None:
        super().states(states)
        self.tables |= {name.table for name, state in states.items() if state.is_read}


class Follower:
    """A pipeline from a database into a lake, run in this process."""

    def __init__(self, database: PostgresDatabase, lake: Lake) -> None:
        self.database, self.lake = database, lake
        self.address = Address.from_url(database.url)
        settings = PipelineSettings("shop", database.url, "lake", ("public.*",), batch_seconds=0.3)
        self.settings = with_small_tasks(settings)
        self.executor = chosen_executor()
        self.publication: str | None = None

    def change(self, **settings: object) -> None:
        """Change the settings of the next run."""
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]

    def pipeline(self) -> Pipeline:
        """A pipeline that was not run yet."""
        connect_to = partial(
            PostgresSource, self.address, self.settings.name, publication=self.publication
        )
        return Pipeline(self.lake, connect_to, self.settings, self.executor)

    def once(self) -> set[str]:
        """Commit all that the source has; the tables that were read besides their log."""
        pipeline = self.pipeline()
        pipeline.progress = progress = ReadTables()
        pipeline.run(once=True)
        return progress.tables

    def resnapshot(self, table: str) -> None:
        """Ask for a table to be read again."""
        state = PipelineState.open(self.lake, "lake", self.settings.name)
        state.request(f"resnapshot:public.{table}", "")

    def plan(self) -> BatchPlan:
        """The last batch's plan."""
        plan = PipelineState.open(self.lake, "lake", self.settings.name).plan()
        assert plan is not None
        return plan

    def states(self) -> Mapping[str, TableState]:
        """The tables' states in the last plan."""
        tables = self.plan().tables
        return {TableName.from_escaped(name).table: state for name, state in tables.items()}

    def check(self, *tables: str) -> None:
        """Check that tables are followed, and that the lake's are the source's."""
        states = self.states()
        verdicts = {
            verdict.table.table: verdict
            for verdict in verify(self.lake, self.address, self.settings)
        }
        for table in tables:
            assert states[table].phase is TablePhase.STREAMING, states[table]
            verdict = verdicts[table]
            assert verdict.is_equal, (verdict.problem, verdict.differences.to_pylist()[:10])
            count = self.database.value(f'SELECT count(*) FROM "{table}"')
            assert verdict.source_rows == verdict.lake_rows == count

    def rows(self, table: str) -> list[dict[str, object]]:
        """The rows of the lake's table, in the order of its first column."""
        rows = self.lake.table(f"lake.{table}").scan().to_arrow()
        return list(rows.sort_by(rows.column_names[0]).to_pylist())


@pytest.fixture(scope="session")
def logical_server() -> Iterator[str]:
    """The URL of a PostgreSQL server with ``wal_level=logical``, without a database's name."""
    with postgresql_server(*_SETTINGS) as url:
        yield url


@pytest.fixture(scope="session")
def encrypted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Such a server, whose connections are encrypted, so that libpq reads its log."""
    folder = tmp_path_factory.mktemp("certificates")
    with encrypted_postgresql_server(folder, *_SETTINGS) as url:
        yield url


@pytest.fixture(params=["logical_server", "encrypted_server"])
def any_postgres(request: pytest.FixtureRequest) -> Iterator[PostgresDatabase]:
    """An empty database of either server."""
    with new_database(request.getfixturevalue(request.param)) as database:
        yield database


@pytest.fixture
def postgres(logical_server: str) -> Iterator[PostgresDatabase]:
    """An empty database of that server."""
    with new_database(logical_server) as database:
        yield database


@contextmanager
def new_database(logical_server: str) -> Iterator[PostgresDatabase]:
    """An empty database of a server, dropped at the end."""
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


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A lake in this process, with an empty database ``lake``."""
    with connect(str(tmp_path / "lake")) as lake:
        lake.create_database("lake")
        yield lake


@pytest.fixture
def follower(postgres: PostgresDatabase, lake: Lake) -> Follower:
    """A pipeline that follows all tables of the database."""
    return Follower(postgres, lake)
