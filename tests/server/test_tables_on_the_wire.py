"""Registering, replacing and listing tables as Paimon's clients send and read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from headwater.catalog.model.identifier import Identifier
from headwater.client import connect

MAIN = "/v1/main"


def _create(http: httpx.Client, sales: str, name: str, schema: dict[str, Any]) -> None:
    body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
    answer = http.post(f"{sales}/tables", json=body)
    assert (answer.status_code, answer.json()) == (200, {})


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert answer.status_code == body["code"]
    return body["code"], body["resourceType"], body["resourceName"]


def test_a_table_is_found_by_its_id(http: httpx.Client, orders: str) -> None:
    found = http.get(orders).json()
    assert http.get(f"{MAIN}/tables/id/{found['id']}").json() == found
    assert (found["database"], found["name"]) == ("sales", "orders")
    assert _error(http.get(f"{MAIN}/tables/id/some%2Fid+")) == (404, "TABLE", "some/id ")


def test_a_table_is_replaced(
    http: httpx.Client, orders: str, sales: str, schema: dict[str, Any]
) -> None:
    before = http.get(orders).json()
    # Java sends what it knows of the table back: its path is among the options.
    options = {"bucket": "4", "path": before["path"]}
    fields = [*schema["fields"], {"id": 3, "name": "note", "type": "STRING"}]
    body = {"schema": {**schema, "fields": fields, "options": options}}
    answer = http.post(f"{orders}/replace", json=body)
    assert (answer.status_code, answer.json()) == (200, {})
    after = http.get(orders).json()
    assert (after["id"], after["path"]) == (before["id"], before["path"])
    assert after["schemaId"] == 1
    assert after["schema"]["options"] == {"bucket": "4"}
    assert [field["name"] for field in after["schema"]["fields"]][-1] == "note"
    assert _error(http.get(f"{orders}/snapshot"))[:2] == (404, "SNAPSHOT")
    assert _error(http.post(f"{sales}/tables/none/replace", json=body))[:2] == (404, "TABLE")
    # "partition keys" stands in the message that Java's own tests look for.
    unpartitioned = {"schema": {**schema, "partitionKeys": [], "primaryKeys": ["order_id"]}}
    refused = http.post(f"{orders}/replace", json=unpartitioned)
    assert _error(refused) == (501, None, None)
    assert "partition keys" in refused.json()["message"]
    malformed: object
    for malformed in ({}, {"schema": None}, {"schema": {"fields": []}}):
        assert http.post(f"{orders}/replace", json=malformed).status_code == 400
    assert http.get(orders).json() == after


def test_a_table_is_registered(http: httpx.Client, sales: str, tmp_path: Path) -> None:
    with connect(tmp_path / "other") as lake:
        lake.create_database("theirs")
        lake.create_table("theirs.t", schema=pa.schema([("id", pa.int64())])).write(
            pa.table({"id": [1, 2]})
        )
        path = lake.catalog.tables.get(Identifier("theirs", "t")).path
    body = {"identifier": {"database": "sales", "object": "t"}, "path": path}
    # Java's older clients say that it is text.
    answer = http.post(
        f"{sales}/register", content=httpx.Request("POST", "http://x", json=body).content,
        headers={"content-type": "text/plain"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()) == (200, {})
    found = http.get(f"{sales}/tables/t").json()
    assert (found["isExternal"], found["path"], found["schemaId"]) == (True, path, 0)
    assert _error(http.post(f"{sales}/register", json=body)) == (409, "TABLE", "sales.t")
    elsewhere = {**body, "identifier": {"database": "none", "object": "t"}}
    assert _error(http.post(f"{MAIN}/databases/none/register", json=elsewhere)) == (
        404,
        "DATABASE",
        "none",
    )
    for wrong in ({}, {**body, "path": None}, {**body, "path": "x"}, elsewhere):
        assert http.post(f"{sales}/register", json=wrong).status_code == 400


def test_an_object_table_is_made_without_columns(http: httpx.Client, sales: str) -> None:
    schema: dict[str, Any] = {
        "fields": [],
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {"type": "object-table", "custom-key": "custom-value"},
        "comment": None,
    }
    _create(http, sales, "files", schema)
    found = http.get(f"{sales}/tables/files").json()
    assert found["schema"]["options"] == {"type": "object-table", "custom-key": "custom-value"}
    assert [field["name"] for field in found["schema"]["fields"]][:2] == ["path", "name"]
    assert _error(http.get(f"{sales}/tables/files/snapshot")) == (501, "TABLE", "sales.files")
    listed = http.get(f"{sales}/tables", params={"tableType": "object-table"}).json()
    assert listed == {"tables": ["files"], "nextPageToken": None}
    details = http.get(f"{sales}/table-details", params={"tableType": "object-table"}).json()
    assert details == {"tableDetails": [found], "nextPageToken": None}


def test_tables_of_all_databases_come_by_pages(
    http: httpx.Client, sales: str, schema: dict[str, Any]
) -> None:
    for name in ("b", "a%", "a b"):
        _create(http, sales, name, schema)
    first = http.get(f"{MAIN}/tables", params={"maxResults": "2"}).json()
    assert first["tables"] == [
        {"database": "sales", "object": "a b"},
        {"database": "sales", "object": "a%"},
    ]
    after = {"maxResults": "2", "pageToken": first["nextPageToken"]}
    assert http.get(f"{MAIN}/tables", params=after).json() == {
        "tables": [{"database": "sales", "object": "b"}],
        "nextPageToken": None,
    }
    literal = {"databaseNamePattern": "s%", "tableNamePattern": "a\\%"}
    assert http.get(f"{MAIN}/tables", params=literal).json()["tables"] == [
        {"database": "sales", "object": "a%"}
    ]
    assert _error(http.get(f"{MAIN}/tables", params={"pageToken": "?"}))[0] == 400
