"""A table's system tables, with the names and columns that Paimon gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.table.audit_log import AuditLog, Binlog
from headwater.catalog.table.reading import ReadableTable
from headwater.catalog.table.scan import Rows, Scan
from headwater.catalog.table.served_rows import ServedChanges, ServedScan
from headwater.storage.errors import Invalid
from headwater.storage.schema.read_start import IncrementalMode, ReadStart, StartMode
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag
from headwater.storage.system_tables.definition import aggregation_fields_table, options_table
from headwater.storage.system_tables.files import (
    buckets_table,
    file_key_ranges_table,
    files_table,
    manifests_table,
    table_indexes_table,
)
from headwater.storage.system_tables.history import (
    branches_table,
    consumers_table,
    schemas_table,
    snapshots_table,
    stored_schemas,
    tags_table,
)
from headwater.storage.system_tables.partitions import (
    PartitionRecord,
    deleted_record_counts,
    partitions_table,
)
from headwater.storage.system_tables.statistics import statistics_table
from headwater.storage.types.values import StorageValue

__all__ = ["Inspect"]


@checks_arguments
class Inspect:
    """The system tables of one table or branch; made by `Table.inspect`.

    Those of metadata are Arrow tables. Those of rows (`audit_log`, `binlog`, `ro`) are read when
    they are asked for their rows, as a scan is. Times are local times of the process's zone, as
    Paimon shows them.

    Args:
        table: The table's handle. What its options say of the snapshot to read counts here, too.
    """

    def __init__(self, table: ReadableTable) -> None:
        self.table = table

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_")]
        return f"Inspect({self.table.name}: {', '.join(names)})"

    # Its past -----------------------------------------------------------------------------------

    def snapshots(self) -> pa.Table:
        """Each snapshot that still exists."""
        table = self.table
        return snapshots_table(table.snapshots(), table.storage.runtime.time_zone)

    def schemas(self) -> pa.Table:
        """Each version of the schema."""
        storage = self.table.storage
        self.table.require_present()
        return schemas_table(stored_schemas(storage), storage.runtime.time_zone)

    def tags(self) -> pa.Table:
        """Each tag."""
        table = self.table
        table_tags = [
            Tag(tag.name, tag.snapshot, tag.created_at, tag.retained_millis) for tag in table.tags()
        ]
        return tags_table(table_tags, table.storage.runtime.time_zone)

    def branches(self) -> pa.Table:
        """Each branch, without ``main``."""
        return branches_table(self.table.storage, self.table.branches())

    def consumers(self) -> pa.Table:
        """Each consumer and the next snapshot that it reads."""
        return consumers_table(
            {info.consumer_id: info.next_snapshot for info in self.table.consumers()}
        )

    # What it is ---------------------------------------------------------------------------------

    def options(self) -> pa.Table:
        """Each option that is set."""
        return options_table(self.table.info.schema)

    def aggregation_fields(self) -> pa.Table:
        """Each column and the functions that its values are merged by."""
        return aggregation_fields_table(self.table.info.schema)

    # Its files ----------------------------------------------------------------------------------

    def files(self) -> pa.Table:
        """Each data file."""
        return files_table(self.table.storage, self._snapshot())

    def file_key_ranges(self) -> pa.Table:
        """Each data file and the first and the last key in it."""
        return file_key_ranges_table(self.table.storage, self._snapshot())

    def manifests(self) -> pa.Table:
        """Each manifest."""
        return manifests_table(self.table.storage, self._snapshot())

    def table_indexes(self) -> pa.Table:
        """Each index file: hash indexes, deletion vectors, global indexes."""
        return table_indexes_table(self.table.storage, self._snapshot())

    def buckets(self) -> pa.Table:
        """Each bucket and its size."""
        return buckets_table(self.table.storage, self._snapshot())

    def partitions(self) -> pa.Table:
        """Each partition and its size.

        ``deleted_record_count`` is the number of rows that deletion vectors delete; it is null
        where an engine did not count them.
        """
        table = self.table
        schema = table.schema
        options = schema.table_options
        infos = table.partitions_by_values()
        deleted: Mapping[tuple[StorageValue, ...], int | None] = {}
        if options.deletion_vectors_enabled:
            deleted = deleted_record_counts(table.storage, self._snapshot())
        records = [
            PartitionRecord(
                own,
                info.record_count,
                info.file_size_in_bytes,
                info.file_count,
                info.last_file_creation_time,
                info.created_at,
                info.created_by,
                info.updated_by,
                info.options,
                info.total_buckets,
                info.is_done,
                deleted.get(own, 0),
            )
            for own, info in infos.items()
        ]
        return partitions_table(table.storage, records)

    def statistics(self) -> pa.Table:
        """The statistics that an analysis made, if any: one row at most."""
        return statistics_table(self.table.storage, self._snapshot())

    def _snapshot(self) -> Snapshot | None:
        self.table.refuse_restricted("this tells of its files")
        return self.table.scan().snapshot

    # Its rows -----------------------------------------------------------------------------------

    def ro(self, columns: Sequence[str] | None = None, where: str | None = None) -> Scan:
        """The rows that need no merge: those on the highest LSM level of a primary-key table.

        Args:
            columns: The columns, in this order; None means all.
            where: A SQL condition.
        """
        return self.table.scan(columns, where).read_optimized()

    def row_tracking(self, columns: Sequence[str] | None = None, where: str | None = None) -> Scan:
        """The rows with their ids and versions, ``_ROW_ID`` and ``_SEQUENCE_NUMBER``.

        Args:
            columns: The columns, in this order; None means all.
            where: A SQL condition.

        Raises:
            Invalid: The table has no row tracking.
        """
        schema = self.table.schema
        if not schema.tracking_fields:
            raise Invalid(
                f"table {self.table.name}: its rows have no ids: 'row-tracking.enabled' is not "
                "true, and can be set only when a table is created"
            )
        return self.table.scan(schema.moved_columns if columns is None else columns, where)

    def audit_log(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
        mode: str = IncrementalMode.AUTO,
    ) -> AuditLog:
        """The table's rows after a column ``rowkind``; those that retract a key are among them.

        Args:
            columns: The table's columns, in this order; None means all.
            where: A SQL condition over the table's columns.
            since, until, mode: Give the changes between them instead, as `Table.changes` does; so
                do the table's ``incremental-…`` options.
        """
        rows = self._rows(columns, where, since, until, mode)
        if isinstance(rows, ServedScan | ServedChanges):
            return rows.audit_log()
        return AuditLog(rows)

    def binlog(
        self,
        columns: Sequence[str] | None = None,
        *,
        since: int | str | datetime | None = None,
        until: int | str | datetime | None = None,
        mode: str = IncrementalMode.AUTO,
    ) -> Binlog:
        """The audit log with both sides of each update in one row, each column being a list.

        Args:
            columns: The table's columns, in this order; None means all.
            since, until, mode: As for `audit_log`.
        """
        self.table.refuse_restricted("its binlog pairs rows that you may not see")
        return Binlog(self._rows(columns, None, since, until, mode))

    def _rows(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        since: int | str | datetime | None,
        until: int | str | datetime | None,
        mode: str,
    ) -> Rows:
        incremental = ReadStart.of(self.table.schema.options).mode is StartMode.INCREMENTAL
        if since is None and not incremental:
            return self.table.scan(columns, where)
        return self.table.changes(
            since, until, mode=mode, columns=columns, where=where, skip_overwrites=True
        )
