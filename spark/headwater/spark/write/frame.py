"""Write a frame to a table, and delete the rows that a frame names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns, with_stored_texts, with_stored_values
from headwater.spark.literal import literal
from headwater.spark.names import named_partition, quoted
from headwater.spark.options import WriteOptions
from headwater.spark.schema_merging import SchemaMerging
from headwater.spark.source.format_table import is_format_table
from headwater.spark.source.table_frame import frame_of_table
from headwater.spark.types import spark_type
from headwater.spark.write.bucket_rows import cluster
from headwater.spark.write.column_case import frame_as_named
from headwater.spark.write.column_check import check_columns
from headwater.spark.write.condition_needs import rows_told
from headwater.spark.write.evolve import merge_columns
from headwater.spark.write.format_table import write_format_rows
from headwater.spark.write.nested_defaults import with_another_column, with_nested_defaults
from headwater.spark.write.partition_moments import in_session_zone
from headwater.spark.write.save import save_frame
from headwater.spark.write.update import TARGET
from headwater.spark.write.update import replace_where as replace_rows
from headwater.spark.write.upsert import upsert_rows
from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.jobs.write import WritePlan
from headwater.storage.predicate.filter import columns_of
from headwater.storage.predicate.sql_text import to_sql
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.partition import static_partition
from headwater.storage.snapshot.snapshot import CommitOperation, Snapshot, SnapshotIdentity
from headwater.storage.types.values import arrow_scalar

__all__ = ["delete_keys", "write_frame"]

_MODES = ("append", "overwrite")


def write_frame(
    session: CatalogSession,
    df: DataFrame,
    table: Table,
    mode: str,
    *,
    partition: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
    replace_where: str | None = None,
    merging: SchemaMerging | None = None,
    unchanged_since: Snapshot | None = None,
    numbered: tuple[str, int] | None = None,
    operation: CommitOperation | None = None,
) -> None:
    """Write a frame as one commit, and do the compaction that is due then.

    Args:
        session: The catalog's.
        df: The rows, as `SparkLake.write` takes them.
        table: The table.
        mode: ``append`` or ``overwrite``.
        partition: With ``overwrite``: replace the partitions with these values only.
        dynamic: With ``overwrite``: replace only partitions that there are rows for.
        replace_where: With ``overwrite``: replace only rows that fulfil this SQL condition, which
            new rows must fulfil, too.
        merging: The changes of the table's columns that those of the frame may make.
        unchanged_since: The snapshot that the rows are of, as they are stored there. Refuse when a
            later one changed rows of the same buckets, or this one was rolled back.
        numbered: The commit user and its number of this commit; nothing is written if that user
            has committed that number.
        operation: The statement that writes, unless it is a plain write.

    Raises:
        Invalid: The frame does not fit the table; nothing is written.
        Conflict, OutcomeUnknown: As `Table.write`.
    """
    _check_mode(mode, partition, dynamic, replace_where)
    if merging is not None:
        table = merge_columns(table, df.schema, merging)
    if is_format_table(table):
        if replace_where is not None or numbered is not None:
            raise Unsupported(
                f"table {table.name} is a format table, which has no commits: it is only appended "
                "to or overwritten, and a repeated batch of a stream would not be noticed"
            )
        _write_files(session, df, table, mode, partition, dynamic)
        return
    df = frame_as_named(df, table.schema)
    replaced: str | None = None
    if unchanged_since is not None:
        replaced = replace_where
    elif replace_where is not None:
        replaced = _on_partitions(session, replace_where, table)
        if replaced is None:
            replace_rows(session, table, df, replace_where)
            return
    if partition is not None:
        partition = named_partition(partition, table.schema)
        partition = in_session_zone(session.spark, table.schema, partition)
        partition = with_stored_texts(session.spark, table.schema, partition)
    df = _with_partition(df, table, partition or {})
    df = with_nested_defaults(df, table.schema, table.name)
    if unchanged_since is None:
        df = with_stored_values(session.spark, df, table.schema)
    if mode == "append" and table.schema.table_options.upsert_keys and numbered is None:
        upsert_rows(session, table, df)
        return
    check_columns(df.schema, table.storage)
    options = WriteOptions(
        session.connection,
        table.name,
        mode == "overwrite",
        partition,
        dynamic,
        clustered=True,
        unchanged_since=unchanged_since,
        # Below, once for all attempts.
        compacts=False,
        numbered=numbered,
        replace_where=replaced,
        laid_over=table.laid_over,
        operation=operation,
        table_id=table.info.id,
    )
    plan = WritePlan(table.storage, options.replacement(table.schema))
    # Who says what must be unchanged plans again after a conflict.
    retries = 0 if unchanged_since is not None else plan.retries
    before = table.latest_snapshot()
    placed = partial(cluster, storage=table.storage)
    with table.storage.reporting_drop():
        until_no_conflict(retries, lambda: save_frame(session, df, options, placed))
    since = SnapshotIdentity.of(before)
    with after_commit(table.name, None, "Compacting"):
        compact_since(table.storage, table.pointer, session.executor, since, numbered=numbered)


def _write_files(
    session: CatalogSession,
    df: DataFrame,
    table: Table,
    mode: str,
    partition: Mapping[str, object] | None,
    dynamic: bool | None,
) -> None:
    overwrite = mode == "overwrite"
    if dynamic is None:
        dynamic = partition is None and table.schema.table_options.dynamic_partition_overwrite
    write_format_rows(session, table, df, overwrite=overwrite, partition=partition, dynamic=dynamic)


def _check_mode(
    mode: str,
    partition: Mapping[str, object] | None,
    dynamic: bool | None,
    replace_where: str | None,
) -> None:
    """Reject an unknown mode, and arguments about what to overwrite that do not fit it."""
    if mode not in _MODES:
        raise Invalid(f"the mode of a write is one of {', '.join(_MODES)}, not '{mode}'")
    ways = {"partition": partition, "dynamic": dynamic, "replace_where": replace_where}
    given = [name for name, value in ways.items() if value is not None]
    if mode == "append" and given:
        raise Invalid(f"{given[0]} says what to overwrite; the mode is append")
    if replace_where is not None and len(given) > 1:
        raise Invalid(f"replace_where and {given[0]} both say what to overwrite; leave one out")


def _with_partition(df: DataFrame, table: Table, partition: Mapping[str, object]) -> DataFrame:
    """A frame with the columns of a partition that it lacks."""
    for column, value in static_partition(table.storage, partition).items():
        if column not in df.columns:
            kind = table.schema.column(column).type
            told = literal(arrow_scalar(value, kind), spark_type(kind))
            df = with_another_column(df, column, told)
    return df


def _on_partitions(session: CatalogSession, condition: str, table: Table) -> str | None:
    """A condition that partitions fulfil as a whole, so that no row need be read, as our own.

    It has Spark's meaning. None where rows must be read, or Spark alone can judge it.
    """
    predicate = rows_told(session.spark, table.storage, condition, TARGET)
    if predicate is None or not columns_of(predicate) <= set(table.schema.partition_keys):
        return None
    return to_sql(predicate, table.schema)


def delete_keys(session: CatalogSession, table: Table, keys: DataFrame) -> None:
    """Delete the rows with the keys of a frame, as one commit.

    Args:
        session: The catalog's.
        table: A table with a primary key.
        keys: Has the key's columns. If it also has all NOT NULL columns and those of
            ``sequence.field``, the table is not read.

    Raises:
        Invalid: The table has no primary key, or the frame lacks columns of it.
        Conflict: Other commits changed the same rows each time.
        OutcomeUnknown: As `Table.write`.
    """
    schema = table.schema
    primary = list(schema.primary_keys)
    if not primary:
        raise Invalid(f"table {table.name} has no primary key; say what to delete by where")
    keys = frame_as_named(keys, schema)
    missing = [column for column in primary if column not in keys.columns]
    if missing:
        raise Invalid(
            f"table {table.name}: to delete by key the frame needs the columns {', '.join(missing)}"
        )
    # Keys may be stored without the spaces that CHAR is filled up with.
    fills = CharColumns.from_session(session.spark, schema.columns(primary)).fills
    required = {field.name for field in schema.fields if not field.type.nullable}
    if not fills and required.union(schema.table_options.sequence_fields) <= set(keys.columns):
        doomed = keys.withColumn(ROW_KIND_COLUMN, sf.lit("-D"))
        write_frame(session, doomed, table, "append", operation=CommitOperation.DELETE)
        return
    # A deletion is a row, too: what the frame lacks is taken from the rows it deletes.
    chosen = keys.select(*[quoted(name) for name in primary]).distinct()
    retries = schema.table_options.commit_max_retries
    until_no_conflict(retries, lambda: _delete_present(session, table, chosen))


def _delete_present(session: CatalogSession, table: Table, keys: DataFrame) -> None:
    """Delete the rows with some keys, as they are in the latest snapshot."""
    table.storage.refuse(Operation.CHANGE)
    scan = table.scan()
    if not scan.splits or scan.snapshot is None:
        return
    present = frame_of_table(session, scan)
    # Null equals null in a key column that may hold it.
    names = [quoted(name) for name in keys.columns]
    chars = CharColumns.from_session(session.spark, table.schema.columns(keys.columns))
    stored, wanted = chars.of_target(present).alias("stored"), chars.read(keys).alias("doomed")
    same = [sf.col(f"stored.{at}").eqNullSafe(sf.col(f"doomed.{at}")) for at in names]
    doomed = stored.join(wanted, on=same, how="left_semi").select(
        *[
            sf.col(quoted(chars.stored.get(name, name))).alias(name)
            for name in table.schema.field_by_name
        ]
    )
    write_frame(
        session,
        doomed.withColumn(ROW_KIND_COLUMN, sf.lit("-D")),
        table,
        "append",
        unchanged_since=scan.snapshot,
        operation=CommitOperation.DELETE,
    )
