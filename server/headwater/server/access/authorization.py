"""The check before every operation: may the caller do this?"""

from __future__ import annotations

from fastapi import HTTPException, Request
from fastapi.routing import APIRoute

from headwater.catalog.model.principal import Principal, Scope, current_principal
from headwater.server.access.operations import OPERATIONS, Rule
from headwater.server.dependencies import decode_segment
from headwater.storage.errors import Forbidden

__all__ = ["authorize"]

_NO_TOKEN = (
    "the management API needs a token, also where nothing else does; make one with 'headwater "
    "token create NAME --scope manage'"
)


async def authorize(request: Request) -> None:
    """Refuse a caller who may not do what a request asks for.

    Raises:
        Forbidden: The caller's token is not for it, or no rule allows it to anybody.
        HTTPException: 401: it needs a token, and the caller has none.
    """
    route = request.scope["route"]
    rule = OPERATIONS.get(route.unique_id) if isinstance(route, APIRoute) else None
    if rule is None:
        raise Forbidden(f"no rule says who may do this: {request.method} {route.path}")
    if rule.scope is None:
        return
    caller = current_principal()
    if caller is None:
        if rule.scope is Scope.MANAGE:
            raise HTTPException(401, _NO_TOKEN, headers={"www-authenticate": "Bearer"})
        return
    check_scope(caller, rule, _warehouse_of(request, rule))


def check_scope(caller: Principal, rule: Rule, warehouse: str | None) -> None:
    """Refuse a caller whose credential is not good for an operation on a warehouse.

    Args:
        caller: The caller.
        rule: The operation's.
        warehouse: The warehouse that it is about; None means all of them or none.

    Raises:
        Forbidden: It is not.
    """
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


def _warehouse_of(request: Request, rule: Rule) -> str | None:
    if rule.warehouse is None:
        return None
    segment = request.path_params[rule.warehouse]
    try:
        return decode_segment(segment)
    except ValueError:
        # No warehouse is called so, and the operation will say it.
        return str(segment)
