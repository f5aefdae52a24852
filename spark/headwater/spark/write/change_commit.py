"""Run a change of rows: plan it, write it as one commit, and plan it again after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import with_stored_values
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.names import quoted
from headwater.spark.options import WriteOptions
from headwater.spark.row_change import Repeats, RowChange, RowCounts, writer_of
from headwater.spark.write.bucket_rows import cluster, cluster_stored, has_fixed_buckets
from headwater.spark.write.changes import Changes, refuse_added_again
from headwater.spark.write.column_check import check_columns
from headwater.spark.write.kept_rows import kept_rows
from headwater.spark.write.nested_defaults import with_nested_defaults
from headwater.spark.write.save import save_frame
from headwater.spark.write.target import PLACE_COLUMNS
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.change import check_change
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.job import reading, until_no_conflict
from headwater.storage.jobs.waiting_rows import (
    admit_waiting_rows,
    make_up_for_compaction,
    refuse_waiting_rows,
)
from headwater.storage.jobs.write import WritePlan
from headwater.storage.maintenance.row_changes import LosingRows
from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType

__all__ = ["REWRITES", "change_rows", "insert_numbered", "insert_rows"]

REWRITES = "copy-on-write: files of changed rows are rewritten"
"""How a change of rows is written that leaves no old version in a file that stays."""

Plan: TypeAlias = Callable[[Table, Snapshot | None, bool], Changes | None]
"""The changes of a snapshot's rows, if files are rewritten or not; None for no changes."""

_PLACES = (FILE_COLUMN, POSITION_COLUMN)


def change_rows(
    session: CatalogSession,
    table: Table,
    operation: str,
    plan: Plan,
    predicate: Predicate | None = None,
    *,
    rewrites: bool = False,
) -> RowCounts:
    """Change rows as one commit, and do the compaction that is due then.

    Args:
        session: The catalog's.
        table: The table.
        operation: The name of the operation in the snapshot's properties.
        plan: The changes. It is called again when another commit changed the same rows meanwhile,
            and when rows must be rewritten.
        predicate: Only rows that fulfil it can change.
        rewrites: In a primary-key table, rewrite the files of changed rows. They are rewritten
            anyway if stored rows would win over new versions of theirs by ``sequence.field``.

    Raises:
        Invalid: A new row does not fit the table, or several changes meet in one row.
        Unsupported: The table cannot be written.
        Conflict: Other commits changed the same rows each time.
        OutcomeUnknown: The commit may have happened.
    """
    storage = table.storage
    check_change(storage)

    def attempt() -> RowCounts:
        try:
            return change(rewrites)
        except LosingRows:
            return change(True)

    def change(rewrites: bool) -> RowCounts:
        writer = storage.runtime.new_uuid()
        if session.explains is None:
            admit_waiting_rows(
                storage, table.pointer, session.executor, predicate, rewrites=rewrites
            )
        base = table.pointer.latest()
        if base is not None and session.explains is None:
            refuse_waiting_rows(storage, base, predicate, rewrites=rewrites)
        changes = plan(table, base, rewrites)
        if changes is None:
            stop_if_explained(session, table=table.name, mode="the table is empty")
            make_up_for_compaction(storage, table.pointer, session.executor, predicate)
            return RowCounts()
        planned = RowChange(
            writer,
            operation,
            is_serial=changes.is_serial,
            repeats=changes.repeats,
            rewrites=rewrites,
            predicate=changes.predicate,
            columns=changes.columns,
        )
        with storage.reporting_drop(), reading(storage, table.pointer, base):
            _write(session, table, changes, planned, base)
        made = _finished(session, table, writer, base)
        if made is None:
            make_up_for_compaction(storage, table.pointer, session.executor, predicate)
        return RowCounts.of(made)

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


def insert_rows(
    session: CatalogSession,
    table: Table,
    rows: DataFrame,
    *,
    overwrite: bool = False,
    partition: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
) -> RowCounts:
    """Write a frame as one commit and count its rows; otherwise as `write_frame`."""
    change = RowChange(
        table.storage.runtime.new_uuid(), "OVERWRITE" if overwrite else "INSERT", is_plain=True
    )
    options = WriteOptions(
        session.connection,
        table.name,
        overwrite,
        partition,
        dynamic,
        clustered=True,
        compacts=False,
        change=change,
        laid_over=table.laid_over,
        table_id=table.info.id,
    )
    return RowCounts.of(_inserted(session, table, rows, options, change))


def insert_numbered(
    session: CatalogSession,
    table: Table,
    rows: DataFrame,
    writer: str,
    numbered: tuple[str, int],
) -> Snapshot | None:
    """Add a frame's rows as the commit of a number that a user's writers have in common.

    Args:
        session: The catalog's.
        table: The table.
        rows: The rows.
        writer: Names this writer.
        numbered: The user and the number.

    Returns:
        The snapshot made; None when there were no rows, or another writer took the number.

    Raises:
        Invalid, Conflict, OutcomeUnknown: As `write_frame`.
    """
    change = RowChange(writer, "INSERT", is_plain=True)
    options = WriteOptions(
        session.connection,
        table.name,
        clustered=True,
        compacts=False,
        numbered=numbered,
        change=change,
        laid_over=table.laid_over,
        table_id=table.info.id,
    )
    return _inserted(session, table, rows, options, change)


def _inserted(
    session: CatalogSession,
    table: Table,
    rows: DataFrame,
    options: WriteOptions,
    change: RowChange,
) -> Snapshot | None:
    rows = with_nested_defaults(rows, table.schema, table.name)
    rows = with_stored_values(session.spark, rows, table.schema)
    check_columns(rows.schema, table.storage)
    base = table.pointer.latest()
    placed = partial(cluster, storage=table.storage)
    retries = WritePlan(table.storage, options.replacement(table.schema)).retries
    with table.storage.reporting_drop():
        until_no_conflict(retries, lambda: save_frame(session, rows, options, placed))
    return _finished(session, table, change.writer, base)


def _write(
    session: CatalogSession,
    table: Table,
    changes: Changes,
    change: RowChange,
    base: Snapshot | None,
) -> None:
    storage, frame = table.storage, changes.frame
    keyed = bool(storage.schema.primary_keys)
    evolves = storage.schema.table_options.evolves_columns
    if evolves and not changes.adds:
        frame = frame.select(*map(quoted, [*changes.columns, ROW_KIND_COLUMN, *_PLACES]))
    else:
        check_columns(frame.drop(*PLACE_COLUMNS).schema, storage)
    options = WriteOptions(
        session.connection,
        table.name,
        clustered=keyed,
        unchanged_since=base,
        compacts=False,
        change=change,
        laid_over=table.laid_over,
        table_id=table.info.id,
    )
    if change.rewrites:
        if changes.adds and not has_fixed_buckets(storage):
            # They meet in no task.
            frame = kept_rows(session, frame)
            if session.explains is None:
                refuse_added_again(frame, storage)
        placed = partial(cluster_stored, storage=storage, adds=changes.adds)
    elif keyed:
        placed = partial(cluster, storage=storage)
    else:
        placed = partial(_by_file, table=table)
    if session.explains is not None:
        mode = _mode(storage, changes, change)
        if changes.repeats is Repeats.REPLACED:
            mode = f"replace of rows by a condition, {mode}"
        stop_if_explained(session, placed(frame), table=table.name, mode=mode, read=changes.read)
    save_frame(session, frame, options, placed)


def _mode(storage: TableStorage, changes: Changes, change: RowChange) -> str:
    """How a change of rows is written, for who explains it."""
    options = storage.schema.table_options
    if change.rewrites:
        return REWRITES
    if storage.schema.primary_keys:
        return "merge-on-read: new versions of rows by primary key"
    if options.evolves_columns and not changes.adds:
        return f"data evolution: files of the columns {', '.join(changes.columns) or 'none'}"
    if options.deletion_vectors_enabled:
        return "merge-on-read: deletion vectors mark old rows"
    return REWRITES


def _by_file(frame: DataFrame, table: Table) -> DataFrame:
    """Each file's changes in one task; rows that are only added are spread."""
    schema = table.schema
    names = schema.partition_keys or [
        field.name for field in schema.fields if isinstance(field.type, AtomicType)
    ]
    spread = sf.xxhash64(*[quoted(name) for name in names]) if names else sf.lit(0)
    placed = frame.repartition(sf.coalesce(sf.col(FILE_COLUMN), spread.cast("string")))
    if not schema.table_options.evolves_columns:
        return placed
    # Old values are read beside the new ones, in the order of the files.
    return placed.sortWithinPartitions(*_PLACES)


def _finished(
    session: CatalogSession, table: Table, writer: str, base: Snapshot | None
) -> Snapshot | None:
    """The snapshot of a writer's commit, after the compaction that is due then."""
    made = _snapshot_of(table, writer, base)
    if made is not None:
        with after_commit(table.name, made, "Compacting"):
            compact_since(
                table.storage,
                table.pointer,
                session.executor,
                made.identity,
                inclusive=True,
                tells_overwrites=True,
            )
    return made


def _snapshot_of(table: Table, writer: str, base: Snapshot | None) -> Snapshot | None:
    """The snapshot that a writer committed after another; None when it made none."""
    latest = table.pointer.latest()
    first = 0 if base is None else base.id
    number = 0 if latest is None else latest.id
    while number > first and latest is not None:
        snapshot = latest if number == latest.id else table.storage.snapshot(number)
        if writer_of(snapshot) == writer:
            return snapshot
        number -= 1
    return None
