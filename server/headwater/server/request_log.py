"""The log line and the counts of each request."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import perf_counter

from headwater.server.metrics import Metrics
from headwater.storage.runtime import Runtime

__all__ = ["ACCESS_LOGGER", "RequestLog"]

ACCESS_LOGGER = "headwater.server.access"

_LIKE_ALL = logging.LogRecord(
    ACCESS_LOGGER, logging.INFO, __file__, 0, "%s %s %s", None, None
).__dict__
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


@dataclass(slots=True)
class Begun:
    """A request that is being answered.

    Attributes:
        request_id: Its id.
        method: Its method.
        path: Its path, as it was sent.
        client: The address that it comes from.
        started: Its start, by `perf_counter`.
    """

    request_id: str
    method: str
    path: str
    client: str | None
    started: float


class RequestLog:
    """Writes one line for each request, and counts it.

    Args:
        metrics: The counts.
        runtime: Its clock.
    """

    def __init__(self, metrics: Metrics, runtime: Runtime) -> None:
        self._metrics = metrics
        self._now_millis = runtime.now_millis
        self._log = logging.getLogger(ACCESS_LOGGER)

    def begin(
        self, request_id: str, method: str, path: str, client: tuple[str, int] | None
    ) -> Begun:
        """Note a request that came in."""
        self._metrics.request_begins()
        return Begun(request_id, method, path, client[0] if client else None, perf_counter())

    def end(
        self,
        request: Begun,
        route: str,
        status: int,
        principal: str | None,
        operation: str = "none",
        warehouse: str = "",
    ) -> None:
        """Log and count its answer.

        Args:
            request: From `begin`.
            route: The template of the route that answered.
            status: The HTTP status.
            principal: The caller, as far as known.
            operation: The operation's id; ``none`` where no route was.
            warehouse: The warehouse that was found for it; empty when none was.
        """
        seconds = perf_counter() - request.started
        # What is no method would make a series of its own.
        method = request.method if request.method in _METHODS else "other"
        self._metrics.request_ends(method, route, status, seconds, operation, warehouse)
        if not self._log.isEnabledFor(logging.INFO):
            return
        # Made of one that is there: looking for the line of code, the thread and the process anew
        # takes longer than all else that is done here.
        record = logging.LogRecord.__new__(logging.LogRecord)
        now = self._now_millis()
        record.__dict__.update(
            _LIKE_ALL,
            created=now / 1000,
            msecs=now % 1000,
            args=(request.method, request.path, status),
        )
        record.request = {
            "request_id": request.request_id,
            "method": request.method,
            "path": request.path,
            "status": status,
            "milliseconds": round(seconds * 1000, 3),
            "client": request.client,
            "principal": principal,
        }
        self._log.handle(record)
