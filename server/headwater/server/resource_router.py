"""The router of one resource, whose routes all applications of a process share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from headwater.server.authorization import authorize
from headwater.server.large_bodies import BodyRoute
from headwater.server.request_bound import starting

__all__ = ["ResourceRouter"]


class ResourceRouter(APIRouter):
    """A router whose operations are named after their functions, and authorized before they run.

    Args:
        settings: As for FastAPI's router.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("route_class", BodyRoute)
        super().__init__(
            generate_unique_id_function=_operation_id,
            dependencies=[Depends(authorize)],
            **settings,
        )

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        """Let a function answer requests that were not given up."""
        super().add_api_route(path, starting(endpoint), **settings)

    def join(self, app: FastAPI) -> None:
        """Let an application answer by these routes.

        FastAPI's own `include_router` makes every route anew for each application when the first
        request comes, milliseconds for each of them, and looks each request up twice.
        """
        app.router.routes.extend(self.routes)


def _operation_id(route: APIRoute) -> str:
    return to_camel(route.name)
