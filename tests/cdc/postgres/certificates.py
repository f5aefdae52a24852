"""Servers of PostgreSQL that use a certificate."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.certificates import write_certificate
from tests.conftest import postgresql_server


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


@contextmanager
def encrypted_postgresql_server(folder: Path, *settings: str) -> Iterator[str]:
    """A `postgresql_server` whose connections are encrypted; a folder gets its certificate."""
    write_certificate(folder, "server")
    with postgresql_server(*settings) as url:
        encrypt(f"{url}/postgres", folder, "server")
        yield url
