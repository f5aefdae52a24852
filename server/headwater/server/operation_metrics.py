"""Requests by operation and warehouse, in a bounded number of series."""

from __future__ import annotations

from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Histogram

__all__ = ["MOST_WAREHOUSES", "OTHERS", "WAREHOUSE", "OperationMetrics", "WarehouseLabels"]

WAREHOUSE = "warehouse"
"""The key, in a connection's state, of the warehouse that was found for its request."""

MOST_WAREHOUSES = 100
"""The number of warehouses that have series of their own, in each server process."""

OTHERS = "(others)"
"""The label of all further warehouses, which is no warehouse's name."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class WarehouseLabels:
    """Labels of warehouses: the names of the first ones, and `OTHERS` for those that come later.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lock = Lock()

    def of(self, warehouse: str) -> str:
        """The label of a warehouse that exists; empty for the empty name."""
        if not warehouse or warehouse in self._known:
            return warehouse
        with self._lock:
            if len(self._known) >= MOST_WAREHOUSES and warehouse not in self._known:
                return OTHERS
            self._known.add(warehouse)
        return warehouse


class OperationMetrics:
    """Counts answers and how long they took, by operation and warehouse.

    Args:
        registry: The registry of the metrics.
        labels: The labels of warehouses.
    """

    def __init__(self, registry: CollectorRegistry, labels: WarehouseLabels) -> None:
        self._labels = labels
        self._requests = Counter(
            "headwater_operation_requests",
            "Requests answered, by operation of the API and warehouse.",
            ["operation", "warehouse", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "headwater_operation_seconds",
            "How long operations took to be answered.",
            ["operation", "warehouse"],
            buckets=_SECONDS,
            registry=registry,
        )
        # Each series' own counters: looking them up costs more than counting.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, operation: str, warehouse: str, status: int, seconds: float) -> None:
        """Count an answer.

        Args:
            operation: The operation's id in the API's description; ``none`` where no route was.
            warehouse: The warehouse that was found for the request; empty when none was.
            status: The HTTP status.
            seconds: Its duration.
        """
        label = self._labels.of(warehouse)
        series = self._series.get((operation, label, status))
        if series is None:
            series = self._series[operation, label, status] = (
                self._requests.labels(operation, label, str(status)),
                self._seconds.labels(operation, label),
            )
        count, latency = series
        count.inc()
        latency.observe(seconds)
