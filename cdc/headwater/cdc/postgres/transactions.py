"""Whole transactions of a log, grouped into batches by table. Rows stay as they are in the log.

What happens to a table besides its rows comes before the transaction that it is part of: in a batch
of its own, which ends where the batch before it has ended. A pipeline that reads a planned batch
again gets no changes, as it has applied those in it before it planned the batch; and one that has
not planned the transaction yet gets them again. So they may be applied twice: to truncate a table
twice, or to compare it twice with what the log describes, makes no difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

from psycopg import Connection

from headwater.cdc.ddl import Change, CreateTable, RenameTables, Truncate
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.postgres.log_chunks import LogChunks
from headwater.cdc.postgres.log_stream import LogStream
from headwater.cdc.postgres.messages import (
    Begin,
    Kind,
    Message,
    RowRun,
    frame,
    parse_begin,
    parse_commit,
    parse_keepalive,
    parse_truncate,
)
from headwater.cdc.postgres.packed_rows import PackedRows
from headwater.cdc.postgres.positions import LogPosition, lsn_text
from headwater.cdc.postgres.relations import (
    Misidentified,
    PartitionSeen,
    Redefined,
    Relation,
    ReplicaIdentity,
    parse_relation,
)
from headwater.cdc.postgres.rows import Convert, LogTableRows
from headwater.cdc.postgres.slots import LogSource, check_slot
from headwater.cdc.postgres.table_storage import TableStorage
from headwater.cdc.source.log_batches import BatchDeadline, BatchLimits, LogBatch
from headwater.cdc.source.positions import READ_AGAIN, Position
from headwater.storage.errors import Conflict, CorruptData, HeadwaterError, Invalid, Unavailable

__all__ = ["LogObserver", "PostgresLogReader", "open_log"]

_READ_LOG_AGAIN = "read the log again"


class LogObserver(Protocol):
    """Is told what was read of a log."""

    def received(self, numbers: Collection[int]) -> None:
        """Note the numbers of transactions that batches have."""

    def described(self, relation: Relation) -> Sequence[tuple[str, str]]:
        """The names and types of a table's columns, as the log describes them."""

    def bytes_after(self, lsn: int) -> int:
        """How many bytes of the log follow a place in it."""


class _Transaction:
    """A transaction that is being read.

    Attributes:
        begin: Where its commit record begins, and when it was committed.
        end: Where that ends; 0 until it was read.
        rows: Rows of selected tables by the tables' OIDs, each with its description.
        redefined: Tables that it describes otherwise than before, by their OIDs.
        partitions: Partitions that it is the first to have rows of.
        misidentified: Tables whose rows may lack their keys, by the description before them.
        truncated: The OIDs of tables that it empties.
        rereads: Tables whose rows it describes in two ways.
        is_announced: Whether its changes were in a batch.
    """

    __slots__ = (
        *("begin", "end", "is_announced", "misidentified", "partitions", "redefined", "rereads"),
        *("rows", "truncated"),
    )

    def __init__(self, begin: Begin) -> None:
        self.begin, self.end = begin, 0
        self.rows: dict[int, tuple[Relation, PackedRows]] = {}
        self.redefined: dict[int, Redefined] = {}
        self.partitions: list[PartitionSeen] = []
        self.misidentified: set[TableName] = set()
        self.truncated: dict[int, None] = {}
        self.rereads: dict[TableName | None, str] = {}
        self.is_announced = False

    def changed_tables(self) -> set[TableName | None]:
        """The tables whose rows it changes, or may change."""
        return {relation.name for relation, _ in self.rows.values()} | self.rereads.keys()

    def leave_out(self, names: Collection[TableName]) -> bool:
        """Leave the rows of tables out; whether there were any."""
        left = [oid for oid, (relation, _) in self.rows.items() if relation.name in names]
        for oid in left:
            del self.rows[oid]
        return bool(left)

    @property
    def size(self) -> int:
        """The bytes of its rows."""
        return sum(rows.size for _, rows in self.rows.values())


class PostgresLogReader:
    """Reads a log, batch by batch.

    Args:
        chunks: The log's messages as they come.
        start: The position that they begin after.
        is_selected: Whether a table may be followed, now or later.
        convert: Makes values of the lake from the log's text.
        known: Tables as they were described before; a description that differs is a change, and so
            is each first one of another table.
        observer: Is told what was read, and asked what descriptions mean.
    """

    def __init__(
        self,
        chunks: LogChunks,
        start: LogPosition,
        *,
        is_selected: Callable[[TableName], bool],
        convert: Convert,
        known: Iterable[Relation] = (),
        observer: LogObserver | None = None,
    ) -> None:
        self._observer, self._numbers = observer, list[int]()
        self._chunks, self._convert = chunks, convert
        self._is_selected = is_selected
        self._position = start
        # Until where all transactions are in batches.
        self._lsn = start.lsn
        self._messages: Iterator[Message | RowRun] = iter(())
        self._open: _Transaction | None = None
        # Read, but of the next batch.
        self._held: deque[_Transaction] = deque()
        self._tables: Collection[TableName] = ()
        self._followed: Mapping[int, TableName] = {}
        self._known: Callable[[TableName], SourceTable | None] = lambda _: None
        # As this stream describes them, with the identity of their rows; None is a table that is
        # not selected.
        self._relations: dict[int, Relation | None] = {}
        # The last description of each selected table, by OID and by name.
        self._known_oids: dict[int, Relation] = {}
        self._known_names: dict[TableName, Relation] = {}
        for relation in known:
            self._remember(relation)
        # Tables described since the last rows. Before rows of a partition, the whole table is
        # described, and then the partition.
        self._described: list[Relation] = []
        # By the OIDs of whole tables: their partitions, as this stream describes them.
        self._partitions: dict[int, dict[int, Relation]] = {}

    def follow(
        self,
        tables: Mapping[TableName, int | None],
        known: Callable[[TableName], SourceTable | None] = lambda _: None,
    ) -> None:
        """Choose the tables whose rows the next batch has, among those that are selected.

        Args:
            tables: The tables with their OIDs, as far as these are known.
            known: Tables as they are known. A first description that agrees is not a change.
        """
        self._tables, self._known = frozenset(tables), known
        self._followed = {oid: name for name, oid in tables.items() if oid is not None}

    @property
    def position(self) -> LogPosition:
        """The end of the last batch."""
        return self._position

    def known(self, table: TableName) -> Relation | None:
        """The table as the log describes it; None if it did not yet."""
        return self._known_names.get(table)

    def confirm(self, position: Position) -> None:
        """Let the server forget its log until a position: nothing before it will be read again.

        Raises:
            Invalid: It was not read until there.
        """
        if not isinstance(position, LogPosition) or not self._position.contains(position):
            raise Invalid(
                f"cannot confirm position '{position}' to {self._chunks.source}: its log was read "
                f"until '{self._position}'; confirm what is committed"
            )
        self._chunks.confirm(position.lsn)

    def released(self) -> None:
        """Note that the rows of the batches before are not needed any more."""
        held = [*self._held, self._open] if self._open is not None else self._held
        self._chunks.released(sum(transaction.size for transaction in held))

    @property
    def log_file(self) -> str | None:
        """None: positions have the system and its timeline."""
        return None

    def lag_bytes(self) -> int | None:
        """How many bytes of the log are to be read; None if not known.

        Raises:
            Unavailable: The connection is lost.
        """
        return None if self._observer is None else self._observer.bytes_after(self._lsn)

    def close(self) -> None:
        """End the stream."""
        self._chunks.close()

    # Batches ----------------------------------------------------------------------------------

    def read_batch(
        self, limits: BatchLimits, should_end: Callable[[], bool] = lambda: False
    ) -> LogBatch:
        """Read transactions until a limit is reached.

        Args:
            limits: The limits.
            should_end: Whether to end the batch now; asked when nothing comes for a while.

        Returns:
            A batch, perhaps an empty one. Its end is beyond its last transaction where the server
            has nothing else until there.

        Raises:
            CorruptData, Unsupported: The log cannot be read.
            NotFound: It was removed.
            Unavailable: The connection is lost.
        """
        batch = self._new_batch()
        deadline = BatchDeadline(limits)
        while batch.size < limits.bytes:
            transaction = self._next(deadline.seconds, should_end)
            if transaction is None:
                batch.ended = self._chunks.ended
                break
            if not transaction.is_announced:
                changes = self._changes(transaction)
                if changes:
                    self._held.appendleft(transaction)
                    if not batch.has_content:
                        batch.changes, transaction.is_announced = changes, True
                    break
            self._merge(batch, transaction)
            if batch.has_content:
                deadline.add_change()
        return self._ended(batch, self._position.at(self._lsn))

    def read_until(self, end: Position) -> LogBatch:
        """Read exactly the transactions up to a position, however long that takes.

        The batch has no changes: those in it were applied before it was planned.

        Raises:
            Conflict: The log has no such position, so that it is another one.
            Unavailable: The log ended before.
            As `read_batch`.
        """
        assert isinstance(end, LogPosition)
        batch = self._new_batch()
        while self._lsn < end.lsn:
            transaction = self._next(None, lambda: False, until=end.lsn)
            if transaction is None:
                if self._chunks.ended:
                    raise Unavailable(
                        f"{self._chunks.source} has ended its log at {lsn_text(self._lsn)}, before "
                        f"'{end}'; check that the server runs"
                    )
                break
            if transaction.begin.lsn >= end.lsn:
                self._held.appendleft(transaction)
                break
            if transaction.end > end.lsn:
                raise Conflict(
                    f"{self._chunks.source} has the commit of a transaction from "
                    f"{lsn_text(transaction.begin.lsn)} to {lsn_text(transaction.end)}, and "
                    f"position '{end}', where a batch ended, is within it: its log is another one, "
                    f"as it was restored; {READ_AGAIN}"
                )
            self._merge(batch, transaction)
        return self._ended(batch, end)

    def read_on(
        self, batch: LogBatch, end: Position, seconds: float
    ) -> frozenset[TableName | None] | None:
        """Read on to exactly a position that the log has, within the batch that was read last.

        Args:
            batch: The batch; it has no changes.
            end: The position.
            seconds: How long to wait for it.

        Returns:
            The tables that the transactions read now have changed; or None if the position was not
            reached, as a change of a table is before it or it did not come in time.

        Raises:
            As `read_batch`.
        """
        assert isinstance(end, LogPosition)
        deadline = monotonic() + seconds
        changed: set[TableName | None] = set()
        is_reached = self._lsn >= end.lsn
        while not is_reached:
            transaction = self._next(deadline, lambda: False, until=end.lsn)
            if transaction is None:
                is_reached = self._lsn >= end.lsn
                batch.ended = self._chunks.ended
                break
            is_reached = transaction.begin.lsn >= end.lsn
            if is_reached or (not transaction.is_announced and self._changes(transaction)):
                self._held.appendleft(transaction)
                break
            changed |= transaction.changed_tables()
            self._merge(batch, transaction)
            is_reached = self._lsn >= end.lsn
        reached = max(end.lsn, self._position.lsn) if is_reached else self._lsn
        self._ended(batch, self._position.at(reached))
        return frozenset(changed) if is_reached else None

    def _new_batch(self) -> LogBatch:
        return LogBatch(self._position, self._position)

    def _ended(self, batch: LogBatch, end: LogPosition) -> LogBatch:
        # Nothing else is before it, also where the log was read to the place of a keepalive.
        self._lsn = max(self._lsn, end.lsn)
        if self._observer is not None:
            self._observer.received(self._numbers)
        self._numbers.clear()
        self._position = batch.end = end
        self._chunks.received(self._lsn)
        return batch

    def _merge(self, batch: LogBatch, transaction: _Transaction) -> None:
        self._lsn = transaction.end
        self._numbers.append(transaction.begin.number)
        batch.transactions += 1
        batch.source_time = transaction.begin.time
        if transaction.rereads:
            batch.rereads |= transaction.rereads
        for relation, rows in transaction.rows.values():
            if relation.name in self._tables:
                batch.size += rows.size
                self._add_rows(batch, relation, rows)
            else:
                self._chunks.kept -= rows.size

    def _add_rows(self, batch: LogBatch, relation: Relation, rows: PackedRows) -> None:
        runs = batch.rows.setdefault(relation.name, [])
        last = runs[-1] if runs else None
        if isinstance(last, LogTableRows) and (
            last.relation is relation or last.relation == relation
        ):
            last.rows.extend(rows)
            return
        runs.append(LogTableRows(relation, rows, self._convert))

    def _changes(self, transaction: _Transaction) -> list[Change]:
        """What a transaction does to tables besides their rows."""
        if not (transaction.redefined or transaction.truncated or transaction.misidentified):
            return []
        truncated = [self._relations[oid] for oid in transaction.truncated]
        return [
            *(change for each in transaction.redefined.values() for change in self._told(each)),
            *(seen for seen in transaction.partitions if self._is_first(seen)),
            *map(Misidentified, transaction.misidentified),
            *(Truncate(relation.name) for relation in truncated if relation is not None),
        ]

    def _told(self, redefined: Redefined) -> Iterator[Change]:
        """What a table's description says of it, besides its columns."""
        before = redefined.before
        # The stream may begin behind a rename, which no description of before tells then.
        followed = self._followed.get(redefined.relation.oid, redefined.table)
        is_followed = self._followed.get(redefined.relation.oid) == redefined.table
        if before is None and followed != redefined.table:
            yield RenameTables(((followed, redefined.table),))
            yield redefined
        elif before is not None and is_followed:
            # A look at the catalogs may have found its name before it had rows in the log.
            yield redefined
        elif before is None and not self._is_selected(redefined.table):
            return
        elif before is None and redefined.table not in self._tables:
            yield CreateTable(redefined.table)
        elif before is None and self._is_known(redefined.relation):
            return
        elif redefined.is_other_table:
            yield CreateTable(redefined.table, or_replace=True)
        elif before is not None and before.name != redefined.table:
            yield RenameTables(((before.name, redefined.table),))
            yield redefined
        else:
            yield redefined

    def _is_first(self, seen: PartitionSeen) -> bool:
        """Whether it is not known yet that a followed table has a partition."""
        table = self._known(seen.table)
        if table is None or table.storage is None:
            return seen.table in self._tables
        return seen.partition not in TableStorage.from_json(table.storage).parts

    def _is_known(self, relation: Relation) -> bool:
        """Whether a table is known as it is described."""
        table = self._known(relation.name)
        if table is None or self._observer is None or table.id != relation.oid:
            return False
        identity = {column.name for column in relation.columns if column.is_key}
        if relation.identity is not ReplicaIdentity.FULL and identity != set(table.primary_key):
            return False
        columns = [(column.name, column.source_type) for column in table.columns]
        return self._observer.described(relation) == columns

    # Messages ---------------------------------------------------------------------------------

    def _next(
        self, deadline: float | None, should_end: Callable[[], bool], until: int | None = None
    ) -> _Transaction | None:
        """The next whole transaction.

        None if none came in time, the log ended, or there is none before a position in it.
        """
        if self._held:
            return self._held.popleft()
        while True:
            for message in self._messages:
                if type(message) is RowRun:
                    self._read_run(message)
                    continue
                assert isinstance(message, Message)
                done = self._read(message)
                if done is not None:
                    return done
                if until is not None and self._lsn >= until and self._open is None:
                    return None
            if deadline is not None and monotonic() >= deadline:
                return None
            chunk = self._chunks.next(deadline, should_end)
            if chunk is None:
                return None
            self._messages = frame(chunk, self._chunks.source)

    def _read_run(self, run: RowRun) -> None:
        """Take rows of one table."""
        transaction = self._transaction("rows")
        if self._described:
            self._note_partitions(transaction, run.oid)
        entry = transaction.rows.get(run.oid)
        if entry is None:
            relation = self._relation(run.oid)
            if relation is None:
                return
            entry = transaction.rows[run.oid] = relation, PackedRows(store=self._chunks.store)
        entry[1].add(run)
        self._chunks.kept += run.size

    def _note_partitions(self, transaction: _Transaction, oid: int) -> None:
        """Note a partition that was described after the table whose rows come now."""
        described, self._described = self._described, []
        relation = self._relation(oid)
        if relation is None or described[0].oid != oid:
            return
        table = self._known(relation.name)
        has_key = table is None or described[-1].identifies(table.primary_key)
        if not has_key:
            # A row whose key has changed still has the old one in the lake.
            transaction.misidentified.add(relation.name)
        if len(described) == 1:
            return
        partition, partitions = described[1], self._partitions.setdefault(oid, {})
        if partition.oid not in partitions:
            transaction.partitions.append(PartitionSeen(relation.name, partition.oid))
        partitions[partition.oid] = partition
        if not has_key:
            # What it lacks is not lacking in others, and it may not be described again.
            del partitions[partition.oid]
        logged = self._relations[oid] = self._as_logged(relation)
        if oid in transaction.rows:
            # They are kept together with those before, of another partition or identity.
            earlier, rows = transaction.rows[oid]
            transaction.rows[oid] = logged.as_logged((logged, earlier)), rows

    def _as_logged(self, relation: Relation) -> Relation:
        """A table with the replica identity that its rows have, see `Relation.as_logged`."""
        return relation.as_logged(self._partitions.get(relation.oid, {}).values())

    def _read(self, message: Message) -> _Transaction | None:
        """Take a message without rows; the transaction if it ends with it."""
        kind, body = message
        if kind == Kind.KEEPALIVE:
            if self._open is None:
                # All that was committed until there has been sent.
                self._lsn = max(self._lsn, parse_keepalive(body))
        elif kind == Kind.BEGIN:
            self._open = self._begun(parse_begin(body))
        elif kind == Kind.COMMIT:
            return self._committed(body)
        elif kind == Kind.RELATION:
            relation = parse_relation(body)
            self._described = [*self._described[-1:], relation]
            self._read_relation(self._transaction("a table"), relation)
        elif kind == Kind.TRUNCATE:
            self._read_truncate(self._transaction("a truncation"), parse_truncate(body))
        elif kind == Kind.STREAM_ABORT and self._open is not None:
            raise CorruptData(
                f"{self._chunks.source} ends a transaction within another one; {_READ_LOG_AGAIN}"
            )
        # PostgreSQL 18 also tells of large transactions that were rolled back: nothing was sent.
        # The others tell where a transaction came from, name types, or are messages of programs.
        return None

    def _transaction(self, what: str) -> _Transaction:
        if self._open is None:
            raise CorruptData(
                f"{self._chunks.source} has {what} outside of a transaction; {_READ_LOG_AGAIN}"
            )
        return self._open

    def _begun(self, begin: Begin) -> _Transaction:
        if self._open is not None or begin.lsn < self._lsn:
            what = "within" if self._open is not None else "before"
            raise CorruptData(
                f"{self._chunks.source} has a transaction that ends at {lsn_text(begin.lsn)} "
                f"{what} what was read until {lsn_text(self._lsn)}; {_READ_LOG_AGAIN}"
            )
        return _Transaction(begin)

    def _committed(self, body: memoryview) -> _Transaction:
        transaction, commit = self._transaction("a commit"), parse_commit(body)
        if commit.lsn != transaction.begin.lsn or commit.end <= commit.lsn:
            raise CorruptData(
                f"{self._chunks.source}: a transaction is to end at "
                f"{lsn_text(transaction.begin.lsn)}, and ends at {lsn_text(commit.lsn)}; "
                f"{_READ_LOG_AGAIN}"
            )
        transaction.end = commit.end
        self._open = None
        return transaction

    def _relation(self, oid: int) -> Relation | None:
        try:
            return self._relations[oid]
        except KeyError:
            raise CorruptData(
                f"{self._chunks.source} has rows of table {oid} that it did not describe; "
                f"{_READ_LOG_AGAIN}"
            ) from None

    def _read_relation(self, transaction: _Transaction, relation: Relation) -> None:
        """Take the description of a table, which precedes its rows whenever it may have changed."""
        is_selected = self._is_selected(relation.name)
        self._relations[relation.oid] = self._as_logged(relation) if is_selected else None
        before = self._known_oids.get(relation.oid) or self._known_names.get(relation.name)
        if before == relation:
            if self._followed.get(relation.oid, relation.name) == relation.name:
                return
            # A look has found another name since, which it does not have any more.
            before = None
        names = {relation.name}
        if before is not None:
            self._forget(before)
            names.add(before.name)
        if is_selected:
            self._remember(relation)
        earlier = transaction.redefined.get(relation.oid)
        if earlier is not None:
            before = earlier.before
        transaction.redefined[relation.oid] = Redefined(relation.name, relation, before)
        if transaction.leave_out(names):
            transaction.rereads[relation.name] = (
                "a transaction changed rows of the table and altered it after that"
            )

    def _remember(self, relation: Relation) -> None:
        self._known_oids[relation.oid] = self._known_names[relation.name] = relation

    def _forget(self, relation: Relation) -> None:
        # Another table may have its name by now.
        if self._known_oids.get(relation.oid) is relation:
            del self._known_oids[relation.oid]
        if self._known_names.get(relation.name) is relation:
            del self._known_names[relation.name]

    def _read_truncate(self, transaction: _Transaction, oids: tuple[int, ...]) -> None:
        self._described.clear()
        for oid in oids:
            relation = self._relation(oid)
            if relation is not None:
                transaction.truncated[oid] = None
                # Its rows until then are gone.
                transaction.leave_out((relation.name,))


def open_log(
    source: LogSource,
    connection: Connection[Any],
    start: LogPosition,
    *,
    is_selected: Callable[[TableName], bool],
    convert: Convert,
    known: Iterable[Relation] = (),
    memory_bytes: int = 256 << 20,
    observer: LogObserver | None = None,
) -> PostgresLogReader:
    """Read a log from a position on.

    Args:
        source: The server, slot and publication.
        connection: A connection to the same database, for questions.
        start: The position.
        is_selected, convert, known, observer: As for `PostgresLogReader`.
        memory_bytes: How many bytes of rows of a batch are kept in memory.

    Raises:
        Conflict: The slot lacks changes after the position, or cannot be used.
        Forbidden: The user may not read the log.
        NotFound: The slot does not exist, or its log was removed.
        Unavailable: The server cannot be reached.
    """
    check_slot(connection, source, start)
    stream = LogStream(source, start)
    try:
        # The server passes over what the slot is past. Since it is in use, it stays where it is.
        check_slot(connection, source, start, process=stream.server_process)
    except HeadwaterError:
        stream.close()
        raise
    chunks = LogChunks(stream, f"the source at {source.address}", memory_bytes)
    return PostgresLogReader(
        chunks,
        start,
        is_selected=is_selected,
        convert=convert,
        known=known,
        observer=observer,
    )
