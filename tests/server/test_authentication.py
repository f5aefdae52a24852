"""Who is let in."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from tests import plain_http

from headwater.catalog.sql import SqlCatalog

Serve = Callable[..., str]


def _get(address: str, **headers: str) -> httpx.Response:
    return plain_http.get(f"{address}/v1/main/databases", headers=headers)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer wrong",
        "Bearer a-token-and-more",
        "Bearer a-toke",
        "Basic a-token",
        "a-token",
        "Bearer \xe4",
    ],
)
def test_a_wrong_token_is_401(address: str, authorization: str) -> None:
    headers = {b"authorization": authorization.strip().encode("latin-1")}
    for path in ("/v1/config", "/v1/main/databases", "/v1/nothing", "/"):
        answer = plain_http.get(address + path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        body = answer.json()
        assert (body["code"], body["resourceType"], body["resourceName"]) == (401, None, None)
        assert "token" in body["message"]


def test_nothing_is_done_without_a_token(address: str, http: httpx.Client) -> None:
    refused = plain_http.post(f"{address}/v1/main/databases", json={"name": "sales"})
    assert refused.status_code == 401
    assert http.get("/v1/main/databases").json()["databases"] == []


@pytest.mark.parametrize("authorization", ["Bearer one", "bearer two", "BEARER  one"])
def test_any_of_the_tokens_lets_in(catalog: SqlCatalog, serve: Serve, authorization: str) -> None:
    address = serve(catalog, tokens=["one", "two"])
    assert _get(address, authorization=authorization).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost:8080", "127.0.0.1", "127.9.9.9", "[::1]:80", "LocalHost"]
)
def test_without_a_token_this_machine_is_served(
    catalog: SqlCatalog, serve: Serve, host: str
) -> None:
    assert _get(serve(catalog), host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["catalog.example", "10.0.0.1", "localhost.example", "127.0.0.1.example", ""]
)
def test_without_a_token_no_other_host_is_served(
    catalog: SqlCatalog, serve: Serve, host: str
) -> None:
    answer = _get(serve(catalog), host=host)
    assert (answer.status_code, answer.json()["code"]) == (403, 403)


def test_without_a_token_no_foreign_page_is_served(catalog: SqlCatalog, serve: Serve) -> None:
    # A page may send text/plain to a local address without asking first.
    address = serve(catalog)
    attack = plain_http.post(
        f"{address}/v1/main/databases",
        content='{"name": "sales"}',
        headers={"origin": "https://evil.example", "content-type": "text/plain"},
    )
    assert attack.status_code == 403
    assert _get(address, origin="null").status_code == 403
    answer = _get(address, origin="http://localhost:3000")
    assert answer.json()["databases"] == []


@pytest.mark.parametrize("second", ["Bearer wrong", "Bearer a-token", ""])
@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
def test_two_authorization_headers_are_400(
    address: str, catalog: SqlCatalog, serve: Serve, name: str, second: str
) -> None:
    without_tokens = serve(catalog)
    for url in (address, without_tokens):
        headers = [("Authorization", "Bearer a-token"), (name, second)]
        for pairs in (headers, headers[::-1]):
            response = plain_http.get(f"{url}/v1/main/databases", headers=pairs)
            assert response.status_code == 400
            body = response.json()
            assert (body["code"], body["resourceType"]) == (400, None)
            assert "two headers 'Authorization'" in body["message"]
