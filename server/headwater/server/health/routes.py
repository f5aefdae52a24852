"""Whether the server lives."""

from __future__ import annotations

from fastapi import APIRouter

from headwater.catalog.wire import WireModel
from headwater.server.version import VERSION

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
