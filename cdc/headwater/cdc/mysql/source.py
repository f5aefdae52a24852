"""A MySQL or MariaDB server as the source of a pipeline: its position, log, and rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from time import monotonic, sleep

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.file_log import FileLog
from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.gtid import GtidSet
from headwater.cdc.mysql.information_schema import check_definition
from headwater.cdc.mysql.log_chunks import LogChunks
from headwater.cdc.mysql.log_stream import LogStream, reader_id
from headwater.cdc.mysql.positions import Position, contains, parse_position, start_of, union
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.cdc.mysql.transactions import LogReader, XaEnd
from headwater.cdc.mysql.unlogged_changes import unlogged_changes
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    Unavailable,
)

__all__ = ["ConsistentRead", "MySQLSource"]

_MAX_OFFSET = 1 << 32
# With a pipeline's name of at most 48 characters, within the 64 that a lock's name may have.
_LOCK_PREFIX = "headwater_cdc_"
_VISIBLE_SECONDS = 60
_RETRY_SECONDS = 0.02
_SCAN_BYTES = 1 << 20
# The threads that own GTIDs, in a set of owned ones.
_OWNER = re.compile(r"#\d+")
_REMEDY = "read the tables again: headwater cdc resnapshot --all"


class ConsistentRead:
    """A transaction that sees the source at one position.

    Attributes:
        server: The connection.
        exact: The position, where the server tells it (MariaDB).
    """

    def __init__(self, source: MySQLSource, server: MySQLServer, exact: Position | None) -> None:
        self._source, self.server, self.exact = source, server, exact
        self._checked: Position | None = None

    def check(self, table: SourceTable) -> None:
        """Check that a table has the known columns, and keep them while it is read.

        Raises:
            Conflict: It has others.
        """
        check_definition(self.server, table)
        # The definition is the present one, also where the transaction sees earlier rows.
        self._checked = self._source.position_on(self.server)

    def settled(self) -> Position:
        """A position that has all that the transaction sees, and statements about its tables."""
        return union(self._checked, self.exact or self._source.position_on(self.server))

    def logged(self) -> Position:
        """A position that has all that the transaction sees, also what MySQL commits just now.

        It may have transactions that the log does not have yet.
        """
        return self.exact or self._source.logged_position(self.server)


def _xid(name: object, global_bytes: int, number: str) -> str:
    """The identifier of an XA transaction, of which MariaDB tells the bytes, and MySQL digits."""
    digits = name.hex() if isinstance(name, bytes) else str(name).removeprefix("0x").lower()
    at = 2 * global_bytes
    return f"X'{digits[:at]}',X'{digits[at:]}',{number}"


class MySQLSource:
    """A server that a pipeline follows.

    Args:
        address: The server.

    Attributes:
        flavour: Whether it is MySQL or MariaDB.
        explicit_timestamps: Whether a TIMESTAMP without NULL or NOT NULL takes nulls.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._server = MySQLServer(address)
        self.flavour = self._server.flavour
        settings = self._server.variables(
            "binlog_checksum",
            "lower_case_table_names",
            "explicit_defaults_for_timestamp",
            "gtid_mode",
        )
        self._checksums = settings.get("binlog_checksum", "NONE").upper() != "NONE"
        self._lower_case_names = settings.get("lower_case_table_names") != "0"
        self.explicit_timestamps = settings.get("explicit_defaults_for_timestamp") == "ON"
        # Where not all transactions have GTIDs, positions are offsets in files.
        self._gtid_mode = settings.get("gtid_mode", "ON")
        self._files: FileLog | None = None
        if self._gtid_mode != "ON":
            self._files = FileLog(address, checksums=self._checksums)

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    @property
    def server(self) -> MySQLServer:
        """A connection for questions."""
        return self._server

    def position(self) -> Position:
        """The position that the server has reached."""
        return self.position_on(self._server)

    def position_on(self, server: MySQLServer) -> Position:
        """The same, asked on another connection."""
        if self._files is not None:
            return self._files.end(server)
        is_mariadb = self.flavour is Flavour.MARIADB
        ((text,),) = server.rows(
            "SELECT @@gtid_binlog_pos" if is_mariadb else "SELECT @@global.gtid_executed"
        )
        return parse_position(self.flavour, str(text))

    def start(self) -> Position:
        """A position to begin at.

        Raises:
            Unavailable: An XA transaction that ended in the log before it does not end.
        """
        position = self.position()
        if self._files is None or not isinstance(position, FilePosition):
            return position
        if self.prepared_transactions():
            # Perhaps one of them has its end in the log already.
            before = self._files.file_before(self._server, position)
            with closing(self.open_log(before, _SCAN_BYTES, lambda _: False)) as log:
                self.await_ends(log.read_until(position).xa)
        return position

    def await_ends(self, phases: Sequence[XaEnd]) -> None:
        """Wait until XA transactions that have ended in the log can be seen to have ended.

        With GTIDs, consistent reads wait for them.

        Args:
            phases: Phases of XA transactions, in the log's order.

        Raises:
            Unavailable: One of them does not end.
        """
        if self._files is None:
            return
        # One that is prepared again had ended before.
        last = {phase.xid: phase.committed for phase in phases}
        ended = {xid for xid, committed in last.items() if committed is not None}
        deadline = monotonic() + _VISIBLE_SECONDS
        while waiting := ended.intersection(self.prepared_transactions() if ended else ()):
            if monotonic() > deadline:
                raise Unavailable(
                    f"the source at {self.address} has ended XA transaction {min(waiting)} in its "
                    f"log, and still lists it after {_VISIBLE_SECONDS} s; see XA RECOVER, and end "
                    "one that was prepared again under the same name"
                )
            sleep(_RETRY_SECONDS)

    def logged_position(self, server: MySQLServer) -> Position:
        """The position of MySQL with the transactions that are being committed.

        Others can see their rows before `gtid_executed` has them. Until then they are owned.
        """
        if self._files is not None:
            # The end of the log, which has what is being committed.
            return self.position_on(server)
        # In this order: what ends between both is among the executed ones.
        ((owned,),) = server.rows("SELECT @@global.gtid_owned")
        being_committed = parse_position(self.flavour, _OWNER.sub("", str(owned)))
        return union(being_committed, self.position_on(server))

    def prepared_transactions(self) -> tuple[str, ...]:
        """The XA transactions that are prepared, as the log writes them.

        Raises:
            Unavailable: The connection is lost.
        """
        is_mariadb = self.flavour is Flavour.MARIADB
        rows = self._server.rows("XA RECOVER" if is_mariadb else "XA RECOVER CONVERT XID")
        return tuple(_xid(name, int(str(size)), str(number)) for number, size, _, name in rows)

    def parse(self, text: str) -> Position:
        """Read a position of this source.

        Raises:
            Conflict: It is not a position of such a server.
        """
        try:
            return parse_position(self.flavour, text)
        except Invalid as error:
            raise Conflict(
                f"the source at {self.address} is {self.server.version}, which has no position "
                f"'{text}', where the pipeline is: {error.message.partition(';')[0]}; connect to "
                f"the server that was read before, or {_REMEDY}"
            ) from error

    def check_holds(self, position: Position) -> None:
        """Check that the server has had a position, and has its log from there on.

        Raises:
            Conflict: It lacks transactions of the position.
            NotFound: Its log was purged.
        """
        self._check_kind(position)
        if self._files is not None and isinstance(position, FilePosition):
            self._files.check_holds(self._server, position)
            return
        present = self.position()
        if not contains(present, position):
            raise Conflict(
                f"the source at {self.address} is at '{present}' and lacks transactions of "
                f"'{position}', where the pipeline is: it was restored, or is another server; "
                f"connect to a server that has them, or {_REMEDY}"
            )
        if isinstance(position, GtidSet):
            ((text,),) = self._server.rows("SELECT @@global.gtid_purged")
            purged = GtidSet.from_text(str(text))
            if not position.contains(purged):
                raise NotFound(
                    f"the source at {self.address} has purged its log up to '{purged}', and the "
                    f"pipeline is at '{position}'; {_REMEDY}, and keep the log for longer: "
                    "binlog_expire_logs_seconds"
                )

    def check_logs(self, databases: Collection[str]) -> None:
        """Check that the server logs all changes of some databases.

        Raises:
            Conflict: Its settings keep changes out of the log.
        """
        findings = unlogged_changes(self._server, databases)
        if findings:
            raise Conflict(
                f"the source at {self.address} does not log all changes: "
                f"{'; '.join(map(str, findings))}; then {_REMEDY}"
            )

    def _check_kind(self, position: Position) -> None:
        """Raise Conflict unless the server numbers its transactions as a position does."""
        if isinstance(position, FilePosition) == (self._files is not None):
            return
        numbers = "numbers" if self._files is None else "does not number"
        raise Conflict(
            f"the source at {self.address} {numbers} its transactions by GTIDs (gtid_mode="
            f"{self._gtid_mode}), and the pipeline is at '{position}'; set gtid_mode as it was "
            f"before, or {_REMEDY}"
        )

    def log_bytes_after(self, file: str, offset: int) -> int | None:
        """How many bytes of the log follow an offset in one of its files; None if not known.

        Args:
            file: The file.
            offset: The offset, as events have it: modulo 4 GiB.

        Raises:
            Unavailable: The connection is lost.
        """
        try:
            sizes = [
                (str(name), int(str(size)))
                for name, size, *_ in self._server.rows("SHOW BINARY LOGS")
            ]
        except Unavailable:
            # The lock is lost with the connection.
            raise
        except HeadwaterError:
            return None
        names = [name for name, _ in sizes]
        if file not in names:
            return None
        first, *later = (size for _, size in sizes[names.index(file) :])
        return None if first >= _MAX_OFFSET else max(0, first - offset) + sum(later)

    def open_log(
        self, after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
    ) -> LogReader:
        """Read the log from a position on.

        Args:
            after: The position.
            is_selected: Whether a table may be followed.
            memory_bytes: How many bytes of a batch are kept in memory.

        Raises:
            NotFound: The server does not have the log from there on.
            Unavailable: It cannot be reached.
        """
        stream = LogStream(
            self.address, start_of(after), server_id=reader_id(), flavour=self.flavour
        )
        chunks = LogChunks(stream, f"the log of {self.address}", memory_bytes)
        return LogReader(
            chunks,
            after,
            checksums=self._checksums,
            mariadb=self.flavour is Flavour.MARIADB,
            lower_case_names=self._lower_case_names,
            is_selected=is_selected,
        )

    @contextmanager
    def consistent_read(
        self, after: Position, server: MySQLServer | None = None
    ) -> Iterator[ConsistentRead]:
        """See the source at one position, which has all transactions of another one.

        The log is sent to readers before its transactions can be seen by others, so this waits
        until they can.

        Args:
            after: The position that is to be seen at least.
            server: A connection to use, which stays open; None opens one.

        Raises:
            Unavailable: The server does not reach it, or cannot be reached.
        """
        if server is not None:
            yield self.begin_read(server, after)
            server.rows("ROLLBACK")
            return
        with MySQLServer(self.address) as own_server:
            # It ends with its connection, whether all of a result is read or not.
            yield self.begin_read(own_server, after)

    def begin_read(self, server: MySQLServer, after: Position) -> ConsistentRead:
        """Begin a transaction as `consistent_read`, in place of one that the connection has."""
        return ConsistentRead(self, server, self._begin(server, after))

    def _begin(self, server: MySQLServer, after: Position) -> Position | None:
        self._check_kind(after)
        server.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        deadline = monotonic() + _VISIBLE_SECONDS
        if self._files is not None and isinstance(after, FilePosition):
            self._files.show(server, after)
            server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            return None
        if self.flavour is Flavour.MYSQL:
            ((timed_out,),) = server.rows(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", [str(after), _VISIBLE_SECONDS]
            )
            if not timed_out:
                server.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                return None
            deadline = 0.0
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
            exact = parse_position(self.flavour, str(text or ""))
            if contains(exact, after):
                return exact
            server.rows("ROLLBACK")
            sleep(_RETRY_SECONDS)
        raise Unavailable(
            f"the source at {self.address} has not reached '{after}' within {_VISIBLE_SECONDS} s; "
            "check that it is the server that was read before"
        )

    def lock(self, pipeline: str, seconds: float) -> None:
        """Keep other processes from running a pipeline while this connection lasts.

        Args:
            pipeline: Its name.
            seconds: How long to wait for another one.

        Raises:
            Conflict: Another one runs it.
        """
        name = _LOCK_PREFIX + pipeline
        ((is_taken,),) = self._server.rows("SELECT GET_LOCK(%s, %s)", [name, seconds])
        if is_taken != 1:
            raise Conflict(
                f"pipeline '{pipeline}' runs in another process, which holds its lock at the "
                f"source at {self.address} for {seconds:g} s already; stop that one first: "
                f"headwater cdc stop --name {pipeline}"
            )

    def is_locked(self, pipeline: str) -> bool:
        """Whether a process runs a pipeline on this source."""
        ((holder,),) = self._server.rows("SELECT IS_USED_LOCK(%s)", [_LOCK_PREFIX + pipeline])
        return holder is not None
