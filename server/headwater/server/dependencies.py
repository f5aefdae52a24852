"""The parts of a request that routes take: the catalog, the names in its path, the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypedDict
from urllib.parse import unquote_plus

from anyio import to_thread
from fastapi import Depends, Header, Path, Query, Request
from pydantic import AfterValidator

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import current_principal
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.events.feed import EventFeed
from headwater.catalog.wire.tables import TABLE_ID, TABLE_ID_HEADER
from headwater.server.access.decisions import Decisions
from headwater.server.data_tokens import DataTokens
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.server.metrics import Metrics
from headwater.server.operation_metrics import WAREHOUSE
from headwater.server.probes import WarehouseStorage
from headwater.server.read_slots import ReadSlots
from headwater.server.readiness import Readiness
from headwater.server.settings import ServerSettings
from headwater.server.temporary_keys import TemporaryKeyRing
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = [
    "CatalogOf",
    "DatabasePattern",
    "ExpectedTableId",
    "PageOf",
    "PageRequest",
    "Principals",
    "Segment",
    "Services",
    "ServicesOf",
    "TableName",
    "decode_segment",
    "list_of",
    "page_size",
    "require_table",
]

_MAX_NAMES = 100


def decode_segment(segment: str) -> str:
    """A name of a path, which is form-encoded; raises ValueError."""
    # As Java's URLEncoder writes it: a plus is a space.
    try:
        return unquote_plus(segment, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("the name is not percent-encoded UTF-8") from None


Segment: TypeAlias = Annotated[str, Path(), AfterValidator(decode_segment)]


@dataclass(frozen=True)
class Principals:
    """Whom the database knows: the tokens and the groups."""

    tokens: Tokens
    groups: Groups


@dataclass(frozen=True)
class Services:
    """The parts that the application was built with.

    Attributes:
        catalogs: The catalogs that it was started with, by their warehouse's name.
        settings: The settings.
        metrics: The counts.
        readiness: The state of what the server depends on.
        managed: The catalogs of the database's warehouses; None without a database.
        runtime: The clock.
        decisions: Decides what callers may do.
        principals: The tokens and groups of the database; None without a database.
        reads: The reads that run at a time.
        data_tokens: Gives out data tokens; None when the settings say no.
        feed: The change feed of all warehouses; None without a database.
        storage: Knows the state of each warehouse's storage; None where nobody asks.
        temporary_keys: Makes temporary keys; None to make none.
    """

    catalogs: Mapping[str, Catalog]
    settings: ServerSettings
    metrics: Metrics
    readiness: Readiness
    managed: ManagedCatalogs | None = None
    runtime: Runtime = SYSTEM_RUNTIME
    decisions: Decisions = field(default_factory=lambda: Decisions(SYSTEM_RUNTIME))
    principals: Principals | None = None
    reads: ReadSlots = field(default_factory=lambda: ReadSlots(4, 60))
    data_tokens: DataTokens | None = None
    feed: EventFeed | None = None
    storage: WarehouseStorage | None = None
    temporary_keys: TemporaryKeyRing | None = None

    async def find(self, warehouse: str) -> Catalog | None:
        """A warehouse's catalog; None when it is not served here; raises Unavailable."""
        configured = self.catalogs.get(warehouse)
        if configured is not None or self.managed is None:
            return configured
        at_hand = self.managed.at_hand(warehouse)
        if at_hand is not None:
            return at_hand
        return await to_thread.run_sync(self.managed.find, warehouse)

    async def catalog(self, warehouse: str) -> Catalog:
        """A warehouse's catalog.

        Raises:
            Invalid: It is not served here. Not NotFound: clients take some 404s for success.
            Unavailable: The database had to be asked and did not answer.
        """
        catalog = await self.find(warehouse)
        if catalog is None:
            raise Invalid(
                f"warehouse '{warehouse}' is not served here, but {list_of(await self.names())}"
            )
        return catalog

    async def catalog_for(self, request: Request, warehouse: str) -> Catalog:
        """Likewise, for a request, which is counted under that warehouse then."""
        catalog = await self.catalog(warehouse)
        request.scope["state"][WAREHOUSE] = warehouse
        return catalog

    async def names(self) -> Sequence[str]:
        """The names of the caller's warehouses, of those in the database the first hundred."""
        names = set(self.catalogs)
        if self.managed is not None:
            names.update(await to_thread.run_sync(self.managed.names, _MAX_NAMES))
        caller = current_principal()
        return sorted(name for name in names if caller is None or caller.reaches(name))


def list_of(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(f"'{name}'" for name in names) or "none"


async def _services(request: Request) -> Services:
    services = request.app.state.services
    assert isinstance(services, Services)
    return services


ServicesOf: TypeAlias = Annotated[Services, Depends(_services)]


async def _catalog(services: ServicesOf, prefix: Segment, request: Request) -> Catalog:
    return await services.catalog_for(request, prefix)


CatalogOf: TypeAlias = Annotated[Catalog, Depends(_catalog)]


ExpectedTableId: TypeAlias = Annotated[
    str | None,
    Header(
        alias=TABLE_ID_HEADER,
        pattern=f"^{TABLE_ID}$",
        description="The id of the table that is meant. If another table has the name, the "
        "response is 404.",
    ),
]


async def _table(database: Segment, table: Segment, table_id: ExpectedTableId = None) -> Identifier:
    return Identifier(database, table, table_id)


TableName: TypeAlias = Annotated[Identifier, Depends(_table)]


async def require_table(request: Request) -> None:
    """See that the table in a request's path is there; raises NotFound (TABLE)."""
    services = await _services(request)
    try:
        names = {name: decode_segment(value) for name, value in request.path_params.items()}
    except ValueError:
        return
    catalog = await services.catalog(names["prefix"])
    await to_thread.run_sync(catalog.tables.get, Identifier(names["database"], names["table"]))


_LARGEST_PAGE = 100


class PageRequest(TypedDict):
    """The part of a listing that is asked for, at most 100 entries of it, as keywords."""

    max_results: int
    page_token: str | None


async def _page(
    max_results: Annotated[
        int, Query(alias="maxResults", ge=0, description="The page size, at most 100; 0 means 100.")
    ] = 0,
    page_token: Annotated[
        str | None, Query(alias="pageToken", description="`nextPageToken` of the previous page.")
    ] = None,
) -> PageRequest:
    return PageRequest(max_results=page_size(max_results), page_token=page_token or None)


PageOf: TypeAlias = Annotated[PageRequest, Depends(_page)]
DatabasePattern: TypeAlias = Annotated[
    str | None,
    Query(alias="databaseNamePattern", description="A SQL LIKE pattern of database names."),
]


def page_size(asked: int | None) -> int:
    """The number of entries of a page that a body asks for; None and 0 are the most."""
    return min(asked or _LARGEST_PAGE, _LARGEST_PAGE)
