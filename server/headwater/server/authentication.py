"""Admission: by bearer token or signature, or, without, from this machine only; at a rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headwater.catalog.model.principal import Principal, acting_as
from headwater.catalog.wire.tables import ERROR_KIND_HEADER
from headwater.server.credentials import CREDENTIAL, Credential
from headwater.server.errors import error_response, known_error_response
from headwater.server.request_rates import RequestRates
from headwater.server.settings import is_loopback
from headwater.server.signatures.check import SCHEMES, SignatureCheck
from headwater.server.signatures.signed_request import SignatureFault
from headwater.server.token_check import TokenCheck
from headwater.storage.errors import Forbidden, HeadwaterError, Invalid, Unavailable

__all__ = ["ANYBODY", "OPEN_PATHS", "Authentication", "Gate", "Refusal"]

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})

ANYBODY = "anybody"
"""The name, in the log, of the caller of a request that needed no token."""


@dataclass(frozen=True)
class Refusal:
    """The reason why a caller is not let in, and the HTTP status that goes with it."""

    status: int
    message: str


class Gate:
    """Admits callers, or refuses them.

    With tokens, ``Authorization: Bearer <token>`` must carry one of them, or the request be signed
    by an access key. Without, the request's
    ``Host`` must be this machine and its ``Origin``, if a browser sent one, too: a page from
    elsewhere shall not reach the catalog through somebody's browser.

    Args:
        tokens: Checks tokens.
        signatures: Checks signatures.
        is_needed: Whether nobody is let in without a token. Otherwise one that is sent and good
            still says who calls: the management API asks for it.
    """

    def __init__(self, tokens: TokenCheck, signatures: SignatureCheck, *, is_needed: bool) -> None:
        self._tokens = tokens
        self._signatures = signatures
        self._is_needed = is_needed

    async def admit(self, scope: Scope) -> Principal | Refusal | None:
        """The caller, None being anybody; or the reason why the caller is not let in.

        Args:
            scope: The connection. Its credential, and what the body of a signed request must be,
                are left in its state.

        Raises:
            Unavailable: The database had to be asked about a token and did not answer.
        """
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _host_name(host) is None:
            return Refusal(400, f"'{host}' in the header 'Host' is not the name of a host")
        if len(headers.getlist("authorization")) > 1:
            # A proxy may have checked the other one.
            return Refusal(400, "the request has two headers 'Authorization'; send one of them")
        refusal = None if self._is_needed else _remote_refusal(host, headers.get("origin"))
        if refusal is not None:
            return refusal
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme in SCHEMES:
            try:
                signed = await self._signatures.credential(scope, scheme, token.strip())
            except SignatureFault as fault:
                return Refusal(401, str(fault)) if self._is_needed else None
            return _admitted(scope, signed)
        if scheme.lower() != "bearer" or not token.strip():
            return _NO_TOKEN if self._is_needed else None
        credential = await self._tokens.credential(token.strip())
        if credential is None:
            return _WRONG_TOKEN if self._is_needed else None
        return _admitted(scope, credential)


def _admitted(scope: Scope, credential: Credential) -> Principal:
    scope.setdefault("state", {})[CREDENTIAL] = credential
    return credential.principal


_NO_TOKEN = Refusal(401, "this catalog needs a token; send it as 'Authorization: Bearer <token>'")
_WRONG_TOKEN = Refusal(401, "the token is not one of this catalog's, or it has expired")


class Authentication:
    """ASGI middleware that lets a request in or answers 400, 401 or 403; `OPEN_PATHS` take anybody.

    The caller's name is left in the connection's state as ``principal``, for the log, and the
    caller in `headwater.catalog.model.principal`, for all who decide what it may do. A caller that
    sends too many requests is answered 429; callers without a token that lets them in count by
    their address.

    Args:
        app: The application behind it.
        gate: Admits callers.
        rates: The requests that each may send.
    """

    def __init__(self, app: ASGIApp, *, gate: Gate, rates: RequestRates) -> None:
        self._app = app
        self._gate = gate
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        try:
            principal = await self._gate.admit(scope)
        except HeadwaterError as error:
            await known_error_response(error)(scope, receive, send)
            return
        seconds = self._rates.take(_caller(principal, scope))
        if seconds is not None:
            if isinstance(principal, Principal):
                scope.setdefault("state", {})["principal"] = principal.name
            await _too_many(principal, seconds)(scope, receive, send)
            return
        if isinstance(principal, Refusal):
            kind = Invalid if principal.status == 400 else Forbidden
            told = {ERROR_KIND_HEADER: kind.__name__}
            if principal.status == 401:
                told["www-authenticate"] = "Bearer"
            answer = error_response(principal.status, principal.message, headers=told)
            await answer(scope, receive, send)
            return
        name = ANYBODY if principal is None else principal.name
        scope.setdefault("state", {})["principal"] = name
        with acting_as(principal):
            await self._app(scope, receive, send)


def _caller(admitted: Principal | Refusal | None, scope: Scope) -> tuple[bool, str]:
    """A principal's name or an address, which no principal can have as its name."""
    if isinstance(admitted, Principal):
        return True, admitted.name
    client = scope.get("client")
    return False, client[0] if client else ""


def _too_many(admitted: Principal | Refusal | None, seconds: int) -> Response:
    who = f"'{admitted.name}' sends" if isinstance(admitted, Principal) else "this address sends"
    return error_response(
        429,
        f"{who} more requests than this server takes (HEADWATER_MAX_REQUESTS_PER_SECOND); nothing "
        f"was done, try again in {seconds} s",
        headers={ERROR_KIND_HEADER: Unavailable.__name__, "retry-after": str(seconds)},
    )


@lru_cache
def _remote_refusal(host_header: str, origin: str | None) -> Refusal | None:
    host = _host_name(host_header) or ""
    if not is_loopback(host):
        return Refusal(
            403,
            f"this catalog has no token and serves only this machine, not the host '{host}'; "
            "start it with a token, or call it as localhost",
        )
    if origin is not None and not is_loopback(_host_name(origin.partition("://")[2]) or ""):
        return Refusal(
            403,
            f"this catalog has no token and takes no requests from pages of {origin}",
        )
    return None


@lru_cache
def _host_name(host: str) -> str | None:
    """The name or address in a header's host, without its port; None if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets without an address
        return None
