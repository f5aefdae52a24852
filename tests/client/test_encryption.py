"""A catalog behind HTTPS, whose certificate somebody vouches for or nobody does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.certificates import write_certificate

from headwater.client.rest import RestCatalog
from headwater.storage.errors import OutcomeUnknown, Unavailable


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine that vouches for itself; its key is beside it."""
    write_certificate(tmp_path, "server")
    return tmp_path / "server.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server behind HTTPS, and what it was sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    received: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(connection, server_side=True) as encrypted:
                    received.append(encrypted.recv(65536))
            except OSError:
                connection.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", received
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_server_that_nobody_vouches_for_is_sent_nothing(
    server: tuple[str, list[bytes]],
) -> None:
    address, received = server
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED") as refused:
        RestCatalog(address, retries=0).databases.list()
    assert not isinstance(refused.value, OutcomeUnknown)
    assert received == []
