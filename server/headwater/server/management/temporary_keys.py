"""Temporary keys: made of the caller's own credential."""

from __future__ import annotations

from fastapi import HTTPException, Request

from headwater.catalog.model.principal import Scope
from headwater.catalog.wire.temporary_keys import CreateTemporaryKeyRequest, TemporaryKeyModel
from headwater.server.credentials import CREDENTIAL, Credential
from headwater.server.dependencies import ServicesOf
from headwater.server.error_responses import Failure, failures
from headwater.server.management.dependencies import PrincipalsOf
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Unsupported

__all__ = ["router"]

router = ResourceRouter(prefix="/management/v1/temporary-keys", tags=["management"])

_WIDER = Failure(
    "wider than its parent",
    403,
    "the credential of 'ada' lacks scope administer itself, so it can make no key that has it",
)


@router.post(
    "",
    summary="Create a temporary key",
    responses=failures(_WIDER, "unsupported"),
)
def create_temporary_key(
    request: Request,
    services: ServicesOf,
    principals: PrincipalsOf,
    body: CreateTemporaryKeyRequest,
) -> TemporaryKeyModel:
    """An access key that can do no more than the caller's credential, and ends with it.

    Requests that it signs carry its security token (`dlf.security-token`). The answer is what
    Paimon's clients read from the file of `dlf.token-path`; the secret cannot be had again.
    """
    credential = request.scope["state"].get(CREDENTIAL)
    if not isinstance(credential, Credential):
        raise HTTPException(
            401,
            "a temporary key is made of the caller's credential: send a token, or sign the request",
            headers={"www-authenticate": "Bearer"},
        )
    if services.temporary_keys is None:
        raise Unsupported("this server gives out no temporary keys")
    scopes = None if body.scopes is None else [Scope(name) for name in body.scopes]
    key, holder = services.temporary_keys.make(
        credential,
        lifetime_millis=body.lifetime_millis,
        scopes=scopes,
        warehouses=body.warehouses,
    )
    principals.tokens.record_temporary_key(key.access_key_id, holder, key.expires_at)
    return TemporaryKeyModel.of(key)
