"""The snapshot that a commit offers.

Source: ``FileStoreCommitImpl.java``, ``Snapshot.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.commit.attempt import Attempt
from headwater.storage.commit.entries import record_count
from headwater.storage.commit.sequence_numbers import with_greatest_number
from headwater.storage.commit.writer_version import writer_version
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import Json

__all__ = ["new_snapshot"]


def new_snapshot(
    storage: TableStorage,
    user: str,
    attempt: Attempt,
    base: Snapshot | None,
    delta: Sequence[ManifestEntry],
    schema_id: int,
    base_list: tuple[str, int],
    delta_list: tuple[str, int],
    changelog_list: tuple[str, int] | None,
    index_manifest: str | None,
    next_row_id: int | None,
) -> Snapshot:
    """The snapshot of a commit.

    Args:
        storage: The table.
        user: The commit user.
        attempt: The commit.
        base: The snapshot that it builds on.
        delta: Its changes.
        schema_id: The schema in force.
        base_list: The name and the bytes of the manifest list of what was there before.
        delta_list: Those of the list of its changes.
        changelog_list: Those of the list of its changelog, if there is one.
        index_manifest: The name of the index manifest, if there is one.
        next_row_id: The id of the next row; None where rows have none.
    """
    runtime = storage.runtime
    changed = record_count(delta)
    marks = [attempt.watermark, None if base is None else base.watermark]
    known_marks = [mark for mark in marks if mark is not None]
    properties: dict[str, Json] = dict(
        with_greatest_number(storage, attempt.properties, base, delta)
    )
    statistics = attempt.statistics
    if statistics is None and base is not None and base.schema_id == schema_id:
        statistics = base.statistics
    fields: dict[str, Json] = {
        "version": 3,
        "uuid": runtime.new_uuid(),
        "id": 1 if base is None else base.id + 1,
        "schemaId": schema_id,
        "baseManifestList": base_list[0],
        "baseManifestListSize": base_list[1],
        "deltaManifestList": delta_list[0],
        "deltaManifestListSize": delta_list[1],
        "changelogManifestList": None if changelog_list is None else changelog_list[0],
        "changelogManifestListSize": None if changelog_list is None else changelog_list[1],
        "indexManifest": index_manifest,
        "commitUser": user,
        "writerVersion": writer_version(),
        "commitIdentifier": attempt.identifier,
        "commitKind": str(attempt.kind),
        "timeMillis": max(runtime.now_millis(), 0 if base is None else base.time_millis),
        "totalRecordCount": (0 if base is None else base.total_record_count) + changed,
        "deltaRecordCount": changed,
        "changelogRecordCount": record_count(attempt.changelog) if attempt.changelog else None,
        "watermark": max(known_marks) if known_marks else None,
        "statistics": statistics,
        "properties": properties or None,
        "nextRowId": next_row_id,
        "operation": None if attempt.operation is None else str(attempt.operation),
    }
    return Snapshot.from_document({k: v for k, v in fields.items() if v is not None})
