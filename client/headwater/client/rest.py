"""A catalog behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from headwater.catalog.model.tables import TableInfo
from headwater.catalog.wire.signed_requests import SIGNED_REQUESTS
from headwater.client.branches import RestBranches
from headwater.client.consumers import RestConsumers
from headwater.client.data_token import AskForToken
from headwater.client.databases import RestDatabases
from headwater.client.dropped_tables import RestDroppedTables
from headwater.client.events import RestEvents
from headwater.client.functions import RestFunctions
from headwater.client.labels import RestLabels
from headwater.client.multipart_upload import part_size
from headwater.client.partitions import RestPartitions
from headwater.client.permissions import RestPermissions
from headwater.client.policies import RestPolicies
from headwater.client.protection import RestProtection
from headwater.client.reconcile import RestReconciler
from headwater.client.references import RestReferences
from headwater.client.requests import DATA_TOKENS, HEADER_PREFIX, TABLE_DEFAULT_PREFIX, Requests
from headwater.client.signed_files import SignedFiles
from headwater.client.snapshots import RestSnapshots
from headwater.client.tables import RestTables
from headwater.client.tags import RestTags
from headwater.client.temporary_keys import RestTemporaryKeys
from headwater.client.transport import Timeouts
from headwater.client.views import RestViews
from headwater.storage.files.access import FileAccess
from headwater.storage.files.open_files import open_table_files
from headwater.storage.files.renewed_options import RenewedOptions
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["RestCatalog"]

# Options of a catalog that file access has no use for.
_NOT_FOR_STORAGE = (
    *("prefix", "uri", "metastore", "warehouse", "token"),
    *(DATA_TOKENS, SIGNED_REQUESTS),
)


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
        timeouts: The timeouts for the server.
        retries: The number of retries when the server asks for one or is out of reach.
        runtime: Clock and names.

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
        self._use(
            Requests(
                url,
                warehouse=warehouse,
                token=token,
                options=options,
                timeouts=timeouts,
                retries=retries,
                runtime=runtime,
            )
        )

    def _use(self, requests: Requests) -> None:
        """Make the parts, which send requests this way."""
        self._requests = requests
        self.databases = RestDatabases(requests)
        self.tables = RestTables(requests)
        self.snapshots = RestSnapshots(requests)
        self.tags = RestTags(requests)
        self.branches = RestBranches(requests)
        self.partitions = RestPartitions(requests)
        self.consumers = RestConsumers(requests)
        self.events = RestEvents(requests)
        self.views = RestViews(requests)
        self.functions = RestFunctions(requests)
        self.permissions = RestPermissions(requests)
        self.policies = RestPolicies(requests)
        self.references = RestReferences(requests)
        self.labels = RestLabels(requests)
        self.dropped_tables = RestDroppedTables(requests)
        self.protection = RestProtection(requests)
        self.temporary_keys = RestTemporaryKeys(requests)
        self.reconciler = RestReconciler()

    def __repr__(self) -> str:
        return f"RestCatalog({self.url!r}, warehouse={self._requests.asked_for!r})"

    @property
    def is_remote(self) -> bool:
        """True: other processes reach the server as this one does."""
        return True

    @property
    def runtime(self) -> Runtime:
        """Clock and names, for tables, too; its clock knows the server's."""
        return self._requests.runtime

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
        """The options of file access: the merged ones without those about the catalog itself."""
        return {
            key: value
            for key, value in self._requests.connected().options.items()
            if key not in _NOT_FOR_STORAGE
            and not key.startswith((HEADER_PREFIX, TABLE_DEFAULT_PREFIX))
        }

    def table_files(self, info: TableInfo) -> FileAccess:
        """Access to a table's files, as the server opens them: by signed requests or data tokens.

        External tables have neither: they are reached with the storage options.
        """
        told = self._requests.connected().options
        if told.get(SIGNED_REQUESTS) == "true" and not info.is_external:
            size = part_size(self.storage_options)
            return SignedFiles(self._requests, info.identifier, info.path, size)
        enabled = told.get(DATA_TOKENS, "").strip().lower()
        if enabled != "true" or info.is_external:
            # Its schema is there already, unless other engines are to write it.
            root = None if info.is_external else info.path
            return open_table_files(info.path, self.storage_options, root=root)
        ask = AskForToken(self._requests, info.identifier, self.storage_options)
        options = RenewedOptions(ask, self._requests.runtime.now_millis)
        return open_table_files(info.path, options, root=info.path)

    @property
    def patience(self) -> float:
        """How long a request waits for a server that cannot be reached, after its `retries`."""
        return self._requests.patience

    def patient(self, seconds: float) -> RestCatalog:
        """The same catalog with another patience, over the same connections."""
        if seconds == self.patience:
            return self
        patient = copy(self)
        patient._use(self._requests.patient(seconds))
        return patient

    def close(self) -> None:
        """Give back connections; later calls make new ones."""
        self._requests.close()
