"""A catalog behind HTTPS, whose certificate somebody vouches for or nobody does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headwater.client.rest import RestCatalog
from headwater.storage.errors import OutcomeUnknown, Unavailable


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine that vouches for itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "server.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture
def server(certificate: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server behind HTTPS, and what it was sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
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
