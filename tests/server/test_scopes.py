"""What a token is good for, and the management of tokens and groups over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

import httpx
import pytest
from tests import plain_http

from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.server.access.operations import OPERATIONS
from headwater.server.dependencies import Principals
from headwater.storage.runtime import SYSTEM_RUNTIME

Send: TypeAlias = Callable[..., httpx.Response]
Make: TypeAlias = Callable[..., Send]


@pytest.fixture
def make(catalog: SqlCatalog, serve: Callable[..., str], tmp_path: Path) -> Iterator[Make]:
    """Makes a token, and answers what sends requests with it to a server of two warehouses."""
    with (
        opened_database(f"sqlite:///{tmp_path}/headwater.db") as database,
        plain_http.Client() as client,
    ):
        tokens = Tokens(database, SYSTEM_RUNTIME)
        second = SqlCatalog.on(database, warehouse="second", location=str(tmp_path / "second"))
        parts = {"principals": Principals(tokens, Groups(database)), "find_token": tokens.find}
        address = serve({"main": catalog, "second": second}, parts=parts, require_token=True)

        def new(
            name: str,
            *scopes: Scope,
            warehouses: list[str] | None = None,
            secret: str | None = None,
        ) -> Send:
            found = secret or tokens.create(name, scopes=scopes, warehouses=warehouses).secret

            def send(method: str, path: str, body: object = None) -> httpx.Response:
                headers = {"authorization": f"Bearer {found}"}
                return client.request(method, address + path, json=body, headers=headers)

            return send

        yield new


def _new_table(schema: dict[str, object]) -> dict[str, object]:
    return {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}


SALES = "/v1/main/databases/sales"
ORDERS = f"{SALES}/tables/orders"


@pytest.fixture
def owner(make: Make, schema: dict[str, object]) -> Send:
    """An administrator, who made ``sales.orders``."""
    send = make("owner", Scope.ADMINISTER)
    assert send("POST", "/v1/main/databases", {"name": "sales"}).status_code == 200
    assert send("POST", f"{SALES}/tables", _new_table(schema)).status_code == 200
    return send


def test_a_token_that_reads_changes_nothing(
    make: Make,
    owner: Send,
    catalog: SqlCatalog,
    schema: dict[str, object],
    snapshot: Callable[..., object],
) -> None:
    read = make("reader", Scope.READ)
    everything = PermissionTarget(TargetType.CATALOG_ALL)
    catalog.permissions.grant(Grant(everything, Access.ALL, "reader"))
    for path in ("/v1/config?warehouse=main", ORDERS, f"{ORDERS}/tags"):
        assert read("GET", path).status_code == 200
    assert read("POST", f"{ORDERS}/auth", {}).status_code == 200
    offer = {"snapshot": snapshot(1), "statistics": []}
    refused = [
        read("POST", f"{SALES}/tables", _new_table(schema)),
        read("POST", f"{ORDERS}/commit", offer),
        # The table is there, and the body is not looked at.
        read("POST", f"{ORDERS}/commit", {}),
        read("POST", f"{SALES}/tables/none/commit", {}),
        read("DELETE", ORDERS),
        read("POST", "/v1/main/permissions/grant", {}),
    ]
    assert {answer.status_code for answer in refused} == {403}
    assert "scope read" in refused[0].json()["message"]
    assert owner("GET", f"{ORDERS}/snapshot").status_code == 404
    assert owner("POST", f"{ORDERS}/commit", offer).json() == {"success": True}


def test_a_token_for_a_warehouse_is_for_no_other(make: Make, owner: Send) -> None:
    send = make("narrow", Scope.ADMINISTER, Scope.MANAGE, warehouses=["second"])
    assert send("GET", "/v1/second/databases").status_code == 200
    for path in ("/v1/main/databases", ORDERS, f"{ORDERS}/snapshot", "/v1/m%61in/databases"):
        assert send("GET", path).status_code == 403
    assert send("GET", "/management/v1/warehouses/main/dropped-tables").status_code == 403
    # The only warehouse that it sees is the one that is meant.
    assert send("GET", "/v1/config").json()["overrides"] == {"prefix": "second"}
    assert "'main'" not in send("GET", "/v1/config?warehouse=nowhere").text
    # Nor does it learn of, or manage, what is every warehouse's.
    assert send("GET", "/metrics").status_code == 403
    assert send("GET", "/management/v1/tokens").status_code == 403


@pytest.mark.parametrize("scope", [Scope.READ, Scope.WRITE, Scope.ADMINISTER])
def test_management_needs_its_own_scope(make: Make, scope: Scope) -> None:
    other, manager = make("other", scope), make("manager", Scope.MANAGE)
    for path in ("tokens", "groups"):
        assert other("GET", f"/management/v1/{path}").status_code == 403
        assert manager("GET", f"/management/v1/{path}").status_code == 200
    # And it is for nothing else.
    assert manager("GET", "/v1/main/databases").status_code == 403


def test_without_tokens_management_needs_one_all_the_same(
    catalog: SqlCatalog, serve: Callable[..., str], tmp_path: Path
) -> None:
    with opened_database(f"sqlite:///{tmp_path}/headwater.db") as database:
        tokens = Tokens(database, SYSTEM_RUNTIME)
        parts = {"principals": Principals(tokens, Groups(database)), "find_token": tokens.find}
        address = serve(catalog, parts=parts)
        path = f"{address}/management/v1/tokens"
        assert plain_http.get(f"{address}/v1/main/databases").status_code == 200
        refused = plain_http.get(path)
        assert (refused.status_code, refused.json()["code"]) == (401, 401)
        assert refused.headers["www-authenticate"] == "Bearer"
        wrong = plain_http.get(path, headers={"authorization": "Bearer hw_wrong"})
        assert wrong.status_code == 401
        secret = tokens.create("ops", scopes=[Scope.MANAGE]).secret
        good = plain_http.get(path, headers={"authorization": f"Bearer {secret}"})
        assert [token["name"] for token in good.json()["tokens"]] == ["ops"]


def test_tokens_are_made_and_revoked_over_http(make: Make) -> None:
    manager = make("manager", Scope.MANAGE, Scope.WRITE)
    new = {"name": "ada", "lifetimeMillis": 60_000, "scopes": ["read"], "warehouses": ["main"]}
    made = manager("POST", "/management/v1/tokens", new).json()
    assert made["expiresAt"] - made["createdAt"] == 60_000
    listed = manager("GET", "/management/v1/tokens")
    assert made["secret"] not in listed.text
    del made["secret"]
    assert listed.json()["tokens"][0] == made
    assert manager("POST", "/management/v1/tokens", new).status_code == 409
    # None makes a token that may do more than itself.
    for scopes in (["administer"], ["read", "administer"]):
        answer = manager("POST", "/management/v1/tokens", {"name": "bob", "scopes": scopes})
        assert answer.status_code == 403
    mistakes: list[dict[str, object]] = [
        {"scopes": []},
        {"scopes": ["fly"]},
        {"warehouses": []},
        {"lifetimeMillis": 0},
        # Misspelt, a limit would be none.
        {"scope": ["read"]},
        {"warehouse": ["main"]},
        {"lifetimeSeconds": 60},
    ]
    for wrong in mistakes:
        answer = manager("POST", "/management/v1/tokens", {"name": "bob", **wrong})
        assert answer.status_code == 400
    assert manager("DELETE", "/management/v1/tokens/ada").status_code == 200
    assert manager("DELETE", "/management/v1/tokens/ada").status_code == 404


def test_groups_are_managed_over_http(make: Make) -> None:
    manager = make("manager", Scope.MANAGE)
    path = "/management/v1/groups"
    for group, member in (("b", "ada"), ("a", "bob"), ("a", "ada"), ("a:b c", "ada")):
        body = {"principal": member}
        segment = group.replace(" ", "+")
        assert manager("POST", f"{path}/{segment}/members", body).status_code == 200
    assert manager("POST", f"{path}/a/members", {"principal": "ada"}).status_code == 409
    for wrong in ("", " ada", "group:a"):
        assert manager("POST", f"{path}/a/members", {"principal": wrong}).status_code == 400
    found: list[tuple[str, str]] = []
    token: str | None = ""
    while token is not None:
        asked = urlencode({"maxResults": "1", "pageToken": token})
        page = manager("GET", f"{path}?{asked}").json()
        found += [(each["group"], each["principal"]) for each in page["memberships"]]
        token = page["nextPageToken"]
    assert found == [("a", "ada"), ("a", "bob"), ("a:b c", "ada"), ("b", "ada")]
    of_ada = manager("GET", f"{path}?principal=ada&group=a").json()["memberships"]
    assert of_ada == [{"group": "a", "principal": "ada"}]
    assert manager("DELETE", f"{path}/a/members/ada").status_code == 200
    assert manager("DELETE", f"{path}/a/members/ada").status_code == 404


def test_every_operation_has_a_rule(address: str) -> None:
    described = plain_http.get(f"{address}/openapi.json").json()["paths"]
    paths = {
        operation["operationId"]: path
        for path, methods in described.items()
        for operation in methods.values()
    }
    assert set(paths) == set(OPERATIONS)
    for operation, rule in OPERATIONS.items():
        parameters = {"prefix", "warehouse"} & set(re.findall(r"{(\w+)}", paths[operation]))
        assert parameters == ({rule.warehouse} if rule.warehouse else set()), operation
