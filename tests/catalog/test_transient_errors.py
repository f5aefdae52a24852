"""What the database does at a bad time, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import Connection, Engine, event, insert, make_url, select, text, update
from tests.catalog.conftest import Clock
from tests.catalog.databases import DATABASES
from tests.chaos.proxy import Mode, Proxy

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import PoolSettings
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.models import WarehouseRow
from headwater.client import connect
from headwater.storage.errors import AlreadyExists, OutcomeUnknown, Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import Fate

MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture(params=DATABASES[1:])
def server_url(request: pytest.FixtureRequest) -> str:
    """A database of each kind that is a server, with the catalog's tables."""
    url: str = request.getfixturevalue(f"{request.param}_catalog")
    return url


@pytest.fixture
def catalog(server_url: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(server_url, warehouse="main", location=str(tmp_path / "lake"))
    with closing(opened):
        yield opened


@pytest.fixture
def table(catalog: SqlCatalog, orders: Identifier, orders_schema: Schema) -> Identifier:
    catalog.databases.create(orders.database)
    catalog.tables.create(orders, orders_schema)
    return orders


class Killer:
    """Ends connections to one database, as a server that goes down does."""

    def __init__(self, url: str) -> None:
        self._engine = open_engine(url)
        self._kind = self._engine.dialect.name

    def kill(self, connection: Connection) -> None:
        is_postgresql = self._kind == "postgresql"
        own = "pg_backend_pid()" if is_postgresql else "CONNECTION_ID()"
        identity = connection.exec_driver_sql(f"SELECT {own}").scalar_one()
        with self._engine.connect() as other:
            if is_postgresql:
                other.execute(text(f"SELECT pg_terminate_backend({identity}, 5000)"))
            else:
                other.exec_driver_sql(f"KILL CONNECTION {identity}")

    def kill_all(self) -> None:
        with self._engine.connect() as other:
            if self._kind == "postgresql":
                other.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                return
            for identity in other.exec_driver_sql(
                "SELECT id FROM information_schema.processlist "
                "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            ).scalars():
                other.exec_driver_sql(f"KILL CONNECTION {identity}")

    def cut_those_who_wait(self) -> int:
        """Ends the connections that wait for a lock, once there are any; how many."""
        ids: Sequence[int] = ()
        while not ids:
            with self._engine.connect() as other:
                if self._kind == "postgresql":
                    ids = other.scalars(
                        text(
                            "SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory' "
                            "AND datname = current_database()"
                        )
                    ).all()
                    for identity in ids:
                        other.execute(text(f"SELECT pg_terminate_backend({identity}, 5000)"))
                    continue
                ids = other.scalars(
                    text(
                        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() "
                        "AND state IN ('User lock', 'Waiting for table metadata lock')"
                    )
                ).all()
                for identity in ids:
                    other.exec_driver_sql(f"KILL CONNECTION {identity}")
        return len(ids)

    @contextmanager
    def at(self, moment: str, words: str = "", times: int = 1) -> Iterator[list[str]]:
        """Kills the connection at so many commits, or statements with some words."""
        killed: list[str] = []

        def watch(connection: Connection, *details: object) -> None:
            statement = str(details[1]) if len(details) > 1 else ""
            is_own = connection.engine.url.database == self._engine.url.database
            if not is_own or connection.engine is self._engine or len(killed) == times:
                return
            if words in statement:
                killed.append(statement)
                self.kill(connection)

        event.listen(Engine, moment, watch)
        try:
            yield killed
        finally:
            event.remove(Engine, moment, watch)


@pytest.fixture
def killer(server_url: str) -> Iterator[Killer]:
    made = Killer(server_url)
    yield made
    made._engine.dispose()


def test_connections_that_died_idle_are_not_noticed(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot, killer: Killer
) -> None:
    killer.kill_all()
    assert catalog.snapshots.latest(table) is None
    killer.kill_all()
    assert catalog.snapshots.commit(table, None, snapshot(1), None, []).decided()


@pytest.mark.parametrize("words", ["UPDATE hw_branches", "INSERT INTO hw_snapshots"])
def test_a_connection_lost_before_the_commit_is_not_noticed(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot, killer: Killer, words: str
) -> None:
    offered = snapshot(1)
    with killer.at("before_cursor_execute", words, times=2) as killed:
        assert catalog.snapshots.commit(table, None, offered, None, []).decided()
    assert len(killed) == 2
    assert catalog.snapshots.get(table, "LATEST") == offered


def test_a_read_whose_connection_is_cut_is_not_noticed(
    catalog: SqlCatalog, table: Identifier, killer: Killer
) -> None:
    # The first of them is a statement that the driver has prepared.
    for words in ("SELECT 0 AS place", "SELECT hw_databases.name", "SELECT hw_tables.id"):
        with killer.at("before_cursor_execute", words, times=2) as killed:
            assert catalog.snapshots.latest(table) is None
            assert list(catalog.databases.list().items) == [table.database]
            assert catalog.tables.get(table).identifier == table
        assert len(killed) == 2


def test_a_read_that_is_cut_while_it_waits_is_not_noticed(server_url: str, killer: Killer) -> None:
    """The database ends the connection in the middle of a statement."""
    database = SqlDatabase(open_engine(server_url), SYSTEM_RUNTIME)
    is_postgresql = database.engine.dialect.name == "postgresql"
    lock = "SELECT pg_advisory_lock(7)" if is_postgresql else "SELECT GET_LOCK('seven', 60)"

    def wait() -> object:
        with database.read() as connection:
            connection.execute(text(lock))
            return connection.execute(text("SELECT 7")).scalar_one()

    with database.connection() as holder, ThreadPoolExecutor(1) as threads:
        holder.execute(text(lock))
        waiting = threads.submit(wait)
        cut = killer.cut_those_who_wait()
        holder.invalidate()
        assert waiting.result(60) == 7
    assert cut > 0
    database.close()


@pytest.mark.modes
def test_a_read_that_is_cut_again_and_again_is_unavailable(
    catalog: SqlCatalog, killer: Killer
) -> None:
    with (
        killer.at("before_cursor_execute", "SELECT hw_databases", times=100) as killed,
        pytest.raises(Unavailable, match=r"did not answer: .*; retry"),
    ):
        catalog.databases.list()
    assert 2 < len(killed) < 10
    assert list(catalog.databases.list().items) == []


@pytest.mark.modes
def test_a_connection_that_is_lost_again_and_again_changes_nothing(
    catalog: SqlCatalog, killer: Killer
) -> None:
    with (
        killer.at("before_cursor_execute", "INSERT INTO hw_databases", times=100) as killed,
        pytest.raises(Unavailable, match="nothing was changed") as raised,
    ):
        catalog.databases.create("sales")
    assert not isinstance(raised.value, OutcomeUnknown)
    assert 2 < len(killed) < 10
    assert list(catalog.databases.list().items) == []


def test_a_commit_whose_answer_is_lost_is_asked_for_again(
    catalog: SqlCatalog, table: Identifier, snapshot: MakeSnapshot, killer: Killer
) -> None:
    offered = snapshot(1)
    with killer.at("commit") as killed:
        assert catalog.snapshots.commit(table, None, offered, None, []).decided()
    assert len(killed) == 1
    assert catalog.snapshots.get(table, "LATEST") == offered
    assert catalog.snapshots.commit(table, None, snapshot(1), None, []).decided() is False


@pytest.mark.parametrize(("seconds", "asked"), [(0, 4), (2, 4), (3, 3), (6, 2)])
def test_a_commit_whose_answers_are_lost_ends_in_time(
    server_url: str,
    tmp_path: Path,
    table: Identifier,
    snapshot: MakeSnapshot,
    killer: Killer,
    clock: Clock,
    seconds: int,
    asked: int,
) -> None:
    """Each try takes so many seconds; five are there for all after the first."""
    location = str(tmp_path / "lake")
    with closing(
        SqlCatalog.open(server_url, warehouse="main", location=location, runtime=clock.runtime)
    ) as catalog:

        def passes(*_: object) -> None:
            clock.turn(seconds=seconds)

        event.listen(catalog.operation.database.engine, "commit", passes)
        with killer.at("commit", times=9) as killed:
            answer = catalog.snapshots.commit(table, None, snapshot(1), None, [])
        assert answer.fate is Fate.UNKNOWN
        assert len(killed) == asked


def test_what_cannot_be_repeated_is_unknown(catalog: SqlCatalog, killer: Killer) -> None:
    with killer.at("commit"), pytest.raises(OutcomeUnknown, match="is not known"):
        catalog.databases.create("sales")
    try:
        catalog.databases.create("sales")
    except AlreadyExists:
        pytest.fail("it had been killed before the commit was sent")


def test_the_victim_of_a_deadlock_tries_again(server_url: str) -> None:
    database = SqlDatabase(open_engine(server_url), SYSTEM_RUNTIME)
    rows = [
        {"name": name, "location": "", "options": "", "created_at": 0, "updated_at": 0}
        for name in ("a", "b")
    ]
    database.write(lambda connection: connection.execute(insert(WarehouseRow), rows))
    both_hold_one = threading.Barrier(2)
    runs: list[str] = []

    def increment(first: str, second: str) -> None:
        def work(connection: Connection) -> None:
            runs.append(first)
            for name in (first, second):
                connection.execute(
                    update(WarehouseRow)
                    .where(WarehouseRow.name == name)
                    .values(updated_at=WarehouseRow.updated_at + 1)
                )
                if name == first and len(runs) <= 2:
                    both_hold_one.wait(30)

        database.write(work)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(increment, ("a", "b"), ("b", "a")))
    with database.read() as connection:
        counts = connection.execute(select(WarehouseRow.updated_at)).scalars().all()
    database.close()
    assert counts == [2, 2]
    assert len(runs) > 2


def test_without_a_free_connection_nothing_is_done(server_url: str) -> None:
    engine = open_engine(server_url, PoolSettings(connections=1, wait_seconds=0.05))
    database = SqlDatabase(engine, SYSTEM_RUNTIME)
    with database.read():
        with pytest.raises(Unavailable, match="in use; nothing was changed, retry"):
            database.write(lambda connection: connection.execute(text("DELETE FROM hw_outbox")))
        with pytest.raises(Unavailable, match="in use; retry"), database.read():
            pass
    with database.read():
        pass
    database.close()


@pytest.mark.modes
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
def test_a_server_that_is_not_there_is_unavailable(kind: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="did not answer"):
        SqlCatalog.open(
            f"{kind}://nobody@127.0.0.1:1/none", warehouse="main", location=str(tmp_path)
        )


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
def test_a_database_out_of_reach_is_waited_for_as_long_as_asked(kind: str, clock: Clock) -> None:
    database = SqlDatabase(open_engine(f"{kind}://nobody@127.0.0.1:1/none"), clock.runtime)
    waits: list[float] = []
    for patience in (0.0, 60.0):
        began = database.runtime.monotonic()
        patient = database.patient(patience)
        with pytest.raises(Unavailable, match="did not answer"), patient.read():
            pass
        waits.append(database.runtime.monotonic() - began)
    assert waits[0] < 2
    assert 60 <= waits[1] <= 61


@pytest.mark.postgresql
def test_a_write_outlasts_a_restart_of_the_database(
    new_postgresql_database: Callable[[], str], clock: Clock, tmp_path: Path
) -> None:
    """The commit is the one request that does not wait by itself."""
    url = make_url(new_postgresql_database())
    assert url.port is not None
    with closing(Proxy(url.port)) as proxy:
        through = url.set(host="127.0.0.1", port=proxy.port)
        location = str(tmp_path / "lake")
        with connect(
            through.render_as_string(hide_password=False), location=location, runtime=clock.runtime
        ) as lake:
            lake.create_database("sales")
            table = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
            patient = table.with_options({"commit.timeout": "1 min"})
            assert (table.catalog.patience, patient.catalog.patience) == (5, 60)
            assert patient.catalog.patient(0) is lake.catalog
            patient.write({"id": [1]})
            proxy.set(Mode.RESET)
            for handle, seconds in ((table, 5), (patient, 60)):
                began = clock.millis
                with pytest.raises(Unavailable, match="did not answer"):
                    handle.write({"id": [2]})
                assert seconds <= (clock.millis - began) / 1000 < seconds + 10
            clock.after(30, lambda: proxy.set(Mode.PASS))
            patient.write({"id": [3]})
            assert patient.scan().to_arrow()["id"].to_pylist() == [1, 3]
