"""What branches and partitions hold: kept up to date by every commit, taken back by a rollback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.principal import current_principal
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.lookup import TableRecord
from headwater.catalog.sql.models import SORT_NAME_LENGTH, PartitionRow, SchemaRow
from headwater.catalog.sql.names import partition_name
from headwater.storage.schema import TableSchema
from headwater.storage.table_storage import PartitionStatistics

__all__ = [
    "Sizes",
    "apply_statistics",
    "chunks",
    "ordered_spec",
    "read_schema",
    "sort_name",
    "spec_key",
]

T = TypeVar("T")

_KEYS_IN_ONE_QUERY = 500


@dataclass(frozen=True)
class Sizes:
    """What a branch, or a partition of it, holds."""

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


def apply_statistics(
    connection: Connection,
    context: CatalogContext,
    record: TableRecord,
    changes: Sequence[PartitionStatistics],
) -> None:
    """Add changes to the partitions' rows; the caller holds the branch row's lock."""
    by_key: dict[str, list[PartitionStatistics]] = {}
    for change in changes:
        by_key.setdefault(spec_key(change.spec), []).append(change)
    stored = _stored_sizes(connection, record, list(by_key))
    now, who = context.runtime.now_millis(), current_principal()
    inserts: list[dict[str, object]] = []
    updates: list[Mapping[str, object]] = []
    gone: list[str] = []
    for key, parts in by_key.items():
        sizes = stored.get(key, Sizes()).plus(parts)
        if sizes.record_count <= 0 and sizes.file_size_in_bytes <= 0 and sizes.file_count <= 0:
            gone.append(key)
            continue
        values: dict[str, object] = {
            "record_count": sizes.record_count,
            "file_size_in_bytes": sizes.file_size_in_bytes,
            "file_count": sizes.file_count,
            "last_file_creation_time": sizes.last_file_creation_time,
            "total_buckets": parts[-1].total_buckets,
            "updated_at": now,
            "updated_by": who,
        }
        if key in stored:
            updates.append({"the_key": key, **values})
        else:
            inserts.append({"spec_key": key, "created_at": now, "created_by": who, **values})
    here = (PartitionRow.table_id == record.id, PartitionRow.branch == record.branch)
    if inserts:
        keys = _partition_keys(connection, record, changes)
        for values in inserts:
            spec = ordered_spec(by_key[str(values["spec_key"])][-1].spec, keys)
            values |= {
                "table_id": record.id,
                "branch": record.branch,
                "spec": json.dumps(spec, ensure_ascii=False),
                "sort_name": sort_name(spec),
            }
        connection.execute(insert(PartitionRow), inserts)
    if updates:
        connection.execute(
            update(PartitionRow).where(*here, PartitionRow.spec_key == bindparam("the_key")),
            updates,
        )
    for chunk in chunks(gone):
        connection.execute(delete(PartitionRow).where(*here, PartitionRow.spec_key.in_(chunk)))


def _partition_keys(
    connection: Connection, record: TableRecord, changes: Sequence[PartitionStatistics]
) -> Sequence[str]:
    # One column needs no order, and most tables have one.
    if all(len(change.spec) < 2 for change in changes):
        return ()
    return read_schema(connection, record).partition_keys


def _stored_sizes(
    connection: Connection, record: TableRecord, keys: Sequence[str]
) -> dict[str, Sizes]:
    stored: dict[str, Sizes] = {}
    for chunk in chunks(keys):
        rows = connection.execute(
            select(
                PartitionRow.spec_key,
                PartitionRow.record_count,
                PartitionRow.file_size_in_bytes,
                PartitionRow.file_count,
                PartitionRow.last_file_creation_time,
            ).where(
                PartitionRow.table_id == record.id,
                PartitionRow.branch == record.branch,
                PartitionRow.spec_key.in_(chunk),
            )
        )
        for key, *sizes in rows:
            stored[key] = Sizes(*sizes).known()
    return stored


def read_schema(connection: Connection, record: TableRecord) -> TableSchema:
    """The latest schema of a table and branch."""
    document = connection.execute(
        select(SchemaRow.document).where(
            SchemaRow.table_id == record.id,
            SchemaRow.branch == record.branch,
            SchemaRow.schema_id == record.schema_id,
        )
    ).scalar_one()
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
    """How a partition's name begins, as the index has it."""
    return partition_name(spec)[:SORT_NAME_LENGTH]
