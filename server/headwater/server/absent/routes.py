"""Operations of the API that this server does not do: 501, never the framework's 404.

Clients know what to do with a 501: list partitions from the files, say that views cannot be made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fastapi import APIRouter

from headwater.catalog.wire import Empty
from headwater.server.dependencies import CatalogOf, TableName
from headwater.server.failures import failures
from headwater.server.openapi import ALWAYS_REFUSED
from headwater.storage.errors import Unsupported

__all__ = ["router"]

router = APIRouter()

_PREFIX = "/v1/{prefix}"
_DATABASE = _PREFIX + "/databases/{database}"
_TABLE = _DATABASE + "/tables/{table}"

# Operation id, method, path, summary.
_Operation: TypeAlias = tuple[str, str, str, str]

_OF_A_TABLE: tuple[_Operation, ...] = ()
_OTHERS: tuple[_Operation, ...] = (
    ("listPermissions", "GET", _PREFIX + "/permissions", "List permissions"),
    ("grantPermission", "POST", _PREFIX + "/permissions/grant", "Grant a permission"),
    ("revokePermission", "POST", _PREFIX + "/permissions/revoke", "Revoke a permission"),
)


def _refuse(summary: str) -> Unsupported:
    what = summary[0].lower() + summary[1:]
    return Unsupported(f"this server cannot yet {what}")


def _of_a_table(summary: str) -> Callable[[CatalogOf, TableName], Empty]:
    def refuse(catalog: CatalogOf, name: TableName) -> Empty:
        """Not done yet; a table that does not exist is told first."""
        catalog.get_table(name)
        raise _refuse(summary)

    return refuse


def _other(summary: str) -> Callable[[CatalogOf], Awaitable[Empty]]:
    async def refuse(catalog: CatalogOf) -> Empty:
        """Not done yet."""
        raise _refuse(summary)

    return refuse


for _id, _method, _path, _summary in _OF_A_TABLE:
    router.add_api_route(
        _TABLE + _path,
        _of_a_table(_summary),
        methods=[_method],
        operation_id=_id,
        summary=_summary,
        responses=failures("no table", "unsupported"),
        tags=["not here yet"],
        openapi_extra={ALWAYS_REFUSED: True},
    )
for _id, _method, _path, _summary in _OTHERS:
    router.add_api_route(
        _path,
        _other(_summary),
        methods=[_method],
        operation_id=_id,
        summary=_summary,
        responses=failures("unsupported"),
        tags=["not here yet"],
        openapi_extra={ALWAYS_REFUSED: True},
    )
