"""The application: routes, middleware and error handlers around the catalogs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.access.decisions import Decisions
from headwater.server.api_description.openapi import describe
from headwater.server.api_description.page import POLICY, page
from headwater.server.authentication import Authentication, Gate
from headwater.server.authorization import EndedRights
from headwater.server.branches import routes as branches
from headwater.server.config import routes as config
from headwater.server.consumers import routes as consumers
from headwater.server.data_tokens import DataTokens
from headwater.server.databases import routes as databases
from headwater.server.date_header import DATE_HEADER, DateHeader
from headwater.server.denials import Denials
from headwater.server.dependencies import Principals, Services
from headwater.server.envelope import Envelope, RequestIds
from headwater.server.errors import install_error_handlers
from headwater.server.fast.lane import FastLane
from headwater.server.functions import routes as functions
from headwater.server.health import routes as health
from headwater.server.http_protocol import COUNT_REFUSAL
from headwater.server.issuer_keys import IssuerKeys
from headwater.server.labels import routes as labels
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.server.management import (
    dropped_tables,
    events,
    groups,
    protection,
    readiness,
    temporary_keys,
    tokens,
    warehouses,
)
from headwater.server.management import permissions as overviews
from headwater.server.metrics import Metrics
from headwater.server.oidc import OidcCheck, OidcRules
from headwater.server.partitions import routes as partitions
from headwater.server.permissions import routes as permissions
from headwater.server.policies import routes as policies
from headwater.server.probes import WarehouseStorage
from headwater.server.read_audit import ReadAudit
from headwater.server.read_slots import ReadSlots
from headwater.server.readiness import Probe, Readiness
from headwater.server.reads import routes as reads_routes
from headwater.server.references import routes as references
from headwater.server.request_body import RequestBody
from headwater.server.request_bound import LateRequests, RequestBound
from headwater.server.request_log import RequestLog
from headwater.server.request_rates import RequestRates
from headwater.server.settings import ServerSettings
from headwater.server.signatures.check import SignatureCheck
from headwater.server.snapshots import routes as snapshots
from headwater.server.tables import routes as tables
from headwater.server.tags import routes as tags
from headwater.server.temporary_keys import TemporaryKeyRing
from headwater.server.thread_shares import ThreadShares
from headwater.server.token_check import FindToken, TokenCheck
from headwater.server.tracing import Traces, Tracing
from headwater.server.version import VERSION
from headwater.server.views import routes as views
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["create_app"]

_DESCRIPTION = """\
The Paimon REST catalog API, as Headwater serves it. `{prefix}` is the `prefix` that `/v1/config`
answers: the warehouse's name. Names in paths are form-encoded. Every error has a JSON body with
`message`, `resourceType`, `resourceName` and `code`."""

_ROUTERS = (
    health.router,
    config.router,
    databases.router,
    tables.router,
    snapshots.router,
    tags.router,
    partitions.router,
    branches.router,
    references.router,
    consumers.router,
    views.router,
    functions.router,
    permissions.router,
    policies.router,
    labels.router,
    reads_routes.router,
    warehouses.router,
    tokens.router,
    temporary_keys.router,
    groups.router,
    dropped_tables.router,
    protection.router,
    overviews.router,
    events.router,
    readiness.router,
)


class _Application(FastAPI):
    """FastAPI with a description of our own."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made on first use."""
        if self.openapi_schema is None:
            self.openapi_schema = describe(self)
        return self.openapi_schema


def create_app(
    catalogs: Mapping[str, Catalog] | Catalog,
    settings: ServerSettings,
    *,
    runtime: Runtime = SYSTEM_RUNTIME,
    find_token: FindToken | None = None,
    managed: ManagedCatalogs | None = None,
    principals: Principals | None = None,
    feed: EventFeed | None = None,
    denials: Denials | None = None,
    read_audit: ReadAudit | None = None,
    metrics: Metrics | None = None,
    probes: Mapping[str, Probe] | None = None,
    storage: WarehouseStorage | None = None,
    at_end: Callable[[], None] | None = None,
    tracing: Tracing | None = None,
) -> FastAPI:
    """Build the application.

    Args:
        catalogs: The catalogs by their warehouse's name, or the only one. They are not closed here.
        settings: Tokens and client options are taken from it.
        runtime: The source of request ids.
        find_token: Finds a token in the catalog's database; without it, only the settings' tokens
            count.
        managed: The catalogs of the database's warehouses, beside `catalogs`.
        principals: The tokens and groups that are managed over HTTP.
        feed: The change feed of all warehouses of the catalog's database.
        denials: Notes requests that are refused to their callers; None to note none.
        read_audit: Notes reads; None to note none.
        metrics: The counts; its own when there are none.
        probes: The probes behind `/readyz`, by name.
        storage: The one of them that knows each warehouse's state; None to tell of none.
        at_end: Called when the server stops, after the last answer.
        tracing: Makes a span for each request; None for no traces.
    """
    if not isinstance(catalogs, Mapping):
        catalogs = {catalogs.warehouse: catalogs}
    app = _Application(
        title="Headwater",
        version=VERSION,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        # The framework's pages load what they show from elsewhere.
        docs_url=None,
        redoc_url=None,
        # The same paths with a slash at their end are other paths, not redirections.
        redirect_slashes=False,
        lifespan=_lifespan(at_end),
    )
    metrics = metrics or Metrics()
    reads = ReadSlots(settings.read_concurrency, settings.read_wait.total_seconds())
    token_check = _token_check(settings, find_token, runtime, principals)
    key_ring = TemporaryKeyRing(
        OptionKeys() if principals is None else principals.tokens.keys,
        token_check.again,
        runtime,
        settings.temporary_key_lifetime,
        enforces_permissions=settings.enforce_permissions,
    )
    services = Services(
        dict(catalogs),
        settings,
        metrics,
        Readiness(probes or {}, runtime),
        managed=managed,
        runtime=runtime,
        decisions=Decisions(runtime),
        principals=principals,
        reads=reads,
        data_tokens=_data_tokens(settings, runtime),
        feed=feed,
        storage=storage,
        temporary_keys=key_ring,
    )
    app.state.services = services
    for router in _ROUTERS:
        router.join(app)
    app.add_route("/docs", _docs, include_in_schema=False)
    install_error_handlers(app)
    # The last one added is the outermost.
    app.add_middleware(EndedRights)
    late = LateRequests()
    app.add_middleware(ThreadShares, services=services, late=late)
    app.add_middleware(FastLane, services=services)
    app.add_middleware(RequestBody, largest=settings.max_body_size)
    signatures = SignatureCheck(
        None if principals is None else principals.tokens.find_access_key,
        token_check,
        key_ring,
        runtime,
    )
    gate = Gate(token_check, signatures, is_needed=settings.needs_token)
    rates = RequestRates(settings.max_requests_per_second, runtime)
    app.add_middleware(Authentication, gate=gate, rates=rates)
    app.add_middleware(RequestBound, seconds=settings.request_timeout.total_seconds(), late=late)
    if tracing is not None:
        app.add_middleware(Traces, tracing=tracing)
    requests = RequestLog(metrics, runtime)
    app.add_middleware(
        Envelope, ids=RequestIds(runtime), requests=requests, denials=denials, reads=read_audit
    )
    return app


async def _docs(request: Request) -> HTMLResponse:
    text = page(request.app.openapi())
    return HTMLResponse(text, headers={"content-security-policy": POLICY})


def _data_tokens(settings: ServerSettings, runtime: Runtime) -> DataTokens | None:
    if settings.data_token_seconds is None:
        return None
    return DataTokens(settings.data_token_seconds, runtime)


def _lifespan(
    at_end: Callable[[], None] | None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, object]]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, object]]:
        services = app.state.services
        assert isinstance(services, Services)
        yield {
            COUNT_REFUSAL: services.metrics.refused,
            DATE_HEADER: DateHeader(services.runtime.now_millis),
        }
        if at_end is not None:
            at_end()

    return lifespan


def _token_check(
    settings: ServerSettings,
    find_token: FindToken | None,
    runtime: Runtime,
    principals: Principals | None,
) -> TokenCheck:
    configured = [token.get_secret_value() for token in settings.tokens]
    managers = [token.get_secret_value() for token in settings.management_tokens]
    return TokenCheck(
        configured,
        find_token,
        runtime,
        managers=managers,
        enforces_permissions=settings.enforce_permissions,
        signed=_oidc_check(settings, runtime, principals),
        find_by_id=None if principals is None else principals.tokens.find_by_id,
    )


def _oidc_check(
    settings: ServerSettings, runtime: Runtime, principals: Principals | None
) -> OidcCheck | None:
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    rules = OidcRules(
        settings.oidc_issuer,
        settings.oidc_audience,
        settings.oidc_algorithms,
        settings.oidc_clock_skew,
        settings.oidc_principal_claim,
        settings.oidc_groups_claim,
        settings.oidc_administrators,
    )
    keys = IssuerKeys(settings.oidc_issuer, runtime)
    groups_of = None if principals is None else principals.groups.of
    return OidcCheck(rules, keys, runtime, groups_of)
