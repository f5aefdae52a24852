"""A catalog behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.catalog.model.branches import Branches
from headwater.catalog.model.catalog import (
    ConsumerInfo,
    DatabaseInfo,
    Page,
    SnapshotInfo,
    TableInfo,
    TagInfo,
)
from headwater.catalog.model.dropped_tables import DroppedTables
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import Partitions
from headwater.catalog.model.protection import Protection
from headwater.catalog.wire.history import (
    CommitTableRequest,
    CreateTagRequest,
    GetTableSnapshotResponse,
    GetTagResponse,
    GetVersionSnapshotResponse,
    ListConsumersResponse,
    ListSnapshotsResponse,
    ListTagsResponse,
    PartitionStatisticsModel,
    ResetConsumerRequest,
    RollbackSchemaRequest,
    RollbackTableRequest,
    SnapshotInstant,
    TagInstant,
    snapshots_from_wire,
)
from headwater.catalog.wire.tables import (
    AlterDatabaseRequest,
    AlterTableRequest,
    CreateDatabaseRequest,
    CreateTableRequest,
    Empty,
    GetDatabaseResponse,
    GetTableResponse,
    IdentifierModel,
    ListDatabasesResponse,
    ListTableDetailsResponse,
    ListTablesGloballyResponse,
    ListTablesResponse,
    RegisterTableRequest,
    RenameTableRequest,
    ReplaceTableRequest,
)
from headwater.client.branches import RestBranches
from headwater.client.dropped_tables import RestDroppedTables
from headwater.client.functions import RestFunctions
from headwater.client.partitions import RestPartitions
from headwater.client.permissions import RestPermissions
from headwater.client.protection import RestProtection
from headwater.client.requests import Requests, paging, table_path, without_prefix
from headwater.client.settle import settle_commit
from headwater.client.transport import Timeouts
from headwater.client.views import RestViews
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import SchemaChange, schema_change_json
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

__all__ = ["RestCatalog"]

_HEADER_PREFIX = "header."
_TABLE_DEFAULT_PREFIX = "table-default."
# Options of a catalog that file access has no use for.
_NOT_FOR_STORAGE = ("prefix", "uri", "metastore", "warehouse", "token")


class RestCatalog:
    """Implements `Catalog` over HTTP.

    It speaks to the server on first use and pickles without its connections. Methods raise what
    `SqlCatalog` raises; the server's error body is turned back into the class it came from.

    Args:
        url: The server's address, with ``http://`` or ``https://``.
        warehouse: The warehouse's name; a server with one warehouse needs none.
        token: The bearer token.
        options: The caller's own options: ``header.*`` become request headers, ``table-default.*``
            options of tables created, all others go to file access. The server's defaults come
            below them, its overrides above (``ConfigResponse.java``).
        timeouts: How long to wait for the server.
        retries: How often a request is repeated when the server asks for it or is out of reach.
        runtime: Waits between attempts.

    Raises:
        Invalid: The address is not one.
    """

    def __init__(
        self,
        url: str,
        *,
        warehouse: str | None = None,
        token: str | None = None,
        options: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        retries: int = 4,
        runtime: Runtime = SYSTEM_RUNTIME,
    ) -> None:
        self._requests = Requests(
            url,
            warehouse=warehouse,
            token=token,
            options=options,
            timeouts=timeouts,
            retries=retries,
            runtime=runtime,
        )
        self._partitions = RestPartitions(self._requests)

    def __repr__(self) -> str:
        return f"RestCatalog({self.url!r}, warehouse={self._requests.asked_for!r})"

    def connect(self) -> None:
        """Ask the server for its configuration now, so that a wrong address or token shows."""
        self._requests.connected()

    @property
    def url(self) -> str:
        """The server's address."""
        return self._requests.url

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        return self._requests.asked_for or self._requests.connected().prefix

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What file access needs: the merged options without those about the catalog itself."""
        return {
            key: value
            for key, value in self._requests.connected().options.items()
            if key not in _NOT_FOR_STORAGE
            and not key.startswith((_HEADER_PREFIX, _TABLE_DEFAULT_PREFIX))
        }

    @property
    def branches(self) -> Branches:
        """The branches of tables."""
        return RestBranches(self._requests)

    @property
    def partitions(self) -> Partitions:
        """The partitions of tables that keep them in the catalog."""
        return self._partitions

    @property
    def views(self) -> RestViews:
        """The views."""
        return RestViews(self._requests)

    @property
    def functions(self) -> RestFunctions:
        """The functions."""
        return RestFunctions(self._requests)

    @property
    def permissions(self) -> RestPermissions:
        """The grants: records, which nothing enforces."""
        return RestPermissions(self._requests)

    def close(self) -> None:
        """Give back connections; later calls make new ones."""
        self._requests.close()

    @property
    def dropped_tables(self) -> DroppedTables:
        """Dropped tables that can be restored; Headwater's servers have them."""
        return RestDroppedTables(self._requests)

    @property
    def protection(self) -> Protection:
        """Flags that refuse drops; Headwater's servers have them."""
        return RestProtection(self._requests)

    # Databases

    def list_databases(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names."""
        params = paging(max_results, page_token, databaseNamePattern=pattern)
        page = self._requests.get(ListDatabasesResponse, params, "databases")
        return Page(tuple(page.databases or ()), page.next_page_token or None)

    def create_database(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database."""
        body = CreateDatabaseRequest(name=name, options=dict(options or {}))
        try:
            self._requests.post(Empty, body, "databases")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def get_database(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        return self._requests.get(GetDatabaseResponse, None, "databases", name).info()

    def alter_database(
        self, name: str, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove options."""
        body = AlterDatabaseRequest(updates=dict(updates), removals=list(removals))
        self._requests.post(Empty, body, "databases", name)

    def drop_database(self, name: str) -> None:
        """Drop a database with all tables, views and functions in it."""
        self._requests.delete("databases", name)

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
        """Table names."""
        params = paging(max_results, page_token, tableNamePattern=pattern, tableType=table_type)
        page = self._requests.get(ListTablesResponse, params, "databases", database, "tables")
        return Page(tuple(page.tables or ()), page.next_page_token or None)

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
        params = paging(max_results, page_token, tableNamePattern=pattern, tableType=table_type)
        page = self._requests.get(
            ListTableDetailsResponse, params, "databases", database, "table-details"
        )
        tables = tuple(item.info(database) for item in page.table_details or ())
        return Page(tables, page.next_page_token or None)

    def list_tables_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The tables of all databases."""
        params = paging(
            max_results,
            page_token,
            databaseNamePattern=database_pattern,
            tableNamePattern=pattern,
        )
        page = self._requests.get(ListTablesGloballyResponse, params, "tables")
        tables = tuple(item.identifier() for item in page.tables or ())
        return Page(tables, page.next_page_token or None)

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; Invalid when the schema is not allowed."""
        body = CreateTableRequest(
            identifier=IdentifierModel.of(identifier), schema=self._with_defaults(schema).to_json()
        )
        try:
            self._requests.post(Empty, body, "databases", identifier.database, "tables")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def _with_defaults(self, schema: Schema) -> Schema:
        defaults = without_prefix(self._requests.connected().options, _TABLE_DEFAULT_PREFIX)
        return replace(schema, options={**defaults, **schema.options})

    def get_table(self, identifier: Identifier) -> TableInfo:
        """A table with its latest schema; NotFound (TABLE)."""
        answer = self._requests.get(GetTableResponse, None, *table_path(identifier))
        return answer.info(identifier.database)

    def get_table_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        answer = self._requests.get(GetTableResponse, None, "tables", "id", table_id)
        return answer.info(answer.database or "")

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Apply changes, all or none; one new schema version."""
        body = AlterTableRequest(changes=[schema_change_json(change) for change in changes])
        self._requests.post(Empty, body, *table_path(identifier))

    def replace_table(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay."""
        body = ReplaceTableRequest(schema=self._with_defaults(schema).to_json())
        self._requests.post(Empty, body, *table_path(identifier), "replace")

    def register_table(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name; it is external outside the warehouse."""
        body = RegisterTableRequest(identifier=IdentifierModel.of(identifier), path=path)
        self._requests.post(Empty, body, "databases", identifier.database, "register")

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name, and another database if so asked."""
        body = RenameTableRequest(
            source=IdentifierModel.of(source), destination=IdentifierModel.of(destination)
        )
        self._requests.post(Empty, body, "tables", "rename")

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files."""
        try:
            self._requests.delete(*table_path(identifier))
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.TABLE:
                raise

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

        A lost answer is settled by looking whether the snapshot is in the table's history, and by
        offering it again while it is not: the same snapshot cannot be committed twice.

        Returns:
            False on a conflict: another commit came first.

        Raises:
            NotFound: No such table, or `table_id` is not its id.
            Unavailable: The server was out of reach, or the outcome is unknown; the message says
                which.
        """
        body = CommitTableRequest(
            table_id=table_id,
            base_snapshot_uuid=base_uuid,
            snapshot=dict(snapshot.document),
            statistics=[PartitionStatisticsModel.of(item) for item in statistics],
        )
        connected = self._requests.connected()
        path = self._requests.path(*table_path(identifier), "commit")
        return settle_commit(
            identifier,
            snapshot,
            offer=lambda: connected.transport.send("POST", path, body=body),
            history=self,
            runtime=self._requests.runtime,
        )

    def latest_snapshot(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot; None for a table without one. Its file is on storage."""
        try:
            answer = self._requests.get(
                GetTableSnapshotResponse, None, *table_path(identifier), "snapshot"
            )
        except NotFound as error:
            if error.resource_type is ResourceType.SNAPSHOT:
                return None
            raise
        return answer.snapshot.info()

    def get_snapshot(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        answer = self._requests.get(
            GetVersionSnapshotResponse, None, *table_path(identifier), "snapshots", version
        )
        return Snapshot.from_document(answer.snapshot, f"snapshot {version} of {identifier}")

    def list_snapshots(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that still exist, newest first."""
        params = paging(max_results, page_token)
        page = self._requests.get(
            ListSnapshotsResponse, params, *table_path(identifier), "snapshots"
        )
        return Page(tuple(snapshots_from_wire(page.snapshots)), page.next_page_token or None)

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; later ones and their tags go away."""
        body = RollbackTableRequest(
            instant=SnapshotInstant(snapshot_id=snapshot_id), from_snapshot=from_snapshot
        )
        self._requests.post(Empty, body, *table_path(identifier), "rollback")

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Likewise, to the snapshot that a tag names."""
        body = RollbackTableRequest(instant=TagInstant(tag_name=tag), from_snapshot=from_snapshot)
        self._requests.post(Empty, body, *table_path(identifier), "rollback")

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; Invalid, Conflict."""
        body = RollbackSchemaRequest(schema_id=schema_id)
        self._requests.post(Empty, body, *table_path(identifier), "rollback-schema")

    # Tags

    def create_tag(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Name a snapshot (the latest when None); AlreadyExists (TAG)."""
        body = CreateTagRequest(
            tag_name=tag,
            snapshot_id=snapshot_id,
            time_retained=None if retained_millis is None else f"{retained_millis} ms",
        )
        self._requests.post(Empty, body, *table_path(identifier), "tags")

    def get_tag(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        return self._requests.get(GetTagResponse, None, *table_path(identifier), "tags", tag).info()

    def list_tags(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names."""
        params = paging(max_results, page_token, tagNamePrefix=prefix)
        page = self._requests.get(ListTagsResponse, params, *table_path(identifier), "tags")
        return Page(tuple(page.tags or ()), page.next_page_token or None)

    def delete_tag(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""
        self._requests.delete(*table_path(identifier), "tags", tag)

    # Consumers

    def list_consumers(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions."""
        params = paging(max_results, page_token)
        page = self._requests.get(
            ListConsumersResponse, params, *table_path(identifier), "consumers"
        )
        consumers = tuple(item.info() for item in page.consumers or ())
        return Page(consumers, page.next_page_token or None)

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        """Move a consumer (creating it if need be); None deletes it."""
        body = ResetConsumerRequest(consumer_id=consumer_id, next_snapshot_id=next_snapshot)
        self._requests.post(Empty, body, *table_path(identifier), "consumers", "reset")
