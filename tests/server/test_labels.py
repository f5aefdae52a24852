"""Labels, in the requests that Paimon's Java client sends (``RESTApi.java``, pull request 9838)."""

from __future__ import annotations

from typing import TypeAlias

import httpx
import pytest

Body: TypeAlias = dict[str, object]

PATH = "/v1/main/labels"
DOMAIN: Body = {
    "entityType": "TABLE",
    "entityName": "sales.orders",
    "key": "domain",
    "value": "sales",
}


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert body["message"]
    assert body["code"] == answer.status_code
    return answer.status_code, body["resourceType"], body["resourceName"]


def test_a_label_is_set_read_listed_and_deleted(http: httpx.Client, orders: str) -> None:
    path = f"{PATH}/TABLE/sales.orders"
    assert http.get(path).json() == {"labels": [], "nextPageToken": None}
    for value in ("finance", "sales", "sales"):
        assert http.post(f"{path}/domain", json={"value": value}).status_code == 200
    assert http.get(f"{path}/domain").json() == DOMAIN
    assert http.get(path).json() == {"labels": [DOMAIN], "nextPageToken": None}
    for _ in range(2):
        assert http.delete(f"{path}/domain").status_code == 200
    assert _error(http.get(f"{path}/domain")) == (404, "LABEL", "domain")


def test_names_and_keys_are_single_segments_as_java_encodes_them(
    http: httpx.Client, orders: str
) -> None:
    encoded = {"a%2Fb%2B%25+%3F%23": "a/b+% ?#", "%2E%2E": "..", "%E5%8D%8E": "华"}
    for segment, key in encoded.items():
        path = f"{PATH}/TABLE/sales.orders/{segment}"
        assert http.post(path, json={"value": "v"}).status_code == 200
        assert http.get(path).json()["key"] == key
    listed = http.get(f"{PATH}/table/sales%2Eorders").json()["labels"]
    assert sorted(label["key"] for label in listed) == sorted(encoded.values())
    assert {(label["entityType"], label["entityName"]) for label in listed} == {
        ("TABLE", "sales.orders")
    }


def test_pages_end_without_a_token(http: httpx.Client, orders: str) -> None:
    path = f"{PATH}/DATABASE/sales"
    for key in ("a", "next +/%?&"):
        segment = str(httpx.QueryParams({"": key}))[1:]
        assert http.post(f"{path}/{segment}", json={"value": ""}).status_code == 200
    first = http.get(path, params={"maxResults": "1"}).json()
    assert [label["key"] for label in first["labels"]] == ["a"]
    following = {"maxResults": "1000", "pageToken": first["nextPageToken"]}
    last = http.get(path, params=following).json()
    assert [label["key"] for label in last["labels"]] == ["next +/%?&"]
    assert last["nextPageToken"] is None
    end = http.get(path, params={"pageToken": "z"}).json()
    assert end == {"labels": [], "nextPageToken": None}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "MODEL_VERSION/sales.orders", None),
        ("GET", "COLUMN/sales.orders.id/k", None),
        ("GET", "CATALOG/main", None),
        ("GET", "TABLE/orders", None),
        ("GET", "DATABASE/sales.orders", None),
        ("GET", "TABLE/+/k", None),
        ("GET", "TABLE/sales.orders/+", None),
        ("POST", "TABLE/sales.orders/k", {}),
        ("POST", "TABLE/sales.orders/k", {"value": None}),
        ("POST", "TABLE/sales.orders/k", {"value": 7}),
        ("POST", "TABLE/sales.orders/k", {"value": "x" * 4097}),
        ("POST", f"TABLE/sales.orders/{'k' * 256}", {"value": ""}),
        ("POST", "TABLE/sales.orders/%00", {"value": ""}),
        ("POST", "TABLE/sales.orders/%FF", {"value": ""}),
        ("DELETE", "GALAXY/sales.orders/k", None),
    ],
)
def test_what_is_wrong_is_400(
    http: httpx.Client, orders: str, method: str, path: str, body: Body | None
) -> None:
    answer = http.request(method, f"{PATH}/{path}", json=body)
    assert _error(answer) == (400, None, None), answer.text
    assert http.get(f"{PATH}/TABLE/sales.orders").json()["labels"] == []


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("GET", "TABLE/sales.none", ("TABLE", "none")),
        ("POST", "TABLE/sales.none/k", ("TABLE", "none")),
        ("DELETE", "TABLE/sales.none/k", ("TABLE", "none")),
        ("GET", "DATABASE/none/k", ("DATABASE", "none")),
        ("POST", "VIEW/sales.orders/k", ("VIEW", "orders")),
        ("DELETE", "FUNCTION/none.f/k", ("FUNCTION", "f")),
    ],
)
def test_a_missing_entity_is_404(
    http: httpx.Client, orders: str, method: str, path: str, error: tuple[str, str]
) -> None:
    body = {"value": "v"} if method == "POST" else None
    assert _error(http.request(method, f"{PATH}/{path}", json=body)) == (404, *error)
