"""Grants and revokes with pypaimon: one JSON request on stdin, one JSON answer."""

from __future__ import annotations

import json
import sys
from typing import Any

from pypaimon.api.rest_api import RESTApi
from pypaimon.api.rest_permission_management import RESTPermissionManagement
from pypaimon.common.options import Options
from pypaimon.management.list_permissions_request import ListPermissionsRequest
from pypaimon.management.permission_access import PermissionAccess
from pypaimon.management.permission_assignment import PermissionAssignment
from pypaimon.management.permission_columns import PermissionColumns
from pypaimon.management.permission_resource import PermissionResource
from pypaimon.management.resource_type import ResourceType


def management(request: dict[str, Any]) -> RESTPermissionManagement:
    options = Options(
        {
            "uri": request["uri"],
            "warehouse": "main",
            "token.provider": "bear",
            "token": request["token"],
        }
    )
    return RESTPermissionManagement(RESTApi(options))


def _resource(names: dict[str, str]) -> PermissionResource:
    return PermissionResource.from_dict(names)


def pairs(request: dict[str, Any]) -> list[list[str]]:
    """What pypaimon lets one grant."""
    return [
        [kind.name, access] for kind in ResourceType for access in PermissionAccess.built_ins(kind)
    ]


def grant(request: dict[str, Any]) -> None:
    columns = request.get("columns")
    management(request).grant_permission(
        PermissionAssignment(
            _resource(request["resource"]),
            request["access"],
            request["principal"],
            None if columns is None else PermissionColumns.from_dict(columns),
            request.get("expireTime"),
        )
    )


def revoke(request: dict[str, Any]) -> None:
    management(request).revoke_permission(
        _resource(request["resource"]), request["access"], request["principal"]
    )


def listed(request: dict[str, Any]) -> list[dict[str, Any]]:
    names = dict(request["resource"])
    kind = ResourceType.from_string(names.pop("type"))
    asked = ListPermissionsRequest(kind, **names, max_results=2)
    found = []
    while True:
        page = management(request).list_permissions(asked)
        found += [assignment.to_dict() for assignment in page.elements]
        if not page.next_page_token:
            return found
        asked = asked.with_page_token(page.next_page_token)


if __name__ == "__main__":
    body = json.load(sys.stdin)
    commands = {"pairs": pairs, "grant": grant, "revoke": revoke, "list": listed}
    print(json.dumps(commands[body["command"]](body)))
