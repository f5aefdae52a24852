"""Counts of events of the change feed, by the sink that they go to."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

__all__ = ["DeliveryMetrics"]


class DeliveryMetrics:
    """Counts deliveries.

    Args:
        registry: The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._delivered = Counter(
            "headwater_events_delivered",
            "Events of the change feed that a sink has got.",
            ["sink"],
            registry=registry,
        )
        self._failures = Counter(
            "headwater_event_delivery_failures",
            "Deliveries that a sink did not take, and that are tried again.",
            ["sink"],
            registry=registry,
        )
        self._expired = Counter(
            "headwater_events_expired_undelivered",
            "Events whose retention ended before a sink had got them.",
            ["sink"],
            registry=registry,
        )

    def delivered(self, sink: str, events: int) -> None:
        """Count events that a sink has got."""
        self._delivered.labels(sink).inc(events)

    def failed(self, sink: str) -> None:
        """Count a delivery that a sink did not take."""
        self._failures.labels(sink).inc()

    def lost(self, sink: str, events: int) -> None:
        """Count events that a sink will not get, as they are deleted."""
        self._expired.labels(sink).inc(events)
