"""Transactions that see a table with all changes that were received from the log, and maybe more.

**Why this has to wait.** A commit is sent to readers of the log when its record is flushed. Others
see its rows when the server has taken the transaction off its list of running ones, which comes
later: at once as a rule, after the standbys' answers with synchronous replication, and whenever the
process runs again that was interrupted between both (``RecordTransactionCommit``, then
``ProcArrayEndTransaction``, in ``xact.c``). A snapshot in between has the rows as they were before.
What it lacks is before the position that the log was read to, so it would never come.

**What is waited for.** Take a transaction that changed a table, and whose commit was received at
position P, and any time after that. Either it has ended, and every snapshot from then on sees it.
Or it still holds the lock that it took to write (``RowExclusiveLock`` or a stronger one), and a
lock on its own number, as both are released after the list is changed: ``pg_locks`` has them. So
the writers of the table are listed once, after P was received, and a snapshot that is taken when
all of them have ended sees everything up to P. Writers that come later commit behind P.

This would wait for every long transaction. Those that cannot have committed before P are left out:

- A session that is seen idle in its transaction after P, or waiting for a lock, its client or a
  table's file, is not between the record of its commit and its end, where it waits for none of
  these. It is shown to members of ``pg_read_all_stats``, and to the session's own user.
- A transaction whose commit was received has its number in the log. So `LoggedTransactions` has the
  numbers that came, and those that ran when it was made: they may have committed before the log was
  read. Another one that still runs is not before P, as its commit would have been received.

Neither locks nor numbers exist for transactions without changes, which nobody has to see.

**The other way round.** What a snapshot sees has a commit record before the position where the
server writes next, which is asked for with the snapshot: the position from which on the table is
right, whatever the snapshot had of transactions before it. With ``synchronous_commit = off`` that
part of the log may not be flushed yet; it is, within three times ``wal_writer_delay``.

**Definitions.** The table is locked (``ACCESS SHARE``) before the snapshot is taken, as ``LOCK``
takes none. So no TRUNCATE and no ALTER TABLE is between both: rows of a table that was rewritten
after the snapshot would be missing, and ones of a truncated table, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from time import monotonic, sleep

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.catalog import (
    check_definition,
    quoted_table,
    read_tables,
)
from headwater.cdc.postgres.key_ranges import key_ranges, read_range, source_rows
from headwater.cdc.postgres.key_rows import read_keys
from headwater.cdc.postgres.positions import LogPosition, lsn_text, parse_lsn, record_end
from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.postgres.table_storage import PARTITION_TREE
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import Tables
from headwater.storage.errors import Conflict, HeadwaterError, Unavailable

__all__ = [
    "LoggedTransactions",
    "PostgresRead",
    "PostgresRemoteReads",
    "PostgresRowReader",
    "Snapshot",
]

_VISIBLE_SECONDS = 60.0
_RETRY_SECONDS = 0.01
# A statement that waits for another reader keeps this one waiting.
_LOCK_TIMEOUT = "10s"
_ATTEMPTS = 10
# More numbers of transactions are compared with those that run.
_MAX_NUMBERS = 1 << 16
_TABLE_OIDS = f"""
SELECT t.oid::bigint FROM (SELECT to_regclass(%s)::oid) AS root (oid), LATERAL {PARTITION_TREE}
"""
# Transactions that have written and may be about to end, by their virtual number, which a prepared
# one keeps.
_WRITERS = """
WITH l AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted)
SELECT DISTINCT x.virtualtransaction, x.transactionid::text::bigint
FROM l AS x JOIN l AS r ON r.virtualtransaction = x.virtualtransaction
  AND r.pid IS NOT DISTINCT FROM x.pid
WHERE x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
  AND r.locktype = 'relation' AND r.relation = ANY(%s::oid[])
  AND r.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND r.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                 'AccessExclusiveLock')
  AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = x.pid
    AND (a.state LIKE 'idle in transaction%%' OR a.wait_event_type = 'Lock'
         OR a.wait_event IN ('ClientRead', 'DataFileRead', 'DataFileExtend')))
"""
_RUNNING = """
SELECT transactionid::text::bigint FROM pg_locks
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
"""


class LoggedTransactions:
    """Which of the transactions that run may have their commit in the log that was received.

    It is made when the position to read the log from is known: all that run then count, as they may
    have committed before it.

    Args:
        server: A connection to ask for the transactions that run; no rows of tables are read by it.

    Raises:
        Unavailable: The connection is lost.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._lock = server, Lock()
        self._numbers: set[int] = set()
        self.add_running()

    def add_running(self) -> None:
        """Count all transactions that run now, as the log may not have their changes of a table.

        It is called when a table has been added to the publication, before the table is read.

        Raises:
            Unavailable: The connection is lost.
        """
        with self._lock:
            self._numbers |= self._running()

    def add(self, numbers: Iterable[int]) -> None:
        """Count transactions whose commits were received, before the position is moved past them.

        Args:
            numbers: Their numbers, as the log has them: 32 bits.

        Raises:
            Unavailable: The connection is lost.
        """
        with self._lock:
            self._numbers.update(numbers)
            if len(self._numbers) > _MAX_NUMBERS:
                # Those that have ended are seen by all.
                self._numbers &= self._running()

    def may_have(self, number: int) -> bool:
        """Whether the commit of a transaction that runs may have been received."""
        with self._lock:
            return number in self._numbers

    def running(self) -> frozenset[int]:
        """The numbers of transactions that run, and whose commits may have been received.

        Raises:
            Unavailable: The connection is lost.
        """
        with self._lock:
            return frozenset(self._numbers & self._running())

    def _running(self) -> set[int]:
        return {int(str(number)) for (number,) in self._server.rows(_RUNNING)}


@dataclass(frozen=True)
class Snapshot:
    """Which transactions are seen, ``pg_current_snapshot()``.

    Attributes:
        xmin, xmax: All before the first are seen if they have committed, and none from the second.
        running: Those in between that are not seen.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @staticmethod
    def from_text(text: str) -> Snapshot:
        """Read a snapshot as the server writes it: ``10:20:10,14,15``."""
        xmin, xmax, running = text.split(":")
        return Snapshot(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, number: int) -> bool:
        """Whether a transaction that has committed is seen.

        Args:
            number: Its number, as the log has it: 32 bits, at most 2 billion before or behind
                `xmax`.
        """
        half = 1 << 31
        whole = self.xmax + (number - self.xmax + half) % (2 * half) - half
        return whole < self.xmax and whole not in self.running


class PostgresRead:
    """A transaction that sees a table with all changes up to a position at least.

    It begins with `check`, which comes before rows are read; before that, tables and bounds of
    ranges are those of the time when they are asked for.

    Args:
        server: A connection that nobody else uses meanwhile.
        after: The position, which was received, or is the server's own.
        may_be_committed: Whether the commit of a transaction that runs may be before the position.
        seconds: How long to wait for transactions that do not end.

    Attributes:
        server: The connection.
        snapshot: Which transactions are seen; None before `check`.
    """

    def __init__(
        self,
        server: PostgresServer,
        after: LogPosition,
        may_be_committed: Callable[[int], bool],
        seconds: float,
    ) -> None:
        self.server = server
        self._after, self._may_be_committed, self._seconds = after, may_be_committed, seconds
        self._is_begun = False
        self._settled: LogPosition | None = None
        self.snapshot: Snapshot | None = None

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined, see `read_tables`."""
        choices = [TypeMapping(name) for name in mapping]
        return read_tables(self.server, wanted, mapping=choices, without_key=without_key)

    def check(self, table: SourceTable) -> None:
        """See a table, check that it has the known columns, and keep them while it is read.

        Another table is seen by another transaction, later than this one.

        Args:
            table: The table.

        Raises:
            Conflict: It has others, or a statement keeps it locked.
            Unavailable: A transaction whose commit may have been received does not end, or the
                server has not reached the position.
        """
        for _ in range(_ATTEMPTS):
            self.end()
            oids = self._oids(table)
            self._await_writers(table, oids)
            rows = source_rows(self.server, table)
            self._is_begun = True
            self.server.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.server.rows(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            self.server.rows(f"LOCK TABLE {rows} IN ACCESS SHARE MODE")
            self._settled, self.snapshot = self._see()
            if check_definition(self.server, table).oid in oids:
                return
        raise Conflict(
            f"table {table.name} of the source is replaced all the time; read it again later"
        )

    def settled(self) -> LogPosition:
        """A position that has all that the transaction sees, and statements about its tables.

        Raises:
            Unavailable: The connection is lost.
        """
        return self._see()[0] if self._settled is None else self._settled

    def key_ranges(
        self,
        table: SourceTable,
        rows: int,
        after: Bound | None = None,
        until: Bound | None = None,
    ) -> Iterator[KeyRange]:
        """Divide a table, see `key_ranges`. Before `check`, no transaction stays open for it."""
        return key_ranges(self.server, table, rows, after, until)

    def rows(
        self, table: SourceTable, part: KeyRange, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range, see `read_range`."""
        assert self.snapshot is not None
        return read_range(self.server, table, part, bad_dates)

    def rows_of_keys(
        self, table: SourceTable, keys: pa.Table, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of some keys, see `read_keys`."""
        assert self.snapshot is not None
        return read_keys(self.server, table, keys, bad_dates)

    def end(self) -> None:
        """End the transaction, if one has begun.

        Raises:
            Unavailable: The connection is lost.
        """
        if self._is_begun:
            self._is_begun, self._settled, self.snapshot = False, None, None
            self.server.rows("ROLLBACK")

    def _oids(self, table: SourceTable) -> Collection[int]:
        """The numbers of the table, and of its partitions."""
        rows = self.server.rows(_TABLE_OIDS, [quoted_table(table.name)])
        return {int(str(oid)) for (oid,) in rows}

    def _await_writers(self, table: SourceTable, oids: Collection[int]) -> None:
        """Wait for the transactions that may have committed, and not have ended."""
        deadline = monotonic() + self._seconds
        waiting = {
            virtual: number
            for virtual, number in self._writers(oids)
            if self._may_be_committed(number)
        }
        while waiting:
            if monotonic() > deadline:
                number = next(iter(waiting.values()))
                raise Unavailable(
                    f"the source at {self.server.address} still runs transaction {number} after "
                    f"{self._seconds:g} s, which has changed table {table.name} and may be in the "
                    "log; wait for its end (synchronous replication may keep it from ending), or "
                    f"end it: see pg_locks with transactionid = '{number}'"
                )
            sleep(_RETRY_SECONDS)
            running = {virtual for virtual, _ in self._writers(oids)}
            waiting = {key: number for key, number in waiting.items() if key in running}

    def _writers(self, oids: Collection[int]) -> list[tuple[str, int]]:
        rows = self.server.rows(_WRITERS, [list(oids)])
        return [(str(virtual), int(str(number))) for virtual, number in rows]

    def _see(self) -> tuple[LogPosition, Snapshot]:
        """See the source: the position that has all that is seen, and the snapshot."""
        ((snapshot, end, block_size),) = self.server.rows(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text, "
            "current_setting('wal_block_size')"
        )
        lsn = parse_lsn(str(end))
        if lsn < self._after.lsn:
            raise Unavailable(
                f"the source at {self.server.address} has its log up to {end}, and was read up to "
                f"{lsn_text(self._after.lsn)}; check that it is the server that was read before"
            )
        position = self._after.at(record_end(lsn, int(str(block_size))))
        return position, Snapshot.from_text(str(snapshot))


class PostgresRowReader:
    """A connection that reads rows, in one transaction after the other.

    Args:
        server: The connection; nobody else uses it meanwhile.
        may_be_committed: Whether the commit of a transaction that runs may have been received, see
            `LoggedTransactions.may_have`. By default all writers of a table are waited for.
        seconds: How long to wait for transactions that do not end.
    """

    def __init__(
        self,
        server: PostgresServer,
        may_be_committed: Callable[[int], bool] = lambda _: True,
        seconds: float = _VISIBLE_SECONDS,
    ) -> None:
        self._server, self._may_be_committed, self._seconds = server, may_be_committed, seconds

    @contextmanager
    def consistent_read(self, after: Position) -> Iterator[PostgresRead]:
        """See tables with all changes that were received up to a position.

        Args:
            after: The position: it was received, or is the server's own.

        Raises:
            Unavailable: The connection is lost.
        """
        assert isinstance(after, LogPosition)
        read = PostgresRead(self._server, after, self._may_be_committed, self._seconds)
        try:
            yield read
        except BaseException:
            # The connection may be lost, or in the middle of a result.
            with suppress(HeadwaterError):
                read.end()
            raise
        read.end()


@dataclass(frozen=True)
class PostgresRemoteReads:
    """Reads of a database's rows in another process; see `RemoteReads`.

    Args:
        address: The database.
        may_be_committed: The numbers of transactions that run, and whose commits may have been
            received when this was made; None if all may. Those that have ended since can be seen.
    """

    address: Address
    may_be_committed: frozenset[int] | None

    @contextmanager
    def row_reader(self) -> Iterator[PostgresRowReader]:
        """A connection for consistent reads."""
        with PostgresServer(self.address) as server:
            if self.may_be_committed is None:
                yield PostgresRowReader(server)
            else:
                yield PostgresRowReader(server, self.may_be_committed.__contains__)
