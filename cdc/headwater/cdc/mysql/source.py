"""A MySQL or MariaDB server as the source of a pipeline: its position, log, and rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from time import monotonic, sleep

from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.consistent_reads import (
    MySQLRead,
    MySQLReads,
    MySQLRemoteReads,
    MySQLRowReader,
)
from headwater.cdc.mysql.exact_reads import exact_read
from headwater.cdc.mysql.file_log import FileLog, file_created, outlast_second
from headwater.cdc.mysql.file_positions import FilePosition
from headwater.cdc.mysql.foreign_keys import logs_cascades, read_foreign_keys
from headwater.cdc.mysql.gtid import GtidSet
from headwater.cdc.mysql.information_schema import read_tables
from headwater.cdc.mysql.log_chunks import LogChunks
from headwater.cdc.mysql.log_files import LogFile, log_was_reset
from headwater.cdc.mysql.log_stream import FileStart, LogStream, reader_id
from headwater.cdc.mysql.positions import parse_position, start_of
from headwater.cdc.mysql.server import Address, Flavour, MySQLServer
from headwater.cdc.mysql.table_changes import apply_changes
from headwater.cdc.mysql.text_values import quoted
from headwater.cdc.mysql.transactions import MySQLLogReader
from headwater.cdc.mysql.unlogged_changes import unlogged_changes
from headwater.cdc.source.foreign_keys import ForeignKeyAction
from headwater.cdc.source.log_batches import LogBatch, LogReader, XaEnd
from headwater.cdc.source.positions import READ_AGAIN, Position
from headwater.cdc.source.reads import Tables
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.errors import (
    Conflict,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    Unavailable,
)

__all__ = ["MySQLSource"]

_MAX_OFFSET = 1 << 32
# With a pipeline's name of at most 48 characters, within the 64 that a lock's name may have.
_LOCK_PREFIX = "headwater_cdc_"
_VISIBLE_SECONDS = 60
_RETRY_SECONDS = 0.02
_SCAN_BYTES = 1 << 20


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
        logs_cascades: Whether the log has the rows that foreign keys change.
        keeps_log: That the log can be read again, until the server deletes it.
        has_rows: That rows can be read besides the log.
        logs_statements: That the log has the statements that change tables.
    """

    keeps_log = True
    has_rows = True
    logs_statements = True

    def __init__(self, address: Address) -> None:
        self.address = address
        self._server = MySQLServer(address)
        self.flavour = self._server.flavour
        settings = self._server.variables(
            "binlog_checksum",
            "lower_case_table_names",
            "gtid_mode",
        )
        self._checksums = settings.get("binlog_checksum", "NONE").upper() != "NONE"
        self._lower_case_names = settings.get("lower_case_table_names") != "0"
        self.logs_cascades = logs_cascades(self._server)
        # Where not all transactions have GTIDs, positions are offsets in files.
        gtid_mode = settings.get("gtid_mode", "ON")
        self._files: FileLog | None = None
        if gtid_mode != "ON":
            self._files = FileLog(address, checksums=self._checksums)
        self._reads = MySQLReads(self.flavour, gtid_mode, self._files)

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    # What does not work -----------------------------------------------------------------------

    def findings(self, databases: Collection[str]) -> Sequence[Finding]:
        """The version, settings and privileges that keep changes of databases from being read."""
        return self._server.findings() or unlogged_changes(self._server, databases)

    def unreadable(self, tables: Sequence[SourceTable]) -> Sequence[Finding]:
        """Those of the tables that the user sees and may not read."""
        return list(filter(None, map(self._unreadable, tables)))

    def _unreadable(self, table: SourceTable) -> Finding | None:
        columns = ", ".join(quoted(column.name) for column in table.columns)
        name = ".".join(map(quoted, table.name))
        try:
            self._server.rows(f"SELECT {columns} FROM {name} LIMIT 0")
        except Forbidden:
            user = self.address.user
            return Finding(
                f"table {table.name}",
                f"user '{user}' may not read it",
                f"GRANT SELECT ON {name} TO '{user}'",
                table.name,
            )
        return None

    def check_holds(self, position: Position) -> None:
        """Check that the server has had a position, and has its log from there on.

        Raises:
            Conflict: It lacks transactions of the position.
            NotFound: Its log was purged.
        """
        self._reads.check_kind(self._server, position)
        if self._files is not None and isinstance(position, FilePosition):
            self._files.check_holds(self._server, position)
            return
        present = self.position()
        if not present.contains(position):
            raise Conflict(
                f"the source at {self.address} is at '{present}' and lacks transactions of "
                f"'{position}', where the pipeline is: it was restored, or is another server; "
                f"connect to a server that has them, or {READ_AGAIN}"
            )
        if isinstance(position, GtidSet):
            ((text,),) = self._server.rows("SELECT @@global.gtid_purged")
            purged = GtidSet.from_text(str(text))
            if not position.contains(purged):
                raise NotFound(
                    f"the source at {self.address} has purged its log up to '{purged}', and the "
                    f"pipeline is at '{position}'; {READ_AGAIN}, and keep the log for longer: "
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
                f"{'; '.join(map(str, findings))}; then {READ_AGAIN}"
            )

    def check_log_file(self, file: str, position: Position, *, is_read: bool) -> None:
        """Check that a file of the log is the one that was read; see `Source.check_log_file`."""
        known = LogFile.from_text(file)
        ((server_id,),) = self._server.rows("SELECT @@server_id")
        if int(str(server_id)) != known.server:
            # A replica has taken over: it has files of its own.
            return
        names = [str(name) for name, *_ in self._server.rows("SHOW BINARY LOGS")]
        source = f"the source at {self.address}"
        if known.name in names:
            start = FileStart(known.name)
            created = file_created(self.address, start, checksums=self._checksums)
            if created != known.created:
                reason = f"it was made at {created} (seconds since 1970), not {known.created}"
                raise log_was_reset(source, known.name, reason)
        elif not known.is_before(names[0]):
            raise log_was_reset(source, known.name, f"its log ends in file {names[-1]}")
        elif not is_read and not self._begins_at(names[0], position):
            raise NotFound(
                f"{source} has purged its log up to file {names[0]}, and the pipeline has read "
                f"{known.name}: nothing tells whether the log was reset meanwhile; {READ_AGAIN}, "
                "and keep the log for longer: binlog_expire_logs_seconds"
            )

    def _begins_at(self, file: str, position: Position) -> bool:
        """Whether the log's first file begins exactly at a position."""
        if self.flavour is Flavour.MARIADB:
            ((text,),) = self._server.rows("SELECT BINLOG_GTID_POS(%s, 4)", [file])
        else:
            ((text,),) = self._server.rows("SELECT @@global.gtid_purged")
        begin = parse_position(self.flavour, str(text or ""))
        return begin.contains(position) and position.contains(begin)

    # The log ----------------------------------------------------------------------------------

    def position(self) -> Position:
        """The position that the server has reached."""
        return self._reads.position_on(self._server)

    def start(self) -> Position:
        """A position to begin at.

        Raises:
            Unavailable: An XA transaction that ended in the log before it does not end.
        """
        position = self.position()
        while isinstance(position, FilePosition):
            if not outlast_second(self._server, position.created):
                break
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
                f"the source at {self.address} is {self._server.version}, which has no position "
                f"'{text}', where the pipeline is: {error.message.partition(';')[0]}; connect to "
                f"the server that was read before, or {READ_AGAIN}"
            ) from error

    def _bytes_after(self, file: str, offset: int) -> int | None:
        """How many bytes of the log follow an offset in one of its files; None if not known.

        Args:
            file: The file.
            offset: The offset, as events have it: modulo 4 GiB.

        Raises:
            Conflict: The file has fewer bytes, or was not begun yet: the log was reset.
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
        if not file:
            return None
        source = f"the source at {self.address}"
        if file not in names:
            # A server announces a file before it lists it.
            is_begun = offset > FileStart(file).offset
            if is_begun and not LogFile(0, 0, file).is_before(names[0]):
                raise log_was_reset(source, file, f"its log ends in file {names[-1]}")
            return None
        first, *later = (size for _, size in sizes[names.index(file) :])
        if first < offset:
            reason = f"it has {first} bytes, and {offset} were read"
            raise log_was_reset(source, file, reason)
        return None if first >= _MAX_OFFSET else first - offset + sum(later)

    def open_log(
        self, after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
    ) -> MySQLLogReader:
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
        return MySQLLogReader(
            chunks,
            after,
            checksums=self._checksums,
            mariadb=self.flavour is Flavour.MARIADB,
            lower_case_names=self._lower_case_names,
            is_selected=is_selected,
            bytes_after=self._bytes_after,
            outlast=partial(outlast_second, self._server),
        )

    # Tables and rows --------------------------------------------------------------------------

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined; see `Source.tables`."""
        choices = [TypeMapping(name) for name in mapping]
        return read_tables(self._server, wanted, mapping=choices, without_key=without_key)

    def altered(
        self, table: SourceTable, batch: LogBatch, mapping: Collection[str]
    ) -> TableChanges:
        """A table after the statement of a batch; see `apply_changes`."""
        return apply_changes(
            batch.changes,
            table,
            mapping=[TypeMapping(name) for name in mapping],
            syntax=batch.syntax,
            explicit_timestamps=batch.explicit_timestamps,
            strict=batch.strict,
        )

    def silent_foreign_keys(self) -> Sequence[ForeignKeyAction]:
        """The foreign keys by which rows change without an event in the log."""
        return () if self.logs_cascades else read_foreign_keys(self._server)

    @contextmanager
    def consistent_read(self, after: Position) -> Iterator[MySQLRead]:
        """See the server at one position, by a connection of its own; see `MySQLReads.begin`."""
        with MySQLServer(self.address) as server:
            # It ends with its connection, whether all of a result is read or not.
            yield self._begin(server, after)

    def row_reader(self) -> AbstractContextManager[MySQLRowReader]:
        """A connection for consistent reads."""
        return self.remote_reads().row_reader()

    def remote_reads(self) -> MySQLRemoteReads:
        """Reads of rows in other processes."""
        return MySQLRemoteReads(self.address, self._reads)

    def partly_logged(self, tables: Collection[TableName]) -> Sequence[Finding]:
        """None: the log has whole rows, unless a session chooses otherwise."""
        del tables
        return ()

    def publish(self, tables: Tables) -> Tables:
        """The tables: the log has all."""
        return tables

    def unlogged(self, tables: Collection[TableName]) -> Mapping[TableName, Finding]:
        """None: the log has all tables; see `check_logs`."""
        del tables
        return {}

    def exact_read(
        self, reader: LogReader, batch: LogBatch, table: SourceTable
    ) -> AbstractContextManager[MySQLRead]:
        """See a table exactly as it is at the end of a batch, which is read on for that."""
        return exact_read(self._reads, self.address, reader, batch, table)

    def _begin(self, server: MySQLServer, after: Position) -> MySQLRead:
        return self._reads.begin(server, after)

    # Pipelines --------------------------------------------------------------------------------

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
