"""Partitions as objects of the catalog: what each holds, whether it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.storage.table_storage import PartitionStatistics

__all__ = [
    "MOST_NAMES",
    "UNKNOWN",
    "CreatedPartitions",
    "DroppedPartitions",
    "PartitionInfo",
    "Partitions",
    "Spec",
]

Spec = Mapping[str, str]
"""A partition: the text of each partition column, as in its directory's name, unescaped."""

UNKNOWN = -1
"""An unknown number (``PartitionStatistics.UNKNOWN``), as is any negative one."""

MOST_NAMES = 1000
"""The most partitions that one request names (``RESTApi.listPartitionsByNames``)."""


@dataclass(frozen=True)
class PartitionInfo:
    """A partition.

    Attributes:
        spec: The partition columns' values, in the table's order.
        record_count: Rows in its files; negative when nobody measured it, like the next three.
        file_size_in_bytes: Bytes of its files.
        file_count: The number of files.
        last_file_creation_time: The creation time of the newest, milliseconds since the epoch.
        total_buckets: Its buckets; -1 when not known.
        is_done: True if it was marked as complete.
        created_at: Milliseconds since the epoch, as all times; None when not known.
        created_by: The principal who created it.
        updated_at: The last change of its numbers or its mark, milliseconds since the epoch.
        updated_by: The principal who changed them.
        options: Its own options.
    """

    spec: Spec
    record_count: int = UNKNOWN
    file_size_in_bytes: int = UNKNOWN
    file_count: int = UNKNOWN
    last_file_creation_time: int = UNKNOWN
    total_buckets: int = UNKNOWN
    is_done: bool = False
    created_at: int | None = None
    created_by: str | None = None
    updated_at: int | None = None
    updated_by: str | None = None
    options: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """As in the directory's name, unescaped: ``dt=2026-01-01/hour=5``."""
        return "/".join(f"{column}={value}" for column, value in self.spec.items())


@dataclass(frozen=True)
class CreatedPartitions:
    """The result of creating partitions: the new ones, and those that existed."""

    created: Sequence[Spec]
    existed: Sequence[Spec]


@dataclass(frozen=True)
class DroppedPartitions:
    """The result of dropping partitions: those that are gone, and those that did not exist."""

    dropped: Sequence[Spec]
    missing: Sequence[Spec]


class Partitions(Protocol):
    """The partitions of one warehouse's tables.

    Only tables with the option ``metastore.partitioned-table`` have partitions here: every commit
    keeps them up to date. All methods raise `NotFound` (TABLE) without the table, and
    `Unsupported` for any other table: read its partitions from its files instead.
    """

    def list(
        self,
        identifier: Identifier,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions in the order of their names; `pattern` is a LIKE pattern over names."""
        ...

    def list_by_names(
        self, identifier: Identifier, specs: Sequence[Spec]
    ) -> Sequence[PartitionInfo]:
        """Those of the given partitions that exist; Invalid for more than 1000."""
        ...

    def list_by_filter(
        self,
        identifier: Identifier,
        filter_json: str,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[PartitionInfo]:
        """The partitions that may match a predicate, and perhaps others.

        A page can be empty and have a token nevertheless: go on with it.

        Args:
            identifier: The table.
            filter_json: A predicate on the partition columns in Paimon's JSON
                (`headwater.storage.predicate.json_form`).
            pattern: A LIKE pattern over names.
            max_results: The size of a page.
            page_token: Of the page before.

        Raises:
            Invalid: The filter is not JSON.
        """
        ...

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

        Args:
            identifier: The table.
            specs: The partitions; each names every partition column.
            ignore_if_exists: Otherwise one that exists refuses them all.
            statistics: Statistics of partitions, found by their spec; a negative number leaves the
                stored one alone. Ignored as a whole when one is of a partition that does not
                exist: applying the others would count them twice when the report is repeated.
            replace_statistics: True if the numbers are of the whole partition; false if they are
                added to what is stored. Needed with `statistics`.

        Raises:
            AlreadyExists: One exists (PARTITION), and that is not to be ignored.
            Invalid: A spec does not name the partition columns, or a value is not of its type.
        """
        ...

    def drop(
        self,
        identifier: Identifier,
        specs: Sequence[Spec],
        *,
        ignore_if_not_exists: bool = True,
    ) -> DroppedPartitions:
        """Forget partitions; their files are left alone.

        Raises:
            NotFound: One does not exist (PARTITION), and that is not to be ignored.
        """
        ...

    def mark_done(self, identifier: Identifier, specs: Sequence[Spec]) -> None:
        """Mark partitions as complete, registering those that do not exist."""
        ...
