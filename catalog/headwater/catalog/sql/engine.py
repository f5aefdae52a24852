"""The SQL database: connections, transactions, and what its errors mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from headwater.storage.errors import Invalid, Unavailable, Unsupported
from headwater.storage.runtime import Runtime

__all__ = ["SqlDatabase", "database_exists", "database_url", "open_engine"]

T = TypeVar("T")

# PostgreSQL's serialization failure and deadlock: the transaction is rolled back, for certain.
_RETRIED_STATES = frozenset({"40001", "40P01"})
_RETRIES = 6
# How long a writer waits for the one before it, which may be putting a file meanwhile.
_LOCK_MILLIS = 60_000
_IMMEDIATE = "headwater_immediate"
_UNKNOWN = "; whether the change was made is not known: look, then retry"


def database_url(text: str) -> URL:
    """Read a database URL and choose its driver.

    Raises:
        Invalid: It is not a URL, or an SQLite URL without a file.
        Unsupported: Headwater does not run on that database.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise Invalid(
            "the database URL is malformed; write it as sqlite:///file.db or "
            "postgresql://user@host/database"
        ) from error
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:" or "mode" in url.query:
                raise Invalid(
                    f"{text}: the catalog needs a file that several threads and processes share; "
                    "write sqlite:///path/to/file.db"
                )
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise Unsupported(f"no catalog on '{other}'; use sqlite or postgresql")


def database_exists(text: str) -> bool:
    """Whether there is something to connect to; only SQLite would make it by connecting."""
    url = database_url(text)
    return url.get_backend_name() != "sqlite" or Path(str(url.database)).exists()


def open_engine(text: str) -> Engine:
    """An engine with the settings that the catalog's transactions rely on.

    Both databases give up waiting for a lock after a minute.


    SQLite: write-ahead log, full synchronisation (a decided commit survives a power failure),
    foreign keys, and transactions begun by this module rather than by the driver.
    """
    url = database_url(text)
    try:
        if url.get_backend_name() != "sqlite":
            server = create_engine(
                url,
                isolation_level="READ COMMITTED",
                pool_pre_ping=True,
                pool_size=10,
                max_overflow=20,
            )
            event.listen(server, "connect", _prepare_postgresql)
            return server
        assert url.database is not None
        Path(url.database).absolute().parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, pool_size=10, max_overflow=40)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise Unsupported(
            f"the driver for {url.drivername} is not installed: pip install 'headwater[postgresql]'"
        ) from error
    except OSError as error:
        raise Unavailable(f"cannot make the folder of {url.database}: {error}") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # None stops the driver from beginning transactions by itself, late and as readers.
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {_LOCK_MILLIS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
    finally:
        cursor.close()


def _prepare_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection.autocommit = True
    cursor = connection.cursor()
    try:
        cursor.execute(f"SET lock_timeout = {_LOCK_MILLIS}")
        # The locks of a machine that vanished are given back within a minute, not after hours.
        cursor.execute("SET tcp_keepalives_idle = 30")
        cursor.execute("SET tcp_keepalives_interval = 10")
        cursor.execute("SET tcp_keepalives_count = 3")
    finally:
        cursor.close()
    connection.autocommit = False


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


class SqlDatabase:
    """Transactions on the catalog's database.

    Args:
        engine: From `open_engine`.
        runtime: How to wait before a retry.
    """

    def __init__(self, engine: Engine, runtime: Runtime) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._runtime = runtime
        # SQLite has one writer at a time; its own waiting is polling and unfair among threads.
        self._writer = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in a read transaction; raises Unavailable."""
        with _explained(), self.engine.connect() as connection:
            yield connection

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one write transaction and commit it.

        A transaction that the database gave up for a deadlock is run again, so `work` may be
        called several times; it must not call `write`.

        Raises:
            Unavailable: The database did not answer; whether it committed is not known.
            IntegrityError: A constraint was broken; nothing is changed.
        """
        attempt = 0
        while True:
            try:
                return self._write_once(work)
            except OperationalError as error:
                attempt += 1
                if not _is_retried(error) or attempt > _RETRIES:
                    raise _unavailable(error, "; nothing was changed, retry") from error
            self._runtime.sleep(0.01 * 2**attempt)

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        if not self.is_sqlite:
            with _explained(_UNKNOWN), self.engine.begin() as connection:
                return work(connection)
        immediate = self.engine.execution_options(**{_IMMEDIATE: True})
        with self._writer, _explained(_UNKNOWN), immediate.begin() as connection:
            return work(connection)

    def close(self) -> None:
        """Give back every connection."""
        self.engine.dispose()


@contextmanager
def _explained(outcome: str = "") -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except (DataError, UnicodeEncodeError, OverflowError) as error:
        # A null character, half a surrogate pair, a number beyond 64 bits.
        raise Invalid(f"the catalog's database cannot hold a value: {error}") from error
    except (OperationalError, InterfaceError) as error:
        if outcome and _is_retried(error):
            raise
        raise _unavailable(error, outcome) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _unavailable(error, outcome) from error
        raise
    except PoolTimeout as error:
        raise Unavailable("all connections to the catalog's database are in use; retry") from error


def _is_retried(error: DBAPIError) -> bool:
    return str(getattr(error.orig, "sqlstate", "")) in _RETRIED_STATES


def _unavailable(error: DBAPIError, outcome: str) -> Unavailable:
    return Unavailable(f"the catalog's database did not answer: {str(error.orig).strip()}{outcome}")
