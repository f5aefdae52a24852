"""The figures of a running pipeline: as they are shown, printed and scraped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["Figures", "Sampler", "TableFigures"]

_NOT_FOLLOWED = (TablePhase.QUARANTINED, TablePhase.CATCHING_UP, TablePhase.GONE)


@dataclass(frozen=True)
class TableFigures:
    """A table.

    Attributes:
        table: The source's table.
        phase: What the pipeline does with it.
        rows: How many rows were committed since the start.
        rows_per_second: The same, since the figures before.
        lag_seconds, lag_bytes: Those of the pipeline, as a batch has all tables; None for a table
            that is not followed.
        schema_change: The last statement that changed its columns.
        reason: Why it is quarantined or read again.
    """

    table: str
    phase: str
    rows: int
    rows_per_second: float
    lag_seconds: float | None
    lag_bytes: int | None
    schema_change: str | None
    reason: str | None


@dataclass(frozen=True)
class Figures:
    """A pipeline.

    Attributes:
        time: Now, in ms since 1970.
        pipeline: Its name.
        batch: The last batch that all tables have; -1 before the first.
        position: The position that it ends at.
        lag_seconds: How long ago the last change that was read was written; 0 if all were read,
            None if not known.
        lag_bytes: How much of the source's log is left; None if not known.
        waits_for: What it waits for, such as a source that is away.
        tables: The tables.
    """

    time: int
    pipeline: str
    batch: int
    position: str
    lag_seconds: float | None
    lag_bytes: int | None
    waits_for: str | None
    tables: Sequence[TableFigures]

    def document(self) -> Mapping[str, object]:
        """The figures as JSON has them."""
        tables = [vars(table) for table in self.tables]
        return {**vars(self), "tables": tables}


class Sampler:
    """Takes a pipeline's figures, one time after the other.

    Args:
        pipeline: The pipeline.
        runtime: The clock.
    """

    def __init__(self, pipeline: RunningPipeline, runtime: Runtime = SYSTEM_RUNTIME) -> None:
        self._pipeline, self._runtime = pipeline, runtime
        self._rows: dict[str, int] = {}
        self._taken = runtime.monotonic()

    def sample(self) -> Figures:
        """The figures now."""
        progress = self._pipeline.status()
        taken, now = self._runtime.monotonic(), self._runtime.now_millis()
        seconds = max(taken - self._taken, 1e-3)
        lag = None
        if progress.lag_bytes == 0:
            lag = 0.0
        elif progress.source_time:
            lag = max(0.0, (now - progress.source_time) / 1000)
        tables = []
        for name, table in sorted(progress.tables.items()):
            new = table.rows - self._rows.get(str(name), 0)
            is_followed = table.phase not in _NOT_FOLLOWED
            tables.append(
                TableFigures(
                    str(name),
                    str(table.phase),
                    table.rows,
                    round(new / seconds, 1),
                    lag if is_followed else None,
                    progress.lag_bytes if is_followed else None,
                    table.schema_change,
                    table.reason,
                )
            )
        self._rows = {table.table: table.rows for table in tables}
        self._taken = taken
        return Figures(
            now,
            self._pipeline.name,
            progress.batch,
            progress.position,
            lag,
            progress.lag_bytes,
            progress.waits_for,
            tables,
        )
