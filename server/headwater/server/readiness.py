"""Readiness: what the server depends on is asked, but not too often."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from headwater.storage.errors import HeadwaterError
from headwater.storage.runtime import Runtime

__all__ = ["KEPT_MILLIS", "SECONDS_TO_WAIT", "Probe", "Readiness", "ask"]

_LOG = logging.getLogger("headwater.server.readiness")

T = TypeVar("T")

Probe = Callable[[], None]
"""Asks something the server depends on; raises HeadwaterError when that does not answer."""

KEPT_MILLIS = 1_000
"""The time for which an answer counts: anybody may ask `/readyz`, and must not make work by it."""

SECONDS_TO_WAIT = 5.0
"""The longest time that a probe may take."""


class Readiness:
    """Asks each probe in a thread of its own, never twice at the same time.

    One that hangs makes the server unready and nothing else: it takes no thread from requests.

    Args:
        probes: The probes, by names that may be shown to anybody.
        runtime: The clock.
        seconds_to_wait: The longest time a probe may take.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        runtime: Runtime,
        seconds_to_wait: float = SECONDS_TO_WAIT,
    ) -> None:
        self._probes = dict(probes)
        self._runtime = runtime
        self._seconds_to_wait = seconds_to_wait
        self._running: dict[str, asyncio.Future[None]] = {}
        self._checked_at: float | None = None
        self._failed: tuple[str, ...] = ()

    async def failed(self) -> tuple[str, ...]:
        """The names of what does not answer, in order; the log has the reasons."""
        now = self._runtime.monotonic()
        if self._checked_at is None or now - self._checked_at >= KEPT_MILLIS / 1000:
            for name, probe in self._probes.items():
                if name not in self._running:
                    self._running[name] = asyncio.wrap_future(ask(name, probe))
            if self._running:
                await asyncio.wait(list(self._running.values()), timeout=self._seconds_to_wait)
            self._failed = tuple(sorted(name for name in self._probes if not self._is_well(name)))
            self._checked_at = now
        return self._failed

    async def states(self) -> Mapping[str, bool]:
        """Of each thing asked, by name, True if it answers."""
        failed = await self.failed()
        return {name: name not in failed for name in self._probes}

    def _is_well(self, name: str) -> bool:
        running = self._running.get(name)
        if running is None:  # another request took its answer
            return name not in self._failed
        if not running.done():
            _LOG.warning("%s has not answered for %s s", name, self._seconds_to_wait)
            return False
        del self._running[name]
        error = running.exception()
        if error is None:
            return True
        if not isinstance(error, HeadwaterError):
            raise error
        _LOG.warning("%s: %s", name, error)
        return False


def ask(name: str, question: Callable[[], T]) -> Future[T]:
    """Call something in a thread of that name, which does not keep the process from ending."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            answer = question()
        except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
            future.set_exception(error)
        else:
            future.set_result(answer)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
