"""How answers go out over the connection, whatever application makes them."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.server.connections import ConnectionLimits, Connections
from headwater.server.http_protocol import HttpProtocol

_OK = b"HTTP/1.1 200 OK\r\n"
LARGE = 64 * 1024 * 1024


class _Answers:
    """An application: what it answers is in the path."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.disconnected = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        match scope["path"].split("/")[1:]:
            case ["small", *_]:
                await _answer(send, scope["path"].encode())
            case ["large"]:
                await _answer(send, b"x" * LARGE)
            case ["echo"]:
                await _answer(send, (await receive())["body"])
            case ["parts"]:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send(_part(b"one", more=True))
                await asyncio.to_thread(self.goes_on.wait, 30)
                await send(_part(b"two", more=False))
            case ["late"]:
                while (await receive())["type"] != "http.disconnect":
                    pass
                await _answer(send, b"nobody hears it")
                self.disconnected.set()


async def _answer(send: Send, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send(_part(body, more=False))


def _part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


@pytest.fixture
def application() -> _Answers:
    return _Answers()


@pytest.fixture
def connect(application: ASGIApp) -> Iterator[Callable[[], socket.socket]]:
    """Opens connections to a server of the application."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=partial(HttpProtocol, connections=Connections(ConnectionLimits())),  # type: ignore[arg-type]
            lifespan="off",
            log_config=None,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield lambda: socket.create_connection(listener.getsockname(), timeout=30)
    server.should_exit = True
    thread.join()


def _ask(connection: socket.socket, path: str, *headers: str, body: bytes = b"") -> None:
    lines = [f"GET {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers]
    connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body)


def _until_closed(connection: socket.socket) -> bytes:
    received = bytearray()
    while part := connection.recv(1 << 20):
        received += part
    return bytes(received)


def _segments_received(connection: socket.socket) -> int:
    """How many segments with data came in: ``tcpi_data_segs_in`` of ``linux/tcp.h``."""
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    count: int = struct.unpack_from("=I", told, 152)[0]
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="counts segments as Linux tells of them")
def test_head_and_body_come_together(connect: Callable[[], socket.socket]) -> None:
    with closing(connect()) as connection:
        for turn in range(1, 11):
            _ask(connection, f"/small/{turn}")
            received = connection.recv(65536)
            assert received.startswith(_OK)
            assert received.endswith(f"\r\n\r\n/small/{turn}".encode())
            assert _segments_received(connection) == turn


def test_every_answer_comes_before_the_connection_closes(
    connect: Callable[[], socket.socket],
) -> None:
    with closing(connect()) as connection:
        _ask(connection, "/small/1")
        _ask(connection, "/small/2")
        _ask(connection, "/small/3", "Connection: close")
        received = _until_closed(connection)
    assert received.count(_OK) == 3
    assert received.index(b"/small/1") < received.index(b"/small/2")
    assert received.endswith(b"\r\n\r\n/small/3")


def test_a_part_is_not_kept_until_the_next(
    connect: Callable[[], socket.socket], application: _Answers
) -> None:
    with closing(connect()) as connection:
        _ask(connection, "/parts", "Connection: close")
        received = b""
        while b"one" not in received:
            received += connection.recv(65536)
        application.goes_on.set()
        assert _until_closed(connection).endswith(b"3\r\ntwo\r\n0\r\n\r\n")


def test_a_large_answer_waits_for_a_slow_reader(connect: Callable[[], socket.socket]) -> None:
    with closing(connect()) as connection:
        _ask(connection, "/large", "Connection: close")
        received = _until_closed(connection)
    assert received.endswith(b"\r\n\r\n" + b"x" * LARGE)


def test_a_client_that_asks_first_is_told_to_go_on(connect: Callable[[], socket.socket]) -> None:
    with closing(connect()) as connection:
        head = "POST /echo HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\nExpect: 100-continue\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert _until_closed(connection).endswith(b"\r\n\r\nbody")


def test_what_is_no_http_is_told_so(connect: Callable[[], socket.socket]) -> None:
    with closing(connect()) as connection:
        connection.sendall(b"this is no HTTP\r\n\r\n")
        assert _until_closed(connection).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_says_no_more_is_answered(connect: Callable[[], socket.socket]) -> None:
    for turn in range(10):
        with closing(connect()) as connection:
            _ask(connection, f"/small/{turn}")
            connection.shutdown(socket.SHUT_WR)
            assert _until_closed(connection).endswith(f"/small/{turn}".encode())


def test_a_client_that_has_gone_hurts_nobody(
    connect: Callable[[], socket.socket],
    application: _Answers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with closing(connect()) as connection:
        _ask(connection, "/late")
    assert application.disconnected.wait(30)
    with closing(connect()) as connection:
        _ask(connection, "/small/1", "Connection: close")
        assert _until_closed(connection).endswith(b"/small/1")
    assert not caplog.records
