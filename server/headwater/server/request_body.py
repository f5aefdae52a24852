"""Request bodies: read whole before anything else looks at them, within a limit.

A body that is not text is rejected only when a route reads it: errors about the path come first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.wire.tables import ERROR_KIND_HEADER
from headwater.server.errors import error_response
from headwater.server.signatures.signed_request import BODY_DIGEST, BodyDigest
from headwater.storage.errors import Forbidden, HeadwaterError, Invalid

__all__ = ["BODY", "RequestBody"]

BODY = "body"
"""The key of the body in the connection's state; absent when the request has none that is text."""

# Other characters, escapes of other things, and both halves of surrogate pairs together. Nothing is
# tried twice, and nothing is built: a large body holds up other requests as long as this takes.
_WHOLE_CHARACTERS = re.compile(
    rb"(?:[^\\]++"
    rb"|\\[^u]"
    rb"|\\u(?![dD][89a-fA-F])"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+",
    re.DOTALL,
)

# Longer numbers are beyond every limit, and Python may refuse to read them.
_MAX_NUMBER_DIGITS = 18


class RequestBody:
    """ASGI middleware that reads the body and leaves it in the connection's state.

    A body that is larger than the limit is answered 413: unread, where its length is announced,
    and otherwise as soon as it grows too large. One that is not the body that the request was
    signed with is answered 401. One that is not text is not left there, and the application that
    receives it gets an HTTPException with status 400.

    Args:
        app: The application that gets the request.
        largest: The limit, bytes.
    """

    def __init__(self, app: ASGIApp, *, largest: int) -> None:
        self._app = app
        self._largest = largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        length = _announced(scope) if scope["type"] == "http" else 0
        if length == 0:
            app = self._app if _is_as_signed(scope, b"") else _NOT_SIGNED
            await app(scope, receive, send)
            return
        body = bytearray()
        more = length is None or length <= self._largest
        is_too_large = not more
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                await _refuse(400, "the request ended before its body did")(scope, receive, send)
                return
            body += message.get("body", b"")
            is_too_large = len(body) > self._largest
            more = message.get("more_body", False) and not is_too_large
        if is_too_large:
            answer = _refuse(
                413,
                f"the request body is larger than the {self._largest} bytes that this server "
                "takes; send less at a time, or set HEADWATER_MAX_BODY_SIZE for the server",
            )
            answer.headers["connection"] = "close"
            await answer(scope, receive, send)
            return
        whole = bytes(body)
        body.clear()
        if not _is_as_signed(scope, whole):
            await _NOT_SIGNED(scope, receive, send)
            return
        wrong = _fault(whole)
        if wrong is not None:
            await self._app(scope, _fails(f"the request body {wrong}"), send)
            return
        state = scope.setdefault("state", {})
        state[BODY] = whole
        # The only reference to the body here: the scope outlives the response until the connection
        # ends or has its next request, and this frame may stay in the traceback of an error.
        del whole, message
        try:
            await self._app(scope, _again(state, receive), send)
        finally:
            del state[BODY]


def _announced(scope: Scope) -> int | None:
    """The number of bytes that the request announces; None if it does not say."""
    headers = Headers(scope=scope)
    length = headers.get("content-length")
    if length is None:
        return None if "transfer-encoding" in headers else 0
    # The parser lets only digits through.
    return int(length[: _MAX_NUMBER_DIGITS + 1])


def _is_as_signed(scope: Scope, body: bytes) -> bool:
    """Whether the request is not signed, or was signed with that body."""
    digest = scope.get("state", {}).get(BODY_DIGEST)
    return not isinstance(digest, BodyDigest) or digest.is_of(body)


def _refuse(status: int, message: str, kind: type[HeadwaterError] = Invalid) -> Response:
    return error_response(status, message, headers={ERROR_KIND_HEADER: kind.__name__})


_NOT_SIGNED = _refuse(401, "the request body is not the one that was signed", Forbidden)


def _fault(body: bytes) -> str | None:
    """The reason why a body is not text; None if it is."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 from byte {error.start} on"
    if b"\\ud" not in body and b"\\uD" not in body:
        return None
    # An escaped half of a surrogate pair is valid JSON, but no text that could be stored or sent.
    if _WHOLE_CHARACTERS.fullmatch(body) is None:
        return "has half of a surrogate pair (\\ud800 to \\udfff alone), which is not a character"
    return None


def _fails(message: str) -> Receive:
    """Receive no body; the framework answers with what a middleware raises there."""

    async def fail() -> Message:
        raise HTTPException(400, message, {ERROR_KIND_HEADER: Invalid.__name__})

    return fail


def _again(state: Mapping[str, Any], receive: Receive) -> Receive:
    """Receive the body that was read already, and then what follows it."""
    is_received = False

    async def again() -> Message:
        nonlocal is_received
        if is_received or BODY not in state:
            return await receive()
        is_received = True
        return {"type": "http.request", "body": state[BODY], "more_body": False}

    return again
