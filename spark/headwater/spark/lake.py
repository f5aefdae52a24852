"""A catalog in a Spark session."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.history import millis_of
from headwater.catalog.table.scan import Scan
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.spark.data_source import FORMAT, source_class
from headwater.spark.errors import own_errors
from headwater.spark.jobs.executor import SparkExecutor
from headwater.spark.options import Connection, ReadOptions, SplitChoice, WriteOptions
from headwater.spark.session import ensure_interpreter
from headwater.spark.source.parquet_scan import divide, native_frame
from headwater.spark.types import paimon_schema, spark_schema, spark_type
from headwater.spark.write.bucket_rows import check_columns, cluster
from headwater.storage.capabilities import Operation
from headwater.storage.errors import Invalid
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.maintenance.expire import ExpireResult
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.partition import static_partition
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.types.values import arrow_scalar

__all__ = ["SparkLake", "connect"]

_MODES = ("append", "overwrite")


def connect(
    spark: SparkSession,
    target: str | os.PathLike[str],
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
        warehouse: The warehouse's name.
        token: The server's bearer token. Like the storage options it goes to Spark's executors.
        location: With a SQL URL, the place of the tables.
        options: The options of file access, such as ``s3.endpoint``.

    Raises:
        Invalid: The session's Python workers run another interpreter than this program; or as
            `headwater.client.connect`.
        Forbidden, NotFound, Unavailable: As `headwater.client.connect`.
    """
    ensure_interpreter(spark)
    text = os.fspath(target)
    if "://" not in text:
        # Spark's Python processes need not have this one's working directory.
        text = str(Path(text).expanduser().absolute())
    connection = Connection(
        text,
        warehouse,
        token,
        None if location is None else os.fspath(location),
        dict(options or {}),
        _parallelism(spark),
    )
    return SparkLake(spark, connection)


def _parallelism(spark: SparkSession) -> int:
    context = getattr(spark, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


class SparkLake:
    """A catalog in a Spark session. Made by `connect`.

    Args:
        spark: The session.
        connection: The catalog's.
    """

    def __init__(self, spark: SparkSession, connection: Connection) -> None:
        self._spark = spark
        self._connection = connection
        self._catalog = connection.open()
        self._executor = SparkExecutor(spark)
        # A name of its own, as another catalog may be connected to the same session.
        settings = json.dumps([repr(connection), connection.token, dict(connection.storage)])
        self._format = f"{FORMAT}_{hashlib.sha256(settings.encode()).hexdigest()[:12]}"
        for name in (FORMAT, self._format):
            spark.dataSource.register(source_class(connection, name))

    def __repr__(self) -> str:
        return f"SparkLake({self._connection.target!r})"

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def catalog(self) -> Lake:
        """The catalog without Spark: databases, table handles, schema changes."""
        return self._catalog

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
        return self._catalog.create_table(
            name,
            paimon_schema(schema),
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            ignore_if_exists=ignore_if_exists,
            for_another_engine=for_another_engine,
        )

    # Reading ----------------------------------------------------------------------------------

    def table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
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
            columns: The columns, in this order; None means all.
            where: A SQL condition. Partitions, buckets, files and row groups without matching rows
                are not read.
            snapshot_id: As of this snapshot, with the columns of then.
            tag: As of this tag.
            timestamp: As of this moment: milliseconds since the epoch, a ``datetime`` with a time
                zone, or ISO 8601 text with one.
            watermark: As of the first snapshot with at least this event-time watermark,
                milliseconds since the epoch.
            version: As of a tag, a snapshot's id or ``watermark-<milliseconds>``.

        Raises:
            NotFound: There is no such table, column, snapshot or tag.
            Invalid: `where` is not a condition, or more than one moment is given.
        """
        scan = self._catalog.table(name).scan(
            columns,
            where,
            snapshot_id=snapshot_id,
            tag=tag,
            timestamp=timestamp,
            watermark=watermark,
            version=version,
        )
        if isinstance(scan, BranchScan):
            moment = {
                "scan.snapshot-id": snapshot_id,
                "scan.tag-name": tag,
                "scan.timestamp-millis": None if timestamp is None else millis_of(timestamp),
                "scan.watermark": watermark,
                "scan.version": version,
            }
            start = {key: str(value) for key, value in moment.items() if value is not None}
            return self._frame_of_branches(name, scan, where, start)
        return self._frame(name, scan, where)

    def _frame_of_branches(
        self, name: str, scan: BranchScan, where: str | None, start: Mapping[str, str]
    ) -> DataFrame:
        """Rows of two branches, by Python workers: the source chooses both snapshots on loading."""
        options = ReadOptions(name, start, tuple(scan.schema.names), where)
        with own_errors():
            return self._spark.read.format(self._format).options(**options.to_options()).load(name)

    def _frame(self, name: str, scan: Scan, where: str | None) -> DataFrame:
        storage, names = scan.storage, scan.schema.names
        schema = spark_schema(storage.schema.columns(names))
        if not scan.splits or scan.snapshot is None:
            return self._spark.createDataFrame([], schema)
        choice = SplitChoice.ALL
        if where is None:
            division = divide(storage, scan.splits, names)
            native = division.native
            if native and not division.python:
                return native_frame(self._spark, storage, native, names)
            if native:
                choice = SplitChoice.PYTHON
        options = ReadOptions(
            name,
            columns=tuple(names),
            where=where,
            splits=choice,
            chosen=(scan.snapshot, storage.schema.id),
            created_since=scan.created_since,
        )
        with own_errors():
            merged = (
                self._spark.read.format(self._format)
                .schema(schema)
                .options(**options.to_options())
                .load(name)
            )
        if choice is SplitChoice.ALL:
            return merged
        return native_frame(self._spark, storage, native, names).union(merged)

    # Writing ----------------------------------------------------------------------------------

    def write(
        self,
        df: DataFrame,
        name: str,
        mode: str = "append",
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
    ) -> None:
        """Write a frame as one commit: upserts for a primary-key table, appended rows otherwise.

        Rows are spread by partition and bucket first, so that each bucket gets one sorted run.
        When two rows of the frame have the same key, either of them may stay. The compaction that
        is due then is a commit of its own, each bucket in a task of Spark's; tables with
        ``write-only`` leave it to others.

        Args:
            df: Rows with the table's columns, in any order; nullable ones may be missing. A
                column ``_ROW_KIND`` of ``+I``, ``-U``, ``+U``, ``-D`` says what each row does.
            name: ``database.table``.
            mode: ``append``, or ``overwrite`` to replace what the table holds.
            partition: With ``overwrite``: replace the partitions with these values of some or all
                partition columns, which the frame may then lack.
            dynamic: With ``overwrite``, without `partition`: replace only partitions that there
                are rows for. None takes the table's option ``dynamic-partition-overwrite``.

        Raises:
            Invalid: The frame does not fit the table; nothing is written.
            Conflict, OutcomeUnknown: As `Table.write`.
        """
        table = self._catalog.table(name)
        self._write(df, table, mode, partition=partition, dynamic=dynamic)

    def _write(
        self,
        df: DataFrame,
        table: Table,
        mode: str,
        *,
        partition: Mapping[str, object] | None = None,
        dynamic: bool | None = None,
        unchanged_since: Snapshot | None = None,
    ) -> None:
        if mode not in _MODES:
            raise Invalid(f"the mode of a write is one of {', '.join(_MODES)}, not '{mode}'")
        if mode == "append" and (partition is not None or dynamic is not None):
            raise Invalid("partition and dynamic say what to overwrite; the mode is append")
        for column, value in static_partition(table.storage, partition or {}).items():
            if column not in df.columns:
                data_type = table.schema.column(column).type
                literal = sf.lit(arrow_scalar(value, data_type).as_py())
                df = df.withColumn(column, literal.cast(spark_type(data_type)))
        check_columns(df, table.storage)
        options = WriteOptions(
            self._connection,
            table.name,
            mode == "overwrite",
            partition,
            dynamic,
            clustered=True,
            unchanged_since=unchanged_since,
            # The process that commits has no session to compact with.
            compacts=False,
        )
        before = table.latest_snapshot()
        with own_errors():
            (
                cluster(df, table.storage)
                .write.format(self._format)
                .mode(mode)
                .options(**options.to_options())
                .save(table.name)
            )
        since = SnapshotIdentity.of(before)
        compact_since(table.storage, table.pointer, self._executor, since)

    def delete(self, name: str, where: str | None = None, *, keys: DataFrame | None = None) -> None:
        """Delete rows as one commit.

        Spark's tasks find the rows; in an append table they rewrite the files that hold them.

        Args:
            name: ``database.table``.
            where: Rows for which this SQL condition is true.
            keys: A frame with the primary key's columns: rows with these keys. If it also has all
                NOT NULL columns and those of ``sequence.field``, the table is not read.

        Raises:
            Invalid: Neither or both of `where` and `keys` are given; or the frame lacks columns.
            Conflict: Other commits changed the same rows each time.
            OutcomeUnknown: As `Table.write`.
        """
        table = self._catalog.table(name)
        if keys is not None and where is None:
            self._delete_keys(table, keys)
        elif where is not None and keys is None:
            table.delete(where, executor=self._executor)
        else:
            raise Invalid("give one of where and keys, which say what to delete")

    def _delete_keys(self, table: Table, keys: DataFrame) -> None:
        schema = table.schema
        primary = list(schema.primary_keys)
        if not primary:
            raise Invalid(f"table {table.name} has no primary key; say what to delete by where")
        missing = [column for column in primary if column not in keys.columns]
        if missing:
            raise Invalid(
                f"table {table.name}: to delete by key the frame needs the columns "
                f"{', '.join(missing)}"
            )
        required = {field.name for field in schema.fields if not field.type.nullable}
        if required.union(schema.table_options.sequence_fields) <= set(keys.columns):
            self._write(keys.withColumn(ROW_KIND_COLUMN, sf.lit("-D")), table, "append")
            return
        # A deletion is a row, too: what the frame lacks is taken from the rows it deletes.
        chosen = keys.select(*primary).distinct()
        retries = schema.table_options.commit_max_retries
        until_no_conflict(retries, lambda: self._delete_present(table, chosen))

    def _delete_present(self, table: Table, keys: DataFrame) -> None:
        """Delete the rows with some keys, as they are in the latest snapshot."""
        table.storage.refuse(Operation.CHANGE)
        scan = table.scan()
        if not scan.splits or scan.snapshot is None:
            return
        present = self._frame(table.name, scan, None)
        # Null equals null in a key column that may hold it.
        names = ["`" + name.replace("`", "``") + "`" for name in keys.columns]
        same = [sf.col(f"stored.{at}").eqNullSafe(sf.col(f"doomed.{at}")) for at in names]
        doomed = present.alias("stored").join(keys.alias("doomed"), on=same, how="left_semi")
        self._write(
            doomed.withColumn(ROW_KIND_COLUMN, sf.lit("-D")),
            table,
            "append",
            unchanged_since=scan.snapshot,
        )

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
        return self._catalog.table(name).compact(
            partition,
            where=where,
            full=full,
            order_strategy=order_strategy,
            order_by=order_by,
            executor=self._executor,
        )

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
        return self._catalog.table(name).expire_snapshots(
            retain_min=retain_min, retain_max=retain_max, retain=retain, limit=limit,
            dry_run=dry_run, executor=self._executor,
        )  # fmt: skip
