"""The JSON about a table's history: commits, snapshots, tags. See `…catalog.wire`."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, field_validator

from headwater.catalog.model.snapshots import SnapshotInfo
from headwater.catalog.model.tags import TagInfo
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import JsonObject, Listed, WireModel
from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.options import parse_duration
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, RememberedCommits

__all__ = [
    "CommitTableRequest",
    "CommitTableResponse",
    "CreateTagRequest",
    "GetLastCommitResponse",
    "GetTableSnapshotResponse",
    "GetTagResponse",
    "GetVersionSnapshotResponse",
    "ListSnapshotsResponse",
    "ListTagsResponse",
    "PartitionStatisticsModel",
    "RenameTagRequest",
    "ReplaceTagRequest",
    "RollbackSchemaRequest",
    "RollbackTableRequest",
    "SnapshotInstant",
    "TableSnapshotModel",
    "TagInstant",
    "duration_text",
    "parse_retention",
    "snapshot_from_listing",
    "snapshot_from_wire",
]

_SNAPSHOT: dict[str, JsonValue] = {
    "version": 3,
    "uuid": "5f0c7a52-3b0d-4a53-8d63-0d6a7c1f9e02",
    "id": 8,
    "schemaId": 0,
    "baseManifestList": "manifest-list-9a1e7c55-41a7-4d0c-9c7e-6f3b5f0a2b10-0",
    "deltaManifestList": "manifest-list-9a1e7c55-41a7-4d0c-9c7e-6f3b5f0a2b10-1",
    "commitUser": "ingest-orders",
    "commitIdentifier": 8,
    "commitKind": "APPEND",
    "timeMillis": 1767225600000,
    "totalRecordCount": 1200,
    "deltaRecordCount": 100,
}

_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)
# Milliseconds in each of the units that an answer uses, the largest first.
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


class PartitionStatisticsModel(WireModel):
    """The changes of a commit in one partition; -1 is not known."""

    model_config = example(
        {
            "spec": {"dt": "2026-01-01"},
            "recordCount": 100,
            "fileSizeInBytes": 5321,
            "fileCount": 4,
            "lastFileCreationTime": 1767225600000,
            "totalBuckets": 4,
        }
    )

    spec: dict[str, str | None]
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0
    total_buckets: int = 0

    @field_validator("spec", mode="before")
    @classmethod
    def _give_way(cls, spec: object) -> object:
        # Pydantic lets other threads run only while it is in Python, and there may be a hundred
        # thousand of these.
        return spec

    @staticmethod
    def of(statistics: PartitionStatistics) -> PartitionStatisticsModel:
        """The wire form."""
        return PartitionStatisticsModel(
            spec=dict(statistics.spec),
            record_count=statistics.record_count,
            file_size_in_bytes=statistics.file_size_in_bytes,
            file_count=statistics.file_count,
            last_file_creation_time=statistics.last_file_creation_time,
            total_buckets=statistics.total_buckets,
        )

    def statistics(self) -> PartitionStatistics:
        """The statistics."""
        return PartitionStatistics(
            spec={key: value for key, value in self.spec.items() if value is not None},
            record_count=self.record_count,
            file_size_in_bytes=self.file_size_in_bytes,
            file_count=self.file_count,
            last_file_creation_time=self.last_file_creation_time,
            total_buckets=self.total_buckets,
        )


class CommitTableRequest(WireModel):
    """``POST …/commit``.

    Attributes:
        table_id: The id of the table that was written; its name may belong to another table by now.
        base_snapshot_uuid: The uuid of the snapshot it builds on; null for the first, and from
            clients before 2.0.
        snapshot: The snapshot's JSON, stored as it is.
        statistics: The changes to the statistics of partitions.
    """

    model_config = example(
        {
            "tableId": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
            "baseSnapshotUuid": "c0a7f1de-7d3a-4b67-9f0e-5e2d8b1c4a01",
            "snapshot": _SNAPSHOT,
            "statistics": [
                {
                    "spec": {"dt": "2026-01-01"},
                    "recordCount": 100,
                    "fileSizeInBytes": 5321,
                    "fileCount": 4,
                    "lastFileCreationTime": 1767225600000,
                    "totalBuckets": 4,
                }
            ],
        }
    )

    table_id: str | None = None
    base_snapshot_uuid: str | None = None
    snapshot: JsonObject
    statistics: list[PartitionStatisticsModel] | None = None


class CommitTableResponse(WireModel):
    """The outcome of a commit: false when another one came first."""

    model_config = example({"success": True})

    success: bool


class TableSnapshotModel(WireModel):
    """A snapshot with the sizes of the table."""

    model_config = example(
        {
            "snapshot": _SNAPSHOT,
            "recordCount": 1200,
            "fileSizeInBytes": 63852,
            "fileCount": 48,
            "lastFileCreationTime": 1767225600000,
        }
    )

    snapshot: JsonObject
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0

    @staticmethod
    def of(info: SnapshotInfo) -> TableSnapshotModel:
        """The wire form."""
        return TableSnapshotModel(
            snapshot=dict(info.snapshot.document),
            record_count=info.record_count,
            file_size_in_bytes=info.file_size_in_bytes,
            file_count=info.file_count,
            last_file_creation_time=info.last_file_creation_time,
        )

    def info(self) -> SnapshotInfo:
        """The snapshot."""
        return SnapshotInfo(
            snapshot=Snapshot.from_document(self.snapshot, "the catalog's snapshot"),
            record_count=self.record_count,
            file_size_in_bytes=self.file_size_in_bytes,
            file_count=self.file_count,
            last_file_creation_time=self.last_file_creation_time,
        )


class GetTableSnapshotResponse(WireModel):
    """``GET …/snapshot``.

    Attributes:
        snapshot: The latest snapshot, with the sizes of the table.
    """

    model_config = example(
        {
            "snapshot": {
                "snapshot": _SNAPSHOT,
                "recordCount": 1200,
                "fileSizeInBytes": 63852,
                "fileCount": 48,
                "lastFileCreationTime": 1767225600000,
            }
        }
    )

    snapshot: TableSnapshotModel


class GetLastCommitResponse(WireModel):
    """``GET …/commits/{user}``, an addition of Headwater's."""

    model_config = example({"commitIdentifier": 8, "isUnnumbered": False, "rememberedSince": 1})

    commit_identifier: int | None = None
    is_unnumbered: Annotated[
        bool,
        Field(description="Whether there are commits of the user, and all without a number."),
    ] = False
    remembered_since: Annotated[
        int | None,
        Field(
            description="The server remembers every snapshot from this one to the latest; absent "
            "if it may have missed some in between."
        ),
    ] = None

    @classmethod
    def of(cls, commits: RememberedCommits) -> Self:
        """The answer that tells of some commits."""
        return cls(
            commit_identifier=commits.identifier,
            is_unnumbered=commits.is_unnumbered,
            remembered_since=commits.since,
        )

    def remembered(self) -> RememberedCommits:
        """The commits that the answer tells of."""
        return RememberedCommits(self.commit_identifier, self.is_unnumbered, self.remembered_since)


class GetVersionSnapshotResponse(WireModel):
    """``GET …/snapshots/{version}``."""

    model_config = example({"snapshot": _SNAPSHOT})

    snapshot: JsonObject


class ListSnapshotsResponse(Listed[JsonObject]):
    """``GET …/snapshots``, newest first."""

    model_config = example({"snapshots": [_SNAPSHOT], "nextPageToken": None})

    items: list[JsonObject] | None = Field(default=None, alias="snapshots")


class SnapshotInstant(WireModel):
    """A point in a table's history: a snapshot."""

    model_config = example({"type": "snapshot", "snapshotId": 5})

    type: Literal["snapshot"] = "snapshot"
    snapshot_id: int


class TagInstant(WireModel):
    """A point in a table's history: a tag."""

    model_config = example({"type": "tag", "tagName": "v1"})

    type: Literal["tag"] = "tag"
    tag_name: str


class RollbackTableRequest(WireModel):
    """``POST …/rollback``; `from_snapshot` must still be the latest, when it is given."""

    model_config = example(
        {
            "instant": {"type": "snapshot", "snapshotId": 5},
            "fromSnapshot": 8,
        }
    )

    instant: Annotated[SnapshotInstant | TagInstant, Field(discriminator="type")]
    from_snapshot: int | None = None


class RollbackSchemaRequest(WireModel):
    """``POST …/rollback-schema``."""

    model_config = example({"schemaId": 3})

    schema_id: int


class CreateTagRequest(WireModel):
    """``POST …/tags``.

    Attributes:
        tag_name: The tag.
        snapshot_id: The snapshot to tag; the latest when null.
        time_retained: The retention, such as ``1 d`` or ``PT24H``; null means for ever.
        snapshot_uuid: The snapshot's uuid, an addition of Headwater's: it is not found if a
            rollback has given its number to another commit.
        ignore_if_exists: In the specification, though no client sends it.
    """

    model_config = example({"tagName": "v1", "snapshotId": 8, "timeRetained": "7 d"})

    tag_name: str
    snapshot_id: int | None = None
    time_retained: str | None = None
    snapshot_uuid: str | None = None
    ignore_if_exists: bool | None = None


class ReplaceTagRequest(WireModel):
    """``POST …/tags/{tag}/replace``, an addition of Headwater's.

    Attributes:
        snapshot_id: The snapshot to tag; the latest when null.
        time_retained: How long the tag is kept from now on, as for `CreateTagRequest`.
    """

    model_config = example({"snapshotId": 9, "timeRetained": "7 d"})

    snapshot_id: int | None = None
    time_retained: str | None = None


class RenameTagRequest(WireModel):
    """``POST …/tags/{tag}/rename``, an addition of Headwater's."""

    model_config = example({"toTag": "v2"})

    to_tag: str


class GetTagResponse(WireModel):
    """A tag: its creation in milliseconds since the epoch, its retention as ISO 8601."""

    model_config = example(
        {
            "tagName": "v1",
            "snapshot": _SNAPSHOT,
            "tagCreateTime": 1767225600000,
            "tagTimeRetained": "7d",
        }
    )

    tag_name: str
    snapshot: JsonObject
    tag_create_time: int | None = None
    tag_time_retained: str | None = None

    @staticmethod
    def of(info: TagInfo) -> GetTagResponse:
        """The wire form."""
        retained = info.retained_millis
        return GetTagResponse(
            tag_name=info.name,
            snapshot=dict(info.snapshot.document),
            tag_create_time=info.created_at,
            tag_time_retained=None if retained is None else duration_text(retained),
        )

    def info(self) -> TagInfo:
        """The tag."""
        retained = self.tag_time_retained
        return TagInfo(
            name=self.tag_name,
            snapshot=Snapshot.from_document(self.snapshot, f"the catalog's tag '{self.tag_name}'"),
            created_at=self.tag_create_time,
            retained_millis=None if retained is None else parse_retention(retained),
        )


class ListTagsResponse(Listed[str]):
    """Tag names."""

    model_config = example({"tags": ["v1"], "nextPageToken": None})

    items: list[str] | None = Field(default=None, alias="tags")


def snapshot_from_wire(text: str) -> Snapshot:
    """The snapshot of a request, from its own text; raises Invalid when the JSON is not one."""
    try:
        return Snapshot.from_json(text, "the request's snapshot")
    except CorruptData as error:
        raise Invalid(error.message) from error


def duration_text(millis: int) -> str:
    """Milliseconds in the largest unit that leaves no rest: ``1d``, ``90m``, ``1500ms``.

    It is the notation of the specification's examples and of what clients send: a client that asks
    for ``1d`` reads ``1d``.
    """
    for unit, size in _UNITS.items():
        if millis and millis % size == 0:
            return f"{millis // size}{unit}"
    return f"{millis}ms"


def parse_retention(text: str) -> int:
    """Milliseconds from ISO 8601 (``P1D``, ``PT1H30M``) or from Paimon's notation (``1 d``).

    Raises:
        Invalid: The text is neither.
    """
    match = _ISO_DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return parse_duration(text, "timeRetained")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    millis = int((match[5] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + millis


def snapshot_from_listing(document: JsonObject) -> Snapshot:
    """A snapshot of a listing; raises CorruptData when it is not one."""
    return Snapshot.from_document(document, "the catalog's snapshot")
