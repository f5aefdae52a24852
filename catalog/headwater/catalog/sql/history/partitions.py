"""Partitions in the catalog's database: rows that commits keep up to date, read in name order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Row, Select, and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.partitions import (
    MOST_NAMES,
    UNKNOWN,
    CreatedPartitions,
    DroppedPartitions,
    PartitionInfo,
    Spec,
)
from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PartitionRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.partition_names import (
    EVERY_NAME,
    NameRange,
    pattern_names,
    predicate_names,
)
from headwater.catalog.sql.history.statistics import (
    chunks,
    ordered_spec,
    read_schema,
    sort_name,
    spec_key,
)
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.index_hint import along
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch, read_table
from headwater.catalog.sql.queries.names import check_page, partition_name
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.predicate.char_columns import padded_predicate
from headwater.storage.predicate.filter import ColumnRange, Predicate, may_match
from headwater.storage.predicate.json_form import predicate_from_json
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import PartitionStatistics
from headwater.storage.types.padded_text import padded_value
from headwater.storage.types.values import parse_partition_text

__all__ = ["SqlPartitions"]

# How many rows are read at once, and looked at for one page of a filtered listing.
_ROWS_IN_ONE_QUERY = 1000
_MAX_LOOKED_AT = 10_000
# The token is the last row's key and how its name begins.
_TOKEN = re.compile(r"([0-9a-f]{64})(.*)", re.DOTALL)


class SqlPartitions:
    """Implements `headwater.catalog.model.partitions.Partitions` in the database.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Settles open decisions before anything is shown.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox

    def list(
        self,
        identifier: Identifier,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions in the order of their names; all of them when `max_results` is None."""
        check_page(max_results)
        record, _ = self._table(identifier)
        names, accepts = _named(pattern)
        # Never an empty page before the end: Java's client takes it for the end.
        return self._page(record, names, accepts, max_results, page_token, most=None)

    def list_by_names(
        self, identifier: Identifier, specs: Sequence[Spec]
    ) -> Sequence[PartitionInfo]:
        """Those of the given partitions that exist; Invalid for more than 1000."""
        if len(specs) > MOST_NAMES:
            raise Invalid(f"at most {MOST_NAMES} partitions at once, not {len(specs)}")
        record, _ = self._table(identifier)
        with self._context.database.read() as connection:
            rows = _rows_of(connection, record, [spec_key(spec) for spec in specs])
        result = sorted(rows.values(), key=lambda row: (row.sort_name, row.spec_key))
        return [_info(row) for row in result]

    def list_by_filter(
        self,
        identifier: Identifier,
        filter_json: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions that may match a predicate, and perhaps others."""
        check_page(max_results)
        record, schema = self._table(identifier)
        predicate = predicate_from_json(filter_json, schema)
        names, is_named = _named(pattern)
        names = names.within(predicate_names(predicate, schema))
        matches = _matcher(predicate, schema)

        def accepts(info: PartitionInfo) -> bool:
            return (is_named is None or is_named(info)) and matches(info)

        return self._page(record, names, accepts, max_results, page_token, most=_MAX_LOOKED_AT)

    def create(
        self,
        identifier: Identifier,
        specs: Sequence[Spec],
        *,
        ignore_if_exists: bool = True,
        statistics: Sequence[PartitionStatistics] | None = None,
        replace_statistics: bool | None = None,
    ) -> CreatedPartitions:
        """Register partitions, and report what they hold; see `Partitions.create`."""
        reports = _by_key(statistics or ())
        if statistics is not None and replace_statistics is None:
            raise Invalid(
                "partition statistics need 'replaceStatistics': say whether they are added to "
                "what is stored"
            )

        def work(connection: Connection) -> CreatedPartitions:
            record, schema = self._locked(connection, identifier)
            wanted = [_checked(spec, schema, record) for spec in specs]
            keys = [spec_key(spec) for spec in wanted]
            known = set(_rows_of(connection, record, keys))
            created: list[Spec] = []
            existed: list[Spec] = []
            new: dict[str, Spec] = {}
            for key, spec, asked in zip(keys, wanted, specs, strict=True):
                if key in known or key in new:
                    if not ignore_if_exists:
                        raise _exists(identifier, spec)
                    existed.append(asked)
                else:
                    new[key] = spec
                    created.append(asked)
            self._register(connection, record, new, is_done=False)
            self._report(connection, record, reports, is_added=not replace_statistics)
            if new or reports:
                self._recorded(connection, record, EventType.CREATE_PARTITIONS, new.values())
            return CreatedPartitions(created, existed)

        return self._context.database.write(work)

    def drop(
        self, identifier: Identifier, specs: Sequence[Spec], *, ignore_if_not_exists: bool = True
    ) -> DroppedPartitions:
        """Forget partitions; their files are left alone."""

        def work(connection: Connection) -> DroppedPartitions:
            record, _ = self._locked(connection, identifier)
            asked = {spec_key(spec): spec for spec in specs}
            known = _rows_of(connection, record, list(asked))
            missing = [spec for key, spec in asked.items() if key not in known]
            if missing and not ignore_if_not_exists:
                raise NotFound(
                    f"table {identifier} has no partition "
                    f"{', '.join(partition_name(spec) for spec in missing)}; nothing was dropped",
                    resource_type=ResourceType.PARTITION,
                    resource_name=partition_name(missing[0]),
                )
            for chunk in chunks(list(known)):
                connection.execute(
                    delete(PartitionRow).where(*_here(record), PartitionRow.spec_key.in_(chunk))
                )
            if known:
                gone = [asked[key] for key in known]
                self._recorded(connection, record, EventType.DROP_PARTITIONS, gone)
            return DroppedPartitions([asked[key] for key in asked if key in known], missing)

        return self._context.database.write(work)

    def mark_done(self, identifier: Identifier, specs: Sequence[Spec]) -> None:
        """Mark partitions as complete, registering those that do not exist."""

        def work(connection: Connection) -> None:
            record, schema = self._locked(connection, identifier)
            wanted = {spec_key(spec): _checked(spec, schema, record) for spec in specs}
            known = _rows_of(connection, record, list(wanted))
            new = {key: spec for key, spec in wanted.items() if key not in known}
            self._register(connection, record, new, is_done=True)
            for chunk in chunks([key for key, row in known.items() if not row.is_done]):
                connection.execute(
                    update(PartitionRow)
                    .where(*_here(record), PartitionRow.spec_key.in_(chunk))
                    .values(is_done=True, **self._updated())
                )
            done = wanted.values()
            self._recorded(connection, record, EventType.MARK_DONE_PARTITIONS, done)

        self._context.database.write(work)

    # Reading ----------------------------------------------------------------------------------

    def _table(self, identifier: Identifier) -> tuple[TableRecord, TableSchema]:
        """A table of any type, with files that agree with what the rows say."""
        record = read_table(self._context, identifier)
        record.require_managed()
        if record.is_pending:
            # What is in the way of a snapshot's file changes nothing about the rows.
            with suppress(PlaceTaken):
                self._outbox.settle(record.id, record.branch)
        with self._context.database.read() as connection:
            return record, _partitioned(connection, record)

    def _page(
        self,
        record: TableRecord,
        names: NameRange,
        accepts: Callable[[PartitionInfo], bool] | None,
        max_results: int | None,
        token: str | None,
        *,
        most: int | None,
    ) -> Page[PartitionInfo]:
        """The next partitions that are accepted, after looking at `most` rows and no more."""
        after = _parse_token(token) if token else None
        result: list[PartitionInfo] = []
        looked_at = 0
        with self._context.database.read() as connection:
            while True:
                limit = _ROWS_IN_ONE_QUERY
                if accepts is None and max_results is not None:
                    # One more than fits shows that there is another page.
                    limit = min(limit, max_results - len(result) + 1)
                rows = connection.execute(_next_rows(record, names, after, limit)).all()
                for row in rows:
                    info = _info(row)
                    if accepts is None or accepts(info):
                        if len(result) == max_results:
                            assert after is not None
                            return Page(tuple(result), _token(*after))
                        result.append(info)
                    after = row.sort_name, row.spec_key
                if len(rows) < limit:
                    return Page(tuple(result))
                looked_at += len(rows)
                if most is not None and max_results is not None and looked_at >= most:
                    assert after is not None
                    return Page(tuple(result), _token(*after))

    # Writing ----------------------------------------------------------------------------------

    def _locked(
        self, connection: Connection, identifier: Identifier
    ) -> tuple[TableRecord, TableSchema]:
        """The table, with the lock that commits take, too."""
        seen = find_table(connection, self._context, identifier)
        lock_branch(connection, seen.id, seen.branch)
        record = find_table(connection, self._context, identifier)
        if record.id != seen.id:
            raise Conflict(f"table {identifier} was replaced by another meanwhile; retry")
        record.require_managed()
        return record, _partitioned(connection, record)

    def _register(
        self, connection: Connection, record: TableRecord, new: Mapping[str, Spec], *, is_done: bool
    ) -> None:
        if not new:
            return
        updated = self._updated()
        connection.execute(
            insert(PartitionRow),
            [
                {
                    "table_id": record.id,
                    "branch": record.branch,
                    "spec_key": key,
                    "spec": json.dumps(dict(spec), ensure_ascii=False),
                    "sort_name": sort_name(spec),
                    "record_count": UNKNOWN,
                    "file_size_in_bytes": UNKNOWN,
                    "file_count": UNKNOWN,
                    "last_file_creation_time": UNKNOWN,
                    "total_buckets": UNKNOWN,
                    "is_done": is_done,
                    "created_at": updated["updated_at"],
                    "created_by": updated["updated_by"],
                    **updated,
                }
                for key, spec in new.items()
            ],
        )

    def _report(
        self,
        connection: Connection,
        record: TableRecord,
        reports: Mapping[str, PartitionStatistics],
        *,
        is_added: bool,
    ) -> None:
        known = _rows_of(connection, record, list(reports))
        if not reports or len(known) < len(reports):
            return
        updated = self._updated()
        connection.execute(
            update(PartitionRow).where(*_here(record), PartitionRow.spec_key == bindparam("key")),
            [
                {"key": key, **updated, **_combined(known[key], report, is_added)}
                for key, report in reports.items()
            ],
        )

    def _recorded(
        self,
        connection: Connection,
        record: TableRecord,
        type_: EventType,
        specs: Collection[Spec],
    ) -> None:
        # Their names are values of the table's data.
        details = {"partitions": len(specs), **of_branch(record.branch)}
        subject = Subject.table(record.identifier, record.id)
        record_event(connection, self._context, type_, subject, details)

    def _updated(self) -> dict[str, object]:
        now = self._context.runtime.now_millis()
        return {"updated_at": now, "updated_by": current_name()}


def _partitioned(connection: Connection, record: TableRecord) -> TableSchema:
    """The schema of a table whose partitions are in the catalog; raises Unsupported."""
    schema = read_schema(connection, record)
    if not schema.table_options.partitions_in_catalog:
        raise Unsupported(
            f"the partitions of table {record.identifier} are not in the catalog: read them from "
            "its files, or set its option 'metastore.partitioned-table' to true",
            resource_type=ResourceType.TABLE,
            resource_name=str(record.identifier),
        )
    return schema


def _here(record: TableRecord) -> tuple[Any, Any]:
    return PartitionRow.table_id == record.id, PartitionRow.branch == record.branch


def _next_rows(
    record: TableRecord, names: NameRange, after: tuple[str, str] | None, limit: int
) -> Select[Any]:
    name, key = PartitionRow.sort_name, PartitionRow.spec_key
    query = select(PartitionRow.__table__).where(*_here(record), *names.clauses(name))
    if after is not None:
        # Spelled out: not every database uses an index for a comparison of rows.
        query = query.where(
            name >= after[0], or_(name > after[0], and_(name == after[0], key > after[1]))
        )
    query = along(query, PartitionRow.table_id, PartitionRow.branch, name, key)
    return query.order_by(name, key).limit(limit)


def _rows_of(
    connection: Connection, record: TableRecord, keys: Sequence[str]
) -> dict[str, Row[Any]]:
    result: dict[str, Row[Any]] = {}
    for chunk in chunks(list(dict.fromkeys(keys))):
        rows = connection.execute(
            select(PartitionRow.__table__).where(*_here(record), PartitionRow.spec_key.in_(chunk))
        )
        result |= {row.spec_key: row for row in rows}
    return result


def _info(row: Row[Any]) -> PartitionInfo:
    return PartitionInfo(
        spec=json.loads(row.spec),
        record_count=row.record_count,
        file_size_in_bytes=row.file_size_in_bytes,
        file_count=row.file_count,
        last_file_creation_time=row.last_file_creation_time,
        total_buckets=row.total_buckets,
        is_done=row.is_done,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        options=None if row.options is None else json.loads(row.options),
    )


def _token(name: str, key: str) -> str:
    return f"{key}{name}"


def _parse_token(token: str) -> tuple[str, str]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise Invalid(f"'{token}' is not a page token of a list of partitions")
    return match[2], match[1]


def _named(
    pattern: str | None,
) -> tuple[NameRange, Callable[[PartitionInfo], bool] | None]:
    if not pattern:
        return EVERY_NAME, None
    names, expression = pattern_names(pattern)
    return names, lambda info: expression.fullmatch(info.name) is not None


def _matcher(predicate: Predicate, schema: TableSchema) -> Callable[[PartitionInfo], bool]:
    options = schema.table_options
    fields = schema.partition_fields
    predicate = padded_predicate(predicate, schema)

    def matches(info: PartitionInfo) -> bool:
        ranges: dict[str, ColumnRange] = {}
        for field in fields:
            try:
                value = parse_partition_text(info.spec.get(field.name, ""), field.type, options)
            except Invalid:
                continue  # Nothing is known of a value that cannot be read.
            padded = padded_value(value, field.type)
            ranges[field.name] = ColumnRange(padded, padded, int(value is None), 1)
        return may_match(predicate, ranges)

    return matches


def _checked(spec: Spec, schema: TableSchema, record: TableRecord) -> Spec:
    """A partition in the table's order of columns; raises Invalid when it is not one."""
    if set(spec) != set(schema.partition_keys):
        raise Invalid(
            f"'{partition_name(spec)}' is not a partition of table {record.identifier}: name "
            f"exactly its partition columns, {', '.join(schema.partition_keys) or '(none)'}"
        )
    options = schema.table_options
    for field in schema.partition_fields:
        parse_partition_text(spec[field.name], field.type, options)
    return ordered_spec(spec, schema.partition_keys)


def _by_key(statistics: Sequence[PartitionStatistics]) -> dict[str, PartitionStatistics]:
    result = {spec_key(report.spec): report for report in statistics}
    if len(result) < len(statistics):
        raise Invalid("two of the partition statistics are of one partition; send them as one")
    return result


def _combined(row: Row[Any], report: PartitionStatistics, is_added: bool) -> dict[str, int]:
    """The sizes to store after a report; a negative one says nothing (``PartitionStatistics``)."""

    def counted(stored: int, reported: int) -> int:
        if reported < 0:
            return stored
        return stored + reported if is_added and stored >= 0 else reported

    newest = report.last_file_creation_time
    if is_added or newest < 0:
        newest = max(row.last_file_creation_time, newest)
    return {
        "record_count": counted(row.record_count, report.record_count),
        "file_size_in_bytes": counted(row.file_size_in_bytes, report.file_size_in_bytes),
        "file_count": counted(row.file_count, report.file_count),
        "last_file_creation_time": newest,
    }


def _exists(identifier: Identifier, spec: Spec) -> AlreadyExists:
    name = partition_name(spec)
    return AlreadyExists(
        f"partition {name} of table {identifier} exists already; nothing was created",
        resource_type=ResourceType.PARTITION,
        resource_name=name,
    )
