"""The outermost layer around every request: its id, its raw path, its line in the log."""

from __future__ import annotations

import re
from itertools import count

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.model.origin import ORIGIN, Origin
from headwater.server.authentication import ANYBODY
from headwater.server.denials import DENIED, Denials
from headwater.server.errors import REQUEST_ID_HEADER
from headwater.server.logs import REQUEST_ID
from headwater.server.operation_metrics import WAREHOUSE
from headwater.server.read_audit import ReadAudit
from headwater.server.request_counts import NotedRequest, requested_subject, requested_warehouse
from headwater.server.request_log import Begun, RequestLog
from headwater.storage.runtime import Runtime

__all__ = ["Envelope", "RequestIds"]

_ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
# All of a UUID but its last group.
_RANDOM_CHARACTERS = 24
_OK, _REFUSED = 200, frozenset({401, 403})


class RequestIds:
    """Names requests: a random beginning, one for each process, and a number.

    Args:
        runtime: The source of the beginning.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._beginning = runtime.new_uuid()[:_RANDOM_CHARACTERS]
        self._numbers = count(1)

    def of(self, given: str | None) -> str:
        """The id that a request came with, or a new one, which looks like a UUID."""
        if given is not None and _ACCEPTABLE_ID.fullmatch(given):
            return given
        return f"{self._beginning}{next(self._numbers):012x}"


class Envelope:
    """ASGI middleware around all routes.

    - A request id comes in with ``x-request-id`` or is made, and goes out with the answer.
    - Routes match the path as it was sent, escapes and all: a ``%2F`` in a name is no separator.
      The routes decode each segment (see `headwater.server.dependencies.Segment`).
    - A body is JSON whatever its content type says: Paimon's clients send ``text/plain``, or none.
    - One line is logged for each request, and the request is counted, under the template and the
      operation of the route that answered: all paths that lead nowhere have one name.
    - Requests that are refused to their callers, and reads if they are audited, are noted for the
      change feed.

    Args:
        app: The application inside.
        ids: The source of request ids.
        requests: The log and the counts.
        denials: Notes refused requests; None to note none.
        reads: Notes reads; None to note none.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        ids: RequestIds,
        requests: RequestLog,
        denials: Denials | None = None,
        reads: ReadAudit | None = None,
    ) -> None:
        self._app = app
        self._ids = ids
        self._requests = requests
        self._denials = denials
        self._reads = reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._ids.of(Headers(scope=scope).get(REQUEST_ID_HEADER))
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw_path.decode("utf-8", "replace")
        # In the connection's own state, where the handler of unexpected errors finds it, too.
        scope.setdefault("state", {})["request_id"] = request_id
        inner = dict(scope, path=path)
        inner["headers"] = [
            (name, value) for name, value in scope["headers"] if name != b"content-type"
        ] + [(b"content-type", b"application/json")]
        status, is_over = 500, False

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            elif not message.get("more_body", False):
                # What took too long for its client may go on for long.
                end()
            await send(message)

        def end() -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            state, route = scope["state"], inner.get("route")
            operation = str(getattr(route, "unique_id", "none"))
            if self._denials is not None and (status in _REFUSED or DENIED in state):
                self._denials.add(_noted(request, inner, operation, status), request_id)
            elif self._reads is not None and status == _OK and operation in self._reads.operations:
                self._reads.add(_noted(request, inner, operation, status), request_id)
            self._requests.end(
                request,
                str(getattr(route, "path", "none")),
                status,
                state.get("principal"),
                operation,
                state.get(WAREHOUSE, ""),
            )

        token = REQUEST_ID.set(request_id)
        request = self._requests.begin(request_id, scope["method"], path, scope.get("client"))
        origin = ORIGIN.set(Origin(request.client, request_id))
        try:
            await self._app(inner, receive, answer)
        finally:
            ORIGIN.reset(origin)
            REQUEST_ID.reset(token)
            end()


def _noted(request: Begun, scope: Scope, operation: str, status: int) -> NotedRequest:
    principal = scope["state"].get("principal")
    parameters = scope.get("path_params") or {}
    return NotedRequest(
        None if principal == ANYBODY else principal,
        request.client,
        requested_warehouse(parameters),
        requested_subject(request.path, parameters),
        operation,
        status,
    )
