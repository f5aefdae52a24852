"""The JSON about partitions. See `…catalog.wire`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, JsonValue

from headwater.catalog.model.partitions import (
    UNKNOWN,
    CreatedPartitions,
    DroppedPartitions,
    PartitionInfo,
    Spec,
)
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.history import PartitionStatisticsModel
from headwater.catalog.wire.tables import Listed, WireModel

__all__ = [
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "DropPartitionsRequest",
    "DropPartitionsResponse",
    "ListPartitionsByFilterRequest",
    "ListPartitionsResponse",
    "PartitionModel",
    "PartitionSpecsRequest",
]

_PARTITION: dict[str, JsonValue] = {
    "spec": {"dt": "2026-01-01"},
    "recordCount": 100,
    "fileSizeInBytes": 5321,
    "fileCount": 4,
    "lastFileCreationTime": 1767225600000,
    "totalBuckets": 4,
    "done": False,
    "createdAt": 1767225600000,
    "createdBy": None,
    "updatedAt": 1767225600000,
    "updatedBy": None,
    "options": None,
}
_FILTER = (
    '{"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": '
    '{"index": 0, "name": "dt", "type": "STRING"}}, '
    '"function": "GREATER_OR_EQUAL", "literals": ["2026-01-01"]}'
)


class PartitionModel(WireModel):
    """A partition; negative numbers were never measured (``Partition.java``)."""

    model_config = example(_PARTITION)

    spec: dict[str, str]
    record_count: int = UNKNOWN
    file_size_in_bytes: int = UNKNOWN
    file_count: int = UNKNOWN
    last_file_creation_time: int = UNKNOWN
    total_buckets: int = 0
    done: bool = False
    created_at: int | None = None
    created_by: str | None = None
    updated_at: int | None = None
    updated_by: str | None = None
    options: dict[str, str] | None = None

    @staticmethod
    def of(info: PartitionInfo) -> PartitionModel:
        """The wire form."""
        return PartitionModel(
            spec=dict(info.spec),
            record_count=info.record_count,
            file_size_in_bytes=info.file_size_in_bytes,
            file_count=info.file_count,
            last_file_creation_time=info.last_file_creation_time,
            total_buckets=info.total_buckets,
            done=info.is_done,
            created_at=info.created_at,
            created_by=info.created_by,
            updated_at=info.updated_at,
            updated_by=info.updated_by,
            options=None if info.options is None else dict(info.options),
        )

    def info(self) -> PartitionInfo:
        """The partition."""
        return PartitionInfo(
            spec=self.spec,
            record_count=self.record_count,
            file_size_in_bytes=self.file_size_in_bytes,
            file_count=self.file_count,
            last_file_creation_time=self.last_file_creation_time,
            total_buckets=self.total_buckets,
            is_done=self.done,
            created_at=self.created_at,
            created_by=self.created_by,
            updated_at=self.updated_at,
            updated_by=self.updated_by,
            options=self.options,
        )


class ListPartitionsResponse(Listed[PartitionModel]):
    """Partitions."""

    model_config = example({"partitions": [_PARTITION], "nextPageToken": None})

    items: list[PartitionModel] | None = Field(default=None, alias="partitions")


class CreatePartitionsRequest(WireModel):
    """``POST …/partitions``.

    Attributes:
        partition_specs: The partitions; each names every partition column.
        ignore_if_exists: Take a partition that exists as success; null means true.
        partition_statistics: Statistics of partitions, found by their spec.
        replace_statistics: True if those numbers replace what is stored; false adds them.
    """

    model_config = example(
        {
            "partitionSpecs": [{"dt": "2026-01-01"}],
            "ignoreIfExists": True,
        }
    )

    partition_specs: list[dict[str, str]]
    ignore_if_exists: bool | None = True
    partition_statistics: list[PartitionStatisticsModel] | None = None
    replace_statistics: bool | None = None


class CreatePartitionsResponse(WireModel):
    """The created partitions, and those that existed already."""

    model_config = example({"created": [{"dt": "2026-01-01"}], "existed": []})

    created: list[dict[str, str]]
    existed: list[dict[str, str]]

    @staticmethod
    def of(result: CreatedPartitions) -> CreatePartitionsResponse:
        """The wire form."""
        return CreatePartitionsResponse(
            created=_specs(result.created), existed=_specs(result.existed)
        )


class DropPartitionsRequest(WireModel):
    """``POST …/partitions/drop``; `ignore_if_not_exists` null is true."""

    model_config = example(
        {
            "partitionSpecs": [{"dt": "2026-01-01"}],
            "ignoreIfNotExists": True,
        }
    )

    partition_specs: list[dict[str, str]]
    ignore_if_not_exists: bool | None = True


class DropPartitionsResponse(WireModel):
    """The dropped partitions, and those that did not exist."""

    model_config = example({"dropped": [{"dt": "2026-01-01"}], "missing": []})

    dropped: list[dict[str, str]]
    missing: list[dict[str, str]]

    @staticmethod
    def of(result: DroppedPartitions) -> DropPartitionsResponse:
        """The wire form."""
        return DropPartitionsResponse(
            dropped=_specs(result.dropped), missing=_specs(result.missing)
        )


class PartitionSpecsRequest(WireModel):
    """``POST …/partitions/mark`` and ``…/partitions/list-by-names``."""

    model_config = example({"specs": [{"dt": "2026-01-01"}]})

    specs: list[dict[str, str]]


class ListPartitionsByFilterRequest(WireModel):
    """``POST …/partitions/list-by-filter``.

    Attributes:
        filter: A predicate on the partition columns, Paimon's ``Predicate`` as JSON text.
        partition_name_pattern: A LIKE pattern over names.
        max_results: The size of a page; null and 0 leave it to the server.
        page_token: The `nextPageToken` of the previous page.
    """

    model_config = example({"filter": _FILTER, "maxResults": 100})

    filter: str
    partition_name_pattern: str | None = None
    max_results: int | None = Field(default=None, ge=0)
    page_token: str | None = None


def _specs(specs: Sequence[Spec]) -> list[dict[str, str]]:
    return [dict(spec) for spec in specs]
