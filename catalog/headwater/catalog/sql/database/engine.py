"""The SQL database: connections, transactions, and what its errors mean."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headwater.catalog.sql.database.async_reads import AsyncReads
from headwater.catalog.sql.database.connection_counts import Change, ConnectionCounts
from headwater.catalog.sql.database.drivers import (
    IMMEDIATE,
    SETTINGS,
    database_exists,
    database_url,
    most_connections,
    open_engine,
)
from headwater.catalog.sql.database.retried_reads import RetriedReads
from headwater.catalog.sql.database.transaction_watch import Kind, Outcome, TransactionWatch
from headwater.catalog.sql.database.transient import (
    is_held_up,
    is_lost,
    is_rolled_back,
    is_too_slow,
)
from headwater.storage.errors import (
    CorruptData,
    HeadwaterError,
    Invalid,
    OutcomeUnknown,
    Unavailable,
)
from headwater.storage.runtime import Runtime
from headwater.storage.steps import step

__all__ = ["SqlDatabase", "database_exists", "database_url", "open_engine"]

T = TypeVar("T")

# The waits between them add up to a second and a quarter.
_RETRIES = 6
_MAX_WAIT_SECONDS = 1.0
# A sharer's part of the connections for transactions, of which it needs some in any case.
_SHARERS, _MIN_TURNS = 3, 2
_TURN_SECONDS = 30.0
_DATABASE_ERRORS = (SQLAlchemyError, UnicodeEncodeError, OverflowError)
_UNFLUSHED = "SET LOCAL synchronous_commit = off"
_PLANNED_ONCE = "SET LOCAL plan_cache_mode = force_generic_plan"
_UNCHANGED = "; nothing was changed, retry"
_UNKNOWN = "; whether the change was made is not known: look, then retry"


_MYSQL_CLOCK = text("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000")
# Milliseconds since the epoch, whatever the session's time zone is.
_SERVER_CLOCKS = {
    "postgresql": text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"),
    "mysql": _MYSQL_CLOCK,
    "mariadb": _MYSQL_CLOCK,
}


class _Repetition:
    """Decides whether something is done again on another connection, and waits before that.

    It is done again a few times, and after these as long as the database's patience lasts.

    Args:
        database: The database.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._end: float | None = None

    def is_next(self, failed: int) -> bool:
        """Wait a little; False once it has failed too many times, for too long."""
        now = self._database.runtime.monotonic()
        if self._end is None:
            self._end = now + self._database.patience
        if failed > _RETRIES and now >= self._end:
            return False
        self._database.wait(failed)
        return True

    def is_next_of_statement(self, failed: int) -> bool:
        """The same for one statement of several, each of which is waited for by itself."""
        if failed == 1:
            self._end = None
        return self.is_next(failed)


class SqlDatabase:
    """Transactions on the catalog's database.

    Args:
        engine: From `open_engine`.
        runtime: Clock and names. One without a `Clock` gets one, which starts now.

    Attributes:
        engine: The engine.
        is_sqlite: Whether it is SQLite.
        clock: The clock, which the database server's is compared with.
        runtime: Clock and names, for everything that works with this database.
        patience: How long a server that cannot be reached is waited for, in seconds, after a few
            tries.
    """

    patience = 0.0

    def __init__(self, engine: Engine, runtime: Runtime) -> None:
        self.engine = engine
        # On PostgreSQL a read needs no transaction: its statements each see what is committed, in
        # one or not. Without one there is nothing to begin and to roll back; and a rollback would
        # make the driver forget the statements that it has prepared.
        self._is_postgresql = engine.dialect.name == "postgresql"
        reader = {"isolation_level": "AUTOCOMMIT"} if self._is_postgresql else {}
        self._reader = engine.execution_options(**reader)
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.clock = runtime.clock or runtime.new_clock()
        self.runtime = runtime.with_clock(self.clock)
        self._server_clock = _SERVER_CLOCKS.get(engine.dialect.name)
        # SQLite has one writer at a time; its own waiting is polling and unfair among threads.
        self._writer = threading.Lock()
        self._turns: threading.Semaphore | None = None
        self._counts = ConnectionCounts(engine)
        self._watches: list[TransactionWatch] = []
        self._async_reads: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncReads] = (
            WeakKeyDictionary()
        )

    def shared(self) -> SqlDatabase:
        """The same database for one of those who share it, with a part of its transactions.

        A write transaction may wait for storage: so many that hang leave connections to others.
        """
        share = copy(self)
        share._turns = threading.Semaphore(max(_MIN_TURNS, self.most_connections // _SHARERS))
        return share

    def patient(self, seconds: float) -> SqlDatabase:
        """The same database with another patience."""
        patient = copy(self)
        patient.patience = seconds
        return patient

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read with; each statement sees what is committed.

        A statement whose connection is lost is run again a few times, on another one.

        Raises:
            Unavailable: The database did not answer.
        """
        may_repeat = _Repetition(self).is_next_of_statement
        connect = partial(RetriedReads, self._reader, may_repeat)
        with self._watched("read"), self._explained(connect) as connection:
            yield connection

    def compare_clocks(self) -> None:
        """Note what the database server's clock says; SQLite's is this machine's.

        Raises:
            Unavailable: The database did not answer.
        """
        if self._server_clock is not None:
            with self.read() as connection:
                self._server_millis(connection)

    def certain_now_millis(self) -> int:
        """The time that has come by every clock there is, in milliseconds since the epoch.

        It is `Runtime.earliest_millis` after a look at the database server's clock.

        Raises:
            Unavailable: The database did not answer.
        """
        self.compare_clocks()
        return self.runtime.earliest_millis()

    def safe_now_millis(self, connection: Connection) -> int:
        """A time that has hardly come yet, for what is kept for some time from now on.

        It is the later of the time and what the database server's clock says in the transaction of
        `connection`; on SQLite, which has no clock but this machine's, the latest of all clocks.
        """
        server = self._server_millis(connection)
        if server is None:
            return self.runtime.latest_millis()
        return max(server, self.runtime.now_millis())

    def _server_millis(self, connection: Connection) -> int | None:
        if self._server_clock is None:
            return None
        millis = int(connection.execute(self._server_clock).scalar_one())
        self.clock.compare(millis)
        return millis

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection whose transactions the caller ends; raises Unavailable."""
        with self._explained(self.engine.connect) as connection:
            yield connection

    @contextmanager
    def _explained(self, connect: Callable[[], Connection]) -> Iterator[Connection]:
        try:
            with self._connect(connect, _Repetition(self)) as connection:
                yield connection
        except _DATABASE_ERRORS as error:
            meaning = _meaning(error, "; retry")
            if meaning is None:
                raise
            raise meaning from error

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        durable: bool = True,
        by_keys: bool = False,
    ) -> T:
        """Run `work` in one write transaction and commit it.

        A transaction that the database gave up for a deadlock, or whose connection was lost before
        its commit was sent, is run again a few times: `work` may be called several times; it must
        not call `write`.

        Args:
            work: The work to do in the transaction.
            durable: Whether it has to survive a power failure that comes before anything else is
                written; only PostgreSQL makes a difference.
            by_keys: Whether it looks rows up by their keys alone, so that PostgreSQL need not plan
                its statements again for other values.

        Raises:
            Unavailable: The database did not answer; nothing was changed.
            OutcomeUnknown: The answer to the commit was lost.
            IntegrityError: A constraint was broken; nothing is changed.
        """
        with self._watched("write"), self._turn():
            if self._is_postgresql:
                settings = (_UNFLUSHED,) * (not durable) + (_PLANNED_ONCE,) * by_keys
                return self._write(self.engine.execution_options(**{SETTINGS: settings}), work)
            if not self.is_sqlite:
                return self._write(self.engine, work)
            with self._writer:
                return self._write(self.engine.execution_options(**{IMMEDIATE: True}), work)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until this sharer may begin another transaction."""
        if self._turns is None:
            yield
            return
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise Unavailable(
                "the warehouse has as many transactions as it may have at a time, which wait for "
                f"its storage or the database{_UNCHANGED}"
            )
        try:
            yield
        finally:
            self._turns.release()

    def _write(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        attempt = 0
        repetition = _Repetition(self)
        while True:
            attempt += 1
            is_unknown = False
            try:
                with (
                    self._connect(engine.connect, repetition) as connection,
                    connection.begin() as transaction,
                ):
                    done = work(connection)
                    is_unknown = True
                    transaction.commit()
                return done
            except _DATABASE_ERRORS as error:
                if isinstance(error, DBAPIError) and is_rolled_back(error):
                    is_unknown, may_repeat = False, True
                else:
                    lost = isinstance(error, DBAPIError) and is_lost(error)
                    may_repeat = lost and not is_unknown
                if attempt > _RETRIES or not may_repeat:
                    meaning = _meaning(error, _UNKNOWN if is_unknown else _UNCHANGED)
                    if meaning is None:
                        raise
                    if is_unknown and isinstance(meaning, Unavailable):
                        meaning = OutcomeUnknown(meaning.message, private=meaning.private)
                    raise meaning from error
            for watch in self._watches:
                watch.repeated()
            self.wait(attempt)

    def _connect(self, connect: Callable[[], Connection], repetition: _Repetition) -> Connection:
        """A connection, after a little waiting for a server that restarts or fails over."""
        failed = 0
        started = time.perf_counter()
        try:
            while True:
                try:
                    return connect()
                except DBAPIError as error:
                    failed += 1
                    if not is_lost(error) or not repetition.is_next(failed):
                        raise
        finally:
            for watch in self._watches:
                watch.connected(time.perf_counter() - started)

    @contextmanager
    def _watched(self, kind: Kind) -> Iterator[None]:
        """Tell those who watch of a transaction, when it is over."""
        outcome: Outcome = "refused"
        started = time.perf_counter()
        try:
            with step(f"database {kind}", system=self.engine.dialect.name):
                yield
            outcome = "done"
        except OutcomeUnknown:
            outcome = "unknown"
            raise
        except Unavailable:
            outcome = "failed"
            raise
        finally:
            for watch in self._watches:
                watch.ended(kind, outcome, time.perf_counter() - started)

    def wait(self, attempt: int) -> None:
        """Wait before another attempt, longer each time."""
        self.runtime.sleep(min(0.01 * 2**attempt, _MAX_WAIT_SECONDS))

    def async_reads(self) -> AsyncReads | None:
        """The look-ups of the running event loop; None where a thread has to do them."""
        if not self._is_postgresql:
            return None
        loop = asyncio.get_running_loop()
        reads = self._async_reads.get(loop)
        if reads is None:
            reads = self._async_reads[loop] = AsyncReads(self.engine, self._counts)
        return reads

    def watch(self, opened: Change, used: Change) -> None:
        """Tell of the connections that are open and in use, now and whenever that changes.

        To be called before anything is looked up.
        """
        self._counts.watch(opened, used)

    def watch_transactions(self, watch: TransactionWatch) -> None:
        """Tell of transactions from now on, but not of look-ups by an event loop."""
        self._watches.append(watch)

    @property
    def most_connections(self) -> int:
        """The connections that the pool opens at most; those of event loops come on top."""
        return most_connections(self.engine)

    def close(self) -> None:
        """Give back every connection."""
        for reads in list(self._async_reads.values()):
            reads.close()
        self.engine.dispose()


def _meaning(error: Exception, outcome: str) -> HeadwaterError | None:
    """The error to raise instead; None for one that tells of a mistake in this code."""
    match error:
        case PoolTimeout():
            return Unavailable(f"all connections to the catalog's database are in use{outcome}")
        case IntegrityError():
            return None
        case DataError() | UnicodeEncodeError() | OverflowError():
            # A null character, half a surrogate pair, a number beyond 64 bits.
            return Invalid(
                "the catalog's database cannot hold a value of the request: text has a null "
                "character or half of a surrogate pair, or is too long, or a number is beyond 64 "
                "bits"
            )
        case DBAPIError() if type(error.orig) is sqlite3.DatabaseError:
            reason = str(error.orig)
            return CorruptData(
                f"the catalog's database is damaged, or no file of SQLite: {reason}", private=reason
            )
        case DBAPIError() if is_held_up(error):
            return Unavailable(
                "another transaction has kept what this one needs locked for too long; the server "
                f"that began it may stand still{outcome}"
            )
        case DBAPIError() if is_too_slow(error):
            return Unavailable(f"the catalog's database took too long for a statement{outcome}")
        case DBAPIError() if (
            isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
        ):
            reason = str(error.orig).strip()
            return Unavailable(
                f"the catalog's database did not answer: {reason}{outcome}", private=reason
            )
    return None
