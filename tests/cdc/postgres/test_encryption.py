"""Encrypted connections to PostgreSQL."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.conftest import postgresql_server

from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.storage.errors import Invalid, Unavailable

pytestmark = pytest.mark.postgresql

HOST = "127.0.0.1"


def write_certificate(folder: Path, name: str, host: str) -> None:
    """Write a certificate of its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
    key_path = folder / f"{name}.key"
    key_path.touch(0o600)
    key_path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates of the server, of another server, and of a client."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificate(folder, "server", HOST)
    write_certificate(folder, "other", HOST)
    write_certificate(folder, "client", HOST)
    return folder


@pytest.fixture(scope="module")
def url(certificates: Path) -> Iterator[str]:
    """A database of a server, which is not encrypted yet."""
    with postgresql_server() as server:
        yield f"{server}/postgres"


def encrypt(url: str, certificates: Path, name: str) -> None:
    """Let the server use a certificate."""
    with psycopg.connect(url, autocommit=True) as session:
        (data,) = session.execute("SHOW data_directory").fetchone() or ("",)
        for ending in ("pem", "key"):
            target = Path(data, f"server.{ending}")
            shutil.copy(certificates / f"{name}.{ending}", target)
            owner = Path(data).stat()
            os.chown(target, owner.st_uid, owner.st_gid)
        for setting in ("ssl = on", "ssl_cert_file = 'server.pem'", "ssl_key_file = 'server.key'"):
            session.execute(f"ALTER SYSTEM SET {setting}".encode())
        session.execute("SELECT pg_reload_conf()")
    # The server reads its files some time later.
    while True:
        with psycopg.connect(url, sslmode="prefer") as session:
            if session.pgconn.ssl_in_use:
                return


def is_encrypted(url: str, options: str) -> bool:
    """Whether a connection is encrypted."""
    with PostgresServer(Address.from_url(f"{url}?{options}")) as server:
        ((value,),) = server.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    return bool(value)


def test_what_is_encrypted_and_verified(url: str, certificates: Path) -> None:
    assert not is_encrypted(url, "")
    with pytest.raises(Unavailable, match="server does not support SSL, but SSL was required"):
        is_encrypted(url, "sslmode=require")
    encrypt(url, certificates, "server")
    ca, other = (f"sslrootcert={certificates}/{name}.pem" for name in ("server", "other"))
    assert not is_encrypted(url, "sslmode=disable")
    for options in ("", "sslmode=require", ca, f"sslmode=verify-full&{ca}"):
        assert is_encrypted(url, options), options
    for options in (other, f"sslmode=verify-full&{other}"):
        with pytest.raises(Unavailable, match="certificate verify failed"):
            is_encrypted(url, options)
    for name in ("nowhere.pem", "server.key"):
        with pytest.raises(Invalid, match=r"cannot use the files of the source at 127\.0\.0\.1"):
            is_encrypted(url, f"sslmode=verify-full&sslrootcert={certificates}/{name}")


def test_a_client_with_a_certificate(url: str, certificates: Path) -> None:
    encrypt(url, certificates, "server")
    files = f"sslmode=require&sslcert={certificates}/client.pem&sslkey={certificates}"
    assert is_encrypted(url, f"{files}/client.key")
    for key in ("other.key", "nowhere.key"):
        with pytest.raises(Invalid, match="name PEM files that can be read and belong together"):
            is_encrypted(url, f"{files}/{key}")


def test_a_certificate_of_another_host(url: str, certificates: Path) -> None:
    encrypt(url, certificates, "server")
    source = url.replace(HOST, "localhost")
    ca = f"sslrootcert={certificates}/server.pem"
    assert is_encrypted(source, ca)
    with pytest.raises(Unavailable, match="does not match host name"):
        is_encrypted(source, f"sslmode=verify-full&{ca}")
