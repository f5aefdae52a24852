"""Transactions that see a MySQL or MariaDB server at one position."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.file_log import FileLog
from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.information_schema import check_definition, limit_lock_waits, read_tables
from headwater.cdc.mysql.key_ranges import key_ranges, read_range
from headwater.cdc.mysql.key_rows import read_keys
from headwater.cdc.mysql.positions import parse_position
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import READ_AGAIN, Position, union
from headwater.cdc.source.reads import Tables
from headwater.storage.errors import Conflict, Unavailable

__all__ = ["MySQLRead", "MySQLReads", "MySQLRemoteReads", "MySQLRowReader"]

_VISIBLE_SECONDS = 60
_RETRY_SECONDS = 0.02
# The threads that own GTIDs, in a set of owned ones.
_OWNER = re.compile(r"#\d+")


class MySQLRead:
    """A transaction that sees the server at one position; see `ConsistentRead`.

    Attributes:
        server: The connection.
        exact: The position, where the server tells it (MariaDB).
    """

    def __init__(self, reads: MySQLReads, server: MySQLServer, exact: Position | None) -> None:
        self._reads, self.server, self.exact = reads, server, exact
        self._checked: Position | None = None

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined."""
        choices = [TypeMapping(name) for name in mapping]
        return read_tables(self.server, wanted, mapping=choices, without_key=without_key)

    def check(self, table: SourceTable) -> None:
        """Check that a table has the known columns, and keep them while it is read."""
        limit_lock_waits(self.server)
        check_definition(self.server, table)
        # The definition is the present one, also where the transaction sees earlier rows.
        self._checked = self._reads.position_on(self.server)

    def key_ranges(
        self,
        table: SourceTable,
        rows: int,
        after: Bound | None = None,
        until: Bound | None = None,
    ) -> Iterator[KeyRange]:
        """Divide a table."""
        return key_ranges(self.server.connection, self.server.address, table, rows, after, until)

    def rows(
        self, table: SourceTable, part: KeyRange, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range."""
        return read_range(self.server.connection, self.server.address, table, part, bad_dates)

    def rows_of_keys(
        self, table: SourceTable, keys: pa.Table, bad_dates: BadDates = BadDates.FAIL
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of some keys."""
        return read_keys(self.server.connection, self.server.address, table, keys, bad_dates)

    def settled(self) -> Position:
        """A position that has all that the transaction sees, and statements about its tables."""
        return union(self._checked, self.exact or self._reads.position_on(self.server))

    def logged(self) -> Position:
        """A position that has all that the transaction sees, also what MySQL commits just now.

        It may have transactions that the log does not have yet.
        """
        return self.exact or self._reads.logged_position(self.server)


class MySQLRowReader:
    """A connection that reads rows, in one transaction after the other; see `RowReader`."""

    def __init__(self, reads: MySQLReads, server: MySQLServer) -> None:
        self._reads, self._server = reads, server

    @contextmanager
    def consistent_read(self, after: Position) -> Iterator[MySQLRead]:
        """See the server at one position, which has all transactions of another one."""
        yield self._reads.begin(self._server, after)
        self._server.rows("ROLLBACK")


class MySQLReads:
    """Where a server is, and transactions that see it there.

    Args:
        flavour: Whether it is MySQL or MariaDB.
        gtid_mode: The server's setting.
        files: The log's files, where positions are offsets in them.
    """

    def __init__(self, flavour: Flavour, gtid_mode: str, files: FileLog | None) -> None:
        self._flavour, self._gtid_mode, self._files = flavour, gtid_mode, files

    def position_on(self, server: MySQLServer) -> Position:
        """The position that the server has reached."""
        if self._files is not None:
            return self._files.end(server)
        is_mariadb = self._flavour is Flavour.MARIADB
        ((text,),) = server.rows(
            "SELECT @@gtid_binlog_pos" if is_mariadb else "SELECT @@global.gtid_executed"
        )
        return parse_position(self._flavour, str(text))

    def logged_position(self, server: MySQLServer) -> Position:
        """The position of MySQL with the transactions that are being committed.

        Others can see their rows before `gtid_executed` has them. Until then they are owned.
        """
        if self._files is not None:
            # The end of the log, which has what is being committed.
            return self.position_on(server)
        # In this order: what ends between both is among the executed ones.
        ((owned,),) = server.rows("SELECT @@global.gtid_owned")
        being_committed = parse_position(self._flavour, _OWNER.sub("", str(owned)))
        return being_committed.union(self.position_on(server))

    def check_kind(self, server: MySQLServer, position: Position) -> None:
        """Check that the server numbers its transactions as a position does.

        Raises:
            Conflict: It does not.
        """
        if isinstance(position, FilePosition) == (self._files is not None):
            return
        numbers = "numbers" if self._files is None else "does not number"
        raise Conflict(
            f"the source at {server.address} {numbers} its transactions by GTIDs (gtid_mode="
            f"{self._gtid_mode}), and the pipeline is at '{position}'; set gtid_mode as it was "
            f"before, or {READ_AGAIN}"
        )

    def begin(self, server: MySQLServer, after: Position) -> MySQLRead:
        """Begin a transaction in place of one that the connection has.

        The log is sent to readers before its transactions can be seen by others, so this waits
        until they can.

        Args:
            server: The connection.
            after: The position that is to be seen at least.

        Raises:
            Conflict: The server numbers its transactions in another way.
            Unavailable: It does not reach the position, or cannot be reached.
        """
        self.check_kind(server, after)
        server.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if self._files is not None and isinstance(after, FilePosition):
            self._files.show(server, after)
            server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            return MySQLRead(self, server, None)
        if self._flavour is Flavour.MARIADB:
            return MySQLRead(self, server, self._begin_exact(server, after))
        ((timed_out,),) = server.rows(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", [str(after), _VISIBLE_SECONDS]
        )
        if timed_out:
            raise _not_reached(server, after)
        server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return MySQLRead(self, server, None)

    def _begin_exact(self, server: MySQLServer, after: Position) -> Position:
        """Begin a transaction on MariaDB; the position that it sees."""
        deadline = monotonic() + _VISIBLE_SECONDS
        while monotonic() < deadline:
            server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            status = {
                str(name).lower(): str(value)
                for name, value in server.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")
            }
            ((text,),) = server.rows(
                "SELECT BINLOG_GTID_POS(%s, %s)",
                [status["binlog_snapshot_file"], int(status["binlog_snapshot_position"])],
            )
            exact = parse_position(self._flavour, str(text or ""))
            if exact.contains(after):
                return exact
            server.rows("ROLLBACK")
            sleep(_RETRY_SECONDS)
        raise _not_reached(server, after)


@dataclass(frozen=True)
class MySQLRemoteReads:
    """Reads of a server's rows in another process; see `RemoteReads`.

    Args:
        address: The server.
        reads: Where the server is.
    """

    address: Address
    reads: MySQLReads

    @contextmanager
    def row_reader(self) -> Iterator[MySQLRowReader]:
        """A connection for consistent reads."""
        with MySQLServer(self.address) as server:
            yield MySQLRowReader(self.reads, server)


def _not_reached(server: MySQLServer, after: Position) -> Unavailable:
    return Unavailable(
        f"the source at {server.address} has not reached '{after}' within {_VISIBLE_SECONDS} s; "
        "check that it is the server that was read before"
    )
