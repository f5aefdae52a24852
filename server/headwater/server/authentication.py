"""Who may call: bearer tokens, or, without any, this machine only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.wire import ERROR_KIND_HEADER
from headwater.server.errors import error_response
from headwater.server.settings import is_loopback
from headwater.storage.errors import Forbidden

__all__ = ["OPEN_PATHS", "Authentication"]

OPEN_PATHS = frozenset({"/healthz", "/openapi.json", "/docs"})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


class Authentication:
    """ASGI middleware that lets a request in or answers 401 or 403.

    With tokens, ``Authorization: Bearer <token>`` must carry one of them. Without, the request's
    ``Host`` must be this machine and its ``Origin``, if a browser sent one, too: a page from
    elsewhere shall not reach the catalog through somebody's browser. `OPEN_PATHS` take anybody.
    """

    def __init__(self, app: ASGIApp, *, tokens: Iterable[str]) -> None:
        self._app = app
        self._digests = tuple(_digest(token) for token in tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            headers = Headers(scope=scope)
            refusal = self._token_refusal(headers) if self._digests else _remote_refusal(headers)
            if refusal is not None:
                status, message = refusal
                answer = {ERROR_KIND_HEADER: Forbidden.__name__}
                if status == 401:
                    answer["www-authenticate"] = "Bearer"
                await error_response(status, message, headers=answer)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _token_refusal(self, headers: Headers) -> tuple[int, str] | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return 401, "this catalog needs a token; send it as 'Authorization: Bearer <token>'"
        offered = _digest(token.strip())
        # Every token is compared, in constant time: how long it takes tells nothing.
        matches = [hmac.compare_digest(offered, known) for known in self._digests]
        if not any(matches):
            return 401, "the token is not one of this catalog's"
        return None


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
