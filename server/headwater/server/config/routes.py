"""The configuration that a client asks for first."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote_plus

from fastapi import Query, Request

from headwater.catalog.wire.signed_requests import SIGNED_REQUESTS
from headwater.catalog.wire.tables import ConfigResponse
from headwater.server.dependencies import Services, ServicesOf, list_of
from headwater.server.error_responses import failures
from headwater.server.operation_metrics import WAREHOUSE
from headwater.server.request_signing import can_sign
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Invalid, NotFound

__all__ = ["router"]

router = ResourceRouter(tags=["config"])

# Java up to 1.4 and pypaimon up to 2.1 encode the name, and their HTTP client does so again.
_MOST_ENCODINGS = 2
_DATA_TOKENS = "data-token.enabled"


@router.get("/v1/config", summary="Get the catalog's configuration", responses=failures())
async def get_config(
    services: ServicesOf,
    request: Request,
    warehouse: Annotated[
        str | None, Query(description="The warehouse's name; optional if there is only one.")
    ] = None,
) -> ConfigResponse:
    """Clients call this for nearly every commit, so the database is asked only every few seconds.

    `prefix`, the first path segment of everything else, is the warehouse's name.
    """
    settings = services.settings
    prefix = await _resolve(services, warehouse)
    request.scope["state"][WAREHOUSE] = prefix
    signs = settings.signed_request_seconds is not None and can_sign(await services.find(prefix))
    signed = {SIGNED_REQUESTS: "true"} if signs else {}
    tokens = {} if settings.data_token_seconds is None else {_DATA_TOKENS: "true"}
    return ConfigResponse(
        defaults={**tokens, **signed, **settings.plain_client_options()},
        overrides={"prefix": prefix},
    )


async def _resolve(services: Services, warehouse: str | None) -> str:
    if not warehouse:
        names = await services.names()
        if len(names) != 1:
            raise Invalid(f"name a warehouse; this server has {list_of(names)}")
        return names[0]
    name = warehouse
    for _ in range(_MOST_ENCODINGS + 1):
        if await services.find(name) is not None:
            return name
        decoded = unquote_plus(name)
        if decoded == name:
            break
        name = decoded
    names = await services.names()
    raise NotFound(f"warehouse '{warehouse}' does not exist; this server has {list_of(names)}")
