"""A catalog in a Spark session."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.client.cdc import ChangeDataCapture, change_data_capture
from headwater.client.maintenance import (
    DEFAULT_ACTIONS,
    Action,
    Limits,
    MaintenancePlan,
    Rules,
    plan_maintenance,
    run_maintenance,
)
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.connection import SETTINGS, Connection, refuse_other_settings
from headwater.spark.data_source import source_class
from headwater.spark.errors import users_words
from headwater.spark.jobs.executor import SparkExecutor
from headwater.spark.live_rows import LiveRowsCache
from headwater.spark.row_change import RowCounts
from headwater.spark.schema_merging import SchemaMerging
from headwater.spark.session import enable_times, ensure_interpreter, session_settings
from headwater.spark.source.table_read import TableRead
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.declared_types import table_schema
from headwater.spark.sql.parameters import Arguments
from headwater.spark.sql.query.built_frame import (
    Build,
    built_frame,
    open_relations,
    rows_of_files,
    table_rows,
)
from headwater.spark.sql.query.cached_tables import cache_changed_tables
from headwater.spark.sql.session import run_sql
from headwater.spark.stream.batch import BatchLake, running_query
from headwater.spark.write.frame import delete_keys, write_frame
from headwater.spark.write.merge import MergeBuilder
from headwater.spark.write.update import delete_where, update_rows
from headwater.storage.errors import Invalid
from headwater.storage.maintenance.expire import ExpireResult
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["SparkLake", "connect"]


def connect(
    spark: SparkSession,
    target: str | os.PathLike[str] | None = None,
    *,
    warehouse: str | None = None,
    token: str | None = None,
    location: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> SparkLake:
    """Reach a catalog from a Spark session, and give the session ``format("headwater")``.

    The format reaches the catalog that was connected last; `SparkLake`'s own methods reach theirs.

    Args:
        spark: The session.
        target: As `headwater.client.connect` takes it: a folder, a SQL URL or a server's address.
            None takes the session's settings ``spark.headwater.…``, and where they are silent the
            environment variables ``HEADWATER_CATALOG…``; other arguments go before both.
        warehouse: The warehouse's name.
        token: The server's bearer token. Like the storage options it goes to Spark's executors.
        location: With a SQL URL, the place of the tables.
        options: The options of file access, such as ``s3.endpoint``.

    Raises:
        Invalid: The session's Python workers run another interpreter than this program; a setting
            ``spark.headwater.…`` is not known, or none names a catalog; or as
            `headwater.client.connect`.
        Forbidden, NotFound, Unavailable: As `headwater.client.connect`.
    """
    ensure_interpreter(spark)
    enable_times(spark)
    settings = session_settings(spark, SETTINGS)
    given = None if location is None else os.fspath(location)
    if target is None:
        named = Connection.of_settings(settings, os.environ)
        connection = replace(
            named,
            warehouse=named.warehouse if warehouse is None else warehouse,
            token=named.token if token is None else token,
            location=named.location if given is None else given,
            storage={**named.storage, **(options or {})},
        )
    else:
        refuse_other_settings(settings)
        connection = Connection(os.fspath(target), warehouse, token, given, dict(options or {}))
    text = connection.target
    if "://" not in text:
        # Spark's Python processes need not have this one's working directory.
        text = str(Path(text).expanduser().absolute())
    return SparkLake(spark, replace(connection, target=text, parallelism=_parallelism(spark)))


def _parallelism(spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


@checks_arguments
class SparkLake:
    """A catalog in a Spark session. Made by `connect`.

    Args:
        spark: The session.
        connection: The catalog's.
    """

    def __init__(self, spark: SparkSession, connection: Connection) -> None:
        self._session = CatalogSession(
            spark,
            connection,
            connection.open(),
            SparkExecutor(spark),
            LiveRowsCache.of(spark, connection.parallelism),
        )
        self._sql = SqlContext(self._session)
        spark.dataSource.register(source_class(connection))

    def __repr__(self) -> str:
        return f"SparkLake({self._session.connection.target!r})"

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._session.spark

    @property
    def catalog(self) -> Lake:
        """The catalog without Spark: databases, table handles, schema changes."""
        return self._session.catalog

    @property
    def cdc(self) -> ChangeDataCapture:
        """Databases that are followed into this lake, as `Lake.cdc`, with Spark's tasks to help.

        The program that calls this reads the source's log. Tasks read the tables' rows, compare
        them and write large batches: the executors need the extra ``cdc``, and must reach the
        source.

        Raises:
            Unsupported: A package that it needs is not installed.
        """
        return change_data_capture(self.catalog, self._session.executor)

    def create_table(
        self,
        name: str,
        schema: st.StructType,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
        for_another_engine: bool = False,
    ) -> Table:
        """Create a table with the columns of a Spark schema; else as `Lake.create_table`.

        Raises:
            AlreadyExists, Invalid, NotFound, Unsupported: As `Lake.create_table`.
        """
        return self.catalog.create_table(
            name,
            table_schema(schema),
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            ignore_if_exists=ignore_if_exists,
            for_another_engine=for_another_engine,
        )

    def sql(self, text: str, args: Arguments | None = None, **values: object) -> DataFrame:
        """Run a SQL statement over the catalog's tables; ``USE`` holds for later statements.

        Args:
            text: One statement.
            args: Values of the statement's parameters: a dict for ``:name``, a list for ``?``.
            **values: Frames, columns and constants that the text names in braces, ``{name}``.

        Raises:
            Invalid: The statement cannot be read; the message says where. Or a parameter has no
                value, or a value no parameter.
            Unsupported: Headwater does not know the statement.
        """
        return run_sql(text, self._sql, args, values)

    @property
    def database(self) -> str | None:
        """The database in use; None until ``USE`` chooses one."""
        return self._sql.database

    @property
    def last_query(self) -> tuple[TableRead, ...]:
        """The reads of the last query of `sql` or `query`: for each place of a table in it, the
        snapshot, columns, condition, files and bytes, and those of the whole table.
        """
        return self._sql.last_query

    # Reading ----------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: Column | str | None = None,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | str | None = None,
        watermark: int | None = None,
        version: str | None = None,
    ) -> DataFrame:
        """A table's rows as they are now; call again to see later commits.

        Files that need no merging (append tables, compacted buckets) are read by Spark's own
        Parquet scan, which reads only the columns a query needs and skips row groups by its
        filters. The others are read by Python workers, with the columns named here: name those
        that are needed.

        Args:
            name: ``database.table``.
            columns: The columns, in this order; None means all. Paimon's metadata columns may be
                among them: ``__paimon_partition``, ``__paimon_bucket`` and, of a table without a
                primary key, ``__paimon_file_path`` and ``__paimon_row_index``.
            where: A SQL condition, or a Spark column, over all columns of the table and the
                metadata columns that are named. Partitions, buckets, files and row groups without
                matching rows are not read.
            snapshot_id: As of this snapshot, with the columns of then.
            tag: As of this tag.
            timestamp: As of this time: milliseconds since the epoch, a ``datetime`` with a time
                zone, or ISO 8601 text with one.
            watermark: As of the first snapshot with at least this event-time watermark,
                milliseconds since the epoch.
            version: As of a tag, a snapshot's id or ``watermark-<milliseconds>``.

        Raises:
            NotFound: There is no such table, column, snapshot or tag.
            Invalid: `where` is not a condition, or more than one timestamp is given.
        """
        table, given = self.catalog.table(name), (snapshot_id, tag, timestamp, watermark, version)
        if not table_type(table.schema.options).has_snapshots:
            is_now = all(each is None for each in given)
            return rows_of_files(table, columns, where, self._sql, is_now=is_now)
        scanned = partial(
            table.scan, snapshot_id=snapshot_id, tag=tag, timestamp=timestamp, watermark=watermark,
            version=version,
        )  # fmt: skip
        return table_rows(table, scanned, columns, where, self._sql)

    def query(self, build: Build, *tables: str, metadata_columns: Sequence[str] = ()) -> DataFrame:
        """The frame that a function makes of tables, planned as a query of `sql` is.

        Only the columns and files that the function's filters, joins and selections need are read.

        Args:
            build: Takes a frame for each table, and gives one. It is called several times, and must
                not run the frames.
            tables: The tables, ``database.table``, as they are now.
            metadata_columns: Those of Paimon's that each frame has beside the table's own.

        Raises:
            Invalid, NotFound, Unsupported: There is no such table; or `build` runs a frame.
        """
        return built_frame(build, open_relations(tables, metadata_columns, self._sql), self._sql)

    # Writing ----------------------------------------------------------------------------------

    def write(
        self,
        df: DataFrame,
        name: str,
        mode: str = "append",
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        replace_where: str | None = None,
        merging: SchemaMerging | None = None,
    ) -> None:
        """Write a frame as one commit: upserts for a primary-key table, appended rows otherwise.

        Rows are spread by partition and bucket first, so that each bucket gets one sorted run.
        When two rows of the frame have the same key, either of them may stay. The compaction that
        is due then is a commit of its own, each bucket in a task of Spark's; tables with
        ``write-only`` leave it to others.

        Args:
            df: Rows with the table's columns, in any order and case; nullable ones may be missing.
                A column ``_ROW_KIND`` of ``+I``, ``-U``, ``+U``, ``-D`` says what each row does.
            name: ``database.table``.
            mode: ``append``, or ``overwrite`` to replace what the table holds.
            partition: With ``overwrite``: replace the partitions with these values of some or all
                partition columns, which the frame may then lack.
            dynamic: With ``overwrite``, without `partition`: replace only partitions that there
                are rows for. None takes the table's option ``dynamic-partition-overwrite``.
            replace_where: With ``overwrite``, in place of both: replace the rows that fulfil this
                SQL condition, which all rows of the frame must fulfil.
            merging: The changes of the table's columns that the frame's may make, as a commit of
                their own before; without it a column that the table lacks is refused.

        Raises:
            Invalid: The frame does not fit the table; nothing is written.
            Conflict, OutcomeUnknown: As `Table.write`.
        """
        with users_words():
            table = self.catalog.table(name)
            self._sql.note_change(table.name)
            try:
                write_frame(
                    self._session, df, table, mode, partition=partition,
                    dynamic=dynamic, replace_where=replace_where, merging=merging,
                )  # fmt: skip
            finally:
                cache_changed_tables(self._sql)

    def for_batch(self, batch_id: int, *, query: str | None = None) -> BatchLake:
        """The lake for a function of ``foreachBatch``: what it writes is written once.

        Spark calls the function again with a batch that was not noted as done before a crash.
        Writes of this object to any number of tables are then found and left out.

        Args:
            batch_id: The batch's number, as Spark passes it.
            query: The query's id; None is that of the running query. With Spark Connect it has to
                be given. It must be another for another checkpoint, as batches are counted again.

        Raises:
            Invalid: The running query is not known.
        """
        if query is None:
            query = running_query(self.spark)
        return BatchLake(self._session, query, batch_id)

    def update(
        self, name: str, set: Mapping[str, object], where: Column | str | None = None
    ) -> RowCounts:
        """Give some columns of the rows that fulfil a condition new values, as one commit.

        In an append table the files that hold such rows are written again without them, or, with
        ``deletion-vectors.enabled``, marked; the new versions go to new files. When another commit
        changes the same rows meanwhile, they are read again, up to ``commit.max-retries`` times.

        Args:
            name: ``database.table``.
            set: New values by column, or by a field of a struct column (``address.city``): Spark
                columns or SQL text over the old row; other values stand for themselves.
            where: A Spark column or SQL text; all rows without one.

        Returns:
            The number of rows that were updated.

        Raises:
            Invalid: A value does not fit its column, a column is part of the primary key, or the
                table takes rows' kinds from it ('rowkind.field').
            NotFound: A column does not exist.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: As `Table.write`.
        """
        with users_words():
            return update_rows(self._session, self.catalog.table(name), set, where)

    def merge(
        self,
        name: str,
        source: DataFrame,
        on: Column | str | Sequence[str],
        *,
        target_alias: str = "target",
        source_alias: str = "source",
    ) -> MergeBuilder:
        """Begin a merge of a source's rows into a table; `MergeBuilder.execute` does it.

        Args:
            name: ``database.table``.
            source: The source's rows; computed once.
            on: The columns in which rows that match are equal, or a condition: a Spark column or
                SQL text over ``target.…`` and ``source.…``. Columns, and SQL text that demands
                columns to be equal, let files be left out whose rows no row can match.
            target_alias: Another name for the table in conditions and values.
            source_alias: Another name for the source.

        Raises:
            NotFound: There is no such table.
        """
        return MergeBuilder(
            self._session,
            self.catalog.table(name),
            source,
            on,
            target_alias=target_alias,
            source_alias=source_alias,
        )

    def delete(
        self, name: str, where: Column | str | None = None, *, keys: DataFrame | None = None
    ) -> None:
        """Delete rows as one commit.

        Spark's tasks find the rows; in an append table they rewrite the files that hold them.

        Args:
            name: ``database.table``.
            where: Rows for which this condition is true: SQL text or a Spark column.
            keys: A frame with the primary key's columns: rows with these keys. If it also has all
                NOT NULL columns and those of ``sequence.field``, the table is not read.

        Raises:
            Invalid: Neither or both of `where` and `keys` are given; or the frame lacks columns.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: As `Table.write`.
        """
        table = self.catalog.table(name)
        if keys is not None and where is None:
            delete_keys(self._session, table, keys)
        elif where is not None and keys is None:
            with users_words():
                delete_where(self._session, table, where)
        else:
            raise Invalid("give one of where and keys, which say what to delete")

    # Maintenance ------------------------------------------------------------------------------

    def compact(
        self,
        name: str,
        partition: Mapping[str, object] | None = None,
        *,
        where: str | None = None,
        full: bool | None = None,
        order_strategy: str | None = None,
        order_by: str | Sequence[str] = (),
    ) -> Snapshot | None:
        """Rewrite files into fewer, each bucket in a task of Spark's; else as `Table.compact`.

        Rows are sorted partition by partition, each in a task.

        Returns:
            The snapshot made; None when there was nothing to do.

        Raises:
            Conflict, Invalid, Unsupported, OutcomeUnknown: As `Table.compact`.
        """
        return self.catalog.table(name).compact(
            partition, where=where, full=full, order_strategy=order_strategy, order_by=order_by,
            executor=self._session.executor,
        )  # fmt: skip

    def expire_snapshots(
        self,
        name: str,
        *,
        retain_min: int | None = None,
        retain_max: int | None = None,
        retain: timedelta | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Forget old snapshots, with Spark's tasks to delete files; else as the table's own.

        Raises:
            Invalid, Unsupported: As `Table.expire_snapshots`.
        """
        return self.catalog.table(name).expire_snapshots(
            retain_min=retain_min, retain_max=retain_max, retain=retain, limit=limit,
            dry_run=dry_run, executor=self._session.executor,
        )  # fmt: skip

    def maintain(
        self,
        *,
        include: Sequence[str] = ("*",),
        exclude: Sequence[str] = (),
        actions: Collection[Action] = DEFAULT_ACTIONS,
        rules: Rules | None = None,
        tables_at_once: int = 2,
        limits: Limits | None = None,
    ) -> MaintenancePlan:
        """Do the maintenance that is due, of many tables at once, in tasks of Spark's.

        Args:
            include: Patterns of ``database.table``, as `plan_maintenance` takes them.
            exclude: Patterns of tables that are left out.
            actions: The kinds of maintenance.
            rules: Their arguments.
            tables_at_once: The tables that are worked on at once.
            limits: The bounds of this run.

        Returns:
            The plan with what became of its steps; a step that fails keeps no other from being
            done. `headwater.client.maintenance` keeps a plan in a file, to be resumed.

        Raises:
            Invalid: A pattern of `include` matches no table.
        """
        plan = plan_maintenance(
            self.catalog, include=include, exclude=exclude, actions=actions, rules=rules
        )
        run_maintenance(
            self.catalog,
            plan,
            executor=self._session.executor,
            tables_at_once=tables_at_once,
            limits=limits,
        )
        return plan
