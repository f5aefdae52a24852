"""Connections to database servers: who answers at a URL, and for how long silence is borne."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy.engine import make_url

from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.schema_state import create_missing_tables, revision_of
from headwater.storage.errors import Invalid
from headwater.storage.runtime import SYSTEM_RUNTIME


@contextmanager
def proxy(server: tuple[str, int], version: bytes) -> Iterator[int]:
    """Passes connections on to MariaDB or MySQL, but greets with a version of its own; its port."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(server) as behind, behind.makefile("rb") as stream:
                head = stream.read(4)
                greeting = stream.read(int.from_bytes(head[:3], "little"))
                said = greeting[:1] + version + greeting[greeting.index(b"\0") :]
                self.request.sendall(len(said).to_bytes(3, "little") + head[3:] + said)
                back = threading.Thread(target=_pass_on, args=(behind, self.request))
                back.start()
                _pass_on(self.request, behind)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Passing) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listener.server_address[1]
        finally:
            listener.shutdown()
            thread.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="asks Linux for its limits")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def test_a_machine_that_vanishes_is_not_waited_for_by_hours(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(f"new_{kind}_database")()
    engine = open_engine(url)
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        number = driver.fileno() if kind == "postgresql" else driver._sock.fileno()
        with socket.socket(fileno=os.dup(number)) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            asked = [
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            ]
            idle, interval, count = asked
            assert idle + interval * count <= 60
            assert 0 < sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 60_000
    engine.dispose()


@pytest.mark.mariadb
def test_a_proxy_may_greet_with_any_version(new_mariadb_database: Callable[[], str]) -> None:
    url = make_url(new_mariadb_database())
    assert url.host is not None
    assert url.port is not None
    with proxy((url.host, url.port), b"8.0.30") as port:
        for kind in ("mariadb", "mysql"):
            through = url.set(drivername=kind, port=port).render_as_string(hide_password=False)
            database = SqlDatabase(open_engine(through), SYSTEM_RUNTIME)
            if kind == "mysql":
                with pytest.raises(Invalid, match="write its URL as mariadb://"):
                    create_missing_tables(database)
            else:
                create_missing_tables(database)
                with database.read() as connection:
                    assert revision_of(connection) is not None
            database.close()
