"""A table as the catalog has it, with the options that a handle overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from headwater.catalog.model.access import ALL_OF_IT, TableAccess
from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.table.display import Display
from headwater.catalog.table.pointer import CatalogPointer
from headwater.catalog.table.presence import CatalogPresence, ExternalPointer, follow_up
from headwater.catalog.table.references import references_of
from headwater.storage.capabilities import QUERY_AUTH
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.files.withheld import WithheldFiles
from headwater.storage.maintenance.deletion import ReferenceAuthority
from headwater.storage.options import is_true
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import SchemaChange, check_changes
from headwater.storage.schema.given import given_options
from headwater.storage.schema.option_changes import check_laid_over
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import (
    DEFAULT_TIMEOUT_MILLIS,
    SnapshotPointer,
    TableStorage,
)

__all__ = ["TableHandle"]


@checks_arguments
class TableHandle:
    """A table as it is now; `headwater.catalog.table.history.TableHistory` adds what it was.

    Args:
        catalog: The catalog that keeps the table. If it cannot be reached, each request of the
            handle waits for it as long as the table's option ``commit.timeout`` says, or else the
            catalog's own patience; 5 s where neither says anything.
        info: The table as the catalog has it.
        runtime: Clock and names.
        options: Table options that override the table's own in this handle.
    """

    def __init__(
        self,
        catalog: Catalog,
        info: TableInfo,
        runtime: Runtime = SYSTEM_RUNTIME,
        *,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._catalog_as_passed = self._catalog = catalog
        self._info = info
        self._runtime = runtime
        self._overlay = dict(options or {})
        self._storage = self._make_storage()

    def _make_storage(self) -> TableStorage:
        check_laid_over(self._info.schema, self._overlay)
        schema = self._info.schema.with_options(self._overlay)
        patience_millis = self._patience_millis(schema)
        self._catalog = self._catalog_as_passed.patient(patience_millis / 1000)
        self._access = self._asked()
        self._files: FileAccess
        if self._access.reader is not None:
            self._files = WithheldFiles(str(self._info.identifier))
        else:
            self._files = self._catalog.table_files(self._info)
        return TableStorage(
            str(self._info.identifier),
            TableLayout(self._info.path.rstrip("/"), self._info.identifier.branch),
            self._files,
            schema,
            self._runtime,
            sees_all=self._access.reader is None,
            presence=CatalogPresence(self._catalog, self._info.identifier),
            patience_millis=patience_millis,
        )

    def _patience_millis(self, schema: TableSchema) -> int:
        """How long a request waits for a catalog that cannot be reached, in ms."""
        millis = schema.table_options.commit_timeout
        if millis is not None:
            return millis
        return round(self._catalog_as_passed.patience * 1000) or DEFAULT_TIMEOUT_MILLIS

    def _asked(self) -> TableAccess:
        """The part of the table that the catalog shows this program."""
        asks = is_true(self._info.schema.options, QUERY_AUTH)
        # A branch may be older than the option, and the policies are those of the table.
        if not asks and self._info.identifier.branch == MAIN_BRANCH:
            return ALL_OF_IT
        return self._catalog.policies.access(self._info.identifier)

    def refuse_restricted(self, what: str) -> None:
        """Refuse what would show more than the policies let this program see.

        Args:
            what: The thing refused, as a part of the message.

        Raises:
            Forbidden: Policies restrict what is seen of the table.
        """
        if isinstance(self._files, WithheldFiles):
            self._files.refuse(what)

    def __repr__(self) -> str:
        return str(self._display())

    def _repr_html_(self) -> str:
        """The form that notebooks show."""
        return self._display().html()

    def _display(self) -> Display:
        schema = self.schema
        properties = {
            "primary key": ", ".join(schema.primary_keys),
            "partitioned by": ", ".join(schema.partition_keys),
            "options": Display.options(schema.options),
            "comment": schema.comment or "",
        }
        columns = [(field.name, field.type, field.description or "") for field in schema.fields]
        return Display(f"Table {self.name}", properties, ("column", "type", "comment"), columns)

    @property
    def name(self) -> str:
        """``database.table``."""
        return str(self._info.identifier)

    @property
    def identifier(self) -> Identifier:
        """The name's parts."""
        return self._info.identifier

    @property
    def info(self) -> TableInfo:
        """The table as the catalog has it."""
        return self._info

    @property
    def catalog(self) -> Catalog:
        """The catalog that keeps the table."""
        return self._catalog

    @property
    def schema(self) -> TableSchema:
        """Its columns, keys and options."""
        return self._storage.schema

    @property
    def storage(self) -> TableStorage:
        """The table as storage functions take it; pickles without a connection to the catalog."""
        return self._storage

    @property
    def pointer(self) -> SnapshotPointer:
        """The authority on the latest snapshot: the catalog, or an external table's own files."""
        if self._info.is_external:
            presence = CatalogPresence(self._catalog, self._info.identifier)
            return ExternalPointer(self._files, self._storage.layout, presence)
        return CatalogPointer(self._catalog, self._info.identifier, self._info.id)

    @property
    def references(self) -> ReferenceAuthority:
        """The authority on tags and deletions: the catalog, or an external table's own files."""
        return references_of(
            self._catalog, self._info.identifier, self._storage, is_external=self._info.is_external
        )

    def require_present(self) -> None:
        """Check that the catalog still has the table, before what only looks at its files.

        Raises:
            NotFound: The table was dropped or renamed, whatever has its name now.
        """
        CatalogPresence(self._catalog, self._info.identifier).require()

    def refresh(self) -> Self:
        """Take over what the catalog now says of the table; the handle itself.

        Raises:
            NotFound: The table was dropped or renamed, whatever has its name now.
        """
        self._info = self._catalog.tables.get(self._info.identifier)
        self._storage = self._make_storage()
        return self

    def _refreshed(self) -> Self:
        """The handle after a change; of a table that was dropped since, as it was."""
        with follow_up(self._storage):
            self.refresh()
        return self

    @property
    def laid_over(self) -> Mapping[str, str]:
        """The options that this handle has and its table does not say."""
        return self._overlay

    def with_options(self, options: Mapping[str, str]) -> Self:
        """Another handle with overridden table options; the table itself keeps its own.

        Raises:
            Invalid: An option is one that only the table can have, or no text.
        """
        return type(self)(
            self._catalog_as_passed,
            self._info,
            self._runtime,
            options={**self._overlay, **given_options(options)},
        )

    def alter(self, *changes: SchemaChange) -> Self:
        """Apply changes to the schema, all or none; the handle itself, refreshed.

        Changes that leave the schema as it is make no new version of it.

        Raises:
            AlreadyExists, Invalid, NotFound: As `Tables.alter`.
        """
        check_changes(self.name, changes)
        self._catalog.tables.alter(self._info.identifier, changes)
        return self._refreshed()
