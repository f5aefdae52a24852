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
from headwater.catalog.sql.events.sink_position import Undelivered
from headwater.catalog.sql.operation import Backlog, SweepReport
from headwater.server.database_metrics import DatabaseMetrics
from headwater.server.delivery_metrics import DeliveryMetrics
from headwater.server.operation_metrics import OperationMetrics, WarehouseLabels
from headwater.server.storage_metrics import StorageMetrics
from headwater.server.sweep_metrics import SweepMetrics
from headwater.storage.errors import CorruptData, HeadwaterError, OutcomeUnknown, Unavailable
from headwater.storage.files.access import FileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["Metrics", "share_between_workers"]

_SHARED = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_CLOCKS = {"machine": "machine", "other": "database"}


class _Committing:
    """A commit that is under way; its outcome is set when it is known."""

    outcome = "unknown"


class Metrics:
    """The server's counts; every application has its own.

    Args:
        backlog: Tells each warehouse's backlog when the counts are asked for; it may raise
            HeadwaterError, and is left out then.
        token_expiry: Tells likewise after how many milliseconds the next token expires.
        runtime: The clock.

    Attributes:
        deliveries: The counts of events that go to sinks.
    """

    def __init__(
        self,
        backlog: Callable[[], Mapping[str, Backlog]] | None = None,
        token_expiry: Callable[[], int | None] | None = None,
        runtime: Runtime = SYSTEM_RUNTIME,
    ) -> None:
        self._registry = CollectorRegistry()
        self._labels = WarehouseLabels()
        self._warehouses: Callable[[], Mapping[str, bool]] = dict
        self._undelivered: Callable[[], Mapping[str, Undelivered]] = dict
        self._runtime = runtime
        self._operations = OperationMetrics(self._registry, self._labels)
        self._storage = StorageMetrics(self._registry, self._labels)
        self._database = DatabaseMetrics(self._registry)
        self._sweeps = SweepMetrics(self._registry, self._labels, runtime)
        self.deliveries = DeliveryMetrics(self._registry)
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
        self._audit_failures = Counter(
            "headwater_audit_failures",
            "Times that events of refused requests and reads could not be written, but are kept.",
            registry=self._registry,
        )
        self._backlog = backlog
        self._token_expiry = token_expiry
        # Each series' own counters: looking them up costs more than counting.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._fast: dict[str, Counter] = {}

    def request_begins(self) -> None:
        """Count a request that came in."""
        self._in_progress.inc()

    def request_ends(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
        operation: str = "none",
        warehouse: str = "",
    ) -> None:
        """Count its answer.

        Args:
            method: The HTTP method.
            route: The route's template, so that names do not make series of their own.
            status: The HTTP status.
            seconds: Its duration.
            operation: The operation's id; ``none`` where no route was.
            warehouse: The warehouse that was found for it; empty when none was.
        """
        self._in_progress.dec()
        self._operations.answered(operation, warehouse, status, seconds)
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
        self._commits.labels(self._labels.of(warehouse), outcome).inc()
        self._commit_seconds.labels(outcome).observe(seconds)

    def swept(self, warehouse: str, report: SweepReport | None) -> None:
        """Count a sweep of a warehouse, and what it did; see `SweepMetrics.swept`."""
        self._sweeps.swept(warehouse, report)

    def audit_failed(self) -> None:
        """Count a time that events of requests could not be written."""
        self._audit_failures.inc()

    def count_files(self, files: FileAccess, warehouse: str) -> FileAccess:
        """The file access to a warehouse, whose calls are counted."""
        return self._storage.count(files, warehouse)

    def watch(self, database: SqlDatabase) -> None:
        """Count the connections to a database, and its transactions, from now on."""
        self._database.watch(database)

    def watch_warehouses(self, states: Callable[[], Mapping[str, bool]]) -> None:
        """Show from now on, of each warehouse, whether its storage answers."""
        self._warehouses = states

    def watch_sinks(self, undelivered: Callable[[], Mapping[str, Undelivered]]) -> None:
        """Show from now on, of each sink, what it has yet to get; it may raise HeadwaterError."""
        self._undelivered = undelivered

    def text(self, ready: Mapping[str, bool] | None = None) -> bytes:
        """All counts, in Prometheus' text format.

        Args:
            ready: Of each thing that the server depends on, True if it answers.
        """
        registry = self._registry
        folder = os.environ.get(_SHARED)
        if folder is not None:
            _forget_the_dead(folder)
            registry = CollectorRegistry()
            MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry) + generate_latest(self._now(ready or {}))

    def _now(self, ready: Mapping[str, bool]) -> CollectorRegistry:
        registry = CollectorRegistry()
        states = {name: float(is_ready) for name, is_ready in ready.items()}
        told = "1 while what the server depends on answers, as for /readyz."
        registry.register(_Sampled("headwater_ready", told, states, "dependency"))
        found_well: dict[str, float] = {}
        for name, is_well in sorted(self._warehouses().items()):
            label = self._labels.of(name)
            found_well[label] = min(float(is_well), found_well.get(label, 1.0))
        told = "1 while the storage of the warehouse answered when it was asked last."
        registry.register(_Sampled("headwater_warehouse_ready", told, found_well, "warehouse"))
        if self._runtime.clock is not None:
            told = "How far a clock is ahead of the time counted since the server started."
            found_ahead = {
                _CLOCKS[name]: each for name, each in self._runtime.clock.differences().items()
            }
            registry.register(
                _Sampled("headwater_clock_difference_seconds", told, found_ahead, "clock")
            )
        # That the database does not answer shows in what is ready; one that hangs is not asked.
        if ready.get("database", True):
            with suppress(HeadwaterError):
                self._ask_database(registry)
        return registry

    def _ask_database(self, registry: CollectorRegistry) -> None:
        """Add what the database tells; raises Unavailable."""
        if self._backlog is not None:
            found = self._bounded(self._backlog())
            told = "Decisions that storage has yet to follow."
            names = "headwater_outbox_decisions", "headwater_outbox_oldest_seconds"
            waiting = {name: (each.decisions, each.oldest_millis) for name, each in found.items()}
            _register_waiting(registry, names, told, waiting, "warehouse")
        found_late = self._undelivered()
        told = "Events of the change feed that a sink has yet to get."
        names = "headwater_events_undelivered", "headwater_events_undelivered_oldest_seconds"
        waiting = {sink: (each.events, each.oldest_millis) for sink, each in found_late.items()}
        _register_waiting(registry, names, told, waiting, "sink")
        expiry = None if self._token_expiry is None else self._token_expiry()
        if expiry is not None:
            told = "The time until the next token of the database expires."
            seconds = {"": expiry / 1000}
            registry.register(_Sampled("headwater_token_next_expiry_seconds", told, seconds))

    def _bounded(self, backlog: Mapping[str, Backlog]) -> Mapping[str, Backlog]:
        """The backlogs by label; those of further warehouses are added up."""
        found: dict[str, Backlog] = {}
        for name, each in sorted(backlog.items()):
            label = self._labels.of(name)
            so_far = found.get(label, Backlog(0, 0))
            found[label] = Backlog(
                so_far.decisions + each.decisions, max(so_far.oldest_millis, each.oldest_millis)
            )
        return found


def _outcome(answer: bool | HeadwaterError) -> str:
    match answer:
        case OutcomeUnknown() | CorruptData():
            return "unknown"
        case Unavailable():
            return "not-sent"
        case HeadwaterError():
            return "refused"
    return "success" if answer else "conflict"


def _register_waiting(
    registry: CollectorRegistry,
    names: tuple[str, str],
    told: str,
    waiting: Mapping[str, tuple[int, int]],
    label: str,
) -> None:
    """Show how many wait, and how old the oldest is, whose milliseconds are given."""
    counts = {key: float(count) for key, (count, _) in waiting.items()}
    ages = {key: oldest / 1000 for key, (_, oldest) in waiting.items()}
    registry.register(_Sampled(names[0], told, counts, label))
    registry.register(_Sampled(names[1], "How old the oldest of them is.", ages, label))


class _Sampled(Collector):
    """A gauge with the values of the moment.

    Args:
        name: The metric's name.
        help_: Its description.
        values: Its values; each by the value of `label`, or the only one.
        label: The name of its label; None when it has none.
    """

    def __init__(
        self, name: str, help_: str, values: Mapping[str, float], label: str | None = None
    ) -> None:
        self._name = name
        self._help = help_
        self._values = dict(values)
        self._label = label

    def collect(self) -> Iterable[Metric]:
        """The gauge."""
        labels = [] if self._label is None else [self._label]
        gauge = GaugeMetricFamily(self._name, self._help, labels=labels)
        for value, number in sorted(self._values.items()):
            gauge.add_metric([value] if labels else [], number)
        return [gauge]


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
