"""The commits of a batch: one for each table that has something in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.pipeline.append_part import AppendPart
from headwater.cdc.pipeline.batch_part import BatchPart
from headwater.cdc.pipeline.cascades import Cascades
from headwater.cdc.pipeline.log_rows import UNEXPECTED, ReadAgainError
from headwater.cdc.pipeline.range_feed import FeedResult, RangeFeed
from headwater.cdc.pipeline.range_tasks import TaskFeed
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import Reading, TableState
from headwater.cdc.pipeline.table_part import TablePart
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.sink.row_mapping import RowMapping
from headwater.cdc.source.log_batches import LogBatch, LogReader
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict, HeadwaterError, NotFound, Unavailable
from headwater.storage.jobs.executor import ParallelExecutor
from headwater.storage.jobs.stepped_write import can_be_shared

__all__ = ["BatchCommit", "Outcome", "commit_properties"]

States = Mapping[TableName, TableState]


@dataclass
class Outcome:
    """What became of the tables of a batch.

    Attributes:
        rows: The rows that were committed.
        failures: Tables whose part was not committed, with the reason.
        rereads: Tables that must be read again, with the reason.
        reads: How far ranges were read.
        ahead: A position that has all that was seen of tables' single keys.
        snapshots: Tables without a key all of whose rows were committed.
        waits: Tables without a key whose rows could not be read yet, with the reason.
    """

    rows: dict[TableName, int] = field(default_factory=dict)
    failures: dict[TableName, str] = field(default_factory=dict)
    rereads: dict[TableName, str] = field(default_factory=dict)
    reads: dict[TableName, FeedResult] = field(default_factory=dict)
    ahead: dict[TableName, Position] = field(default_factory=dict)
    snapshots: set[TableName] = field(default_factory=set)
    waits: dict[TableName, str] = field(default_factory=dict)


class BatchCommit:
    """Reads ranges while a batch is collected, and commits it when it is planned.

    Args:
        source: The source.
        settings: The pipeline's.
        targets: The lake's tables.
        cascades: Finds rows that foreign keys change.
        number: The batch's number.
        states: The tables when it begins.
        seen: The position that ranges must have seen: where the batch begins.
        is_repeated: Whether an earlier process planned the batch.
        executor: Runs tasks elsewhere; None does all the work in this process.

    Attributes:
        stalled: Tables of which no range could be read.
    """

    def __init__(
        self,
        source: Source,
        settings: PipelineSettings,
        targets: Targets,
        cascades: Cascades,
        number: int,
        states: States,
        seen: Position,
        *,
        is_repeated: bool = False,
        executor: ParallelExecutor | None = None,
    ) -> None:
        self._executor = executor
        self._source, self._settings, self._targets = source, settings, targets
        self._cascades = cascades
        self._number, self._states, self._seen = number, states, seen
        self._is_repeated = is_repeated
        self._parts: dict[TableName, BatchPart] = {}
        # Transactions of the source that are open until the batch is committed.
        self._open = ExitStack()
        self._running: dict[TableName, Future[int]] = {}
        self._outcome = Outcome()
        self.stalled: set[TableName] = set()
        # Tables that the lake does not have any more, with the reason.
        self._absent: dict[TableName, str] = {}
        # Filled in when the batch's end is known, before anything is committed.
        self._properties: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as begun:
            # Parts that run wait for the log's rows, also where a later one cannot begin.
            begun.push(self)
            self._begin_reads()
            begun.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, part in self._parts.items():
            if name not in self._running or not self._running[name].done():
                part.abort()
        for future in self._running.values():
            future.cancel()
        wait(self._running.values())
        self._open.close()

    @property
    def has_feeds(self) -> bool:
        """Whether ranges of tables are read."""
        return any(part.feed is not None for part in self._parts.values())

    @property
    def has_content(self) -> bool:
        """Whether a table has something besides the log."""
        return any(
            part.deletes
            or isinstance(part, AppendPart)
            or (part.feed is not None and part.feed.result().rows)
            for part in self._parts.values()
        )

    @property
    def is_read(self) -> bool:
        """Whether all ranges are read that could be."""
        return all(part.feed is None or part.feed.is_done for part in self._parts.values())

    def tables(self, batch: LogBatch) -> list[TableName]:
        """The tables that commit something for the batch."""
        logged = {} if batch.changes else batch.rows
        applied = [name for name, state in self._states.items() if _applies_log(state)]
        return [*self._parts, *(name for name in applied if name in logged.keys() - self._parts)]

    def take_snapshot(self, reader: LogReader, batch: LogBatch, turn: int) -> None:
        """Begin to read all rows of a table without a key, and read the batch on to that position.

        Args:
            reader: Has read the batch.
            batch: The batch.
            turn: Grows from batch to batch: it chooses among the tables that wait.

        Raises:
            Unavailable: The source or the lake is not there.
        """
        waiting = {name: state for name, state in self._states.items() if state.awaits_snapshot}
        for name, state in waiting.items():
            if state.prepared:
                self._outcome.waits[name] = (
                    f"XA transactions are prepared that may have changed it; commit them or roll "
                    f"them back: {'; '.join(state.prepared)}"
                )
        ready = [name for name in waiting if name not in self._outcome.waits.keys() | batch.faults]
        if not ready or batch.changes:
            return
        name = ready[turn % len(ready)]
        try:
            self._begin_snapshot(name, reader, batch)
        except Unavailable:
            raise
        except Conflict as error:
            self._outcome.waits[name] = error.message
        except HeadwaterError as error:
            self._outcome.failures[name] = error.message

    def finish_reading(self, states: States) -> States:
        """Wait for the ranges that are being read; the states with what the batch has read."""
        changed = dict(states)
        for part in self._parts.values():
            if part.feed is not None:
                part.feed.finish()
        for name, part in self._parts.items():
            state = changed[name]
            reading = state.reading or Reading()
            if isinstance(part, AppendPart):
                reading = replace(reading, until=())
            elif part.deletes:
                reading = replace(reading, deletes_now=True)
            elif part.feed is not None:
                result = self._outcome.reads[name] = part.feed.result()
                is_ahead = result.until is not None and result.until != reading.after
                reading = replace(reading, until=result.until if is_ahead else None)
                if not is_ahead:
                    self.stalled.add(name)
            changed[name] = replace(state, reading=reading)
        return changed

    def commit(self, batch: LogBatch) -> Outcome:
        """Commit the planned batch, the tables side by side.

        Raises:
            Unavailable: The lake or the source is not there; what is committed stays.
        """
        self._properties.update(commit_properties(self._number, batch))
        # A statement is a batch of its own: rows beside it are those of a table that it creates.
        runs = {} if batch.changes else batch.rows
        runs = {name: rows for name, rows in runs.items() if name not in batch.faults}
        cascade = self._cascades.search(
            runs, self._states, self._kept_ranges(), self._committed_before(batch)
        )
        keys = cascade.keys
        self._outcome.rereads.update(cascade.rereads)
        for name, state in self._states.items():
            is_changed = (name in runs or name in keys) and _applies_log(state)
            if is_changed and name not in self._parts and name not in cascade.rereads:
                self._begin(name, state, reads=False)
        for name, part in self._parts.items():
            if name in cascade.rereads:
                part.read_again(cascade.rereads[name])
                continue
            part.close(runs.get(name, ()), batch.end, keys.get(name))
        gone: Unavailable | None = None
        for name, future in self._running.items():
            try:
                self._outcome.rows[name] = future.result()
                ahead = self._parts[name].ahead
                if ahead is not None:
                    self._outcome.ahead[name] = ahead
                if self._states[name].awaits_snapshot:
                    self._outcome.snapshots.add(name)
            except ReadAgainError as error:
                self._outcome.rereads[name] = error.message
            except (Unavailable, Conflict) as error:
                gone = Unavailable(error.message)
            except HeadwaterError as error:
                self._outcome.failures[name] = error.message
            except UNEXPECTED as error:
                # An error that came after the commit leaves nothing to do again.
                if isinstance(error, MemoryError) or self._is_committed(name):
                    raise
                self._outcome.failures[name] = (
                    f"rows of {name} cannot be written: {type(error).__name__}: {error}; read the "
                    f"table again: headwater cdc resnapshot {name}"
                )
        if gone is not None:
            raise gone
        if not batch.changes and batch.end != batch.start:
            # Else the earlier process has committed all of it, and applied its statement, which a
            # source may not tell again.
            self._outcome.failures.update(self._absent)
        if self._is_repeated:
            self._note_repeated_reads()
        return self._outcome

    # Parts ------------------------------------------------------------------------------------

    def _kept_ranges(self) -> dict[TableName, Sequence[pa.RecordBatch]]:
        """Rows of ranges that are in this batch, of tables that foreign keys change.

        A batch that is repeated reads them behind its end, where foreign keys have changed them.
        """
        if self._is_repeated:
            return {}
        return {name: part.feed.kept for name, part in self._parts.items() if part.feed is not None}

    def _committed_before(self, batch: LogBatch) -> frozenset[TableName]:
        """The tables whose part an earlier process has committed, if that matters."""
        if not self._is_repeated or not batch.rows:
            return frozenset()
        related = self._cascades.related(self._states)
        return frozenset(name for name in related if self._is_committed(name))

    def _is_committed(self, name: TableName) -> bool:
        try:
            table = self._targets.open(self._states[name].target)
            last = table.last_committed(self._settings.user(name))
        except NotFound:
            return False
        return last is not None and last >= self._number

    def _note_repeated_reads(self) -> None:
        """Tell how far tables were read that an earlier process had planned to read."""
        for name, state in self._states.items():
            is_planned = state.reading is not None and state.reading.until is not None
            if state.awaits_snapshot and is_planned and self._is_committed(name):
                self._outcome.snapshots.add(name)
        for name, part in self._parts.items():
            if part.feed is not None:
                self._outcome.reads[name] = part.feed.result()

    def _begin_reads(self) -> None:
        """Begin to read ranges."""
        # Rows that are read wait for the writer, and a table has one writer at a time.
        read: set[str] = set()
        for name, state in self._states.items():
            if len(self._parts) == self._settings.writers and not self._is_repeated:
                break
            if self._reads(state) and state.target not in read:
                read.add(state.target)
                self._begin(name, state)

    def _reads(self, state: TableState) -> bool:
        reading = state.reading
        if reading is None or not state.is_followed or state.awaits_snapshot:
            return False
        if self._is_repeated:
            return reading.until is not None or reading.deletes_now
        return not reading.is_all_read or reading.deletes

    def _begin(self, name: TableName, state: TableState, *, reads: bool = True) -> None:
        try:
            part = self._part(name, state, reads=reads)
        except (Unavailable, Conflict) as error:
            raise Unavailable(error.message) from error
        except HeadwaterError as error:
            if isinstance(error, NotFound) and self._is_repeated:
                self._absent[name] = error.message
            else:
                self._outcome.failures[name] = error.message
            return
        if part is not None:
            self._run(name, part)

    def _run(self, name: TableName, part: BatchPart) -> None:
        self._parts[name] = part
        writing = self._targets.writing(self._states[name].target)

        def commit() -> int:
            with writing:
                user = self._settings.user(name)
                return part.commit(user, self._number, lambda: self._properties)

        self._running[name] = self._targets.writers.submit(commit)

    def _begin_snapshot(self, name: TableName, reader: LogReader, batch: LogBatch) -> None:
        state = self._states[name]
        source_table = state.source_table(name)
        table = self._targets.own(state.target, name)
        mapping = self._targets.mapping(state.target, source_table)
        read = self._open.enter_context(self._source.exact_read(reader, batch, source_table))
        self._run(name, AppendPart(table, mapping, self._settings, read))

    def _part(self, name: TableName, state: TableState, *, reads: bool) -> BatchPart | None:
        table = self._targets.own(state.target, name)
        source_table = state.source_table(name)
        if self._is_repeated and self._is_committed(name):
            # Whether and when the earlier process read single keys is not known.
            settled = self._outcome.ahead[name] = self._source.position()
            if state.reading is not None and reads:
                # It may have found another table, and read nothing of it: what it meant to read is
                # read again.
                self._outcome.reads[name] = FeedResult(None, settled, 0)
            return None
        mapping = self._targets.mapping(state.target, source_table)
        if state.is_appended:
            return AppendPart(table, mapping, self._settings)
        reading = state.reading
        feed: RangeFeed | TaskFeed | None = None
        deletes = False
        if reads and reading is not None:
            deletes = reading.deletes_now if self._is_repeated else reading.is_all_read
            if not deletes:
                feed = self._feed(name, table, source_table, mapping, reading)
        return TablePart(
            table,
            self._source,
            source_table,
            mapping,
            self._settings,
            seen=self._seen,
            feed=feed,
            deletes=deletes,
            executor=self._executor,
        )

    def _feed(
        self,
        name: TableName,
        table: Table,
        source_table: SourceTable,
        mapping: RowMapping,
        reading: Reading,
    ) -> RangeFeed | TaskFeed:
        until = reading.until if self._is_repeated else None
        keep = self._cascades.columns(name, self._states)
        read = (reading.after, self._seen, self._settings)
        if self._executor is not None and can_be_shared(table.storage):
            return TaskFeed(
                self._source, source_table, mapping, *read, self._executor, until=until, keep=keep
            )
        table_read = (self._source, source_table, mapping.source)
        return RangeFeed(*table_read, *read, until=until, keep=keep)


def commit_properties(number: int, batch: LogBatch) -> dict[str, str]:
    """The properties of the snapshots of a batch."""
    return {
        "cdc.batch": str(number),
        "cdc.position": str(batch.end),
        "cdc.source-time": str(batch.source_time),
    }


def _applies_log(state: TableState) -> bool:
    """Whether the log's rows of a table are committed."""
    return state.is_followed and not state.awaits_snapshot
