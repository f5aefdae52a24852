"""Who may do what: every operation by somebody who was granted something, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pyarrow as pa
import pytest
from tests import plain_http

from headwater.catalog.column import columns_from_arrow
from headwater.catalog.functions import FunctionSpec
from headwater.catalog.identifier import Identifier
from headwater.catalog.model.principal import Principal, Scope, acting_as
from headwater.catalog.model.rights import NO_RIGHTS, Thing
from headwater.catalog.permissions import Access, ColumnSet, Grant, PermissionTarget, TargetType
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.views import ViewSchema
from headwater.server.access.operations import OPERATIONS
from headwater.server.dependencies import Principals
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.table_schema import Schema

Send: TypeAlias = Callable[..., httpx.Response]
Body: TypeAlias = Mapping[str, object]

D = "/v1/main/databases/sales"
T = f"{D}/tables/orders"
M = "/management/v1/warehouses/main"
KEPT_MILLIS = 10_000

CATALOG = PermissionTarget(TargetType.CATALOG)
EVERYTHING = PermissionTarget(TargetType.CATALOG_ALL)
SALES = PermissionTarget(TargetType.DATABASE, "sales")
IN_SALES = PermissionTarget(TargetType.DATABASE_ALL, "sales")
ORDERS = PermissionTarget(TargetType.TABLE, "sales", "orders")
COLUMNS = PermissionTarget(TargetType.COLUMN, "sales", "orders")
RECENT = PermissionTarget(TargetType.VIEW, "sales", view="recent")
AREA = PermissionTarget(TargetType.FUNCTION, "sales", function="area")


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.millis = 1_700_000_000_000

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: self.millis,
            SYSTEM_RUNTIME.new_uuid,
            SYSTEM_RUNTIME.sleep,
            monotonic=lambda: self.millis / 1000,
        )


@dataclass
class Server:
    """A server with permissions, and a catalog beside it that asks nobody."""

    address: str
    catalog: SqlCatalog
    tokens: Tokens
    groups: Groups
    clock: Clock
    client: httpx.Client

    def caller(
        self,
        name: str,
        *grants: tuple[PermissionTarget, Access],
        scopes: Sequence[Scope] = (Scope.WRITE,),
    ) -> Send:
        secret = self.tokens.create(name, scopes=scopes).secret
        for target, access in grants:
            columns = ColumnSet(names=("id",)) if target.type is TargetType.COLUMN else None
            self.catalog.permissions.grant(Grant(target, access, name, columns))

        def send(method: str, path: str, body: object = None) -> httpx.Response:
            headers = {"authorization": f"Bearer {secret}"}
            return self.client.request(method, self.address + path, json=body, headers=headers)

        return send


@pytest.fixture
def server(
    tmp_path: Path, serve: Callable[..., str], new_sqlite: Callable[[Path], str]
) -> Iterator[Server]:
    clock = Clock()
    url = new_sqlite(tmp_path / "headwater.db")
    with (
        opened_database(url, clock.runtime) as database,
        plain_http.Client() as client,
    ):
        catalog = SqlCatalog.on(
            database,
            warehouse="main",
            location=str(tmp_path / "lake"),
            undrop_millis=3_600_000,
        )
        with acting_as("maker"):
            _fill(catalog)
        tokens, groups = Tokens(database, clock.runtime), Groups(database)
        parts = {
            "find_token": tokens.find,
            "principals": Principals(tokens, groups),
            "runtime": clock.runtime,
        }
        settings = {"require_token": True, "data_token_seconds": 7200}
        address = serve({"main": catalog}, parts=parts, **settings)
        yield Server(address, catalog, tokens, groups, clock, client)


def _fill(catalog: SqlCatalog) -> None:
    columns = pa.schema([("id", pa.int64()), ("amount", pa.int32())])
    schema = Schema.from_arrow(columns, options={"query-auth.enabled": "true"})
    for database in ("sales", "other"):
        catalog.databases.create(database)
        for table in ("orders", "people"):
            catalog.tables.create(Identifier(database, table), schema)
    view = ViewSchema(columns=columns_from_arrow(columns), query="SELECT 1")
    catalog.views.create(Identifier("sales", "recent"), view)
    catalog.functions.create(Identifier("sales", "area"), FunctionSpec())
    gone = Identifier("sales", "gone")
    catalog.tables.create(gone, schema)
    catalog.tables.drop(gone)


FIELDS = {"fields": [{"id": 0, "name": "id", "type": "BIGINT"}], "options": {}}
GRANT = {"access": "SELECT", "principal": "somebody"}


def _resource(target: PermissionTarget) -> dict[str, str]:
    parts = {"type": target.type.value, "database": target.database, "table": target.table,
             "view": target.view, "function": target.function}  # fmt: skip
    return {key: value for key, value in parts.items() if value is not None}


def _renamed(object_: str, database: str, name: str) -> Body:
    source = {"database": "sales", "object": object_}
    return {"source": source, "destination": {"database": database, "object": name}}


# For each operation: a request, and what is granted so that it is no longer refused. The request
# itself may be wrong in other ways: a caller who may do it is then told so.
REQUESTS: dict[str, tuple[str, str, Body | None, list[tuple[PermissionTarget, Access]]]] = {
    "createDatabase": ("POST", "/v1/main/databases", {"name": "new"},
                       [(CATALOG, Access.CREATEDATABASE)]),
    "getDatabase": ("GET", D, None, [(SALES, Access.DESCRIBE)]),
    "alterDatabase": ("POST", D, {"updates": {"a": "b"}}, [(SALES, Access.ALTER)]),
    "dropDatabase": ("DELETE", D, None, [(SALES, Access.DROP)]),
    "listTables": ("GET", f"{D}/tables", None, [(SALES, Access.DESCRIBE)]),
    "listTableDetails": ("GET", f"{D}/table-details", None, [(SALES, Access.DESCRIBE)]),
    "getTableById": ("GET", "/v1/main/tables/id/{id}", None, [(ORDERS, Access.SELECT)]),
    "getTable": ("GET", T, None, [(ORDERS, Access.GRANT)]),
    "authTableQuery": ("POST", f"{T}/auth", {"select": ["id"]}, [(COLUMNS, Access.SELECT)]),
    "getTableToken": ("GET", f"{T}/token", None, [(ORDERS, Access.SELECT)]),
    "signTableRequests": ("POST", f"{T}/sign", {"requests": [{"method": "GET", "path": "x"}]},
                          [(ORDERS, Access.SELECT)]),
    "readTable": ("POST", f"{T}/read", {"select": ["id"]}, [(COLUMNS, Access.SELECT)]),
    "createTable": ("POST", f"{D}/tables", {"identifier": {"database": "sales", "object": "new"},
                    "schema": FIELDS}, [(SALES, Access.CREATETABLE)]),
    "registerTable": ("POST", f"{D}/register", {"identifier": {"database": "sales", "object": "n"},
                      "path": "/nowhere"}, [(SALES, Access.CREATETABLE)]),
    "renameTable": ("POST", "/v1/main/tables/rename", _renamed("orders", "sales", "new"),
                    [(ORDERS, Access.ALTER)]),
    "alterTable": ("POST", T, {"changes": []}, [(ORDERS, Access.ALTER)]),
    "replaceTable": ("POST", f"{T}/replace", {"schema": FIELDS},
                     [(ORDERS, Access.ALTER), (ORDERS, Access.UPDATE)]),
    "dropTable": ("DELETE", T, None, [(ORDERS, Access.DROP)]),
    "commitTable": ("POST", f"{T}/commit", {}, [(ORDERS, Access.UPDATE)]),
    "getTableSnapshot": ("GET", f"{T}/snapshot", None, [(COLUMNS, Access.SELECT)]),
    "listSnapshots": ("GET", f"{T}/snapshots", None, [(ORDERS, Access.SELECT)]),
    "getVersionSnapshot": ("GET", f"{T}/snapshots/1", None, [(ORDERS, Access.SELECT)]),
    "getLastCommit": ("GET", f"{T}/commits/me", None, [(ORDERS, Access.UPDATE)]),
    "rollbackTable": ("POST", f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 1}},
                      [(ORDERS, Access.UPDATE)]),
    "rollbackSchema": ("POST", f"{T}/rollback-schema", {"schemaId": 0}, [(ORDERS, Access.ALTER)]),
    "listTags": ("GET", f"{T}/tags", None, [(ORDERS, Access.SELECT)]),
    "getTag": ("GET", f"{T}/tags/v1", None, [(ORDERS, Access.SELECT)]),
    "createTag": ("POST", f"{T}/tags", {"tagName": "v1"}, [(ORDERS, Access.UPDATE)]),
    "replaceTag": ("POST", f"{T}/tags/v1/replace", {}, [(ORDERS, Access.UPDATE)]),
    "renameTag": ("POST", f"{T}/tags/v1/rename", {"toTag": "v2"}, [(ORDERS, Access.UPDATE)]),
    "deleteTag": ("DELETE", f"{T}/tags/v1", None, [(ORDERS, Access.UPDATE)]),
    "getReferences": ("GET", f"{T}/references", None, [(ORDERS, Access.SELECT)]),
    "commitDeletion": ("POST", f"{T}/deletions", {"id": "d", "version": 9},
                       [(ORDERS, Access.UPDATE)]),
    "finishDeletion": ("DELETE", f"{T}/deletions/d", None, [(ORDERS, Access.UPDATE)]),
    "listBranches": ("GET", f"{T}/branches", None, [(ORDERS, Access.SELECT)]),
    "createBranch": ("POST", f"{T}/branches", {"branch": "b"}, [(ORDERS, Access.UPDATE)]),
    "dropBranch": ("DELETE", f"{T}/branches/b", None, [(ORDERS, Access.UPDATE)]),
    "renameBranch": ("POST", f"{T}/branches/b/rename", {"toBranch": "c"},
                     [(ORDERS, Access.UPDATE)]),
    "forwardBranch": ("POST", f"{T}/branches/b/forward", {}, [(ORDERS, Access.UPDATE)]),
    "listPartitions": ("GET", f"{T}/partitions", None, [(ORDERS, Access.SELECT)]),
    "listPartitionsByNames": ("POST", f"{T}/partitions/list-by-names", {"specs": []},
                              [(ORDERS, Access.SELECT)]),
    "listPartitionsByFilter": ("POST", f"{T}/partitions/list-by-filter", {},
                               [(ORDERS, Access.SELECT)]),
    "createPartitions": ("POST", f"{T}/partitions", {"partitionSpecs": []},
                         [(ORDERS, Access.UPDATE)]),
    "dropPartitions": ("POST", f"{T}/partitions/drop", {"partitionSpecs": []},
                       [(ORDERS, Access.UPDATE)]),
    "markDonePartitions": ("POST", f"{T}/partitions/mark", {"specs": []},
                           [(ORDERS, Access.UPDATE)]),
    "listConsumers": ("GET", f"{T}/consumers", None, [(ORDERS, Access.SELECT)]),
    "resetConsumer": ("POST", f"{T}/consumers/reset", {"consumerId": "c"},
                      [(COLUMNS, Access.SELECT)]),
    "leaseConsumer": ("POST", f"{T}/consumers/lease", {"consumerId": "c", "owner": "o"},
                      [(ORDERS, Access.SELECT)]),
    "listViews": ("GET", f"{D}/views", None, [(SALES, Access.DESCRIBE)]),
    "listViewDetails": ("GET", f"{D}/view-details", None, [(SALES, Access.DESCRIBE)]),
    "getView": ("GET", f"{D}/views/recent", None, [(RECENT, Access.SELECT)]),
    "createView": ("POST", f"{D}/views", {}, [(SALES, Access.CREATEVIEW)]),
    "alterView": ("POST", f"{D}/views/recent", {"changes": []}, [(RECENT, Access.ALTER)]),
    "replaceView": ("POST", f"{D}/views/recent/replace",
                    {"schema": {"fields": [], "query": "SELECT 2"}}, [(RECENT, Access.ALTER)]),
    "renameView": ("POST", "/v1/main/views/rename", _renamed("recent", "sales", "new"),
                   [(RECENT, Access.ALTER)]),
    "dropView": ("DELETE", f"{D}/views/recent", None, [(RECENT, Access.DROP)]),
    "listFunctions": ("GET", f"{D}/functions", None, [(SALES, Access.DESCRIBE)]),
    "listFunctionDetails": ("GET", f"{D}/function-details", None, [(SALES, Access.DESCRIBE)]),
    "getFunction": ("GET", f"{D}/functions/area", None, [(AREA, Access.SELECT)]),
    "createFunction": ("POST", f"{D}/functions", {}, [(SALES, Access.CREATEFUNCTION)]),
    "alterFunction": ("POST", f"{D}/functions/area", {"changes": []}, [(AREA, Access.ALTER)]),
    "replaceFunction": ("POST", f"{D}/functions/area/replace", {}, [(AREA, Access.ALTER)]),
    "dropFunction": ("DELETE", f"{D}/functions/area", None, [(AREA, Access.DROP)]),
    "listPermissions": ("GET", "/v1/main/permissions?resourceType=TABLE&database=sales&table="
                        "orders", None, [(ORDERS, Access.GRANT)]),
    "grantPermission": ("POST", "/v1/main/permissions/grant",
                        {"resource": _resource(ORDERS), **GRANT}, [(ORDERS, Access.GRANT)]),
    "revokePermission": ("POST", "/v1/main/permissions/revoke",
                         {"resource": _resource(ORDERS), **GRANT}, [(ORDERS, Access.GRANT)]),
    "listPolicies": ("GET", f"{T}/policies", None, [(ORDERS, Access.GRANT)]),
    "createPolicy": ("POST", f"{T}/policies", {}, [(ORDERS, Access.GRANT)]),
    "dropPolicy": ("POST", f"{T}/policies/drop", {}, [(ORDERS, Access.GRANT)]),
    "listLabels": ("GET", "/v1/main/labels/TABLE/sales.orders", None, [(ORDERS, Access.SELECT)]),
    "getLabel": ("GET", "/v1/main/labels/VIEW/sales.recent/domain", None,
                 [(RECENT, Access.SELECT)]),
    "upsertLabel": ("POST", "/v1/main/labels/DATABASE/sales/domain", {"value": "sales"},
                    [(SALES, Access.ALTER)]),
    "deleteLabel": ("DELETE", "/v1/main/labels/TABLE/sales.orders/domain", None,
                    [(ORDERS, Access.ALTER)]),
    "listHolders": ("GET", f"{M}/permissions/who?resourceType=TABLE&database=sales&table=orders",
                    None, [(ORDERS, Access.GRANT)]),
    "listSeenTables": ("GET", f"{M}/permissions/of?principal=ada", None,
                       [(EVERYTHING, Access.GRANT)]),
    "restoreTable": ("POST", f"{M}/dropped-tables/{{gone}}/restore", {},
                     [(EVERYTHING, Access.DROP), (SALES, Access.CREATETABLE)]),
    "purgeTable": ("DELETE", f"{M}/dropped-tables/{{gone}}", None, [(EVERYTHING, Access.DROP)]),
    "getDatabaseProtection": ("GET", f"{M}/databases/sales/protection", None,
                              [(SALES, Access.DESCRIBE)]),
    "setDatabaseProtection": ("POST", f"{M}/databases/sales/protection", {"protected": False},
                              [(SALES, Access.ALTER)]),
    "getTableProtection": ("GET", f"{M}/databases/sales/tables/orders/protection", None,
                           [(ORDERS, Access.SELECT)]),
    "setTableProtection": ("POST", f"{M}/databases/sales/tables/orders/protection",
                           {"protected": False}, [(ORDERS, Access.ALTER)]),
}  # fmt: skip

LISTS = {"listDatabases", "listTablesGlobally", "listViewsGlobally", "listFunctionsGlobally",
         "listDroppedTables"}  # fmt: skip


def test_every_operation_of_a_catalog_is_tried() -> None:
    of_a_warehouse = {
        name
        for name, rule in OPERATIONS.items()
        if rule.warehouse is not None and rule.scope not in (Scope.MANAGE, Scope.ADMINISTER)
    }
    assert of_a_warehouse == set(REQUESTS) | LISTS


def test_nothing_is_done_without_a_right_and_something_with_it(server: Server) -> None:
    """Nobody's answer tells what is there; one right less is not enough; all of them are."""
    ids = {
        "id": server.catalog.tables.get(Identifier("sales", "orders")).id,
        "gone": server.catalog.dropped_tables.list().items[0].id,
    }
    nobody = server.caller("nobody")
    for operation, (method, path, body, grants) in REQUESTS.items():
        path = path.format(**ids)
        refused = nobody(method, path, body)
        expected = 403 if operation in ("createDatabase", "listSeenTables") else 404
        assert refused.status_code == expected, (operation, refused.text)
        missing = nobody(method, path.replace("orders", "none").replace("sales", "none"), body)
        assert missing.status_code in (expected, 400), (operation, missing.text)
        for left_out in range(len(grants)):
            some = [each for at, each in enumerate(grants) if at != left_out]
            almost = server.caller(f"almost {operation} {left_out}", *some)
            assert almost(method, path, body).status_code in (403, 404), operation
    state = server.catalog
    assert state.tables.get(Identifier("sales", "orders")).schema.options
    # Those that take things away come last.
    last = ("dropTable", "dropView", "dropFunction", "dropDatabase", "purgeTable", "restoreTable",
            "renameTable", "renameView")  # fmt: skip
    for operation, (method, path, body, grants) in REQUESTS.items():
        if operation in last:
            continue
        able = server.caller(f"able {operation}", *grants)
        answer = able(method, path.format(**ids), body)
        assert answer.status_code not in (401, 403), (operation, answer.text)
        if answer.status_code == 404:
            # It got as far as what is not there.
            missing_kind = answer.json()["resourceType"]
            assert missing_kind in ("SNAPSHOT", "TAG", "BRANCH", "CONSUMER", "LABEL"), (
                operation,
                answer.text,
            )


@pytest.mark.parametrize(
    "operation",
    ["dropTable", "dropView", "dropFunction", "dropDatabase", "purgeTable", "restoreTable",
     "renameTable", "renameView"],
)  # fmt: skip
def test_what_takes_away_is_done_with_a_right(server: Server, operation: str) -> None:
    method, path, body, grants = REQUESTS[operation]
    gone = server.catalog.dropped_tables.list().items[0].id
    answer = server.caller("able", *grants)(method, path.format(gone=gone), body)
    assert answer.status_code == 200, answer.text


def test_seeing_without_a_right_is_403(server: Server) -> None:
    reader = server.caller("reader", (ORDERS, Access.SELECT))
    for method, path, body in (
        ("DELETE", T, None),
        ("POST", f"{T}/commit", {}),
        ("POST", f"{T}$branch_b/commit", {}),
        ("POST", "/v1/main/tables/rename", _renamed("orders", "sales", "new")),
        ("GET", f"{T}/policies", None),
        ("POST", "/v1/main/labels/TABLE/sales.orders/domain", {"value": "sales"}),
        ("DELETE", "/v1/main/labels/TABLE/sales.orders/domain", None),
        ("POST", "/v1/main/labels/DATABASE/sales/domain", {"value": "sales"}),
        ("DELETE", D, None),
    ):
        answer = reader(method, path, body)
        assert answer.status_code == 403, (path, answer.text)
        assert answer.json()["code"] == 403
        assert "'reader' may not" in answer.json()["message"]
    # A branch and what is of a table are the table's.
    assert reader("GET", f"{T}%24branch_b").status_code == 404
    assert reader("GET", f"{D}/tables/people").status_code == 404
    assert reader("GET", f"{D}/tables/people$branch_b/tags").status_code == 404
    # A malformed body tells nobody what is there.
    nobody = server.caller("nobody")
    for table in ("orders", "none"):
        answer = nobody("POST", f"{D}/tables/{table}/rollback", {"instant": 7})
        assert answer.status_code == 404


def test_a_thing_that_moves_needs_rights_on_both_sides(server: Server) -> None:
    other = PermissionTarget(TargetType.DATABASE, "other")
    body = _renamed("orders", "other", "moved")
    path = "/v1/main/tables/rename"
    full = [(ORDERS, Access.ALTER), (ORDERS, Access.DROP), (other, Access.CREATETABLE)]
    for left_out in range(3):
        some = [grant for index, grant in enumerate(full) if index != left_out]
        answer = server.caller(f"almost {left_out}", *some)("POST", path, body)
        assert answer.status_code in (403, 404)
    assert server.caller("able", *full)("POST", path, body).status_code == 200


def _names(answer: httpx.Response, key: str) -> list[Any]:
    assert answer.status_code == 200, answer.text
    names: list[Any] = answer.json()[key]
    return names


def test_lists_show_what_one_sees_in_full_pages(server: Server) -> None:
    schema = server.catalog.tables.get(Identifier("sales", "orders")).schema
    for number in range(12):
        name = Identifier("sales", f"t{number:02}")
        server.catalog.tables.create(name, Schema(schema.fields))
    odd = [PermissionTarget(TargetType.TABLE, "sales", f"t{n:02}") for n in range(1, 12, 2)]
    some = server.caller("some", *((target, Access.UPDATE) for target in odd))
    page = some("GET", f"{D}/tables?maxResults=4").json()
    assert page["tables"] == ["t01", "t03", "t05", "t07"]
    rest = some("GET", f"{D}/tables?maxResults=4&pageToken={page['nextPageToken']}").json()
    assert (rest["tables"], rest["nextPageToken"]) == (["t09", "t11"], None)
    details = some("GET", f"{D}/table-details?tableNamePattern=t1%25").json()["tableDetails"]
    assert [each["name"] for each in details] == ["t11"]
    everywhere = some("GET", "/v1/main/tables?maxResults=2").json()
    assert [each["object"] for each in everywhere["tables"]] == ["t01", "t03"]
    assert _names(some("GET", "/v1/main/databases"), "databases") == ["sales"]
    assert _names(some("GET", f"{D}/views"), "views") == []
    assert _names(some("GET", f"{D}/functions"), "functions") == []
    # LIST tells names and no more.
    lister = server.caller("lister", (SALES, Access.LIST))
    assert len(_names(lister("GET", f"{D}/tables"), "tables")) == 14
    assert _names(lister("GET", f"{D}/table-details"), "tableDetails") == []
    assert len(_names(lister("GET", "/v1/main/tables"), "tables")) == 14
    assert lister("GET", T).status_code == 404
    inside = server.caller("inside", (IN_SALES, Access.SELECT))
    assert len(_names(inside("GET", f"{D}/table-details"), "tableDetails")) == 14
    assert _names(inside("GET", f"{D}/views"), "views") == ["recent"]
    everything = server.caller("everything", (EVERYTHING, Access.SELECT))
    assert _names(everything("GET", "/v1/main/databases"), "databases") == ["other", "sales"]
    assert len(_names(everything("GET", "/v1/main/tables"), "tables")) == 16
    for kind in ("databases", "tables", "views", "functions"):
        assert _names(server.caller(f"no {kind}")("GET", f"/v1/main/{kind}"), kind) == []
    of_view = server.caller("of view", (RECENT, Access.ALTER))
    assert _names(of_view("GET", "/v1/main/databases"), "databases") == ["sales"]
    views = _names(of_view("GET", "/v1/main/views"), "views")
    assert views == [{"database": "sales", "object": "recent"}]


def test_dropped_tables_are_seen_by_those_who_may(server: Server) -> None:
    path = f"{M}/dropped-tables"
    target = ORDERS
    able = server.caller("able", (target, Access.DROP))
    reader = server.caller("reader", (target, Access.SELECT))
    nobody = server.caller("nobody")
    assert able("DELETE", T).status_code == 200
    for send, seen in ((able, ["orders"]), (reader, ["orders"]), (nobody, [])):
        tables = _names(send("GET", path), "droppedTables")
        assert [each["identifier"]["object"] for each in tables] == seen
    table_id = able("GET", path).json()["droppedTables"][0]["id"]
    assert reader("DELETE", f"{path}/{table_id}").status_code == 403
    assert nobody("DELETE", f"{path}/{table_id}").status_code == 404


def test_what_one_makes_is_ones_own(server: Server) -> None:
    maker = server.caller("new maker", (CATALOG, Access.CREATEDATABASE))
    other = server.caller("other", (SALES, Access.CREATETABLE))
    assert maker("POST", "/v1/main/databases", {"name": "mine"}).status_code == 200
    new = {"identifier": {"database": "mine", "object": "t"}, "schema": FIELDS}
    assert maker("POST", "/v1/main/databases/mine/tables", new).status_code == 200
    assert other("GET", "/v1/main/databases/mine").status_code == 404
    assert _names(maker("GET", "/v1/main/databases"), "databases") == ["mine"]
    assert _names(maker("GET", "/v1/main/tables"), "tables") == [
        {"database": "mine", "object": "t"}
    ]
    # Whose table is in another's database: the table is the maker's, and the database's owner's.
    new = {"identifier": {"database": "sales", "object": "t"}, "schema": FIELDS}
    assert other("POST", f"{D}/tables", new).status_code == 200
    assert _names(other("GET", f"{D}/tables"), "tables") == ["t"]
    assert other("GET", T).status_code == 404
    secret = server.tokens.create("maker").secret
    owner = {"authorization": f"Bearer {secret}"}
    assert server.client.get(f"{server.address}{D}/tables/t", headers=owner).status_code == 200
    assert other("DELETE", f"{D}/tables/t").status_code == 200
    granted = {"resource": _resource(ORDERS), **GRANT}
    grants = f"{server.address}/v1/main/permissions/grant"
    assert server.client.post(grants, json=granted, headers=owner).status_code == 200


def test_a_group_gives_its_members_what_it_has(server: Server) -> None:
    ada = server.caller("ada")
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "group:analysts"))
    assert ada("GET", T).status_code == 404
    server.groups.add("analysts", "ada")
    server.clock.millis += KEPT_MILLIS
    assert ada("GET", T).status_code == 200
    assert _names(ada("GET", f"{D}/tables"), "tables") == ["orders"]
    server.groups.remove("analysts", "ada")
    server.clock.millis += KEPT_MILLIS
    assert ada("GET", T).status_code == 404
    # Her own grants and her groups' may be listed by herself.
    mine = "/v1/main/permissions?resourceType=TABLE&database=sales&table=orders&principal="
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "ada"))
    assert len(_names(ada("GET", f"{mine}ada"), "permissions")) == 1
    assert ada("GET", f"{mine}group:analysts").status_code == 403
    assert ada("GET", mine).status_code == 403


@pytest.mark.parametrize("path", [T, f"{T}/tags"])
def test_a_revoke_holds_at_once_here_and_soon_everywhere(server: Server, path: str) -> None:
    reader = server.caller("reader", (ORDERS, Access.SELECT))
    admin = server.caller("admin", scopes=[Scope.ADMINISTER])
    for _ in range(2):  # the second time by what is remembered
        assert reader("GET", path).status_code == 200
    revoked = {"resource": _resource(ORDERS), "access": "SELECT", "principal": "reader"}
    assert admin("POST", "/v1/main/permissions/revoke", revoked).status_code == 200
    assert reader("GET", path).status_code == 404
    # By another server, whose work this one does not see.
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "reader"))
    assert reader("GET", path).status_code == 200
    server.catalog.permissions.revoke(ORDERS, Access.SELECT, "reader")
    server.clock.millis += KEPT_MILLIS
    assert reader("GET", path).status_code == 404


def test_a_grant_ends_to_the_millisecond(server: Server) -> None:
    reader = server.caller("reader")
    end = server.clock.millis + 100
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "reader", expires_at=end))
    server.catalog.permissions.grant(Grant(SALES, Access.DESCRIBE, "reader"))
    server.clock.millis += 99
    assert reader("GET", T).status_code == 200
    assert _names(reader("GET", f"{D}/tables"), "tables") == ["orders"]
    server.clock.millis += 1
    assert reader("GET", T).status_code == 404
    assert _names(reader("GET", f"{D}/tables"), "tables") == []


def test_a_name_that_passes_to_another_thing_takes_no_right_along(server: Server) -> None:
    reader = server.caller("reader", (ORDERS, Access.SELECT))
    admin = server.caller("admin", scopes=[Scope.ADMINISTER])
    assert reader("GET", T).status_code == 200
    path = "/v1/main/tables/rename"
    assert admin("POST", path, _renamed("orders", "sales", "moved")).status_code == 200
    assert admin("POST", path, _renamed("people", "sales", "orders")).status_code == 200
    assert reader("GET", T).status_code == 404
    assert reader("GET", f"{D}/tables/moved").status_code == 200


def test_columns_are_asked_for_through_auth(server: Server) -> None:
    reader = server.caller("reader", (COLUMNS, Access.SELECT))
    auth = f"{T}/auth"
    assert reader("POST", auth, {"select": ["id"]}).json()["filter"] == []
    hidden = reader("POST", auth, {"select": ["id", "amount"]})
    assert (hidden.status_code, "amount" in hidden.json()["message"]) == (403, True)
    # No columns are all columns.
    assert reader("POST", auth, {}).status_code == 403
    but = Grant(COLUMNS, Access.SELECT, "reader", ColumnSet(excluded=("id",)))
    server.catalog.permissions.grant(but)
    server.clock.millis += KEPT_MILLIS
    assert reader("POST", auth, {"select": ["amount"]}).status_code == 200
    assert reader("POST", auth, {"select": ["id"]}).status_code == 403
    server.catalog.permissions.revoke(COLUMNS, Access.SELECT, "reader")
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "reader"))
    server.clock.millis += KEPT_MILLIS
    assert reader("POST", auth, {"select": ["id", "amount"]}).status_code == 200
    assert reader("POST", auth, {}).status_code == 200
    writer = server.caller("writer", (ORDERS, Access.UPDATE))
    for select in ([], ["id"], None):
        assert writer("POST", auth, {"select": select}).status_code == 403


@pytest.mark.parametrize("name", ["reader", "maker", "writer"])
def test_permissions_on_columns_hold_whatever_else_was_granted(server: Server, name: str) -> None:
    wide = [(EVERYTHING, Access.ALL), (ORDERS, Access.SELECT), (ORDERS, Access.UPDATE)]
    ask = server.caller(name, *(wide[2:] if name == "writer" else wide[:2]))
    auth, everything = f"{T}/auth", {"select": ["id", "amount"]}
    assert ask("POST", auth, everything).status_code == (403 if name == "writer" else 200)
    # Of several, its own and those of its groups, each holds.
    grant = server.caller("granter", (ORDERS, Access.GRANT), (SALES, Access.DESCRIBE))
    server.groups.add("analysts", name)
    server.clock.millis += KEPT_MILLIS
    for who, columns in (
        ("group:analysts", {"excludedColumnNames": ["id"]}),
        (name, {"columnNames": ["amount", "id"]}),
    ):
        body = {
            "resource": _resource(COLUMNS),
            "access": "SELECT",
            "principal": who,
            "columns": columns,
        }
        # Nothing that was remembered outlasts it in the process that took it.
        assert grant("POST", "/v1/main/permissions/grant", body).status_code == 200
    told = ask("POST", auth, everything)
    assert told.status_code == 403
    assert "columns id; permissions on columns keep it to others" in told.json()["message"]
    assert ask("POST", auth, {"select": ["amount"]}).status_code == 200
    told = ask("POST", auth, {})
    assert told.status_code == 403
    assert "permissions on columns keep it to some columns" in told.json()["message"]
    holders = server.catalog.permissions.who(ORDERS).items
    assert {each.principal for each in holders if Access.SELECT in each.accesses} == (
        {"maker"} - {name}
    )
    disjoint = {**body, "columns": {"columnNames": ["id"]}}
    assert grant("POST", "/v1/main/permissions/grant", disjoint).status_code == 200
    for column in ("id", "amount"):
        assert ask("POST", auth, {"select": [column]}).status_code == 403, column
    server.groups.remove("analysts", name)
    server.clock.millis += KEPT_MILLIS
    assert ask("POST", auth, {"select": ["id"]}).status_code == 200
    assert ask("POST", auth, {"select": ["amount"]}).status_code == 403


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        (CATALOG, CATALOG),
        (EVERYTHING, EVERYTHING),
        (SALES, SALES),
        (SALES, EVERYTHING),
        (IN_SALES, IN_SALES),
        (IN_SALES, EVERYTHING),
        (ORDERS, ORDERS),
        (ORDERS, IN_SALES),
        (RECENT, IN_SALES),
        (AREA, EVERYTHING),
    ],
)
def test_who_grants_needs_the_right_to(
    server: Server, target: PermissionTarget, needed: PermissionTarget
) -> None:
    body = {"resource": _resource(target), "access": "ALTER", "principal": "x"}
    able = server.caller("able", (needed, Access.GRANT))
    assert able("POST", "/v1/main/permissions/grant", body).status_code == 200
    wider = {CATALOG: EVERYTHING, SALES: IN_SALES, ORDERS: IN_SALES, IN_SALES: SALES}.get(needed)
    if wider is not None:
        body = {"resource": _resource(wider), "access": "ALTER", "principal": "x"}
        refused = able("POST", "/v1/main/permissions/grant", body)
        assert refused.status_code in (403, 404)


def test_who_is_called_like_a_group_is_none_of_it(server: Server) -> None:
    server.catalog.permissions.grant(Grant(ORDERS, Access.ALL, "group:analysts"))
    listed = server.caller("ada")("GET", f"{D}/tables")
    assert listed.status_code == 404


def test_an_operator_may_leave_permissions_alone(server: Server, serve: Callable[..., str]) -> None:
    secret = server.tokens.create("somebody").secret
    settings = {"require_token": True, "enforce_permissions": False}
    address = serve(server.catalog, parts={"find_token": server.tokens.find}, **settings)
    headers = {"authorization": f"Bearer {secret}"}
    assert plain_http.get(f"{address}{T}", headers=headers).status_code == 200
    assert plain_http.get(f"{server.address}{T}", headers=headers).status_code == 404


def test_owners_are_among_those_who_see_a_thing(server: Server) -> None:
    server.groups.add("analysts", "ada")
    server.catalog.permissions.grant(Grant(ORDERS, Access.SELECT, "group:analysts"))
    ada, maker = server.caller("ada"), server.caller("maker")
    path = f"{M}/permissions/who?resourceType=TABLE&database=sales&table=orders"
    holders = {each["principal"]: each["access"] for each in _names(maker("GET", path), "holders")}
    assert (set(holders), holders["group:analysts"]) == ({"maker", "group:analysts"}, ["SELECT"])
    assert "ALL" in holders["maker"]
    assert ada("GET", path).status_code == 403
    mine = _names(ada("GET", f"{M}/permissions/of?principal=ada"), "tables")
    assert [(each["identifier"]["object"], each["access"]) for each in mine] == [
        ("orders", ["SELECT"])
    ]
    assert ada("GET", f"{M}/permissions/of?principal=maker").status_code == 403
    assert len(server.catalog.permissions.of("maker").items) == 4


def test_a_grant_on_all_of_a_warehouse_is_of_no_other(server: Server, tmp_path: Path) -> None:
    database = server.catalog.operation.database
    second = SqlCatalog.on(database, warehouse="second", location=str(tmp_path / "second"))
    second.databases.create("sales")
    ada = Principal("ada", scopes=frozenset({Scope.WRITE}), asks_permission=True)
    for target, access in ((EVERYTHING, Access.DESCRIBE), (CATALOG, Access.CREATEDATABASE)):
        server.catalog.permissions.grant(Grant(target, access, "ada"))
    for thing in (Thing(TargetType.CATALOG), Thing(TargetType.DATABASE, "sales")):
        here, there = (each.access.rights(ada, thing) for each in (server.catalog, second))
        assert here.own | here.within, thing
        assert there == NO_RIGHTS, thing
