"""Counts of sweeps, by warehouse, and of what they did."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from headwater.catalog.sql.operation import SweepReport
from headwater.server.operation_metrics import WarehouseLabels
from headwater.storage.runtime import Runtime

__all__ = ["SweepMetrics"]


class SweepMetrics:
    """Counts sweeps.

    Args:
        registry: The registry of the metrics.
        labels: The labels of warehouses.
        runtime: The clock.
    """

    def __init__(
        self, registry: CollectorRegistry, labels: WarehouseLabels, runtime: Runtime
    ) -> None:
        self._labels = labels
        self._runtime = runtime
        self._repaired = Counter(
            "headwater_sweep_repaired",
            "Decisions left open by a crash that a sweep made storage follow.",
            registry=registry,
        )
        self._failures = Counter(
            "headwater_sweep_failures",
            "What a sweep could not do; the log says why.",
            registry=registry,
        )
        self._purged = Counter(
            "headwater_sweep_purged",
            "Dropped tables that a sweep deleted because their time was up.",
            registry=registry,
        )
        self._forgotten = Counter(
            "headwater_sweep_forgotten",
            "Rows of expired snapshots that a sweep deleted because their retention had ended.",
            registry=registry,
        )
        self._sweeps = Counter(
            "headwater_sweeps",
            "Sweeps by outcome: done, partly (some decisions stay open) or failed.",
            ["warehouse", "outcome"],
            registry=registry,
        )
        self._swept_at = Gauge(
            "headwater_sweep_last_success_timestamp_seconds",
            "When a sweep last did all that there was to do, in seconds since the epoch.",
            ["warehouse"],
            registry=registry,
            multiprocess_mode="max",
        )

    def swept(self, warehouse: str, report: SweepReport | None) -> None:
        """Count a sweep of a warehouse, and what it did; without a report it failed.

        Args:
            warehouse: The warehouse; empty where it is not known which there are.
            report: The sweep's.
        """
        label = self._labels.of(warehouse)
        if report is None:
            self._sweeps.labels(label, "failed").inc()
            self._failures.inc()
            return
        failures = len(report.repaired.failures)
        self._sweeps.labels(label, "partly" if failures else "done").inc()
        self._repaired.inc(report.repaired.settled)
        self._failures.inc(failures)
        self._purged.inc(report.purged)
        self._forgotten.inc(report.forgotten)
        if not failures:
            self._swept_at.labels(label).set(self._runtime.now_millis() / 1000)
