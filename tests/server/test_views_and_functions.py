"""Views and functions, as the clients of the API send and expect them."""

from __future__ import annotations

from typing import TypeAlias

import httpx
import pytest

Body: TypeAlias = dict[str, object]

VIEW: Body = {
    "fields": [
        {"id": 0, "name": "order_id", "type": "BIGINT NOT NULL", "description": "a number"},
        {"id": 1, "name": "doc", "type": "VARIANT"},
    ],
    "query": "SELECT * FROM orders",
    "dialects": {"spark": "SELECT 1"},
    "comment": "what we sold",
    "options": {"team": "billing"},
}
FUNCTION: Body = {
    "name": "area",
    "inputParams": [{"id": 0, "name": "length", "type": "DOUBLE"}],
    "returnParams": [{"id": 0, "name": "area", "type": "DOUBLE"}],
    "deterministic": True,
    "definitions": {
        "flink": {
            "type": "file",
            "fileResources": [{"resourceType": "jar", "uri": "/a/b/c.jar"}],
            "language": "java",
            "className": "Area",
            "functionName": "eval",
        },
        "spark": {"type": "lambda", "definition": "(l) -> l", "language": "java"},
        "trino": {"type": "sql", "definition": "length * length"},
    },
    "comment": "of a square",
    "options": {},
}


@pytest.fixture
def view(http: httpx.Client, sales: str) -> str:
    """The path of a view ``sales.recent``."""
    body = {"identifier": {"database": "sales", "object": "recent"}, "schema": VIEW}
    assert http.post(f"{sales}/views", json=body).json() == {}
    return f"{sales}/views/recent"


@pytest.fixture
def function(http: httpx.Client, sales: str) -> str:
    """The path of a function ``sales.area``."""
    assert http.post(f"{sales}/functions", json=FUNCTION).json() == {}
    return f"{sales}/functions/area"


def _error(answer: httpx.Response) -> tuple[int, object, object]:
    body = answer.json()
    assert body["message"]
    assert body["code"] == answer.status_code
    return answer.status_code, body["resourceType"], body["resourceName"]


def test_a_view_as_java_reads_it(http: httpx.Client, view: str) -> None:
    body = http.get(view).json()
    assert body.pop("id")
    assert body.pop("createdAt") == body.pop("updatedAt") > 0
    # No null in a field: Java would read a description "null".
    assert body.pop("schema") == VIEW
    # Java puts these into the options, where a null does harm.
    assert isinstance(body.pop("owner"), str)
    assert isinstance(body.pop("createdBy"), str)
    assert isinstance(body.pop("updatedBy"), str)
    assert body == {"name": "recent"}


def test_a_views_maps_are_never_null(http: httpx.Client, sales: str) -> None:
    schema: Body = {"fields": [], "query": "SELECT 1", "dialects": None, "options": None}
    body = {"identifier": {"database": "sales", "object": "bare"}, "schema": schema}
    assert http.post(f"{sales}/views", json=body).status_code == 200
    found = http.get(f"{sales}/views/bare").json()["schema"]
    assert (found["dialects"], found["options"], found["comment"]) == ({}, {}, None)


def test_a_function_as_clients_read_it(http: httpx.Client, function: str) -> None:
    body = http.get(function).json()
    assert body.pop("uuid")
    assert body.pop("createdAt") == body.pop("updatedAt") > 0
    for name in ("owner", "createdBy", "updatedBy"):
        assert isinstance(body.pop(name), str)
    assert body == FUNCTION


def test_every_change_of_a_view(http: httpx.Client, view: str) -> None:
    changes = [
        {"action": "setOption", "key": "tier", "value": "1"},
        {"action": "removeOption", "key": "team"},
        {"action": "updateComment", "comment": None},
        {"action": "addDialect", "dialect": "flink", "query": "SELECT 2"},
        {"action": "updateDialect", "dialect": "flink", "query": "SELECT 3"},
        {"action": "dropDialect", "dialect": "spark"},
    ]
    assert http.post(view, json={"changes": changes}).json() == {}
    found = http.get(view).json()["schema"]
    assert found == {
        **VIEW,
        "dialects": {"flink": "SELECT 3"},
        "comment": None,
        "options": {"tier": "1"},
    }


def test_every_change_of_a_function(http: httpx.Client, function: str) -> None:
    sql = {"type": "sql", "definition": "1"}
    changes = [
        {"action": "setOption", "key": "tier", "value": "1"},
        {"action": "removeOption", "key": "team"},
        {"action": "updateComment", "comment": None},
        {"action": "addDefinition", "name": "duckdb", "definition": sql},
        {"action": "updateDefinition", "name": "trino", "definition": sql},
        {"action": "dropDefinition", "name": "spark"},
        {"action": "dropDefinition", "name": "flink"},
    ]
    assert http.post(function, json={"changes": changes}).json() == {}
    found = http.get(function).json()
    assert found["definitions"] == {"duckdb": sql, "trino": sql}
    assert (found["comment"], found["options"]) == (None, {"tier": "1"})


def test_errors_say_what_they_are_about(
    http: httpx.Client, sales: str, view: str, function: str
) -> None:
    identifier = {"database": "sales", "object": "recent"}
    again = http.post(f"{sales}/views", json={"identifier": identifier, "schema": VIEW})
    assert _error(again) == (409, "VIEW", "recent")
    assert _error(http.post(f"{sales}/functions", json=FUNCTION)) == (409, "FUNCTION", "area")
    assert _error(http.get(f"{sales}/views/none")) == (404, "VIEW", "none")
    assert _error(http.delete(f"{sales}/functions/none")) == (404, "FUNCTION", "none")
    for change, status in (
        ({"action": "addDialect", "dialect": "spark", "query": "SELECT 1"}, 409),
        ({"action": "updateDialect", "dialect": "flink", "query": "SELECT 1"}, 404),
        ({"action": "dropDialect", "dialect": "flink"}, 404),
    ):
        answer = http.post(view, json={"changes": [change]})
        assert _error(answer) == (status, "DIALECT", change["dialect"])
    definition_changes: tuple[tuple[Body, int], ...] = (
        ({"action": "addDefinition", "name": "trino", "definition": _SQL}, 409),
        ({"action": "updateDefinition", "name": "duckdb", "definition": _SQL}, 404),
        ({"action": "dropDefinition", "name": "duckdb"}, 404),
    )
    for definition_change, status in definition_changes:
        answer = http.post(function, json={"changes": [definition_change]})
        assert _error(answer) == (status, "DEFINITION", definition_change["name"])
    rename = {"source": identifier, "destination": {"database": "none", "object": "recent"}}
    assert _error(http.post("/v1/main/views/rename", json=rename)) == (404, "DATABASE", "none")


_SQL = {"type": "sql", "definition": "1"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"identifier": {"database": "other", "object": "v"}, "schema": VIEW},
        {"identifier": {"database": "sales", "object": "a/b"}, "schema": VIEW},
        {"identifier": {"database": "sales", "object": "v"}, "schema": {"query": "SELECT 1"}},
        {
            "identifier": {"database": "sales", "object": "v"},
            "schema": {"fields": [{"id": 0, "name": "x", "type": "NUMBERS"}], "query": ""},
        },
    ],
)
def test_a_wrong_view_is_400(http: httpx.Client, sales: str, body: Body) -> None:
    assert _error(http.post(f"{sales}/views", json=body)) == (400, None, None)
    assert http.get(f"{sales}/views").json() == {"views": [], "nextPageToken": None}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"action": "explode"},
        {"action": "addDialect", "dialect": "spark"},
        {"action": "addDefinition", "name": "x", "definition": {"type": "magic"}},
    ],
)
def test_a_wrong_change_is_400(http: httpx.Client, view: str, function: str, change: Body) -> None:
    for path in (view, function):
        assert _error(http.post(path, json={"changes": [change]})) == (400, None, None)


def test_names_are_form_encoded(http: httpx.Client, sales: str) -> None:
    body = {"identifier": {"database": "sales", "object": "last year+"}, "schema": VIEW}
    assert http.post(f"{sales}/views", json=body).status_code == 200
    assert http.get(f"{sales}/views/last+year%2B").json()["name"] == "last year+"


def test_lists(http: httpx.Client, sales: str, view: str, function: str) -> None:
    assert http.get(f"{sales}/views").json() == {"views": ["recent"], "nextPageToken": None}
    assert http.get(f"{sales}/functions").json() == {"functions": ["area"], "nextPageToken": None}
    assert http.get(f"{sales}/view-details").json() == {
        "viewDetails": [http.get(view).json()],
        "nextPageToken": None,
    }
    assert http.get(f"{sales}/function-details").json() == {
        "functionDetails": [http.get(function).json()],
        "nextPageToken": None,
    }
    for path, field, name in (("views", "views", "recent"), ("functions", "functions", "area")):
        listed = http.get(f"/v1/main/{path}").json()
        assert listed == {field: [{"database": "sales", "object": name}], "nextPageToken": None}
        narrowed = http.get(
            f"/v1/main/{path}", params={"databaseNamePattern": "s%", "viewNamePattern": "x%",
                                        "functionNamePattern": "x%"},
        )  # fmt: skip
        assert narrowed.json()[field] == []
    assert _error(http.get("/v1/main/databases/none/views")) == (404, "DATABASE", "none")


def test_a_page_may_begin_after_any_name(http: httpx.Client, sales: str) -> None:
    # pypaimon's own tests ask for the page after a full name that they made up themselves.
    for name in ("a.1", "b"):
        assert http.post(f"{sales}/functions", json={**FUNCTION, "name": name}).status_code == 200
    first = http.get("/v1/main/functions", params={"maxResults": 1}).json()
    assert first["nextPageToken"] == "sales.a.1"
    after = http.get("/v1/main/functions", params={"pageToken": "sales.a.1"}).json()
    assert after == {"functions": [{"database": "sales", "object": "b"}], "nextPageToken": None}
