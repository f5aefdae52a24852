"""An example of every request and response about views, functions and permissions."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from headwater.catalog.wire import functions as wire_functions
from headwater.catalog.wire import objects as wire_objects
from headwater.catalog.wire import permissions as wire_permissions
from headwater.catalog.wire import views as wire_views
from headwater.catalog.wire.tables import WireModel

__all__ = ["OBJECT_EXAMPLES"]

_AUDIT: dict[str, JsonValue] = {
    "owner": "",
    "createdAt": 1767225600000,
    "createdBy": "",
    "updatedAt": 1767225600000,
    "updatedBy": "",
}
_VIEW_SCHEMA: dict[str, JsonValue] = {
    "fields": [{"id": 0, "name": "order_id", "type": "BIGINT"}],
    "query": "SELECT order_id FROM sales.orders WHERE dt >= '2026-01-01'",
    "dialects": {"spark": "SELECT order_id FROM orders WHERE dt >= '2026-01-01'"},
    "comment": "The orders of this year.",
    "options": {},
}
_VIEW: dict[str, JsonValue] = {
    "id": "1f7b0c5e-52a6-4c0b-8d0f-7f2f3b9f0a31",
    "name": "recent",
    "schema": _VIEW_SCHEMA,
    **_AUDIT,
}
_RECENT: dict[str, JsonValue] = {"database": "sales", "object": "recent"}
_SQL: dict[str, JsonValue] = {"type": "sql", "definition": "length * width"}
_LAMBDA: dict[str, JsonValue] = {
    "type": "lambda",
    "definition": "(Double length, Double width) -> length * width",
    "language": "java",
}
_JAR: dict[str, JsonValue] = {"resourceType": "jar", "uri": "s3://lake/functions/area.jar"}
_FILE: dict[str, JsonValue] = {
    "type": "file",
    "fileResources": [_JAR],
    "language": "java",
    "className": "com.example.Area",
    "functionName": "eval",
}
_SPEC: dict[str, JsonValue] = {
    "inputParams": [
        {"id": 0, "name": "length", "type": "DOUBLE"},
        {"id": 1, "name": "width", "type": "DOUBLE"},
    ],
    "returnParams": [{"id": 0, "name": "area", "type": "DOUBLE"}],
    "deterministic": True,
    "definitions": {"trino": _SQL, "spark": _LAMBDA, "flink": _FILE},
    "comment": "The area of a rectangle.",
    "options": {},
}
_FUNCTION: dict[str, JsonValue] = {
    "uuid": "9b0d6a1c-2f0e-4d58-9c34-5d0a1be7f3c2",
    "name": "area",
    **_SPEC,
    **_AUDIT,
}
_ORDERS: dict[str, JsonValue] = {"type": "COLUMN", "database": "sales", "table": "orders"}
_GRANT: dict[str, JsonValue] = {
    "resource": _ORDERS,
    "access": "SELECT",
    "principal": "ada",
    "columns": {"excludedColumnNames": ["amount"]},
    "expireTime": "2099-12-31T00:00:00Z",
}

OBJECT_EXAMPLES: Mapping[type[WireModel], dict[str, JsonValue]] = {
    wire_objects.ColumnModel: {
        "id": 0,
        "name": "order_id",
        "type": "BIGINT",
        "description": "The order's number.",
    },
    wire_objects.SetOptionModel: {"action": "setOption", "key": "team", "value": "billing"},
    wire_objects.RemoveOptionModel: {"action": "removeOption", "key": "team"},
    wire_objects.UpdateCommentModel: {"action": "updateComment", "comment": "Since 2026."},
    wire_views.ViewSchemaModel: _VIEW_SCHEMA,
    wire_views.CreateViewRequest: {"identifier": _RECENT, "schema": _VIEW_SCHEMA},
    wire_views.AlterViewRequest: {
        "changes": [
            {"action": "addDialect", "dialect": "flink", "query": "SELECT order_id FROM orders"},
            {"action": "updateComment", "comment": "Since 2026."},
        ]
    },
    wire_views.AddDialectModel: {
        "action": "addDialect",
        "dialect": "flink",
        "query": "SELECT order_id FROM orders",
    },
    wire_views.UpdateDialectModel: {
        "action": "updateDialect",
        "dialect": "spark",
        "query": "SELECT order_id FROM orders",
    },
    wire_views.DropDialectModel: {"action": "dropDialect", "dialect": "spark"},
    wire_views.GetViewResponse: _VIEW,
    wire_views.ListViewsResponse: {"views": ["recent"], "nextPageToken": None},
    wire_views.ListViewDetailsResponse: {"viewDetails": [_VIEW], "nextPageToken": None},
    wire_views.ListViewsGloballyResponse: {"views": [_RECENT], "nextPageToken": None},
    wire_functions.FileResourceModel: _JAR,
    wire_functions.FileDefinitionModel: _FILE,
    wire_functions.SqlDefinitionModel: _SQL,
    wire_functions.LambdaDefinitionModel: _LAMBDA,
    wire_functions.CreateFunctionRequest: {"name": "area", **_SPEC},
    wire_functions.AlterFunctionRequest: {
        "changes": [{"action": "addDefinition", "name": "duckdb", "definition": _SQL}]
    },
    wire_functions.AddDefinitionModel: {
        "action": "addDefinition",
        "name": "duckdb",
        "definition": _SQL,
    },
    wire_functions.UpdateDefinitionModel: {
        "action": "updateDefinition",
        "name": "trino",
        "definition": _SQL,
    },
    wire_functions.DropDefinitionModel: {"action": "dropDefinition", "name": "trino"},
    wire_functions.GetFunctionResponse: _FUNCTION,
    wire_functions.ListFunctionsResponse: {"functions": ["area"], "nextPageToken": None},
    wire_functions.ListFunctionDetailsResponse: {
        "functionDetails": [_FUNCTION],
        "nextPageToken": None,
    },
    wire_functions.ListFunctionsGloballyResponse: {
        "functions": [{"database": "sales", "object": "area"}],
        "nextPageToken": None,
    },
    wire_permissions.PermissionResourceModel: _ORDERS,
    wire_permissions.PermissionColumnsModel: {"excludedColumnNames": ["amount"]},
    wire_permissions.GrantModel: _GRANT,
    wire_permissions.RevokePermissionRequest: {
        "resource": _ORDERS,
        "access": "SELECT",
        "principal": "ada",
    },
    wire_permissions.ListPermissionsResponse: {"permissions": [_GRANT], "nextPageToken": None},
}
