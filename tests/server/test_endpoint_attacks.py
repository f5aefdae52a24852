"""Attacks by endpoint: nothing that a caller sets has the server, or a client, call elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client.lake import Lake
from headwater.client.rest import RestCatalog
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.storage.runtime import SYSTEM_RUNTIME

ROLE = "arn:aws:iam::123456789012:role/lake"
DATABASES = "/v1/main/databases"
TABLES = f"{DATABASES}/sales/tables"


class Canary:
    """A server that others should not call, and remembers who calls it.

    Args:
        redirects: Answer with a redirect to itself, rather than 404.
    """

    def __init__(self, *, redirects: bool) -> None:
        self.calls: list[str] = []
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                calls.append(f"{self.command} {self.path}")
                self.send_response(307 if redirects else 404)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def _listening(*, redirects: bool) -> Iterator[Canary]:
    made = Canary(redirects=redirects)
    thread = Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    with _listening(redirects=False) as made:
        yield made


def _create(http: httpx.Client, schema: dict[str, Any], options: dict[str, str]) -> httpx.Response:
    body = {
        "identifier": {"database": "sales", "object": "mine"},
        "schema": {**schema, "options": {"bucket": "2", **options}},
    }
    return http.post(TABLES, json=body)


def _manager(hash_: str) -> TokenInfo | None:
    scopes = frozenset({Scope.ADMINISTER, Scope.MANAGE})
    return TokenInfo("ops", 0, scopes=scopes) if hash_ == token_hash("a-manager") else None


def test_no_option_of_a_warehouse_sends_the_server_elsewhere(
    serve: Serve, tmp_path: Path, new_sqlite: NewSqlite, canary: Canary
) -> None:
    """SSRF, and a theft of credentials: endpoints of the store and of its token service."""
    url = new_sqlite(tmp_path / "headwater.db")
    allowed = "https://minio:9000"
    host = canary.url.removeprefix("http://")
    own = {"s3.access-key": "AKIAX", "s3.secret-key": "x", "s3.sts.role-arn": ROLE}
    with opened_database(url) as database:
        main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
        managed = ManagedCatalogs(database, SYSTEM_RUNTIME)
        address = serve(
            main,
            parts={"managed": managed, "find_token": _manager},
            allowed_locations=["s3://lake/in"],
            allowed_endpoints=[allowed],
            data_token_seconds=7200,
        )
        with plain_http.Client(
            base_url=address, headers={"authorization": "Bearer a-manager"}
        ) as http:
            for name in (
                *("s3.endpoint", "fs.s3.endpoint", "s3.sts.endpoint", "fs.s3a.endpoint"),
                *("S3.Endpoint", "fs.s3a.bucket.lake.endpoint", "fs.oss.endpoint", "endpoint"),
                "fs.s3a.assumed.role.sts.endpoint",
            ):
                for value in (
                    *(canary.url, f"{canary.url}/", canary.url.upper(), f"{allowed}@{host}"),
                    *(f"http://{host}#{allowed}", f"http://{host}?{allowed}", f"//{host}", host),
                    *(f"{allowed}/other", f"{allowed}?Action=x", f"{allowed}\\@{host}"),
                    *(f"http://{host}\\@minio:9000", f"{allowed}\n.{host}", f"{allowed} "),
                    *("http://minio:9000", "https://minio", "https://\uff4dinio:9000"),
                    *("http://169.254.169.254", "file:///etc/passwd", "gopher://minio:9000"),
                ):
                    options = {**own, name: value}
                    new = {"name": "lake", "location": "s3://lake/in", "options": options}
                    answer = http.post("/management/v1/warehouses", json=new)
                    assert answer.status_code in (400, 403), (name, value, answer.text)
            for name, value in (
                ("s3.region", f"x@{host}/"),
                ("fs.s3a.endpoint.region", f"{host}#"),
                ("s3.endpoint.region", "us-east-1.evil.example/"),
                ("s3.sts.Endpoint", canary.url),
                ("s3.sts.url", canary.url),
                ("s3.sts.proxy", canary.url),
            ):
                new = {"name": "lake", "location": "s3://lake/in", "options": {**own, name: value}}
                answer = http.post("/management/v1/warehouses", json=new)
                assert answer.status_code in (400, 403), (name, value, answer.text)
            assert http.get("/management/v1/warehouses").json()["warehouses"] == []
    assert canary.calls == []


def test_no_option_of_a_table_sends_anybody_elsewhere(
    http: httpx.Client, sales: str, schema: dict[str, Any], canary: Canary
) -> None:
    """What a table's owner sets is followed by the clients of all who read it."""
    names = (
        *("s3.endpoint", "fs.s3.endpoint", "fs.s3a.endpoint", "uri", "warehouse"),
        *("partition.mark-done-action.http.url", "s3.sts.endpoint", "metadata.iceberg.uri"),
    )
    options = dict.fromkeys(names, canary.url)
    assert _create(http, schema, {"s3.region": "x/#", **options}).status_code == 200
    token = http.headers["authorization"].partition(" ")[2]
    with closing(RestCatalog(str(http.base_url), warehouse="main", token=token)) as catalog:
        catalog.connect()
        table = Lake(catalog).table("sales.mine")
        table.write([{"order_id": 1, "dt": "a", "amount": 2}])
        assert table.scan().to_arrow().num_rows == 1
    assert canary.calls == []


def test_a_token_service_that_redirects_is_not_followed(
    s3_endpoint: str, tmp_path: Path, new_sqlite: NewSqlite, serve: Serve, schema: dict[str, Any]
) -> None:
    """The request, which is signed, would go where the redirect says."""
    with _listening(redirects=True) as service:
        options = {
            "s3.endpoint": s3_endpoint,
            "s3.access-key": "AKIAOWN",
            "s3.secret-key": "own-secret",
            "s3.sts.role-arn": ROLE,
            "s3.sts.endpoint": service.url,
        }
        url = new_sqlite(tmp_path / "redirected.db")
        opened = SqlCatalog.open(
            url, warehouse="main", location="s3://lake/warehouse", storage_options=options
        )
        with closing(opened) as catalog:
            address = serve(catalog, tokens=["t"], data_token_seconds=7200)
            headers = {"authorization": "Bearer t"}
            with plain_http.Client(base_url=address, headers=headers) as http:
                http.post(DATABASES, json={"name": "sales"})
                assert _create(http, schema, {}).status_code == 200
                answer = http.get(f"{TABLES}/mine/token")
    assert (answer.status_code, service.calls) == (503, ["POST /"])
    assert "own-secret" not in answer.text
