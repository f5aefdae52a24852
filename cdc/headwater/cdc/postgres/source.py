"""A PostgreSQL database as the source of a pipeline: its position, log, and rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep

from headwater.cdc.ddl import Change
from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.postgres.catalog import (
    dropped_columns,
    filled_columns,
    partly_logged,
    quoted_table,
    read_tables,
)
from headwater.cdc.postgres.column_types import read_types
from headwater.cdc.postgres.consistent_reads import (
    LoggedTransactions,
    PostgresRead,
    PostgresRemoteReads,
    PostgresRowReader,
)
from headwater.cdc.postgres.exact_reads import exact_read
from headwater.cdc.postgres.known_tables import KnownTables
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.publications import (
    EarlierWriters,
    create_publication,
    has_all_tables,
    has_publication,
    publication_findings,
    publish_tables,
)
from headwater.cdc.postgres.relations import Misidentified, PartitionSeen, Redefined, Relation
from headwater.cdc.postgres.server import Address, PostgresServer, explained
from headwater.cdc.postgres.slots import (
    LogSource,
    await_slot,
    check_slot,
    create_slot,
    default_name,
    drop_slot,
    find_slot,
    log_position,
    slot_findings,
)
from headwater.cdc.postgres.table_changes import changed_table, may_have_had_others
from headwater.cdc.postgres.table_storage import TableStorage, read_storage
from headwater.cdc.postgres.transactions import PostgresLogReader, open_log
from headwater.cdc.postgres.types import TypeMapping
from headwater.cdc.postgres.values import lake_values
from headwater.cdc.source.foreign_keys import ForeignKeyAction
from headwater.cdc.source.log_batches import LogBatch, LogReader, XaEnd
from headwater.cdc.source.positions import READ_AGAIN, Position
from headwater.cdc.source.reads import Tables
from headwater.cdc.source.redefinitions import Redefinition, Unlogged
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.errors import Conflict, Invalid

__all__ = ["PostgresSource"]

_RETRY_SECONDS = 0.1
_CHANGED_AGAIN = "its definition changed again meanwhile"
_PUBLISHED_OTHERWISE = "its publication was changed, and may have left out changes"
_OTHER_IDENTITY = "its replica identity was another one than its primary key for a while"
_READ_ONE_AGAIN = "read the table again: headwater cdc resnapshot"
# For a reader whose connection was lost without the server's knowledge.
_OTHER_READER_SECONDS = 10.0
_LOCK_PREFIX = "headwater_cdc_"
_NOT_OWNED = """
SELECT n.nspname::text, c.relname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::name[], %s::name[]))
  AND NOT pg_has_role(c.relowner, 'USAGE')
"""
_LOCK_HOLDER = """
SELECT count(*) FROM pg_locks, (SELECT hashtextextended(%s, 0) AS key) AS name
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND classid::bigint = (key >> 32) & 4294967295 AND objid::bigint = key & 4294967295
"""


class PostgresSource:
    """A database that a pipeline follows.

    Args:
        address: The database.
        pipeline: The pipeline's name, by which its slot and publication are named.
        slot: A replication slot to use; None lets the pipeline create its own.
        publication: A publication to use; None lets the pipeline create its own.

    Attributes:
        has_rows: That rows can be read besides the log.
        logs_cascades: That the log has the rows that foreign keys change.
        keeps_log: That the log is let go of when it is confirmed.
        logs_statements: That the log has no statements that change tables.
    """

    has_rows = True
    logs_cascades = True
    keeps_log = False
    logs_statements = False

    def __init__(
        self,
        address: Address,
        pipeline: str,
        slot: str | None = None,
        publication: str | None = None,
    ) -> None:
        self.address = address
        self._server = PostgresServer(address)
        self._connection = self._server.connection
        self._has_own_slot, self._has_own_publication = slot is None, publication is None
        own_name = default_name(pipeline)
        self._log = LogSource(
            address.conninfo(), str(address), slot or own_name, publication or own_name
        )
        self._transactions: LoggedTransactions | None = None
        self._writers = EarlierWriters(self._connection)
        self._awaited_workers: set[tuple[TableName, int]] = set()
        # Tables that were awaited when they were asked to be published last.
        self._awaited: frozenset[TableName] = frozenset()
        # By the choices of types, and whether tables without a key count.
        self._known: dict[tuple[frozenset[TypeMapping], bool], KnownTables] = {}

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    # What does not work -----------------------------------------------------------------------

    def findings(self, databases: Collection[str]) -> Sequence[Finding]:
        """What keeps changes from being read: settings, privileges, the slot, the publication."""
        del databases
        name = self._log.publication
        with explained(self.address):
            is_published = has_publication(self._connection, name)
            publishes = self._has_own_publication and not is_published
            findings = self._server.findings(self._log.slot, publishes=publishes)
            findings += slot_findings(self._connection, self._log, is_own=self._has_own_slot)
            if not publishes:
                findings += publication_findings(self._connection, name, ())
            return findings

    def unreadable(self, tables: Sequence[SourceTable]) -> Sequence[Finding]:
        """Those of the tables that are not in the publication, or may not be put into it."""
        names = [table.name for table in tables]
        if not self._has_own_publication:
            return self._unpublished(names)
        rows = self._server.rows(
            _NOT_OWNED, [[name.database for name in names], [name.table for name in names]]
        )
        return [
            Finding(
                f"table {schema}.{table}",
                f"user '{self.address.user}' does not own it, and cannot publish it",
                f"ALTER TABLE {quoted_table(TableName(str(schema), str(table)))} OWNER TO a role "
                "that the user has, or let an administrator create a publication and name it",
                TableName(str(schema), str(table)),
            )
            for schema, table in rows
        ]

    def partly_logged(self, tables: Collection[TableName]) -> Sequence[Finding]:
        """Those of the tables whose replica identity is not FULL."""
        return partly_logged(self._server, tables)

    def _unpublished(self, names: Collection[TableName]) -> list[Finding]:
        """Those of some tables that a publication does not have, or not all of their changes."""
        return [finding for finding in self._published(names) if finding.table is not None]

    def _published(self, tables: Collection[TableName]) -> list[Finding]:
        with explained(self.address):
            return publication_findings(self._connection, self._log.publication, tables)

    def check_holds(self, position: Position) -> None:
        """Check that the slot has all changes after a position; see `check_slot`."""
        assert isinstance(position, LogPosition)
        with explained(self.address):
            slot = find_slot(self._connection, self._log.slot)
            process = None if slot is None else slot.process
            check_slot(self._connection, self._log, position, process=process)

    def check_log_file(self, file: str, position: Position, *, is_read: bool) -> None:
        """Nothing: positions have the system and its timeline."""

    def check_logs(self, databases: Collection[str]) -> None:
        """Check that the publication has all kinds of changes.

        Raises:
            Conflict: It does not, or does not exist.
        """
        del databases
        with explained(self.address):
            if not has_publication(self._connection, self._log.publication):
                raise Conflict(
                    f"publication '{self._log.publication}' of the source at {self.address} does "
                    f"not exist: changes are missing; {READ_AGAIN}"
                )
            for finding in publication_findings(self._connection, self._log.publication, ()):
                raise Conflict(f"the source at {self.address} cannot be followed: {finding}")

    # Pipelines --------------------------------------------------------------------------------

    def lock(self, pipeline: str, seconds: float) -> None:
        """Keep other processes from running a pipeline while this connection lasts.

        Raises:
            Conflict: Another one runs it.
        """
        deadline = monotonic() + seconds
        statement = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        while self._server.rows(statement, [_LOCK_PREFIX + pipeline]) != [(True,)]:
            if monotonic() >= deadline:
                raise Conflict(
                    f"pipeline '{pipeline}' runs in another process, which holds its lock at the "
                    f"source at {self.address} for {seconds:g} s already; stop that one first: "
                    f"headwater cdc stop --name {pipeline}"
                )
            sleep(_RETRY_SECONDS)

    def is_locked(self, pipeline: str) -> bool:
        """Whether a process runs a pipeline on this source."""
        return self._server.rows(_LOCK_HOLDER, [_LOCK_PREFIX + pipeline]) != [(0,)]

    # The log ----------------------------------------------------------------------------------

    def position(self) -> LogPosition:
        """The position that the log has reached."""
        with explained(self.address):
            return log_position(self._connection)

    def start(self) -> LogPosition:
        """A position to begin at, from which on the slot keeps the log.

        Raises:
            Conflict: The slot is in use.
            Forbidden: A privilege is missing.
        """
        with explained(self.address):
            name = self._log.publication
            if self._has_own_publication and not has_publication(self._connection, name):
                # The log of a slot needs a publication that is older than what it has.
                create_publication(self._connection, name, [])
            if self._has_own_slot:
                await_slot(self._connection, self._log.slot, _OTHER_READER_SECONDS)
                drop_slot(self._connection, self._log.slot)
                return create_slot(self._connection, self._log.slot)
            position = log_position(self._connection)
            check_slot(self._connection, self._log, position)
            return position

    def parse(self, text: str) -> LogPosition:
        """Read a position of this source.

        Raises:
            Conflict: It is not a position of PostgreSQL.
        """
        try:
            return LogPosition.from_text(text)
        except Invalid as error:
            raise Conflict(
                f"the source at {self.address} is PostgreSQL, which has no position '{text}', "
                f"where the pipeline is; connect to the server that was read before, or "
                f"{READ_AGAIN}"
            ) from error

    def open_log(
        self, after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
    ) -> PostgresLogReader:
        """Read the log from a position on; see `open_log`."""
        assert isinstance(after, LogPosition)
        self._transactions = LoggedTransactions(self._server)
        with explained(self.address):
            await_slot(self._connection, self._log.slot, _OTHER_READER_SECONDS)
            return open_log(
                self._log,
                self._connection,
                after,
                is_selected=is_selected,
                convert=lake_values,
                memory_bytes=memory_bytes,
                observer=self,
            )

    def received(self, numbers: Collection[int]) -> None:
        """Note the numbers of transactions that were read."""
        if self._transactions is not None:
            self._transactions.add(numbers)

    def bytes_after(self, lsn: int) -> int:
        """How many bytes of the log follow a place in it."""
        return max(0, self.position().lsn - lsn)

    def unlogged(self, tables: Collection[TableName]) -> Mapping[TableName, Finding]:
        """Those of the tables whose changes the publication does not have, or not all of them."""
        lacks: dict[TableName, Finding] = {}
        for finding in self._published(tables):
            for name in tables if finding.table is None else [finding.table]:
                lacks.setdefault(name, finding)
        return lacks

    def prepared_transactions(self) -> tuple[str, ...]:
        """None: a prepared transaction is in the log when it is committed."""
        return ()

    def await_ends(self, phases: Sequence[XaEnd]) -> None:
        """Nothing: the log has no phases of transactions."""

    def publish(self, tables: Tables) -> Tables:
        """Put tables into the pipeline's own publication, or see what another one has.

        Returns:
            The tables as they are published; those that are not are among the findings, and those
            that wait for `EarlierWriters` are awaited.

        Raises:
            Conflict, Forbidden: See `publish_tables`.
            Unavailable: The source cannot be reached.
        """
        name = self._log.publication
        findings = self.unreadable(tables.followed)
        left_out = {finding.table for finding in findings}
        followed = [table for table in tables.followed if table.name not in left_out]
        names = [table.name for table in followed]
        with explained(self.address):
            if self._has_own_publication:
                added, locked = publish_tables(self._connection, name, names, self._awaited_workers)
                new, chooses = self._awaited.union(added), True
            else:
                locked, new = {}, frozenset(names)
                chooses = not has_all_tables(self._connection, name)
            before = _published(read_storage(self._server, names, name))
            awaited = dict(self._writers.remaining(before)) if chooses else {}
            awaited |= locked
            # Reads of the others wait for no more transactions while a table is awaited only.
            if chooses and new.difference(awaited) and self._transactions is not None:
                self._transactions.add_running()
            storages = read_storage(self._server, names, name)
        after = _published(storages)
        for table in names if chooses else ():
            if before.get(table) != after.get(table):
                awaited.setdefault(table, _PUBLISHED_OTHERWISE)
        self._awaited = frozenset(awaited)
        return Tables(
            [
                _as_published(table, storages.get(table.name))
                for table in followed
                if table.name not in awaited
            ],
            [*tables.findings, *findings],
            tables.notes,
            awaited,
        )

    # Tables and rows --------------------------------------------------------------------------

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined; see `read_tables`.

        Those that a publication does not have are among the findings.
        """
        choices = frozenset(TypeMapping(name) for name in mapping)
        if wanted is None:
            key = choices, without_key
            if key not in self._known:
                self._known[key] = KnownTables(
                    self._server,
                    self._log.publication,
                    mapping=choices,
                    without_key=without_key,
                )
            tables = self._known[key].read()
        else:
            tables = read_tables(
                self._server,
                wanted,
                mapping=choices,
                without_key=without_key,
                publication=self._log.publication,
            )
        if self._has_own_publication:
            return tables
        findings = self._unpublished([table.name for table in tables.followed])
        left_out = {finding.table for finding in findings}
        followed = [table for table in tables.followed if table.name not in left_out]
        return replace(tables, followed=followed, findings=[*tables.findings, *findings])

    def altered(
        self, table: SourceTable, batch: LogBatch, mapping: Collection[str]
    ) -> TableChanges:
        """A table after what a batch says of it.

        The catalogs have the present definition. It is the one at the batch's place if it has the
        columns that the log describes, or that were found before. Those of the log have no numbers:
        they may have been others, which were dropped since.

        Raises:
            Invalid: The table cannot be followed any more.
        """
        for change in batch.changes:
            if isinstance(change, Unlogged) and change.table == table.name:
                raise Invalid(f"{change.finding}; then {_READ_ONE_AGAIN} {table.name}")
        table = _with_seen(table, batch)
        changes = [change for change in batch.changes if table.name in change.tables]
        if any(isinstance(change, Misidentified) for change in changes):
            return TableChanges(table, unknown=_OTHER_IDENTITY)
        if all(isinstance(change, PartitionSeen) for change in changes):
            return TableChanges(table)
        tables = self.tables({table.name}, mapping=mapping, without_key=not table.primary_key)
        for finding in tables.findings:
            raise Invalid(str(finding))
        if not tables.followed or tables.followed[0].id != table.id:
            return TableChanges(table, unknown=_CHANGED_AGAIN)
        (now,) = tables.followed
        is_described = any(isinstance(change, Redefined) for change in changes)
        if not all(self._is_of(change, now) for change in batch.changes) or (
            is_described and may_have_had_others(table, now, dropped_columns(self._server, now))
        ):
            return TableChanges(table, unknown=_CHANGED_AGAIN)
        if _is_published_otherwise(table, now):
            return TableChanges(table, unknown=_PUBLISHED_OTHERWISE)
        # What the log does not say of rows may have happened behind the batch; how a table was
        # stored when its definition was asked for is before it.
        stored = table.storage
        for change in batch.changes:
            if isinstance(change, Redefinition) and change.definition.name == table.name:
                stored = change.definition.storage
        now = replace(now, storage=stored)
        return changed_table(table, now, filled_columns(self._server, now))

    def _is_of(self, change: Change, now: SourceTable) -> bool:
        """Whether a change of a table, if it is one, leads to the present definition."""
        if isinstance(change, Redefinition) and change.definition.name == now.name:
            return change.definition == now
        if isinstance(change, Redefined) and change.table == now.name:
            return self.described(change.relation) == [(c.name, c.source_type) for c in now.columns]
        return True

    def described(self, relation: Relation) -> list[tuple[str, str]]:
        """The names and types of a table's columns, as the log describes them.

        A type that does not exist any more has no name.
        """
        columns = relation.columns
        types = read_types(self._server, {(c.type_oid, c.modifier) for c in columns})
        return [(c.name, types.get((c.type_oid, c.modifier), "")) for c in columns]

    def silent_foreign_keys(self) -> Sequence[ForeignKeyAction]:
        """None: the log has the rows that foreign keys change."""
        return ()

    @contextmanager
    def consistent_read(self, after: Position) -> Iterator[PostgresRead]:
        """See the source at one position, by a connection of its own."""
        with self.row_reader() as reader, reader.consistent_read(after) as read:
            yield read

    @contextmanager
    def row_reader(self) -> Iterator[PostgresRowReader]:
        """A connection for consistent reads."""
        with PostgresServer(self.address) as server:
            if self._transactions is None:
                yield PostgresRowReader(server)
            else:
                yield PostgresRowReader(server, self._transactions.may_have)

    def remote_reads(self) -> PostgresRemoteReads:
        """Reads of rows in other processes, up to positions that were received until now.

        Raises:
            Unavailable: The connection is lost.
        """
        transactions = self._transactions
        running = None if transactions is None else transactions.running()
        return PostgresRemoteReads(self.address, running)

    @contextmanager
    def exact_read(
        self, reader: LogReader, batch: LogBatch, table: SourceTable
    ) -> Iterator[PostgresRead]:
        """See a table exactly as it is at the end of a batch, which is read on for that."""
        with (
            self.row_reader() as rows,
            exact_read(rows, self.position, reader, batch, table) as read,
        ):
            yield read


def _is_published_otherwise(table: SourceTable, now: SourceTable) -> bool:
    if table.storage is None or now.storage is None:
        return False
    before = TableStorage.from_json(table.storage)
    return before.is_published_otherwise(TableStorage.from_json(now.storage))


def _published(storages: Mapping[TableName, TableStorage]) -> Mapping[TableName, object]:
    """How a publication has tables."""
    return {name: (storage.oid, storage.published) for name, storage in storages.items()}


def _as_published(table: SourceTable, now: TableStorage | None) -> SourceTable:
    """A table, stored as it was found, that is published as it is now."""
    if table.storage is None or now is None:
        return table
    storage = replace(TableStorage.from_json(table.storage), published=now.published)
    return replace(table, storage=storage.to_json())


def _with_seen(table: SourceTable, batch: LogBatch) -> SourceTable:
    """A table with the partitions that a batch is the first to have rows of."""
    seen = [
        change.partition
        for change in batch.changes
        if isinstance(change, PartitionSeen) and change.table == table.name
    ]
    if not seen or table.storage is None:
        return table
    storage = TableStorage.from_json(table.storage).with_partitions(seen)
    return replace(table, storage=storage.to_json())
