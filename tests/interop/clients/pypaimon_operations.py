"""Calls what pypaimon's own REST tests leave out, with pypaimon: one JSON request, one answer."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import Schema
from pypaimon.api.rest_api import RESTApi
from pypaimon.common.identifier import Identifier
from pypaimon.management.list_permissions_request import ListPermissionsRequest
from pypaimon.management.permission_assignment import PermissionAssignment
from pypaimon.management.permission_resource import PermissionResource
from pypaimon.management.resource_type import ResourceType


def renamed(api: RESTApi) -> object:
    old, new = Identifier.create("other", "old"), Identifier.create("other", "new name")
    api.create_table(old, Schema.from_pyarrow_schema(pa.schema([("id", pa.int64())])))
    api.rename_table(old, new)
    names = api.list_tables("other")
    columns = [field.name for field in api.get_table(new).schema.fields]
    api.drop_table(new)
    return [names, columns]


def authorised(api: RESTApi) -> object:
    table = Identifier.create("other", "seen")
    api.create_table(table, Schema.from_pyarrow_schema(pa.schema([("id", pa.int64())])))
    answer = api.auth_table_query(table, ["id"])
    api.drop_table(table)
    return [answer.filter or [], answer.column_masking or {}]


def granted(api: RESTApi) -> object:
    database = PermissionResource(ResourceType.DATABASE, "other")
    api.grant_permission(PermissionAssignment(database, "describe", "ann"))

    def listed() -> object:
        answer = api.list_permissions(ListPermissionsRequest(ResourceType.DATABASE, "other"))
        return [[each.get_principal(), each.get_access()] for each in answer.data()]

    before = listed()
    api.revoke_permission(database, "DESCRIBE", "ann")
    return [before, listed()]


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    api = RESTApi({**request, "token.provider": "bear"})
    api.create_database("other", {})
    answers = {act.__name__: act(api) for act in (renamed, authorised, granted)}
    api.drop_database("other")
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
