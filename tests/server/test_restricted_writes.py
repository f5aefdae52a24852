"""A caller who is shown a part of a table's rows changes none of them, whatever else it may do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.server.restricted import filter_policy, leaf

from headwater.catalog.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.policies import PolicyType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.client import Lake
from headwater.server.access.operations import OPERATIONS
from headwater.server.dependencies import Principals
from headwater.storage.runtime import SYSTEM_RUNTIME

Send: TypeAlias = Callable[..., httpx.Response]
SALES = "/v1/main/databases/sales"
NAME = Identifier("sales", "log")
LOG = f"{SALES}/tables/log"
EMEA = leaf("EQUAL", "region", "EMEA")
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])


@pytest.fixture
def lake(catalog: SqlCatalog) -> Lake:
    lake = Lake(catalog)
    lake.create_database("sales")
    options = {"query-auth.enabled": "true", "metastore.partitioned-table": "true"}
    made = lake.create_table("sales.log", SCHEMA, partition_keys=["region"], options=options)
    made.write(pa.table({"id": [1, 2], "region": ["EMEA", "APAC"]}, schema=SCHEMA))
    made.write(pa.table({"id": [3], "region": ["EMEA"]}, schema=SCHEMA))
    made.create_tag("first")
    made.create_branch("trial", tag="first")
    return lake


@pytest.fixture
def caller(
    catalog: SqlCatalog, lake: Lake, serve: Callable[..., str]
) -> Iterator[Callable[[str, Scope], Send]]:
    """Sends as a principal who may do everything with the table."""
    database = catalog.operation.database
    tokens, groups = Tokens(database, SYSTEM_RUNTIME), Groups(database)
    parts = {"find_token": tokens.find, "principals": Principals(tokens, groups)}
    address = serve(catalog, parts=parts, require_token=True)
    table = PermissionTarget(TargetType.TABLE, "sales", "log")
    with plain_http.Client(base_url=address) as http:

        def as_principal(name: str, scope: Scope) -> Send:
            catalog.permissions.grant(Grant(table, Access.ALL, name))
            secret = tokens.create(name, scopes=[scope]).secret
            headers = {"authorization": f"Bearer {secret}"}

            def send(method: str, path: str, body: object = None, **more: Any) -> httpx.Response:
                return http.request(method, path, json=body, headers=headers, **more)

            return send

        yield as_principal


def _commit(lake: Lake, branch: str = "") -> tuple[str, dict[str, object]]:
    """A commit that makes all rows vanish."""
    latest = lake.catalog.snapshots.latest(Identifier("sales", f"log{branch}"))
    assert latest is not None
    document: dict[str, object] = json.loads(latest.snapshot.to_json())
    document |= {
        "id": latest.snapshot.id + 1,
        "uuid": f"evil{branch}",
        "deltaManifestList": document["baseManifestList"],
        "totalRecordCount": 0,
        "deltaRecordCount": 0,
    }
    body = {"tableId": None, "baseSnapshotUuid": latest.snapshot.uuid, "snapshot": document}
    return f"{LOG}{branch}/commit", {**body, "statistics": []}


def _changes(lake: Lake) -> Mapping[str, tuple[str, str, object]]:
    specs = {"partitionSpecs": [{"region": "APAC"}], "specs": [{"region": "APAC"}]}
    schema = lake.catalog.tables.get(NAME).schema.to_schema().to_json()
    commit, body = _commit(lake)
    return {
        "commitTable": ("POST", commit, body),
        "rollbackTable": (
            "POST",
            f"{LOG}/rollback",
            {"instant": {"type": "snapshot", "snapshotId": 1}},
        ),
        "createPartitions": ("POST", f"{LOG}/partitions", specs),
        "dropPartitions": ("POST", f"{LOG}/partitions/drop", specs),
        "markDonePartitions": ("POST", f"{LOG}/partitions/mark", specs),
        "forwardBranch": ("POST", f"{LOG}/branches/trial/forward", {}),
        "dropBranch": ("DELETE", f"{LOG}/branches/trial", None),
        "replaceTable": ("POST", f"{LOG}/replace", {"schema": schema}),
        "commitDeletion": (
            "POST",
            f"{LOG}/deletions",
            {"id": "d", "version": 0, "snapshotsBefore": 1},
        ),
        "finishDeletion": ("DELETE", f"{LOG}/deletions/d", None),
    }


@pytest.mark.parametrize("scope", [Scope.WRITE, Scope.ADMINISTER])
def test_no_operation_changes_rows(
    lake: Lake, caller: Callable[[str, Scope], Send], scope: Scope
) -> None:
    changes = _changes(lake)
    assert set(changes) == {name for name, rule in OPERATIONS.items() if rule.changes_rows}
    lake.catalog.policies.create(NAME, filter_policy("ada", EMEA))
    ada, bob = caller("ada", scope), caller("bob", scope)
    before = lake.table("sales.log").scan().to_arrow()
    for name, (method, path, body) in changes.items():
        answer = ada(method, path, body)
        assert answer.status_code == 403, (name, answer.text)
        assert "policies restrict" in answer.json()["message"], name
    # The framework's way, not the fast one.
    commit, body = _commit(lake)
    assert ada("POST", commit, body, params={"a": "b"}).status_code == 403
    branch, body = _commit(lake, "$branch_trial")
    assert ada("POST", branch, body).status_code == 403
    assert lake.table("sales.log").scan().to_arrow() == before
    # Nobody else is kept from it, and a table that is not there is not.
    method, path, body = changes["commitTable"]
    assert bob(method, path, body).json() == {"success": True}
    assert ada(method, f"{SALES}/tables/nothing/commit", body).status_code == 404


def test_a_policy_counts_at_once_and_its_end_too(
    catalog: SqlCatalog, lake: Lake, caller: Callable[[str, Scope], Send]
) -> None:
    owner, ada = caller("owner", Scope.ADMINISTER), caller("ada", Scope.WRITE)
    Groups(catalog.operation.database).add("analysts", "ada")
    policies = f"{LOG}/policies"
    mark = ("POST", f"{LOG}/partitions/mark", {"specs": [{"region": "EMEA"}]})
    assert ada(*mark).status_code == 200
    lake.catalog.policies.create(NAME, filter_policy("nobody", EMEA))
    made = owner("GET", policies).json()["policies"][0]
    lake.catalog.policies.drop(NAME, PolicyType.ROW_FILTER, "nobody")
    made = {"rowFilter": made["rowFilter"], "principal": "group:analysts"}
    assert owner("POST", policies, made).status_code == 200
    assert ada(*mark).status_code == 403
    lake.catalog.policies.drop(NAME, PolicyType.ROW_FILTER, "group:analysts")
    assert ada(*mark).status_code == 200
