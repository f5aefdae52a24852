"""The catalog's contract: what a table is and where it lives, whoever answers.

`headwater.catalog.sql.SqlCatalog` answers from a SQL database, `headwater.client.rest.RestCatalog`
over HTTP; one behaviour suite runs over both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.catalog.model.branches import Branches
from headwater.catalog.model.dropped_tables import DroppedTables
from headwater.catalog.model.functions import Functions
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.partitions import Partitions
from headwater.catalog.model.permissions import Permissions
from headwater.catalog.model.protection import Protection
from headwater.catalog.model.views import Views
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

__all__ = [
    "Catalog",
    "ConsumerInfo",
    "ConsumerLag",
    "DatabaseInfo",
    "Page",
    "SnapshotInfo",
    "TableInfo",
    "TagInfo",
]


@dataclass(frozen=True)
class DatabaseInfo:
    """A database: ``id`` is a UUID, ``location`` a URI, times are milliseconds."""

    id: str
    name: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


@dataclass(frozen=True)
class TableInfo:
    """A table as the catalog has it: ``id`` is a UUID, ``path`` a URI, times are milliseconds."""

    id: str
    identifier: Identifier
    path: str
    is_external: bool
    schema: TableSchema
    owner: str | None = None
    created_at: int = 0
    created_by: str | None = None
    updated_at: int = 0
    updated_by: str | None = None


@dataclass(frozen=True)
class SnapshotInfo:
    """A table's latest snapshot with the sizes the catalog keeps for it."""

    snapshot: Snapshot
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0


@dataclass(frozen=True)
class TagInfo:
    """A named snapshot.

    Attributes:
        name: The tag.
        snapshot: What it names.
        created_at: Milliseconds since the epoch, or None for a tag that does not say.
        retained_millis: How long it is kept; None is for ever.
    """

    name: str
    snapshot: Snapshot
    created_at: int | None = None
    retained_millis: int | None = None


@dataclass(frozen=True)
class ConsumerLag:
    """How far a consumer is behind.

    Attributes:
        snapshots: Snapshots not yet consumed.
        records: Rows that a stream has yet to read of them; None when not known.
        millis: How long ago the oldest of them was committed; None when not known.
    """

    snapshots: int
    records: int | None = None
    millis: int | None = None


@dataclass(frozen=True)
class ConsumerInfo:
    """A saved position in a table's history.

    Attributes:
        consumer_id: The name readers use.
        next_snapshot: The first snapshot not yet consumed.
        updated_at: When it last moved, milliseconds since the epoch; None when not known.
        lag: How far it is behind; None from a catalog that does not tell.
    """

    consumer_id: str
    next_snapshot: int
    updated_at: int | None = None
    lag: ConsumerLag | None = None


class Catalog(Protocol):
    """Databases, tables, snapshots, tags and consumers of one warehouse.

    Methods raise `NotFound` with the resource type of what is missing, `AlreadyExists`,
    `Invalid`, `Forbidden`, `Unavailable`. Names in listings may be narrowed with a SQL LIKE
    pattern (``%`` and ``_``, backslash escapes).
    """

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What file access needs to reach the warehouse (endpoint, credentials); never log it."""
        ...

    @property
    def branches(self) -> Branches:
        """The branches of tables."""
        ...

    @property
    def partitions(self) -> Partitions:
        """The partitions of tables that keep them in the catalog."""
        ...

    @property
    def views(self) -> Views:
        """The views."""
        ...

    @property
    def functions(self) -> Functions:
        """The functions."""
        ...

    @property
    def permissions(self) -> Permissions:
        """The grants: records, which nothing enforces."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...

    @property
    def dropped_tables(self) -> DroppedTables:
        """Dropped tables that can be restored."""
        ...

    @property
    def protection(self) -> Protection:
        """Flags that refuse drops."""
        ...

    # Databases

    def list_databases(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names."""
        ...

    def create_database(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database."""
        ...

    def get_database(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        ...

    def alter_database(
        self, name: str, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove options."""
        ...

    def drop_database(self, name: str) -> None:
        """Drop a database with all tables, views and functions in it."""
        ...

    # Tables

    def list_tables(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Table names, of one type (option ``type``) if so asked."""
        ...

    def list_table_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[TableInfo]:
        """Tables with their latest schemas."""
        ...

    def list_tables_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The tables of all databases, in the order of database and name."""
        ...

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; Invalid when the schema is not allowed."""
        ...

    def get_table(self, identifier: Identifier) -> TableInfo:
        """A table with its latest schema; NotFound (TABLE)."""
        ...

    def get_table_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        ...

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Apply changes, all or none; one new schema version."""
        ...

    def replace_table(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay.

        Its partition keys stay, too: Unsupported otherwise, and for a table that is external or
        not made of Paimon's files.
        """
        ...

    def register_table(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name.

        Outside the warehouse it becomes an external table, inside it one of the catalog's own.
        """
        ...

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name, and another database if so asked."""
        ...

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files."""
        ...

    # Snapshots

    def commit_snapshot(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Make `snapshot` the latest, if the latest still is the one with `base_uuid`.

        Returns:
            False on a conflict: another commit came first. A replay of the latest snapshot's own
            uuid answers True.

        Raises:
            NotFound: No such table, or `table_id` is not its id.
            Unavailable: The outcome is unknown; offer the same snapshot again.
        """
        ...

    def latest_snapshot(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot; None for a table without one. Its file is on storage."""
        ...

    def get_snapshot(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        ...

    def list_snapshots(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that still exist, newest first."""
        ...

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; later ones and their tags go away."""
        ...

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Likewise, to the snapshot that a tag names."""
        ...

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; later ones go away.

        Raises:
            Invalid: There is no such schema.
            Conflict: A snapshot, tag or changelog still refers to a later one.
        """
        ...

    # Tags

    def create_tag(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Name a snapshot (the latest when None); AlreadyExists (TAG).

        A tag is kept for as long as the table's ``tag.default-time-retained`` says when
        `retained_millis` is None, and for ever without that option.
        """
        ...

    def get_tag(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        ...

    def list_tags(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names."""
        ...

    def delete_tag(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""
        ...

    # Consumers

    def list_consumers(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions; those past the table's ``consumer.expiration-time`` are none."""
        ...

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        """Move a consumer (creating it if need be); None deletes it."""
        ...
