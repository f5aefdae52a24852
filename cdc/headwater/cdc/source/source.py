"""A database that a pipeline follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.source.foreign_keys import ForeignKeyAction
from headwater.cdc.source.log_batches import LogBatch, LogReader, XaEnd
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import ConsistentRead, RemoteReads, RowReader, Tables
from headwater.cdc.source.table_changes import TableChanges

__all__ = ["Source", "SourceAddress"]


class SourceAddress(Protocol):
    """Where a source is; as text without a password."""

    @property
    def user(self) -> str:
        """The user that logs in."""


class Source(Protocol):
    """A database that a pipeline follows: a connection for questions, and what opens others."""

    @property
    def address(self) -> SourceAddress:
        """Where it is, for messages."""

    def close(self) -> None:
        """End the connection."""

    # What does not work -----------------------------------------------------------------------

    def findings(self, databases: Collection[str]) -> Sequence[Finding]:
        """The version, settings and privileges that keep changes of databases from being read."""

    def unreadable(self, tables: Sequence[SourceTable]) -> Sequence[Finding]:
        """Those of the tables that the user sees and may not read."""

    def check_holds(self, position: Position) -> None:
        """Check that the source has had a position, and has its log from there on.

        Raises:
            Conflict: It lacks transactions of the position.
            NotFound: Its log was purged.
        """

    def check_log_file(self, file: str, position: Position, *, is_read: bool) -> None:
        """Check that the log was not begun again under the positions that it had before.

        Args:
            file: What was read last of the log (`LogReader.log_file`).
            position: Where the pipeline is.
            is_read: Whether the log from there on is read already.

        Raises:
            Conflict: The source has begun another log.
            NotFound: That cannot be told, as the file was purged.
        """

    def check_logs(self, databases: Collection[str]) -> None:
        """Check that the source logs all changes of some databases.

        Raises:
            Conflict: Its settings keep changes out of the log.
        """

    # Pipelines --------------------------------------------------------------------------------

    def lock(self, pipeline: str, seconds: float) -> None:
        """Keep other processes from running a pipeline while this connection lasts.

        Args:
            pipeline: Its name.
            seconds: How long to wait for another one.

        Raises:
            Conflict: Another one runs it.
        """

    def is_locked(self, pipeline: str) -> bool:
        """Whether a process runs a pipeline on this source."""

    # The log ----------------------------------------------------------------------------------

    def position(self) -> Position:
        """The position that the source has reached."""

    def start(self) -> Position:
        """A position to begin at.

        Raises:
            Unavailable: A transaction that ended in the log before it does not end.
        """

    def parse(self, text: str) -> Position:
        """Read a position of this source.

        Raises:
            Conflict: It is not a position of such a source.
        """

    def open_log(
        self, after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
    ) -> LogReader:
        """Read the log from a position on.

        Args:
            after: The position.
            memory_bytes: How many bytes of a batch are kept in memory.
            is_selected: Whether a table may be followed.

        Raises:
            NotFound: The source does not have the log from there on.
            Unavailable: It cannot be reached.
        """

    def prepared_transactions(self) -> tuple[str, ...]:
        """The XA transactions that are prepared, as the log writes them.

        Raises:
            Unavailable: The connection is lost.
        """

    def await_ends(self, phases: Sequence[XaEnd]) -> None:
        """Wait until XA transactions that have ended in the log can be seen to have ended.

        Args:
            phases: Phases of XA transactions, in the log's order.

        Raises:
            Unavailable: One of them does not end.
        """

    # Tables and rows --------------------------------------------------------------------------

    @property
    def has_rows(self) -> bool:
        """Whether tables and their rows can be read from the source, besides its log.

        Where they cannot, the log describes its tables (`Described`), and nothing is read again.
        """

    def tables(
        self,
        wanted: Collection[TableName] | None = None,
        *,
        mapping: Collection[str] = (),
        without_key: bool = False,
    ) -> Tables:
        """The tables as they are defined.

        Args:
            wanted: The tables to read; None reads all.
            mapping: Choices of types in the lake.
            without_key: Whether tables without a primary key can be followed.

        Raises:
            Forbidden: The user may not read the definitions.
            Unavailable: The source does not answer.
        """

    def altered(
        self, table: SourceTable, batch: LogBatch, mapping: Collection[str]
    ) -> TableChanges:
        """A table after the statement of a batch.

        Args:
            table: The table before it.
            batch: The batch; changes of other tables are left out.
            mapping: Choices of types in the lake.

        Raises:
            HeadwaterError: The table cannot be followed any more.
        """

    def silent_foreign_keys(self) -> Sequence[ForeignKeyAction]:
        """The foreign keys by which the source changes rows without an event in the log.

        Raises:
            Forbidden: The user may not read a table's definition.
            Unavailable: The source does not answer.
        """

    @property
    def logs_cascades(self) -> bool:
        """Whether the log has the rows that foreign keys change."""

    def consistent_read(self, after: Position) -> AbstractContextManager[ConsistentRead]:
        """See the source at one position, by a connection of its own; see `RowReader`."""

    def row_reader(self) -> AbstractContextManager[RowReader]:
        """A connection for consistent reads.

        Raises:
            Unavailable: The source cannot be reached.
        """

    def remote_reads(self) -> RemoteReads:
        """Reads of rows in other processes, up to positions that were read until now.

        Raises:
            Unavailable: The source cannot be reached.
        """

    def publish(self, tables: Tables) -> Tables:
        """Let the log have the rows of tables from now on, where a source logs chosen tables only.

        Returns:
            The tables; those that it will not have are among the findings, and those that were
            changed by transactions which run, and whose changes the log lacks, are awaited: they
            are to be published again later.

        Raises:
            Forbidden: The user may not choose a table.
        """

    def unlogged(self, tables: Collection[TableName]) -> Mapping[TableName, Finding]:
        """Those of the tables whose changes are not in the log, or not all of them.

        It is asked where the log has no statements.
        """

    def partly_logged(self, tables: Collection[TableName]) -> Sequence[Finding]:
        """Those of the tables whose log lacks rows as they were before updates and deletes."""

    @property
    def keeps_log(self) -> bool:
        """Whether the log can be read again from a position that was confirmed."""

    @property
    def logs_statements(self) -> bool:
        """Whether the log has the statements that create, change and drop tables."""

    def exact_read(
        self, reader: LogReader, batch: LogBatch, table: SourceTable
    ) -> AbstractContextManager[ConsistentRead]:
        """See a table exactly as it is at the end of a batch, which is read on for that.

        Args:
            reader: Reads the log; its last batch is the one.
            batch: The batch. The table is seen with all changes in it.
            table: The table; statements about it wait until this has ended.

        Raises:
            Conflict: The table has other columns, or changes all the time: try again later.
            Unavailable: The source cannot be reached.
        """
