"""Places outside the warehouse: the operator's to give, and not of whoever may write a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.storage.runtime import SYSTEM_RUNTIME

DATABASES = "/v1/main/databases"
TABLES = f"{DATABASES}/sales/tables"
As = Callable[..., httpx.Client]


@pytest.fixture
def client_of(tmp_path: Path, new_sqlite: NewSqlite, serve: Serve) -> Iterator[As]:
    """Calls a server on which one place outside the warehouse is listed."""
    url = new_sqlite(tmp_path / "headwater.db")
    (tmp_path / "listed").mkdir()
    opened = SqlCatalog.open(
        url,
        warehouse="main",
        location=str(tmp_path / "lake"),
        external_locations=(str(tmp_path / "listed"),),
    )
    with closing(opened) as catalog, ExitStack() as clients:
        tokens = Tokens(catalog.operation.database, SYSTEM_RUNTIME)
        parts = {"find_token": tokens.find}
        settings = {"require_token": True}
        addresses = {
            enforced: serve(catalog, parts=parts, enforce_permissions=enforced, **settings)
            for enforced in (True, False)
        }
        everything = PermissionTarget(TargetType.CATALOG_ALL)
        catalog.permissions.grant(Grant(everything, Access.ALL, "writer"))
        secrets: dict[str, str] = {}

        def made(name: str, scope: Scope = Scope.WRITE, enforced: bool = True) -> httpx.Client:
            if name not in secrets:
                secrets[name] = tokens.create(name, scopes=[scope]).secret
            headers = {"authorization": f"Bearer {secrets[name]}"}
            client = plain_http.Client(base_url=addresses[enforced], headers=headers, timeout=30)
            return clients.enter_context(client)

        catalog.databases.create("sales")
        yield made


def _create(
    client: httpx.Client, schema: dict[str, Any], name: str, **options: str
) -> httpx.Response:
    body = {
        "identifier": {"database": "sales", "object": name},
        "schema": {**schema, "options": {"bucket": "2", **options}},
    }
    return client.post(TABLES, json=body)


OPTIONS = ("path", "data-file.external-paths", "global-index.external-path")


def _naming(
    client: httpx.Client, schema: dict[str, Any], option: str, place: str
) -> Iterator[httpx.Response]:
    """Every request that can name a place, while table ``orders`` is there."""
    yield _create(client, schema, "mine", **{option: place})
    if option == "path":
        register = {"identifier": {"database": "sales", "object": "mine"}, "path": place}
        yield client.post(f"{DATABASES}/sales/register", json=register)
        return
    set_it = {"changes": [{"action": "setOption", "key": option, "value": place}]}
    yield client.post(f"{TABLES}/orders", json=set_it)
    yield client.post(f"{TABLES}/orders$branch_b", json=set_it)
    replaced = {**schema, "options": {"bucket": "2", option: place}}
    yield client.post(f"{TABLES}/orders/replace", json={"schema": replaced})


@pytest.mark.parametrize("option", OPTIONS)
def test_who_writes_names_no_place_outside(
    client_of: As, schema: dict[str, Any], tmp_path: Path, option: str
) -> None:
    writer = client_of("writer")
    assert _create(writer, schema, "orders").status_code == 200
    assert writer.post(f"{TABLES}/orders/branches", json={"branch": "b"}).status_code == 200
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "secret").write_text("hunter2")
    places = ("s3://bucket", "s3a://bucket/x", "/etc", str(tmp_path / "listed2"))
    (tmp_path / "link").symlink_to("/etc")
    for place in (*places, str(tmp_path / "there"), str(tmp_path / "link"), str(tmp_path)):
        if option == "global-index.external-path" and place.startswith("/"):
            place = f"file://{place}"  # it names a URI, or nothing
        said = set()
        for answer in _naming(writer, schema, option, place):
            assert answer.status_code == 403, (place, answer.text)
            assert "HEADWATER_EXTERNAL_LOCATIONS" in answer.json()["message"]
            said.add(answer.json()["message"].replace("mine", "orders"))
        # Nothing but the name of the thing differs: the answer does not depend on what is there.
        assert len(said) <= 2, said
    names = [
        each["name"]
        for each in writer.get(f"{DATABASES}/sales/table-details").json()["tableDetails"]
    ]
    assert names == ["orders"]
    # So the place is free still, for whoever may give it away.
    owner = client_of("owner", Scope.ADMINISTER)
    assert _create(owner, schema, "theirs", path="s3://bucket").status_code == 200


def test_a_listed_place_may_be_named(client_of: As, schema: dict[str, Any], tmp_path: Path) -> None:
    writer = client_of("writer")
    listed = tmp_path / "listed"
    assert _create(writer, schema, "outside", path=str(listed / "outside")).status_code == 200
    option = {"data-file.external-paths": f"{listed}/data"}
    assert _create(writer, schema, "orders", **option).status_code == 200
    # What it was named by somebody else stays, and an alteration need not name it again.
    owner = client_of("owner", Scope.ADMINISTER)
    option = {"data-file.external-paths": "s3://bucket/data"}
    assert _create(owner, schema, "theirs", **option).status_code == 200
    comment = {"changes": [{"action": "updateComment", "comment": "more"}]}
    assert writer.post(f"{TABLES}/theirs", json=comment).status_code == 200
    # Where permissions are records, nobody asks.
    free = client_of("writer", enforced=False)
    assert _create(free, schema, "anywhere", path="s3://other").status_code == 200
