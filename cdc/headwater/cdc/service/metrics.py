"""The figures of a running pipeline for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.figures import Sampler
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Unavailable

__all__ = ["serving_metrics"]

_PREFIX = "headwater_cdc_"


class _PipelineCollector(Collector):
    """Takes the figures when they are asked for."""

    def __init__(self, pipeline: RunningPipeline) -> None:
        self._pipeline = pipeline

    def collect(self) -> Iterable[Metric]:
        figures = Sampler(self._pipeline).sample()
        labels = [figures.pipeline]
        for name, description, value in (
            ("up", "Whether the pipeline runs.", int(self._pipeline.is_running)),
            ("waiting", "Whether it waits for its source or lake.", int(bool(figures.waits_for))),
            ("batch", "The last batch that all tables have.", figures.batch),
            ("lag_seconds", "The age of the last change that was read.", figures.lag_seconds),
            ("lag_bytes", "Bytes of the source's log that are left.", figures.lag_bytes),
        ):
            gauge = GaugeMetricFamily(_PREFIX + name, description, labels=["pipeline"])
            if value is not None:
                gauge.add_metric(labels, value)
                yield gauge
        rows = CounterMetricFamily(
            _PREFIX + "rows", "Rows that were committed.", labels=["pipeline", "table"]
        )
        phases = GaugeMetricFamily(
            _PREFIX + "tables", "Tables by phase.", labels=["pipeline", "phase"]
        )
        for table in figures.tables:
            rows.add_metric([*labels, table.table], table.rows)
        for phase in TablePhase:
            count = sum(table.phase == phase for table in figures.tables)
            phases.add_metric([*labels, str(phase)], count)
        yield rows
        yield phases


@contextmanager
def serving_metrics(pipeline: RunningPipeline, port: int | None) -> Iterator[int | None]:
    """Serve a pipeline's figures at a port while the block runs.

    Args:
        pipeline: The pipeline.
        port: The port; 0 takes a free one, None serves nothing.

    Yields:
        The port.

    Raises:
        Unavailable: The port is taken.
    """
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(_PipelineCollector(pipeline))
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise Unavailable(
            f"cannot serve metrics at port {port}: {error.strerror}; choose another --metrics-port"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
