"""A running server over SQLite, and a plain HTTP client without any of Headwater's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite

from headwater.catalog.sql import SqlCatalog

TOKEN = "a-token"

Call: TypeAlias = Callable[..., httpx.Response]


@pytest.fixture
def catalog(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """The catalog behind the server; its files are in the folder ``lake``."""
    url = new_sqlite(tmp_path / "headwater.db")
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    yield opened
    opened.close()


@pytest.fixture
def address(catalog: SqlCatalog, serve: Callable[..., str]) -> str:
    """The server's address."""
    return serve(catalog, tokens=[TOKEN])


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    """A client with the token; it sends paths as they are written and no content type."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    with plain_http.Client(base_url=address, headers=headers) as client:
        yield client


@pytest.fixture
def sales(http: httpx.Client) -> str:
    """The path of a database ``sales``."""
    answer = http.post("/v1/main/databases", json={"name": "sales", "options": {}})
    assert answer.status_code == 200
    return "/v1/main/databases/sales"


@pytest.fixture
def schema() -> dict[str, object]:
    """A partitioned primary-key table's schema, as Java sends it."""
    return {
        "fields": [
            {"id": 0, "name": "order_id", "type": "BIGINT NOT NULL"},
            {"id": 1, "name": "dt", "type": "STRING NOT NULL"},
            {"id": 2, "name": "amount", "type": "INT"},
        ],
        "partitionKeys": ["dt"],
        "primaryKeys": ["dt", "order_id"],
        "options": {"bucket": "2"},
        "comment": None,
    }


@pytest.fixture
def orders(http: httpx.Client, sales: str, schema: dict[str, object]) -> str:
    """The path of an empty table ``sales.orders``."""
    body = {"identifier": {"database": "sales", "object": "orders"}, "schema": schema}
    answer = http.post(f"{sales}/tables", json=body)
    assert answer.status_code == 200, answer.text
    return f"{sales}/tables/orders"


@pytest.fixture
def snapshot() -> Callable[..., dict[str, object]]:
    """Makes a snapshot's JSON; keywords replace fields, None leaves one out."""

    def make(snapshot_id: int, **fields: object) -> dict[str, object]:
        document: dict[str, object] = {
            "version": 3,
            "uuid": f"uuid-{snapshot_id}",
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": f"manifest-list-{snapshot_id}-0",
            "deltaManifestList": f"manifest-list-{snapshot_id}-1",
            "commitUser": "a-user",
            "commitIdentifier": snapshot_id,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000 + snapshot_id,
            **fields,
        }
        return {key: value for key, value in document.items() if value is not None}

    return make


@pytest.fixture
def commit(http: httpx.Client, snapshot: Callable[..., dict[str, object]]) -> Call:
    """Commits a snapshot to a table's path, on top of the one before it."""

    def send(table: str, snapshot_id: int, **fields: object) -> httpx.Response:
        base = None if snapshot_id == 1 else f"uuid-{snapshot_id - 1}"
        body: dict[str, object] = {
            "tableId": None,
            "baseSnapshotUuid": base,
            "snapshot": snapshot(snapshot_id, **fields),
            "statistics": [],
        }
        return http.post(f"{table}/commit", json=body)

    return send
