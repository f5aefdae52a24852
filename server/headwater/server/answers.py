"""The answers about tables and snapshots, from what the database has of them."""

from __future__ import annotations

from functools import lru_cache

from headwater.catalog.sql.tables.bulk_reads import StoredSnapshot, StoredTable
from headwater.catalog.wire.tables import GetTableResponse

__all__ = ["snapshot_text", "table_text"]

_REMEMBERED = 4096


@lru_cache(_REMEMBERED)
def table_text(table: StoredTable) -> bytes:
    """The JSON that tells of a table."""
    return GetTableResponse.of(table.info()).model_dump_json(by_alias=True).encode()


def snapshot_text(snapshot: StoredSnapshot) -> bytes:
    """The JSON that tells of a table's latest snapshot."""
    # Written out: it is asked for as often as anything.
    return (
        f'{{"snapshot":{{"snapshot":{snapshot.document},"recordCount":{snapshot.record_count},'
        f'"fileSizeInBytes":{snapshot.file_size_in_bytes},"fileCount":{snapshot.file_count},'
        f'"lastFileCreationTime":{snapshot.last_file_creation_time}}}}}'
    ).encode()
