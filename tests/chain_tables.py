"""A chain table of stock, in days and regions, and its rows."""

from __future__ import annotations

import pyarrow as pa

STOCK = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("day", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
        ("version", pa.int64()),
        ("amount", pa.int64()),
    ]
)
OPTIONS = {
    "chain-table.enabled": "true",
    "chain-table.chain-partition-keys": "day",
    "sequence.field": "version",
    "bucket": "2",
    "bucket-key": "item",
    "partition.timestamp-pattern": "$day",
    "partition.timestamp-formatter": "yyyyMMdd",
    "scan.fallback-snapshot-branch": "snapshot",
    "scan.fallback-delta-branch": "delta",
}
Row = tuple[str, str, str, int, int | None]


def rows(*found: Row) -> pa.Table:
    return pa.table([list(column) for column in zip(*found, strict=True)], schema=STOCK)
