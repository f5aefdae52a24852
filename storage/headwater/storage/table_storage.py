"""A table as storage sees it: its files, its schema, and who decides its snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from headwater.storage.errors import CorruptData, NotFound, ResourceType
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import TableLayout
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import Json

__all__ = ["PartitionStatistics", "SnapshotPointer", "TableStorage"]


@dataclass(frozen=True)
class PartitionStatistics:
    """The changes of a commit in one partition (``PartitionStatistics.java``); counts may be < 0.

    Attributes:
        spec: Column name to value as text.
        record_count: Rows added less rows deleted, before merging.
        file_size_in_bytes: Bytes added less bytes deleted.
        file_count: Files added less files deleted.
        last_file_creation_time: Milliseconds since the epoch.
        total_buckets: Buckets of the partition.
    """

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: int

    def to_json(self) -> dict[str, Json]:
        """The wire form."""
        return {
            "spec": dict(self.spec),
            "recordCount": self.record_count,
            "fileSizeInBytes": self.file_size_in_bytes,
            "fileCount": self.file_count,
            "lastFileCreationTime": self.last_file_creation_time,
            "totalBuckets": self.total_buckets,
        }


class SnapshotPointer(Protocol):
    """The owner of a table's latest snapshot: the catalog."""

    def latest(self) -> Snapshot | None:
        """The latest snapshot; None for a table that nobody wrote yet."""
        ...

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> bool:
        """Make `snapshot` the latest if `base` still is.

        Returns:
            False when another commit came first.

        Raises:
            Unavailable: The outcome is unknown; the same snapshot may be offered again.
        """
        ...


@dataclass(frozen=True)
class TableStorage:
    """Everything that reading and writing a table's files needs.

    Attributes:
        name: How errors call the table, ``database.table``.
        layout: Where its files are.
        files: How to reach them.
        schema: The schema in force, options laid over by the caller included.
        runtime: Clock and names.
    """

    name: str
    layout: TableLayout
    files: FileAccess
    schema: TableSchema
    runtime: Runtime = SYSTEM_RUNTIME
    _schemas: dict[int, TableSchema] = field(default_factory=dict, compare=False, repr=False)

    def schema_by_id(self, schema_id: int) -> TableSchema:
        """A version of the schema, from its file.

        Raises:
            CorruptData: The file is missing or malformed.
        """
        if schema_id == self.schema.id:
            return self.schema
        known = self._schemas.get(schema_id)
        if known is None:
            path = self.layout.schema(schema_id)
            try:
                known = TableSchema.from_json(self.files.read(path), path)
            except NotFound as error:
                raise CorruptData(
                    f"table {self.name} needs schema {schema_id}, but {path} does not exist"
                ) from error
            self._schemas[schema_id] = known
        return known

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """A snapshot, from its file.

        Raises:
            NotFound: There is no such snapshot: it expired or was never made.
        """
        path = self.layout.snapshot(snapshot_id)
        try:
            return Snapshot.from_json(self.files.read(path), path)
        except NotFound as error:
            raise NotFound(
                f"snapshot {snapshot_id} of table {self.name} does not exist: "
                "it expired or was never made",
                resource_type=ResourceType.SNAPSHOT,
                resource_name=str(snapshot_id),
            ) from error

    def with_schema(self, schema: TableSchema) -> TableStorage:
        """The same table with another schema in force."""
        return replace(self, schema=schema)
