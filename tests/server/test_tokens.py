"""Tokens of the database open the server while they are valid, and name the caller."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from tests import plain_http

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenInfo
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.server.logs import JsonLines
from headwater.server.recent_answers import KEPT_MILLIS
from headwater.server.request_log import ACCESS_LOGGER
from headwater.server.token_check import TokenCheck
from headwater.storage.errors import Unavailable
from headwater.storage.runtime import Runtime

Serve = Callable[..., str]


class Watch:
    """A clock that a test turns, and may set wrong by so many milliseconds."""

    millis = 1_700_000_000_000
    wrong_by = 0

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: self.millis + self.wrong_by,
            lambda: str(uuid.uuid4()),
            lambda _: None,
            monotonic=lambda: self.millis / 1000,
        )


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def tokens(catalog: SqlCatalog, tmp_path: Path, watch: Watch) -> Iterator[Tokens]:
    with opened_database(f"sqlite:///{tmp_path}/headwater.db") as database:
        yield Tokens(database, watch.runtime)


@pytest.fixture
def guarded(catalog: SqlCatalog, serve: Serve, tokens: Tokens, watch: Watch) -> str:
    parts = {"find_token": tokens.find, "runtime": watch.runtime}
    return serve(catalog, parts=parts, require_token=True)


def _status(address: str, secret: str, **headers: str) -> int:
    headers = {"authorization": f"Bearer {secret}", **headers}
    path = f"{address}/v1/main/databases"
    return plain_http.get(path, headers=headers).status_code


def test_a_token_of_the_database_lets_in(guarded: str, tokens: Tokens) -> None:
    secret = tokens.create("spark").secret
    assert _status(guarded, secret) == 200
    assert _status(guarded, secret.upper()) == 401
    # What the database holds is no token.
    assert _status(guarded, "spark") == 401


def test_without_any_token_nobody_is_let_in(guarded: str) -> None:
    answer = plain_http.get(f"{guarded}/v1/main/databases")
    assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_an_expired_token_is_refused_at_once(guarded: str, tokens: Tokens, watch: Watch) -> None:
    secret = tokens.create("spark", lifetime=timedelta(seconds=5)).secret
    assert _status(guarded, secret) == 200
    watch.millis += 4_999
    assert _status(guarded, secret) == 200
    watch.millis += 1
    assert _status(guarded, secret) == 401


def test_a_revoked_token_is_refused_soon(guarded: str, tokens: Tokens, watch: Watch) -> None:
    secret = tokens.create("spark").secret
    assert _status(guarded, secret) == 200
    tokens.revoke("spark")
    watch.millis += KEPT_MILLIS
    assert _status(guarded, secret) == 401


def test_a_clock_that_is_set_back_lets_no_revoked_token_in(
    guarded: str, tokens: Tokens, watch: Watch
) -> None:
    secret = tokens.create("spark").secret
    assert _status(guarded, secret) == 200
    tokens.revoke("spark")
    watch.millis += KEPT_MILLIS
    watch.wrong_by = -10 * KEPT_MILLIS
    assert _status(guarded, secret) == 401


def test_the_database_is_not_asked_for_every_request(watch: Watch) -> None:
    asked: list[str] = []

    def find(hash_: str) -> TokenInfo | None:
        asked.append(hash_)
        return None if len(asked) > 1 else TokenInfo("spark", 0)

    async def play() -> None:
        check = TokenCheck((), find, watch.runtime)
        spark = TokenInfo("spark", 0).principal
        assert [await check.principal("good") for _ in range(3)] == [spark] * 3
        assert [await check.principal("bad") for _ in range(3)] == [None] * 3
        assert len(asked) == 2
        # However many wrong ones are tried, the good one stays known.
        for number in range(1100):
            assert await check.principal(f"bad {number}") is None
        assert await check.principal("good") == spark
        assert len(asked) == 2 + 1100

    anyio.run(play)


def test_a_database_that_does_not_answer_is_503(
    catalog: SqlCatalog, serve: Serve, watch: Watch
) -> None:
    def find(_: str) -> TokenInfo | None:
        raise Unavailable("the catalog's database did not answer")

    parts = {"find_token": find, "runtime": watch.runtime}
    address = serve(catalog, parts=parts, tokens=["configured"], require_token=True)
    headers = {"authorization": "Bearer hw_x"}
    answer = plain_http.get(f"{address}/v1/main/databases", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (503, 503)
    assert answer.headers["retry-after"] == "1"
    assert _status(address, "configured") == 200


def test_the_log_names_the_caller_and_no_secret(
    guarded: str, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tokens.create("spark job").secret
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        _status(guarded, secret, **{"x-request-id": "good"})
        _status(guarded, "hw_wrong", **{"x-request-id": "bad"})
        plain_http.get(f"{guarded}/healthz")
    lines = [
        JsonLines().format(record) for record in caplog.records if record.name == ACCESS_LOGGER
    ]
    by_id = {line["request_id"]: line for line in map(json.loads, lines)}
    assert by_id["good"]["principal"] == "spark job"
    assert by_id["bad"]["principal"] is None
    assert not any(secret in line or "hw_wrong" in line for line in lines)


_VIEW = {"fields": [], "query": "SELECT 1"}


def test_the_catalog_records_who_did_what(
    guarded: str, catalog: SqlCatalog, tokens: Tokens, schema: dict[str, object]
) -> None:
    def call(who: str, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {secrets[who]}"}
        path = f"{guarded}/v1/main/databases{path}"
        answer = plain_http.request(method, path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer

    scopes = [Scope.ADMINISTER]
    secrets = {who: tokens.create(who, scopes=scopes).secret for who in ("ann", "bob")}
    call("ann", "POST", "", {"name": "sales"})
    named = {"database": "sales", "object": "orders"}
    call("ann", "POST", "/sales/tables", {"identifier": named, "schema": schema})
    call("bob", "POST", "/sales", {"removals": [], "updates": {"a": "b"}})
    change = {"action": "setOption", "key": "write-only", "value": "true"}
    call("bob", "POST", "/sales/tables/orders", {"changes": [change]})
    view = {"identifier": {"database": "sales", "object": "recent"}, "schema": _VIEW}
    call("ann", "POST", "/sales/views", view)
    call("ann", "POST", "/sales/functions", {"name": "area", "deterministic": True})
    for path in ("/sales/views/recent", "/sales/functions/area"):
        comment = {"action": "updateComment", "comment": "of this year"}
        call("bob", "POST", path, {"changes": [comment]})
    for path in (
        "/sales",
        "/sales/tables/orders",
        "/sales/views/recent",
        "/sales/functions/area",
    ):
        found = call("ann", "GET", path).json()
        assert (found["createdBy"], found["updatedBy"]) == ("ann", "bob")
    # Whoever uses the catalog without a server between has no name.
    catalog.databases.create("other")
    assert catalog.databases.get("other").created_by is None
