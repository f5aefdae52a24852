"""What happens to every request before and after its route: ids, raw paths, the access log."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.server.errors import REQUEST_ID_HEADER
from headwater.server.logs import REQUEST_ID
from headwater.server.request_log import RequestLog
from headwater.storage.runtime import Runtime

__all__ = ["Envelope", "request_id_of"]

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")


class Envelope:
    """ASGI middleware around all routes.

    - A request id comes in with ``x-request-id`` or is made, and goes out with the answer.
    - Routes match the path as it was sent, escapes and all: a ``%2F`` in a name is no separator.
      The routes decode each segment (see `headwater.server.dependencies.Segment`).
    - A body is JSON whatever its content type says: Paimon's clients send ``text/plain``, or none.
    - One line is logged for each request, and the request is counted.

    Args:
        app: What answers.
        runtime: Where request ids come from.
        requests: Logs and counts.
    """

    def __init__(self, app: ASGIApp, *, runtime: Runtime, requests: RequestLog) -> None:
        self._app = app
        self._runtime = runtime
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(Headers(scope=scope), self._runtime)
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw_path.decode("utf-8", "replace")
        # In the connection's own state, where the handler of unexpected errors finds it, too.
        scope.setdefault("state", {})["request_id"] = request_id
        inner = dict(scope, path=path)
        inner["headers"] = [
            (name, value) for name, value in scope["headers"] if name != b"content-type"
        ] + [(b"content-type", b"application/json")]
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        token = REQUEST_ID.set(request_id)
        request = self._requests.begin(request_id, scope["method"], path, scope.get("client"))
        try:
            await self._app(inner, receive, answer)
        finally:
            REQUEST_ID.reset(token)
            self._requests.end(request, _route(inner), status, scope["state"].get("principal"))


def request_id_of(headers: Headers, runtime: Runtime) -> str:
    """The id that a request came with, or a new one."""
    given = headers.get(REQUEST_ID_HEADER, "")
    return given if _ACCEPTABLE_ID.fullmatch(given) else runtime.new_uuid()


def _route(scope: Scope) -> str:
    """The template of the route that answered; one name for all paths that lead nowhere."""
    return str(getattr(scope.get("route"), "path", "none"))
