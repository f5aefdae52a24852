"""What holds for every request: bodies, paths, ids, and the shape of every error."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from tests import plain_http

from headwater.catalog.model.databases import DatabaseInfo
from headwater.catalog.sql import SqlCatalog
from headwater.server.logs import JsonLines
from headwater.server.request_log import ACCESS_LOGGER

Serve = Callable[..., str]


def _raw(address: str, request: bytes) -> tuple[int, bytes]:
    """Send bytes that no HTTP library would, and read the answer."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 80)) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def _is_error(answer: httpx.Response, code: int, resource_type: str | None) -> dict[str, object]:
    body: dict[str, object] = answer.json()
    assert answer.status_code == code
    assert answer.headers["content-type"] == "application/json"
    assert set(body) == {"message", "resourceType", "resourceName", "code"}
    assert body["code"] == code
    assert body["resourceType"] == resource_type
    return body


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "text/plain; charset=UTF-8", "application/x-www-form-urlencoded", "???"],
)
def test_a_body_is_json_whatever_its_content_type(
    http: httpx.Client, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    content = json.dumps({"name": "säles"}).encode()
    answer = http.post("/v1/main/databases", content=content, headers=headers)
    assert (answer.status_code, answer.json()) == (200, {})
    assert http.get("/v1/main/databases").json()["databases"] == ["säles"]


def test_a_malformed_body_names_the_place(http: httpx.Client) -> None:
    answer = http.post("/v1/main/databases", content=b'{"name": "sales",\n  "options": }')
    assert "line 2, column 14" in str(_is_error(answer, 400, None)["message"])
    assert http.get("/v1/main/databases").json()["databases"] == []


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b'"text"', "body"),
        (b"{}", "'name'"),
        (b'{"name": 7}', "'name'"),
        (b'{"name": "x", "options": []}', "'options'"),
        (b'{"name": "x", "options": {"a": 1}}', "'options.a'"),
        (b'\xff\xfe{"name": "x"}', "body"),
        (b"[" * 100_000, "body"),
    ],
)
def test_a_wrong_body_is_told_by_field(http: httpx.Client, content: bytes, names: str) -> None:
    answer = http.post("/v1/main/databases", content=content)
    assert names in str(_is_error(answer, 400, None)["message"])


def test_unknown_fields_are_ignored(http: httpx.Client) -> None:
    body = {"name": "sales", "options": None, "fieldOfTomorrow": {"a": 1}}
    assert http.post("/v1/main/databases", json=body).status_code == 200


def test_a_request_id_is_given_or_made(http: httpx.Client) -> None:
    given = http.get("/v1/config", headers={"x-request-id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    made = {http.get("/v1/config").headers["x-request-id"] for _ in range(2)}
    assert len(made) == 2
    odd = http.get("/v1/config", headers={"x-request-id": "a b\tc"})
    assert odd.headers["x-request-id"] != "a b\tc"
    refused = http.get("/v1/config", headers={"authorization": "", "x-request-id": "mine-2"})
    assert refused.headers["x-request-id"] == "mine-2"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/config", 404),
        ("GET", "/v1/main/databases/", 404),
        ("GET", "/v1/main/nonsense", 404),
        ("PUT", "/v1/main/databases", 405),
        ("PATCH", "/v1/main/databases/sales", 405),
        ("DELETE", "/v1/config", 405),
    ],
)
def test_a_route_that_is_not_there_is_a_json_error(
    http: httpx.Client, method: str, path: str, code: int
) -> None:
    body = _is_error(http.request(method, path), code, None)
    assert method in str(body["message"])
    assert path in str(body["message"])


def test_a_warehouse_that_is_not_served_is_no_404(http: httpx.Client) -> None:
    # Java takes a 404 about neither a table nor a column for a successful alteration.
    path = "/v1/other/databases/sales/tables/orders"
    body = _is_error(http.post(path, json={"changes": []}), 400, None)
    assert "'main'" in str(body["message"])


@pytest.mark.parametrize(
    ("name", "java", "python"),
    [
        ("with space", "with+space", "with%20space"),
        ("a+b", "a%2Bb", "a%2Bb"),
        ("50%", "50%25", "50%25"),
        ("ünïcode", "%C3%BCn%C3%AFcode", "%C3%BCn%C3%AFcode"),
        ("q?a=1&b#c", "q%3Fa%3D1%26b%23c", "q%3Fa%3D1%26b%23c"),
        ("%2F", "%252F", "%252F"),
    ],
)
def test_names_in_paths_are_form_encoded(
    http: httpx.Client,
    address: str,
    sales: str,
    schema: dict[str, object],
    name: str,
    java: str,
    python: str,
) -> None:
    body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
    assert http.post(f"{sales}/tables", json=body).status_code == 200
    authorization = http.headers["authorization"]
    for encoded in (java, python):
        status, answer = _raw(
            address,
            f"GET {sales}/tables/{encoded} HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: {authorization}\r\nconnection: close\r\n\r\n".encode(),
        )
        assert status == 200
        assert json.loads(answer)["name"] == name


def test_an_escaped_slash_is_part_of_a_name(http: httpx.Client, orders: str) -> None:
    # Decoded before routing, this would ask for the tags of a table.
    body = _is_error(http.get("/v1/main/databases/sales/tables/orders%2Ftags"), 404, "TABLE")
    assert "sales.orders/tags" in str(body["message"])
    tag = _is_error(http.get(f"{orders}/tags/a%2Fb"), 404, "TAG")
    assert tag["resourceName"] == "a/b"


def test_a_branch_is_part_of_a_name(http: httpx.Client, orders: str) -> None:
    body = _is_error(http.get(f"{orders}%24branch_dev"), 404, "TABLE")
    assert "sales.orders$branch_dev" in str(body["message"])


def test_a_name_that_is_no_text_is_refused(http: httpx.Client) -> None:
    answer = http.get("/v1/main/databases/%FF%FE")
    assert "'database'" in str(_is_error(answer, 400, None)["message"])


class _Broken:
    """As much of a catalog as shows a bug in one."""

    warehouse = "main"

    @property
    def databases(self) -> _Broken:
        return self

    def get(self, name: str) -> DatabaseInfo:
        raise RuntimeError(f"the password of {name}")


def test_an_unforeseen_error_names_the_request_and_hides_the_rest(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    address = serve({"main": _Broken()})
    with plain_http.Client(base_url=address) as client:
        headers = {"x-request-id": "seek-me"}
        answer = client.get("/v1/main/databases/sales", headers=headers)
    body = _is_error(answer, 500, None)
    assert "seek-me" in str(body["message"])
    assert "password" not in answer.text
    assert answer.headers["x-request-id"] == "seek-me"
    assert "the password of sales" in caplog.text


def test_every_request_is_one_line_of_json(
    http: httpx.Client, orders: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        http.get(f"{orders}%24x?maxResults=1", headers={"x-request-id": "mine"})
        http.get("/healthz")  # on the same connection: the line before it is written by now
    record = next(record for record in caplog.records if record.name == ACCESS_LOGGER)
    line = json.loads(JsonLines().format(record))
    assert line["request_id"] == "mine"
    assert (line["method"], line["path"], line["status"]) == ("GET", f"{orders}%24x", 404)
    assert line["client"] == "127.0.0.1"
    assert "a-token" not in JsonLines().format(record)


def test_health_needs_no_token(address: str) -> None:
    answer = plain_http.get(f"{address}/healthz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_config_resolves_the_warehouse(
    http: httpx.Client, catalog: SqlCatalog, serve: Serve
) -> None:
    for query in ("", "?warehouse=", "?warehouse=main"):
        config = http.get(f"/v1/config{query}").json()
        assert config == {"defaults": {}, "overrides": {"prefix": "main"}}
    unknown = http.get("/v1/config?warehouse=other")
    assert "'main'" in str(_is_error(unknown, 404, None)["message"])
    two = serve({"a b": catalog, "main": catalog}, client_options={"s3.endpoint": "http://s3"})
    for encoded in ("a+b", "a%20b", "a%2520b", "a%252Bb"):  # encoded once, and twice
        answer = plain_http.get(f"{two}/v1/config?warehouse={encoded}")
        assert answer.json()["overrides"] == {"prefix": "a b"}
        assert answer.json()["defaults"] == {"s3.endpoint": "http://s3"}
    assert plain_http.get(f"{two}/v1/config").status_code == 400


DIGITS = "9" * 5000


@pytest.mark.parametrize("host", ["[", "[::1", "[a]", "a[b]:80"])
@pytest.mark.parametrize("tokens", [[], ["a-token"]])
def test_a_host_that_is_none_is_refused(
    catalog: SqlCatalog, serve: Serve, host: str, tokens: list[str]
) -> None:
    address = serve(catalog, tokens=tokens)
    # The last two are what the fast lane takes otherwise.
    for path in (
        "/v1/config",
        "/nothing",
        "/v1/main/databases/sales/tables/orders",
        "/v1/main/databases/sales/tables/orders/snapshot",
    ):
        status, body = _raw(
            address,
            f"GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer a-token\r\n"
            "connection: close\r\n\r\n".encode(),
        )
        assert status == 400
        told = json.loads(body)
        assert told["code"] == 400
        assert host in told["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/main/databases?maxResults={}",
        "{orders}/snapshots?pageToken={}",
        "{orders}/snapshots?maxResults={}",
        "{orders}/snapshots/{}",
        "{orders}/tags?maxResults={}",
    ],
)
def test_a_number_of_thousands_of_digits_is_refused(
    http: httpx.Client, orders: str, path: str
) -> None:
    body = _is_error(http.get(path.replace("{orders}", orders).format(DIGITS)), 400, None)
    assert len(str(body["message"])) < 200


@pytest.mark.parametrize("number", [DIGITS, "9" * 4000, str(2**63), "-1"])
def test_a_commit_with_a_number_beyond_all_limits_is_refused(
    http: httpx.Client, orders: str, snapshot: Callable[..., dict[str, object]], number: str
) -> None:
    text = json.dumps({"snapshot": snapshot(1, timeMillis=123454321), "baseSnapshotUuid": None})
    for field in ('"timeMillis": 123454321', '"id": 1', '"schemaId": 0'):
        content = text.replace(field, f"{field.partition(':')[0]}: {number}").encode()
        for way in ("", "?way=ordinary"):
            answer = http.post(f"{orders}/commit{way}", content=content)
            # A conflict, or a time that another clock told; then the uuid stands for that one.
            if answer.status_code in (200, 409):
                continue
            body = _is_error(answer, 400, None)
            assert not {"SQL", "INSERT", "sqlite"} & set(str(body["message"]).split())


@pytest.mark.parametrize(
    "content",
    [
        b'{"name": "x", "options": {"a": "\\ud800"}}',
        b'{"name": "x", "options": {"\\uDfff": "a"}}',
        b'{"name": "x", "options": {"a": "\\ude00\\ud83d"}}',
        b'{"name": "x", "options": {"a": "\xed\xa0\x80"}}',
        b'{"name": "x", "of tomorrow": ["\\ud800"]}',
        b'{"name": "x"}\xff',
        '{"name": "x"}'.encode("utf-16"),
    ],
)
def test_a_body_that_is_no_text_is_refused(http: httpx.Client, content: bytes) -> None:
    for path in ("/v1/main/databases", "/v1/main/databases/x/tables"):
        answer = http.post(path, content=content)
        assert "the request body" in str(_is_error(answer, 400, None)["message"])
    _is_error(http.post("/v1/main/nothing", content=content), 404, None)
    assert http.get("/v1/main/databases").json()["databases"] == []


def test_escapes_that_look_like_halves_are_taken(http: httpx.Client) -> None:
    content = b'{"name": "x", "options": {"a": "\\\\ud800", "b": "\\ud83d\\ude00"}}'
    assert http.post("/v1/main/databases", content=content).status_code == 200
    options = http.get("/v1/main/databases/x").json()["options"]
    assert options == {"a": "\\ud800", "b": "😀"}
