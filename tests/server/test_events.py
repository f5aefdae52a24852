"""Every operation that changes something leaves one event, and nothing else leaves any."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite
from tests.processes import serving

from headwater.catalog.model.events import EventType
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.sealed_options import OptionKeys
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.access.operations import OPERATIONS
from headwater.server.dependencies import Principals
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.storage.runtime import SYSTEM_RUNTIME

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "openapi" / "headwater.json").read_text()
)
CHANGING = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if method != "get"
}
NO_CHANGE = {
    *("authTableQuery", "readTable", "listPartitionsByNames", "listPartitionsByFilter"),
    "signTableRequests",
}
NO_EVENT = {
    # Readers take and renew them every few seconds.
    "leaseConsumer",
    # What a deletion removes leaves events of its own: deleteTag, resetConsumer.
    *("commitDeletion", "finishDeletion"),
}
NOT_OVER_HTTP = {
    *("claimWarehouse", "moveWarehouse", "rotateKey", "reconcileTable"),
    # Not of one operation.
    *("refused", "read"),
}
SALES = "/v1/main/databases/sales"
ORDERS = f"{SALES}/tables/orders"
FEED = "/management/v1/events"


@pytest.fixture
def catalog(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    url = new_sqlite(tmp_path / "headwater.db")
    opened = SqlCatalog.open(
        url, warehouse="main", location=str(tmp_path / "lake"), undrop_millis=3_600_000
    )
    yield opened
    opened.close()


@pytest.fixture
def boss(catalog: SqlCatalog, serve: Callable[..., str], tmp_path: Path) -> Iterator[httpx.Client]:
    """Administers and manages a server."""
    with opened_database(f"sqlite:///{tmp_path}/headwater.db") as database:
        tokens = Tokens(database, SYSTEM_RUNTIME, OptionKeys({"k1": bytes(32)}))
        parts = {
            "principals": Principals(tokens, Groups(database)),
            "find_token": tokens.find,
            "managed": ManagedCatalogs(database, SYSTEM_RUNTIME),
            "feed": EventFeed(database),
        }
        places = [str(tmp_path / "others")]
        address = serve(catalog, parts=parts, require_token=True, allowed_locations=places)
        secret = tokens.create("boss", scopes=[Scope.ADMINISTER, Scope.MANAGE]).secret
        headers = {"authorization": f"Bearer {secret}"}
        with plain_http.Client(base_url=address, headers=headers) as client:
            yield client


def _read(client: httpx.Client, after: int = 0, **conditions: str) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={value}" for name, value in conditions.items())
    answer = client.get(f"{FEED}?after={after}&limit=1000&{asked}")
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


def _last(client: httpx.Client) -> int:
    events = _read(client)
    return events[-1]["offset"] if events else 0


def test_every_operation_is_one_that_changes_something_or_none() -> None:
    events = {each.value for each in EventType}
    assert set(CHANGING) - NO_CHANGE - NO_EVENT == events - NOT_OVER_HTTP
    reading = {name for name, rule in OPERATIONS.items() if name not in CHANGING}
    assert not reading & events


def test_every_operation_that_changes_something_leaves_one_event(
    boss: httpx.Client,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
    tmp_path: Path,
) -> None:
    done: set[str] = set()

    def call(
        operation: str, body: object = None, *, name: str = "orders", **path: str
    ) -> tuple[dict[str, Any], Any]:
        """Do it: its one event, and the answer."""
        after = _last(boss)
        method, template, described = CHANGING[operation]
        names = {"prefix": "main", "database": "sales", "table": name, "warehouse": "main", **path}
        content = described.get("requestBody")
        if body is None and content is not None:
            model = content["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            body = DOCUMENT["components"]["schemas"][model]["examples"][0]
        answer = boss.request(method, template.format(**names), json=body)
        assert answer.status_code == 200, (operation, answer.text)
        events = _read(boss, after)
        assert [event["type"] for event in events] == [operation]
        (event,) = events
        assert (event["principal"], event["outcome"]) == ("boss", "done")
        assert event["requestId"] == answer.headers["x-request-id"]
        assert event["address"] == "127.0.0.1"
        assert event["offset"] == after + 1
        done.add(operation)
        return event, answer.json() if answer.content else None

    def named(table: str) -> Mapping[str, str]:
        return {"database": "sales", "object": table}

    made, _ = call("createDatabase", {"name": "sales"})
    assert made["subject"] | {"id": ""} == {
        "kind": "database", "name": "sales", "id": "", "database": "",
    }  # fmt: skip
    call("alterDatabase")
    in_catalog = {**schema, "options": {"metastore.partitioned-table": "true", "bucket": "2"}}
    made, _ = call("createTable", {"identifier": named("orders"), "schema": in_catalog})
    table_id = boss.get(ORDERS).json()["id"]
    assert made["subject"] == {
        "kind": "table", "name": "orders", "id": table_id, "database": "sales",
    }  # fmt: skip
    offer = {"snapshot": snapshot(1), "statistics": []}
    committed, _ = call("commitTable", offer)
    assert committed["details"] == {"snapshot": 1, "kind": "APPEND"}
    assert committed["subject"]["id"] == table_id
    offer = {"snapshot": snapshot(2), "baseSnapshotUuid": "uuid-1", "statistics": []}
    call("commitTable", offer)
    tagged, _ = call("createTag", {"tagName": "v1", "snapshotId": 1})
    assert tagged["details"] == {"tag": "v1", "snapshot": 1}
    replaced, _ = call("replaceTag", {"snapshotId": 2}, tag="v1")
    assert replaced["details"] == {"tag": "v1", "snapshot": 2}
    call("replaceTag", {"snapshotId": 1}, tag="v1")
    renamed, _ = call("renameTag", {"toTag": "v2"}, tag="v1")
    assert renamed["details"] == {"tag": "v1", "to": "v2"}
    call("renameTag", {"toTag": "v1"}, tag="v2")
    call("createPartitions")
    call("markDonePartitions")
    dropped, _ = call("dropPartitions")
    assert dropped["details"] == {"partitions": 1}
    reset, _ = call("resetConsumer", {"consumerId": "billing", "nextSnapshotId": 1})
    assert reset["details"] == {"consumer": "billing", "next": 1}
    call("createBranch", {"branch": "b", "fromTag": "v1"})
    call("renameBranch", {"toBranch": "c"}, branch="b")
    call("forwardBranch", {}, branch="c")
    dropped, _ = call("dropBranch", branch="c")
    assert dropped["details"] == {"branch": "c"}
    offer = {"snapshot": snapshot(2, uuid="again"), "baseSnapshotUuid": "uuid-1", "statistics": []}
    call("commitTable", offer)
    rolled, _ = call("rollbackTable", {"instant": {"type": "snapshot", "snapshotId": 1}})
    assert rolled["details"] == {"snapshot": 1}
    call("alterTable")
    call("rollbackSchema", {"schemaId": 0})
    call("deleteTag", tag="v1")
    changes = [{"action": "setOption", "key": "query-auth.enabled", "value": "true"}]
    call("alterTable", {"changes": changes})
    mask = {"onColumn": "amount", "transform": '{"name":"NULL"}'}
    policy, _ = call("createPolicy", {"columnMask": mask, "principal": "ada"})
    assert policy["details"] == {"policy": "COLUMN_MASKING", "for": "ada", "column": "amount"}
    dropping = {"type": "COLUMN_MASKING", "principal": "ada", "column": "amount"}
    call("dropPolicy", dropping)
    of_orders = {"entityType": "TABLE", "entityName": "sales.orders", "key": "domain"}
    labelled, _ = call("upsertLabel", **of_orders)
    assert labelled["details"] == {"label": "domain"}
    assert labelled["subject"]["id"] == table_id
    call("deleteLabel", **of_orders)
    granted, _ = call("grantPermission")
    assert granted["details"]["to"] == "ada"
    call("revokePermission")
    call("setTableProtection", {"protected": False})
    call("setDatabaseProtection", {"protected": False})
    call("createView")
    call("alterView", view="recent")
    call("replaceView", view="recent")
    call("renameView", {"source": named("recent"), "destination": named("newer")})
    call("dropView", view="newer")
    call("createFunction")
    call("alterFunction", function="area")
    call("replaceFunction", function="area")
    call("dropFunction", function="area")
    call("createTable", {"identifier": named("empty"), "schema": schema})
    call("replaceTable", {"schema": schema}, name="empty")
    home = tmp_path / "lake" / "sales.db"
    shutil.copytree(home / "empty", home / "found")
    call("registerTable", {"identifier": named("found"), "path": f"file://{home}/found"})
    renamed, _ = call("renameTable", {"source": named("found"), "destination": named("kept")})
    assert (renamed["subject"]["name"], renamed["details"]) == ("found", {"to": "sales.kept"})
    for last in (None, "purge"):
        dropped, _ = call("dropTable", name="kept")
        kept = dropped["subject"]["id"]
        if last is None:
            call("restoreTable", {"destination": None}, table_id=kept)
        else:
            call("purgeTable", table_id=kept)
    token, answer = call("createToken", {"name": "ada", "scopes": ["administer"]})
    assert answer["secret"] not in json.dumps(token)
    key, answer = call("createTemporaryKey", {"scopes": ["read"]})
    assert key["subject"]["name"] == "boss"
    assert key["subject"]["id"] == answer["AccessKeyId"]
    assert answer["AccessKeySecret"] not in json.dumps(key)
    call("revokeToken", token="ada")
    call("addMember", {"principal": "ada"}, group="analysts")
    call("removeMember", group="analysts", principal="ada")
    secret = {"s3.secret-key": "a-secret"}
    added, _ = call(
        "addWarehouse",
        {"name": "lake", "location": f"{tmp_path}/others/lake", "options": secret},
    )
    assert added["details"] == {"options": ["s3.secret-key"]}
    call("setWarehouse", {"updates": {}, "removals": ["s3.secret-key"]}, warehouse="lake")
    call("removeWarehouse", warehouse="lake")
    # With what is in it, in the same transaction.
    after = _last(boss)
    assert boss.delete(SALES).status_code == 200
    gone = [(event["type"], event["subject"]["name"]) for event in _read(boss, after)]
    assert gone == [("dropTable", "empty"), ("dropTable", "orders"), ("dropDatabase", "sales")]
    done.add("dropDatabase")
    assert done == set(CHANGING) - NO_CHANGE - NO_EVENT
    offsets = [event["offset"] for event in _read(boss)]
    assert offsets == list(range(1, len(offsets) + 1))


def test_what_did_not_happen_leaves_none(
    boss: httpx.Client, schema: dict[str, object], snapshot: Callable[..., dict[str, object]]
) -> None:
    assert boss.post("/v1/main/databases", json={"name": "sales"}).status_code == 200
    body = {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}
    assert boss.post(f"{SALES}/tables", json=body).status_code == 200
    offer = {"snapshot": snapshot(1), "statistics": []}
    assert boss.post(f"{ORDERS}/commit", json=offer).json() == {"success": True}
    after = _last(boss)
    # The same again, with request batching and without, and one that lost.
    for path in (f"{ORDERS}/commit", f"{ORDERS}/commit?ordinary"):
        assert boss.post(path, json=offer).json() == {"success": True}
        other = {"snapshot": snapshot(1, uuid="other"), "statistics": []}
        assert boss.post(path, json=other).json() == {"success": False}
    refused = [
        boss.post(f"{SALES}/tables", json=body),
        boss.post("/v1/main/databases", json={"name": "sales"}),
        boss.delete(f"{SALES}/tables/none"),
        boss.post(ORDERS, json={"changes": [{"action": "dropColumn", "fieldNames": ["no"]}]}),
        boss.post(f"{ORDERS}/tags", json={"tagName": "v1", "snapshotId": 9}),
        boss.delete(f"{ORDERS}/tags/none"),
        boss.post(f"{ORDERS}/rollback", json={"instant": {"type": "snapshot", "snapshotId": 9}}),
        boss.delete("/management/v1/tokens/none"),
        boss.post("/v1/main/labels/TABLE/sales.none/domain", json={"value": "v"}),
    ]
    # Not refused, and nothing to do.
    assert boss.delete("/v1/main/labels/TABLE/sales.orders/domain").status_code == 200
    assert all(answer.status_code >= 400 for answer in refused)
    assert _read(boss, after) == []


def test_a_commit_the_ordinary_way_is_recorded_likewise(
    boss: httpx.Client, schema: dict[str, object], snapshot: Callable[..., dict[str, object]]
) -> None:
    boss.post("/v1/main/databases", json={"name": "sales"})
    body = {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}
    boss.post(f"{SALES}/tables", json=body)
    offers = [
        (f"{ORDERS}/commit", {"snapshot": snapshot(1), "statistics": []}),
        (
            f"{ORDERS}/commit?ordinary",
            {"snapshot": snapshot(2), "baseSnapshotUuid": "uuid-1", "statistics": []},
        ),
    ]
    ids = [boss.post(path, json=offer).headers["x-request-id"] for path, offer in offers]
    commits = [event for event in _read(boss) if event["type"] == "commitTable"]
    assert [event["requestId"] for event in commits] == ids
    assert [event["details"]["snapshot"] for event in commits] == [1, 2]
    assert {(event["principal"], event["address"]) for event in commits} == {("boss", "127.0.0.1")}


def test_a_caller_needs_to_administer_or_to_manage(boss: httpx.Client) -> None:
    of_main = "/management/v1/warehouses/main/events"
    new = {"name": "ada", "scopes": ["administer"]}
    secret = boss.post("/management/v1/tokens", json=new).json()["secret"]
    ada = {"authorization": f"Bearer {secret}"}
    assert boss.get(of_main, headers=ada).status_code == 200
    assert boss.get(FEED, headers=ada).status_code == 403
    new = {"name": "bob", "scopes": ["manage"]}
    secret = boss.post("/management/v1/tokens", json=new).json()["secret"]
    bob = {"authorization": f"Bearer {secret}"}
    assert boss.get(FEED, headers=bob).status_code == 200
    assert boss.get(of_main, headers=bob).status_code == 403
    for limits in ({"scopes": ["write"]}, {"scopes": ["administer"], "warehouses": ["other"]}):
        new = {"name": "eve", **limits}
        secret = boss.post("/management/v1/tokens", json=new).json()["secret"]
        eve = {"authorization": f"Bearer {secret}"}
        assert [boss.get(path, headers=eve).status_code for path in (of_main, FEED)] == [403, 403]
        boss.delete("/management/v1/tokens/eve")
    # Tokens belong to no warehouse.
    listed = boss.get(of_main).json()["events"]
    assert [event["type"] for event in listed] == ["claimWarehouse"]
    assert {event["warehouse"] for event in _read(boss, principal="boss")} == {""}


@pytest.mark.xdist_group("processes")
def test_the_sweep_deletes_events_whose_retention_has_ended(tmp_path: Path) -> None:
    settings = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path}/headwater.db",
        "warehouses": {"main": str(tmp_path / "lake")},
        "event_retention": "1 ms",
        "sweep_interval": "10 ms",
    }
    with serving(settings) as address, plain_http.Client(base_url=address) as client:
        events = "/management/v1/warehouses/main/events"
        assert client.post("/v1/main/databases", json={"name": "sales"}).status_code == 200
        deadline = time.monotonic() + 60
        while client.get(f"{events}?after=1").status_code != 404:
            assert time.monotonic() < deadline
        assert "go on after 2" in client.get(f"{events}?after=1").json()["message"]
        oldest = client.get(events).json()
        assert oldest == {"events": [], "nextAfter": 2, "isEnd": True}
