"""Data tokens: what clients get to reach the files, where the operator lets them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import pytest
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.sts.models import sts_backends
from tests import plain_http
from tests.conftest import NewSqlite

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.data_token import client_storage_options
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.server.data_tokens import session_policy
from headwater.server.dependencies import Principals
from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid
from headwater.storage.files.location import Place
from headwater.storage.runtime import SYSTEM_RUNTIME


class Serve(Protocol):
    def __call__(self, catalogs: Catalog | Mapping[str, Catalog], **settings: object) -> str: ...


@pytest.fixture
def database_url(tmp_path: Path, new_sqlite: NewSqlite) -> str:
    return new_sqlite(tmp_path / "catalog.db")


@pytest.fixture
def secretive(tmp_path: Path, database_url: str) -> Iterator[SqlCatalog]:
    """A catalog whose warehouse needs credentials."""
    options = {"s3.access-key": "an-id", "s3.secret-key": "a-secret", "s3.endpoint": "http://s3"}
    opened = SqlCatalog.open(
        database_url,
        warehouse="main",
        location=str(tmp_path / "files"),
        storage_options=options,
    )
    yield opened
    opened.close()


def _table(address: str, schema: dict[str, Any], name: str = "orders") -> str:
    database = f"{address}/v1/main/databases"
    with plain_http.Client() as http:
        http.post(database, json={"name": "sales"})
        body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
        assert http.post(f"{database}/sales/tables", json=body).status_code == 200
    return f"{database}/sales/tables/{name}"


def test_a_client_gets_the_warehouses_options_without_its_keys_under_every_name(
    secretive: SqlCatalog, serve: Serve, schema: dict[str, Any], tmp_path: Path
) -> None:
    address = serve(secretive, data_token_seconds=43200)
    config = plain_http.get(f"{address}/v1/config").json()
    assert config["defaults"] == {"data-token.enabled": "true"}
    table = _table(address, schema)
    answer = plain_http.get(f"{table}/token").json()
    assert answer["token"] == {
        "s3.endpoint": "http://s3",
        "fs.s3.endpoint": "http://s3",
    }
    created = plain_http.get(table).json()["createdAt"]
    assert answer["expiresAtMillis"] >= created + 43_200_000
    missing = plain_http.get(f"{table}x/token")
    assert (missing.status_code, missing.json()["resourceType"]) == (404, "TABLE")
    # The files of an external table are not the warehouse's.
    outside = {**schema, "options": {"bucket": "2", "path": str(tmp_path / "outside")}}
    refused = plain_http.get(f"{_table(address, outside, 'outside')}/token")
    assert refused.status_code == 501
    assert "a-secret" not in refused.text


def test_nobody_gets_them_unless_told(
    secretive: SqlCatalog, serve: Serve, schema: dict[str, Any]
) -> None:
    address = serve(secretive)
    assert plain_http.get(f"{address}/v1/config").json()["defaults"] == {}
    refused = plain_http.get(f"{_table(address, schema)}/token")
    assert refused.status_code == 501
    assert "HEADWATER_DATA_TOKEN_SECONDS" in refused.json()["message"]
    assert "a-secret" not in refused.text


def test_a_token_outlives_the_hour_in_which_clients_renew_it() -> None:
    assert load_settings({"data_token_seconds": "7200"}).data_token_seconds == 7200
    for wrong in ("3600", "0", "soon"):
        with pytest.raises(Invalid, match="data_token_seconds"):
            load_settings({"data_token_seconds": wrong})


def test_a_name_that_is_set_keeps_its_value() -> None:
    sent = client_storage_options({"s3.region": "a", "s3.endpoint.region": "b", "other": "c"})
    assert sent == {
        "s3.region": "a",
        "fs.s3.region": "a",
        "s3.endpoint.region": "b",
        "other": "c",
    }


def test_the_warehouse_s_credentials_are_not_handed_out(
    secretive: SqlCatalog, serve: Serve, schema: dict[str, Any]
) -> None:
    """A folder needs none; what is no secret is sent."""
    address = serve(secretive, data_token_seconds=7200)
    answer = plain_http.get(f"{_table(address, schema)}/token").json()
    assert answer["token"] == {"s3.endpoint": "http://s3", "fs.s3.endpoint": "http://s3"}


ROLE = "arn:aws:iam::123456789012:role/lake"


def _on_store(s3_endpoint: str, url: str, **options: str) -> SqlCatalog:
    keys = {"s3.endpoint": s3_endpoint, "s3.access-key": "AKIAOWN", "s3.secret-key": "own-secret"}
    return SqlCatalog.open(
        url, warehouse="main", location="s3://lake/warehouse", storage_options={**keys, **options}
    )


def _assumed() -> Any:
    """The sessions that the store's service, which runs in this process, has given."""
    return sts_backends["123456789012"]["aws"].assumed_roles


def _may(policy: str, action: str, resource: str) -> bool:
    """The word of the policy's statement on objects, or on the bucket for a listing's prefix."""
    if action != "s3:ListBucket":
        allowed = IAMPolicy(policy).is_action_permitted(action, f"arn:aws:s3:::{resource}")
        return bool(allowed == PermissionResult.PERMITTED)
    (listing,) = [each for each in json.loads(policy)["Statement"] if each["Action"] == [action]]
    (pattern,) = listing["Condition"]["StringLike"]["s3:prefix"]
    return fnmatchcase(resource.partition("/")[2], pattern)


def test_a_token_reaches_one_table_and_writes_only_for_those_who_may(
    s3_endpoint: str, database_url: str, serve: Serve, schema: dict[str, Any]
) -> None:
    with (
        closing(_on_store(s3_endpoint, database_url, **{"s3.sts.role-arn": ROLE})) as catalog,
        opened_database(database_url) as database,
    ):
        tokens = Tokens(database, SYSTEM_RUNTIME)
        secrets = {
            name: tokens.create(name, scopes={scope}).secret
            for name, scope in (("reader", Scope.READ), ("writer", Scope.WRITE))
        }
        parts = {"find_token": tokens.find, "principals": Principals(tokens, Groups(database))}
        settings = {"tokens": ["all"], "data_token_seconds": 7200, "enforce_permissions": False}
        address = serve(catalog, parts=parts, **settings)
        with plain_http.Client(headers={"authorization": "Bearer all"}) as http:
            home = f"{address}/v1/main/databases"
            http.post(home, json={"name": "sales"})
            body = {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}
            assert http.post(f"{home}/sales/tables", json=body).status_code == 200
        told: dict[str, dict[str, str]] = {}
        for name, secret in secrets.items():
            with plain_http.Client(headers={"authorization": f"Bearer {secret}"}) as http:
                answer = http.get(f"{home}/sales/tables/orders/token")
                again = http.get(f"{home}/sales/tables/orders/token")
            assert answer.status_code == 200, answer.text
            assert again.json()["token"] == answer.json()["token"]
            assert "own-secret" not in answer.text
            assert "AKIAOWN" not in answer.text
            assert ROLE not in answer.text
            told[name] = answer.json()["token"]
    sessions = {session.session_name: session for session in _assumed()}
    assert sessions.keys() == {"reader", "writer"}
    for name, session in sessions.items():
        assert told[name]["s3.access-key"] == session.access_key_id
        assert told[name]["s3.session.token"] == session.session_token
        table, policy = "lake/warehouse/sales.db/orders", session.policy
        for inside in ("/snapshot/snapshot-1", "/dt=a/bucket-0/data-1.parquet"):
            assert _may(policy, "s3:GetObject", table + inside)
            assert _may(policy, "s3:PutObject", table + inside) is (name == "writer")
            assert _may(policy, "s3:DeleteObject", table + inside) is (name == "writer")
        for outside in ("2/schema/schema-0", "", "/../secret"):
            place = "lake/warehouse/sales.db/other" if outside == "/../secret" else table + outside
            assert not _may(policy, "s3:GetObject", place)
            assert not _may(policy, "s3:PutObject", place)
        assert _may(policy, "s3:ListBucket", f"{table}/snapshot/")
        assert not _may(policy, "s3:ListBucket", f"{table}2/")
        assert not _may(policy, "s3:ListBucket", "lake/")


def test_a_warehouse_without_a_role_has_no_tokens(
    s3_endpoint: str, database_url: str, serve: Serve, schema: dict[str, Any]
) -> None:
    with closing(_on_store(s3_endpoint, database_url)) as catalog:
        refused = plain_http.get(f"{_table(serve(catalog, data_token_seconds=7200), schema)}/token")
    assert refused.status_code == 501
    assert "s3.sts.role-arn" in refused.json()["message"]
    assert "own-secret" not in refused.text


def test_a_service_that_does_not_answer_is_no_refusal(
    s3_endpoint: str, database_url: str, serve: Serve, schema: dict[str, Any]
) -> None:
    options = {"s3.sts.role-arn": ROLE, "s3.sts.endpoint": "http://127.0.0.1:1"}
    with closing(_on_store(s3_endpoint, database_url, **options)) as catalog:
        answer = plain_http.get(f"{_table(serve(catalog, data_token_seconds=7200), schema)}/token")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "127.0.0.1:1" not in answer.text


def test_names_with_wildcards_stand_for_themselves() -> None:
    policy = session_policy(Place.of("s3://lake/a*b$c?d"), may_write=False)
    assert "a${*}b${$}c${?}d/*" in policy


def test_the_lifetime_is_one_that_a_service_gives() -> None:
    with pytest.raises(Invalid, match="43200"):
        load_settings({"data_token_seconds": "43201"})
