"""Partitions behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.partitions import (
    CreatedPartitions,
    DroppedPartitions,
    PartitionInfo,
    Spec,
)
from headwater.catalog.wire.history import PartitionStatisticsModel
from headwater.catalog.wire.partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DropPartitionsRequest,
    DropPartitionsResponse,
    ListPartitionsByFilterRequest,
    ListPartitionsResponse,
    PartitionModel,
    PartitionSpecsRequest,
)
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging, table_headers, table_path
from headwater.storage.table_storage import PartitionStatistics

__all__ = ["RestPartitions"]


class RestPartitions:
    """Implements `headwater.catalog.model.partitions.Partitions` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        identifier: Identifier,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions in the order of their names."""
        params = paging(max_results, page_token, partitionNamePattern=pattern)
        return _page(
            self._requests.get(ListPartitionsResponse, params, *_path(identifier), of=identifier)
        )

    def list_by_names(
        self, identifier: Identifier, specs: Sequence[Spec]
    ) -> Sequence[PartitionInfo]:
        """Those of the given partitions that exist; Invalid for more than 1000."""
        body = PartitionSpecsRequest(specs=_dicts(specs))
        answer = self._requests.post(
            ListPartitionsResponse, body, *_path(identifier), "list-by-names", of=identifier
        )
        return _page(answer).items

    def list_by_filter(
        self,
        identifier: Identifier,
        filter_json: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions that may match a predicate, and perhaps others."""
        paging(max_results, page_token)  # refuses a page that can hold nothing
        body = ListPartitionsByFilterRequest(
            filter=filter_json,
            partition_name_pattern=pattern,
            max_results=max_results,
            page_token=page_token,
        )
        return _page(
            self._requests.post(
                ListPartitionsResponse, body, *_path(identifier), "list-by-filter", of=identifier
            )
        )

    def create(
        self,
        identifier: Identifier,
        specs: Sequence[Spec],
        *,
        ignore_if_exists: bool = True,
        statistics: Sequence[PartitionStatistics] | None = None,
        replace_statistics: bool | None = None,
    ) -> CreatedPartitions:
        """Register partitions, and report what they hold.

        Numbers that are added are sent once and not repeated: twice would count them twice. After
        `Unavailable` it is not known whether they were added.
        """
        body = CreatePartitionsRequest(
            partition_specs=_dicts(specs),
            ignore_if_exists=ignore_if_exists,
            partition_statistics=None
            if statistics is None
            else [PartitionStatisticsModel.of(item) for item in statistics],
            replace_statistics=replace_statistics,
        )
        if not statistics or replace_statistics:
            answer = self._requests.post(
                CreatePartitionsResponse, body, *_path(identifier), of=identifier
            )
        else:
            transport = self._requests.connected().transport
            path = self._requests.path(*_path(identifier))
            headers = table_headers(identifier)
            sent = transport.send("POST", path, body=body, headers=headers)
            answer = sent.read(CreatePartitionsResponse)
        return CreatedPartitions(answer.created, answer.existed)

    def drop(
        self, identifier: Identifier, specs: Sequence[Spec], *, ignore_if_not_exists: bool = True
    ) -> DroppedPartitions:
        """Forget partitions; their files are left alone."""
        body = DropPartitionsRequest(
            partition_specs=_dicts(specs), ignore_if_not_exists=ignore_if_not_exists
        )
        answer = self._requests.post(
            DropPartitionsResponse, body, *_path(identifier), "drop", of=identifier
        )
        return DroppedPartitions(answer.dropped, answer.missing)

    def mark_done(self, identifier: Identifier, specs: Sequence[Spec]) -> None:
        """Mark partitions as complete, registering those that do not exist."""
        body = PartitionSpecsRequest(specs=_dicts(specs))
        self._requests.post(Empty, body, *_path(identifier), "mark", of=identifier)


def _path(identifier: Identifier) -> tuple[str, ...]:
    return *table_path(identifier), "partitions"


def _dicts(specs: Sequence[Spec]) -> list[dict[str, str]]:
    return [dict(spec) for spec in specs]


def _page(answer: ListPartitionsResponse) -> Page[PartitionInfo]:
    return answer.page().map(PartitionModel.info)
