"""The part of the threads that one warehouse may have, so that storage that hangs stops no other.

A request holds a place of its warehouse's share for as long as it may need a thread: from when its
body is there until its answer begins. What runs in a thread cannot be stopped, so a request that
was answered in its stead keeps its place until its thread comes back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.model.principal import current_principal
from headwater.server.authentication import OPEN_PATHS
from headwater.server.dependencies import Services, decode_segment
from headwater.server.errors import known_error_response
from headwater.server.request_bound import LateRequests
from headwater.storage.errors import HeadwaterError, Unavailable

__all__ = ["ThreadShares", "give_back_place"]

_GIVE_BACK = "thread_place"
_NEED_NO_THREAD = OPEN_PATHS | {"/metrics"}
_OF_A_WAREHOUSE = re.compile(r"/(?:v1|management/v1/warehouses)/([^/]+)/.")
_NO_WAREHOUSE = ""


def give_back_place(scope: Scope) -> None:
    """Give a request's place to another one: from now on it needs threads of its own kind only."""
    give_back: Callable[[], None] | None = scope.get("state", {}).get(_GIVE_BACK)
    if give_back is not None:
        give_back()


class ThreadShares:
    """ASGI middleware that lets each warehouse have so many threads, and no more.

    Requests that are about no warehouse have a share, too. Others of the same share wait for a
    place; they are answered 503 when none comes in time, and at once while late requests hold all.

    Args:
        app: The application that needs a thread for most requests.
        services: The catalogs, and the settings with the size of a share.
        late: The requests that were answered in their stead.
    """

    def __init__(self, app: ASGIApp, *, services: Services, late: LateRequests) -> None:
        self._app = app
        self._services = services
        self._late = late
        self._most = services.settings.warehouse_threads
        self._wait_seconds = services.settings.warehouse_wait.total_seconds()
        # In the loop that uses them: an application may be run more than once.
        self._shares: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, CapacityLimiter]] = (
            WeakKeyDictionary()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or scope["path"] in _NEED_NO_THREAD:
            await self._app(scope, receive, send)
            return
        warehouse = await self._warehouse(scope)
        share = self._share(warehouse)
        refusal = await self._enter(share, warehouse)
        if refusal is not None:
            await known_error_response(refusal)(scope, receive, send)
            return
        # Whoever enters also leaves: in another task the place would not be found.
        borrower = asyncio.current_task()
        is_held = True

        def leave() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                share.release_on_behalf_of(borrower)

        async def send_on(message: Message) -> None:
            # However slowly a client takes the answer, no thread waits for it.
            leave()
            await send(message)

        scope["state"][_GIVE_BACK] = leave
        try:
            await self._app(scope, receive, send_on)
        finally:
            leave()

    async def _warehouse(self, scope: Scope) -> str:
        """The warehouse that a request is about, if there is one that its caller may know."""
        found = _OF_A_WAREHOUSE.match(scope.get("raw_path", b"").decode("latin-1"))
        if found is None:
            return _NO_WAREHOUSE
        try:
            name = decode_segment(found[1])
            caller = current_principal()
            if caller is not None and not caller.reaches(name):
                return _NO_WAREHOUSE
            return name if await self._services.find(name) is not None else _NO_WAREHOUSE
        except (ValueError, HeadwaterError):
            # It is told the ordinary way.
            return _NO_WAREHOUSE

    def _share(self, warehouse: str) -> CapacityLimiter:
        shares = self._shares.setdefault(asyncio.get_running_loop(), {})
        share = shares.get(warehouse)
        if share is None:
            share = shares[warehouse] = CapacityLimiter(self._most)
            # A request needs one thread at a time: so none waits for another share's.
            to_thread.current_default_thread_limiter().total_tokens += self._most
        return share

    async def _enter(self, share: CapacityLimiter, warehouse: str) -> Unavailable | None:
        """Take a place of a share; the error if there is none."""
        if self._late.hold_all(share):
            return _refusal(warehouse, "are held by requests that wait for it and get no answer")
        task = asyncio.current_task()
        with suppress(anyio.WouldBlock):
            share.acquire_on_behalf_of_nowait(task)
            return None
        try:
            with anyio.fail_after(self._wait_seconds):
                await share.acquire_on_behalf_of(task)
        except TimeoutError:
            return _refusal(warehouse, f"have been in use for {self._wait_seconds:g} s")
        return None


def _refusal(warehouse: str, state: str) -> Unavailable:
    if not warehouse:
        return Unavailable(
            f"all threads of this server for requests about no warehouse {state}; nothing was "
            "done, try again"
        )
    return Unavailable(
        f"all threads of this server for warehouse '{warehouse}' {state} "
        "(HEADWATER_WAREHOUSE_THREADS): its storage or the database may hang; nothing was done, "
        "try again"
    )
