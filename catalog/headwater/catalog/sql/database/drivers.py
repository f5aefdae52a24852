"""From a database's URL to an engine with the settings that the catalog's transactions rely on."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, IsolationLevel
from sqlalchemy.exc import ArgumentError, InvalidatePoolError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from headwater.storage.errors import Invalid, Unavailable, Unsupported

__all__ = [
    "IDLE_SECONDS",
    "IMMEDIATE",
    "PLANNING",
    "PREPARED_STATEMENTS",
    "SETTINGS",
    "SILENT_SECONDS",
    "PoolSettings",
    "Timeouts",
    "answers",
    "database_exists",
    "database_url",
    "most_connections",
    "network_limits",
    "open_engine",
]

IMMEDIATE = "headwater_immediate"
"""The execution option with which a transaction on SQLite is a writer from its beginning."""

SETTINGS = "headwater_settings"
"""The execution option with what PostgreSQL is told when a transaction begins."""

PLANNING = ("enable_seqscan = off", "jit = off")
"""The settings with which PostgreSQL plans by indexes.

A scan that cannot be avoided, such as of a table with one row, then looks so expensive that its
statement would be compiled before it is run, which takes 20 to 100 ms.
"""

PREPARED_STATEMENTS = 400
"""The number of statements that a connection to PostgreSQL remembers."""

SILENT_SECONDS = 30
"""The time after which the network is asked if a silent database's machine is still there.

A machine that vanished says nothing, and what waits for it would wait for hours.
"""

IDLE_SECONDS = "headwater_idle_seconds"
"""The execution option with the seconds after which a database ends an idle transaction."""

_MOST_CONNECTIONS = "headwater_most_connections"
_SQLITE_KEPT, _SQLITE_MORE = 10, 40
# How long a writer on SQLite waits for the one before it, which may be putting a file meanwhile.
_LOCK_MILLIS = 60_000
# The time for which MariaDB keeps an unused connection.
_UNUSED_SECONDS = 600
# What a number out of range, a text too long or an unknown engine means does not depend on how
# the server is set up: an error.
_MYSQL_MODE = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
# Of questions whether a silent server is still there.
_QUESTION_SECONDS, _QUESTIONS = 10, 3
_CONNECT_SECONDS = 10
# How long after its last use a connection is taken for one that works, where a failure is followed
# by another try.
_TRUSTED_SECONDS = 1.0
_USED = "headwater_used"
_READ_COMMITTED: IsolationLevel = "READ COMMITTED"
_AUTOCOMMIT: IsolationLevel = "AUTOCOMMIT"
_EXTRAS = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


@dataclass(frozen=True)
class Timeouts:
    """The time-outs of a database that is a server, kept by the database itself.

    An idle transaction is ended before others give up waiting for its locks: so a process that
    stands still, or a machine that vanished, makes nobody fail.

    Attributes:
        lock_seconds: The longest time a transaction waits for another's locks.
        idle_seconds: The longest time a transaction may be idle before the database ends it; on
            MySQL, which makes no difference, any connection.
        statement_seconds: The longest time a statement may take; on MySQL, a query.
    """

    lock_seconds: float = 10.0
    idle_seconds: float = 5.0
    statement_seconds: float = 60.0


@dataclass(frozen=True)
class PoolSettings:
    """The connections to a database that is a server.

    Attributes:
        connections: At most so many at a time, and half of them kept; SQLite has its own number.
        wait_seconds: The longest time a transaction waits for one while all are in use.
        timeouts: The time-outs of each.
    """

    connections: int = 30
    wait_seconds: float = 10.0
    timeouts: Timeouts = Timeouts()


def database_url(text: str) -> URL:
    """Read a database URL and choose its driver.

    Raises:
        Invalid: It is not a URL, or an SQLite URL without a file.
        Unsupported: Headwater does not run on that database.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Without the cause: it may quote a part of the password.
        raise Invalid(
            "the database URL is malformed; write it as sqlite:///file.db, "
            "postgresql://user@host/database or mariadb://user@host/database, and @ : / in a "
            "password as %40 %3A %2F"
        ) from None
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
        case "mysql" | "mariadb" as kind:
            if not url.database:
                raise Invalid(
                    f"the {kind} URL names no database; write {kind}://user@host/database"
                )
            # Any name can be a table's: the connection has to carry all of Unicode.
            return url.set(drivername=f"{kind}+pymysql").update_query_dict({"charset": "utf8mb4"})
        case other:
            raise Unsupported(f"no catalog on '{other}'; use sqlite, postgresql, mariadb or mysql")


def database_exists(text: str) -> bool:
    """True if there is something to connect to; only SQLite would make it by connecting."""
    url = database_url(text)
    return url.get_backend_name() != "sqlite" or Path(str(url.database)).exists()


def open_engine(text: str, pool: PoolSettings | None = None) -> Engine:
    """An engine with the settings that the catalog's transactions rely on.

    SQLite: write-ahead log, full synchronisation (a decided commit survives a power failure),
    foreign keys.

    PostgreSQL, MariaDB, MySQL: every statement sees what is committed as it begins, and no
    transaction holds up others for long (`Timeouts`).

    On SQLite and PostgreSQL transactions are begun by the catalog rather than by the driver.

    Args:
        text: The database's URL.
        pool: The number of connections and their timeouts.

    Raises:
        Invalid: The URL is malformed.
        Unavailable: The folder of an SQLite file cannot be made.
        Unsupported: Headwater does not run on that database, or its driver is not installed.
    """
    url = database_url(text)
    kind = url.get_backend_name()
    try:
        if kind == "sqlite":
            return _open_sqlite(url, pool or PoolSettings())
        if kind == "postgresql":
            return _open_postgresql(url, pool or PoolSettings())
        return _open_mysql(url, pool or PoolSettings())
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise Unsupported(
            f"the driver for {kind} is not installed: pip install 'headwater[{_EXTRAS[kind]}]'"
        ) from error


def _open_sqlite(url: URL, pool: PoolSettings) -> Engine:
    assert url.database is not None
    try:
        Path(url.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make the folder of {url.database}: {error}") from error
    # A connection is a file opened: as many as there are threads at work.
    engine = create_engine(
        url,
        pool_size=_SQLITE_KEPT,
        max_overflow=_SQLITE_MORE,
        pool_timeout=pool.wait_seconds,
        execution_options={_MOST_CONNECTIONS: _SQLITE_KEPT + _SQLITE_MORE},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _open_postgresql(url: URL, pool: PoolSettings) -> Engine:
    # The driver begins no transactions: its own beginning would be one more message for each.
    arguments = {k: v for k, v in network_limits(SILENT_SECONDS).items() if k not in url.query}
    engine = _shared(url, pool, _AUTOCOMMIT, **arguments)
    event.listen(engine, "connect", partial(_prepare_postgresql, pool.timeouts))
    event.listen(engine, "begin", _begin_postgresql)
    return engine


def network_limits(silent_seconds: int) -> dict[str, int]:
    """The parameters by which a connection to PostgreSQL ends when its machine has vanished.

    Args:
        silent_seconds: The time after which it is asked if it is still there.
    """
    return {
        "connect_timeout": _CONNECT_SECONDS,
        "keepalives_idle": silent_seconds,
        "keepalives_interval": _QUESTION_SECONDS,
        "keepalives_count": _QUESTIONS,
        "tcp_user_timeout": silent_seconds * 1000,
    }


def _limit_network(connection: DBAPIConnection) -> None:
    """Likewise for a connection to MariaDB or MySQL, whose driver has no parameters for it."""
    sock = connection._sock
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    limits = {
        "TCP_KEEPIDLE": SILENT_SECONDS,
        "TCP_KEEPINTVL": _QUESTION_SECONDS,
        "TCP_KEEPCNT": _QUESTIONS,
        "TCP_USER_TIMEOUT": SILENT_SECONDS * 1000,
    }
    for name, value in limits.items():
        # Not every system has all of them.
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _open_mysql(url: URL, pool: PoolSettings) -> Engine:
    lock_seconds = ceil(pool.timeouts.lock_seconds)
    idle_seconds, statement_seconds = pool.timeouts.idle_seconds, pool.timeouts.statement_seconds
    engine = _shared(
        url,
        pool,
        _READ_COMMITTED,
        sql_mode=_MYSQL_MODE,
        init_command=f"SET SESSION innodb_lock_wait_timeout = {lock_seconds}, "
        f"lock_wait_timeout = {lock_seconds}, time_zone = '+00:00'",
    )

    kind = url.get_backend_name()
    limits = {
        "mariadb": f"wait_timeout = {max(_UNUSED_SECONDS, ceil(idle_seconds))}, "
        f"idle_transaction_timeout = {ceil(idle_seconds)}, "
        f"max_statement_time = {statement_seconds}",
        "mysql": f"wait_timeout = {ceil(idle_seconds)}, "
        f"max_execution_time = {ceil(statement_seconds * 1000)}",
    }[kind]

    def check(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        _limit_network(connection)
        # Their collations have different names; which server answers is known only now. It is
        # asked: what it greets with may be the version of a proxy before it.
        cursor = connection.cursor()
        try:
            cursor.execute("SELECT VERSION()")
            (version,) = cursor.fetchone() or ("",)
            answering = "mariadb" if "mariadb" in str(version).lower() else "mysql"
            if answering != kind:
                name = {"mariadb": "MariaDB", "mysql": "MySQL"}[answering]
                raise Invalid(f"the database server is {name}: write its URL as {answering}://…")
            cursor.execute(f"SET SESSION {limits}")
        finally:
            cursor.close()

    # Before SQLAlchemy looks for itself.
    event.listen(engine, "connect", check, insert=True)
    return engine


def _shared(
    url: URL, pool: PoolSettings, isolation_level: IsolationLevel, **arguments: str | int
) -> Engine:
    kept = (pool.connections + 1) // 2
    engine = create_engine(
        url,
        isolation_level=isolation_level,
        # The connection used last knows the statements that are asked for most.
        pool_use_lifo=True,
        pool_size=kept,
        max_overflow=pool.connections - kept,
        pool_timeout=pool.wait_seconds,
        connect_args=arguments,
        execution_options={
            IDLE_SECONDS: pool.timeouts.idle_seconds,
            _MOST_CONNECTIONS: pool.connections,
        },
    )

    def used(_: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
        record.info[_USED] = time.monotonic()

    def look(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        if time.monotonic() - record.info[_USED] > _TRUSTED_SECONDS and not answers(
            engine, connection
        ):
            # Others that are as old will not answer either.
            raise InvalidatePoolError

    event.listen(engine, "connect", used)
    event.listen(engine, "checkin", used)
    event.listen(engine, "checkout", look)
    return engine


def most_connections(engine: Engine) -> int:
    """The connections that an engine's pool opens at most."""
    most = engine.get_execution_options()[_MOST_CONNECTIONS]
    assert isinstance(most, int)
    return most


def answers(engine: Engine, connection: DBAPIConnection) -> bool:
    """True if there still is a server at the other end of a connection."""
    try:
        return engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error:
        return False


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


def _prepare_postgresql(
    timeouts: Timeouts, connection: DBAPIConnection, _: ConnectionPoolEntry
) -> None:
    from psycopg.types.numeric import Int8Dumper

    # A statement about several things is one for each count of them.
    connection.prepared_max = PREPARED_STATEMENTS
    # Otherwise it would be another one, too, for small numbers in other places.
    connection.adapters.register_dumper(int, Int8Dumper)
    settings = [
        f"{name} = {ceil(seconds * 1000)}"
        for name, seconds in (
            ("lock_timeout", timeouts.lock_seconds),
            ("idle_in_transaction_session_timeout", timeouts.idle_seconds),
            ("statement_timeout", timeouts.statement_seconds),
        )
    ]
    # Every statement has its index. A plan is made once, maybe while a table was so small that
    # reading all of it looked cheaper, and would be kept while the table grows.
    settings += PLANNING
    # The locks of a machine that vanished are given back within a minute, not after hours.
    settings += [
        "tcp_keepalives_idle = 30",
        "tcp_keepalives_interval = 10",
        "tcp_keepalives_count = 3",
    ]
    cursor = connection.cursor()
    try:
        cursor.execute("; ".join(f"SET {setting}" for setting in settings))
    finally:
        cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != _AUTOCOMMIT:
        begin = [f"BEGIN ISOLATION LEVEL {_READ_COMMITTED}", *options.get(SETTINGS, ())]
        connection.exec_driver_sql("; ".join(begin))
