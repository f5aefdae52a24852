"""Liveness, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headwater.catalog.wire.tables import WireModel
from headwater.server.dependencies import ServicesOf
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter
from headwater.server.version import VERSION
from headwater.storage.errors import Unavailable

__all__ = ["router"]

router = ResourceRouter(tags=["health"])


class Health(WireModel):
    """The server answers."""

    status: str = "ok"
    version: str = VERSION


@router.get("/healthz", summary="Check that the server is up")
async def get_health() -> Health:
    """Succeeds as soon as the server accepts requests; asks no database and needs no token."""
    return Health()


@router.get("/readyz", summary="Check that the server is ready", responses=failures("not ready"))
async def get_readiness(services: ServicesOf) -> Health:
    """Checks the database and the storage, at most once a second. Needs no token.

    A 503 names whatever does not answer within five seconds; the log has the reason.
    """
    failed = await services.readiness.failed()
    if failed:
        raise Unavailable(f"not ready: no answer from {' and '.join(failed)}; the log says why")
    return Health()


@router.get(
    "/metrics",
    summary="Get metrics for Prometheus",
    response_class=Response,
    responses={
        **failures(),
        200: {
            "description": "Prometheus' text format.",
            "content": {
                "text/plain": {"example": 'headwater_commits_total{outcome="success"} 7.0\n'}
            },
        },
    },
)
async def get_metrics(services: ServicesOf) -> Response:
    """Requests, commits, the database, storage, pending decisions and sweeps, over all workers."""
    ready = await services.readiness.states()
    # In a thread of the event loop's own: requests that hang may hold all others.
    text = await asyncio.to_thread(services.metrics.text, ready)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
