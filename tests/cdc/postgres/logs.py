"""A log of PostgreSQL that a test reads, and its rows as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from tests.cdc.postgres.conftest import PostgresDatabase

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.publications import create_publication
from headwater.cdc.postgres.relations import Relation
from headwater.cdc.postgres.rows import LogTableRows
from headwater.cdc.postgres.slots import (
    LogSource,
    await_slot,
    create_slot,
    default_name,
    log_position,
)
from headwater.cdc.postgres.transactions import PostgresLogReader, open_log
from headwater.cdc.source.log_batches import BatchLimits, LogBatch
from headwater.cdc.source.positions import Position
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import MAX_LENGTH, AtomicType, Root

Row = dict[str, str | None]
STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)
LIMITS = BatchLimits(0.2)


def name(table: str) -> TableName:
    return TableName("public", table)


def as_text(values: pa.Array, _column: SourceColumn, _bad_dates: BadDates) -> pa.Array:
    return values.cast(pa.string())


@dataclass
class SourceLog:
    """The log of a database, from a slot of its own.

    Attributes:
        database: The database.
        source: The slot and the publication.
        start: Where the slot begins.
    """

    database: PostgresDatabase
    source: LogSource
    start: LogPosition

    @contextmanager
    def reader(
        self,
        *tables: str,
        start: Position | None = None,
        known: Iterable[Relation] = (),
        selected: Sequence[str] | None = None,
        memory_bytes: int = 1 << 20,
        wait_seconds: float = 60.0,
    ) -> Iterator[PostgresLogReader]:
        """A reader that follows some tables, and is closed at the end."""
        choice = {name(table) for table in (tables if selected is None else selected)}
        at = start or self.start
        assert isinstance(at, LogPosition)
        await_slot(self.database.connection, self.source.slot, wait_seconds)
        reader = open_log(
            self.source,
            self.database.connection,
            at,
            is_selected=lambda table: table in choice,
            convert=as_text,
            known=known,
            memory_bytes=memory_bytes,
        )
        try:
            reader.follow(dict.fromkeys(map(name, tables)))
            yield reader
        finally:
            reader.close()

    def read(self, reader: PostgresLogReader) -> list[LogBatch]:
        """Read all that was committed until now: the batches with something in them."""
        goal = log_position(self.database.connection)
        batches = []
        while not reader.position.contains(goal):
            batch = reader.read_batch(LIMITS)
            assert not batch.ended
            batches += [batch] if batch.has_content else []
        return batches


def source_log(database: PostgresDatabase) -> SourceLog:
    """Publish all tables of a database, and begin to keep its log."""
    slot = default_name(database.name)
    create_publication(database.connection, slot, None)
    start = create_slot(database.connection, slot)
    return SourceLog(database, LogSource(database.url, "the test's server", slot, slot), start)


@dataclass
class Contents:
    """What some batches have of a table.

    Attributes:
        rows: The rows, each with its kind and without the values that the log leaves out.
        relations: The shapes of its rows.
    """

    rows: list[tuple[RowKind, Row]] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)


def contents(batches: Iterable[LogBatch], table: str) -> Contents:
    """All rows of a table in some batches."""
    result = Contents()
    for batch in batches:
        for run in batch.rows.get(name(table), ()):
            assert isinstance(run, LogTableRows)
            result.relations.append(run.relation)
            result.rows += plain_rows(run)
    return result


def plain_rows(
    run: LogTableRows, source_type: str = "text", type_: AtomicType = STRING
) -> Iterator[tuple[RowKind, Row]]:
    """The rows with their kinds; values that the log leaves out are not in them."""
    columns = [SourceColumn(column, source_type, type_) for column in run.columns]
    for part in run.decoded(SourceTable(run.relation.name, columns), BadDates.FAIL):
        kinds = part.kinds.to_pylist()
        # Arrow does not count the rows of a table without columns.
        rows = part.rows.to_pylist() if columns else [{} for _ in kinds]
        sets: list[int | None] = [None] * len(kinds)
        if part.column_set is not None:
            sets = part.column_set.to_pylist()
        for kind, row, index in zip(kinds, rows, sets, strict=True):
            present = run.columns if index is None else part.column_sets[index]
            absent = row.keys() - set(present)
            assert all(row[column] is None for column in absent)
            yield RowKind(kind), {key: row[key] for key in row if key not in absent}
