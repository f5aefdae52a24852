"""What a client may send and hold, and the answer to more than that."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests import plain_http
from tests.server.conftest import TOKEN

from headwater.catalog.sql import SqlCatalog

Serve = Callable[..., str]
Open = Callable[[str], socket.socket]

_COMMIT = "/v1/main/databases/sales/tables/orders/commit"
_HOST = b"host: localhost\r\n"


@pytest.fixture
def connect() -> Iterator[Open]:
    """Opens connections, which end with the test."""
    with ExitStack() as opened:

        def to(address: str) -> socket.socket:
            parts = urlsplit(address)
            where = (str(parts.hostname), parts.port or 80)
            return opened.enter_context(closing(socket.create_connection(where, timeout=60)))

        yield to


def _answer(connection: socket.socket) -> tuple[int, Mapping[str, str], bytes]:
    """The answer after which the server closes the connection."""
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def _is_error(connection: socket.socket, code: int, words: str) -> Mapping[str, str]:
    status, headers, body = _answer(connection)
    assert status == code
    assert headers["connection"] == "close"
    told = json.loads(body)
    assert set(told) == {"message", "resourceType", "resourceName", "code"}
    assert told["code"] == code
    assert words in told["message"]
    return headers


def _lives(address: str) -> None:
    answer = plain_http.get(f"{address}/healthz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def _request(method: str, path: str, *headers: str) -> bytes:
    given = [f"authorization: Bearer {TOKEN}", *headers]
    return f"{method} {path} HTTP/1.1\r\n".encode() + _HOST + "\r\n".join([*given, "", ""]).encode()


@pytest.mark.parametrize("path", ["/v1/main/databases", _COMMIT])
def test_a_body_that_announces_too_much_is_not_read(address: str, connect: Open, path: str) -> None:
    connection = connect(address)
    connection.sendall(_request("POST", path, "content-length: 104857600"))
    _is_error(connection, 413, "larger than the 16777216 bytes")


@pytest.mark.parametrize("path", ["/v1/main/databases", _COMMIT])
def test_a_body_that_is_sent_all_the_same_hides_no_answer(
    catalog: SqlCatalog, serve: Serve, connect: Open, path: str
) -> None:
    address = serve(catalog, tokens=[TOKEN], max_body_size="64 kb")
    connection = connect(address)
    connection.sendall(_request("POST", path, "content-length: 1048576"))
    connection.sendall(b" " * 1_048_576)
    connection.shutdown(socket.SHUT_WR)
    _is_error(connection, 413, "larger than the 65536 bytes")
    _lives(address)


def test_a_body_that_grows_too_large_is_read_no_further(
    catalog: SqlCatalog, serve: Serve, connect: Open
) -> None:
    address = serve(catalog, tokens=[TOKEN], max_body_size="64 kb")
    connection = connect(address)
    connection.sendall(_request("POST", "/v1/main/databases", "transfer-encoding: chunked"))
    connection.sendall(b"".join(b"1000\r\n" + b" " * 4096 + b"\r\n" for _ in range(17)))
    _is_error(connection, 413, "larger than the 65536 bytes")


def test_a_body_as_large_as_it_may_be_is_taken(catalog: SqlCatalog, serve: Serve) -> None:
    address = serve(catalog, max_body_size="4 kb")
    body = json.dumps({"name": "sales"}).encode()
    for size, status in ((4096, 200), (4097, 413)):
        answer = plain_http.post(f"{address}/v1/main/databases", content=body.ljust(size))
        assert answer.status_code == status
        assert "x-request-id" in answer.headers


def test_nobody_without_a_token_is_listened_to(address: str, connect: Open) -> None:
    connection = connect(address)
    connection.sendall(
        b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"content-length: 9999999\r\n"
        b"connection: close\r\n\r\n"
    )
    _is_error(connection, 401, "token")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nx: ",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /",
        b"\r\n" * 40_000,
        b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"authorization: Bearer a-token\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",
        b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"authorization: Bearer a-token\r\n"
        b"transfer-encoding: chunked\r\n\r\n1;x=",
    ],
)
def test_a_head_without_an_end_is_refused(address: str, connect: Open, head: bytes) -> None:
    connection = connect(address)
    line = b"y: " + b"z" * 97 + b"\r\n" if head.endswith(b"\r\n") else b"z" * 100
    # More than is read at once, several times over.
    connection.sendall(head + line * 20_000)
    connection.shutdown(socket.SHUT_WR)
    _is_error(connection, 431, "than this server takes" if b"chunked" in head else "65536 bytes")
    _lives(address)


def test_a_head_as_large_as_it_may_be_is_taken(
    catalog: SqlCatalog, serve: Serve, connect: Open
) -> None:
    address = serve(catalog, max_header_size="2 kb")
    for size, status in ((2048, 200), (2049, 431)):
        connection = connect(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The server listens to this connection by now, and so reads what follows in pieces.
        connection.sendall(_request("GET", "/healthz"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        head = b"GET /healthz HTTP/1.1\r\n" + _HOST + b"connection: close\r\nx: "
        whole = head + b"y" * (size - len(head) - 4) + b"\r\n\r\n"
        for at in range(size):
            connection.sendall(whole[at : at + 1])
        assert _answer(connection)[0] == status


def test_a_large_body_does_not_count_as_a_head(
    catalog: SqlCatalog, serve: Serve, connect: Open
) -> None:
    address = serve(catalog, max_header_size="2 kb")
    body = json.dumps({"name": "sales"}).encode().ljust(100_000)
    last = b"GET /healthz HTTP/1.1\r\n" + _HOST + b"connection: close\r\n\r\n"
    first = b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"content-length: 100000\r\n\r\n"
    connection = connect(address)
    connection.sendall(first + body + last)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nhost: loc",
        b"GET /healthz HTTP/1.1\r\n" + _HOST + b"\r\nGET",
        b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"content-length: 20\r\n\r\n{",
    ],
)
def test_a_request_that_does_not_go_on_is_told_so(
    catalog: SqlCatalog, serve: Serve, connect: Open, sent: bytes
) -> None:
    address = serve(catalog, header_timeout="200 ms")
    connection = connect(address)
    connection.sendall(sent)
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    *_, last = received.split(b"HTTP/1.1 ")
    assert last.startswith(b"408 ")
    assert json.loads(last.partition(b"\r\n\r\n")[2])["code"] == 408


def test_an_answer_may_take_longer_than_a_request_to_arrive(
    catalog: SqlCatalog, serve: Serve, connect: Open, tmp_path: Path
) -> None:
    connection = connect(serve(catalog, header_timeout="200 ms"))
    head = b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"content-length: 16\r\n"
    with closing(sqlite3.connect(tmp_path / "headwater.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        connection.sendall(head + b"expect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"name":"sales"}')
        # Neither an answer, nor the connection's end.
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            connection.recv(65536)
        other.execute("ROLLBACK")
    connection.settimeout(60)
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_a_connection_without_a_request_is_closed(
    catalog: SqlCatalog, serve: Serve, connect: Open
) -> None:
    address = serve(catalog, header_timeout="200 ms", idle_timeout="200 ms")
    silent, used = connect(address), connect(address)
    used.sendall(b"GET /healthz HTTP/1.1\r\n" + _HOST + b"\r\n")
    assert silent.recv(65536) == b""
    assert used.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert used.recv(65536) == b""


def _is_open(connection: socket.socket) -> bool:
    connection.sendall(b"GET /healthz HTTP/1.1\r\n" + _HOST + b"\r\n")
    try:
        return connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
    except ConnectionError:
        return False


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_client"])
def test_idle_connections_make_way(
    catalog: SqlCatalog, serve: Serve, connect: Open, limit: str
) -> None:
    address = serve(catalog, **{limit: 20})
    idle = [connect(address) for _ in range(300)]
    _lives(address)
    # The one that was asked something last stays longest.
    kept = connect(address)
    assert _is_open(kept)
    newer = [connect(address) for _ in range(19)]
    assert all(map(_is_open, newer))
    assert _is_open(kept)
    _lives(address)
    assert not _is_open(newer[0])
    assert _is_open(kept)
    assert not any(map(_is_open, idle))


def test_a_body_larger_than_a_head_may_be_keeps_its_connection(
    catalog: SqlCatalog, serve: Serve, connect: Open
) -> None:
    connection = connect(serve(catalog, max_header_size="1 kb"))
    for _ in range(2):
        head = b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST
        connection.sendall(head + b"expect: 100-continue\r\ncontent-length: 2000\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}" + b" " * 1998)
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" not in answer


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_client"])
def test_connections_beyond_the_limit_are_told_so(
    catalog: SqlCatalog, serve: Serve, connect: Open, limit: str
) -> None:
    address = serve(catalog, **{limit: 3})
    # Each has a request under way, of which the server waits for the rest.
    busy = [connect(address) for _ in range(3)]
    for connection in busy:
        connection.sendall(
            b"POST /v1/main/databases HTTP/1.1\r\n" + _HOST + b"expect: 100-continue\r\n"
            b"content-length: 2\r\n\r\n"
        )
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    for _ in range(3):
        refused = connect(address)
        headers = _is_error(refused, 503, "as many connections as it takes")
        assert headers["retry-after"] == "1"
    busy[0].sendall(b"{}")
    assert busy[0].recv(65536).startswith(b"HTTP/1.1 400 ")
    _lives(address)
