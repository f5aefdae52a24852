"""Updates of the rows that match a filter, and merges of a source's rows into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from headwater.storage.capabilities import Operation
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.compact import check_options, compact_since
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import commit_or_delete, reading, until_no_conflict
from headwater.storage.jobs.waiting_rows import (
    admit_waiting_rows,
    make_up_for_compaction,
    refuse_waiting_rows,
)
from headwater.storage.maintenance.key_rewrite import rewrites_files
from headwater.storage.maintenance.matched_rows import RowMatcher
from headwater.storage.maintenance.row_changes import LosingRows, change_rows
from headwater.storage.maintenance.row_matchers import (
    Assignment,
    MergeRows,
    UpdateRows,
    WhenMatched,
    merge_predicate,
    merge_source,
)
from headwater.storage.predicate.filter import Predicate
from headwater.storage.snapshot.snapshot import (
    CommitKind,
    CommitOperation,
    Snapshot,
    SnapshotIdentity,
)
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.file_encoding import refuse_formats

__all__ = ["change_rows_of_table", "check_change", "merge_into_table", "update_table"]


def update_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    changes: Mapping[str, Assignment],
    predicate: Predicate | None,
) -> Snapshot | None:
    """Give some columns of the rows that match a filter new values, as one commit.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the compaction that is due after it.
        changes: New values by column: Arrow or Polars expressions over the old row, or constants.
        predicate: The filter; rows for which it is null stay. None means all rows.

    Returns:
        The snapshot made; None when no row matched.

    Raises:
        Invalid: A value does not fit its column, or the column is part of the primary key.
        NotFound: A column does not exist.
        Unsupported: The table cannot be written.
        Conflict: Other commits changed the same rows each time.
        OutcomeUnknown: The commit may have happened.
    """
    check_change(storage)
    if not changes:
        raise Invalid(f"table {storage.name}: an update needs a column and its new value")
    for name in changes:
        storage.schema.column(name)
        if name in storage.schema.tracking_fields:
            raise Invalid(
                f"table {storage.name}: column '{name}' is kept by the table and cannot be updated"
            )
        if name in storage.schema.primary_keys:
            raise Invalid(
                f"table {storage.name}: column '{name}' is part of the primary key and cannot be "
                "updated; delete the rows and write them anew"
            )
    return change_rows_of_table(
        storage,
        pointer,
        executor,
        predicate,
        lambda _: UpdateRows(storage, predicate, changes),
        CommitOperation.UPDATE,
        rewrites=rewrites_files(storage, deletes=False),
        is_serial=bool(storage.schema.primary_keys),
    )


def merge_into_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    source: pa.Table,
    on: Sequence[str],
    when_matched: WhenMatched | None,
    inserts: bool,
) -> Snapshot | None:
    """Merge a source's rows into a table, as one commit.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the compaction that is due after it.
        source: Rows with some or all of the table's columns.
        on: The columns in which a row of the source and one of the table that match are equal.
        when_matched: Update the table's row by the source's columns, delete it, or leave it.
        inserts: Add the source's rows that match none.

    Returns:
        The snapshot made; None when there was nothing to change.

    Raises:
        Invalid: Several rows of the source match one row, or the source does not fit the table.
        NotFound: A column does not exist.
        Unsupported: The table cannot be written.
        Conflict: Other commits changed the same rows each time.
        OutcomeUnknown: The commit may have happened.
    """
    check_change(storage)
    rows = merge_source(storage, source, on)
    return change_rows_of_table(
        storage,
        pointer,
        executor,
        merge_predicate(storage, rows, on),
        lambda _: MergeRows(storage, rows, on, when_matched, inserts),
        CommitOperation.MERGE,
        rewrites=when_matched is not None
        and rewrites_files(storage, deletes=when_matched == "delete"),
        is_serial=bool(storage.schema.primary_keys) or inserts,
    )


def check_change(storage: TableStorage) -> None:
    """Refuse to change rows of a table before anything is read.

    Raises:
        Invalid: As `check_options`.
        Unsupported: The table cannot be read, written or changed.
    """
    storage.refuse(Operation.READ | Operation.WRITE | Operation.CHANGE)
    refuse_formats(storage.schema)
    check_options(storage)


def change_rows_of_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    predicate: Predicate | None,
    matcher: Callable[[Snapshot | None], RowMatcher],
    operation: CommitOperation,
    *,
    rewrites: bool,
    is_serial: bool,
) -> Snapshot | None:
    """Change rows and commit, and do so again after a conflict.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the compaction that is due after it.
        predicate: Only rows that fulfil it can change.
        matcher: Says which rows of a snapshot change.
        operation: The statement that changes them.
        rewrites: In a primary-key table, write the files of the rows that match anew.
        is_serial: No other commit may have changed rows of the same buckets meanwhile.

    Returns:
        The snapshot made; None when there was nothing to change.

    Raises:
        Invalid, Unsupported, Conflict, OutcomeUnknown: As `update_table`.
    """

    def attempt() -> Snapshot | None:
        try:
            return change(rewrites)
        except LosingRows:
            return change(True)

    def change(rewrites: bool) -> Snapshot | None:
        admit_waiting_rows(storage, pointer, executor, predicate, rewrites=rewrites)
        base = pointer.latest()
        with reading(storage, pointer, base):
            if base is not None:
                refuse_waiting_rows(storage, base, predicate, rewrites=rewrites)
            messages = change_rows(storage, base, matcher(base), rewrites=rewrites)
        if not messages:
            return None
        since = SnapshotIdentity.of(base) if is_serial else None
        # Without rows that were taken away it is an append, which streams tell of. Index files of
        # deletion vectors make an overwrite of it, those of dynamic buckets do not.
        takes = any(each.compact_before for each in messages)
        kind = CommitKind.OVERWRITE if takes else None
        commit = TableCommit(storage, pointer, storage.runtime.new_uuid(), operation=operation)
        return commit_or_delete(
            commit,
            messages,
            lambda: commit.commit(messages, kind=kind, unchanged_since=since),
        )

    made = until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)
    if made is None:
        make_up_for_compaction(storage, pointer, executor, predicate)
    else:
        with after_commit(storage.name, made, "Compacting"):
            compact_since(
                storage, pointer, executor, made.identity, inclusive=True, tells_overwrites=True
            )
    return made
