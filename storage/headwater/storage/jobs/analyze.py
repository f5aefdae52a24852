"""Statistics of a table's rows, as a commit of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.capabilities import Operation
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import HeadwaterError
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import reading, until_no_conflict
from headwater.storage.maintenance.analysis import (
    RowSummary,
    analysed_columns,
    summarize_split,
)
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.table_statistics import (
    TableStatistics,
    delete_statistics,
    write_statistics,
)
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.types.data_type import DataField

__all__ = ["analyze_table"]


def analyze_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    columns: Sequence[str] | None,
    *,
    reads: bool = True,
) -> Snapshot | None:
    """Read a table's rows once, and commit their statistics; a split is a task.

    Snapshots that follow carry the statistics on, until the schema changes.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        columns: The columns; None means all whose types have statistics, none that rows are only
            counted.
        reads: Whether to read rows; else the statistics are what manifests tell of files.

    Returns:
        The snapshot made; None when the table has none.

    Raises:
        NotFound: A column does not exist.
        Invalid: A column's type has no statistics.
        Conflict: Other commits came first each time.
        OutcomeUnknown: The commit may have happened.
    """
    storage.refuse(Operation.READ | Operation.WRITE)
    fields = analysed_columns(storage.schema, storage.name, columns)

    def attempt() -> tuple[Snapshot, TableStatistics] | None:
        base = pointer.latest()
        if base is None:
            return None
        with reading(storage, pointer, base):
            if not reads:
                return base, _file_statistics(storage, base)
            return base, _statistics(storage, base, executor, fields)

    result = until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)
    if result is None:
        return None
    base, statistics = result
    # It checks the options: then no file is left.
    commit = TableCommit(storage, pointer, storage.runtime.new_uuid())
    name = write_statistics(storage, statistics)
    try:
        return commit.analyze(name, base)
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        delete_statistics(storage, name)
        raise


def _file_statistics(storage: TableStorage, base: Snapshot) -> TableStatistics:
    """The size of a table's files; the number of its rows where merging leaves out none."""
    entries = live_entries(storage, base)
    options = storage.schema.table_options
    merges = bool(
        storage.schema.primary_keys or options.deletion_vectors_enabled or options.evolves_columns
    )
    return TableStatistics(
        base.id,
        storage.schema.id,
        None if merges else sum(entry.file.row_count for entry in entries),
        sum(entry.file.file_size for entry in entries),
    )


def _statistics(
    storage: TableStorage, base: Snapshot, executor: Executor, fields: Sequence[DataField]
) -> TableStatistics:
    summary = RowSummary.of_none(fields)
    splits = sorted(plan_snapshot(storage, base).splits, key=lambda split: -split.size)
    for part in executor.run(_Summary(storage, fields).run, splits):
        summary.merge(part)
    size = sum(entry.file.file_size for entry in live_entries(storage, base))
    # Files hold rows that merging leaves out; the others are taken to be as large.
    share = size * summary.rows // base.total_record_count if base.total_record_count else 0
    return TableStatistics(
        base.id,
        storage.schema.id,
        summary.rows,
        min(size, share),
        {item.name: summary.columns[item.name].statistics(item.id) for item in fields},
    )


@dataclass(frozen=True)
class _Summary:
    """Summarises splits; it pickles."""

    storage: TableStorage
    fields: Sequence[DataField]

    def run(self, split: Split) -> RowSummary:
        return summarize_split(self.storage, split, self.fields)
