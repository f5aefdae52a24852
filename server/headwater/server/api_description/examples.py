"""An example of every request and response, for the API's description."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from headwater.catalog.wire import branches as wire_branches
from headwater.catalog.wire import history as wire_history
from headwater.catalog.wire import management as wire_management
from headwater.catalog.wire import partitions as wire_partitions
from headwater.catalog.wire import tables as wire
from headwater.server.api_description.object_examples import OBJECT_EXAMPLES
from headwater.server.api_description.warehouse_examples import WAREHOUSE_EXAMPLES

__all__ = ["EXAMPLES"]

_AUDIT: dict[str, JsonValue] = {
    "owner": "",
    "createdAt": 1767225600000,
    "createdBy": "",
    "updatedAt": 1767225600000,
    "updatedBy": "",
}
_SCHEMA: dict[str, JsonValue] = {
    "fields": [
        {"id": 0, "name": "order_id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "dt", "type": "STRING NOT NULL"},
        {"id": 2, "name": "amount", "type": "DECIMAL(10, 2)"},
    ],
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "order_id"],
    "options": {"bucket": "4"},
    "comment": "One row for each order.",
}
_TABLE: dict[str, JsonValue] = {
    "id": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
    "database": "sales",
    "name": "orders",
    "path": "file:///lake/sales.db/orders",
    "isExternal": False,
    "schemaId": 0,
    "schema": _SCHEMA,
    "highestFieldId": 2,
    "schemaTimeMillis": 1767225600000,
    **_AUDIT,
}
_SNAPSHOT: dict[str, JsonValue] = {
    "version": 3,
    "uuid": "5f0c7a52-3b0d-4a53-8d63-0d6a7c1f9e02",
    "id": 8,
    "schemaId": 0,
    "baseManifestList": "manifest-list-9a1e7c55-41a7-4d0c-9c7e-6f3b5f0a2b10-0",
    "deltaManifestList": "manifest-list-9a1e7c55-41a7-4d0c-9c7e-6f3b5f0a2b10-1",
    "commitUser": "ingest-orders",
    "commitIdentifier": 8,
    "commitKind": "APPEND",
    "timeMillis": 1767225600000,
    "totalRecordCount": 1200,
    "deltaRecordCount": 100,
}
_PARTITION: dict[str, JsonValue] = {
    "spec": {"dt": "2026-01-01"},
    "recordCount": 100,
    "fileSizeInBytes": 5321,
    "fileCount": 4,
    "lastFileCreationTime": 1767225600000,
    "totalBuckets": 4,
    "done": False,
    "createdAt": 1767225600000,
    "createdBy": None,
    "updatedAt": 1767225600000,
    "updatedBy": None,
    "options": None,
}
_FILTER = (
    '{"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": '
    '{"index": 0, "name": "dt", "type": "STRING"}}, '
    '"function": "GREATER_OR_EQUAL", "literals": ["2026-01-01"]}'
)
_ORDERS: dict[str, JsonValue] = {"database": "sales", "object": "orders"}
_DROPPED: dict[str, JsonValue] = {
    "id": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
    "identifier": _ORDERS,
    "path": "file:///lake/sales.db/orders",
    "droppedAt": 1767225600000,
    "droppedBy": "nightly-spark",
    "keptUntil": 1767830400000,
}

EXAMPLES: Mapping[type[wire.WireModel], dict[str, JsonValue]] = {
    wire.AlterDatabaseRequest: {"removals": ["comment"], "updates": {"owner": "billing"}},
    wire.AlterDatabaseResponse: {"removed": ["comment"], "updated": ["owner"], "missing": []},
    wire.AlterTableRequest: {
        "changes": [
            {"action": "addColumn", "fieldNames": ["note"], "dataType": "STRING"},
            {"action": "setOption", "key": "snapshot.num-retained.min", "value": "20"},
        ]
    },
    wire.AuthTableQueryRequest: {"select": ["order_id", "amount"]},
    wire.AuthTableQueryResponse: {"filter": [], "columnMasking": {}},
    wire_history.CommitTableRequest: {
        "tableId": "0b5e8d4c-6c1f-4f43-9a53-0a3f7e6f2a11",
        "baseSnapshotUuid": "c0a7f1de-7d3a-4b67-9f0e-5e2d8b1c4a01",
        "snapshot": _SNAPSHOT,
        "statistics": [
            {
                "spec": {"dt": "2026-01-01"},
                "recordCount": 100,
                "fileSizeInBytes": 5321,
                "fileCount": 4,
                "lastFileCreationTime": 1767225600000,
                "totalBuckets": 4,
            }
        ],
    },
    wire_history.CommitTableResponse: {"success": True},
    wire.ConfigResponse: {"defaults": {}, "overrides": {"prefix": "main"}},
    wire_history.ConsumerModel: {
        "consumerId": "billing",
        "nextSnapshot": 9,
        "updatedAt": 1767225600000,
    },
    wire_branches.CreateBranchRequest: {"branch": "b", "fromTag": "v1"},
    wire.CreateDatabaseRequest: {"name": "sales", "options": {"owner": "billing"}},
    wire.CreateTableRequest: {"identifier": _ORDERS, "schema": _SCHEMA},
    wire_management.DroppedTableModel: _DROPPED,
    wire_management.ListDroppedTablesResponse: {
        "droppedTables": [_DROPPED],
        "nextPageToken": None,
    },
    wire_management.ProtectionModel: {"protected": True},
    wire_management.RestoreTableRequest: {"destination": None},
    wire_management.RestoreTableResponse: {"identifier": _ORDERS},
    wire_history.CreateTagRequest: {"tagName": "v1", "snapshotId": 8, "timeRetained": "7 d"},
    wire.Empty: {},
    wire.ErrorResponse: {
        "message": "table sales.orders does not exist",
        "resourceType": "TABLE",
        "resourceName": "sales.orders",
        "code": 404,
    },
    wire_branches.ForwardBranchRequest: {},
    wire.GetDatabaseResponse: {
        "id": "7a3f4f0e-0c1b-4c39-8a57-54b2a9f0f6d3",
        "name": "sales",
        "location": "file:///lake/sales.db",
        "options": {"owner": "billing"},
        **_AUDIT,
    },
    wire.GetTableResponse: _TABLE,
    wire.GetTableTokenResponse: {
        "token": {"s3.access-key": "AKIA…", "fs.s3.accessKeyId": "AKIA…"},
        "expiresAtMillis": 1767311999000,
    },
    wire_history.GetTableSnapshotResponse: {
        "snapshot": {
            "snapshot": _SNAPSHOT,
            "recordCount": 1200,
            "fileSizeInBytes": 63852,
            "fileCount": 48,
            "lastFileCreationTime": 1767225600000,
        }
    },
    wire_history.GetTagResponse: {
        "tagName": "v1",
        "snapshot": _SNAPSHOT,
        "tagCreateTime": 1767225600000,
        "tagTimeRetained": "7d",
    },
    wire_history.GetVersionSnapshotResponse: {"snapshot": _SNAPSHOT},
    wire.IdentifierModel: _ORDERS,
    wire.ListBranchesResponse: {"branches": ["b"]},
    wire_history.ListConsumersResponse: {
        "consumers": [
            {
                "consumerId": "billing",
                "nextSnapshot": 9,
                "updatedAt": 1767225600000,
                "lagSnapshots": 2,
                "lagRecords": 240,
                "lagMillis": 61000,
            },
        ],
        "nextPageToken": None,
    },
    wire.ListDatabasesResponse: {"databases": ["sales"], "nextPageToken": None},
    wire_history.ListSnapshotsResponse: {"snapshots": [_SNAPSHOT], "nextPageToken": None},
    wire.ListTableDetailsResponse: {"tableDetails": [_TABLE], "nextPageToken": None},
    wire.ListTablesGloballyResponse: {"tables": [_ORDERS], "nextPageToken": None},
    wire.ListTablesResponse: {"tables": ["orders"], "nextPageToken": None},
    wire_history.ListTagsResponse: {"tags": ["v1"], "nextPageToken": None},
    wire_history.PartitionStatisticsModel: {
        "spec": {"dt": "2026-01-01"},
        "recordCount": 100,
        "fileSizeInBytes": 5321,
        "fileCount": 4,
        "lastFileCreationTime": 1767225600000,
        "totalBuckets": 4,
    },
    wire_branches.RenameBranchRequest: {"toBranch": "c"},
    wire_partitions.CreatePartitionsRequest: {
        "partitionSpecs": [{"dt": "2026-01-01"}],
        "ignoreIfExists": True,
    },
    wire_partitions.CreatePartitionsResponse: {"created": [{"dt": "2026-01-01"}], "existed": []},
    wire_partitions.DropPartitionsRequest: {
        "partitionSpecs": [{"dt": "2026-01-01"}],
        "ignoreIfNotExists": True,
    },
    wire_partitions.DropPartitionsResponse: {"dropped": [{"dt": "2026-01-01"}], "missing": []},
    wire_partitions.ListPartitionsByFilterRequest: {"filter": _FILTER, "maxResults": 100},
    wire_partitions.ListPartitionsResponse: {"partitions": [_PARTITION], "nextPageToken": None},
    wire_partitions.PartitionModel: _PARTITION,
    wire_partitions.PartitionSpecsRequest: {"specs": [{"dt": "2026-01-01"}]},
    wire.RegisterTableRequest: {"identifier": _ORDERS, "path": "file:///lake/sales.db/orders"},
    wire.ReplaceTableRequest: {"schema": _SCHEMA},
    wire.RenameTableRequest: {
        "source": _ORDERS,
        "destination": {"database": "archive", "object": "orders_2025"},
    },
    wire_history.ResetConsumerRequest: {"consumerId": "billing", "nextSnapshotId": 3},
    wire_history.RollbackSchemaRequest: {"schemaId": 3},
    wire_history.RollbackTableRequest: {
        "instant": {"type": "snapshot", "snapshotId": 5},
        "fromSnapshot": 8,
    },
    wire_history.SnapshotInstant: {"type": "snapshot", "snapshotId": 5},
    wire_history.TableSnapshotModel: {
        "snapshot": _SNAPSHOT,
        "recordCount": 1200,
        "fileSizeInBytes": 63852,
        "fileCount": 48,
        "lastFileCreationTime": 1767225600000,
    },
    wire_history.TagInstant: {"type": "tag", "tagName": "v1"},
    **OBJECT_EXAMPLES,
    **WAREHOUSE_EXAMPLES,
}
