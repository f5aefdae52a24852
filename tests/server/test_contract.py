"""No operation of the API, or of a client, meets the framework's own 404."""

from __future__ import annotations

import httpx
import pytest

P = "/v1/{prefix}"
D = P + "/databases/{database}"
T = D + "/tables/{table}"

# Of `rest-catalog-open-api.yaml`.
SPECIFIED = (
    ("GET", "/v1/config"),
    ("GET POST", P + "/databases"),
    ("GET POST DELETE", D),
    ("POST", D + "/register"),
    ("GET POST", D + "/tables"),
    ("GET", D + "/table-details"),
    ("GET", P + "/tables"),
    ("GET", P + "/tables/id/{tableId}"),
    ("GET POST DELETE", T),
    ("POST", P + "/tables/rename"),
    ("POST", T + "/commit"),
    ("POST", T + "/rollback"),
    ("POST", T + "/rollback-schema"),
    ("GET", T + "/token"),
    ("POST", T + "/auth"),
    ("GET", T + "/snapshot"),
    ("GET", T + "/snapshots/{version}"),
    ("GET", T + "/snapshots"),
    ("GET POST", T + "/partitions"),
    ("POST", T + "/partitions/drop"),
    ("POST", T + "/partitions/mark"),
    ("POST", T + "/partitions/list-by-names"),
    ("POST", T + "/partitions/list-by-filter"),
    ("GET POST", T + "/branches"),
    ("DELETE", T + "/branches/{branch}"),
    ("POST", T + "/branches/{branch}/rename"),
    ("POST", T + "/branches/{branch}/forward"),
    ("GET POST", T + "/tags"),
    ("GET DELETE", T + "/tags/{tag}"),
    ("GET", T + "/consumers"),
    ("POST", T + "/consumers/reset"),
    ("GET POST", D + "/views"),
    ("GET", D + "/view-details"),
    ("GET", P + "/views"),
    ("GET POST DELETE", D + "/views/{view}"),
    ("POST", P + "/views/rename"),
    ("GET POST", D + "/functions"),
    ("GET", D + "/function-details"),
    ("GET", P + "/functions"),
    ("GET POST DELETE", D + "/functions/{function}"),
)
# What clients call beyond it.
UNSPECIFIED = (
    ("POST", T + "/replace"),
    ("GET", P + "/permissions"),
    ("POST", P + "/permissions/grant"),
    ("POST", P + "/permissions/revoke"),
    ("GET", P + "/labels/TABLE/sales.orders"),
    ("GET POST DELETE", P + "/labels/TABLE/sales.orders/domain"),
)
OPERATIONS = [
    f"{method} {path}" for methods, path in SPECIFIED + UNSPECIFIED for method in methods.split()
]

KINDS = {None, "DATABASE", "TABLE", "SNAPSHOT", "TAG", "BRANCH", "VIEW", "FUNCTION",
         "LABEL"}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_known(http: httpx.Client, sales: str, orders: str, operation: str) -> None:
    method, template = operation.split()
    path = template.format(
        prefix="main", database="sales", table="orders", tableId="an-id", version="1", branch="b",
        tag="t", view="v", function="f",
    )  # fmt: skip
    answer = http.request(method, path, content="{}" if method == "POST" else None)
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    if answer.status_code == 200:
        assert isinstance(body, dict)
    else:
        # Never 404 or 405 for want of a route: those are about nothing in particular.
        assert answer.status_code in (400, 404, 501)
        assert answer.status_code != 404 or body["resourceType"] is not None
        assert body["resourceType"] in KINDS
        assert body["code"] == answer.status_code


@pytest.mark.parametrize(
    "operation",
    [item for item in OPERATIONS if "/token" in item],
)
def test_what_is_not_done_is_501(http: httpx.Client, orders: str, operation: str) -> None:
    method, template = operation.split()
    path = template.format(prefix="main", database="sales", table="orders")
    answer = http.request(method, path, content=b"not even json")
    assert (answer.status_code, answer.json()["code"]) == (501, 501)
    assert answer.json()["message"]


def test_what_cannot_exist_is_listed_as_nothing(http: httpx.Client, orders: str) -> None:
    database = "/v1/main/databases/sales"
    for path, field in (
        (f"{database}/views", "views"),
        (f"{database}/view-details", "viewDetails"),
        ("/v1/main/views", "views"),
        (f"{database}/functions", "functions"),
        (f"{database}/function-details", "functionDetails"),
        ("/v1/main/functions", "functions"),
    ):
        assert http.get(path).json() == {field: [], "nextPageToken": None}
    assert http.get(f"{orders}/branches").json() == {"branches": []}
    # Engines look for a view when a table is not found, and for a function before calling it.
    for kind, name in (("VIEW", "views"), ("FUNCTION", "functions")):
        body = http.get(f"{database}/{name}/nothing").json()
        assert (body["code"], body["resourceType"], body["resourceName"]) == (404, kind, "nothing")
