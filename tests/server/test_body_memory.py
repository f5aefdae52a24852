"""Request bodies leave memory with their responses, not when Python's collector runs."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from tests.conftest import Serve
from tests.processes import ServerProcess, address_in
from tests.server.conftest import TOKEN

from headwater.catalog.sql import SqlCatalog

MEGABYTE = 1024 * 1024
LARGE = 15 * MEGABYTE
_DATABASES = "/v1/main/databases"
_TABLES = "/v1/main/databases/sales/tables"
_WAREHOUSES = "/management/v1/warehouses"
_WAREHOUSE = '{"name":"more","location":"/more","options":{"o":"', '"}}'


@pytest.fixture
def address(catalog: SqlCatalog, serve: Serve) -> str:
    """The server's address."""
    return serve(catalog, tokens=[TOKEN], management_tokens=["manager"], max_body_size="4mb")


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    # What is there already is not looked through for bodies: it is most of this process.
    gc.freeze()
    yield
    gc.unfreeze()
    gc.enable()


def _bodies(http: httpx.Client) -> list[str]:
    """The types of large texts that anything in this process refers to."""
    for _ in range(100):
        # A response is on its way before its request ends: the event loop does one more.
        assert http.get("/healthz").status_code == 200
        texts = {
            id(text): type(text).__name__
            for holder in gc.get_objects()
            for text in gc.get_referents(holder)
            if isinstance(text, str | bytes | bytearray) and len(text) >= MEGABYTE
        }
        if not texts:
            break
    return list(texts.values())


def _post(connection: HTTPConnection, path: str, content: bytes, token: str) -> int:
    connection.request("POST", path, content, {"authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    return response.status


def _filled(head: str, end: str) -> str:
    return head + "a" * MEGABYTE + end


@pytest.mark.parametrize(
    ("status", "path", "head", "end"),
    [
        pytest.param(200, _DATABASES, '{"name":"d","options":{"o":"', '"}}', id="accepted"),
        pytest.param(400, _DATABASES, '{"name":"', '"}', id="name"),
        pytest.param(400, _DATABASES, '{"name":7,"options":{"o":"', '"}}', id="type"),
        pytest.param(400, _DATABASES, '{"name":"', '"', id="no JSON"),
        pytest.param(400, _DATABASES, '{"name":"\\ud800', '"}', id="no text"),
        pytest.param(400, "/v1/nowhere/databases", '{"name":"', '"}', id="warehouse"),
        pytest.param(401, _DATABASES, '{"name":"', '"}', id="token"),
        pytest.param(403, _WAREHOUSES, *_WAREHOUSE, id="scope"),
        pytest.param(404, "/v1/nonsense", '{"name":"', '"}', id="no route"),
        pytest.param(405, "/v1/config", '{"name":"', '"}', id="no method"),
        pytest.param(409, _DATABASES, '{"name":"sales","options":{"o":"', '"}}', id="exists"),
        pytest.param(413, _DATABASES, "TOO LARGE", "", id="too large"),
        pytest.param(404, f"{_TABLES}/none/commit", "SNAPSHOT", "", id="commit to nothing"),
        pytest.param(404, f"{_TABLES}/none/commit", '{"snapshot":{"a":"', '"}}', id="both wrong"),
        pytest.param(400, f"{_TABLES}/orders/commit", '{"snapshot":{"a":"', '"}}', id="snapshot"),
        pytest.param(200, f"{_TABLES}/orders/commit", "SNAPSHOT", "", id="commit"),
    ],
)
@pytest.mark.usefixtures("orders", "_no_collector")
def test_no_body_outlives_its_response(
    http: httpx.Client,
    address: str,
    snapshot: Callable[..., dict[str, object]],
    status: int,
    path: str,
    head: str,
    end: str,
) -> None:
    if head == "SNAPSHOT":
        # The catalog stores all of a snapshot, and its text must not be mistaken for the body.
        head = json.dumps({"baseSnapshotUuid": None, "snapshot": snapshot(1)})
        head, end = f'{head[:-1]},"statistics":null,"unknown":"', '"}'
    elif head == "TOO LARGE":
        head = "a" * 4 * MEGABYTE
    with closing(HTTPConnection(address.removeprefix("http://"))) as connection:
        content = _filled(head, end).encode()
        del head
        token = "wrong" if status == 401 else TOKEN
        assert _post(connection, path, content, token) == status
        del content
        assert _bodies(http) == []


@pytest.mark.usefixtures("_no_collector")
def test_no_body_outlives_an_unexpected_error(
    http: httpx.Client, address: str, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, options: object = None) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr(catalog.databases, "create", fail)
    with closing(HTTPConnection(address.removeprefix("http://"))) as connection:
        content = _filled('{"name":"', '"}').encode()
        assert _post(connection, _DATABASES, content, TOKEN) == 500
        del content
        assert _bodies(http) == []


@pytest.mark.xdist_group("processes")
def test_a_server_is_as_large_after_large_bodies_as_before(tmp_path: Path) -> None:
    settings = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path}/headwater.db",
        "warehouses": {"main": str(tmp_path / "main")},
        "tokens": [TOKEN],
        "management_tokens": ["manager"],
    }
    with ThreadPoolExecutor(9) as threads, ServerProcess(settings) as server:
        address = address_in(server.stderr).removeprefix("http://")
        threads.submit(server.stderr.read)

        def send(path: str) -> int:
            content = _WAREHOUSE[0].encode() + b"a" * LARGE + _WAREHOUSE[1].encode()
            with closing(HTTPConnection(address)) as connection:
                return _post(connection, path, content, TOKEN)

        assert send(_DATABASES) == 200
        before = _megabytes(server.pid)
        for path, status in ((_DATABASES, 409), (_WAREHOUSES, 403)):
            assert set(threads.map(send, [path] * 12)) == {status}
        assert _megabytes(server.pid) < before + 100


def _megabytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) // 1024
