"""The check before every operation: may the caller do this?"""

from __future__ import annotations

import time
from collections.abc import Mapping

from anyio import to_thread
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Principal, Scope, current_principal
from headwater.catalog.sql import SqlCatalog
from headwater.server.access.needs import Call
from headwater.server.access.operations import OPERATIONS, Rule
from headwater.server.denials import DENIED
from headwater.server.dependencies import Services, decode_segment
from headwater.server.large_bodies import MOST_ON_LOOP
from headwater.server.request_body import BODY
from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable

__all__ = ["EndedRights", "authorize"]

_NO_TOKEN = (
    "the management API needs a token, also where nothing else does; make one with 'headwater "
    "token create NAME --scope manage'"
)
_ENDING = "ending_rights"
_COMMIT = "commitTable"


class EndedRights:
    """ASGI middleware right around the framework, which forgets rights that a request took away.

    Args:
        app: The framework.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        try:
            await self._app(scope, receive, send)
        finally:
            ending = scope.get("state", {}).pop(_ENDING, None)
            if ending is not None:
                # After the answer, which must not be followed by an old one.
                ending.__exit__(None, None, None)


async def authorize(request: Request) -> None:
    """Refuse a caller who may not do what a request asks for.

    Raises:
        Forbidden: The caller's token is not for it, or the caller has not the right, or policies
            restrict it, or no rule allows it to anybody.
        NotFound: It is about a thing that the caller does not see.
        Invalid: The body does not say what it is about.
        HTTPException: 401: it needs a token, and the caller has none.
        Unavailable: The database had to be asked and did not answer.
    """
    route = request.scope["route"]
    rule = OPERATIONS.get(route.unique_id) if isinstance(route, APIRoute) else None
    if rule is None:
        raise Forbidden(f"no rule says who may do this: {request.method} {route.path}")
    if rule.scope is None:
        return
    services = request.app.state.services
    assert isinstance(services, Services)
    caller = current_principal()
    if caller is None:
        if rule.scope is Scope.MANAGE:
            raise HTTPException(401, _NO_TOKEN, headers={"www-authenticate": "Bearer"})
    else:
        started = time.perf_counter()
        try:
            await _check(request, services, caller, rule)
        except NotFound:
            # It hides what the caller may not see, if there is such a thing.
            request.scope["state"][DENIED] = True
            raise
        except Unavailable as error:
            if route.unique_id == _COMMIT:
                warehouse = _names(request)["prefix"]
                services.metrics.committed(warehouse, error, time.perf_counter() - started)
            raise
    state = request.scope["state"]
    if rule.ends_rights and _ENDING not in state:
        state[_ENDING] = ending = services.decisions.ending_rights()
        ending.__enter__()


async def _check(request: Request, services: Services, caller: Principal, rule: Rule) -> None:
    path = _names(request)
    warehouse = None if rule.warehouse is None else path[rule.warehouse]
    _check_scope(caller, rule, warehouse)
    if warehouse is None:
        return
    if caller.asks_permission:
        await _check_needs(request, services, caller, rule, path, warehouse)
    if rule.changes_rows:
        try:
            changed = await services.catalog(warehouse)
        except NotFound:
            # The operation says so.
            return
        name = Identifier(path["database"], path["table"])
        await services.decisions.demand_all_rows(caller, changed, name)


async def _check_needs(
    request: Request,
    services: Services,
    caller: Principal,
    rule: Rule,
    path: Mapping[str, str],
    warehouse: str,
) -> None:
    body: bytes = request.scope["state"].get(BODY, b"")
    call = Call(path, request.query_params, body, caller.grantees)
    if len(body) <= MOST_ON_LOOP:
        needs = rule.needs(call)
    else:
        needs = await to_thread.run_sync(rule.needs, call)
    if not needs:
        return
    catalog = await services.catalog(warehouse)
    if not isinstance(catalog, SqlCatalog):
        raise Forbidden(
            f"warehouse '{warehouse}' keeps no permissions, and '{caller.name}' needs them"
        )
    for need in needs:
        await services.decisions.demand(caller, catalog, need)


def _names(request: Request) -> dict[str, str]:
    """The names in a request's path; raises Invalid."""
    names: dict[str, str] = {}
    for parameter, segment in request.path_params.items():
        try:
            names[parameter] = decode_segment(segment)
        except ValueError as error:
            raise Invalid(f"path parameter '{parameter}': {error}") from error
    return names


def _check_scope(caller: Principal, rule: Rule, warehouse: str | None) -> None:
    assert rule.scope is not None
    if not caller.has(rule.scope):
        raise Forbidden(
            f"the token of '{caller.name}' is not for this, but for scope "
            f"{' and '.join(sorted(caller.scopes))}; use one made with 'headwater token create "
            f"NAME --scope {rule.scope}'"
            + (" or one of --management-token" if rule.scope is Scope.MANAGE else "")
        )
    if caller.warehouses is None:
        return
    if warehouse is None:
        if rule.is_of_all_warehouses:
            raise Forbidden(
                f"the token of '{caller.name}' is only for some warehouses, and this is about all"
            )
    elif warehouse not in caller.warehouses:
        raise Forbidden(f"the token of '{caller.name}' is not for warehouse '{warehouse}'")
