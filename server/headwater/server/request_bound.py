"""The longest time that a request takes: whoever waits gets an answer, and threads do not pile up.

What runs in a thread cannot be stopped. So a request that is late is answered in its stead, and
what it began goes on without its client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any

from anyio import CancelScope, CapacityLimiter
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.server.authentication import OPEN_PATHS
from headwater.server.errors import known_error_response
from headwater.storage.errors import OutcomeUnknown, Unavailable

__all__ = ["LateRequests", "RequestBound", "Start", "current_start", "starting"]

_LOG = logging.getLogger("headwater.server.requests")
# They change nothing, though they are not asked with GET.
_READS = frozenset({"authTableQuery", "readTable"})


class Start:
    """The moment from which on a request may have done something; it comes once, or never."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._has_begun = False
        self._is_given_up = False

    def begin(self) -> bool:
        """Begin, unless the request was given up before; False then."""
        with self._lock:
            self._has_begun = not self._is_given_up
            return self._has_begun

    def give_up(self) -> bool:
        """Never begin; False if it has begun."""
        with self._lock:
            self._is_given_up = not self._has_begun
            return self._is_given_up


_START: ContextVar[Start | None] = ContextVar("start", default=None)


def current_start() -> Start | None:
    """The start of the request that is being answered; None where none has a bound."""
    return _START.get()


def starting(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """A function that answers requests, which does nothing for one that was given up."""

    def start() -> None:
        current = _START.get()
        if current is not None and not current.begin():
            raise Unavailable("the request was given up before it began")

    if iscoroutinefunction(endpoint):

        @wraps(endpoint)
        async def answer_soon(*arguments: Any, **named: Any) -> Any:
            start()
            return await endpoint(*arguments, **named)

        return answer_soon

    @wraps(endpoint)
    def answer(*arguments: Any, **named: Any) -> Any:
        start()
        return endpoint(*arguments, **named)

    return answer


class LateRequests:
    """The requests that were answered in their stead, and still hold what they need."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any] | None] = set()

    def enter(self, task: asyncio.Task[Any] | None) -> None:
        """Count a request that goes on without its client."""
        self._tasks.add(task)

    def leave(self, task: asyncio.Task[Any] | None) -> None:
        """Count it no more."""
        self._tasks.discard(task)

    def hold_all(self, share: CapacityLimiter) -> bool:
        """True if no place of a share is left for any other."""
        if not self._tasks or share.available_tokens > 0:
            return False
        return self._tasks.issuperset(share.statistics().borrowers)


class RequestBound:
    """ASGI middleware that answers in a request's stead when it takes too long.

    The time counts from the end of its body on. A request that has not begun to do anything is
    given up, and answered 503. One that has is answered 503, too, where it only reads; else 500,
    because its outcome is not known, and clients must not take it for undone. An answer that has
    begun goes on.

    Args:
        app: The application inside.
        seconds: The longest time that a request takes.
        late: Those that took longer.
    """

    def __init__(self, app: ASGIApp, *, seconds: float, late: LateRequests) -> None:
        self._app = app
        self._seconds = seconds
        self._late = late

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        request = _Request(scope, receive, send, self._seconds, self._late)
        token = _START.set(request.start)
        try:
            await request.answer(self._app)
        finally:
            _START.reset(token)


class _Request:
    """A request that is being answered."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, seconds: float, late: LateRequests
    ) -> None:
        self.start = Start()
        self._scope = scope
        self._receive_next = receive
        self._send_on = send
        self._seconds = seconds
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelling = CancelScope()
        self._timer: asyncio.TimerHandle | None = None
        self._has_body = False
        self._has_answered = False
        self._other_answer: asyncio.Task[None] | None = None

    async def answer(self, app: ASGIApp) -> None:
        """Answer by the application, or in its stead."""
        self._begin_to_wait()
        try:
            with self._cancelling:
                await app(self._scope, self._receive, self._send)
        finally:
            self._wait_no_more()
            self._late.leave(self._task)
            if self._other_answer is not None:
                await self._other_answer

    def _begin_to_wait(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _receive(self) -> Message:
        if self._has_body:
            return await self._receive_next()
        # The client's time is limited by itself.
        self._wait_no_more()
        message = await self._receive_next()
        self._has_body = not message.get("more_body", False)
        self._begin_to_wait()
        return message

    async def _send(self, message: Message) -> None:
        if self._other_answer is not None:
            return
        self._has_answered = True
        self._wait_no_more()
        await self._send_on(message)

    def _give_up(self) -> None:
        self._timer = None
        has_begun = not self.start.give_up()
        self._late.enter(self._task)
        response = known_error_response(self._error(has_begun))
        _LOG.warning(
            "request %s has taken %g s and is answered %d; what it waits for has not come",
            self._scope.get("state", {}).get("request_id"),
            self._seconds,
            response.status_code,
        )
        self._other_answer = self._loop.create_task(self._answer(response))
        self._cancelling.cancel()

    def _error(self, has_begun: bool) -> Unavailable:
        took = f"the request took longer than {self._seconds:g} s (HEADWATER_REQUEST_TIMEOUT)"
        operation = getattr(self._scope.get("route"), "unique_id", None)
        if not has_begun:
            return Unavailable(f"{took}; nothing was done, try again")
        if self._scope["method"] in ("GET", "HEAD") or operation in _READS:
            return Unavailable(f"{took}; try again")
        return OutcomeUnknown(
            f"{took}, and may still be carried out: see whether it was before you repeat it"
        )

    async def _answer(self, response: Response) -> None:
        await response(self._scope, self._receive_next, self._send_on)
