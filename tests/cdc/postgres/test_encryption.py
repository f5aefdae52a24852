"""Encrypted connections to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cdc.postgres.certificates import encrypt
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.certificates import HOST, write_certificate
from tests.conftest import postgresql_server

from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.client import Lake
from headwater.storage.errors import Invalid, Unavailable

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates of the server, of another server, and of a client."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificate(folder, "server")
    write_certificate(folder, "other")
    write_certificate(folder, "client")
    return folder


@pytest.fixture(scope="module")
def url(certificates: Path) -> Iterator[str]:
    """A database of a server, which is not encrypted yet."""
    with postgresql_server() as server:
        yield f"{server}/postgres"


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


def test_a_pipeline_over_each_connection(any_postgres: PostgresDatabase, lake: Lake) -> None:
    """Values that are longer than what is read at once, and many short ones."""
    follower = Follower(any_postgres, lake)
    any_postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    follower.once()
    any_postgres.run(
        "INSERT INTO t SELECT n, repeat('d', n % 400) FROM generate_series(1, 30000) n",
        "INSERT INTO t SELECT -n, repeat(chr(97 + n), n * 700000) FROM generate_series(1, 5) n",
        "UPDATE t SET v = v || 'w' WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
    )
    follower.once()
    follower.check("t")
