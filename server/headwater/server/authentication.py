"""Who may call: bearer tokens, or, without any, this machine only."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.principal import acting_as
from headwater.catalog.wire import ERROR_KIND_HEADER
from headwater.server.errors import error_response, known_error_response
from headwater.server.settings import is_loopback
from headwater.server.token_check import TokenCheck
from headwater.storage.errors import Forbidden, HeadwaterError

__all__ = ["ANYBODY", "OPEN_PATHS", "Authentication"]

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})

ANYBODY = "anybody"
"""The principal of a request that needed no token."""


class Authentication:
    """ASGI middleware that lets a request in or answers 401 or 403.

    With tokens, ``Authorization: Bearer <token>`` must carry one of them. Without, the request's
    ``Host`` must be this machine and its ``Origin``, if a browser sent one, too: a page from
    elsewhere shall not reach the catalog through somebody's browser. `OPEN_PATHS` take anybody.

    Who calls is left in the connection's state as ``principal``, for the log, and in
    `headwater.catalog.principal`, for the catalog's records.

    Args:
        app: What is let through to.
        tokens: Checks tokens; None when none are needed.
    """

    def __init__(self, app: ASGIApp, *, tokens: TokenCheck | None) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        principal: str | None = None
        if self._tokens is None:
            refusal = _remote_refusal(headers)
        else:
            try:
                principal, refusal = await _check(self._tokens, headers)
            except HeadwaterError as error:
                await known_error_response(error)(scope, receive, send)
                return
        if refusal is not None:
            status, message = refusal
            answer = {ERROR_KIND_HEADER: Forbidden.__name__}
            if status == 401:
                answer["www-authenticate"] = "Bearer"
            await error_response(status, message, headers=answer)(scope, receive, send)
            return
        scope.setdefault("state", {})["principal"] = principal or ANYBODY
        with acting_as(principal):
            await self._app(scope, receive, send)


async def _check(tokens: TokenCheck, headers: Headers) -> tuple[str | None, tuple[int, str] | None]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return None, (
            401,
            "this catalog needs a token; send it as 'Authorization: Bearer <token>'",
        )
    principal = await tokens.principal(token.strip())
    if principal is None:
        return None, (401, "the token is not one of this catalog's, or it has expired")
    return principal, None


def _remote_refusal(headers: Headers) -> tuple[int, str] | None:
    host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    if not is_loopback(host):
        return 403, (
            f"this catalog has no token and serves only this machine, not the host '{host}'; "
            "start it with a token, or call it as localhost"
        )
    origin = headers.get("origin")
    if origin is not None and not is_loopback(urlsplit(origin).hostname or ""):
        return 403, f"this catalog has no token and takes no requests from pages of {origin}"
    return None
