"""Counts of the catalog's database: connections, waits for them, and transactions."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headwater.catalog.sql.database.engine import SqlDatabase

__all__ = ["DatabaseMetrics"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class DatabaseMetrics:
    """A `headwater.catalog.sql.database.transaction_watch.TransactionWatch` that counts.

    Args:
        registry: The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connections = Gauge(
            "headwater_database_connections",
            "Connections to the catalog's database: open, in use, and the most of the pool.",
            ["state"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._wait = Histogram(
            "headwater_database_wait_seconds",
            "How long threads waited for a connection to the database.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._transactions = Counter(
            "headwater_database_transactions",
            "Transactions by kind and outcome: done, refused, failed (nothing changed) or unknown.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            "headwater_database_transaction_seconds",
            "How long transactions took, waiting and repetitions included.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._repeated = Counter(
            "headwater_database_repetitions",
            "Transactions that were begun again after a deadlock or a lost connection.",
            registry=registry,
        )

    def watch(self, database: SqlDatabase) -> None:
        """Count the connections to a database, and its transactions, from now on."""
        opened, used = self._connections.labels("open"), self._connections.labels("in_use")
        database.watch(opened.inc, used.inc)
        self._connections.labels("limit").inc(database.most_connections)
        database.watch_transactions(self)

    def connected(self, seconds: float) -> None:
        """A thread got a connection, or gave up, after so many seconds."""
        self._wait.observe(seconds)

    def repeated(self) -> None:
        """A transaction is begun again."""
        self._repeated.inc()

    def ended(self, kind: str, outcome: str, seconds: float) -> None:
        """A transaction is over."""
        self._transactions.labels(kind, outcome).inc()
        self._seconds.labels(kind).observe(seconds)
