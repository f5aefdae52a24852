"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from headwater.catalog.wire.tables import WireModel
from headwater.server.dependencies import ServicesOf
from headwater.server.error_responses import failures
from headwater.server.version import VERSION
from headwater.storage.errors import Unavailable

__all__ = ["router"]

router = APIRouter(tags=["health"])


class Health(WireModel):
    """The server answers."""

    status: str = "ok"
    version: str = VERSION


@router.get("/healthz", summary="Tell whether the server lives")
async def get_health() -> Health:
    """Answers as soon as the server takes requests, without asking the database. Needs no token."""
    return Health()


@router.get("/readyz", summary="Tell whether the server can work", responses=failures("not ready"))
async def get_readiness(services: ServicesOf) -> Health:
    """Asks the database and the storage, once a second at most. Needs no token.

    503 names what does not answer within five seconds; the log says why.
    """
    failed = await services.readiness.failed()
    if failed:
        raise Unavailable(f"not ready: no answer from {' and '.join(failed)}; the log says why")
    return Health()


@router.get(
    "/metrics",
    summary="Get counts for Prometheus",
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
def get_metrics(services: ServicesOf) -> Response:
    """Requests, commits, connections, open decisions and sweeps, of all workers together."""
    return Response(services.metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
