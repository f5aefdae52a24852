"""Permissions, as pypaimon sends and reads them."""

from __future__ import annotations

from typing import TypeAlias

import httpx
import pytest

Body: TypeAlias = dict[str, object]

PATH = "/v1/main/permissions"
ORDERS: Body = {"type": "TABLE", "database": "sales", "table": "orders"}
SELECT: Body = {"resource": ORDERS, "access": "SELECT", "principal": "ada"}


def _list(http: httpx.Client, **params: str) -> Body:
    answer = http.get(PATH, params=params)
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return body


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert body["message"]
    assert body["code"] == answer.status_code
    return answer.status_code, body["resourceType"], body["resourceName"]


def test_a_permission_is_granted_listed_and_revoked(http: httpx.Client, orders: str) -> None:
    assert http.post(f"{PATH}/grant", json=SELECT).json() == {}
    asked = {"resourceType": "TABLE", "database": "sales", "table": "orders"}
    # What is not there is left out, as Java leaves it out.
    assert _list(http, **asked) == {"permissions": [SELECT], "nextPageToken": None}
    assert http.post(f"{PATH}/revoke", json=SELECT).json() == {}
    assert _list(http, **asked) == {"permissions": [], "nextPageToken": None}


def test_names_of_types_and_accesses_are_taken_in_any_case(http: httpx.Client, orders: str) -> None:
    resource = {**ORDERS, "type": "table", "view": "", "function": None}
    grant = {"resource": resource, "access": "select", "principal": "ada"}
    assert http.post(f"{PATH}/grant", json=grant).status_code == 200
    asked = {"resourceType": "table", "database": "sales", "table": "orders", "access": "Select"}
    assert _list(http, **asked, principal="", view=" ")["permissions"] == [SELECT]
    assert http.post(f"{PATH}/revoke", json=grant).status_code == 200
    assert _list(http, **asked)["permissions"] == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2099-01-31T10:20:30Z", "2099-01-31T10:20:30Z"),
        ("2099-01-31t10:20:30.5z", "2099-01-31T10:20:30.500Z"),
        ("2099-01-31T10:20:30.123000000Z", "2099-01-31T10:20:30.123Z"),
    ],
)
def test_columns_and_an_end(http: httpx.Client, orders: str, given: str, kept: str) -> None:
    grant: Body = {
        "resource": {**ORDERS, "type": "COLUMN"},
        "access": "SELECT",
        "principal": "ada",
        "columns": {"columnNames": ["amount", "dt"]},
    }
    refused = http.post(f"{PATH}/grant", json=grant)
    assert _error(refused) == (409, "TABLE", "orders")
    asked = {"action": "setOption", "key": "query-auth.enabled", "value": "true"}
    assert http.post(orders, json={"changes": [asked]}).status_code == 200
    assert http.post(f"{PATH}/grant", json={**grant, "expireTime": given}).status_code == 200
    listed = _list(http, resourceType="COLUMN", database="sales", table="orders")
    assert listed["permissions"] == [{**grant, "expireTime": kept}]


@pytest.mark.parametrize(
    "change",
    [
        {"access": "CREATETABLE"},
        {"access": "EXPLODE"},
        {"access": None},
        {"principal": " "},
        {"principal": "x" * 129},
        {"resource": None},
        {"resource": {"type": "GALAXY"}},
        {"resource": {"type": "TABLE", "database": "sales"}},
        {"resource": {**ORDERS, "view": "v"}},
        {"columns": {"columnNames": ["amount"]}},
        {"expireTime": "tomorrow"},
        {"expireTime": "2099-02-30T00:00:00Z"},
        {"expireTime": "2099-01-01T00:00:00+01:00"},
        {"expireTime": "2099-01-01T00:00:00.0001Z"},
        {"expireTime": "2001-01-01T00:00:00Z"},
    ],
)
def test_a_wrong_grant_is_400(http: httpx.Client, orders: str, change: Body) -> None:
    assert _error(http.post(f"{PATH}/grant", json={**SELECT, **change})) == (400, None, None)
    listed = _list(http, resourceType="TABLE", database="sales", table="orders")
    assert listed["permissions"] == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"resourceType": "GALAXY"},
        {"resourceType": "TABLE", "database": "sales"},
        {"resourceType": "CATALOG", "database": "sales"},
        {"resourceType": "CATALOG", "access": "SELECT"},
        {"resourceType": "CATALOG", "pageToken": "nonsense"},
    ],
)
def test_a_wrong_list_is_400(http: httpx.Client, params: dict[str, str]) -> None:
    assert _error(http.get(PATH, params=params)) == (400, None, None)


def test_what_is_missing_is_404(http: httpx.Client, sales: str) -> None:
    assert _error(http.post(f"{PATH}/grant", json=SELECT)) == (404, "TABLE", "orders")
    assert _error(http.post(f"{PATH}/revoke", json=SELECT)) == (404, "TABLE", "orders")
    params = {"resourceType": "VIEW", "database": "sales", "view": "none"}
    assert _error(http.get(PATH, params=params)) == (404, "VIEW", "none")


def test_a_token_of_the_settings_asks_no_permission(http: httpx.Client, orders: str) -> None:
    assert http.post(f"{PATH}/grant", json=SELECT).status_code == 200
    assert http.get(orders).status_code == 200
    assert http.post(f"{orders}/auth", json={}).json() == {"filter": [], "columnMasking": {}}
