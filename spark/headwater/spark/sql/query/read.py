"""The plan of reading one table of a query."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.table.scan import Changes, Scan
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.source.metadata_rows import BUCKET_SCHEMA, MetadataRows
from headwater.spark.source.needs import Need
from headwater.spark.source.table_frame import divide_rows
from headwater.spark.source.table_read import Relation, TableRead, char_columns
from headwater.storage.predicate.filter import Predicate, to_sql

__all__ = ["plan_read"]


def plan_read(
    session: CatalogSession, relation: Relation, need: Need | None, time_zone: str
) -> TableRead:
    """Plan the reading of a table.

    Args:
        session: The catalog's.
        relation: The table.
        need: The part that the query needs; None for all of it.
        time_zone: The session's.
    """
    names = relation.schema.fieldNames()
    rows = relation.rows
    needed = names if need is None else need.names(relation.schema)
    if rows is None:
        read = names if relation.format_table is None else needed
        return TableRead(relation.name, None, tuple(read), None, relation)
    if relation.cached is not None and isinstance(rows, Scan):
        snapshot_id = None if rows.snapshot is None else rows.snapshot.id
        return TableRead(relation.name, snapshot_id, tuple(needed), None, relation)
    # A batch without columns would not tell Spark how many rows it has.
    needed = needed or names[:1]
    predicate: Predicate | None = None
    conditions: list[str] = []
    if isinstance(rows, Scan | Changes | MetadataRows):
        if need is not None:
            schema = rows.storage.schema
            fields = rows.partition_fields if isinstance(rows, MetadataRows) else {}
            filled = char_columns(session.spark, relation).lengths
            predicate = need.predicate(relation.schema, schema, time_zone, fields, filled=filled)
            if predicate is not None:
                conditions.append(to_sql(predicate, schema))
        if isinstance(rows, MetadataRows) and not set(needed) & set(relation.metadata):
            rows = rows.rows  # Which Spark's own scan may read.
        elif isinstance(rows, MetadataRows) and need is not None:
            bucket = need.predicate(relation.schema, BUCKET_SCHEMA, time_zone)
            if bucket is not None:
                rows = rows.in_buckets(bucket)
                conditions.append(to_sql(bucket, BUCKET_SCHEMA))
        rows = rows.narrowed(needed, predicate)
    else:
        # Logs of changes add columns of their own, and the table's columns may be lists there.
        own = [name for name in needed if name in rows.storage.schema.field_by_name]
        rows = rows.narrowed(own or names[-1:], None)
    planned = rows.rows if isinstance(rows, MetadataRows) else rows
    snapshot = planned.snapshot if isinstance(planned, Scan) else None
    return TableRead(
        relation.name,
        None if snapshot is None else snapshot.id,
        tuple(needed),
        _all_of(conditions),
        relation,
        rows,
        divide_rows(session, rows, needed),
    )


def _all_of(conditions: Sequence[str]) -> str | None:
    if len(conditions) < 2:
        return next(iter(conditions), None)
    return " AND ".join(f"({each})" for each in conditions)
