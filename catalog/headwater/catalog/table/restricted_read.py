"""Rows of a table as policies show them to a reader; the side of a server that reads the files."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from headwater.catalog.model.access import ReadKind, ReadRequest, RowStream
from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import acting_as
from headwater.catalog.table.audit_log import AuditLog
from headwater.catalog.table.even_batches import even_batches
from headwater.catalog.table.scan import Changes, Rows, Scan
from headwater.catalog.table.shown_changes import WholeUpdates, check_exact, parts_updates
from headwater.catalog.table.stream_read import Positions, stream_changes
from headwater.catalog.table.table import Table
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    Forbidden,
    HeadwaterError,
    Invalid,
    Unsupported,
)
from headwater.storage.files.confined import ConfinedFiles
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.predicate.filter import And, Predicate, columns_of, parse_predicate
from headwater.storage.predicate.restriction import RestrictedRows, Restriction
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.scan.split import Split
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS
from headwater.storage.schema.other_branch import OTHER_BRANCH_OPTIONS
from headwater.storage.schema.read_start import (
    BY_CREATION,
    INCREMENTAL_OPTIONS,
    START_OPTIONS,
    ReadStart,
)
from headwater.storage.schema.system_fields import TRACKING_FIELDS
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.system_tables.changes import ROW_KIND
from headwater.storage.table_storage import TableStorage

__all__ = ["CheckColumns", "open_rows"]

_LOG = logging.getLogger(__name__)

CheckColumns: TypeAlias = Callable[[TableSchema, Sequence[TableSchema], Sequence[str] | None], None]
_READING_OPTIONS = frozenset(
    {
        *START_OPTIONS,
        *INCREMENTAL_OPTIONS,
        *OTHER_BRANCH_OPTIONS,
        *CHAIN_BRANCH_OPTIONS,
        "table-read.sequence-number.enabled",
    }
)


def open_rows(
    catalog: Catalog,
    identifier: Identifier,
    request: ReadRequest,
    *,
    batch_rows: int,
    check_columns: CheckColumns,
) -> RowStream:
    """Rows of a table for whom the catalog acts, filtered and masked.

    The policies are the present ones. The whole plan is made of what the reader may know:
    filters leave files out, and so does the reader's condition on columns that are not masked; but
    neither the number of parts nor an error tells of rows that are not shown.

    Args:
        catalog: The catalog, in this process.
        identifier: The table or branch.
        request: The rows that are wanted.
        batch_rows: Rows of a batch, about.
        check_columns: Refuses columns that the caller may not select: called with the table's
            latest schema, each schema that rows are read by, and the columns that the request
            names; None for all.

    Raises:
        NotFound: No such table, column, snapshot or tag exists.
        Forbidden: A policy keeps these rows from being read.
        Invalid: The request contradicts itself, or its condition is not one.
        Conflict: The policies are others than those of `ReadRequest.policies`.
        Unsupported: The table's files are not the catalog's own.

    A file that does not lie below the table's directory is Forbidden, once it is to be read.
    """
    with acting_as(None):
        info = catalog.tables.get(identifier)
    # By the id: another table that takes the name now has policies of its own.
    access = catalog.policies.access(info.identifier)
    unknown = sorted(set(request.options) - _READING_OPTIONS)
    if unknown:
        raise Invalid(
            f"table {identifier}: options {', '.join(unknown)} do not say what is read; leave "
            "them out"
        )
    # From here on the server reads for itself; what it gives away passes `_Shown`.
    with acting_as(None):
        if info.is_external:
            raise Unsupported(
                f"table {identifier} is external, and the server does not read its files; read it "
                "with credentials of your own"
            )
        present = catalog.tables.get(branch_of(info.identifier, MAIN_BRANCH)).schema
        table = _ConfinedTable(catalog, info, options=request.options)
        changes, positions = _changes(table, request)
        rows = _chosen(table, request) if changes is None else _of_kind(changes, request.kind)
    policies = access.restriction.fingerprint
    if request.policies not in (None, policies):
        advice = "read it again"
        if request.stream is not None:
            advice = (
                "what you were shown cannot be kept by what follows: start the stream with a new "
                "checkpoint, from a full read"
            )
        raise Conflict(
            f"the policies of table {identifier} have changed since other parts of it were read; "
            f"{advice}"
        )
    for storage in rows.storages:
        access.restriction.check(str(identifier), present, storage.schema)
    asked = None if request.columns is None else [*request.columns, *request.filter_columns]
    check_columns(present, [storage.schema for storage in rows.storages], asked)
    whole = None
    if changes is not None:
        check_exact(str(identifier), changes, access.restriction)
        if changes.row_kinds and parts_updates(changes, access.restriction):
            kind = ROW_KIND_COLUMN if rows is changes else ROW_KIND
            whole = WholeUpdates(kind, changes.storage.schema.primary_keys)
    shown = _Shown(str(identifier), rows, access.restriction, request, whole)
    snapshot = rows.snapshot if isinstance(rows, Scan) else None
    return RowStream(
        shown.schema,
        rows.storage.schema.to_json(),
        None if snapshot is None else snapshot.id,
        policies,
        shown.batches(batch_rows),
        positions,
    )


class _ConfinedTable(Table):
    """A table of which only files below its own directory are read.

    Its metadata is that of its writers, and could name the files of another table.
    """

    def _make_storage(self) -> TableStorage:
        storage = super()._make_storage()
        self._files = ConfinedFiles(self._files, storage.layout.location)
        return replace(storage, files=self._files)


def _chosen(table: Table, request: ReadRequest) -> Rows:
    """All rows of the request's kind, to be narrowed."""
    if ReadStart.of(table.schema.options).mode in BY_CREATION:
        raise Unsupported(
            f"table {table.name}: a server does not read rows by the time at which their files "
            "were made; unset scan.file-creation-time-millis and scan.creation-time-millis"
        )
    scan = table.scan(
        snapshot_id=request.snapshot_id,
        tag=request.tag,
        timestamp=request.timestamp,
        watermark=request.watermark,
        version=request.version,
    )
    if request.schema_id is not None and request.schema_id != scan.storage.schema.id:
        try:
            storage = table.storage.at_schema(request.schema_id)
        except CorruptData:
            raise Invalid(f"table {table.name} has no schema {request.schema_id}") from None
        scan = Scan(storage, scan.snapshot, None, None)
    if request.kind is ReadKind.READ_OPTIMIZED:
        return scan.read_optimized()
    return AuditLog(scan) if request.kind is ReadKind.AUDIT_LOG else scan


def _of_kind(changes: Changes, kind: ReadKind) -> Rows:
    return AuditLog(changes) if kind is ReadKind.AUDIT_LOG else changes


def _changes(table: Table, request: ReadRequest) -> tuple[Changes | None, Positions | None]:
    """The changes that are wanted; None for rows of a snapshot. Of a stream, its ends besides."""
    asked = request.changes
    if request.stream is not None:
        return stream_changes(table, request, request.stream)
    if asked is None:
        return None, None
    if request.parts > 1:
        raise Invalid(f"table {table.name}: changes are in order, and have one part")
    changes = table.changes(
        _end(asked.since, asked.by_time),
        _end(asked.until, asked.by_time),
        mode=asked.mode,
        skip_overwrites=asked.skip_overwrites,
        row_kinds=asked.row_kinds,
    )
    return changes, None


def _end(end: int | str | None, by_time: bool) -> int | str | dt.datetime | None:
    if not by_time or end is None:
        return end
    if isinstance(end, str):
        raise Invalid(f"'{end}' is not a timestamp; give milliseconds since the epoch")
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=end)


class _Shown:
    """The rows of a request, as a restriction shows them.

    Args:
        name: The table's name in error messages.
        rows: All rows of the request's kind.
        restriction: The row filters and column masks.
        request: The request.
        whole: Makes parts of updates whole; None if filters part none.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        restriction: Restriction,
        request: ReadRequest,
        whole: WholeUpdates | None,
    ) -> None:
        then = rows.storage.schema
        then.columns(request.columns or ())
        where = None if request.where is None else parse_predicate(request.where, then)
        self._name = name
        self._restriction = restriction
        self._request = request
        self.schema = rows.narrowed(request.columns, None).schema
        wanted = [each for each in self.schema.names if each in then.field_by_name]
        asked = () if where is None else sorted(columns_of(where))
        numbers = sorted(
            TRACKING_FIELDS.keys() & ({*(request.columns or ()), *asked} - {*then.field_by_name})
        )
        if numbers:
            raise Forbidden(
                f"table {name}: the server does not show {' and '.join(numbers)}, which count rows "
                "that you are not shown, too; select the table's own columns"
            )
        # Permissions were asked for these.
        known = {*then.field_by_name} if request.columns is None else {*request.columns}
        unnamed = set(asked) - known - set(request.filter_columns)
        if unnamed:
            raise Invalid(
                f"'where' names {', '.join(sorted(unnamed))}, which is neither selected nor among "
                "'filterColumns'"
            )
        self._whole = whole
        keys = () if whole is None else then.primary_keys
        # At least one, for a batch to have rows.
        needed = restriction.columns_for([*wanted, *asked, *keys]) or [then.fields[0].name]
        self._rows = rows.narrowed(needed, _pushed(where, restriction, then))
        self._whole_plan = rows.narrowed(needed, _pushed(None, restriction, then))
        zone = rows.storage.runtime.time_zone
        self._shows = RestrictedRows(name, restriction, then, where, zone)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, in batches that are alike whatever was left out between them."""
        left = self._request.limit
        if left == 0:
            return
        monotonic = self._rows.storage.runtime.monotonic
        for rows in even_batches(self._read_whole(batch_rows), batch_rows, monotonic):
            rows = rows.select(self.schema.names)
            if left is not None:
                rows = rows.slice(0, left)
                left -= rows.num_rows
            yield rows.replace_schema_metadata(None)
            if left == 0:
                return

    def _read_whole(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self._read(batch_rows):
            rows = self._shows.shown(batch)
            yield rows if self._whole is None else self._whole.of(rows)
        rest = None if self._whole is None else self._whole.rest()
        if rest is not None:
            yield rest

    def _splits(self) -> Sequence[Split]:
        """The splits of the request's part.

        By which of them a part is, the reader's condition must not count: what it leaves out by the
        statistics of files that hold other rows as well would move rows to other parts.
        """
        part, parts = self._request.part, self._request.parts
        if parts == 1 or not self._restriction:
            return self._rows.splits[part::parts]
        wanted = {file.file_name for split in self._rows.splits for file in split.files}
        return [
            split
            for split in self._whole_plan.splits[part::parts]
            if any(file.file_name in wanted for file in split.files)
        ]

    def _read(self, batch_rows: int) -> Generator[pa.RecordBatch]:
        try:
            for split in self._splits():
                yield from self._rows.read_split(split, batch_rows=batch_rows)
        except HeadwaterError as error:
            if not self._restriction:
                raise
            # Its text may name partitions, files or values.
            _LOG.warning("table %s: %s", self._name, error)
            raise type(error)(
                f"table {self._name} cannot be read; the server's log has the details"
            ) from None


def _pushed(
    where: Predicate | None, restriction: Restriction, schema: TableSchema
) -> Predicate | None:
    """The predicate by which files may be left out: true of every row that is shown."""
    parts: list[Predicate] = list(restriction.pruning(schema))
    conditions: Sequence[Predicate] = where.operands if isinstance(where, And) else ()
    if where is not None and not conditions:
        conditions = (where,)
    # Masked values are not those that statistics and files hold.
    parts += [each for each in conditions if not restriction.masked(columns_of(each))]
    return And(tuple(parts)) if parts else None
