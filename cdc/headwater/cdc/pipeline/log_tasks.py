"""Rows of a table in the log that tasks of an executor decode and write to the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.null_dates import check_null_dates
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.sink.row_mapping import RowMapping
from headwater.cdc.source.log_batches import TableRows
from headwater.storage.jobs.executor import ParallelExecutor
from headwater.storage.jobs.stepped_write import SteppedWrite, TaskFiles, TaskWrite

__all__ = ["LogOutcome", "is_large", "write_log_rows"]

# Rows of a log take at least so many bytes, about.
_MIN_ROW_BYTES = 16


@dataclass(frozen=True)
class LogOutcome:
    """What became of a table's rows in the log.

    Attributes:
        rows: How many were read.
        unclear_keys: Keys of rows that the log has in part only.
    """

    rows: int
    unclear_keys: Sequence[pa.Table]


@dataclass(frozen=True)
class _LogTask:
    """Rows that a task decodes and writes; it pickles."""

    mapping: RowMapping
    run: TableRows
    bad_dates: BadDates
    write: TaskWrite


@dataclass(frozen=True)
class _LogTaskOutcome:
    files: TaskFiles
    rows: int
    unclear_keys: tuple[pa.Table, ...]


def is_large(runs: Sequence[TableRows], settings: PipelineSettings) -> bool:
    """Whether rows are worth tasks of their own."""
    return sum(run.size for run in runs) >= settings.task_bytes


def write_log_rows(
    steps: SteppedWrite,
    mapping: RowMapping,
    runs: Sequence[TableRows],
    settings: PipelineSettings,
    executor: ParallelExecutor,
) -> LogOutcome:
    """Let tasks decode and write rows of the log, in their order.

    Args:
        steps: The write.
        mapping: How the table's rows become the lake's.
        runs: The rows.
        settings: The pipeline's.
        executor: Runs the tasks.

    Raises:
        ReadAgainError: The table must be read again.
        CorruptData, Invalid, Unsupported: A value cannot be in the lake.
        Unavailable: A task was lost.
    """
    total = sum(run.size for run in runs)
    # Rows that are sent are in memory; and each task takes time to begin.
    size = min(total, settings.memory_bytes) // executor.at_once
    size = max(size, settings.task_bytes // 2)
    parts = (part for run in runs for part in run.parts(size))
    rows = 0
    unclear: list[pa.Table] = []
    while sent := list(islice(parts, executor.at_once)):
        writes = steps.tasks(len(sent), sum(part.size for part in sent) // _MIN_ROW_BYTES)
        tasks = [
            _LogTask(mapping, part, settings.bad_dates, write)
            for part, write in zip(sent, writes, strict=True)
        ]
        for outcome in executor.run(_write_part, tasks):
            steps.add(outcome.files)
            rows += outcome.rows
            unclear += outcome.unclear_keys
    return LogOutcome(rows, unclear)


def _write_part(task: _LogTask) -> _LogTaskOutcome:
    mapping = task.mapping
    log_rows = LogRows(
        mapping.source,
        [task.run],
        task.bad_dates,
        identity=mapping.identity,
        deletes_by_key=not mapping.layout.own_columns,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in log_rows.batches():
            yield check_null_dates(mapping.rows(batch), mapping.source, task.bad_dates)

    files = task.write.write(batches())
    return _LogTaskOutcome(files, log_rows.rows, tuple(log_rows.unclear_keys))
