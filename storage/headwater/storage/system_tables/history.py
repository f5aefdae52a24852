"""The system tables of a table's past: snapshots, schemas, tags, branches, consumers.

Source: ``SnapshotsTable.java``, ``SchemasTable.java``, ``TagsTable.java``, ``BranchesTable.java``,
``ConsumersTable.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from headwater.storage.files.layout import TableLayout
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag
from headwater.storage.system_tables.tables import (
    BIGINT,
    STRING,
    TIMESTAMP,
    from_records,
    required,
)
from headwater.storage.system_tables.texts import duration_text, flat_json, local_times
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.local_time import Zone

__all__ = [
    "BRANCHES",
    "CONSUMERS",
    "SCHEMAS",
    "SNAPSHOTS",
    "TAGS",
    "branches_table",
    "consumers_table",
    "schemas_table",
    "snapshots_table",
    "stored_schemas",
    "tags_table",
]

SNAPSHOTS = pa.schema(
    [
        required("snapshot_id", BIGINT),
        required("schema_id", BIGINT),
        required("commit_user", STRING),
        required("commit_identifier", BIGINT),
        required("commit_kind", STRING),
        required("commit_time", TIMESTAMP),
        required("base_manifest_list", STRING),
        required("delta_manifest_list", STRING),
        ("changelog_manifest_list", STRING),
        ("total_record_count", BIGINT),
        ("delta_record_count", BIGINT),
        ("changelog_record_count", BIGINT),
        ("watermark", BIGINT),
        ("next_row_id", BIGINT),
        ("operation", STRING),
    ]
)
SCHEMAS = pa.schema(
    [
        required("schema_id", BIGINT),
        required("fields", STRING),
        required("partition_keys", STRING),
        required("primary_keys", STRING),
        required("options", STRING),
        ("comment", STRING),
        required("update_time", TIMESTAMP),
    ]
)
TAGS = pa.schema(
    [
        required("tag_name", STRING),
        required("snapshot_id", BIGINT),
        required("schema_id", BIGINT),
        required("commit_time", TIMESTAMP),
        ("record_count", BIGINT),
        ("create_time", TIMESTAMP),
        ("time_retained", STRING),
    ]
)
BRANCHES = pa.schema([required("branch_name", STRING), required("create_time", TIMESTAMP)])
CONSUMERS = pa.schema([required("consumer_id", STRING), required("next_snapshot_id", BIGINT)])


def snapshots_table(snapshots: Iterable[Snapshot], zone: Zone) -> pa.Table:
    """`SNAPSHOTS`, by id.

    Args:
        snapshots: Those that still exist.
        zone: The zone of ``commit_time``.
    """
    found = sorted(snapshots, key=lambda snapshot: snapshot.id)
    times = local_times((snapshot.time_millis for snapshot in found), zone)
    return from_records(
        SNAPSHOTS,
        (
            (
                snapshot.id,
                snapshot.schema_id,
                snapshot.commit_user,
                snapshot.commit_identifier,
                str(snapshot.commit_kind),
                time,
                snapshot.base_manifest_list,
                snapshot.delta_manifest_list,
                snapshot.changelog_manifest_list,
                snapshot.document.get("totalRecordCount"),
                snapshot.document.get("deltaRecordCount"),
                snapshot.changelog_record_count,
                snapshot.watermark,
                snapshot.next_row_id,
                snapshot.document.get("operation"),
            )
            for snapshot, time in zip(found, times, strict=True)
        ),
    )


def stored_schemas(storage: TableStorage) -> list[TableSchema]:
    """The versions of a table's schema that have files, by id.

    Raises:
        CorruptData: A file is malformed.
    """
    names = (status.name for status in storage.files.list(storage.layout.schema_directory))
    numbers = (name.removeprefix("schema-") for name in names if name.startswith("schema-"))
    ids = sorted(int(number) for number in numbers if number.isdecimal())
    paths = [storage.layout.schema(number) for number in ids]
    return [TableSchema.from_json(storage.files.read(path), path) for path in paths]


def schemas_table(schemas: Sequence[TableSchema], zone: Zone) -> pa.Table:
    """`SCHEMAS`, in the given order.

    Args:
        schemas: The versions of the schema.
        zone: The zone of ``update_time``.
    """
    times = local_times((schema.time_millis for schema in schemas), zone)
    return from_records(
        SCHEMAS,
        (
            (
                schema.id,
                flat_json([field.to_json() for field in schema.fields]),
                flat_json(list(schema.partition_keys)),
                flat_json(list(schema.primary_keys)),
                flat_json(dict(schema.options)),
                schema.comment,
                time,
            )
            for schema, time in zip(schemas, times, strict=True)
        ),
    )


def tags_table(tags: Iterable[Tag], zone: Zone) -> pa.Table:
    """`TAGS`, by name.

    Args:
        tags: The tags.
        zone: The zone of ``commit_time`` and ``create_time``.
    """
    found = sorted(tags, key=lambda tag: tag.name)
    committed = local_times((tag.snapshot.time_millis for tag in found), zone)
    created = local_times((tag.created_at for tag in found), zone)
    return from_records(
        TAGS,
        (
            (
                tag.name,
                tag.snapshot.id,
                tag.snapshot.schema_id,
                commit_time,
                tag.snapshot.document.get("totalRecordCount"),
                create_time,
                None if tag.retained_millis is None else duration_text(tag.retained_millis),
            )
            for tag, commit_time, create_time in zip(found, committed, created, strict=True)
        ),
    )


def branches_table(storage: TableStorage, names: Iterable[str]) -> pa.Table:
    """`BRANCHES`, by name.

    Object stores keep no times of directories: a branch is as old as its oldest schema file.

    Args:
        storage: The table.
        names: The names of its branches, without ``main``.
    """
    branches = sorted(names)
    made: list[int | None] = []
    for name in branches:
        layout = TableLayout(storage.layout.location, name)
        files = storage.files.list(layout.schema_directory)
        made.append(min((status.modified_millis for status in files), default=0))
    times = local_times(made, storage.runtime.time_zone)
    return from_records(BRANCHES, zip(branches, times, strict=True))


def consumers_table(positions: Mapping[str, int]) -> pa.Table:
    """`CONSUMERS`, by id.

    Args:
        positions: The next snapshot of each consumer.
    """
    return from_records(CONSUMERS, sorted(positions.items()))
