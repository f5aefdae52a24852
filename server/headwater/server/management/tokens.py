"""Tokens: made, listed and revoked."""

from __future__ import annotations

from datetime import timedelta

from headwater.catalog.model.principal import Scope, current_principal
from headwater.catalog.model.tokens import TokenKind
from headwater.catalog.wire.principals import (
    CreateTokenRequest,
    CreateTokenResponse,
    ListTokensResponse,
    TokenModel,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import Segment
from headwater.server.error_responses import Failure, failures
from headwater.server.management.dependencies import PrincipalsOf
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Forbidden

__all__ = ["router"]

router = ResourceRouter(prefix="/management/v1/tokens", tags=["management"])

_EXISTS = Failure("token exists", 409, "there is a token named 'ada' already; revoke it")
_MISSING = Failure("no token", 404, "there is no token named 'ada'")


@router.get("", summary="List tokens", responses=failures("no manager", "unsupported"))
def list_tokens(principals: PrincipalsOf) -> ListTokensResponse:
    """All tokens of the database by name, without their secrets."""
    return ListTokensResponse(tokens=[TokenModel.of(each) for each in principals.tokens.list()])


@router.post("", summary="Create a token", responses=failures("no manager", _EXISTS, "unsupported"))
def create_token(principals: PrincipalsOf, body: CreateTokenRequest) -> CreateTokenResponse:
    """Its secret is in the answer and cannot be had again.

    A caller can give it no scope that the caller's own token lacks.
    """
    caller = current_principal()
    scopes = [Scope(name) for name in body.scopes]
    missing = [scope for scope in scopes if caller is None or not caller.has(scope)]
    if missing:
        raise Forbidden(
            f"this token lacks scope {' and '.join(missing)} itself, so it can make none that has "
            "it; use 'headwater token create' on the catalog's database"
        )
    millis = body.lifetime_millis
    made = principals.tokens.create(
        body.name,
        lifetime=None if millis is None else timedelta(milliseconds=millis),
        scopes=scopes,
        warehouses=body.warehouses,
        kind=TokenKind(body.kind),
    )
    return CreateTokenResponse.made(made)


@router.delete(
    "/{token}", summary="Revoke a token", responses=failures("no manager", _MISSING, "unsupported")
)
def revoke_token(principals: PrincipalsOf, token: Segment) -> Empty:
    """By its name. Servers refuse it within ten seconds."""
    principals.tokens.revoke(token)
    return Empty()
