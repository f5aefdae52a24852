"""Databases and tables over the wire, as Paimon's clients send and read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

import httpx
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.schema.table_schema import Schema


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert answer.status_code == body["code"]
    assert body["message"]
    return body["code"], body["resourceType"], body["resourceName"]


def _create(http: httpx.Client, database: str, table: str, schema: object) -> httpx.Response:
    body = {"identifier": {"database": database, "object": table}, "schema": schema}
    return http.post(f"/v1/main/databases/{database}/tables", json=body)


def test_a_database_lives(http: httpx.Client, tmp_path: Path) -> None:
    path = "/v1/main/databases"
    body = {"name": "sales", "options": {"a": "1", "b": "2", "nothing": None}}
    assert (http.post(path, json=body).status_code, http.post(path, json=body).json()["code"]) == (
        200,
        409,
    )
    assert _error(http.post(path, json=body)) == (409, "DATABASE", "sales")
    database = http.get(f"{path}/sales").json()
    assert database["name"] == "sales"
    assert database["location"] == f"file://{tmp_path}/lake/sales.db"
    assert database["options"] == {"a": "1", "b": "2"}
    # Java puts these into a table's options, where a null does harm.
    assert all(database[key] is not None for key in ("owner", "createdBy", "updatedBy"))
    assert database["createdAt"] > 1_700_000_000_000
    changes = {"removals": ["a", "missing"], "updates": {"b": "3", "c": "4"}}
    assert http.post(f"{path}/sales", json=changes).json() == {
        "removed": ["a"],
        "updated": ["b", "c"],
        "missing": ["missing"],
    }
    assert http.get(f"{path}/sales").json()["options"] == {"b": "3", "c": "4"}
    assert http.delete(f"{path}/sales").json() == {}
    for answer in (
        http.get(f"{path}/sales"),
        http.delete(f"{path}/sales"),
        http.post(f"{path}/sales", json=changes),
        http.get(f"{path}/sales/tables"),
        http.get(f"{path}/sales/table-details"),
        http.get(f"{path}/sales/views"),
        http.get(f"{path}/sales/functions"),
    ):
        assert _error(answer) == (404, "DATABASE", "sales")


@pytest.mark.parametrize(
    "name", ["", " ", "..", "a/b", "a\\b", "a.b", "sys", "a\u0000b", "x" * 300]
)
def test_a_database_name_that_could_do_harm_is_refused(http: httpx.Client, name: str) -> None:
    assert _error(http.post("/v1/main/databases", json={"name": name}))[0] == 400


@pytest.mark.parametrize("location", ["/elsewhere", "file:///etc", "s3://bucket/x", "{lake}/../x"])
def test_a_database_outside_the_warehouse_is_refused(
    http: httpx.Client, tmp_path: Path, location: str
) -> None:
    options = {"location": location.format(lake=tmp_path / "lake")}
    answer = http.post("/v1/main/databases", json={"name": "sales", "options": options})
    assert _error(answer)[0] == 400
    assert http.get("/v1/main/databases").json()["databases"] == []


def test_a_created_table_is_what_clients_expect(
    http: httpx.Client, orders: str, tmp_path: Path
) -> None:
    table = http.get(orders).json()
    directory = tmp_path / "lake" / "sales.db" / "orders"
    assert table["path"] == f"file://{directory}"
    assert (table["database"], table["name"], table["schemaId"]) == ("sales", "orders", 0)
    assert table["isExternal"] is False
    assert table["schema"]["primaryKeys"] == ["dt", "order_id"]
    assert table["schema"]["partitionKeys"] == ["dt"]
    assert "path" not in table["schema"]["options"]
    assert [field["type"] for field in table["schema"]["fields"]] == [
        "BIGINT NOT NULL",
        "STRING NOT NULL",
        "INT",
    ]
    assert all(table[key] is not None for key in ("owner", "createdBy", "updatedBy"))
    files = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    assert files == ["schema/schema-0"]


def test_keys_may_come_as_options(http: httpx.Client, sales: str) -> None:
    schema = {
        "fields": [
            {"id": 0, "name": "id", "type": "BIGINT"},
            {"id": 1, "name": "dt", "type": "STRING"},
        ],
        "options": {"primary-key": "id,dt", "partition": "dt", "bucket": 1},
    }
    assert _create(http, "sales", "t", schema).status_code == 200
    made = http.get(f"{sales}/tables/t").json()["schema"]
    assert (made["primaryKeys"], made["partitionKeys"]) == (["id", "dt"], ["dt"])
    assert made["options"] == {"bucket": "1"}
    assert [field["type"] for field in made["fields"]] == ["BIGINT NOT NULL", "STRING NOT NULL"]


def _schema(**changes: object) -> dict[str, object]:
    fields = [{"id": 0, "name": "id", "type": "BIGINT"}, {"id": 1, "name": "x", "type": "INT"}]
    return {"fields": fields, "options": None, **changes}


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (_schema(fields=[]), 400),
        (_schema(fields=None), 400),
        (_schema(fields=[{"id": 0, "name": "id"}]), 400),
        (_schema(fields=[{"id": 0, "name": "id", "type": "NUMBER"}]), 400),
        (_schema(fields=[{"id": 0, "name": "id", "type": "DECIMAL(99, 2)"}]), 400),
        (_schema(fields=[{"id": 0, "name": "x", "type": "INT"}] * 2), 400),
        (_schema(primaryKeys=["nothing"]), 400),
        (_schema(partitionKeys="id"), 400),
        (_schema(options=["bucket"]), 400),
        (_schema(options={"bucket": "many"}), 400),
        (_schema(options={"path": "../../etc"}), 400),
        ("a text", 400),
        (None, 400),
    ],
)
def test_a_schema_that_is_not_allowed_makes_no_table(
    http: httpx.Client, sales: str, tmp_path: Path, schema: object, code: int
) -> None:
    assert _error(_create(http, "sales", "t", schema))[0] == code
    assert http.get(f"{sales}/tables").json()["tables"] == []
    assert not (tmp_path / "lake" / "sales.db" / "t").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a$b", "t$branch_x", "t$snapshots", "x" * 300])
def test_a_table_name_that_could_do_harm_is_refused(
    http: httpx.Client, sales: str, name: str
) -> None:
    assert _error(_create(http, "sales", name, _schema()))[0] == 400


def test_an_external_table_must_not_touch_the_warehouse(
    http: httpx.Client, sales: str, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "lake", tmp_path / "lake" / "sales.db" / "other"):
        answer = _create(http, "sales", "t", _schema(options={"path": str(path)}))
        assert _error(answer)[0] == 400
    assert http.get(f"{sales}/tables").json()["tables"] == []


def test_an_external_table_commits_by_itself(
    http: httpx.Client, sales: str, tmp_path: Path
) -> None:
    path = tmp_path / "external"
    assert _create(http, "sales", "t", _schema(options={"path": str(path)})).status_code == 200
    table = f"{sales}/tables/t"
    stored = http.get(table).json()
    assert (stored["isExternal"], stored["path"]) == (True, f"file://{path}")
    assert _error(http.get(f"{table}/snapshot")) == (501, "TABLE", "sales.t")
    snapshot = {
        "id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b",
        "commitUser": "u", "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1,
    }  # fmt: skip
    assert _error(http.post(f"{table}/commit", json={"snapshot": snapshot}))[0] == 501
    assert [p for p in path.rglob("*") if p.is_file()] == [path / "schema" / "schema-0"]


def test_names_that_lead_nowhere_are_told_by_kind(http: httpx.Client, sales: str) -> None:
    nothing = f"{sales}/tables/nothing"
    nowhere = "/v1/main/databases/nowhere/tables/nothing"
    for path, name in ((nothing, "sales.nothing"), (nowhere, "nowhere.nothing")):
        alteration = {"changes": [{"action": "setOption", "key": "a", "value": "b"}]}
        for answer in (
            http.get(path),
            http.delete(path),
            http.post(path, json=alteration),
            http.get(f"{path}/snapshot"),
            http.get(f"{path}/snapshots"),
            http.get(f"{path}/snapshots/1"),
            http.get(f"{path}/tags"),
            http.post(f"{path}/tags", json={"tagName": "v1"}),
            http.get(f"{path}/tags/v1"),
            http.delete(f"{path}/tags/v1"),
            http.get(f"{path}/consumers"),
            http.post(f"{path}/consumers/reset", json={"consumerId": "c", "nextSnapshotId": 1}),
            http.get(f"{path}/partitions"),
            http.get(f"{path}/branches"),
            http.get(f"{path}/token"),
            http.post(f"{path}/auth", json={}),
            http.post(f"{path}/rollback", json={"instant": {"type": "snapshot", "snapshotId": 1}}),
        ):
            assert _error(answer) == (404, "TABLE", name)
    assert _error(_create(http, "nowhere", "t", _schema())) == (404, "DATABASE", "nowhere")


def test_the_path_and_the_body_must_name_one_database(http: httpx.Client, sales: str) -> None:
    body = {"identifier": {"database": "other", "object": "t"}, "schema": _schema()}
    assert _error(http.post(f"{sales}/tables", json=body))[0] == 400


def test_a_schema_change_is_all_or_nothing(http: httpx.Client, orders: str) -> None:
    def alter(*changes: Mapping[str, object]) -> httpx.Response:
        return http.post(orders, json={"changes": list(changes)})

    add = {"action": "addColumn", "fieldNames": ["note"], "dataType": "STRING"}
    assert alter(add).json() == {}
    assert _error(alter(add)) == (409, "COLUMN", "note")
    missing = {"action": "dropColumn", "fieldNames": ["nothing"]}
    option = {"action": "setOption", "key": "snapshot.num-retained.min", "value": "3"}
    assert _error(alter(option, missing)) == (404, "COLUMN", "nothing")
    assert _error(alter({"action": "dropColumn", "fieldNames": ["dt"]}))[0] == 400
    assert _error(alter({"action": "explode"}))[0] == 501
    assert _error(alter({"action": "addColumn", "fieldNames": ["z"], "dataType": "??"}))[0] == 400
    assert _error(http.post(orders, json={"changes": "all"}))[0] == 400
    assert _error(http.post(orders, json={}))[0] == 400
    changed = http.get(orders).json()
    assert changed["schemaId"] == 1
    assert changed["schema"]["options"] == {"bucket": "2"}


def test_a_table_is_renamed_and_dropped(http: httpx.Client, orders: str, tmp_path: Path) -> None:
    def rename(source: str, destination: str) -> httpx.Response:
        body = {
            "source": {"database": "sales", "object": source},
            "destination": {"database": "sales", "object": destination},
        }
        return http.post("/v1/main/tables/rename", json=body)

    before = http.get(orders).json()
    assert rename("orders", "old").json() == {}
    assert _error(rename("orders", "older")) == (404, "TABLE", "sales.orders")
    assert _error(rename("old", "a/b"))[0] == 400
    after = http.get("/v1/main/databases/sales/tables/old").json()
    assert (after["id"], after["path"]) == (before["id"], before["path"])
    assert _create(http, "sales", "orders", _schema()).status_code == 200
    assert _error(rename("old", "orders")) == (409, "TABLE", "sales.orders")
    assert http.delete("/v1/main/databases/sales/tables/old").json() == {}
    assert not Path(before["path"].removeprefix("file://")).exists()


_ID = "x-headwater-table-id"


def test_a_request_with_a_table_id_reaches_no_other_table(
    http: httpx.Client, sales: str, orders: str, commit: Callable[..., httpx.Response]
) -> None:
    dropped = http.get(orders).json()["id"]
    assert http.delete(orders).status_code == 200
    assert _create(http, "sales", "orders", _schema()).status_code == 200
    assert commit(orders, 1).json() == {"success": True}
    present = http.get(orders).json()
    old, new = {_ID: dropped}, {_ID: present["id"]}
    plain = json.loads(commit(orders, 2).request.content) | {"tableId": None}
    rename = {
        "source": {"database": "sales", "object": "orders"},
        "destination": {"database": "sales", "object": "moved"},
    }
    protection = "/management/v1/warehouses/main/databases/sales/tables/orders/protection"
    for method, path, body in (
        ("GET", orders, None),
        ("GET", f"{orders}/snapshot", None),
        ("GET", f"{orders}/snapshots", None),
        ("POST", f"{orders}/commit", plain),
        ("POST", f"{orders}/tags", {"tagName": "v1"}),
        ("POST", f"{orders}/rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}),
        ("POST", orders, {"changes": [{"action": "setOption", "key": "a", "value": "b"}]}),
        ("POST", f"{orders}/read", {}),
        ("POST", "/v1/main/tables/rename", rename),
        ("GET", protection, None),
        ("DELETE", orders, None),
    ):
        answer = http.request(method, path, json=body, headers=old)
        assert _error(answer) == (404, "TABLE", "sales.orders"), (method, path)
        assert "was dropped, and there is another of its name now" in answer.json()["message"]
    assert http.get(orders, headers=new).json() == http.get(orders).json() == present
    assert http.get(f"{orders}/snapshot", headers=new).json()["snapshot"]["snapshot"]["id"] == 2
    assert http.post(f"{orders}/commit", json=plain, headers=new).json() == {"success": True}
    assert http.get(f"{orders}-none", headers=new).json()["message"] == (
        "table sales.orders-none does not exist"
    )


@pytest.mark.parametrize("table_id", ["", "a b", "a/b", "x" * 65, "\xe9"])
def test_a_malformed_table_id_is_rejected(http: httpx.Client, orders: str, table_id: str) -> None:
    headers = [(_ID.encode(), table_id.encode("latin-1"))]
    for path in (orders, f"{orders}/snapshot", f"{orders}/tags"):
        answer = http.get(path, headers=headers)
        assert _error(answer)[0] == 400
        assert _ID in answer.json()["message"]


@pytest.fixture
def many(catalog: SqlCatalog) -> SqlCatalog:
    """105 databases ``d000``…; 105 tables ``t000``… in the last one, one in each third other."""
    schema = Schema.from_json(json.loads(json.dumps(_schema())))
    for number in range(105):
        catalog.databases.create(f"d{number:03}")
        if number % 3 == 0 and number < 104:
            catalog.tables.create(Identifier(f"d{number:03}", "only"), schema)
    for number in range(105):
        catalog.tables.create(Identifier("d104", f"t{number:03}"), schema)
    return catalog


def _pages(http: httpx.Client, path: str, field: str, **params: str) -> list[list[object]]:
    pages: list[list[object]] = []
    token: str | None = None
    while True:
        asked = params if token is None else {**params, "pageToken": token}
        body = http.get(path, params=asked).json()
        pages.append(body[field])
        # Present on the last page, too: pypaimon fails without it.
        token = body["nextPageToken"]
        if token is None:
            return pages


def test_listings_come_in_pages(http: httpx.Client, many: SqlCatalog) -> None:
    names = [f"t{number:03}" for number in range(105)]
    tables = "/v1/main/databases/d104/tables"
    assert [len(page) for page in _pages(http, tables, "tables")] == [100, 5]
    assert [len(page) for page in _pages(http, tables, "tables", maxResults="1000")] == [100, 5]
    by_forty = _pages(http, tables, "tables", maxResults="40")
    assert [len(page) for page in by_forty] == [40, 40, 25]
    assert list(chain.from_iterable(by_forty)) == names
    some = _pages(http, tables, "tables", tableNamePattern="t00%", maxResults="4")
    assert some == [names[0:4], names[4:8], names[8:10]]
    assert _pages(http, tables, "tables", tableType="table")[0] == names[:100]
    assert len(_pages(http, tables, "tables", maxResults="0")[0]) == 100
    assert _pages(http, tables, "tables", tableType="format-table") == [[]]
    databases = _pages(http, "/v1/main/databases", "databases", databaseNamePattern="d10%")
    assert databases == [[f"d{number}" for number in range(100, 105)]]
    for wrong in ("-1", "many", "1.5"):
        assert _error(http.get(tables, params={"maxResults": wrong}))[0] == 400
    details = http.get("/v1/main/databases/d104/table-details", params={"maxResults": "2"}).json()
    assert [item["name"] for item in details["tableDetails"]] == ["t000", "t001"]
    assert details["tableDetails"][0]["schema"]["fields"][0]["name"] == "id"
    assert details["nextPageToken"] is not None


def test_tables_are_listed_over_all_databases(http: httpx.Client, many: SqlCatalog) -> None:
    everything = [
        {"database": f"d{number:03}", "object": "only"} for number in range(0, 104, 3)
    ] + [{"database": "d104", "object": f"t{number:03}"} for number in range(105)]
    for size in ("1000", "35", "34"):
        pages = _pages(http, "/v1/main/tables", "tables", maxResults=size)
        assert list(chain.from_iterable(pages)) == everything
        assert all(len(page) <= min(int(size), 100) for page in pages)
    some = _pages(
        http, "/v1/main/tables", "tables", databaseNamePattern="d00%", tableNamePattern="o%"
    )
    assert some == [everything[:4]]
    assert _error(http.get("/v1/main/tables", params={"pageToken": "nonsense"}))[0] == 400
