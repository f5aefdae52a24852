"""The system table of a table's statistics (``StatisticTable.java``)."""

from __future__ import annotations

import json

import pyarrow as pa

from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.table_statistics import read_statistics
from headwater.storage.system_tables.tables import BIGINT, STRING, from_records, required
from headwater.storage.table_storage import TableStorage

__all__ = ["STATISTICS", "statistics_table"]

STATISTICS = pa.schema(
    [
        required("snapshot_id", BIGINT),
        required("schema_id", BIGINT),
        ("mergedRecordCount", BIGINT),
        ("mergedRecordSize", BIGINT),
        ("colstat", STRING),
    ]
)


def statistics_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`STATISTICS`: one row, or none when the snapshot carries no statistics.

    Raises:
        CorruptData: The statistics file is missing or malformed; the message names it.
    """
    found = None if snapshot is None else read_statistics(storage, snapshot)
    if found is None:
        return from_records(STATISTICS, [])
    columns = {name: item.to_json() for name, item in found.columns.items()}
    # As Jackson prints it.
    text = json.dumps(columns, indent=2, separators=(",", " : "), ensure_ascii=False)
    return from_records(
        STATISTICS,
        [
            (
                found.snapshot_id,
                found.schema_id,
                found.record_count,
                found.record_size,
                text if columns else "{ }",
            )
        ],
    )
