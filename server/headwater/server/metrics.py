"""The server's counts, for Prometheus.

With several workers each keeps its counts in files of a folder that they share, and whichever is
asked adds them up (`share_between_workers`).
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from headwater.catalog.sql.database.engine import SqlDatabase
from headwater.catalog.sql.operation import Backlog
from headwater.storage.errors import CorruptData, HeadwaterError, OutcomeUnknown, Unavailable

__all__ = ["Metrics", "share_between_workers"]

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class _Committing:
    """A commit that is under way; its outcome is set when it is known."""

    outcome = "unknown"


class Metrics:
    """The server's counts; every application has its own.

    Args:
        backlog: Tells each warehouse's backlog when the counts are asked for; it may raise
            HeadwaterError, and is left out then.
    """

    def __init__(self, backlog: Callable[[], Mapping[str, Backlog]] | None = None) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "headwater_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "headwater_http_request_seconds",
            "How long requests took to be answered.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._fast_requests = Counter(
            "headwater_fast_lane_requests",
            "Requests that were answered together with others, by the fast lane.",
            ["route"],
            registry=self._registry,
        )
        self._in_progress = Gauge(
            "headwater_http_requests_in_progress",
            "Requests that are being answered.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self._refused = Counter(
            "headwater_http_refused",
            "Connections and requests that were refused before the application saw them whole.",
            ["status"],
            registry=self._registry,
        )
        self._commits = Counter(
            "headwater_commits",
            "Commits by outcome: success, conflict, refused, not-sent or unknown (answered 5xx).",
            ["warehouse", "outcome"],
            registry=self._registry,
        )
        self._commit_seconds = Histogram(
            "headwater_commit_seconds",
            "How long commits took.",
            ["outcome"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._connections = Gauge(
            "headwater_database_connections",
            "Connections to the catalog's database: open, and in use.",
            ["state"],
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self._repaired = Counter(
            "headwater_sweep_repaired",
            "Decisions left open by a crash that a sweep made storage follow.",
            registry=self._registry,
        )
        self._sweep_failures = Counter(
            "headwater_sweep_failures",
            "What a sweep could not do; the log says why.",
            registry=self._registry,
        )
        self._purged = Counter(
            "headwater_sweep_purged",
            "Dropped tables that a sweep deleted because their time was up.",
            registry=self._registry,
        )
        self._backlog = backlog
        # Each series' own counters: looking them up costs more than counting.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._fast: dict[str, Counter] = {}

    def request_begins(self) -> None:
        """Count a request that came in."""
        self._in_progress.inc()

    def request_ends(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count its answer.

        Args:
            method: The HTTP method.
            route: The route's template, so that names do not make series of their own.
            status: The HTTP status.
            seconds: Its duration.
        """
        self._in_progress.dec()
        series = self._series.get((method, route, status))
        if series is None:
            series = self._series[method, route, status] = (
                self._requests.labels(method, route, str(status)),
                self._request_seconds.labels(method, route),
            )
        count, latency = series
        count.inc()
        latency.observe(seconds)

    def refused(self, status: int) -> None:
        """Count a connection or a request that `headwater.server.http_protocol` refuses."""
        self._refused.labels(str(status)).inc()

    def fast_lane_taken(self, route: str) -> None:
        """Count a request that the fast lane answers; see `headwater.server.fast`."""
        count = self._fast.get(route)
        if count is None:
            count = self._fast[route] = self._fast_requests.labels(route)
        count.inc()

    @contextmanager
    def committing(self, warehouse: str) -> Iterator[_Committing]:
        """Count a commit and how long it takes; set the outcome within the block."""
        commit = _Committing()
        started = time.perf_counter()
        try:
            yield commit
        except HeadwaterError as error:
            commit.outcome = _outcome(error)
            raise
        finally:
            self._committed(warehouse, commit.outcome, time.perf_counter() - started)

    def committed(self, warehouse: str, answer: bool | HeadwaterError, seconds: float) -> None:
        """Count a commit that is over: taken, in conflict, or ended by an error."""
        self._committed(warehouse, _outcome(answer), seconds)

    def _committed(self, warehouse: str, outcome: str, seconds: float) -> None:
        self._commits.labels(warehouse, outcome).inc()
        self._commit_seconds.labels(outcome).observe(seconds)

    def swept(self, repaired: int, failures: int, purged: int) -> None:
        """Count what a sweep did."""
        self._repaired.inc(repaired)
        self._sweep_failures.inc(failures)
        self._purged.inc(purged)

    def watch(self, database: SqlDatabase) -> None:
        """Count the connections to a database from now on."""
        opened, used = self._connections.labels("open"), self._connections.labels("in_use")
        database.watch(opened.inc, used.inc)

    def text(self) -> bytes:
        """All counts, in Prometheus' text format."""
        registry = self._registry
        folder = os.environ.get(_SHARED)
        if folder is not None:
            _forget_the_dead(folder)
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry) + generate_latest(self._now())

    def _now(self) -> CollectorRegistry:
        registry = CollectorRegistry()
        if self._backlog is not None:
            # That the database does not answer shows in /readyz.
            with suppress(HeadwaterError):
                registry.register(_BacklogNow(self._backlog()))
        return registry


def _outcome(answer: bool | HeadwaterError) -> str:
    match answer:
        case OutcomeUnknown() | CorruptData():
            return "unknown"
        case Unavailable():
            return "not-sent"
        case HeadwaterError():
            return "refused"
    return "success" if answer else "conflict"


class _BacklogNow(Collector):
    """The backlog as it was found."""

    def __init__(self, backlog: Mapping[str, Backlog]) -> None:
        self._backlog = dict(backlog)

    def collect(self) -> Iterable[Metric]:
        decisions = GaugeMetricFamily(
            "headwater_outbox_decisions",
            "Decisions that storage has yet to follow.",
            labels=["warehouse"],
        )
        oldest = GaugeMetricFamily(
            "headwater_outbox_oldest_seconds",
            "How old the oldest of them is.",
            labels=["warehouse"],
        )
        for warehouse, backlog in sorted(self._backlog.items()):
            decisions.add_metric([warehouse], backlog.decisions)
            oldest.add_metric([warehouse], backlog.oldest_millis / 1000)
        return decisions, oldest


@contextmanager
def share_between_workers() -> Iterator[None]:
    """Let the processes that are started within the block add up their counts."""
    with TemporaryDirectory(prefix="headwater-metrics-") as folder:
        os.environ[_SHARED] = folder
        try:
            yield
        finally:
            del os.environ[_SHARED]


def _forget_the_dead(folder: str) -> None:
    """Drop the gauges of workers that are gone; their counters still count."""
    for path in glob.glob(os.path.join(glob.escape(folder), "gauge_live*.db")):
        pid = Path(path).stem.rpartition("_")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
            mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
