"""What a running pipeline tells about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.state import TablePhase, TableState

__all__ = ["PipelineProgress", "ProgressLog", "TableProgress"]


@dataclass(frozen=True)
class TableProgress:
    """A table of a running pipeline.

    Attributes:
        phase: What is done with it.
        rows: How many rows were committed since the start, of ranges and of the log.
        reason: Why it is quarantined or read again, or what it waits for.
        schema_change: The last statement that changed its columns.
    """

    phase: TablePhase
    rows: int = 0
    reason: str | None = None
    schema_change: str | None = None


@dataclass(frozen=True)
class PipelineProgress:
    """A running pipeline.

    Attributes:
        batch: The last batch that all tables have.
        position: Its end.
        source_time: When its last transaction was written at the source, ms since 1970; 0 if none.
        lag_bytes: Bytes of the source's log that are still to be read; None if not known.
        waits_for: What it waits for, such as a source that is away.
        tables: The tables.
    """

    batch: int = -1
    position: str = ""
    source_time: int = 0
    lag_bytes: int | None = None
    waits_for: str | None = None
    tables: Mapping[TableName, TableProgress] = field(default_factory=dict)


class ProgressLog:
    """The progress, which the pipeline's thread writes and others read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._progress = PipelineProgress()
        self._tables: dict[TableName, TableProgress] = {}
        self._awaited: Mapping[TableName, str] = {}

    def read(self) -> PipelineProgress:
        """The progress as it is now."""
        with self._lock:
            tables = dict(self._tables)
            for name, why in self._awaited.items():
                table = tables.get(name, TableProgress(TablePhase.SNAPSHOT))
                reasons = (table.reason, why)
                tables[name] = replace(table, reason="; it waits: ".join(filter(None, reasons)))
            return replace(self._progress, tables=tables)

    def batch_done(
        self, number: int, position: str, source_time: int, lag_bytes: int | None = None
    ) -> None:
        """Note a batch that all tables have."""
        with self._lock:
            time = source_time or self._progress.source_time
            self._progress = PipelineProgress(number, position, time, lag_bytes)

    def lags(self, lag_bytes: int | None) -> None:
        """Note how much of the log is left after a round without changes of followed tables."""
        with self._lock:
            self._progress = replace(self._progress, lag_bytes=lag_bytes)

    def waits(self, reason: str | None) -> None:
        """Note what the pipeline waits for."""
        with self._lock:
            self._progress = replace(self._progress, waits_for=reason)

    def awaits(self, tables: Mapping[TableName, str]) -> None:
        """Note tables that cannot be followed yet, each with what it waits for."""
        with self._lock:
            self._awaited = tables

    def states(self, states: Mapping[TableName, TableState]) -> None:
        """Note the tables' phases."""
        with self._lock:
            before = self._tables
            self._tables = {
                name: replace(
                    before.get(name, TableProgress(state.phase)),
                    phase=state.phase,
                    reason=state.reason,
                )
                for name, state in states.items()
            }

    def wrote(self, table: TableName, rows: int) -> None:
        """Count committed rows."""
        with self._lock:
            known = self._tables.get(table, TableProgress(TablePhase.STREAMING))
            self._tables[table] = replace(known, rows=known.rows + rows)

    def schema_changed(self, table: TableName, statement: str) -> None:
        """Note a statement that changed a table's columns."""
        with self._lock:
            known = self._tables.get(table, TableProgress(TablePhase.STREAMING))
            self._tables[table] = replace(known, schema_change=statement)
