"""The catalog's contract, implemented by the SQL catalog and by the client of a server.

`headwater.catalog.sql.SqlCatalog` answers from a SQL database, `headwater.client.rest.RestCatalog`
over HTTP; one behaviour suite runs over both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headwater.catalog.model.branches import Branches
from headwater.catalog.model.consumers import Consumers
from headwater.catalog.model.databases import Databases
from headwater.catalog.model.dropped_tables import DroppedTables
from headwater.catalog.model.events import Events
from headwater.catalog.model.functions import Functions
from headwater.catalog.model.labels import Labels
from headwater.catalog.model.partitions import Partitions
from headwater.catalog.model.permissions import Permissions
from headwater.catalog.model.policies import Policies
from headwater.catalog.model.protection import Protection
from headwater.catalog.model.reconcile import Reconciler
from headwater.catalog.model.references import TableReferences
from headwater.catalog.model.snapshots import Snapshots
from headwater.catalog.model.tables import TableInfo, Tables
from headwater.catalog.model.tags import Tags
from headwater.catalog.model.temporary_keys import TemporaryKeys
from headwater.catalog.model.views import Views
from headwater.storage.files.access import FileAccess

__all__ = ["Catalog"]


class Catalog(Protocol):
    """One warehouse, a part for each kind of thing in it.

    Methods of the parts raise `NotFound` with the resource type of what is missing,
    `AlreadyExists`, `Invalid`, `Forbidden`, `Unavailable`. Names in listings may be narrowed with a
    SQL LIKE pattern (``%`` and ``_``, backslash escapes); a listing is complete when `max_results`
    is None.
    """

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options with which file access reaches the warehouse; never log them."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether it is reached through a server, so that it pickles for other processes."""
        ...

    def table_files(self, info: TableInfo) -> FileAccess:
        """Access to a table's files, which pickles without a connection to the catalog."""
        ...

    @property
    def patience(self) -> float:
        """How long a request waits for a catalog that cannot be reached, in seconds.

        In any case it is tried a few times, within two seconds or so.
        """
        ...

    def patient(self, seconds: float) -> Catalog:
        """The same catalog with another patience, over the same connections."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...

    @property
    def databases(self) -> Databases:
        """The databases."""
        ...

    @property
    def tables(self) -> Tables:
        """The tables."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of tables: commits, history and rollback."""
        ...

    @property
    def tags(self) -> Tags:
        """The tags of tables."""
        ...

    @property
    def branches(self) -> Branches:
        """The branches of tables."""
        ...

    @property
    def references(self) -> TableReferences:
        """The references of tables, serialised with deletions of their files."""
        ...

    @property
    def partitions(self) -> Partitions:
        """The partitions of tables that keep them in the catalog."""
        ...

    @property
    def consumers(self) -> Consumers:
        """The saved positions of tables' readers."""
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
        """The grants, which a server enforces."""
        ...

    @property
    def policies(self) -> Policies:
        """The row filters and column masks of tables."""
        ...

    @property
    def labels(self) -> Labels:
        """The labels of databases, tables, views and functions."""
        ...

    @property
    def dropped_tables(self) -> DroppedTables:
        """Dropped tables that can be restored."""
        ...

    @property
    def protection(self) -> Protection:
        """Flags that refuse drops."""
        ...

    @property
    def events(self) -> Events:
        """The change feed: who did what to which object."""
        ...

    @property
    def temporary_keys(self) -> TemporaryKeys:
        """Access keys with an end, made of the credential that reaches the catalog."""
        ...

    @property
    def reconciler(self) -> Reconciler:
        """Makes the catalog's database and storage agree."""
        ...
