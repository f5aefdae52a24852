"""Whole transactions of a log, grouped into batches by table. Rows stay as they are in the log."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from time import monotonic

from headwater.cdc.ddl import (
    Change,
    DropDatabase,
    Irrelevant,
    NotUnderstood,
    interpret,
)
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.compression import expand
from headwater.cdc.mysql.events import (
    TABLE_NUMBER_BYTES,
    THREAD_SPECIFIC_FLAG,
    Event,
    EventDecoder,
    EventFrames,
    EventType,
    parse_query,
    parse_rotation,
)
from headwater.cdc.mysql.file_positions import FilePosition, LogFiles
from headwater.cdc.mysql.gtid_events import (
    Beginning,
    is_gtid_event,
    parse_gtid_event,
    transaction_length,
)
from headwater.cdc.mysql.log_chunks import LogChunks
from headwater.cdc.mysql.log_files import LogFile
from headwater.cdc.mysql.logged_rows import MySQLRows
from headwater.cdc.mysql.open_transaction import MappedTable, OpenTransaction
from headwater.cdc.mysql.packed_rows import PackedRows
from headwater.cdc.mysql.positions import PositionTracker
from headwater.cdc.mysql.statements import (
    explicit_timestamps,
    is_strict,
    statement_syntax,
    statement_text,
    temporary_changes,
)
from headwater.cdc.mysql.table_map import parse_table_map
from headwater.cdc.source.log_batches import BatchDeadline, BatchLimits, LogBatch, XaEnd
from headwater.cdc.source.positions import READ_AGAIN, Position
from headwater.storage.errors import CorruptData, Unavailable, Unsupported

__all__ = ["MySQLLogReader"]

_T = EventType
_TABLE_MAP, _XID, _QUERY = _T.TABLE_MAP, _T.XID, _T.QUERY
_ROWS = frozenset(
    {
        *(_T.WRITE_ROWS, _T.UPDATE_ROWS, _T.DELETE_ROWS),
        *(_T.WRITE_ROWS_V1, _T.UPDATE_ROWS_V1, _T.DELETE_ROWS_V1),
    }
)
_COMPRESSED = frozenset(
    {
        _T.TRANSACTION_PAYLOAD,
        _T.MARIADB_QUERY_COMPRESSED,
        *(_T.MARIADB_WRITE_ROWS_COMPRESSED, _T.MARIADB_WRITE_ROWS_COMPRESSED_V1),
        *(_T.MARIADB_UPDATE_ROWS_COMPRESSED, _T.MARIADB_UPDATE_ROWS_COMPRESSED_V1),
        *(_T.MARIADB_DELETE_ROWS_COMPRESSED, _T.MARIADB_DELETE_ROWS_COMPRESSED_V1),
    }
)
# Events that say nothing about rows: of files, of replication, and the texts of statements whose
# rows follow or which the statement after them has.
_SILENT = frozenset(
    {
        *(_T.FORMAT_DESCRIPTION, _T.ROTATE, _T.STOP, _T.HEARTBEAT, _T.HEARTBEAT_V2),
        *(_T.PREVIOUS_GTIDS, _T.MARIADB_GTID_LIST, _T.MARIADB_BINLOG_CHECKPOINT),
        *(_T.MARIADB_START_ENCRYPTION, _T.TRANSACTION_CONTEXT, _T.VIEW_CHANGE),
        *(_T.IGNORABLE, _T.ROWS_QUERY, _T.MARIADB_ANNOTATE_ROWS),
        *(_T.INTVAR, _T.RAND, _T.USER_VAR, _T.BEGIN_LOAD_QUERY, _T.APPEND_BLOCK, _T.DELETE_FILE),
    }
)
_XA = re.compile(
    r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.*)", re.IGNORECASE | re.DOTALL
)
_ONE_PHASE = re.compile(r"\s+ONE\s+PHASE\s*$", re.IGNORECASE)
_MAX_KNOWN_MAPS = 4096
_LOST_EVENTS = "the source reports that its log lost events"
_NO_COLUMNS = "the log has rows without any column of theirs (binlog_row_image)"


class _Incidents:
    """Incidents of MariaDB, which have no GTID: each is a part of the transaction after it.

    The server sends those of a file again wherever a reader begins in it. One that was read before
    is told by transactions that are left out between it and the next one.
    """

    def __init__(self) -> None:
        # Where the last one ends, with other events that follow it without transactions.
        self._end: int | None = None
        self._is_in_other_file = False

    def add(self, event: Event) -> None:
        """Take an incident."""
        self._end, self._is_in_other_file = event.end_position, False

    def passed(self, event: Event) -> None:
        """Take another event that is not of a transaction."""
        if event.type is _T.ROTATE:
            self._is_in_other_file = True
        elif self._end == event.end_position - event.size:
            self._end = event.end_position

    def is_before(self, event: Event) -> bool:
        """Whether an incident is a part of the transaction that an event begins."""
        end, self._end = self._end, None
        return end is not None and (
            self._is_in_other_file or end == event.end_position - event.size
        )


class MySQLLogReader:
    """Reads a log, batch by batch.

    Args:
        chunks: The log's events as they come.
        start: The position that they begin after.
        checksums: Whether events that come before the first description of a file have checksums.
        mariadb: Whether the server is MariaDB.
        lower_case_names: Whether the server's names of tables are in lower case.
        is_selected: Whether a table may be followed, now or later.
        bytes_after: How many bytes follow an offset in one of the server's files, the offset as
            events have it; None if not known.
        outlast: Waits until a second, since 1970, is over by the server's clock.
    """

    def __init__(
        self,
        chunks: LogChunks,
        start: Position,
        *,
        is_selected: Callable[[TableName], bool],
        checksums: bool,
        mariadb: bool,
        lower_case_names: bool = False,
        bytes_after: Callable[[str, int], int | None] = lambda file, offset: None,
        outlast: Callable[[int], object] = lambda second: None,
    ) -> None:
        self._chunks = chunks
        self._decoder = EventDecoder(chunks.source, checksums=checksums)
        self._mariadb, self._lower_case_names = mariadb, lower_case_names
        self._tracker = PositionTracker(start)
        # Where the server does not number its transactions.
        self._files: LogFiles | None = None
        if isinstance(start, FilePosition):
            self._files = LogFiles(chunks.source, start)
        self._position = start
        self._events = self._decoder.frame(b"")
        self._open: OpenTransaction | None = None
        self._incidents = _Incidents()
        # Read, but of the next batch.
        self._held: deque[OpenTransaction] = deque()
        self._tables: Collection[TableName] = ()
        self._is_selected = is_selected
        # By the bytes of a TABLE_MAP event.
        self._known_maps: dict[bytes, MappedTable] = {}
        # The tables of the open transaction, by their numbers.
        self._maps: dict[bytes, MappedTable] = {}
        # The table of the last rows event that was merged, and where its rows are gathered.
        self._last_map: MappedTable | None = None
        self._last_rows: PackedRows | None = None
        # The last rows of each table that the batch has.
        self._runs: dict[TableName, MySQLRows] = {}
        # The memory that the last rows are in, and whose rows it has that are not copied yet.
        self._source = memoryview(b"")
        self._in_source: set[PackedRows] = set()
        # Where the last event ends in the server's files, to tell how much is left.
        self._file, self._offset = "", 0
        self._log_file: LogFile | None = None
        self._bytes_after = bytes_after
        # Waits for the end of the second in which a file was made, and the last such second.
        self._outlast, self._outlasted = outlast, 0

    def follow(
        self,
        tables: Mapping[TableName, int | None],
        known: Callable[[TableName], SourceTable | None] = lambda _: None,
    ) -> None:
        """Choose the tables whose rows the next batch has, among those that are selected."""
        del known
        self._tables = frozenset(tables)

    @property
    def position(self) -> Position:
        """The end of the last batch."""
        return self._position

    @property
    def log_file(self) -> str | None:
        """The server's file that is read, which GTIDs do not tell."""
        # Positions in files have what is needed.
        if self._log_file is None or self._files is not None:
            return None
        return str(self._log_file)

    def lag_bytes(self) -> int | None:
        """How many bytes of the log are to be read; None if not known.

        Raises:
            Conflict: The log was reset.
            Unavailable: The connection is lost.
        """
        return self._bytes_after(self._file, self._offset)

    def confirm(self, position: Position) -> None:
        """Nothing: the server keeps its log for a time that is set there."""

    def released(self) -> None:
        """Note that the rows of the batches before are not needed any more."""
        self._chunks.released()

    def close(self) -> None:
        """End the stream."""
        self._chunks.close()

    def read_batch(
        self, limits: BatchLimits, should_end: Callable[[], bool] = lambda: False
    ) -> LogBatch:
        """Read transactions until a limit is reached.

        Args:
            limits: The limits.
            should_end: Whether to end the batch now; asked when nothing comes for a while.

        Returns:
            A batch, perhaps an empty one.

        Raises:
            CorruptData, Unsupported: The log cannot be read.
            NotFound: It was purged.
            Unavailable: The connection is lost.
        """
        batch = self._new_batch()
        deadline = BatchDeadline(limits)
        until = None if limits.end is None else PositionTracker(limits.end)
        later: list[OpenTransaction] = []
        while (batch.size < limits.bytes or not self._tracker.is_start) and not batch.changes:
            if limits.end is not None and self._tracker.reaches(limits.end):
                break
            if self._tracker.is_start:
                transaction = self._next(deadline.seconds, should_end)
            else:
                # Another file follows a transaction that ends beyond what a start can be.
                transaction = self._next(None, lambda: False)
            if transaction is None:
                batch.ended = self._chunks.ended
                break
            if until is not None and until.lacks(transaction.gtid):
                # After a failover the transactions of several domains are in another order.
                later.append(transaction)
                continue
            if transaction.changes and batch.has_content:
                self._held.appendleft(transaction)
                break
            self._merge(batch, transaction)
            if batch.has_content:
                deadline.add_change()
        self._held.extendleft(reversed(later))
        self._end_batch(batch)
        return batch

    def read_until(self, end: Position) -> LogBatch:
        """Read exactly the transactions up to a position, however long that takes.

        Raises:
            Unavailable: The log ended before.
            As `read_batch`.
        """
        batch = self._new_batch()
        wanted = PositionTracker(end)
        later: list[OpenTransaction] = []
        while not self._tracker.reaches(end):
            transaction = self._next(None, lambda: False)
            if transaction is None:
                raise Unavailable(
                    f"{self._chunks.source} has ended at '{self._tracker.position()}', before "
                    f"'{end}'; check that the server runs"
                )
            if wanted.lacks(transaction.gtid):
                # After a failover the transactions of several domains are in another order.
                later.append(transaction)
            else:
                self._merge(batch, transaction)
        self._held.extendleft(reversed(later))
        self._end_batch(batch)
        return batch

    def _end_batch(self, batch: LogBatch) -> None:
        """End a batch, with a position and a file that no log has that is begun later."""
        self._position = batch.end = position = self._tracker.position()
        file = position if isinstance(position, FilePosition) else self._log_file
        if file is not None and file.created != self._outlasted:
            self._outlast(file.created)
            self._outlasted = file.created

    def _new_batch(self) -> LogBatch:
        self._last_map = self._last_rows = None
        self._runs.clear()
        self._in_source.clear()
        return LogBatch(self._position, self._position)

    def read_on(
        self, batch: LogBatch, end: Position, seconds: float
    ) -> frozenset[TableName | None] | None:
        """Read on to exactly a position that the log has, within the batch that was read last.

        Args:
            batch: The batch; it has no statement.
            end: The position.
            seconds: How long to wait for it.

        Returns:
            The tables that the transactions read now have changed, with None for any table; or None
            if the position was not reached, as a statement is before it or it did not come in time.

        Raises:
            As `read_batch`.
        """
        deadline = monotonic() + seconds
        wanted = PositionTracker(end)
        later: list[OpenTransaction] = []
        changed: set[TableName | None] = set()
        while not (is_reached := self._tracker.reaches(end)):
            transaction = self._next(deadline, lambda: False)
            if transaction is None:
                batch.ended = self._chunks.ended
                break
            if transaction.changes:
                self._held.appendleft(transaction)
                break
            if wanted.lacks(transaction.gtid):
                later.append(transaction)
                continue
            changed |= transaction.changed_tables()
            self._merge(batch, transaction)
        self._held.extendleft(reversed(later))
        self._end_batch(batch)
        return frozenset(changed) if is_reached else None

    def _merge(self, batch: LogBatch, transaction: OpenTransaction) -> None:
        self._tracker.add(transaction.gtid)
        batch.transactions += 1
        batch.source_time = transaction.timestamp * 1000
        batch.size += transaction.size
        if transaction.rereads:
            batch.rereads |= transaction.rereads
        if transaction.changes:
            batch.changes, batch.statement = tuple(transaction.changes), transaction.statement
            batch.syntax, batch.strict = transaction.syntax, transaction.strict
            batch.explicit_timestamps = transaction.explicit_timestamps
        xa = transaction.xa
        if xa is not None:
            batch.xa.append(xa)
            if xa.committed is None:
                return
        self._chunks.kept += transaction.size
        last, rows, source, end = self._last_map, self._last_rows, self._source, 0
        starts, ends = transaction.starts, transaction.ends
        for table, type_, data, count in transaction.runs:
            start, end = end, end + count
            if table is not last:
                self._last_map = last = table
                self._last_rows = rows = self._rows_of(batch, table)
            if rows is None:
                continue
            if data is not source:
                self._leave_source()
                self._source = source = data
            self._in_source.add(rows)
            if count == len(starts):
                rows.add_bodies(type_, data, starts, ends)
            else:
                rows.add_bodies(type_, data, starts[start:end], ends[start:end])
            if rows.lacks_columns and table.name is not None:
                batch.rereads[table.name] = _NO_COLUMNS

    def _leave_source(self) -> None:
        """Let no table keep memory of the log for a few rows in it."""
        for rows in self._in_source:
            rows.leave_source()
        self._in_source.clear()

    def _rows_of(self, batch: LogBatch, table: MappedTable) -> PackedRows | None:
        """Where a batch gathers rows of a table; None where it does not."""
        name = table.name
        if name is None or name not in self._tables or name in batch.faults:
            return None
        try:
            shape = parse_table_map(table.event).shape
        except (CorruptData, Unsupported) as error:
            batch.faults[name] = error.message
            return None
        last = self._runs.get(name)
        if last is None or last.shape is not shape:
            last = self._runs[name] = MySQLRows(shape, PackedRows(store=self._chunks.store))
            batch.rows.setdefault(name, []).append(last)
        return last.rows

    # Events -----------------------------------------------------------------------------------

    def _next(
        self, deadline: float | None, should_end: Callable[[], bool]
    ) -> OpenTransaction | None:
        """The next whole transaction; None if none came in time, or the log ended."""
        if self._held:
            return self._held.popleft()
        while True:
            for event in self._events:
                done = self._read(event, self._events)
                if done is not None:
                    done.timestamp = done.timestamp or event.timestamp
                    return done
            if deadline is not None and monotonic() >= deadline:
                return None
            chunk = self._chunks.next(deadline, should_end)
            if chunk is None:
                return None
            self._events = self._decoder.frame(chunk.data, chunk.start, chunk.end, gap=chunk.gap)

    def _read(self, event: Event, events: EventFrames | None) -> OpenTransaction | None:
        """Take one event; the transaction if it ends with it.

        Args:
            event: The event.
            events: What it is the last one of; None if it was expanded.
        """
        kind = event.type
        transaction = self._open
        if transaction is not None:
            # Nearly all events are these.
            if kind in _ROWS:
                self._read_rows(transaction, event, events)
                return None
            if kind is _TABLE_MAP:
                self._read_table_map(event)
                return None
            if kind is _XID:
                self._offset = event.end_position or self._offset
                return self._end(transaction)
        self._offset = event.end_position or self._offset
        if kind in _COMPRESSED:
            done = None
            for inner in expand(event, self._chunks.store_events):
                ended = self._read(inner, events if inner is event else None)
                if ended is not None:
                    ended.timestamp, done = inner.timestamp, ended
            return done
        if kind in _SILENT or not isinstance(kind, EventType):
            self._incidents.passed(event)
            if kind is _T.ROTATE:
                self._file, self._offset = parse_rotation(event)
            elif kind is _T.FORMAT_DESCRIPTION:
                self._begin_file(event)
            return None if self._files is None else self._read_between(event, self._files)
        if is_gtid_event(event):
            if transaction is not None:
                raise CorruptData(
                    f"{self._chunks.source}: transaction {transaction.gtid} has no end; read the "
                    "log again"
                )
            self._open = self._begun(event)
            self._chunks.held = 0
            if self._incidents.is_before(event):
                self._open.rereads[None] = _LOST_EVENTS
            return None
        if transaction is None and kind is _T.INCIDENT:
            self._incidents.add(event)
            return None
        if transaction is None:
            raise CorruptData(
                f"{self._chunks.source} has an event {kind.name} outside of a transaction; read "
                "the log again"
            )
        if kind is _QUERY:
            return self._read_query(transaction, event)
        return self._read_other(transaction, event, kind)

    def _begin_file(self, event: Event) -> None:
        """Note which of the server's files is read.

        Raises:
            Unavailable: It does not follow the one before: the log may have been reset.
        """
        if not self._file:
            # A server names it before.
            return
        file = LogFile(event.server_id, event.timestamp, self._file)
        last, self._log_file = self._log_file, file
        if last is not None and last != file and not last.is_followed_by(file):
            raise Unavailable(
                f"{self._chunks.source} goes on in file {file.name} after {last.name}, as one that "
                "is reset does; the source is asked again"
            )

    def _begun(self, event: Event) -> OpenTransaction:
        if self._files is not None:
            end = self._files.end_of(event, transaction_length(event))
            return OpenTransaction(Beginning(end))
        if event.type is _T.ANONYMOUS_GTID:
            raise Unsupported(
                f"{self._chunks.source} has a transaction without a GTID; set gtid_mode=ON at the "
                f"source, and {READ_AGAIN}"
            )
        return OpenTransaction(parse_gtid_event(event))

    @staticmethod
    def _read_between(event: Event, files: LogFiles) -> OpenTransaction | None:
        """An empty transaction where a file begins: the position moves on to it."""
        place = files.between(event)
        if place is None:
            return None
        transaction = OpenTransaction(Beginning(place))
        transaction.timestamp = event.timestamp
        return transaction

    def _end(self, transaction: OpenTransaction) -> OpenTransaction:
        if self._files is not None and isinstance(transaction.gtid, FilePosition):
            self._files.ended(transaction.gtid, self._offset)
        self._open = None
        self._maps.clear()
        return transaction

    def _read_table_map(self, event: Event) -> None:
        body = event.body.tobytes()
        table = self._known_maps.get(body)
        if table is None:
            if len(self._known_maps) >= _MAX_KNOWN_MAPS:
                self._known_maps.clear()
            # Each name has its length before it and a NUL after it.
            database_end = 9 + body[8]
            table_at = database_end + 2
            table_end = table_at + body[table_at - 1]
            name = TableName(body[9:database_end].decode(), body[table_at:table_end].decode())
            # Without what the event is a part of.
            own = event._replace(body=memoryview(body))
            table = MappedTable(body[:6], name if self._is_selected(name) else None, own)
            self._known_maps[body] = table
        self._maps[table.number] = table

    def _read_rows(
        self, transaction: OpenTransaction, event: Event, events: EventFrames | None
    ) -> None:
        """Take a rows event, and those of its table that follow it."""
        number = event.body[:TABLE_NUMBER_BYTES].tobytes()
        table = self._maps.get(number)
        if table is None:
            raise CorruptData(
                f"{self._chunks.source}: rows of table number {int.from_bytes(number, 'little')} "
                f"in {transaction.gtid} have no TABLE_MAP before them; read the log again"
            )
        if table.name is None:
            if events is not None:
                events.take_rows(event, [], [])
            return
        starts, ends = transaction.starts, transaction.ends
        before = len(starts)
        if events is not None:
            data, size = events.data, events.take_rows(event, starts, ends)
        else:
            data, size = event.body, event.size
            starts.append(0)
            ends.append(len(data))
        runs = transaction.runs
        if not runs or runs[-1][2] is not data:
            self._chunks.held += len(data)
        runs.append((table, event.type, data, len(starts) - before))
        transaction.size += size

    def _read_other(
        self, transaction: OpenTransaction, event: Event, kind: EventType
    ) -> OpenTransaction | None:
        if kind is _T.PARTIAL_UPDATE_ROWS:
            table = self._maps.get(event.body[:6].tobytes())
            if table is not None and table.name is not None:
                transaction.rereads[table.name] = "a session wrote partial updates of JSON"
            return None
        if kind is _T.XA_PREPARE:
            # MySQL writes it for a commit of one phase, too, which its first byte says.
            if not event.body[0]:
                self._prepare(transaction)
            return self._end(transaction)
        if kind is _T.EXECUTE_LOAD_QUERY:
            transaction.rereads[None] = "a session with binlog_format=STATEMENT loaded a file"
            return None
        if kind is _T.INCIDENT:
            transaction.rereads[None] = _LOST_EVENTS
            return self._end(transaction)
        raise Unsupported(
            f"{self._chunks.source}: events {kind.name} are not read; update Headwater, or "
            f"{READ_AGAIN}"
        )

    # Statements -------------------------------------------------------------------------------

    def _read_query(self, transaction: OpenTransaction, event: Event) -> OpenTransaction | None:
        query = parse_query(event)
        text = statement_text(query).strip()
        word = text[:9].upper()
        if word == "BEGIN":
            transaction.has_end = True
            return None
        if word in ("COMMIT", "ROLLBACK"):
            if word == "ROLLBACK":
                self._unclear(transaction, "a transaction that was rolled back is in the log")
            return self._end(transaction)
        if word.startswith("SAVEPOINT"):
            return None
        if text[:11].upper() == "ROLLBACK TO":
            self._unclear(transaction, "a part of a transaction was rolled back")
            return None
        if word.startswith("XA "):
            return self._read_xa(transaction, text)
        syntax = statement_syntax(
            query, mariadb=self._mariadb, lower_case_names=self._lower_case_names
        )
        changes = interpret(text, query.database or None, syntax=syntax, phase=transaction.phase)
        if event.flags & THREAD_SPECIFIC_FLAG:
            changes = temporary_changes(changes)
        relevant = [change for change in changes if self._concerns(change)]
        if relevant:
            transaction.changes = [*transaction.changes, *relevant]
            transaction.statement = text
            transaction.syntax, transaction.strict = syntax, is_strict(query)
            explicit = explicit_timestamps(query, mariadb=self._mariadb)
            transaction.explicit_timestamps = explicit
        if text.upper().endswith("START TRANSACTION"):
            transaction.has_end = True
        return None if transaction.has_end else self._end(transaction)

    def _unclear(self, transaction: OpenTransaction, reason: str) -> None:
        """Read the tables of a transaction again, as it may not have been carried out."""
        transaction.rereads |= dict.fromkeys(transaction.row_tables(), reason)
        transaction.drop_rows()

    def _concerns(self, change: Change) -> bool:
        if isinstance(change, Irrelevant):
            return False
        if isinstance(change, DropDatabase):
            return True
        if isinstance(change, NotUnderstood) and change.any_table:
            return True
        return any(self._is_selected(name) for name in change.tables)

    def _read_xa(self, transaction: OpenTransaction, text: str) -> OpenTransaction | None:
        match = _XA.fullmatch(text)
        if match is None:
            raise Unsupported(
                f"{self._chunks.source}: statement '{text[:80]}' is not understood; {READ_AGAIN}"
            )
        verb, xid = match[1].upper(), _ONE_PHASE.sub("", match[2]).strip()
        if verb in ("START", "BEGIN"):
            transaction.has_end = True
            transaction.xa = XaEnd(xid, committed=True)
            return None
        if verb == "END":
            transaction.xa = XaEnd(xid, committed=True)
            return None
        if verb == "PREPARE":
            self._prepare(transaction)
            return self._end(transaction)
        transaction.xa = XaEnd(xid, committed=verb == "COMMIT")
        return self._end(transaction)

    def _prepare(self, transaction: OpenTransaction) -> None:
        """Note which tables a prepared transaction changed; its rows do not count yet."""
        xid = transaction.xa.xid if transaction.xa is not None else str(transaction.gtid)
        transaction.xa = XaEnd(xid, frozenset(transaction.changed_tables()))
        transaction.drop_rows()
