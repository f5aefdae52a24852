"""Encrypted connections to servers, and a pipeline over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cdc.source_logs import SourceServer

from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.service.sources import source_address
from headwater.cdc.service.status import the_pipeline
from headwater.cdc.service.verify import verify
from headwater.client import connect
from headwater.storage.errors import Forbidden, Invalid, Unavailable


def url(source: SourceServer, options: str, login: str = "") -> str:
    address = source.address
    login = login or f"{address.user}:{address.password}"
    return f"mysql://{login}@{address.host}:{address.port}?{options}"


def cipher(text: str) -> str:
    """The cipher of a connection; empty where it is not encrypted."""
    with MySQLServer(Address.from_url(text)) as server:
        ((_, name),) = server.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    return str(name)


@pytest.fixture
def certificates(mysql: SourceServer) -> Path:
    """The folder of the certificates that MySQL makes for itself and for clients."""
    return mysql.folder / "data"


@pytest.mark.mysql
def test_what_is_encrypted_and_verified(
    mysql: SourceServer, certificates: Path, tmp_path: Path
) -> None:
    ca = f"ssl-ca={certificates}/ca.pem"
    assert cipher(url(mysql, "ssl-mode=disabled")) == ""
    for options in ("", "ssl-mode=preferred", "ssl-mode=REQUIRED", ca, f"ssl-mode=verify_ca&{ca}"):
        assert cipher(url(mysql, options)), options
    # The certificate names no host, and is not of an authority that the system has.
    for options in (f"ssl-mode=verify-identity&{ca}", "ssl-mode=verify-ca"):
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            cipher(url(mysql, options))
    with pytest.raises(Invalid, match=r"cannot use ssl-ca /nowhere\.pem"):
        cipher(url(mysql, "ssl-ca=/nowhere.pem"))
    (tmp_path / "not.pem").write_text("nothing")
    with pytest.raises(Invalid, match=r"cannot use ssl-ca .*not\.pem"):
        cipher(url(mysql, f"ssl-ca={tmp_path}/not.pem"))


@pytest.fixture
def certified_user(mysql: SourceServer) -> Iterator[str]:
    """A user who must show a certificate."""
    mysql.run_as_root("CREATE USER certified@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE X509")
    yield "certified:secret"
    mysql.run_as_root("DROP USER certified@'127.0.0.1'")


@pytest.mark.mysql
def test_a_client_with_a_certificate(
    mysql: SourceServer, certificates: Path, certified_user: str
) -> None:
    with pytest.raises(Forbidden, match="rejects user 'certified'"):
        cipher(url(mysql, "ssl-mode=required", certified_user))
    files = f"ssl-cert={certificates}/client-cert.pem&ssl-key={certificates}/client-key.pem"
    assert cipher(url(mysql, f"ssl-mode=required&{files}", certified_user))
    other = files.replace("client-key", "server-key")
    with pytest.raises(Invalid, match=r"cannot use ssl-cert .*client-cert.pem with ssl-key"):
        cipher(url(mysql, f"ssl-mode=required&{other}", certified_user))


@pytest.mark.mariadb
def test_a_server_without_encryption(mariadb: SourceServer) -> None:
    assert cipher(url(mariadb, "")) == ""
    with pytest.raises(Unavailable, match="SSL is required but the server doesn't support it"):
        cipher(url(mariadb, "ssl-mode=required"))


@pytest.mark.mysql
def test_a_pipeline_is_encrypted(mysql: SourceServer, certificates: Path, tmp_path: Path) -> None:
    mysql.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(20))",
        "INSERT INTO orders VALUES (1, 'pen'), (2, 'cup')",
    )
    source = url(mysql, f"ssl-mode=verify-ca&ssl-ca={certificates}/ca.pem")
    mysql.run_as_root("SET GLOBAL require_secure_transport = ON")
    try:
        with connect(tmp_path / "lake") as lake:
            lake.create_database("lake")
            include = f"{mysql.database}.*"
            assert lake.cdc.mysql(source=source, include=include, target="lake", once=True).wait()
            # The options are kept with the pipeline: other commands need the password alone.
            settings = the_pipeline(lake, None, None).started_with()
            assert "verify-ca" in settings.source
            address = source_address(settings.source, mysql.address.password)
            (verdict,) = verify(lake, address, settings)
            assert (verdict.is_equal, verdict.lake_rows) == (True, 2)
    finally:
        mysql.run_as_root("SET GLOBAL require_secure_transport = OFF")
        mysql.run(f"DROP DATABASE {mysql.database}")
