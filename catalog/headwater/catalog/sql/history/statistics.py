"""Sizes of branches and partitions: updated by every commit, taken back by a rollback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    case,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Connection

from headwater.catalog.model.principal import current_name
from headwater.catalog.sql.database.column_types import SORT_NAME_LENGTH
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PartitionRow, SchemaRow, TableRow
from headwater.catalog.sql.database.prepared import (
    Change,
    Prepared,
    keyed,
    numbered,
    padded,
    run_together,
)
from headwater.catalog.sql.queries.lookup import TableRecord, table_not_found
from headwater.catalog.sql.queries.names import partition_name
from headwater.storage.errors import Conflict
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

__all__ = [
    "Growth",
    "Sizes",
    "apply_statistics",
    "chunks",
    "growing",
    "ordered_spec",
    "read_schema",
    "snapshot_row",
    "sort_name",
    "spec_key",
]

T = TypeVar("T")

_KEYS_IN_ONE_QUERY = 500
# A commit of few partitions shares a query with others.
_FEW_KEYS = 8
_PLACES_IN_ONE_STATEMENT = 32


@dataclass(frozen=True)
class Sizes:
    """The sizes of a branch, or of a partition of it."""

    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0

    def plus(self, changes: Iterable[PartitionStatistics]) -> Sizes:
        """The sizes after some changes."""
        total = self
        for change in changes:
            total = Sizes(
                total.record_count + change.record_count,
                total.file_size_in_bytes + change.file_size_in_bytes,
                total.file_count + change.file_count,
                max(total.last_file_creation_time, change.last_file_creation_time),
            )
        return total

    def known(self) -> Sizes:
        """The sizes with nothing in place of what was never measured, which is negative."""
        return Sizes(
            max(0, self.record_count),
            max(0, self.file_size_in_bytes),
            max(0, self.file_count),
            max(0, self.last_file_creation_time),
        )


def snapshot_row(
    record: TableRecord, snapshot: Snapshot, sizes: Sizes, changes: Sequence[PartitionStatistics]
) -> dict[str, str | int | None]:
    """The row of a snapshot that holds so much; its `StreamCounts` are not in it.

    Args:
        record: The table and branch.
        snapshot: The snapshot.
        sizes: The sizes of the branch's partitions with it.
        changes: The changes it made, as far as they are known.
    """
    return {
        "table_id": record.id,
        "branch": record.branch,
        "snapshot_id": snapshot.id,
        "uuid": snapshot.uuid,
        "document": snapshot.to_json(),
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "commit_kind": snapshot.commit_kind.value,
        "record_count": sizes.record_count,
        "file_size_in_bytes": sizes.file_size_in_bytes,
        "file_count": sizes.file_count,
        "last_file_creation_time": sizes.last_file_creation_time,
        "statistics": json.dumps([change.to_json() for change in changes]),
    }


@dataclass(frozen=True)
class Growth:
    """The gains and losses of a branch's partitions, and their author."""

    record: TableRecord
    changes: Sequence[PartitionStatistics]
    principal: str | None


@dataclass(frozen=True)
class _Place:
    """A partition's key."""

    table: str
    branch: str
    spec_key: str

    def columns(self) -> dict[str, str]:
        return {"table": self.table, "branch": self.branch, "spec_key": self.spec_key}


def apply_statistics(
    connection: Connection,
    context: CatalogContext,
    record: TableRecord,
    changes: Sequence[PartitionStatistics],
) -> None:
    """Add changes to the partitions' rows; the caller holds the branch row's lock."""
    growths = [Growth(record, changes, current_name())]
    run_together(connection, growing(connection, context, growths))


def growing(
    connection: Connection, context: CatalogContext, growths: Sequence[Growth]
) -> Sequence[Change]:
    """The statements that bring partitions of several tables and branches up to date.

    The rows of new partitions are inserted before this returns; what it returns changes other rows,
    and each a different one.
    """
    parts: dict[_Place, list[PartitionStatistics]] = {}
    owners: dict[_Place, Growth] = {}
    for growth in growths:
        for change in growth.changes:
            place = _Place(growth.record.id, growth.record.branch, spec_key(change.spec))
            parts.setdefault(place, []).append(change)
            owners[place] = growth
    stored = _stored_sizes(connection, list(parts))
    now = context.runtime.now_millis()
    inserts: dict[_Place, dict[str, object]] = {}
    updates: list[dict[str, str | int | None]] = []
    gone: list[dict[str, str]] = []
    for place, changes in parts.items():
        sizes = stored.get(place, Sizes()).plus(changes)
        if sizes.record_count <= 0 and sizes.file_size_in_bytes <= 0 and sizes.file_count <= 0:
            gone.append(place.columns())
            continue
        values: dict[str, str | int | None] = {
            "record_count": sizes.record_count,
            "file_size_in_bytes": sizes.file_size_in_bytes,
            "file_count": sizes.file_count,
            "last_file_creation_time": sizes.last_file_creation_time,
            "total_buckets": changes[-1].total_buckets,
            "updated_at": now,
            "updated_by": owners[place].principal,
        }
        if place in stored:
            updates.append({**place.columns(), **values})
        else:
            inserts[place] = {
                "created_at": now,
                "created_by": owners[place].principal,
                **values,
            }
    if inserts:
        keys: dict[tuple[str, str], Sequence[str]] = {}
        for place, row in inserts.items():
            owner, branch = owners[place], (place.table, place.branch)
            if branch not in keys:
                keys[branch] = _partition_keys(connection, owner.record, owner.changes)
            spec = ordered_spec(parts[place][-1].spec, keys[branch])
            row |= {
                "table_id": place.table,
                "branch": place.branch,
                "spec_key": place.spec_key,
                "spec": json.dumps(spec, ensure_ascii=False),
                "sort_name": sort_name(spec),
            }
        connection.execute(insert(PartitionRow), list(inserts.values()))
    return [
        *(Change(_updating(len(some)), numbered(some)) for some in _few(updates)),
        *(Change(_deleting(len(places)), numbered(places)) for places in _few(gone)),
    ]


def _partition_keys(
    connection: Connection, record: TableRecord, changes: Sequence[PartitionStatistics]
) -> Sequence[str]:
    # One column needs no order, and most tables have one.
    if all(len(change.spec) < 2 for change in changes):
        return ()
    return read_schema(connection, record).partition_keys


_SIZES = ("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time")
_CHANGING = (*_SIZES, "total_buckets", "updated_at", "updated_by")


def _places(count: int) -> Sequence[ColumnElement[bool]]:
    return keyed(
        count,
        table=PartitionRow.table_id,
        branch=PartitionRow.branch,
        spec_key=PartitionRow.spec_key,
    )


@cache
def _updating(count: int) -> Prepared:
    places = _places(count)
    values = {
        name: case(*((place, bindparam(f"{name}_{at}")) for at, place in enumerate(places)))
        for name in _CHANGING
    }
    return Prepared(update(PartitionRow).where(or_(*places)).values(values))


@cache
def _deleting(count: int) -> Prepared:
    return Prepared(delete(PartitionRow).where(or_(*_places(count))))


@cache
def _stored(count: int) -> Prepared:
    return Prepared(_stored_columns().where(or_(*_places(count))))


def _stored_columns() -> Select[*tuple[Any, ...]]:
    names = ("table_id", "branch", "spec_key", *_SIZES)
    return select(*(PartitionRow.__table__.columns[name] for name in names))


def _stored_sizes(connection: Connection, places: Sequence[_Place]) -> dict[_Place, Sizes]:
    stored: dict[_Place, Sizes] = {}
    by_branch: dict[tuple[str, str], list[str]] = {}
    for place in places:
        by_branch.setdefault((place.table, place.branch), []).append(place.spec_key)
    few: list[_Place] = []
    results: list[Iterable[Sequence[Any]]] = []
    for (table, branch), keys in by_branch.items():
        if len(keys) <= _FEW_KEYS:
            few += [_Place(table, branch, key) for key in keys]
            continue
        query = _stored_columns().where(
            PartitionRow.table_id == table, PartitionRow.branch == branch
        )
        for chunk in chunks(keys):
            results.append(connection.execute(query.where(PartitionRow.spec_key.in_(chunk))))
    for some in _few([place.columns() for place in few]):
        results.append(_stored(len(some)).run(connection, **numbered(some)))
    for rows in results:
        for table, branch, key, *sizes in rows:
            stored[_Place(table, branch, key)] = Sizes(*sizes).known()
    return stored


def _few(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """The rows, so many at a time as one statement names."""
    at_once = _PLACES_IN_ONE_STATEMENT
    return (padded(rows[at : at + at_once]) for at in range(0, len(rows), at_once))


def read_schema(connection: Connection, record: TableRecord) -> TableSchema:
    """The latest schema of a table and branch.

    Raises:
        NotFound: The table was purged since the record was read (TABLE).
        Conflict: Its schema was rolled back, or the branch dropped, since then.
    """
    document = connection.execute(
        select(SchemaRow.document).where(
            SchemaRow.table_id == record.id,
            SchemaRow.branch == record.branch,
            SchemaRow.schema_id == record.schema_id,
        )
    ).scalar_one_or_none()
    if document is None:
        exists = select(TableRow.id).where(TableRow.id == record.id)
        if connection.execute(exists).one_or_none() is None:
            raise table_not_found(record.identifier)
        raise Conflict(
            f"table {record.identifier} was changed meanwhile, and its schema {record.schema_id} "
            "is gone; look, then retry"
        )
    return TableSchema.from_json(document, f"schema {record.schema_id} of {record.identifier}")


def chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """The items, so many at a time as one query takes."""
    return (items[at : at + _KEYS_IN_ONE_QUERY] for at in range(0, len(items), _KEYS_IN_ONE_QUERY))


def spec_key(spec: Mapping[str, str]) -> str:
    """A partition's key: the same whatever the order of the columns."""
    return hashlib.sha256(json.dumps(dict(spec), sort_keys=True).encode()).hexdigest()


def ordered_spec(spec: Mapping[str, str], partition_keys: Sequence[str]) -> dict[str, str]:
    """A partition's columns in the table's order; clients need not keep it."""
    first = {name: spec[name] for name in partition_keys if name in spec}
    return {**first, **{name: value for name, value in spec.items() if name not in first}}


def sort_name(spec: Mapping[str, str]) -> str:
    """The beginning of a partition's name, as the index has it."""
    return partition_name(spec)[:SORT_NAME_LENGTH]
