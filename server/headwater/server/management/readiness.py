"""The state of what the server depends on, for whoever manages it."""

from __future__ import annotations

from headwater.catalog.model.principal import current_principal
from headwater.catalog.wire.warehouses import ReadinessResponse, WarehouseReadiness
from headwater.server.dependencies import ServicesOf
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/management/v1/readiness", tags=["management"])


@router.get("", summary="Check what the server depends on", responses=failures("no manager"))
async def get_server_state(services: ServicesOf) -> ReadinessResponse:
    """As `/readyz` does, at most once a second; it names each warehouse and says what is wrong.

    The answer is 200 whether or not the server is ready. A token that is limited to warehouses is
    told of those alone. A warehouse that has not answered yet is left out.
    """
    failed = await services.readiness.failed()
    caller = current_principal()
    faults = {} if services.storage is None else services.storage.faults()
    return ReadinessResponse(
        ready=not failed,
        failed=list(failed),
        warehouses=[
            WarehouseReadiness(name=name, ready=fault is None, message=fault)
            for name, fault in sorted(faults.items())
            if caller is None or caller.reaches(name)
        ],
    )
