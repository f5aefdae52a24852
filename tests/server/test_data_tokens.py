"""Data tokens: what clients get to reach the files, where the operator lets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests import plain_http

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.data_token import client_storage_options
from headwater.catalog.sql import SqlCatalog
from headwater.migrations import upgrade
from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid


class Serve(Protocol):
    def __call__(self, catalogs: Catalog | Mapping[str, Catalog], **settings: object) -> str: ...


@pytest.fixture
def secretive(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog whose warehouse needs credentials."""
    url = f"sqlite:///{tmp_path}/secretive.db"
    upgrade(url)
    options = {"s3.access-key": "an-id", "s3.secret-key": "a-secret", "s3.endpoint": "http://s3"}
    opened = SqlCatalog.open(
        url, warehouse="main", location=str(tmp_path / "files"), storage_options=options
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


def test_a_client_gets_the_warehouses_options_under_every_name(
    secretive: SqlCatalog, serve: Serve, schema: dict[str, Any], tmp_path: Path
) -> None:
    address = serve(secretive, data_token_seconds=86400)
    config = plain_http.get(f"{address}/v1/config").json()
    assert config["defaults"] == {"data-token.enabled": "true"}
    table = _table(address, schema)
    answer = plain_http.get(f"{table}/token").json()
    assert answer["token"] == {
        "s3.access-key": "an-id",
        "fs.s3.accessKeyId": "an-id",
        "s3.secret-key": "a-secret",
        "fs.s3.accessKeySecret": "a-secret",
        "s3.endpoint": "http://s3",
        "fs.s3.endpoint": "http://s3",
    }
    created = plain_http.get(table).json()["createdAt"]
    assert answer["expiresAtMillis"] >= created + 86_400_000
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
